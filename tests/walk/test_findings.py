"""What a whole run says and knows: findings said once, with their money; cards of machines that only the bill describes."""

import re
import shutil
from decimal import Decimal
from pathlib import Path

import pytest

from pipelines import cli
from tests.walk.test_faults import HEAD, NODE, Place, gpu, info, line

QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart"


def told(place: Place, code: str, cluster: str = "prod") -> list[dict[str, object]]:
    """The findings of a code."""
    return [row for row in place.rows(cluster, "findings") if row["code"] == code]


def test_the_quick_start_warns_of_what_its_page_tells_and_of_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(QUICKSTART, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("out", "__pycache__"))
    assert cli.main(["run", str(tmp_path / "chargeback.yaml"), "--from", "2026-10-01", "--until", "2026-10-02"]) == 0
    said = re.findall(r"^(?:warning|error) (\w+) (\S+):", capsys.readouterr().out, re.MULTILINE)
    assert sorted(said) == [
        ("low_coverage", "gpu-b/GPU-b04f9a2e"),
        ("low_coverage", "gpu-b/GPU-b1c7d350"),
        ("node_without_metrics", "gpu-c"),
        ("repeated_device_values", "gpu-a/GPU-a19e3b64"),
        ("unowned", "support/tagger-5b77-p9wlc"),
    ]


def test_a_day_without_series_is_told_once(tmp_path: Path) -> None:
    place = Place(tmp_path, ['up{job="x"} 1 1790812860'], [line("i-1", (0, 1), "9")], nodes=[NODE])
    assert place.run() == 0
    (finding,) = told(place, "no_series")
    assert finding["subject"] == "prod"
    assert "profile dcgm: no series of DCGM_FI_DEV_FB_USED" in str(finding["evidence"])


def test_a_day_with_series_of_no_node_is_told(tmp_path: Path) -> None:
    """Nothing else speaks of the cluster here: rows that lead to no node are told by metric."""
    homeless = 'DCGM_FI_DEV_FB_USED{UUID="GPU-1",pod="p",namespace="ns"} 1024 1790812860'
    place = Place(tmp_path, [homeless], [line("i-1", (0, 1), "9")], nodes=[NODE])
    assert place.run() == 0
    assert sorted(str(f["subject"]) for f in told(place, "no_series")) == ["DCGM_FI_DEV_FB_USED", "prod"]


def test_lines_of_a_machine_that_was_not_believed_are_named_with_their_money(tmp_path: Path) -> None:
    """Both machines are shown for the node from the first to the last sample; the one whose series goes on longer is believed."""
    lines = gpu("a", "GPU-1", "p", (0, 2))
    lines += info("a", (0, 1), provider_id="aws:///z/i-1") + info("a", (0, 2), provider_id="aws:///z/i-2")
    bill = [line("i-1", (0, 1), "7"), line("i-1", (1, 2), "5"), line("i-2", (0, 1), "10"), line("i-3", (0, 1), "1")]
    place = Place(tmp_path, lines, bill)
    assert place.run() == 0
    assert place.by_pod() == {"p": Decimal(10)}
    outside = {(r["resource_id"], r["rule"], r["state"]) for r in place.rows("_bill", "reconciliation")}
    assert outside == {("i-1", "node_contradicted", "out_of_scope"), ("i-3", "not_a_node", "out_of_scope")}
    (finding,) = told(place, "contradicting_inventory", "_bill")
    assert (finding["subject"], finding["cost_at_risk"], finding["count"]) == ("a", Decimal(12), 2)
    assert "i-1" in str(finding["evidence"])


def test_settings_that_name_what_is_not_there_are_told_with_the_nearest(tmp_path: Path) -> None:
    more = {
        "policy": {"reserved": {"A100": "1GiB", "A-100": "1GiB", "H200": "1GiB"}},
        "instance_types": {"g5.xlargo": {"gpus": 1, "gpu_memory": "24GiB"}, "own": {"gpus": 1, "gpu_memory": "24GiB"}},
    }
    lines = gpu("a", "GPU-1", "p", (0, 1)) + gpu("a", "GPU-2", "q", (0, 1), modelName="L4")
    place = Place(tmp_path, lines, [line("i-1", (0, 1), "9")], nodes=[NODE | {"instance_type": "own"}], **more)
    assert place.run() == 0
    found = {str(f["subject"]): str(f["evidence"]) for f in told(place, "unused_setting", "_bill")}
    assert sorted(found) == ["instance_types.g5.xlargo", "policy.reserved.A-100", "policy.reserved.H200"]
    assert found["policy.reserved.A-100"].endswith("seen, the nearest first: A100, L4")
    assert found["instance_types.g5.xlargo"].endswith("seen, the nearest first: own")


def test_a_machine_whose_type_only_the_bill_knows_has_that_types_cards(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A g4dn.12xlarge has four cards: one is seen, so 2 of 8 dollars are its pod's and 6 are nobody's."""
    node = {"name": "a", "provider_id": "aws:///z/i-1"}
    place = Place(tmp_path, gpu("a", "GPU-1", "p", (0, 1)), [], nodes=[node])

    def costs(kind: str) -> dict[object, Decimal]:
        rows = [f"{HEAD},x_InstanceType", f"{line('i-1', (0, 1), '8')},{kind}"]
        (tmp_path / "bill.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
        assert place.run() == 0
        return place.by_pod()

    assert costs("g4dn.12xlarge") == {"p": Decimal(2), "unallocated": Decimal(6)}
    shown = cli.main(["explain", str(tmp_path / "chargeback.yaml"), "--date", "2026-10-01", "--gpu", "GPU-1"])
    assert (shown, "2.00" in capsys.readouterr().out) == (0, True)
    assert costs("made.up") == {"p": Decimal(8)}
    place.values["instance_types"] = {"made.up": {"gpus": 2, "gpu_memory": "16GiB"}}
    place.save()
    before = place.rows()[0]["run_id"]
    assert costs("made.up") == {"p": Decimal(4), "unallocated": Decimal(4)}
    assert place.rows()[0]["run_id"] != before
    place.values["clusters"][0]["nodes"] = [node | {"gpus": 1}]  # type: ignore[index]
    place.save()
    assert costs("g4dn.12xlarge") == {"p": Decimal(8)}, "what is configured goes first"
