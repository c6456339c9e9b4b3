"""What a sample is: blanks dropped, replicas interleaved, equal times reduced to one.

Here belongs the step from series as a source delivered them to the table ``samples``. Here do not belong the names of
labels and metrics (``pipelines.metric_sources.profiles``) or how long a sample holds (``intervals``).
"""

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from allocation.findings import Code, Finding, Severity
from allocation.schemas import SAMPLES

LABELS = tuple(n for n in SAMPLES.names if n not in ("timestamps_ms", "values"))
"""The columns that name a series."""

_DEVICE = ("node", "gpu_uuid", "gpu_instance")
_HOLDER = ("namespace", "pod", "pod_uid", "container")
ORDER = (*_DEVICE, "mig_profile", "role", *_HOLDER, "level", "metric", "includes_reserved")
"""The columns that tell one series from another, in the order of the table; the model's name is not among them."""

VALUE_LIMIT = 2.0**50
"""No device holds a pebibyte: values from here on are the blanks of some library."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]
_Flat = tuple[_Ints, _Ints, _Floats]


def clean(labels: pa.Table, lengths: _Ints, timestamps_ms: _Ints, values: _Floats) -> tuple[pa.Table, tuple[Finding, ...]]:
    """Series as delivered into the table ``samples``.

    Args:
        labels: One row a delivered series with the columns ``LABELS``; several rows may name one series.
        lengths: How many samples each of these rows has.
        timestamps_ms: Their times, row after row.
        values: Their values in bytes, row after row.

    Returns:
        Distinct series in ``ORDER``, each with ascending times and true values, and per device what was dropped: values
        that cannot be true, and all but the largest of equal times. A series without a sample left is not there.
    """
    order, group, heads = _series(labels)
    names = labels.take(pa.array(order[heads]))
    flat = _flatten(order, group, lengths, timestamps_ms, values)
    flat, invalid = _true_values(flat)
    flat, repeated = _ascending(flat)
    findings = [
        *_per_device(names, invalid, Code.INVALID_SAMPLES, Severity.WARNING, "values that cannot be true were dropped"),
        *_per_device(names, repeated, Code.DUPLICATE_SAMPLES, Severity.INFO, "samples of equal time; the largest stays"),
    ]
    return _table(names, flat), tuple(findings)


def _series(labels: pa.Table) -> tuple[_Ints, _Ints, _Ints]:
    """Sorted order of the rows, the series of each sorted row, and the sorted place at which each series starts.

    The first row of a series carries the last of its model names, so that an empty one never wins.
    """
    keys = [(name, "ascending") for name in ORDER] + [("gpu_model", "descending")]
    order = pc.sort_indices(labels, sort_keys=keys).to_numpy().astype(np.int64)
    starts = _changes(labels.take(pa.array(order)), ORDER)
    return order, np.cumsum(starts) - 1, np.flatnonzero(starts)


def _changes(table: pa.Table, columns: tuple[str, ...]) -> NDArray[np.bool_]:
    """Where a row differs from the one before it; the first always does."""
    change = np.zeros(table.num_rows, np.bool_)
    change[:1] = True
    for name in columns:
        column = table.column(name).combine_chunks()
        change[1:] |= pc.not_equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False)
    return change


def _flatten(order: _Ints, group: _Ints, lengths: _Ints, times: _Ints, values: _Floats) -> _Flat:
    """Series number, time and value of each sample, series after series."""
    counts = lengths[order]
    if not np.array_equal(order, np.arange(len(order))):
        first = (np.cumsum(lengths) - lengths)[order] - (np.cumsum(counts) - counts)
        place = np.repeat(first, counts) + np.arange(counts.sum())
        times, values = times[place], values[place]
    return np.repeat(group, counts), times, values + 0.0


def _true_values(flat: _Flat) -> tuple[_Flat, _Flat]:
    """Samples that can be true, and those that cannot."""
    value = flat[2]
    good = (value >= 0) & (value < VALUE_LIMIT)
    if good.all():
        return flat, _pick(flat, slice(0, 0))
    return _pick(flat, good), _pick(flat, ~good)


def _ascending(flat: _Flat) -> tuple[_Flat, _Flat]:
    """Samples in time order, each time once with its largest value, and the ones left out."""
    series, time, value = flat
    if np.all((series[1:] != series[:-1]) | (time[1:] > time[:-1])):
        return flat, _pick(flat, slice(0, 0))
    flat = _pick(flat, np.lexsort((value, time, series)))
    series, time, _ = flat
    last = np.ones(len(time), np.bool_)
    last[:-1] = (series[1:] != series[:-1]) | (time[1:] != time[:-1])
    return _pick(flat, last), _pick(flat, ~last)


def _pick(flat: _Flat, which: slice | NDArray[np.bool_] | _Ints) -> _Flat:
    series, time, value = flat
    return series[which], time[which], value[which]


def _per_device(names: pa.Table, dropped: _Flat, code: Code, severity: Severity, text: str) -> list[Finding]:
    """One finding for each device that lost samples, with their number and the time in which they lie."""
    series, time, _ = dropped
    if not len(time):
        return []
    device_of = np.cumsum(_changes(names, _DEVICE)) - 1
    device = device_of[series]
    findings = []
    for number in np.unique(device):
        node, gpu, instance = (names.column(c)[int(np.searchsorted(device_of, number))].as_py() for c in _DEVICE)
        mine = time[device == number]
        subject = "/".join(part for part in (node, gpu, instance) if part)
        period = (_moment(int(mine.min())), _moment(int(mine.max()) + 1))
        findings.append(Finding(code, severity, subject, f"{len(mine)} {text}", period, len(mine)))
    return findings


def _moment(ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=ms)


def _table(names: pa.Table, flat: _Flat) -> pa.Table:
    """The table ``samples`` of the series that still have one."""
    series, time, value = flat
    counts = np.bincount(series, minlength=names.num_rows)
    kept = names.take(pa.array(np.flatnonzero(counts)))
    offsets = pa.array(np.concatenate(([0], np.cumsum(counts[counts > 0]))).astype(np.int32))
    columns = [kept.column(name).combine_chunks() for name in LABELS]
    columns.append(pa.ListArray.from_arrays(offsets, pa.array(time)))
    columns.append(pa.ListArray.from_arrays(offsets, pa.array(value)))
    return pa.Table.from_arrays(columns, schema=SAMPLES.arrow())
