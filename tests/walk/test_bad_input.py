"""What a user's mistake gets: one clear line, the right exit code, and no partition touched."""

import shutil
from pathlib import Path

import pytest
import yaml

from pipelines import cli

CASES = Path(__file__).parents[1] / "cases"
WINDOW = ["--from", "2026-10-01", "--until", "2026-10-02"]


@pytest.fixture
def case(tmp_path: Path) -> Path:
    """A copy of the first case that a test may spoil."""
    folder = tmp_path / "case"
    shutil.copytree(CASES / "01-fairness-holder", folder)
    return folder


def change(case: Path, file: str, old: str, new: str) -> None:
    path = case / file
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def settings(case: Path, **changes: object) -> Path:
    path = case / "chargeback.yaml"
    values = yaml.safe_load(path.read_text(encoding="utf-8"))
    values.update(changes)
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return path


def refused(case: Path, capsys: pytest.CaptureFixture[str], code: int, *texts: str, window: list[str] = WINDOW) -> None:
    assert cli.main(["run", str(case / "chargeback.yaml"), *window]) == code
    error = " ".join(capsys.readouterr().err.split())
    assert [t for t in texts if t not in error] == []
    assert "Traceback" not in error
    assert list(case.glob("out/chargeback/**/*.parquet")) == []


def test_unknown_key(case: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(case, "chargeback.yaml", "max_hold", "max_hould")
    refused(case, capsys, 2, "max_hould", "max_hold")


def test_unknown_section_in_the_environment(
    case: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHARGEBACK__POLICI__IDLE", "separate")
    refused(case, capsys, 2, "CHARGEBACK__POLICI__IDLE", "policy")


def test_environment_overrides_the_file(case: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHARGEBACK__POLICY__IDLE", "separate")
    assert cli.main(["run", str(case / "chargeback.yaml"), *WINDOW, "--format", "json"]) == 0
    assert '"50.000000000"' in capsys.readouterr().out


def test_hold_above_gap(case: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings(case, policy={"max_hold": "20m", "max_gap": "15m"})
    refused(case, capsys, 2, "max_hold")


def test_reserved_cluster_name(case: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(case, "chargeback.yaml", "name: prod", "name: _bill")
    refused(case, capsys, 2, "_bill", "reserved")


@pytest.mark.parametrize("moment", ["2026-10-01T06:00:00Z", "2026-10-01T06:00"])
def test_window_inside_a_day(case: Path, capsys: pytest.CaptureFixture[str], moment: str) -> None:
    refused(case, capsys, 2, "--from 2026-10-01 --until 2026-10-02", window=["--from", moment])


def test_window_upside_down(case: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused(case, capsys, 2, "half-open", window=["--from", "2026-10-02", "--until", "2026-10-01"])


@pytest.mark.parametrize(
    ("amount", "said"),
    [
        (80, "80 has no unit; write it like 80GiB"),
        ("0GiB", "less memory than a device has"),
        ("80 Gi", "no whole amount of memory"),
    ],
)
def test_memory_of_a_device_without_sense(case: Path, capsys: pytest.CaptureFixture[str], amount: object, said: str) -> None:
    """80 bytes would make every holder too large for its card, and the figures wrong."""
    values = yaml.safe_load((case / "chargeback.yaml").read_text(encoding="utf-8"))
    values["clusters"][0]["nodes"][0]["gpu_memory"] = amount
    settings(case, clusters=values["clusters"])
    refused(case, capsys, 2, said)


def test_no_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", str(tmp_path / "none.yaml")]) == 2
    assert "none.yaml" in capsys.readouterr().err


def test_unknown_cluster(case: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused(case, capsys, 2, "did you mean 'prod'", window=[*WINDOW, "--cluster", "prd"])


def test_unreachable_prometheus(case: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entry = {"kind": "prometheus", "url": "http://127.0.0.1:9", "profile": "dcgm", "retries": 0}
    settings(case, clusters=[{"name": "prod", "metrics": [entry]}])
    refused(case, capsys, 1, "http://127.0.0.1:9", "metrics")


def test_unreachable_bucket(case: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    settings(case, billing=[{"kind": "focus", "path": "s3://bucket/bill.csv", "endpoint_url": "http://127.0.0.1:9"}])
    refused(case, capsys, 1, "s3://bucket/bill.csv", "billing")


def test_cost_that_is_no_number(case: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(case, "bill.csv", "Usage,100.00,", "Usage,1.234,56,".replace(",56", "x"))
    refused(case, capsys, 1, "bill.csv", "row 1", "1.234x")


def test_unknown_currency(case: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(case, "bill.csv", ",USD,", ",XQZ,")
    refused(case, capsys, 1, "bill.csv", "row 1", "XQZ")


def test_missing_bill(case: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (case / "bill.csv").unlink()
    refused(case, capsys, 1, "bill.csv")


def test_series_file_without_its_end(case: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(case, "metrics.om", "# EOF", "")
    refused(case, capsys, 1, "metrics.om", "EOF")


def test_two_clusters_claim_one_machine(case: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = yaml.safe_load((case / "chargeback.yaml").read_text(encoding="utf-8"))
    values["clusters"].append(values["clusters"][0] | {"name": "other"})
    settings(case, clusters=values["clusters"])
    refused(case, capsys, 1, "other and prod", "i-0a00000000000001a")


def test_a_failed_run_leaves_the_old_partition(case: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", str(case / "chargeback.yaml"), *WINDOW]) == 0
    before = {p: p.read_bytes() for p in case.glob("out/*/date=*/**/*") if p.is_file()}
    change(case, "bill.csv", ",USD,", ",XQZ,")
    assert cli.main(["run", str(case / "chargeback.yaml"), *WINDOW]) == 1
    assert "XQZ" in capsys.readouterr().err
    assert {p: p.read_bytes() for p in case.glob("out/*/date=*/**/*") if p.is_file()} == before


def test_knowing_less_is_refused(case: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = str(case / "chargeback.yaml")
    assert cli.main(["run", config, *WINDOW]) == 0
    lines = (case / "metrics.om").read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if line.startswith("#") or int(line.split()[-1]) < 1790812800 + 5400]
    (case / "metrics.om").write_text("\n".join(kept) + "\n", encoding="utf-8")
    assert cli.main(["run", config, *WINDOW]) == 1
    assert "--accept-less-metrics" in capsys.readouterr().err
    assert cli.main(["run", config, *WINDOW, "--accept-less-metrics"]) == 0


def test_empty_window_is_done_with_findings(case: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", str(case / "chargeback.yaml"), "--from", "2026-11-05", "--until", "2026-11-06"]) == 0
    shown = capsys.readouterr().out
    assert "no_lines" in shown
    assert "no_series" in shown


@pytest.mark.parametrize("name", ["../../evil", "a/b", "..", "x=y", "new\nline"])
def test_names_never_leave_their_folder(case: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    values = yaml.safe_load((case / "chargeback.yaml").read_text(encoding="utf-8"))
    values["clusters"][0]["name"] = name
    settings(case, clusters=values["clusters"])
    assert cli.main(["run", str(case / "chargeback.yaml"), *WINDOW, "--format", "json"]) == 0
    assert capsys.readouterr().err == ""
    written = {p.relative_to(case).parts[:3] for p in case.rglob("part-*.parquet") if "chargeback" in p.parts}
    assert len(written) == 1
    assert sorted(p.name for p in case.parent.iterdir()) == ["case"]
