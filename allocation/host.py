"""The host's part of a machine's price over the pods on it, by what they requested of CPU and memory (R48).

Half of the part goes by CPU, half by memory, each against what the machine can give away (allocatable) in its time; what nobody
requested stays in bucket ``host``. All of it is one division by largest remainder, so only weights are made here. Here does not
belong how requests and allocatable come out of the inventory.
"""

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from allocation import wide
from allocation.compiled import kernel, read_only
from allocation.findings import Code, Finding, Severity
from allocation.schemas import USAGE, conform
from allocation.times import from_ms, milliseconds

Int64 = npt.NDArray[np.int64]
HOST_BUCKET = "host"
BASIS = "estimated_requests"
LARGEST = float(1 << 120)
"""Weights of one part add up to less."""
_POD = ["namespace", "pod", "pod_uid"]
_FRAME = ["node_key", "start_ms", "end_ms"]
_ASKED = {"requested_cpu_milli": "allocatable_cpu_milli", "requested_memory_bytes": "allocatable_memory_bytes"}


def by_requests(
    usage: pa.Table, nodes: pd.DataFrame, pods: pd.DataFrame, periods: pd.DataFrame, max_hold_ms: int
) -> tuple[pa.Table, list[Finding]]:
    """The table ``usage`` with the host's part of each frame given to the pods that requested it.

    A pod's part is a row of bucket ``workload`` before the host's own, in order of namespace, pod and uid, with no device, no
    byte-time and basis ``estimated_requests``. Where the requests are more than the machine can give, they share all of it.

    Args:
        usage: table ``usage``, in order of division.
        nodes: ``node``, ``node_key``, ``from_ms``, ``until_ms``, ``allocatable_cpu_milli``, ``allocatable_memory_bytes`` (NaN:
            unknown, that half stays with the host).
        pods: ``namespace``, ``pod``, ``pod_uid``, ``node``, ``seen_ms``, ``seen_until_ms``, ``started_ms``, ``ended_ms``,
            ``requested_cpu_milli``, ``requested_memory_bytes`` (NaN: none or unknown).
        periods: one row a frame: ``node_key``, ``start_ms``, ``end_ms``, ``expected_ms``.
        max_hold_ms: how long a pod of unknown end lives after its last sight.
    """
    frames = _host_frames(usage, nodes, periods)
    asking = pods.drop_duplicates(_POD)
    asking = asking[(asking[list(_ASKED)] > 0).any(axis=1)]
    if not len(frames) or not len(asking):
        return usage, []
    claims = _claims(asking, nodes, frames, max_hold_ms)
    offsets = np.searchsorted(claims.frame.to_numpy(np.int64), np.arange(len(frames) + 1)).astype(np.int64)
    asked, given = (table[list(names)].fillna(0).to_numpy(np.int64) for table, names in
                    ((claims, _ASKED), (frames, _ASKED.values())))  # fmt: skip
    lived, expected = claims.ms.to_numpy(np.int64), frames.expected_ms.to_numpy(np.int64)
    high, low, rest, fits = _weigh(*map(read_only, (offsets, asked, lived, given, expected)))
    claimed = np.diff(offsets) > 0
    found = _findings(frames[claimed], fits[claimed])
    return _with_pods(usage, frames, claims, wide.to_decimal_column(high, low), rest), found


def _host_frames(usage: pa.Table, nodes: pd.DataFrame, periods: pd.DataFrame) -> pd.DataFrame:
    """The frames that leave a part to the host: its row of ``usage``, the expected time, and what the machine can give."""
    row = np.flatnonzero(pc.equal(usage["bucket"], HOST_BUCKET).to_numpy(zero_copy_only=False))
    mine = usage.select(["node", "node_key", "period_start", "period_end"]).take(pa.array(row))
    frames = pd.DataFrame(
        {
            "row": row,
            "node_name": mine["node"].to_pandas(),
            "node_key": mine["node_key"].to_pandas(),
            "start_ms": milliseconds(mine["period_start"]),
            "end_ms": milliseconds(mine["period_end"]),
        }
    )
    frames = frames.merge(periods[[*_FRAME, "expected_ms"]], on=_FRAME, how="left").assign(frame=np.arange(len(row)))
    stays = frames[["frame", *_FRAME]].merge(nodes[["node_key", "from_ms", "until_ms", *_ASKED.values()]], on="node_key")
    stays = stays[(stays.from_ms < stays.end_ms) & (stays.start_ms < stays.until_ms)].sort_values("from_ms")
    return frames.join(stays.groupby("frame")[list(_ASKED.values())].last(), on="frame")


def _claims(asking: pd.DataFrame, nodes: pd.DataFrame, frames: pd.DataFrame, max_hold_ms: int) -> pd.DataFrame:
    """One row a frame and pod that lives in it, in order of division: ``frame``, the pod, what it asks for, ``ms`` (of life)."""
    lives = asking.assign(
        born_ms=asking.started_ms.fillna(asking.seen_ms),
        gone_ms=asking.ended_ms.fillna(asking.seen_until_ms + max_hold_ms),
    )
    lives = lives.merge(nodes[["node", "node_key", "from_ms", "until_ms"]], on="node").merge(
        frames[["frame", *_FRAME]], on="node_key"
    )
    begin = np.maximum(np.maximum(lives.born_ms, lives.from_ms), lives.start_ms)
    lives["ms"] = (np.minimum(np.minimum(lives.gone_ms, lives.until_ms), lives.end_ms) - begin).astype("int64")
    lives = lives[lives.ms > 0]
    key = ["frame", *_POD]
    return lives.groupby(key, as_index=False, sort=True).agg({**dict.fromkeys(_ASKED, "first"), "ms": "sum"})


@kernel
def _weigh(offsets: Int64, asked: Int64, ms: Int64, given: Int64, expected: Int64) -> tuple[Int64, Int64, Int64, Int64]:
    """Wide weights of each frame's pods and of what is left of its host's part.

    With c and C a pod's and all CPU-time, m and M its and all memory-time, a pod weighs c x M + m x C of 2 x C x M. All is what
    the machine can give in its expected time, or what was asked for where that is more; a resource of which that is unknown
    weighs nothing.

    Args:
        offsets: where each frame's pods begin.
        asked: of each pod, millicores and bytes.
        ms: life of each pod in the frame.
        given: of each frame, allocatable millicores and bytes; 0 where unknown.
        expected: of each frame, ms.

    Returns:
        High and low words of the pods' weights, those of the rest (shape (frames, 2)), and 1 for each frame whose weights fit.
    """
    high, low = np.zeros(len(ms), np.int64), np.zeros(len(ms), np.int64)
    rest, fits = np.zeros((len(expected), 2), np.int64), np.ones(len(expected), np.int64)
    for f in range(len(expected)):
        first, last = offsets[f], offsets[f + 1]
        cpu, (mh, ml) = 0, (0, 0)
        for i in range(first, last):
            cpu += asked[i, 0] * ms[i]
            ph, pl = wide.multiply(asked[i, 1], ms[i])
            mh, ml = wide.add(mh, ml, ph, pl)
        all_cpu = max(cpu, given[f, 0] * expected[f]) if given[f, 0] > 0 else 0
        th, tl = wide.multiply(given[f, 1], expected[f])
        if given[f, 1] <= 0:
            th, tl = 0, 0
        elif wide.less(th, tl, mh, ml):
            th, tl = mh, ml
        by_cpu, by_memory = all_cpu > 0, th > 0 or tl > 0
        all_cpu, tl = max(all_cpu, 1), tl if by_memory else 1
        rest[f, 1] = 1
        if 2.0 * float(all_cpu) * (float(th) * float(1 << wide.BITS) + float(tl)) > LARGEST or all_cpu >= 1 << 60:
            fits[f] = 0
            continue
        rest[f, 0], rest[f, 1] = wide.product(th, tl, 2 * all_cpu)
        for i in range(first, last):
            if by_cpu:
                high[i], low[i] = wide.product(th, tl, asked[i, 0] * ms[i])
            if by_memory:
                ph, pl = wide.multiply(asked[i, 1], ms[i])
                ph, pl = wide.product(ph, pl, all_cpu)
                high[i], low[i] = wide.add(high[i], low[i], ph, pl)
            rest[f, 0], rest[f, 1] = wide.subtract(rest[f, 0], rest[f, 1], high[i], low[i])
    return high, low, rest, fits


def _with_pods(usage: pa.Table, frames: pd.DataFrame, claims: pd.DataFrame, weight: pa.Array, rest: Int64) -> pa.Table:
    """The rows of pods before their host's row, which keeps what is left; a row without weight is left out."""
    host, count = frames.row.to_numpy(np.int64), len(claims)
    of_host = host[claims.frame.to_numpy(np.int64)]
    mine = usage.take(pa.array(of_host))
    told: dict[str, object] = {
        name: pa.array(claims[name].astype("object").where(claims[name] != "", None), pa.string()) for name in _POD
    }
    told |= {"bucket": pa.repeat("workload", count), "basis": pa.repeat(BASIS, count), "reason": pa.nulls(count, pa.string())}
    told |= {"observed_ms": pa.array(np.zeros(count, np.int64)), "imputed_ms": pa.array(np.zeros(count, np.int64))}
    told["unmeasured_weight"] = weight
    pods = conform(pa.table({name: told.get(name, mine[name]) for name in USAGE.names}), USAGE, source="host")
    left = np.stack(wide.from_decimal_column(usage["unmeasured_weight"]), axis=1)
    left[host] = rest
    at = usage.column_names.index("unmeasured_weight")
    usage = usage.set_column(at, USAGE.arrow().field(at), wide.to_decimal_column(*np.ascontiguousarray(left.T)))
    kept = np.ones(len(usage), np.bool_)
    kept[host] = rest.any(axis=1)
    place = np.concatenate((2 * np.flatnonzero(kept) + 1, 2 * of_host))
    order = np.argsort(place, kind="stable")
    return pa.concat_tables([usage.filter(pa.array(kept)), pods]).take(pa.array(order)).combine_chunks()


_WHY = np.array(
    [
        "the requests add up to more than a machine can have; nothing of the host's part is divided",
        *(
            f"no kube_node_status_allocatable says how much {what} the node can give; that part stays in bucket host"
            for what in ("cpu", "memory", "cpu and memory")
        ),
    ],
    object,
)


def _findings(frames: pd.DataFrame, fits: Int64) -> list[Finding]:
    """One finding a node and reason for which a half or all of the host's part could not be divided over those who asked."""
    missing = frames[list(_ASKED.values())].fillna(0).to_numpy() <= 0
    which = np.where(fits == 0, 0, missing @ np.array([1, 2]))
    told = frames.assign(which=which)[(fits == 0) | missing.any(axis=1)]
    return [
        Finding(
            Code.HOST_NOT_DIVIDED,
            Severity.WARNING,
            str(node),
            str(_WHY[int(reason)]),
            (from_ms(int(rows.start_ms.min())), from_ms(int(rows.end_ms.max()))),
            len(rows),
        )
        for (node, reason), rows in told.groupby(["node_name", "which"])
    ]
