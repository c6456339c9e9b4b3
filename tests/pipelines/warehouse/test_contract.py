"""The columns that readers rely on change with a new version only, and a version only adds."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from allocation.schemas import FINDINGS, MONEY, PUBLIC, SCHEMA_VERSION, TEAM_MODEL, Column, Table
from pipelines import cli
from pipelines.warehouse.contract import contract_of, differences, read_contract, render_contract

FOLDER = Path(__file__).parents[3] / "docs" / "contract"
WHAT_TO_DO = (
    "The columns of a table that users read have changed. Say so to readers: raise SCHEMA_VERSION in allocation/schemas.py, run "
    "`gpu-chargeback contract > docs/contract/schema-N.json` for the new N, leave older files as they are, and add "
    "changelog.d/SLUG.changed.md (docs/warehouse.md, 'How a column gets added'). What differs: "
)


def versions() -> list[int]:
    return sorted(int(path.stem.removeprefix("schema-")) for path in FOLDER.glob("schema-*.json"))


def changed(*, table: Table = TEAM_MODEL, **columns: Column | None) -> list[Table]:
    """The table with columns of that name replaced, gone or, where there is none of the name, added at the end."""
    kept = [columns.get(c.name, c) for c in table.columns]
    added = [c for name, c in columns.items() if name not in table.names]
    return [replace(table, columns=tuple(c for c in (*kept, *added) if c))]


def test_the_columns_are_those_of_the_contract_of_their_version() -> None:
    path = FOLDER / f"schema-{SCHEMA_VERSION}.json"
    assert path.exists(), f"{WHAT_TO_DO}there is no {path.name}"
    found = differences(read_contract(path), contract_of())
    assert not found, WHAT_TO_DO + "; ".join(found)


def test_the_file_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["contract"]) == 0
    assert capsys.readouterr().out == (FOLDER / f"schema-{SCHEMA_VERSION}.json").read_text(encoding="utf-8")


def test_each_version_keeps_what_the_one_before_promised() -> None:
    held = [read_contract(FOLDER / f"schema-{n}.json") for n in versions()]
    assert versions() == list(range(1, int(SCHEMA_VERSION) + 1))
    assert [c["schema_version"] for c in held] == [str(n) for n in versions()]
    for older, newer in pairwise(held):
        assert differences(older, newer) == []


def test_the_contract_has_every_column_of_the_results() -> None:
    held = json.loads((FOLDER / f"schema-{SCHEMA_VERSION}.json").read_text(encoding="utf-8"))["tables"]
    for table in PUBLIC:
        assert [c["name"] for c in held[table.name]] == table.names
    assert held["team_model"][9] == {"name": "cost", "type": "decimal128(38, 9)", "nullable": False, "unit": "currency"}


TAX, COST = Column("tax", MONEY, "tax", nullable=True, unit="currency"), next(c for c in TEAM_MODEL.columns if c.name == "cost")


@pytest.mark.parametrize(
    ("tables", "within", "across"),
    [
        (changed(), [], []),
        (changed(cost=replace(COST, doc="said otherwise")), [], []),
        (changed(tax=TAX), ["team_model.tax: a new column"], []),
        (changed(tax=replace(TAX, nullable=False)), *[["team_model.tax: a new column that is not nullable"]] * 2),
        (
            changed(cost=replace(COST, type=pa.float64())),
            *[["team_model.cost: type was 'decimal128(38, 9)' and is 'double'"]] * 2,
        ),
        (changed(cost=replace(COST, nullable=True)), *[["team_model.cost: nullable was False and is True"]] * 2),
        (changed(cost=replace(COST, unit="cents")), *[["team_model.cost: unit was 'currency' and is 'cents'"]] * 2),
        (changed(cost=None), *[["team_model.cost: the column is gone"]] * 2),
        (
            [replace(TEAM_MODEL, columns=TEAM_MODEL.columns[::-1])],
            *[["team_model: columns are in another order, or new ones stand before old ones"]] * 2,
        ),
        ([TEAM_MODEL, FINDINGS], ["findings: a new table"], []),
        ([FINDINGS], ["team_model: the table is gone", "findings: a new table"], ["team_model: the table is gone"]),
    ],
)
def test_what_a_reader_notices(tables: list[Table], within: list[str], across: list[str]) -> None:
    held = contract_of([TEAM_MODEL], "1")
    assert differences(held, contract_of(tables, "1")) == within
    assert differences(held, contract_of(tables, "2")) == across


def test_a_reader_compares_a_contract_that_was_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "kept.json"
    kept.write_text(render_contract(contract_of(changed(tax=TAX), "0")), encoding="utf-8")
    assert cli.main(["contract", "--against", str(kept)]) == 3
    assert capsys.readouterr().out == "team_model.tax: the column is gone\n"
    kept.write_text(render_contract(contract_of()), encoding="utf-8")
    assert cli.main(["contract", "--against", str(kept)]) == 0
    assert capsys.readouterr().out == f"version {SCHEMA_VERSION} keeps all that version {SCHEMA_VERSION} promises\n"


@pytest.mark.parametrize("text", [None, "{", "[]", '{"schema_version": "1", "tables": {"a": [{"name": "b"}]}}'])
def test_what_is_no_contract_is_refused(text: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "no.json"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    assert cli.main(["contract", "--against", str(path)]) == 2
    assert "no.json: is no contract file" in capsys.readouterr().err
