"""The charges of an export, batch by batch in order of days and clusters: in memory is a batch, and the lines of one day."""

from collections.abc import Iterator
from datetime import date

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.focus_export.columns import focus_columns
from pipelines.focus_export.origins import beyond, origins, split_lines
from pipelines.focus_export.ratios import WEIGHING, Lines, added_up, of_metric, sums_of
from pipelines.focus_export.ready import Asked


def charges(asked: Asked, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """All rows in the columns of ``schema``."""
    long = _long_sums(asked)
    carried = Lines(long)
    for day in asked.days:
        lines = origins(asked, day)
        sums = _sums(asked, day)
        parts_of = Lines(pd.concat([sums[~sums.index.isin(long.index)], long]) if len(long) else sums)
        parts_of.carry(carried)
        yield from _of_day(asked, day, lines, parts_of, schema)
        carried.carry(parts_of)


def _of_day(asked: Asked, day: date, lines: pa.Table, parts_of: Lines, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    names = lines["line_item_id"].combine_chunks()
    for partition in asked.partitions(day):
        for batch in of_metric(asked.store.batches("chargeback", partition), asked.cost_metric):
            mine = lines.take(pc.index_in(batch["line_item_id"], value_set=names)).combine_chunks()
            values = focus_columns(batch, mine.to_batches()[0], parts_of.parts(batch), partition.cluster)
            columns = [_in(values, field, len(batch)) for field in schema]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _in(values: dict[str, pa.Array], field: pa.Field, rows: int) -> pa.Array:
    value = values.get(field.name)
    return pa.nulls(rows, field.type) if value is None else value.cast(field.type)


def _sums(asked: Asked, day: date) -> pd.DataFrame:
    """The sums of all lines of a day, over all clusters."""
    found = (asked.store.batches("chargeback", partition, WEIGHING) for partition in asked.partitions(day))
    return sums_of(batch for batches in found for batch in of_metric(batches, asked.cost_metric))


def _long_sums(asked: Asked) -> pd.DataFrame:
    """The sums, over all days, of the lines that are longer than a day; a single day needs none."""
    found = []
    for day in asked.days if len(asked.days) > 1 else ():
        names = beyond(split_lines(asked, day), day)
        if len(names):
            sums = _sums(asked, day)
            found.append(sums[sums.index.isin(names.to_pylist())])
    return added_up(found)
