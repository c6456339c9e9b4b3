"""A column of maps from texts to texts, of which one key after the other is read.

Here does not belong how a key is spelt or what it means.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from allocation.coded import Coded, coded, nothing

Int64 = npt.NDArray[np.int64]


class TextMaps:
    """The entries of the maps, their keys read once."""

    def __init__(self, maps: pa.Array) -> None:
        self._rows = len(maps)
        offsets = maps.offsets.to_numpy().astype(np.int64)
        begin, end = int(offsets[0]), int(offsets[-1])
        keys = maps.keys.slice(begin, end - begin).dictionary_encode()
        self._items = maps.items.slice(begin, end - begin)
        self._row = np.repeat(np.arange(self._rows), np.diff(offsets))
        self._key = keys.indices.to_numpy()
        self._number = {name: number for number, name in enumerate(keys.dictionary.to_pylist())}

    def of(self, key: str) -> Coded:
        """The text under a key in each map, the first where the key is there twice."""
        if key not in self._number:
            return nothing(self._rows)
        entries = np.flatnonzero(self._key == self._number[key])
        place = np.full(self._rows, -1, np.int64)
        place[self._row[entries][::-1]] = np.arange(len(entries))[::-1]
        return coded(self._items.take(pa.array(entries))).at(place)
