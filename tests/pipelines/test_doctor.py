"""Each part of a configuration is proven by itself, and a part that fails hides no other."""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

import boto3
import pytest
import yaml
from rich.console import Console

from pipelines.day_bill import read_day
from pipelines.doctor import Check, Status, diagnose, exit_code, render, worst
from pipelines.settings import Settings, load_settings
from pipelines.walk import open_walk
from tests.billing_adapters.bills import cur_bytes, focus_bytes, write, write_export
from tests.object_stores import Bucket
from tests.servers import free_port, needs_prometheus, prometheus, s3_server

QUICKSTART = Path(__file__).resolve().parents[2] / "examples" / "quickstart"
DAY_AFTER = date(2026, 10, 2)
NOON = 1_790_856_000  # 2026-10-01T12:00:00Z
PARTS = ["bill bill", "bill days bill", "metrics prod", "inventory prod", "nodes prod", "output"]


def config(folder: Path, *, metrics: Mapping[str, object], billing: Mapping[str, object], **more: object) -> Settings:
    values = {
        "version": 1,
        "output": "out",
        "clusters": [{"name": "prod", "metrics": [metrics]}],
        "billing": [{"name": "bill", **billing}],
        **more,
    }
    path = folder / "chargeback.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return load_settings(path)


def quickstart(folder: Path, **more: object) -> Settings:
    """The quick start's inputs, its bill under a name, its output elsewhere."""
    metrics = {"kind": "openmetrics", "path": str(QUICKSTART / "metrics.om")}
    billing = {"kind": "focus", "path": str(QUICKSTART / "bill.csv"), "cost": "effective"}
    return config(folder, **{"metrics": metrics, "billing": billing, **more})  # type: ignore[arg-type]


def named(checks: Sequence[Check], name: str) -> list[Check]:
    return [check for check in checks if check.name == name]


def one(checks: Sequence[Check], name: str) -> Check:
    (check,) = named(checks, name)
    return check


def bill_of(folder: Path, *changes: Mapping[str, str]) -> dict[str, object]:
    return {"kind": "focus", "path": str(write(folder / "bill.csv", focus_bytes(*changes)))}


def hour(start: str, **more: str) -> dict[str, str]:
    """One hour of a FOCUS line that starts at ``YYYY-MM-DDTHH``."""
    day, _, clock = start.partition("T")
    following = (
        f"{date.fromordinal(date.fromisoformat(day).toordinal() + 1)}T00" if clock == "23" else f"{day}T{int(clock) + 1:02d}"
    )
    return {"ChargePeriodStart": f"{start}:00:00Z", "ChargePeriodEnd": f"{following}:00:00Z", **more}


def series_file(folder: Path, *rows: str) -> dict[str, object]:
    text = "".join(f"{row} {NOON}\n" for row in rows)
    (folder / "metrics.om").write_text(f"{text}# EOF\n", encoding="utf-8")
    return {"kind": "openmetrics", "path": str(folder / "metrics.om")}


def used(node: str, **labels: str) -> str:
    more = "".join(f',{name}="{value}"' for name, value in labels.items())
    return f'DCGM_FI_DEV_FB_USED{{UUID="GPU-{node}",Hostname="{node}"{more}}} 5'


def info(node: str, machine: str) -> str:
    return f'kube_node_info{{node="{node}",provider_id="aws:///us-east-1a/{machine}"}} 1'


def distinct(pattern: str) -> int:
    """Distinct series of the quick start's file whose text fits."""
    text = (QUICKSTART / "metrics.om").read_text(encoding="utf-8")
    return len({line.rpartition("} ")[0] for line in text.splitlines() if re.match(pattern, line)})


def test_quick_start_is_whole_but_for_the_node_without_exporter(tmp_path: Path) -> None:
    checks = diagnose(quickstart(tmp_path, owners={"team": ["label:team"]}), DAY_AFTER)
    unwell = [(c.name, c.what) for c in checks if c.status is not Status.OK]
    assert unwell == [("nodes prod", "on the bill, without series: gpu-c")]
    assert worst(checks) is Status.WARN
    assert exit_code(checks) == 0
    assert [c.name for c in checks if not c.name.startswith(("role", "profile", "labels", "nodes"))] == [
        part for part in PARTS if part != "nodes prod"
    ]
    assert "gpu-a, gpu-b" in named(checks, "nodes prod")[0].what
    assert one(checks, "bill days bill").what == "newest day with lines 2026-10-01, complete to the end of 2026-10-01"
    # The quick start's bill has no column that came after 1.0.
    assert one(checks, "bill bill").what.endswith("), FOCUS 1.0")
    assert one(checks, "labels prod").what == "exported: team"
    assert list((tmp_path / "out").iterdir()) == []


def test_series_of_each_role_are_counted(tmp_path: Path) -> None:
    checks = diagnose(quickstart(tmp_path), DAY_AFTER)
    holders = distinct(r'DCGM_FI_DEV_FB_USED\{.*[,{]pod="[^"]')
    assert one(checks, "role prod pod_memory").what == f"{holders} series of DCGM_FI_DEV_FB_USED"
    rest = distinct(r"DCGM_FI_DEV_FB_USED\{") - holders
    assert one(checks, "role prod used").what == f"{rest} series of DCGM_FI_DEV_FB_USED"
    assert one(checks, "role prod free").what == f"{distinct('DCGM_FI_DEV_FB_FREE')} series of DCGM_FI_DEV_FB_FREE"
    assert one(checks, "role prod total").what == "0 series of DCGM_FI_DEV_FB_TOTAL; optional"
    assert one(checks, "profile prod").what == f"dcgm: {distinct('DCGM_FI_DEV_FB')} series on 2026-10-01"


@pytest.mark.parametrize(
    ("today", "start", "told"),
    [
        ("2026-10-03", None, "; 2026-10-02 is open"),
        ("2026-10-05", None, "; 2026-10-02 to 2026-10-04 are open"),
        ("2026-10-05", "2026-10-04", "; 2026-10-04 is open"),
    ],
)
def test_days_without_a_bill_are_open_and_no_failure(tmp_path: Path, today: str, start: str | None, told: str) -> None:
    checks = diagnose(quickstart(tmp_path, start=start), date.fromisoformat(today))
    check = one(checks, "bill days bill")
    assert check.status is Status.OPEN
    assert check.what.endswith(told)
    assert exit_code(checks) == 0


def test_a_day_is_complete_when_usage_reaches_its_end(tmp_path: Path) -> None:
    month = {"ChargeCategory": "Tax", "ChargePeriodEnd": "2026-11-01T00:00:00Z"}
    billing = bill_of(tmp_path, month, hour("2026-10-02T23"), hour("2026-10-03T00"), hour("2026-10-03T22"))
    settings = config(tmp_path, metrics=series_file(tmp_path, used("n1")), billing=billing)
    check = one(diagnose(settings, date(2026, 10, 4)), "bill days bill")
    told = "newest day with lines 2026-10-03, complete to the end of 2026-10-02; 2026-10-03 is open"
    assert (check.status, check.what) == (Status.OPEN, told)


def test_today_is_never_complete(tmp_path: Path) -> None:
    settings = config(tmp_path, metrics=series_file(tmp_path, used("n1")), billing=bill_of(tmp_path, hour("2026-10-03T23")))
    assert "no day complete yet" in one(diagnose(settings, date(2026, 10, 3)), "bill days bill").what


def test_lines_of_a_month_are_told_as_too_coarse(tmp_path: Path) -> None:
    billing = bill_of(tmp_path, {"ChargePeriodEnd": "2026-11-01T00:00:00Z"})
    settings = config(tmp_path, metrics=series_file(tmp_path, used("n1")), billing=billing)
    check = one(diagnose(settings, date(2026, 11, 2)), "bill days bill")
    assert check.status is Status.WARN
    assert "by the hour" in check.todo


def test_a_new_month_without_a_complete_day_leaves_the_month_before(tmp_path: Path) -> None:
    def line(day: str, clock: str, until: str) -> dict[str, str]:
        return {"line_item_usage_start_date": f"{day}T{clock}:00:00Z", "line_item_usage_end_date": until}

    export = write_export(tmp_path / "cur", {"a.csv.gz": cur_bytes(line("2026-10-01", "00", "2026-10-01T01:00:00Z"))})
    before = "BILLING_PERIOD=2026-09"
    write(export / "data" / before / "b.csv", cur_bytes(line("2026-09-30", "23", "2026-10-01T00:00:00Z")))
    manifest = {"dataFiles": [f"s3://example-bucket/exports/cur/data/{before}/b.csv"]}
    write(export / "metadata" / before / "cur-Manifest.json", json.dumps(manifest).encode())
    billing = {"kind": "aws-cur2", "path": str(export)}
    checks = diagnose(config(tmp_path, metrics=series_file(tmp_path, used("n1")), billing=billing), DAY_AFTER)
    assert one(checks, "bill bill").what.startswith("2 deliveries; the newest of 2026-10 has 1 file")
    assert "newest day with lines 2026-10-01, complete to the end of 2026-09-30" in one(checks, "bill days bill").what


def test_an_unreachable_server_hides_nothing_else(tmp_path: Path) -> None:
    url = f"http://user:hidden@127.0.0.1:{free_port()}"
    checks = diagnose(quickstart(tmp_path, metrics={"kind": "prometheus", "url": url, "retries": 0}), DAY_AFTER)
    check = one(checks, "metrics prod")
    assert (check.status, check.what) == (Status.FAIL, "cannot be reached: connection refused")
    assert "clusters.prod.metrics.url" in check.todo
    assert url.replace("user:hidden@", "") in check.where
    assert "hidden" not in str(checks)
    assert [c.name for c in checks if c.status is Status.OK] == ["bill bill", "bill days bill", "output"]
    assert one(checks, "nodes prod").status is Status.OPEN
    assert exit_code(checks) == 3


def test_a_missing_folder_hides_nothing_else(tmp_path: Path) -> None:
    checks = diagnose(quickstart(tmp_path, billing={"kind": "focus", "path": "nowhere"}), DAY_AFTER)
    check = one(checks, "bill bill")
    assert (check.status, check.what) == (Status.FAIL, "there is no such file or folder")
    assert str(tmp_path / "nowhere") in check.where
    assert "billing.path" in check.todo
    assert one(checks, "profile prod").what.endswith("in the whole file")
    assert one(checks, "nodes prod").what == "not joined: there is no bill line to join 2 nodes with series to"
    assert one(checks, "output").status is Status.OK


def test_a_missing_bucket_and_an_empty_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "made-up")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "made-up")
    with s3_server() as url:
        boto3.client("s3", endpoint_url=url, region_name="us-east-1").create_bucket(Bucket="example-bucket")
        where = {"kind": "focus", "endpoint_url": url, "region": "us-east-1"}
        missing = diagnose(quickstart(tmp_path, billing={**where, "path": "s3://not-there/focus"}), DAY_AFTER)
        empty = diagnose(quickstart(tmp_path, billing={**where, "path": "s3://example-bucket/focus"}), DAY_AFTER)
    for checks, problem in ((missing, "there is no such bucket"), (empty, "there are no objects")):
        check = one(checks, "bill bill")
        assert (check.status, check.what) == (Status.FAIL, problem)
        assert "s3://" in check.where
        assert one(checks, "metrics prod").status is Status.OK


def test_a_bucket_of_another_cloud_and_a_missing_extra(tmp_path: Path, gcs: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    where = {"kind": "focus", "path": "gs://not-there/focus"}
    missing = one(diagnose(quickstart(tmp_path, billing={**where, "endpoint_url": gcs.endpoint_url}), DAY_AFTER), "bill bill")
    assert (missing.what, missing.todo) == ("there is no such bucket", "Look at billing.path.")
    nobody = one(diagnose(quickstart(tmp_path, billing=where), DAY_AFTER), "bill bill")
    assert nobody.todo.startswith("Look at GOOGLE_APPLICATION_CREDENTIALS. Name a key file there")
    monkeypatch.setitem(sys.modules, "google.cloud", None)
    monkeypatch.delitem(sys.modules, "billing_adapters.gcs_files", raising=False)
    extra = one(diagnose(quickstart(tmp_path, billing=where), DAY_AFTER), "bill bill")
    assert (extra.status, extra.todo) == (Status.FAIL, "Install it.")
    assert "pip install 'gpu-chargeback[gcp]'" in extra.what


def test_a_row_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    billing = bill_of(tmp_path, {}, {"BilledCost": "ten"})
    checks = diagnose(config(tmp_path, metrics=series_file(tmp_path, used("n1")), billing=billing), DAY_AFTER)
    assert one(checks, "bill bill").status is Status.OK
    check = one(checks, "bill days bill")
    assert check.status is Status.FAIL
    assert check.where.endswith("bill.csv, row 2")
    assert "BilledCost" in check.what


def test_a_file_in_the_way_of_the_output(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("", encoding="utf-8")
    checks = diagnose(quickstart(tmp_path, output="taken"), DAY_AFTER)
    check = one(checks, "output")
    assert check.status is Status.FAIL
    assert str(tmp_path / "taken") in check.where
    assert "output" in check.todo
    assert one(checks, "metrics prod").status is Status.OK
    assert exit_code(checks) == 3


def test_nodes_are_joined_both_ways(tmp_path: Path) -> None:
    rows = [used("n1"), used("n2"), info("n1", "i-01"), info("n2", "i-02"), info("n3", "i-03"), info("cpu", "i-04")]
    rows += ['kube_node_status_capacity{node="cpu",resource="cpu"} 8']
    machines = ["i-01", "i-03", "i-04", "arn:aws:ec2:us-east-1:1:instance/i-05", "i-06"]
    kinds = ["g5.xlarge", "g5.xlarge", "m7i.large", "p5.48xlarge", "m7i.large"]
    lines = [hour("2026-10-01T23", ResourceId=m, x_InstanceType=k) for m, k in zip(machines, kinds, strict=True)]
    settings = config(tmp_path, metrics=series_file(tmp_path, *rows), billing=bill_of(tmp_path, *lines))
    checks = diagnose(settings, DAY_AFTER)
    assert [(c.status, c.what) for c in [*named(checks, "nodes prod"), *named(checks, "nodes bill")]] == [
        (Status.OK, "on the bill: 1 of 2 nodes with series: n1"),
        (Status.WARN, "on the bill, without series: n3"),
        (Status.WARN, "with series, on no bill line: n2 (machines i-02)"),
        (Status.WARN, "GPU machines on the bill that are no node of any cluster: i-05"),
        (Status.OK, "other machines on the bill that are no node of any cluster: i-06"),
    ]


def test_a_machine_whose_money_the_provider_split_is_on_the_bill(tmp_path: Path) -> None:
    rows = [used("n1"), info("n1", "i-01")]
    lines = [hour("2026-10-01T23", ResourceId="i-01", AllocatedResourceId=pod) for pod in ("pod-1", "pod-2")]
    settings = config(tmp_path, metrics=series_file(tmp_path, *rows), billing=bill_of(tmp_path, *lines))
    checks = diagnose(settings, DAY_AFTER)
    assert [(c.status, c.what) for c in named(checks, "nodes prod")] == [(Status.OK, "on the bill: 1 of 1 node with series: n1")]
    assert one(checks, "bill bill").what.endswith("FOCUS 1.3")


def test_no_joined_node_at_all_is_a_failure(tmp_path: Path) -> None:
    billing = bill_of(tmp_path, hour("2026-10-01T23"))
    checks = diagnose(config(tmp_path, metrics=series_file(tmp_path, used("n1")), billing=billing), DAY_AFTER)
    assert one(checks, "inventory prod").what == "there is no kube_node_info, so nodes join the bill by their own names only"
    assert named(checks, "nodes prod")[0].status is Status.FAIL
    assert "provider_id" in named(checks, "nodes prod")[0].todo


def test_a_machine_of_two_clusters(tmp_path: Path) -> None:
    metrics = series_file(tmp_path, used("n1"), info("n1", "i-01"))
    clusters = [{"name": name, "metrics": [metrics]} for name in ("prod", "dev")]
    billing = bill_of(tmp_path, hour("2026-10-01T23", ResourceId="i-01"))
    checks = diagnose(config(tmp_path, metrics=metrics, billing=billing, clusters=clusters), DAY_AFTER)
    check = one(checks, "nodes claims")
    assert (check.status, check.what) == (Status.FAIL, "i-01 is a node of the clusters dev, prod")


def test_the_same_is_told_from_lines_that_a_run_has_kept(tmp_path: Path) -> None:
    settings = quickstart(tmp_path)
    before = diagnose(settings, DAY_AFTER)
    read_day(open_walk(settings), date(2026, 10, 1))
    assert len(list((tmp_path / "out" / "line_items").glob("*.parquet"))) == 1
    assert diagnose(settings, DAY_AFTER) == before


OWNERS = {
    "team": ["label:team", "namespace"],
    "model": ["label:model", "label:app.kubernetes.io/name"],
    "cost_center": ["annotation:finance/cost-center"],
}
FLAG = "--metric-labels-allowlist=pods=[team,model,app.kubernetes.io/name]"


@pytest.mark.parametrize(
    ("labels", "status", "what"),
    [
        (None, Status.WARN, "owners need team, model, app.kubernetes.io/name, and there are no series kube_pod_labels"),
        (
            'namespace="a",pod="p",uid="u"',
            Status.WARN,
            "owners need team, model, app.kubernetes.io/name, and kube_pod_labels names pods but exports no label of them",
        ),
        ('pod="p",label_team="t"', Status.WARN, "exported: team; on no pod: model, app.kubernetes.io/name"),
        (
            'pod="p",label_team="t",label_app_kubernetes_io_name="n"',
            Status.OK,
            "exported: team, app.kubernetes.io/name; on no pod: model",
        ),
    ],
)
def test_labels_that_are_not_exported(tmp_path: Path, labels: str | None, status: Status, what: str) -> None:
    rows = [used("n1"), *([f"kube_pod_labels{{{labels}}} 1"] if labels else [])]
    billing = bill_of(tmp_path, hour("2026-10-01T23"))
    checks = diagnose(config(tmp_path, metrics=series_file(tmp_path, *rows), billing=billing, owners=OWNERS), DAY_AFTER)
    check = one(checks, "labels prod")
    assert (check.status, check.what) == (status, what)
    assert (FLAG in check.todo) == (status is Status.WARN)
    flag = "--metric-annotations-allowlist=pods=[finance/cost-center]"
    assert flag in one(checks, "annotations prod").todo


def test_labels_of_rules_are_needed_too(tmp_path: Path) -> None:
    owners = {"rules": [{"match": {"label:tier": "gold", "namespace": "a"}, "team": "x"}]}
    checks = diagnose(quickstart(tmp_path, owners=owners), DAY_AFTER)
    assert "--metric-labels-allowlist=pods=[tier]" in one(checks, "labels prod").todo


def test_the_profile_whose_series_are_there_is_named(tmp_path: Path) -> None:
    metrics = series_file(tmp_path, used("n1"))
    custom = {"pod_memory": {"metric": "pod_gpu_memory_bytes"}}
    billing = bill_of(tmp_path, hour("2026-10-01T23"))
    checks = diagnose(config(tmp_path, metrics={**metrics, "profile": "custom", "custom": custom}, billing=billing), DAY_AFTER)
    check = one(checks, "profile prod")
    assert (check.status, check.what) == (Status.FAIL, "no series of profile custom on 2026-10-01")
    assert check.todo == "Set profile: dcgm."


HAMI_ROW = 'hami_vgpu_memory_used_bytes{{namespace="ns",pod="a",container="c",device_uuid="GPU-{gpu}"}} 5'


def test_auto_says_what_it_reads_and_why(tmp_path: Path) -> None:
    rows = (used("n1", pod="a", namespace="ns"), HAMI_ROW.format(gpu="n1"), info("n1", "i-1"))
    metrics = {**series_file(tmp_path, *rows), "profile": "auto"}
    checks = diagnose(config(tmp_path, metrics=metrics, billing=bill_of(tmp_path, hour("2026-10-01T23"))), DAY_AFTER)
    check = one(checks, "profile prod")
    assert check.status is Status.OK
    assert check.what.startswith("auto: 2 series on 2026-10-01; hami, dcgm: ")
    assert "read for pods' memory" in check.what
    assert {c.what for c in named(checks, "role prod pod_memory")} >= {
        "1 series of hami_vgpu_memory_used_bytes, 0 series of vGPU_device_memory_usage_in_bytes, 1 series of DCGM_FI_DEV_FB_USED"
    }


def test_a_source_is_looked_at_with_what_the_others_know(tmp_path: Path) -> None:
    settings = config(tmp_path, metrics=series_file(tmp_path, used("n1")), billing=bill_of(tmp_path, hour("2026-10-01T23")))
    other = tmp_path / "hami.om"
    rows = (HAMI_ROW.format(gpu="n1"), HAMI_ROW.format(gpu="unknown"))
    other.write_text("".join(f"{row} {NOON}\n" for row in rows) + "# EOF\n", encoding="utf-8")
    entry = settings.clusters[0].metrics[0].model_copy(update={"path": other, "profile": "hami"})
    cluster = settings.clusters[0].model_copy(update={"metrics": [*settings.clusters[0].metrics, entry]})
    checks = diagnose(settings.model_copy(update={"clusters": [cluster]}), DAY_AFTER)
    assert one(checks, "profile prod[1]").what == "hami: 1 series on 2026-10-01"
    assert "1 series belong to no node" in one(checks, "series prod[1]").what


def test_a_profile_without_series_is_told_the_nearest_names(tmp_path: Path) -> None:
    metrics = {**series_file(tmp_path, 'hami_vgpu_memory_used_byte{device_uuid="GPU-1"} 5'), "profile": "hami"}
    checks = diagnose(config(tmp_path, metrics=metrics, billing=bill_of(tmp_path, hour("2026-10-01T23"))), DAY_AFTER)
    assert one(checks, "profile prod").status is Status.FAIL
    assert "the nearest of 1 names that exist: hami_vgpu_memory_used_byte" in one(checks, "series prod").what


def test_a_file_of_other_days(tmp_path: Path) -> None:
    billing = bill_of(tmp_path, hour("2026-10-03T23"))
    settings = config(tmp_path, metrics=series_file(tmp_path, used("n1")), billing=billing)
    assert "samples of other days only" in one(diagnose(settings, date(2026, 10, 4)), "profile prod").todo


def test_an_exporter_without_pods_and_series_without_node(tmp_path: Path) -> None:
    metrics = series_file(tmp_path, used("n1"), 'DCGM_FI_DEV_FB_USED{UUID="GPU-2"} 5')
    checks = diagnose(config(tmp_path, metrics=metrics, billing=bill_of(tmp_path, hour("2026-10-01T23"))), DAY_AFTER)
    check = one(checks, "role prod pod_memory")
    assert (check.status, check.what) == (Status.WARN, "0 series of DCGM_FI_DEV_FB_USED")
    assert "DCGM_EXPORTER_KUBERNETES=true" in check.todo
    assert "belong to no node" in one(checks, "series prod").what


def test_a_secret_that_is_not_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("METRICS_TOKEN", raising=False)
    metrics = {"kind": "prometheus", "url": "http://127.0.0.1:9", "auth": {"bearer": {"env": "METRICS_TOKEN"}}}
    check = one(diagnose(quickstart(tmp_path, metrics=metrics), DAY_AFTER), "metrics prod")
    assert check.status is Status.FAIL
    assert "METRICS_TOKEN" in check.what


def test_a_file_of_series_that_ends_early(tmp_path: Path) -> None:
    path = write(tmp_path / "m.om", f"{used('n1')} {NOON}\n".encode())
    checks = diagnose(quickstart(tmp_path, metrics={"kind": "openmetrics", "path": str(path)}), DAY_AFTER)
    check = one(checks, "metrics prod")
    assert check.status is Status.FAIL
    assert str(path) in check.where
    assert "EOF" in check.what


@needs_prometheus
def test_a_real_server_is_asked_for_the_last_hour_of_the_bill(tmp_path: Path) -> None:
    with prometheus(tmp_path, QUICKSTART / "metrics.om") as url:
        settings = quickstart(tmp_path, metrics={"kind": "prometheus", "url": url}, owners={"team": ["label:team"]})
        checks = diagnose(settings, DAY_AFTER)
    assert one(checks, "metrics prod") == Check(
        "metrics prod", Status.OK, "the server answers", f"clusters.prod.metrics[0] {url}"
    )
    assert "from 2026-10-01 23:00 to 00:00 UTC" in one(checks, "profile prod").what
    assert int(one(checks, "role prod pod_memory").what.split()[0]) > 0
    assert one(checks, "labels prod").what == "exported: team"
    assert [(c.status, c.what) for c in named(checks, "nodes prod")] == [
        (Status.OK, "on the bill: 2 of 2 nodes with series: gpu-a, gpu-b"),
        (Status.WARN, "on the bill, without series: gpu-c"),
    ]
    assert worst(checks) is Status.WARN


def test_shown_with_place_and_remedy_where_something_is_wrong() -> None:
    checks = [
        Check("one", Status.OK, "fine [red]", "somewhere"),
        Check("two", Status.FAIL, "broken [/x]", "there", "Mend it."),
    ]
    console = Console(width=100, record=True, file=None, quiet=False, force_terminal=False)
    with console.capture() as captured:
        console.print(render(checks))
    text = captured.get()
    assert "fine [red]" in text
    assert "somewhere" not in text
    assert [word for word in ("broken [/x]", "there", "-> Mend it.") if word not in text] == []


def test_the_worst_of_nothing_is_ok() -> None:
    assert worst([]) is Status.OK
    open_and_warn = [Check("a", Status.WARN, "", ""), Check("b", Status.OPEN, "", "")]
    assert worst(open_and_warn) is Status.WARN
