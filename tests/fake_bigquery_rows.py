"""What the fake BigQuery knows of data: the detailed export's schema, rows by day of loading, and the statements that we send.

No BigQuery can run here. The evaluator understands ``SELECT`` of columns or of one group's aggregates, with comparisons to
parameters, and refuses everything else, as BigQuery refuses what it cannot parse.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

Field = dict[str, Any]
Row = Mapping[str, Any]


def column(name: str, kind: str = "STRING", *fields: Field, mode: str = "NULLABLE") -> Field:
    """A column as the REST resource of a table describes it."""
    return {"name": name, "type": kind, "mode": mode, **({"fields": list(fields)} if fields else {})}


def _record(name: str, *texts: str, **others: str) -> Field:
    return column(name, "RECORD", *map(column, texts), *(column(n, kind) for n, kind in others.items()))


def _list(name: str, *texts: str, **others: str) -> Field:
    return {**_record(name, *texts, **others), "mode": "REPEATED"}


DETAILED: tuple[Field, ...] = (
    column("billing_account_id"),
    _record("service", "id", "description"),
    _record("sku", "id", "description"),
    column("usage_start_time", "TIMESTAMP"),
    column("usage_end_time", "TIMESTAMP"),
    column(
        "project", "RECORD", *map(column, ("id", "number", "name")), _list("labels", "key", "value"), column("ancestry_numbers")
    ),
    _list("labels", "key", "value"),
    _list("system_labels", "key", "value"),
    _record("location", "location", "country", "region", "zone"),
    _record("resource", "name", "global_name"),
    column("cost", "FLOAT"),
    column("currency"),
    column("currency_conversion_rate", "FLOAT"),
    _record("usage", "unit", "pricing_unit", amount="FLOAT", amount_in_pricing_units="FLOAT"),
    _list("credits", "id", "full_name", "type", "name", amount="FLOAT"),
    _record("invoice", "month"),
    column("cost_type"),
    _record("adjustment_info", "id", "description", "type", "mode"),
    column("export_time", "TIMESTAMP"),
    column("cost_at_list", "NUMERIC"),
    column("transaction_type"),
    _record("consumption_model", "id", "description"),
)
"""The columns of the detailed export that matter here, with the types that its table has."""


@dataclass
class Table:
    """A table that is partitioned by the day of loading."""

    schema: tuple[Field, ...]
    rows: list[tuple[datetime, Row]]

    def load(self, day: date, rows: Iterable[Row]) -> None:
        """Appends rows to the partition of a day."""
        moment = datetime(day.year, day.month, day.day, tzinfo=UTC)
        self.rows += [(moment, row) for row in rows]


class RefusedError(Exception):
    """A statement that BigQuery would not run."""


@dataclass(frozen=True)
class Answer:
    """What a statement gives: columns and rows, and how many values were looked at in the partitions that were not pruned."""

    schema: list[Field]
    rows: list[list[Any]]
    values: int


_STATEMENT = re.compile(
    r"SELECT (?P<items>.+) FROM `(?P<table>[^`]+)` WHERE (?P<where>.+?)(?: GROUP BY (?P<group>\w+) ORDER BY (?P<order>\w+) DESC)?"
)
_CONDITION = re.compile(r"(?P<name>\w+) (?P<sign>>=|<=|>|<) @(?P<value>\w+)")
_AGGREGATE = re.compile(r"(?P<function>MIN|MAX)\((?P<name>\w+)\)")
_PARTITION = "_PARTITIONTIME"
_DAY = f"TIMESTAMP_TRUNC({_PARTITION}, DAY)"
_SIGNS: Mapping[str, Callable[[Any, Any], bool]] = {
    ">=": lambda a, b: a >= b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    "<": lambda a, b: a < b,
}


def run(tables: Mapping[str, Table], text: str, parameters: Mapping[str, datetime]) -> Answer:
    """The answer of the statement, or a ``RefusedError``."""
    match = _STATEMENT.fullmatch(text)
    if match is None or match["table"] not in tables:
        raise RefusedError(f"Syntax error or unknown table: {text}")
    table = tables[match["table"]]
    conditions = [_condition(part, parameters) for part in match["where"].split(" AND ")]
    pruning = [c for c in conditions if c[0] == _PARTITION]
    scanned = [(day, row) for day, row in table.rows if all(holds(day, value) for _, holds, value in pruning)]
    rows = [(day, row) for day, row in scanned if all(h(time_of(row, n), v) for n, h, v in conditions if n != _PARTITION)]
    items = [tuple(item.rsplit(" AS ", 1)) for item in re.split(r", (?![^(]*\))", match["items"])]
    used = {name for name, *_ in conditions} | {re.sub(r"\w+\((\w+)\)", r"\1", expression) for expression, _ in items}
    values = len(scanned) * len(used - {_PARTITION, _DAY, "COUNT(*)"})
    if match["group"]:
        return _grouped(items, rows, values)
    paths = [_field(table.schema, expression.split(".")) for expression, _ in items]
    schema = [{**field, "name": name} for field, (_, name) in zip(paths, items, strict=True)]
    return Answer(schema, [[_at(row, expression.split(".")) for expression, _ in items] for _, row in rows], values)


def _condition(part: str, parameters: Mapping[str, datetime]) -> tuple[str, Callable[[Any, Any], bool], datetime]:
    match = _CONDITION.fullmatch(part)
    if match is None or match["value"] not in parameters:
        raise RefusedError(f"Syntax error: {part}")
    return match["name"], _SIGNS[match["sign"]], parameters[match["value"]]


def _grouped(items: Sequence[tuple[str, ...]], rows: Sequence[tuple[datetime, Row]], values: int) -> Answer:
    """One row for each day of loading, the newest first."""
    days = sorted({day for day, _ in rows}, reverse=True)
    found = [[_aggregate(e, day, [row for d, row in rows if d == day]) for e, _ in items] for day in days]
    kinds = ["INTEGER" if expression == "COUNT(*)" else "TIMESTAMP" for expression, _ in items]
    return Answer([column(name, kind) for (_, name), kind in zip(items, kinds, strict=True)], found, values)


def _aggregate(expression: str, day: datetime, rows: Sequence[Row]) -> object:
    if expression == _DAY:
        return day
    if expression == "COUNT(*)":
        return len(rows)
    match = _AGGREGATE.fullmatch(expression)
    if match is None:
        raise RefusedError(f"Syntax error: {expression}")
    return (min if match["function"] == "MIN" else max)(time_of(row, match["name"]) for row in rows)


def _field(schema: Sequence[Field], path: Sequence[str]) -> Field:
    found = next((field for field in schema if field["name"] == path[0]), None)
    if found is None:
        raise RefusedError(f"Unrecognized name: {path[0]}")
    return found if len(path) == 1 else _field(found["fields"], path[1:])


def _at(row: Any, path: Sequence[str]) -> Any:  # noqa: ANN401 - a cell of any type
    for name in path:
        row = None if row is None else row.get(name)
    return row


def time_of(row: Row, name: str) -> datetime:
    """A time of a row, which may be a text such as ``2026-10-05 00:00:00 UTC``."""
    value = row[name]
    return value if isinstance(value, datetime) else datetime.fromisoformat(value.replace(" UTC", "+00:00"))


def cell(value: Any, field: Field) -> dict[str, Any]:  # noqa: ANN401 - a cell of any type
    """One value as REST encodes it, with ``formatOptions.useInt64Timestamp``."""
    if field["mode"] == "REPEATED":
        return {"v": [cell(one, {**field, "mode": "NULLABLE"}) for one in value or ()]}
    if value is None:
        return {"v": None}
    if field["type"] == "RECORD":
        return {"v": {"f": [cell(value.get(inner["name"]), inner) for inner in field["fields"]]}}
    if field["type"] == "TIMESTAMP":
        since = time_of({"at": value}, "at") - datetime(1970, 1, 1, tzinfo=UTC)
        return {"v": str(since // timedelta(microseconds=1))}
    return {"v": str(value)}
