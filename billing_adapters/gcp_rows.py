"""Rows of Google's detailed billing export from any file or table, as batches of flat columns: credits stay lists of records."""

import ast
import json
from collections.abc import Collection, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from billing_adapters.files import FileStore
from billing_adapters.gcp_columns import (
    CREDITS,
    GLOBAL_NAME,
    RESOURCE_NAME,
    SYSTEM_LABELS,
    WANTED,
    one_word,
    standard_export,
)
from billing_adapters.gcp_facts import is_machine_usage
from billing_adapters.json_batches import AMOUNT, JSON_SUFFIXES
from billing_adapters.readers import read_batches
from billing_adapters.record_columns import column_at, leaf_names, plain_decimals
from billing_adapters.row_batches import HeaderCheck, RowBatch, chosen_columns

CREDIT = pa.struct([("amount", AMOUNT), ("full_name", pa.string()), ("id", pa.string()), ("type", pa.string())])
LABEL = pa.struct([("key", pa.string()), ("value", pa.string())])
_LISTS: Mapping[str, pa.DataType] = {CREDITS: pa.list_(CREDIT), SYSTEM_LABELS: pa.list_(LABEL)}
_AMOUNTS = ("cost", "cost_at_list", "cost_at_effective_price_default", "cost_at_effective_price", "usage.amount")
_LEFT_OUT = ("project.id", "usage.unit", RESOURCE_NAME, CREDITS)
"""Columns that may be null in all rows of a file, and are then not in its JSON."""
_EMPTY = r"^\s*(\[\s*\])?\s*$"
_PYTHON_WORDS = {"None": "null", "True": "true", "False": "false"}


def read_rows(store: FileStore, name: str, check: HeaderCheck, wanted: Sequence[str] = WANTED) -> Iterator[RowBatch]:
    """The rows of one file (Parquet, JSON lines or CSV) with the wanted columns, batch by batch."""
    sparse = name.lower().endswith(JSON_SUFFIXES)

    def check_told(file: str, names: Collection[str]) -> None:
        check(file, {*names, *_LEFT_OUT} if sparse else names)

    for batch in read_batches(store, name, wanted, check_told, one_word, json_schema=_json_schema()):
        if sparse and wanted is WANTED:
            _refuse_standard(batch)
        yield _with_lists(batch)


def flat_batch(file: str, first_row: int, batch: pa.RecordBatch, check: HeaderCheck | None = None) -> RowBatch:
    """An Arrow batch whose columns may be records (of BigQuery, of Parquet) as a batch of rows.

    Args:
        file: the name of the place for messages.
        first_row: the number of the batch's first row there, from 1.
        batch: columns of ``gcp_columns.WANTED`` by their names in the export; what is not there counts as null.
        check: asked with the columns' names.
    """
    names = leaf_names(batch.schema)
    if check is not None:
        check(file, names)
    chosen = chosen_columns(file, names, WANTED, one_word)
    columns = {wanted: column_at(batch, names[place]) for wanted, place in chosen.items()}
    return _with_lists(RowBatch(file, first_row, batch.num_rows, columns))


def _json_schema() -> pa.Schema:
    """The fields that are read of JSON rows, in their records."""
    records: dict[str, list[pa.Field]] = {}
    flat = []
    for name in WANTED:
        kind = _LISTS.get(name) or (AMOUNT if name in _AMOUNTS or name.startswith("usage.amount") else pa.string())
        record, _, field = name.rpartition(".")
        if record:
            records.setdefault(record, []).append(pa.field(field, kind))
        else:
            flat.append(pa.field(name, kind))
    return pa.schema([*flat, *(pa.field(name, pa.struct(fields)) for name, fields in records.items())])


def _refuse_standard(batch: RowBatch) -> None:
    """JSON leaves out what is null, so only usage of machines tells that an export has no resources."""
    if pc.any(pc.or_(pc.is_valid(batch.text(RESOURCE_NAME)), pc.is_valid(batch.text(GLOBAL_NAME)))).as_py():
        return
    of_machines = is_machine_usage(batch)
    if pc.any(of_machines).as_py():
        raise standard_export(batch.file, batch.error(pc.index(of_machines, True).as_py(), "").row)


def _with_lists(batch: RowBatch) -> RowBatch:
    """The same rows with lists that stood as texts as lists of records, and amounts without the zeros of their type."""
    columns = {n: _as_lists(batch, n) if n in _LISTS else plain_decimals(c) for n, c in batch.columns.items()}
    return RowBatch(batch.file, batch.first_row, batch.rows, columns, batch.places)


def _as_lists(batch: RowBatch, name: str) -> pa.Array:
    """A column of lists of records: as it is, of another kind of list, or from texts."""
    column = batch.columns[name]
    kind = getattr(column.type, "value_type", None)
    if kind is None or pa.types.is_dictionary(column.type):
        return _parsed(batch, name)
    if pa.types.is_null(kind):
        return pa.nulls(batch.rows, _LISTS[name])
    if not pa.types.is_struct(kind):
        problem = f"{name} is a list of {kind}, not of records"
        raise batch.error(0, problem, f"Export the column as it stands in the table, or by TO_JSON_STRING({name}).")
    return column if pa.types.is_list(column.type) else column.cast(pa.list_(kind))


def _parsed(batch: RowBatch, name: str) -> pa.Array:
    """Lists from texts: JSON, or as Python prints them; each distinct text is read once."""
    texts = batch.text(name).dictionary_encode()
    distinct = pc.if_else(pc.match_substring_regex(texts.dictionary, _EMPTY), "[]", texts.dictionary)
    rows = pc.binary_join_element_wise('{"v":', _as_json(distinct), "}", "")
    if not len(rows):
        return pa.nulls(batch.rows, _LISTS[name])
    whole = pa.py_buffer("\n".join(rows.to_pylist()).encode())
    options = pyarrow.json.ParseOptions(explicit_schema=pa.schema([("v", _LISTS[name])]), unexpected_field_behavior="ignore")
    reading = pyarrow.json.ReadOptions(use_threads=False, block_size=max(1 << 20, whole.size + 1))
    try:
        lists = pyarrow.json.read_json(pa.BufferReader(whole), read_options=reading, parse_options=options)["v"].combine_chunks()
    except pa.ArrowInvalid as error:
        problem = f"{name}: a text of these rows is no list of records, as JSON or as Python prints it"
        raise batch.error(0, problem, f"Export it by TO_JSON_STRING({name}).") from error
    if len(lists) != len(rows):
        raise batch.error(0, f"{name}: a text of these rows holds more than one list", f"Export it by TO_JSON_STRING({name}).")
    return lists.take(texts.indices)


def _as_json(texts: pa.Array) -> pa.Array:
    """Texts in which Python's quotes and words are JSON's; those of JSON stay. Line breaks become blanks.

    Where Python printed a text with quotes or backslashes in it, each distinct one is read as the literal that it is.
    """
    texts = pc.replace_substring_regex(texts, r"[\r\n]+", " ")
    printed = pc.match_substring_regex(texts, r"^\s*\[\s*\{\s*'")
    changed = pc.replace_substring_regex(texts, r"'([^'\"\\]*)'", r'"\1"')
    for python, word in _PYTHON_WORDS.items():
        changed = pc.replace_substring_regex(changed, rf"([:,\[]\s*){python}(\s*[,}}\]])", rf"\1{word}\2")
    plain = pc.if_else(printed, changed, texts)
    odd = pc.and_(printed, pc.match_substring_regex(texts, r"[\"\\]"))
    if not pc.any(odd).as_py():
        return plain
    return pc.replace_with_mask(plain, odd, pa.array([_literal(text) for text in texts.filter(odd).to_pylist()], pa.string()))


def _literal(text: str) -> str:
    """A list as Python prints it as JSON; what is no literal stays, for the reader to refuse."""
    try:
        return json.dumps(ast.literal_eval(text))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text
