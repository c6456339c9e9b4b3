"""The contract of a table's columns, as a file: what a version promises, and where two versions differ.

A contract has names, types, nullability and units; the wording of a meaning may change within a version.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypedDict

from allocation.errors import SettingsError
from allocation.schemas import PUBLIC, SCHEMA_VERSION, Table


class Promised(TypedDict):
    """One column of a contract."""

    name: str
    type: str
    nullable: bool
    unit: str


class Contract(TypedDict):
    """One version of all tables that readers may rely on."""

    schema_version: str
    tables: dict[str, list[Promised]]


def contract_of(tables: Sequence[Table] = PUBLIC, version: str = SCHEMA_VERSION) -> Contract:
    """What the tables promise now."""
    return {"schema_version": version, "tables": {table.name: [_promised(table, n) for n in table.names] for table in tables}}


def render_contract(contract: Contract) -> str:
    """The file: one line a column, so that a change of one is a change of one line."""
    tables = []
    for name, columns in contract["tables"].items():
        lines = ",\n".join(f"   {json.dumps(column)}" for column in columns)
        tables.append(f"  {json.dumps(name)}: [\n{lines}\n  ]")
    version = json.dumps(contract["schema_version"])
    return f'{{\n "schema_version": {version},\n "tables": {{\n' + ",\n".join(tables) + "\n }\n}\n"


def read_contract(path: Path) -> Contract:
    """A contract file, or a ``SettingsError`` that names it."""
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path}: is no contract file ({error}); `gpu-chargeback contract` prints one") from error
    columns = held.get("tables") if isinstance(held, dict) else None
    if not isinstance(columns, dict) or not all(_is_table(found) for found in columns.values()) or "schema_version" not in held:
        raise SettingsError(f"{path}: is no contract file; `gpu-chargeback contract` prints one")
    return {"schema_version": str(held["schema_version"]), "tables": columns}


def differences(held: Contract, now: Contract) -> list[str]:
    """What a reader of the held contract would notice: everything within a version, broken promises across versions."""
    same = held["schema_version"] == now["schema_version"]
    found = [line for name, columns in held["tables"].items() for line in _table(name, columns, now["tables"].get(name), same)]
    if same:
        found += [f"{name}: a new table" for name in now["tables"] if name not in held["tables"]]
    return found


def _table(name: str, held: Sequence[Promised], now: Sequence[Promised] | None, same: bool) -> Iterator[str]:
    if now is None:
        yield f"{name}: the table is gone"
        return
    columns = {column["name"]: column for column in now}
    kept = [column["name"] for column in held if column["name"] in columns]
    if [column["name"] for column in now][: len(kept)] != kept:
        yield f"{name}: columns are in another order, or new ones stand before old ones"
    for column in held:
        yield from _column(f"{name}.{column['name']}", column, columns.pop(column["name"], None))
    for column in columns.values():
        if same or not column["nullable"]:
            yield f"{name}.{column['name']}: a new column" + ("" if column["nullable"] else " that is not nullable")


def _column(name: str, held: Promised, now: Promised | None) -> Iterator[str]:
    if now is None:
        yield f"{name}: the column is gone"
        return
    pairs: Mapping[str, tuple[object, object]] = {
        "type": (held["type"], now["type"]),
        "nullable": (held["nullable"], now["nullable"]),
        "unit": (held["unit"], now["unit"]),
    }
    for what, (before, after) in pairs.items():
        if before != after:
            yield f"{name}: {what} was {before!r} and is {after!r}"


def _promised(table: Table, name: str) -> Promised:
    column = next(c for c in table.columns if c.name == name)
    return {"name": column.name, "type": str(column.type), "nullable": column.nullable, "unit": column.unit}


def _is_table(found: object) -> bool:
    return isinstance(found, list) and all(isinstance(c, dict) and Promised.__required_keys__ <= c.keys() for c in found)
