"""How much the counters of model servers grew in a period: resets, replicas and holes.

The growth of a series at a sample is what it rose since the sample before; it belongs to the period in which the sample lies
(half-open), so the growths of two adjacent periods add up to that of both. A counter that falls began anew: its new value is the
growth. The first sample of a series, and one after a hole of more than ``max_gap``, count nothing. Here does not belong what the
growth is worth (``model_split``).
"""

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from allocation.compiled import kernel
from allocation.lookup import in_order, rows_before

Int64 = npt.NDArray[np.int64]
LIMIT = 2**53
"""Values from here on are no whole numbers in a sample and no counts."""
GROUP = ("namespace", "pod", "pod_uid", "server", "model", "kind")
"""Series that differ in nothing of these add up."""


ON, FIRST, HOLE, RESET = range(4)
"""How a sample stands to the one before it: the counter goes on, it is the first, nothing was known between, it began anew."""


@kernel
def _growth(
    series: Int64, replica: Int64, times: Int64, values: Int64, replicas: int, max_gap: int
) -> tuple[Int64, Int64, Int64]:
    """The growth at each sample, where the counter then stands, and how it began; samples are in order of series, then time.

    Copies of one series (``replica``, below ``replicas``) are read as one: what any of them shows first counts, and the
    counter began anew only when one copy falls below its own last value. A copy that still shows the time before counts nothing.
    """
    grown, stands, began = np.zeros(len(times), np.int64), np.zeros(len(times), np.int64), np.zeros(len(times), np.int64)
    last, seen, life = np.zeros(replicas, np.int64), np.zeros(replicas, np.int64), np.zeros(replicas, np.int64)
    newest, top, led = 0, 0, 0
    for i in range(len(times)):
        r, t, v = replica[i], times[i], values[i]
        if i == 0 or series[i] != series[i - 1] or t - times[i - 1] > max_gap:
            life[:] = -1
            newest, top, led = 0, v, t
            began[i] = FIRST if i == 0 or series[i] != series[i - 1] else HOLE
        if life[r] < 0 or t - seen[r] > max_gap:
            life[r] = newest
        elif v < last[r]:
            life[r] += 1
        if life[r] < newest and t - led > max_gap:
            life[r], top, began[i] = newest, v, HOLE
        if life[r] > newest:
            newest, top, grown[i], began[i] = life[r], v, v, RESET
        elif life[r] == newest and v > top:
            grown[i], top = v - top, v
        if life[r] == newest:
            led = t
        last[r], seen[r], stands[i] = v, t, top
    return grown, stands, began


def steps(counters: pa.Table, max_gap_ms: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Each counter's samples one after the other, its copies read as one.

    Returns:
        The names of each row of ``counters`` with ``series`` and ``group``, the numbers of its distinct GROUP and ``instance``
        and of its distinct GROUP; and the samples: ``series``, ``group``, ``ms``, ``grown``, ``stands`` (the counter's value once
        the sample is read), ``began`` (ON, FIRST, HOLE or RESET), sorted by series and time.
    """
    names = counters.drop_columns(["timestamps_ms", "values"]).to_pandas()
    names = names.assign(series=_numbers(names, [*GROUP, "instance"]), group=_numbers(names, list(GROUP)))
    lengths = counters["timestamps_ms"].combine_chunks().value_lengths().to_numpy()
    series, group = (np.repeat(names[c].to_numpy(), lengths) for c in ("series", "group"))
    replica = np.repeat(_numbers(names, ["replica"]), lengths)
    times, values = (counters[c].combine_chunks().flatten().to_numpy() for c in ("timestamps_ms", "values"))
    order = in_order((values, replica, times, series))
    series, replica, group, times, values = (a[order] for a in (series, replica, group, times, values))
    stays = np.ones(len(times), np.bool_)
    stays[:-1] = (series[1:] != series[:-1]) | (times[1:] != times[:-1]) | (replica[1:] != replica[:-1])
    series, replica, group, times, values = (a[stays] for a in (series, replica, group, times, values))
    grown, stands, began = _growth(series, replica, times, values, int(replica.max(initial=0)) + 1, max_gap_ms)
    told = {"series": series, "group": group, "ms": times, "grown": grown, "stands": stands, "began": began}
    return names, pd.DataFrame(told)


def growth(counters: pa.Table, max_gap_ms: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The distinct GROUPs, and each sample's growth: ``group`` (its number), ``ms``, ``grown``, sorted by group and time."""
    names, samples = steps(counters, max_gap_ms)
    group, times = samples.group.to_numpy(), samples.ms.to_numpy()
    order = in_order((times, group))
    ordered = {"group": group[order], "ms": times[order], "grown": samples.grown.to_numpy()[order]}
    return names[list(GROUP)].drop_duplicates(ignore_index=True), pd.DataFrame(ordered)


def holes(counters: pa.Table, max_gap_ms: int) -> pd.DataFrame:
    """Where a counter was silent for longer than ``max_gap`` and had grown after it: that growth is in no period.

    Returns:
        One row a hole of a series: GROUP, ``from_ms`` and ``until_ms`` (the samples around it), ``lost`` (whole units; of a
        counter that began anew what it shows after the hole).
    """
    names, samples = steps(counters, max_gap_ms)
    before = samples.shift()
    silent = (samples.series == before.series) & (samples.ms - before.ms > max_gap_ms)
    rise = samples.stands - before.stands
    told = pd.DataFrame(
        {"group": samples.group, "from_ms": before.ms, "until_ms": samples.ms, "lost": rise.where(rise >= 0, samples.stands)}
    )
    told = told[silent & (told.lost > 0)].astype("int64")
    groups = names[list(GROUP)].drop_duplicates(ignore_index=True)
    return groups.iloc[told.group].reset_index(drop=True).join(told.drop(columns="group").reset_index(drop=True))


def _numbers(names: pd.DataFrame, columns: list[str]) -> Int64:
    numbers: Int64 = names.groupby(columns, sort=False).ngroup().to_numpy(np.int64)
    return numbers


def increases(counters: pa.Table, periods: pd.DataFrame, max_gap_ms: int) -> pd.DataFrame:
    """How much each counter of each pod grew in each period that is asked for, in whole units.

    Args:
        counters: table ``counters``.
        periods: ``namespace``, ``pod``, ``pod_uid`` (empty where unknown), ``start_ms``, ``end_ms``.
        max_gap_ms: beyond it nothing is known of what happened between two samples.

    Returns:
        One row a period and counter of its pod: ``period`` (the row's number), ``server``, ``model``, ``kind``, ``grown``, and
        ``samples``, how many lie in the period.
    """
    groups, samples = growth(counters, max_gap_ms)
    groups = groups.assign(group=np.arange(len(groups)))
    pairs = of_periods(groups, periods)
    group, times = samples.group.to_numpy(), samples.ms.to_numpy()
    total = np.concatenate(([0], np.cumsum(samples.grown.to_numpy())))
    first, until = (rows_before(group, times, pairs.group.to_numpy(), pairs[c].to_numpy()) for c in ("start_ms", "end_ms"))
    until = np.maximum(first, until)
    told = pairs.assign(grown=total[until] - total[first], samples=until - first)
    keys = ["period", "server", "model", "kind"]
    return told.groupby(keys, as_index=False)[["grown", "samples"]].sum()


def of_periods(counted: pd.DataFrame, periods: pd.DataFrame) -> pd.DataFrame:
    """Which counters (``namespace``, ``pod``, ``pod_uid`` and more) each period's pod has: ``period`` beside the columns of both.

    The counter's own uid is ``of_uid``; one without a uid is that of any pod of the name.
    """
    asked = periods.assign(period=np.arange(len(periods)))
    pairs = asked.merge(counted.rename(columns={"pod_uid": "of_uid"}), on=["namespace", "pod"])
    return pairs[(pairs.of_uid == "") | (pairs.pod_uid == "") | (pairs.of_uid == pairs.pod_uid)]
