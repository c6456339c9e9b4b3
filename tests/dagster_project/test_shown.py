"""What is shown of tables and failures: exact totals, shares, names that would break a preview, what is tried again."""

from decimal import Decimal
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from allocation.errors import ChargebackError, SourceUnavailableError
from dagster_project.checks import unallocated_shares
from dagster_project.failures import clear_errors
from dagster_project.metadata import PREVIEW_ROWS, describe, totals
from dagster_project.resources import ChargebackConfig
from tests.dagster_project.places import TWO_CLUSTERS, copied


def money_rows(*rows: tuple[str, str, str]) -> pa.Table:
    currency, bucket, cost = zip(*rows, strict=True)
    amounts = pa.array([Decimal(c) for c in cost], pa.decimal128(38, 9))
    return pa.table({"cost_metric": ["billed"] * len(rows), "currency": currency, "bucket": bucket, "cost": amounts})


def test_totals_are_exact_and_never_added_across_currencies() -> None:
    table = money_rows(("USD", "idle", "0.1"), ("EUR", "idle", "-7"), ("USD", "workload", "9000000000.200000001"))
    assert totals("chargeback", table) == {"billed_EUR": "-7.000000000", "billed_USD": "9000000000.300000001"}


def test_unallocated_shares_count_sizes() -> None:
    rows = money_rows(
        ("USD", "workload", "75"),
        ("USD", "unallocated", "25"),
        ("EUR", "unallocated", "-1"),
        ("EUR", "idle", "-1"),
        ("JPY", "idle", "0"),
    )
    table = rows.append_column("size", pc.abs(rows["cost"]))
    assert unallocated_shares(table) == {"billed_EUR": 0.5, "billed_JPY": 0.0, "billed_USD": 0.25}


def test_a_preview_is_short_and_survives_odd_names() -> None:
    names = ["a|b\nc"] + [f"node-{n}" for n in range(20)]
    told = describe("nodes", pa.table({"node": names, "gpus": pa.array([None] * 21, pa.int64())}))
    lines = str(told["preview"].value).splitlines()
    assert told["dagster/row_count"].value == 21
    assert len(lines) == 2 + PREVIEW_ROWS
    assert lines[2].startswith("| a\\|b c ")


@pytest.mark.parametrize(
    ("error", "again"),
    [(SourceUnavailableError("http://x", "no answer", setting="url"), True), (ChargebackError("a row is wrong"), False)],
)
def test_only_an_unreachable_source_is_tried_again(error: ChargebackError, again: bool) -> None:
    with pytest.raises(dg.Failure) as failure, clear_errors():
        raise error
    assert (failure.value.description, failure.value.allow_retries) == (str(error), again)


def test_the_resource_reads_what_the_environment_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = copied(TWO_CLUSTERS, tmp_path / "two")
    monkeypatch.setenv("CHARGEBACK_CONFIG", str(place.config))
    walk = ChargebackConfig().walk(accept_less_metrics=True)
    assert [c.name for c in walk.settings.clusters] == ["prod", "dev"]
    assert (walk.store.location, walk.refetch, walk.accept_less_metrics) == (str(place.output), False, True)
