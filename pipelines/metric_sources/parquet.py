"""Series from Parquet: one row a sample, for series that lie where no query of Prometheus reaches.

Columns: ``metric`` (or ``__name__``), ``timestamp`` (a timestamp, without a zone UTC, or int64 ms since the epoch), ``value`` (a
number). Every further text column is a label, so is each ``key=value`` folder, and a map column ``labels`` may hold more. What
is read stays in memory for one window. Here do not belong meanings, or what a file's content is known by (``content``).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs

from allocation.errors import SeriesError, SettingsError, SourceUnavailableError
from allocation.findings import Code, Finding, Severity
from pipelines.metric_sources.base import Ints, Window
from pipelines.metric_sources.content import file_system, files
from pipelines.metric_sources.recorded import FileStore, Recorded, matches, shared, span_in_words
from pipelines.metric_sources.source import ProfiledSource
from pipelines.metrics_entries import MetricsEntry

_NAMES = ("metric", "__name__")
_TIME, _VALUE, _LABELS = "timestamp", "value", "labels"
_TICKS_IN_MS = {"s": 0.001, "ms": 1, "us": 1_000, "ns": 1_000_000}
_ASSUMED = "milliseconds since 1970"
_MS_EACH = {"seconds": Fraction(1000), "microseconds": Fraction(1, 1000), "nanoseconds": Fraction(1, 10**6)}
_PLAUSIBLE_MS = (946_684_800_000, 4_102_444_800_000)
"""The years 2000 to 2099."""
_LabelSet = frozenset[tuple[str, str]]


@dataclass(frozen=True)
class _Shape:
    """The columns of one file."""

    place: str
    metric: str
    plain: bool
    time: pa.DataType
    texts: tuple[str, ...]
    has_map: bool
    folders: Mapping[str, str]


class ParquetStore(FileStore):
    """The series of a file, or of all files of a folder or under a URL."""

    def __init__(self, entry: MetricsEntry, cluster: str) -> None:
        if entry.path is None:
            raise SettingsError(f"clusters.{cluster}.metrics: kind parquet needs `path`")
        self._entry = entry
        self._where = f"clusters.{cluster}.metrics.path"
        self._window: Window | None = None
        self._held: dict[str, list[Recorded]] = {}
        self._untimed: dict[str, int] = {}

    def notices(self) -> Sequence[Finding]:
        """Rows without a time, by file, and files whose times are in another unit than it is taken for."""
        text = "rows have no timestamp and were dropped"
        told = [(file, f"{n} {text}", n) for file, n in self._untimed.items() if n]
        told += [(file, evidence, 1) for file, evidence in self._odd()]
        return [Finding(Code.INVALID_SAMPLES, Severity.WARNING, file, evidence, count=n) for file, evidence, n in told]

    def reach(self) -> str:
        """First and last time of all files, the unit that a number is taken for, and the unit that it looks like."""
        spans = [(shape, span) for data, shape in self._files() if (span := self._span(data, shape)) is not None]
        if not spans:
            return ""
        first, last = min(span[0] for _, span in spans), max(span[1] for _, span in spans)
        if all(pa.types.is_timestamp(shape.time) for shape, _ in spans):
            return span_in_words(first, last)
        return f"{span_in_words(first, last)}, read as {_ASSUMED}{_hint(first, last)}"

    def _odd(self) -> Iterator[tuple[str, str]]:
        """Files with times that look like another unit, beside others that do not: alone they are no series at all."""
        files = list(self._files())
        spans = [(shape, self._span(data, shape)) for data, shape in files if shape.time == pa.int64()]
        odd = [(shape, span, hint) for shape, span in spans if span is not None and (hint := _hint(*span))]
        for shape, span, hint in odd if len(odd) < len(files) else ():
            yield shape.place, f"{span_in_words(*span)}, read as {_ASSUMED}{hint}; what lies outside of the window is not read"

    def _span(self, data: ds.Dataset, shape: _Shape) -> tuple[int, int] | None:
        """First and last time of a file in ms, None where it has none."""
        known = [group.statistics for fragment in data.get_fragments() for group in fragment.row_groups]
        if shape.time == pa.int64() and known and all(_TIME in (told or {}) for told in known):
            return min(told[_TIME]["min"] for told in known), max(told[_TIME]["max"] for told in known)
        times = _ms(self._scan(data, shape, [_TIME], ds.field(_TIME).is_valid())[_TIME])
        return (int(times.min()), int(times.max())) if len(times) else None

    def names(self, window: Window) -> Sequence[str]:
        """The names of all metrics with samples in the window, sorted; nothing else is read for this."""
        found: set[str] = set()
        for data, shape in self._files():
            table = self._scan(data, shape, [shape.metric], _inside(shape, window))
            found.update(filter(None, pc.unique(_text(table[shape.metric])).to_pylist()))
        return sorted(found)

    def _found(self, metrics: Collection[str] | None, window: Window) -> Iterable[Recorded]:
        if window != self._window:
            self._window, self._held = window, {}
        wanted = list(self.names(window) if metrics is None else metrics)
        missing = [metric for metric in wanted if metric not in self._held]
        if missing:
            self._held |= self._read(missing, window)
        return (series for metric in wanted for series in self._held[metric])

    def _read(self, metrics: Sequence[str], window: Window) -> dict[str, list[Recorded]]:
        """The series of these metrics; what several files hold of one series is one."""
        pieces: dict[tuple[str, _LabelSet], list[tuple[Ints, pa.Array]]] = {}
        for data, shape in self._files():
            wanted = _among(shape, metrics)
            columns = [shape.metric, _TIME, _VALUE, *shape.texts, *([_LABELS] if shape.has_map else [])]
            table = self._scan(data, shape, columns, wanted & _inside(shape, window))
            untimed = self._count(data, shape, wanted & ds.field(_TIME).is_null())
            self._untimed[shape.place] = max(self._untimed.get(shape.place, 0), untimed)
            for metric, labels, times, values in _series(table, shape):
                if matches(labels, self._entry.match):
                    pieces.setdefault((metric, frozenset(labels.items())), []).append((times, values))
        found: dict[str, list[Recorded]] = {metric: [] for metric in metrics}
        for (metric, named), parts in pieces.items():
            times, values = (np.concatenate([part[n] for part in parts]) for n in (0, 1))
            order = np.argsort(times, kind="stable")
            found[metric].append(Recorded(metric, dict(sorted(named)), times[order], values[order]))
        return found

    def _files(self) -> Iterator[tuple[ds.Dataset, _Shape]]:
        system, root = file_system(self._entry)
        found = files(self._entry, system, root)
        if not found:
            problem = f"there is no Parquet file; {self._where} must name a file, or a folder or URL with files named *.parquet"
            raise SeriesError(problem, file=str(self._entry.path))
        for info in found:
            yield self._open(info, system, root)

    def _open(self, info: fs.FileInfo, system: fs.FileSystem, root: str) -> tuple[ds.Dataset, _Shape]:
        place = str(info.path)
        try:
            data = ds.dataset(place, format="parquet", filesystem=system)
        except pa.ArrowInvalid as error:
            raise SeriesError(f"is no Parquet file: {_one_line(error)}", file=place) from error
        except OSError as error:
            raise self._unreached(error) from error
        return data, _shape(data.schema, place, place.removeprefix(root))

    def _scan(self, data: ds.Dataset, shape: _Shape, columns: Sequence[str], condition: ds.Expression) -> pa.Table:
        try:
            return data.to_table(columns=list(columns), filter=condition)
        except pa.ArrowInvalid as error:
            raise SeriesError(f"cannot be read: {_one_line(error)}", file=shape.place) from error
        except OSError as error:
            raise self._unreached(error) from error

    def _count(self, data: ds.Dataset, shape: _Shape, condition: ds.Expression) -> int:
        return len(self._scan(data, shape, [shape.metric], condition))

    def _unreached(self, error: OSError) -> SourceUnavailableError:
        return SourceUnavailableError(str(self._entry.path), f"cannot be read: {_one_line(error)}", setting=self._where)


class ParquetSource(ProfiledSource):
    """See ``MetricSource``."""

    def __init__(self, entry: MetricsEntry, cluster: str, max_gap_ms: int) -> None:
        super().__init__(ParquetStore(entry, cluster), entry, cluster, max_gap_ms)


def _shape(schema: pa.Schema, place: str, path: str) -> _Shape:
    """What the columns of a file are, or a ``SeriesError`` that names those that are there."""
    kinds = {field.name: field.type for field in schema}
    there = ", ".join(f"{name} ({kind})" for name, kind in kinds.items())
    metric = next((name for name in _NAMES if name in kinds), "")
    for name, good, told in (
        (metric or "metric", _is_text, "text"),
        (_TIME, _is_time, "a timestamp, or int64 ms since the epoch"),
        (_VALUE, _is_number, "a number"),
    ):
        if name not in kinds:
            raise SeriesError(f"has no column {name!r} ({told}); the columns there: {there}", file=place)
        if not good(kinds[name]):
            raise SeriesError(f"the column {name!r} is {kinds[name]} and must be {told}; the columns there: {there}", file=place)
    texts = tuple(name for name, kind in kinds.items() if name != metric and _is_text(kind))
    folders = {k: unquote(v) for k, eq, v in (part.partition("=") for part in path.split("/")[:-1]) if eq}
    has_map = _LABELS in kinds and pa.types.is_map(kinds[_LABELS])
    return _Shape(place, metric, kinds[metric] == pa.string(), kinds[_TIME], texts, has_map, folders)


def _hint(first: int, last: int) -> str:
    """What numbers taken for ms look like where no ms of this age do; empty else.

    >>> _hint(1_790_812_800, 1_790_812_860)
    '; they look like seconds: write milliseconds, or a column of type timestamp'
    >>> _hint(1_790_812_800_000, 1_790_812_860_000)
    ''
    """

    def plausible(ms_each: Fraction) -> bool:
        return _PLAUSIBLE_MS[0] <= first * ms_each and last * ms_each < _PLAUSIBLE_MS[1]

    if plausible(Fraction(1)):
        return ""
    unit = next((name for name, ms_each in _MS_EACH.items() if plausible(ms_each)), "")
    return f"; they look like {unit}: write milliseconds, or a column of type timestamp" if unit else ""


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return any(is_it(kind) for is_it in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view))


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or kind == pa.int64())


def _is_number(kind: pa.DataType) -> bool:
    return any(is_it(kind) for is_it in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal))


def _text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.string())


def _among(shape: _Shape, metrics: Sequence[str]) -> ds.Expression:
    """The rows of these metrics; a plain column is compared as it is, so that whole groups of rows can be skipped."""
    name = ds.field(shape.metric)
    return (name if shape.plain else name.cast(pa.string())).isin(list(metrics))


def _inside(shape: _Shape, window: Window) -> ds.Expression:
    """The rows of the window."""
    if not pa.types.is_timestamp(shape.time):
        return (ds.field(_TIME) >= window.start_ms) & (ds.field(_TIME) < window.end_ms)
    ticks = _TICKS_IN_MS[shape.time.unit]
    first, end = (pa.scalar(-int(-ms * ticks // 1), shape.time) for ms in (window.start_ms, window.end_ms))
    return (ds.field(_TIME) >= first) & (ds.field(_TIME) < end)


def _ms(times: pa.ChunkedArray) -> Ints:
    """Times in whole ms; what lies between two of them belongs to the earlier."""
    kind = times.type
    numbers = times.cast(pa.int64()).to_numpy()
    if not pa.types.is_timestamp(kind):
        return np.asarray(numbers, np.int64)
    return np.asarray(numbers * 1000 if kind.unit == "s" else numbers // int(_TICKS_IN_MS[kind.unit]), np.int64)


def _series(table: pa.Table, shape: _Shape) -> Iterator[tuple[str, dict[str, str], Ints, pa.Array]]:
    """The rows by series: metric, labels, times in ms, values; a null value is NaN."""
    if not len(table):
        return
    keys = [shape.metric, *shape.texts]
    columns = [_text(table[name]) for name in keys] + ([_written(table[_LABELS])] if shape.has_map else [])
    number = np.zeros(len(table), np.int64)
    for column in columns:
        codes = pc.fill_null(column, "").combine_chunks().dictionary_encode()
        number = number * (len(codes.dictionary) + 1) + codes.indices.to_numpy()
        number = np.unique(number, return_inverse=True)[1]
    times = _ms(table[_TIME])
    values = np.asarray(pc.fill_null(table[_VALUE].cast(pa.float64()), np.nan).to_numpy(), np.float64)
    order = np.argsort(number, kind="stable")
    starts = np.flatnonzero(np.diff(number[order], prepend=-1))
    heads = table.select([*keys, *([_LABELS] if shape.has_map else [])]).take(pa.array(order[starts])).to_pylist()
    for head, rows in zip(heads, np.split(order, starts[1:]), strict=True):
        labels = {**shape.folders, **dict(head.get(_LABELS) or () if shape.has_map else ())}
        labels |= {name: head[name] for name in shape.texts if head[name]}
        yield head[shape.metric], shared({k: v for k, v in labels.items() if v}), times[rows], values[rows]


def _written(maps: pa.ChunkedArray) -> pa.ChunkedArray:
    """Each row's map as one text that no other map has."""
    column = maps.combine_chunks()
    keys, items = column.keys.cast(pa.string()), pc.fill_null(column.items.cast(pa.string()), "")
    sizes = [pc.binary_length(part).cast(pa.string()) for part in (keys, items)]
    pairs = pc.binary_join_element_wise(sizes[0], sizes[1], keys, items, ":")
    lists = pa.ListArray.from_arrays(column.offsets, pairs)
    return pa.chunked_array([pc.binary_join(lists, ";")])


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
