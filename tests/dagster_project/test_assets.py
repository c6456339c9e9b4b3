"""The assets on real files: the figures of the command line's walk, row by row, and what a materialisation tells."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest

from allocation.schemas import TABLES
from dagster_project.build import build_definitions
from dagster_project.io_manager import Kept, TableIOManager
from dagster_project.partitions import CLUSTER, DATE, key_of
from pipelines.partition import Partition
from pipelines.results import Results
from pipelines.settings import load_settings
from pipelines.stages import run_day
from pipelines.walk import open_walk
from tests.dagster_project.places import DAY, QUICKSTART, RESULTS, TWO_CLUSTERS, Place, copied, failure_of

ASSETS = {"line_items", "samples", "nodes", "pods", "usage", *RESULTS}


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return copied(TWO_CLUSTERS, tmp_path / "two")


def results_of_the_walk(place: Place, output: Path) -> list[Results]:
    settings = load_settings(place.config).model_copy(update={"output": str(output)})
    return run_day(open_walk(settings), DAY)


def told_of(result: dg.ExecuteInProcessResult) -> dict[str, dict[str, object]]:
    events = [e.step_materialization_data.materialization for e in result.all_events if e.is_step_materialization]
    return {e.asset_key.path[-1]: {k: v.value for k, v in e.metadata.items()} for e in events}


@pytest.mark.parametrize("source", [TWO_CLUSTERS, QUICKSTART], ids=["two-clusters", "quickstart"])
def test_every_table_is_that_of_the_walk(source: Path, tmp_path: Path, instance: dg.DagsterInstance) -> None:
    place = copied(source, tmp_path / "copy")
    expected = results_of_the_walk(place, tmp_path / "walk")
    assert {r.partition.cluster for r in expected} >= {"prod", "_bill"}
    for result in expected:
        assert place.run(instance, result.partition.cluster).success
    for result in expected:
        for name in RESULTS:
            got, wanted = place.rows(name, result.partition.cluster), getattr(result, name)
            assert got.schema.equals(TABLES[name].arrow(), check_metadata=True)
            assert got.to_pylist() == wanted.to_pylist(), f"{result.partition} {name}"


def test_worked_figures_and_what_is_told_of_them(place: Place, instance: dg.DagsterInstance) -> None:
    runs = {cluster: place.run(instance, cluster) for cluster in ("prod", "dev", "_bill")}
    told = {cluster: told_of(run) for cluster, run in runs.items()}
    assert all(set(of_assets) == ASSETS for of_assets in told.values())
    assert place.rows("chargeback", "prod")["used_cost"].to_pylist() == [Decimal("5.000000000")]
    assert place.rows("chargeback", "dev")["cost"].to_pylist() == [Decimal("20.000000000")]
    assert {c: told[c]["line_items"].get("total_billed_USD") for c in told} == {
        "prod": "10.000000000",
        "dev": "20.000000000",
        "_bill": "7.500000000",
    }
    assert told["_bill"]["reconciliation"]["total_billed_USD"] == "7.500000000"
    assert told["prod"]["chargeback"]["total_billed_USD"] == "10.000000000"
    assert [told["_bill"][name]["dagster/row_count"] for name in ("line_items", "samples", "usage", "chargeback")] == [2, 0, 0, 0]
    assert [told["prod"][name]["dagster/row_count"] for name in ("line_items", "samples", "nodes", "usage")] == [1, 1, 1, 1]
    assert "| gpu-a" in str(told["prod"]["chargeback"]["preview"])
    assert told["_bill"]["chargeback"]["preview"] == "no rows"


def test_checks_hold_and_name_what_they_compared(place: Place, instance: dg.DagsterInstance) -> None:
    evaluated = {e.check_name: e for e in place.run(instance, "dev").get_asset_check_evaluations()}
    assert {name: (e.asset_key.path[-1], e.passed) for name, e in evaluated.items()} == {
        "conservation": ("reconciliation", True),
        "coverage": ("chargeback", True),
        "no_errors": ("findings", True),
    }
    assert evaluated["conservation"].metadata["cost_out"].value == "20.000000000"
    assert evaluated["coverage"].metadata["unallocated_share_billed_USD"].value == 0.0


def test_cost_that_nothing_measured_warns(place: Place, instance: dg.DagsterInstance) -> None:
    unseen = "# EOF\n"
    (place.folder / "prod.om").write_text(unseen, encoding="utf-8")
    run = place.run(instance, "prod")
    (coverage,) = [e for e in run.get_asset_check_evaluations() if e.check_name == "coverage"]
    assert run.success
    assert not coverage.passed
    assert coverage.severity == dg.AssetCheckSeverity.WARN
    assert coverage.metadata["unallocated_share_billed_USD"].value == 1.0
    assert "no_series" in place.rows("findings", "prod")["code"].to_pylist()


def test_a_rerun_gives_equal_bytes(place: Place, instance: dg.DagsterInstance) -> None:
    clusters = ("prod", "dev", "_bill")
    assert all(place.run(instance, c).success for c in clusters)
    first = place.bytes_of_parquet()
    assert all(place.run(instance, c, config={"ops": {"fetch": {"config": {"refetch": True}}}}).success for c in clusters)
    assert place.bytes_of_parquet() == first
    assert {name.split("/")[0] for name in first} == {*ASSETS, "versions"}


def test_knowing_less_is_refused_until_it_is_accepted(place: Place, instance: dg.DagsterInstance) -> None:
    assert place.run(instance, "dev").success
    before = {k: v for k, v in place.bytes_of_parquet().items() if k.split("/")[0] in RESULTS}
    (place.folder / "dev.om").write_text("# EOF\n", encoding="utf-8")
    refused = place.run(instance, "dev")
    assert not refused.success
    assert "retention may have passed" in failure_of(refused)
    assert {k: v for k, v in place.bytes_of_parquet().items() if k.split("/")[0] in RESULTS} == before
    assert place.run(instance, "dev", config={"ops": {"fetch": {"config": {"accept_less_metrics": True}}}}).success
    assert place.rows("chargeback", "dev")["reason"].to_pylist() == ["node_without_metrics"]


def test_owners_are_applied_to_what_is_measured_already(place: Place, instance: dg.DagsterInstance) -> None:
    assert place.run(instance, "prod").success
    text = place.config.read_text(encoding="utf-8")
    place.config.write_text(text + "owners: {team: [namespace]}\n", encoding="utf-8")
    assert place.run(instance, "prod", only="results").success
    assert place.rows("chargeback", "prod")["team"].to_pylist() == ["ns"]


def test_usage_of_another_policy_is_not_charged(place: Place, instance: dg.DagsterInstance) -> None:
    assert place.run(instance, "prod").success
    before = place.bytes_of_parquet()
    place.config.write_text(
        place.config.read_text(encoding="utf-8").replace("max_hold: 10m", "max_hold: 10m, idle: separate"), encoding="utf-8"
    )
    refused = place.run(instance, "prod", only="results")
    assert not refused.success
    assert failure_of(refused).endswith("materialise usage first")
    assert place.bytes_of_parquet() == before


def test_a_bill_that_cannot_be_read_fails_in_one_line_and_writes_nothing(place: Place, instance: dg.DagsterInstance) -> None:
    bill = place.folder / "bill.csv"
    bill.write_text(bill.read_text(encoding="utf-8").replace("20.00,20.00", "twenty,20.00"), encoding="utf-8")
    refused = place.run(instance, "prod")
    assert not refused.success
    assert "bill.csv, row 2" in failure_of(refused)
    assert "\n" not in failure_of(refused)
    assert place.bytes_of_parquet() == {}


def test_every_asset_is_kept_by_our_io_manager(place: Place) -> None:
    definitions = build_definitions(place.config)
    graph = definitions.resolve_asset_graph()
    keys = {key for made in graph.assets_defs for key in made.keys}
    assert {key.path[-1] for key in keys} == ASSETS
    managers = {made.get_io_manager_key_for_asset_key(key) for made in graph.assets_defs for key in made.keys}
    assert managers == {"io_manager"}
    assert definitions.resources is not None
    assert isinstance(definitions.resources["io_manager"], TableIOManager)
    for made in graph.assets_defs:
        assert isinstance(made.partitions_def, dg.MultiPartitionsDefinition)
        assert {d.name for d in made.partitions_def.partitions_defs} == {DATE, CLUSTER}


def test_nothing_is_pickled(place: Place, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with dg.DagsterInstance.local_temp(str(home)) as instance:
        assert place.run(instance, "prod").success
    assert {f.suffix for f in place.output.rglob("*") if f.is_file()} == {".parquet", ".json"}
    kept = [f for f in home.rglob("*") if f.is_file()]
    assert kept
    assert not [f for f in kept if f.read_bytes()[:2] in (b"\x80\x04", b"\x80\x05")]
    assert not [f for f in kept if set(f.parts) & ASSETS]


def test_assets_downstream_get_tables_as_they_ask(place: Place, instance: dg.DagsterInstance) -> None:
    assert place.run(instance, "dev").success
    repository = build_definitions(place.config).get_repository_def()
    key, nowhere = key_of(Partition(DAY, "dev")), key_of(Partition(DAY, "prod"))
    with repository.get_asset_value_loader(instance) as loader:
        table = loader.load_asset_value("chargeback", partition_key=key, python_type=pa.Table)
        kept = loader.load_asset_value("usage", partition_key=key, python_type=Kept)
        nothing = loader.load_asset_value("nodes", partition_key=key_of(Partition(DAY, "_bill")), python_type=pa.Table)
        with pytest.raises(dg.Failure, match="materialise usage for it first"):
            loader.load_asset_value("usage", partition_key=nowhere, python_type=pa.Table)
    assert isinstance(table, pa.Table)
    assert table.equals(place.rows("chargeback", "dev"))
    assert isinstance(kept, Kept)
    assert (kept.table["bucket"].to_pylist(), kept.detail["findings"]) == (["workload"], [[]])
    assert isinstance(nothing, pa.Table)
    assert nothing.equals(TABLES["nodes"].empty())
