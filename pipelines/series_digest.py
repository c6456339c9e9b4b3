"""What passes by of series on their way into the store: a fingerprint, nodes, GPU models, findings, how much device time.

All of it is the same wherever shards begin. Here does not belong where series come from or are kept (``samples``).
"""

import hashlib
import json
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from allocation.findings import Finding, as_json
from allocation.schemas import SAMPLES
from pipelines.settings import PolicyEntry


class Told:
    """What the marker of ``samples`` will say."""

    def __init__(self, policy: PolicyEntry) -> None:
        self._policy = policy
        self._digest, self._nodes, self._models = Digest(), set[str](), set[tuple[str, str]]()
        self.findings = list[Finding]()
        self.known_seconds = 0.0

    def add(self, samples: pa.Table, findings: Iterable[Finding]) -> None:
        """One shard more."""
        self._digest.add(samples)
        self._nodes.update(samples["node"].unique().to_pylist())
        pairs = samples.select(["node", "gpu_model"]).group_by(["node", "gpu_model"]).aggregate([])
        self._models.update(zip(pairs["node"].to_pylist(), pairs["gpu_model"].to_pylist(), strict=True))
        self.findings.extend(findings)
        self.known_seconds += known_seconds(samples, self._policy.max_hold, self._policy.max_gap)

    def detail(self, query: str, profiles: list[list[str]]) -> dict[str, object]:
        """What is said of all shards."""
        return {
            "query": query,
            "fingerprint": self._digest.text(profiles),
            "profiles": profiles,
            "nodes": sorted(self._nodes),
            "models": sorted({model for _, model in self._models} - {""}),
            "node_models": [[node, model] for node, model in sorted(self._models) if model],
            "findings": [as_json(f) for f in self.findings],
            "known_seconds": round(self.known_seconds, 3),
        }


def known_seconds(samples: pa.Table, max_hold_ms: int, max_gap_ms: int) -> float:
    """How much device time samples tell, by the times of all series of a device together: gaps up to ``max_gap`` count."""
    if not len(samples):
        return 0.0
    lists = samples.column("timestamps_ms").combine_chunks()
    keys = samples.select(["node", "gpu_uuid", "gpu_instance"]).to_pandas()
    device = np.repeat(keys.groupby(list(keys.columns), sort=False).ngroup().to_numpy(), lists.value_lengths().to_numpy())
    ts = lists.flatten().to_numpy()
    order = np.lexsort((ts, device))
    gap = np.diff(ts[order], append=np.iinfo(np.int64).max)
    apart = np.diff(device[order], append=-1) != 0
    held = np.where(apart | (gap > max_gap_ms), max_hold_ms, gap)
    return float(held.sum()) / 1000


def fingerprint(table: pa.Table) -> str:
    """A hash of a table of series."""
    digest = Digest(table.column_names)
    digest.add(table)
    return digest.text()


class Digest:
    """A fingerprint of series that does not depend on where shards begin."""

    def __init__(self, names: Sequence[str] = tuple(SAMPLES.names)) -> None:
        self._names = names
        self._columns = {name: hashlib.sha256() for name in names}
        self._lengths = {name: hashlib.sha256() for name in names}

    def add(self, samples: pa.Table) -> None:
        """More series."""
        for name in self._names:
            column = samples.column(name).combine_chunks()
            if pa.types.is_list(column.type):
                lengths, content = column.value_lengths(), column.flatten().to_numpy()
            else:
                text = column.cast(pa.string())
                lengths, content = pc.binary_length(text), "".join(text.to_pylist()).encode()
            self._lengths[name].update(lengths.to_numpy().tobytes())
            self._columns[name].update(content if isinstance(content, bytes) else content.tobytes())

    def text(self, profiles: Sequence[Sequence[str]] = ()) -> str:
        """The fingerprint of what was added, as these profiles read it."""
        whole = hashlib.sha256(json.dumps(profiles).encode())
        for digest in (*self._columns.values(), *self._lengths.values()):
            whole.update(digest.digest())
        return whole.hexdigest()
