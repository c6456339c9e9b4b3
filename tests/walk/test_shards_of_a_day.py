"""A day's figures are the same in whatever shards it is cut, wherever they run, and whether they are computed early or late."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.results import RESULT_TABLES
from pipelines.settings import load_settings
from pipelines.stages import run_day
from pipelines.steps import COMPUTED, FETCHED, Step
from pipelines.walk import open_walk
from tests.fleets import DAY, PRODUCTION, Fleet, fleet_lines, series
from tests.servers import needs_prometheus, prometheus

CARD = """version: 1
currency: USD
rates:
  - {name: a100, match: {gpu_model: "*A100*"}, per: gpu-hour, amount: "1.50"}
"""


def run(fleet: Fleet, *, refetch: bool = False) -> list[str]:
    """The day of a fleet; what became of shards, in order."""
    steps: list[Step] = []
    with open_walk(load_settings(fleet.config), refetch=refetch, watch=steps.append) as walk:
        for result in run_day(walk, DAY):
            result.rows.close()
    return [step.stage for step in steps if step.partition == str(PRODUCTION) and step.stage in (FETCHED, COMPUTED)]


def test_any_shards_in_any_number_of_processes_give_the_same_bytes(tmp_path: Path) -> None:
    """Of eight nodes with series two are one machine, so shards of two and of seven cut it from itself."""
    found = {}
    for nodes, workers in ((1, 1), (2, 1), (7, 1), (2, 2)):
        fleet = Fleet(tmp_path / f"{nodes}-{workers}", {"nodes_per_shard": nodes}, engine={"workers": workers})
        stages = run(fleet)
        assert stages.count(FETCHED) == -(-8 // nodes)
        found[nodes, workers] = fleet.bytes_of(RESULT_TABLES)
    assert [key for key, files in found.items() if files != found[1, 1]] == []
    rows = fleet.rows()
    assert {"e1", "f", "h"} <= {row["node"] for row in rows}
    assert {"llama", "qwen", "web", "old", "new", "first", "second"} <= {row["model"] for row in rows}
    assert {row["pod"] for row in rows if row["node"] in ("a", "c")} >= {"web-0"}
    assert len({row["line_item_id"] for row in rows}) == 8 * 3 + 1


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its index names a series of node ``h`` for the day, whose samples came five hours before, in the same block."""
    folder = tmp_path_factory.mktemp("prometheus")
    early = series("DCGM_FI_DEV_FB_USED", {"Hostname": "h", "UUID": "GPU-h-0", "modelName": "A100"}, 5, (-5, -4.9))
    lines = sorted([*early, *fleet_lines()], key=lambda text: text.split("{")[0])
    (folder / "m.om").write_text("\n".join([*lines, "# EOF", ""]), encoding="utf-8")
    with prometheus(folder, folder / "m.om") as url:
        yield url


def served(folder: Path, url: str, **more: object) -> Fleet:
    return Fleet(folder, {"kind": "prometheus", "url": url, "chunk": "2d", "nodes_per_shard": 4}, **more)


@needs_prometheus
def test_what_the_index_let_expect_wrongly_is_computed_again(tmp_path: Path, server: str) -> None:
    """The shards are computed as they come, then again, as node h has no series; a rerun from the store says the same."""
    fleet = served(tmp_path / "ahead", server)
    stages = run(fleet)
    assert stages[:2] == [FETCHED, COMPUTED]
    assert (stages.count(FETCHED), stages.count(COMPUTED)) == (3, 2 * 3)
    written = fleet.bytes_of(RESULT_TABLES)
    assert run(fleet) == [COMPUTED] * 3
    assert fleet.bytes_of(RESULT_TABLES) == written
    assert [row["subject"] for row in fleet.rows("findings") if row["code"] == "node_without_metrics"] == ["h"]


@needs_prometheus
def test_a_day_with_a_rate_card_waits_for_its_series(tmp_path: Path, server: str) -> None:
    """The card's lines need the models that series name."""
    (tmp_path / "card.yaml").write_text(CARD, encoding="utf-8")
    fleet = served(tmp_path, server, billing=[{"kind": "rate-card", "path": "card.yaml", "name": "own"}])
    stages = run(fleet)
    assert stages == [*[FETCHED] * 3, *[COMPUTED] * 3]
    written = fleet.bytes_of(RESULT_TABLES)
    assert run(fleet) == [COMPUTED] * 3
    assert fleet.bytes_of(RESULT_TABLES) == written
    assert len(fleet.rows()) > 0
