"""What may be written under ``include``, ``exclude`` and ``policy.unattributed``, and that a run's mark knows of it."""

from pathlib import Path

import pytest

from allocation.errors import SettingsError
from pipelines.overruled import rules_of
from pipelines.settings import Settings, load_settings

BASE = """version: 1
output: out
clusters: [{name: prod, metrics: [{kind: openmetrics, path: m.om}]}]
policy: {unattributed: UNATTRIBUTED}
billing: [{kind: focus, path: b.csv, RULES}]
"""


def loaded(folder: Path, rules: str, unattributed: str = "spread") -> Settings:
    path = folder / "chargeback.yaml"
    path.write_text(BASE.replace("RULES", rules).replace("UNATTRIBUTED", unattributed), encoding="utf-8")
    return load_settings(path)


def test_rules_are_read_in_order(tmp_path: Path) -> None:
    settings = loaded(tmp_path, 'exclude: [{service: "A*", region: x}, {rule: y}], include: [{resource: "i-*"}]')
    assert rules_of(settings) == [[0, [{"service": "A*", "region": "x"}, {"rule": "y"}], [{"resource": "i-*"}]]]
    assert settings.policy.policy().unattributed == "spread"


def test_the_policy_is_part_of_its_id(tmp_path: Path) -> None:
    ids = {loaded(tmp_path, "cost: billed", name).policy.policy().policy_id for name in ("spread", "out_of_scope")}
    assert len(ids) == 2


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ("exclude: [{}]", "names none of service"),
        ('include: [{service: " "}]', "service is empty"),
        ("include: [{usage_typ: x}]", "usage_type"),
    ],
)
def test_a_rule_that_cannot_fit_is_refused(tmp_path: Path, rules: str, told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        loaded(tmp_path, rules)
