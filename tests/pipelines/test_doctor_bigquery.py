"""Doctor on a bill in BigQuery: what a first run would be billed is told before anything is read."""

from datetime import date
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from pipelines.billing_entries import BillingEntry
from pipelines.doctor import Status, diagnose, exit_code
from pipelines.settings import load_settings
from tests.billing_adapters.detailed_rows import used
from tests.fake_bigquery import PATH, FakeBigQuery

QUICKSTART = Path(__file__).resolve().parents[2] / "examples" / "quickstart"


def checks(folder: Path, bigquery: FakeBigQuery, **billing: object) -> dict[str, tuple[Status, str, str]]:
    """Each check of the bill: status, what, what to do."""
    values = {
        "version": 1,
        "output": "out",
        "start": "2026-10-01",
        "clusters": [{"name": "prod", "metrics": [{"kind": "openmetrics", "path": str(QUICKSTART / "metrics.om")}]}],
        "billing": [{"kind": "gcp", "name": "google", "path": PATH, "endpoint_url": bigquery.url, **billing}],
    }
    (folder / "chargeback.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    found = diagnose(load_settings(folder / "chargeback.yaml"), date(2026, 10, 3))
    assert exit_code(found) == (3 if any(check.status is Status.FAIL for check in found) else 0)
    return {check.name: (check.status, check.what, check.todo) for check in found if "google" in check.name}


def loaded(bigquery: FakeBigQuery) -> None:
    for day in (1, 2):
        bigquery.table.load(date(2026, 10, day), [used(f"2026-10-{day:02d}T{hour:02d}", 1.0) for hour in range(24)])


@pytest.mark.parametrize(("limit", "status"), [("3GiB", Status.OK), ("1GiB", Status.WARN)])
def test_a_first_run_is_estimated(tmp_path: Path, bigquery: FakeBigQuery, limit: str, status: Status) -> None:
    loaded(bigquery)
    bigquery.value_bytes = 1 << 20
    told = checks(tmp_path, bigquery, max_bytes_billed=limit)
    estimates = [sent for sent in bigquery.sent if sent.dry_run]
    # 48 rows, a MiB each value: three columns are named to find the deliveries, and each that is read.
    columns = 3 + estimates[1].text.count(" AS ")
    scanned = f"{48 * columns / 1024:.1f} GiB"
    assert told["bill scan google"][:2] == (status, f"a first run scans {scanned}, limit {limit[0]}.0 GiB")
    assert ("max_bytes_billed" in told["bill scan google"][2]) == (status is Status.WARN)
    assert told["bill google"][1].endswith("the detailed export in BigQuery, 24 rows loaded on 2026-10-02")


def test_the_newest_deliveries_tell_the_days(tmp_path: Path, bigquery: FakeBigQuery) -> None:
    loaded(bigquery)
    told = checks(tmp_path, bigquery)
    assert told["bill days google"][1] == "newest day with lines 2026-10-02, complete to the end of 2026-10-02"
    assert [sent.partitions for sent in bigquery.read] == [("2026-10-02", "2026-10-03")]


def test_a_limit_that_even_the_look_around_passes(tmp_path: Path, bigquery: FakeBigQuery) -> None:
    loaded(bigquery)
    told = checks(tmp_path, bigquery, max_bytes_billed="1MiB")
    assert told["bill google"][0] is Status.FAIL
    assert "billing.max_bytes_billed allows 0.001 GiB a run" in told["bill google"][1]


@pytest.mark.parametrize("setting", [{"query_project": "finops-jobs"}, {"max_bytes_billed": "1GiB"}])
def test_who_pays_a_query_is_said_of_a_table_alone(setting: dict[str, str]) -> None:
    assert BillingEntry(kind="gcp", path=PATH, **setting).path == PATH
    with pytest.raises(ValidationError, match=rf"`{next(iter(setting))}` belongs to a path bigquery://"):
        BillingEntry(kind="gcp", path="gs://example-bucket/bills", **setting)
