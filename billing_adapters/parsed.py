"""Lines as adapters give them, batch by batch, and how they become the table ``line_items``.

A parsed line stands once, with its money under every metric that was asked for; in ``line_items`` it stands once a metric.
Its final id ends in an ordinal among the lines of its delivery that share the id; which these are is known when all batches
are, so a small table of ordinals is kept beside the lines.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from allocation.node_keys import node_keys
from allocation.schemas import LINE_ITEMS, RESIDUE, conform
from billing_adapters.lines import Cost
from billing_adapters.row_ids import RowHashes, text_hashes

_MONEY = ("cost_metric", "cost_nanos", "cost_residue")
_OF_LINE = tuple(c for c in LINE_ITEMS.columns if c.name not in _MONEY)
_ID_HASH, _CONTENT_HASH = "id_hash", "content_hash"
LINE_NUMBER = "line_number"
"""The place of a line among all of its delivery, from 0."""
NO_ROW = 0
"""The ``source_row`` of lines of a place that keeps its rows in no order: they stand by their ids."""
ORDINALS = pa.schema([pa.field(LINE_NUMBER, pa.int64(), False), pa.field("ordinal", pa.int64(), False)])
"""The lines whose ordinal is not 1."""


def parsed_lines(columns: Mapping[str, pa.Array], hashes: RowHashes, costs: Mapping[str, Cost]) -> pa.Table:
    """One batch of parsed lines.

    Args:
        columns: by name of ``line_items``; what may be null and is not there is null. ``line_item_id`` has no ordinal yet.
            Without a ``node_key`` it follows from ``resource_id``.
        hashes: of the rows' content.
        costs: by metric.
    """
    rows = len(columns["resource_id"])
    if "node_key" not in columns:
        columns = {**columns, "node_key": _node_keys(columns["resource_id"])}
    arrays = [columns[c.name] if c.name in columns else pa.nulls(rows, c.type) for c in _OF_LINE]
    names = [c.name for c in _OF_LINE]
    for metric, cost in costs.items():
        arrays += [cost.nanos, cost.residue]
        names += [f"{metric}_nanos", f"{metric}_residue"]
    arrays += [text_hashes(columns["line_item_id"]).first_words(), hashes.first_words()]
    return pa.table(arrays, names=[*names, _ID_HASH, _CONTENT_HASH])


def _node_keys(resources: pa.Array) -> pa.Array:
    encoded = resources if pa.types.is_dictionary(resources.type) else resources.dictionary_encode()
    return pa.DictionaryArray.from_arrays(encoded.indices, node_keys(encoded.dictionary))


class Ordinals:
    """Counts lines that share an id, in order of content, as batches go by."""

    def __init__(self) -> None:
        self._ids: list[npt.NDArray[np.uint64]] = []
        self._contents: list[npt.NDArray[np.uint64]] = []
        self._lines = 0

    def numbered(self, batch: pa.Table) -> pa.Table:
        """The same lines with their numbers, without the hashes."""
        self._ids.append(batch[_ID_HASH].to_numpy())
        self._contents.append(batch[_CONTENT_HASH].to_numpy())
        numbers = pa.array(np.arange(self._lines, self._lines + len(batch)))
        self._lines += len(batch)
        return batch.drop_columns([_ID_HASH, _CONTENT_HASH]).append_column(LINE_NUMBER, numbers)

    def table(self) -> pa.Table:
        """The ordinals of all lines so far that are not the first of their id (``ORDINALS``)."""
        ids = np.concatenate(self._ids or [np.empty(0, np.uint64)])
        ordered = np.sort(ids)
        shared = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
        if not len(shared):
            return ORDINALS.empty_table()
        lines = pc.indices_nonzero(pc.is_in(pa.array(ids), value_set=pa.array(shared))).to_numpy()
        contents = np.concatenate(self._contents)[lines]
        place = np.lexsort((contents, ids[lines]))
        starts = np.flatnonzero(np.append(True, ids[lines][place][1:] != ids[lines][place][:-1]))
        lengths = np.diff(starts, append=len(place))
        ordinals = np.empty(len(lines), np.int64)
        ordinals[place] = np.arange(len(place)) - np.repeat(starts, lengths) + 1
        later = ordinals > 1
        return pa.table([pa.array(lines[later]), pa.array(ordinals[later])], schema=ORDINALS)


def line_items(numbered: pa.Table, ordinals: pa.Table, costs: Sequence[str], *, source: str) -> pa.Table:
    """The table ``line_items`` of numbered lines: all of them under each metric, with their final ids."""
    later = pc.index_in(numbered[LINE_NUMBER], value_set=ordinals[LINE_NUMBER].combine_chunks())
    number = pc.fill_null(ordinals["ordinal"].combine_chunks().take(later), 1)
    ids = pc.binary_join_element_wise(pc.cast(numbered["line_item_id"], pa.string()), pc.cast(number, pa.string()), "-")
    tables = []
    for metric in costs:
        columns = {c.name: numbered[c.name] for c in _OF_LINE}
        columns |= {"line_item_id": ids, "cost_metric": pa.repeat(metric, len(numbered))}
        columns |= {"cost_nanos": numbered[f"{metric}_nanos"], "cost_residue": numbered[f"{metric}_residue"].cast(RESIDUE)}
        tables.append(conform(pa.table(columns), LINE_ITEMS, source=source))
    return pa.concat_tables(tables) if tables else LINE_ITEMS.empty()


def all_lines(batches: Iterable[pa.Table], costs: Sequence[str], *, source: str) -> pa.Table:
    """The table ``line_items`` of a whole delivery in memory."""
    ordinals = Ordinals()
    numbered = [ordinals.numbered(batch) for batch in batches]
    return line_items(pa.concat_tables(numbered), ordinals.table(), costs, source=source) if numbered else LINE_ITEMS.empty()
