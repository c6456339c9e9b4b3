"""Who holds rows of usage: the distinct holders and buckets in their periods, for whom owners are asked once.

Here does not belong who owns them (``owners``).
"""

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from allocation.coded import coded, combined, numbered

Int64 = npt.NDArray[np.int64]
_TEXTS = ("bucket", "namespace", "pod", "pod_uid", "node")


def holders_of(usage: pa.Table, start_ms: Int64, end_ms: Int64, cluster: str) -> tuple[pd.DataFrame, Int64]:
    """The distinct holders in order of appearance, and the number of each row's.

    Args:
        usage: rows with ``bucket``, ``namespace``, ``pod``, ``pod_uid``, ``node``; null and empty are the same.
        start_ms: the start of each row's period.
        end_ms: its end.
        cluster: the cluster's name, for all.

    Returns:
        A frame with these columns (object, empty for none), ``start_ms``, ``end_ms`` and ``cluster``; and a number a row.
    """
    texts = {name: coded(usage[name]) for name in _TEXTS}
    times = [pd.factorize(ms) for ms in (start_ms, end_ms)]
    parts = [(text.codes, len(text.values)) for text in texts.values()]
    number, first = numbered(combined([*parts, *((codes.astype(np.int64), len(known)) for codes, known in times)]))
    holders = {name: pd.Series(text._replace(codes=text.codes[first]).texts(""), dtype=object) for name, text in texts.items()}
    return pd.DataFrame(holders).assign(start_ms=start_ms[first], end_ms=end_ms[first], cluster=cluster), number
