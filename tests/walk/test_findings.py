"""Findings of a whole run: said once, with the money and the figures that hang on them."""

from pathlib import Path

from tests.walk.test_faults import NODE, Place, line


def told(place: Place, code: str, cluster: str = "prod") -> list[dict[str, object]]:
    """The findings of a code."""
    return [row for row in place.rows(cluster, "findings") if row["code"] == code]


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
