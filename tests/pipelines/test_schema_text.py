"""The printed schema says what the contract says."""

import json

import pytest

from allocation.errors import SettingsError
from allocation.schemas import TABLES
from pipelines.schema_text import render_schema, schema_json


def cells(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line.startswith("|")]


def test_one_table_has_a_line_for_each_column() -> None:
    text = render_schema("team_model")
    header, _, *rows = cells(text)
    assert text.startswith("## team_model\n")
    assert header == ["column", "type", "null", "unit", "meaning", "key"]
    assert [row[0] for row in rows] == TABLES["team_model"].names
    lines = {row[0]: row[1:] for row in rows}
    assert lines["cost"] == ["decimal128(38, 9)", "", "currency", "their sum", ""]
    assert lines["team"] == ["string", "null", "", "team", "key"]
    assert lines["billing_period"] == ["date32[day]", "", "", "first day of the invoice month", "key"]
    assert "date, cluster" in text


def test_columns_are_aligned() -> None:
    rows = [line for line in render_schema("nodes").splitlines() if line.startswith("|")]
    assert len({len(row) for row in rows}) == 1
    assert "date, cluster" not in render_schema("nodes")


def test_all_tables_in_order() -> None:
    heads = [line.removeprefix("## ") for line in render_schema(None).splitlines() if line.startswith("## ")]
    assert heads == list(TABLES)
    assert [table["table"] for table in schema_json(None)] == heads


def test_for_machines() -> None:
    (table,) = json.loads(json.dumps(schema_json("chargeback")))
    assert table["partition"] == ["date", "cluster"]
    columns = {column["name"]: column for column in table["columns"]}
    assert columns["charge_period_start"] == {
        "name": "charge_period_start",
        "type": "timestamp[us, tz=UTC]",
        "nullable": False,
        "unit": "",
        "meaning": "start of the charge, inclusive",
    }
    assert columns["team"]["nullable"]
    assert schema_json("nodes")[0]["key"] == ["node", "alive_from"]
    assert schema_json("nodes")[0]["partition"] == []


def test_an_unknown_table_names_the_nearest() -> None:
    with pytest.raises(SettingsError, match=r"there is no table 'chargebak'; did you mean 'chargeback'\?"):
        render_schema("chargebak")
