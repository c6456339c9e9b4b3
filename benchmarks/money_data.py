"""Tables for ``money``: a fleet's pods with labels, who held what, the rows of usage of a month and what they cost.

The same numbers give the same bytes. Here does not belong what is measured.
"""

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from allocation.frame_rows import LAST_ORDINAL
from allocation.money import nanos_column
from allocation.owner_mapping import ALWAYS, OwnerMapping
from allocation.owner_rules import Rule
from allocation.owners import Owners
from allocation.schemas import PODS
from allocation.times import DAY_MS, HOUR_MS, time_column
from allocation.wide import to_decimal_column

Int64 = npt.NDArray[np.int64]
START_MS = 20_727 * 24 * HOUR_MS
NAMESPACES, TEAMS, MODELS = 400, 40, 60
TEXT = pa.string()
HELD, FRAME = 10, 25
"""Rows of a table to a holder, and to a frame of it."""
LABELS = ("team", "modelName", "app", "pod_template_hash", "controller_uid")


def words(stem: str, numbers: Int64) -> pa.Array:
    """Texts of a stem and a number."""
    distinct, codes = np.unique(numbers, return_inverse=True)
    return pa.array([f"{stem}-{n:x}" for n in distinct], TEXT).take(pa.array(codes))


def inventory(count: int) -> pa.Table:
    """Table ``pods``: pods of 400 namespaces with five labels each, one in ten without a team's."""
    rng = np.random.default_rng(11)
    every = np.arange(count)
    drawn = (rng.integers(0, many, count) for many in (TEAMS, MODELS, 900))
    said = np.stack([*drawn, every // 4, every])
    said[0, rng.random(count) < 0.1] = -1
    values = np.concatenate([words(name, said[k]).to_numpy(zero_copy_only=False) for k, name in enumerate(LABELS)])
    by_pod = np.arange(len(LABELS) * count).reshape(len(LABELS), count).T.ravel()
    there = said.T.ravel() >= 0
    offsets = np.concatenate(([0], np.cumsum(there.reshape(count, -1).sum(axis=1)))).astype(np.int32)
    keys = pa.array(LABELS, TEXT).take(pa.array(np.tile(np.arange(len(LABELS)), count)[there]))
    labels = pa.MapArray.from_arrays(offsets, keys, pa.array(values[by_pod][there], TEXT))
    none = pa.MapArray.from_arrays(np.zeros(count + 1, np.int32), pa.array([], TEXT), pa.array([], TEXT))
    space = every % NAMESPACES
    once = pa.array(np.arange(count + 1), pa.int32())
    of_space = pa.MapArray.from_arrays(once, pa.repeat("team", count), words("team", space % TEAMS))
    columns: dict[str, object] = {column.name: pa.nulls(count, column.type) for column in PODS.columns}
    columns |= {"namespace": words("space", space), "pod": words("pod", every), "pod_uid": words("uid", every)}
    columns |= {"labels_from": time_column(every * 0), "seen_from": time_column(every * 0 + START_MS)}
    columns |= {"seen_until": time_column(every * 0 + START_MS + 24 * HOUR_MS)}
    columns |= {"workload_kind": words("Kind", every % 3), "workload_name": words("work", every // 4)}
    columns |= {"labels": labels, "annotations": none, "namespace_labels": of_space}
    return pa.table({name: columns[name] for name in PODS.names}, schema=pa.schema([(c.name, c.type) for c in PODS.columns]))


def holders(pods: pa.Table, count: int) -> pd.DataFrame:
    """So many holders: the pods, hour by hour, and one row of a bucket in twenty."""
    rng = np.random.default_rng(12)
    pod, hour = np.arange(count) % len(pods), np.arange(count) // len(pods)
    frame = pods.select(["namespace", "pod", "pod_uid"]).take(pa.array(pod)).to_pandas().astype("object")
    idle = rng.random(count) < 0.05
    frame.loc[idle, ["namespace", "pod", "pod_uid"]] = ""
    start = START_MS + hour * HOUR_MS
    bucket = np.where(idle, "idle", "workload").astype(object)
    return frame.assign(bucket=bucket, start_ms=start, end_ms=start + HOUR_MS, cluster="c")


def owners_of() -> Owners:
    """Rules, sources and a mapping as a company may have them."""
    rules = (
        Rule({"namespace": "space-1*"}, {"team": "research"}, None, START_MS),
        Rule({}, {"team": "{team}"}, match_regex={"namespace": r"^space-(?P<team>f[0-9a-f])$"}),
    )
    teams = np.array([f"team-{n:x}" for n in range(TEAMS)] + ["*"], object)
    centers = np.array([f"cc{n}" for n in range(len(teams))], object)
    ever = (np.full(len(teams), moment) for moment in ALWAYS)
    mapping = OwnerMapping({"team": teams}, {"cost_center": centers}, np.arange(1, len(teams) + 1), *ever, "")
    sources = {"team": ("label:team", "namespace_label:team", "namespace"), "model": ("label:modelName", "label:app")}
    return Owners({**sources, "cost_center": ("mapping",)}, rules, {"idle": {"team": "platform"}}, mapping)


def frames(rows: int) -> tuple[pa.Table, Int64, Int64, Int64]:
    """What ``apportion`` reads of table ``usage``, with a line for each frame: its cost, first row, and one past the last.

    A frame has 8 GPUs with three rows each, and the host.
    """
    rng = np.random.default_rng(13)
    count = rows // FRAME
    gpu = np.tile(np.append(np.arange(FRAME - 1) // 3, LAST_ORDINAL), count).astype(np.int32)
    none = np.zeros(len(gpu), np.int64)
    sizes = {"gpu_weight": none + 80 * 2**30 * HOUR_MS, "device_weight": none + 1, "unmeasured_weight": none}
    for name in ("used_byte_ms", "overhead_byte_ms", "idle_byte_ms"):
        sizes[name] = rng.integers(1, 25 * 2**30 * HOUR_MS, len(gpu))
    columns = {name: to_decimal_column(none, size) for name, size in sizes.items()}
    first = np.arange(count) * FRAME
    return pa.table({"gpu_ordinal": gpu, "device_ordinal": gpu, **columns}), rng.integers(1, 10**12, count), first, first + FRAME


def charges(nanos: Int64) -> pa.Table:
    """What ``team_model`` reads of table ``chargeback``, for used, overhead and idle nanos, shape (rows, 3)."""
    rng = np.random.default_rng(14)
    rows = len(nanos)
    columns: dict[str, object] = {
        name: pa.repeat(text, rows) for name, text in (("cost_metric", "effective"), ("currency", "USD"))
    }
    columns["billing_period"] = pa.repeat(pa.scalar(START_MS // DAY_MS, pa.int32()), rows).cast(pa.date32())
    for name, many in (("team", TEAMS), ("model", MODELS), ("bucket", 6)):
        columns[name] = words(name, rng.integers(0, many, rows))
    kinds = ("used", "overhead", "idle")
    columns |= {f"{kind}_cost": nanos_column(np.ascontiguousarray(nanos[:, k])) for k, kind in enumerate(kinds)}
    columns |= {"cost": nanos_column(nanos.sum(axis=1)), **{f"{kind}_gib_seconds": rng.random(rows) for kind in kinds}}
    return pa.table(columns)
