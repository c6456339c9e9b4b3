"""An Arrow column of texts as the flat arrays that compiled code reads."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from allocation.compiled import read_only


def text_buffers(texts: pa.Array) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """The offsets and the bytes of texts without nulls."""
    _, offsets, data = texts.buffers()
    places = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1] if offsets else np.zeros(1, np.int32)
    return read_only(places), read_only(np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8))
