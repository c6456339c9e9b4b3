"""Capacity blocks in the configuration: what is refused, and what a change of them makes anew."""

import shutil
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from allocation.errors import SettingsError
from pipelines.bills import discover, options_of
from pipelines.day_bill import read_day
from pipelines.inputs import inputs_of
from pipelines.partition import Partition
from pipelines.settings import Settings, load_settings
from pipelines.walk import open_walk

CASE = Path(__file__).parents[1] / "cases" / "94-capacity-block"
BLOCK = {"id": "cr-0ABC", "from": "2026-10-01T00:30:00Z", "until": "2026-10-01T02:30:00Z", "instances": 2}


def changed(tmp_path: Path, **billing: Any) -> Settings:  # noqa: ANN401 - any value of the configuration
    folder = tmp_path / "case"
    shutil.copytree(CASE, folder, dirs_exist_ok=True)
    values = yaml.safe_load((folder / "chargeback.yaml").read_text(encoding="utf-8"))
    entry = {name: value for name, value in (values["billing"][0] | billing).items() if value is not None}
    (folder / "chargeback.yaml").write_text(yaml.safe_dump(values | {"billing": [entry]}), encoding="utf-8")
    return load_settings(folder / "chargeback.yaml")


@pytest.mark.parametrize(
    ("billing", "told"),
    [
        ({"capacity_blocks": [BLOCK | {"until": BLOCK["from"]}]}, "`until` must be after `from`"),
        ({"capacity_blocks": [{n: v for n, v in BLOCK.items() if n != "instances"}]}, "say how many `instances`"),
        ({"capacity_blocks": [BLOCK | {"instances": 1, "nodes": ["i-0a", "i-0b"]}]}, "names more than `instances`"),
        ({"capacity_blocks": [BLOCK | {"instances": 0}]}, "greater than or equal to 1"),
        ({"capacity_blocks": [BLOCK | {"id": "0abc"}]}, "capacity_blocks.0.id"),
        ({"capacity_blocks": [BLOCK | {"nodes": ["gpu-a"]}]}, "capacity_blocks.0.nodes.0"),
        ({"capacity_blocks": [BLOCK, BLOCK | {"id": "cr-0abc"}]}, "names a block twice"),
        ({"capacity_blocks": [BLOCK | {"instance": 2}]}, "did you mean 'instances'"),
        ({"kind": "focus"}, "`capacity_blocks` belong to the kinds aws-cur, aws-cur2"),
        ({"external_id": "x"}, "name `role_arn`"),
        ({"role_arn": "bills"}, "role_arn"),
    ],
)
def test_what_is_refused(tmp_path: Path, billing: dict[str, object], told: str) -> None:
    with pytest.raises(SettingsError) as caught:
        changed(tmp_path, **billing)
    assert told in str(caught.value)


def test_an_adapter_is_told_of_the_block_and_of_the_identity(tmp_path: Path) -> None:
    nodes = BLOCK | {"instances": None, "nodes": ["i-0A", "i-0b"]}
    role = "arn:aws:iam::111122223333:role/bills"
    settings = changed(tmp_path, capacity_blocks=[nodes], role_arn=role, external_id="e", profile="p")
    options = options_of(settings.billing[0], 0)
    (block,) = options.capacity_blocks
    assert (block.reservation, block.instances, block.machines) == ("cr-0abc", 2, ("i-0a", "i-0b"))
    assert (block.end - block.start).total_seconds() == 7200
    assert (options.identity.profile, options.identity.role_arn, options.identity.external_id) == ("p", role, "e")


def test_a_change_of_a_block_makes_the_lines_anew(tmp_path: Path) -> None:
    settings = [changed(tmp_path, capacity_blocks=blocks) for blocks in ([BLOCK], [BLOCK | {"instances": 3}], None)]
    keys = [discover(one)[0].key for one in settings]
    assert len(set(keys)) == 3
    store = open_walk(settings[0]).store
    marks = [inputs_of(one, store, Partition(date(2026, 10, 1), "prod"), "owners")["billing"] for one in settings]
    assert len(set(marks)) == 3
    again = changed(tmp_path, capacity_blocks=[BLOCK], role_arn="arn:aws:iam::111122223333:role/bills")
    assert discover(again)[0].key == keys[0]


def test_a_fee_of_a_block_that_is_not_configured_is_told_with_its_money(tmp_path: Path) -> None:
    bill = read_day(open_walk(changed(tmp_path, capacity_blocks=None)), date(2026, 10, 1))
    (found,) = [f for f in bill.findings if f.code == "capacity_block"]
    assert (found.subject, found.cost_at_risk_nanos, found.currency, found.count) == ("cr-0abc", 96 * 10**9, "USD", 1)
    assert "billing[].capacity_blocks" in found.evidence
    configured = read_day(open_walk(changed(tmp_path, capacity_blocks=[BLOCK])), date(2026, 10, 1))
    assert [f.code for f in configured.findings if f.code == "capacity_block"] == []
    pools = [(r["pool"], r["pool_size"]) for r in configured.lines.to_pylist() if r["line_type"] == "Fee"]
    assert pools == [("reservation:cr-0abc", 2)]
