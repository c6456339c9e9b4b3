"""Series from Parquet: columns and types, folders, an object store, and the very shards that OpenMetrics text gives."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from allocation.errors import ChargebackError, SeriesError, SettingsError
from pipelines.arrivals import open_series
from pipelines.day_bill import read_day
from pipelines.metric_sources.base import MetricSource, Window
from pipelines.metric_sources.registry import load_metric_source
from pipelines.metrics_entries import MetricsEntry
from pipelines.partition import Partition
from pipelines.samples import window_of
from pipelines.settings import load_settings
from pipelines.walk import open_walk
from tests.servers import s3_server

WINDOW = Window(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 10, 1, 1, tzinfo=UTC))
START_MS = 1_790_812_800_000
USED = "DCGM_FI_DEV_FB_USED"
ROWS: list[dict[str, Any]] = [
    {"metric": USED, "timestamp": START_MS + 60_000 * n, "value": 5.0 + n, "UUID": "GPU-1", "Hostname": "n1", "pod": pod}
    for pod in ("a", None)
    for n in range(3)
]
LATER = {"metric": USED, "timestamp": START_MS + 3_600_000, "value": 9.0, "UUID": "GPU-1", "Hostname": "n1", "pod": "a"}
OTHER = {"metric": "up", "timestamp": START_MS, "value": 1.0, "UUID": "", "Hostname": "n1", "pod": None}


def source(path: object, **entry: object) -> MetricSource:
    return load_metric_source(MetricsEntry.model_validate({"kind": "parquet", "path": path, **entry}), "prod", 900_000)


def table(kind: pa.DataType, value: pa.DataType, text: pa.DataType) -> pa.Table:
    """The rows with their times and texts in these types."""
    made = pa.Table.from_pylist([*ROWS, LATER, OTHER])
    columns = {name: made[name].cast(text) for name in ("metric", "UUID", "Hostname", "pod")}
    if not pa.types.is_timestamp(kind):
        times = made["timestamp"].cast(kind)
    else:
        times = made["timestamp"].cast(pa.timestamp("ms", tz=kind.tz)).cast(kind)
    return pa.table({"timestamp": times, "value": made["value"].cast(value), "count": made["value"], **columns})


def read(from_source: MetricSource) -> dict[str, list[tuple[int, float]]]:
    """Times since the start and MiB of each pod's series."""
    (shard,) = from_source.shards(WINDOW, from_source.nodes(WINDOW))
    return {
        row["pod"]: [((t - START_MS) // 1000, v / 2**20) for t, v in zip(row["timestamps_ms"], row["values"], strict=True)]
        for row in shard.samples.to_pylist()
    }


EXPECTED = {pod: [(0, 5.0), (60, 6.0), (120, 7.0)] for pod in ("a", "")}


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (pa.int64(), pa.float64(), pa.string()),
        (pa.timestamp("s"), pa.int32(), pa.large_string()),
        (pa.timestamp("ms", tz="UTC"), pa.float32(), pa.dictionary(pa.int32(), pa.string())),
        (pa.timestamp("us", tz="Europe/Berlin"), pa.decimal128(20, 3), pa.string()),
        (pa.timestamp("ns"), pa.uint64(), pa.string()),
    ],
)
def test_times_values_and_texts_of_every_type(tmp_path: Path, kind: pa.DataType, value: pa.DataType, text: pa.DataType) -> None:
    pq.write_table(table(kind, value, text), tmp_path / "m.parquet")
    assert read(source(tmp_path / "m.parquet")) == EXPECTED


def test_labels_in_a_map_and_the_name_under_its_other_name(tmp_path: Path) -> None:
    rows = [
        {"__name__": row["metric"], "timestamp": row["timestamp"], "value": row["value"], "Hostname": row["Hostname"],
         "UUID": None, "labels": [("UUID", row["UUID"]), ("pod", row["pod"])]}
        for row in [*ROWS, LATER]
    ]  # fmt: skip
    schema = pa.schema(
        [("__name__", pa.string()), ("timestamp", pa.int64()), ("value", pa.float64()), ("Hostname", pa.string()),
         ("UUID", pa.string()), ("labels", pa.map_(pa.string(), pa.string()))]
    )  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), tmp_path / "m.parquet")
    assert read(source(tmp_path / "m.parquet")) == EXPECTED


def test_files_of_a_folder_are_one_with_labels_of_their_own_and_of_their_folders(tmp_path: Path) -> None:
    whole = pa.Table.from_pylist(ROWS)
    for number, columns in enumerate(
        (["metric", "timestamp", "value", "UUID", "pod"], ["timestamp", "metric", "pod", "value", "UUID"])
    ):
        folder = tmp_path / "Hostname=n%31" / f"part={number}"
        folder.mkdir(parents=True)
        pq.write_table(whole.select(columns).take(pa.array(range(number, 6, 2))), folder / "m.parquet")
    (tmp_path / "README.md").write_text("not read", encoding="utf-8")
    assert read(source(tmp_path)) == EXPECTED
    assert read(source(tmp_path, match={"pod": "a"})) == {"a": EXPECTED["a"]}


def test_nulls_are_counted(tmp_path: Path) -> None:
    rows = [
        *ROWS,
        ROWS[0] | {"timestamp": None},
        ROWS[0] | {"value": None, "timestamp": START_MS + 1},
        ROWS[0] | {"metric": None},
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "m.parquet")
    from_file = source(tmp_path / "m.parquet")
    assert read(from_file) == EXPECTED
    (shard,) = from_file.shards(WINDOW, ["n1"])
    told = [(f.code.value, f.subject, f.count) for f in shard.findings]
    assert told == [("invalid_samples", str(tmp_path / "m.parquet"), 1), ("invalid_samples", "n1/GPU-1", 1)]


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        (["metric", "timestamp"], "no column 'value' (a number); the columns there: metric (string), timestamp (int64)"),
        (["timestamp", "value"], "no column 'metric' (text)"),
        (["metric", "value"], "no column 'timestamp' (a timestamp, or int64 ms since the epoch)"),
    ],
)
def test_missing_columns_are_named_with_file_and_those_there(tmp_path: Path, columns: list[str], text: str) -> None:
    pq.write_table(pa.Table.from_pylist(ROWS).select(columns), tmp_path / "m.parquet")
    with pytest.raises(SeriesError) as caught:
        source(tmp_path).nodes(WINDOW)
    assert str(caught.value).startswith(f"{tmp_path / 'm.parquet'}: ")
    assert text in str(caught.value)


def test_columns_of_a_wrong_type_are_refused(tmp_path: Path) -> None:
    for name, wrong in (("timestamp", pa.string()), ("value", pa.string()), ("metric", pa.int64())):
        made = pa.Table.from_pylist(ROWS)
        column = pa.array([1] * len(ROWS)).cast(wrong)
        pq.write_table(made.set_column(made.schema.get_field_index(name), name, column), tmp_path / "m.parquet")
        with pytest.raises(SeriesError, match=f"the column '{name}' is {wrong} and must be"):
            source(tmp_path / "m.parquet").nodes(WINDOW)


def test_what_is_no_parquet_or_not_there_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "m.parquet").write_bytes(b"not parquet")
    for path, text in ((tmp_path / "m.parquet", "is no Parquet file"), (tmp_path / "none", "there is no Parquet file")):
        with pytest.raises(SeriesError, match=text) as caught:
            source(path).nodes(WINDOW)
        assert "\n" not in str(caught.value)
    with pytest.raises(SettingsError, match="no URL that can be opened"):
        source("nowhere://x/y").nodes(WINDOW)
    with pytest.raises(ValueError, match="kind parquet needs `path`"):
        MetricsEntry.model_validate({"kind": "parquet"})


def in_unit(ms_each: float) -> pa.Table:
    return pa.Table.from_pylist([row | {"timestamp": int(row["timestamp"] / ms_each)} for row in ROWS])


@pytest.mark.parametrize("profile", ["dcgm", "auto"])
@pytest.mark.parametrize(
    ("ms_each", "told"),
    [
        (1000, "1970-01-21T17:26:52.800Z to 1970-01-21T17:26:52.920Z, read as milliseconds since 1970; they look like seconds"),
        (0.001, "read as milliseconds since 1970; they look like microseconds"),
        (0.000001, "read as milliseconds since 1970; they look like nanoseconds"),
    ],
)
def test_times_in_another_unit_are_told_with_what_they_look_like(tmp_path: Path, ms_each: float, told: str, profile: str) -> None:
    pq.write_table(in_unit(ms_each), tmp_path / "m.parquet")
    (finding,) = source(tmp_path, profile=profile).notices(WINDOW)
    assert (finding.code.value, finding.subject) == ("no_series", "prod")
    assert told in finding.evidence


def test_a_window_beside_the_samples_is_told_their_times(tmp_path: Path) -> None:
    pq.write_table(in_unit(1), tmp_path / "m.parquet")
    before = Window(datetime(2026, 9, 1, tzinfo=UTC), datetime(2026, 9, 2, tzinfo=UTC))
    (finding,) = source(tmp_path).notices(before)
    assert "2026-10-01T00:00:00.000Z to 2026-10-01T00:02:00.000Z, read as milliseconds since 1970)" in finding.evidence
    pq.write_table(table(pa.timestamp("s"), pa.float64(), pa.string()), tmp_path / "m.parquet")
    (finding,) = source(tmp_path).notices(before)
    assert "(its samples go from 2026-10-01T00:00:00.000Z to 2026-10-01T01:00:00.000Z);" in finding.evidence


def test_one_file_in_seconds_beside_others_is_told_by_its_name(tmp_path: Path) -> None:
    pq.write_table(in_unit(1), tmp_path / "a.parquet")
    pq.write_table(in_unit(1000), tmp_path / "b.parquet")
    read_from = source(tmp_path)
    assert read(read_from) == EXPECTED
    (finding,) = read_from.notices(WINDOW)
    assert (finding.code.value, finding.subject) == ("invalid_samples", str(tmp_path / "b.parquet"))
    assert "they look like seconds" in finding.evidence


def test_an_object_store_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("AWS_ACCESS_KEY_ID", "t"), ("AWS_SECRET_ACCESS_KEY", "t"), ("AWS_DEFAULT_REGION", "us-east-1")):
        monkeypatch.setenv(name, value)
    pq.write_table(table(pa.timestamp("us", tz="UTC"), pa.float64(), pa.string()), tmp_path / "m.parquet")
    with s3_server() as url:
        client = boto3.client("s3", endpoint_url=url)
        client.create_bucket(Bucket="series")
        client.upload_file(str(tmp_path / "m.parquet"), "series", "gpu/day=1/m.parquet")
        there = {"endpoint_url": url, "region": "us-east-1"}
        assert read(source("s3://series/gpu", **there)) == EXPECTED
        with pytest.raises(ChargebackError, match="there is no Parquet file"):
            source("s3://series/nothing", **there).nodes(WINDOW)


CONFIG = """\
version: 1
output: {out}
clusters:
  - name: prod
    metrics: [{{kind: {kind}, path: {file}, profile: dcgm}}]
billing: [{{kind: focus, path: {bill}}}]
"""


def test_the_same_samples_have_the_same_fingerprint(tmp_path: Path) -> None:
    case = Path(__file__).parents[1] / "cases" / "21-time-sliced-300-percent"
    text = load_metric_source(MetricsEntry(kind="openmetrics", path=case / "metrics.om"), "prod", 900_000)
    day = Window(datetime(2026, 9, 30, tzinfo=UTC), datetime(2026, 10, 2, tzinfo=UTC))
    metrics = ("DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE", "kube_pod_info", "kube_node_info")
    rows = [
        {"metric": metric, "timestamp": at, "value": value, "labels": sorted(labels.items())}
        for metric, labels, times, values in text.raw(day, metrics)
        for at, value in zip(times.tolist(), values.tolist(), strict=True)
    ]
    kinds = [
        ("metric", pa.string()),
        ("timestamp", pa.int64()),
        ("value", pa.float64()),
        ("labels", pa.map_(pa.string(), pa.string())),
    ]
    assert rows
    pq.write_table(pa.Table.from_pylist(rows, schema=pa.schema(kinds)), tmp_path / "metrics.parquet")
    found = []
    for kind, file in (("openmetrics", case / "metrics.om"), ("parquet", tmp_path / "metrics.parquet")):
        config = tmp_path / f"{kind}.yaml"
        config.write_text(CONFIG.format(out=tmp_path / kind, kind=kind, file=file, bill=case / "bill.csv"), encoding="utf-8")
        settings = load_settings(config)
        walk = open_walk(settings)
        bill = read_day(walk, datetime(2026, 10, 1, tzinfo=UTC).date())
        window = window_of(settings, datetime(2026, 10, 1, tzinfo=UTC), bill.until)
        partition = Partition(bill.day, "prod")
        fetched, reused = (
            open_series(settings, settings.clusters[0], partition, window, walk.store, again=False).finish() for _ in range(2)
        )
        assert (fetched.reused, reused.reused) == (False, True)
        found.append((fetched.samples_fingerprint, fetched.fingerprint, fetched.nodes, walk.store.read("samples", partition)))
    assert found[0] == found[1]


def test_a_changed_file_is_fetched_again(tmp_path: Path) -> None:
    case = Path(__file__).parents[1] / "cases" / "21-time-sliced-300-percent"
    (tmp_path / "series").mkdir()
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "series" / "m.parquet")
    config = tmp_path / "chargeback.yaml"
    config.write_text(
        CONFIG.format(out=tmp_path / "out", kind="parquet", file=tmp_path / "series", bill=case / "bill.csv"), encoding="utf-8"
    )
    settings = load_settings(config)
    walk = open_walk(settings)
    window = window_of(settings, WINDOW.start, WINDOW.end)
    partition = Partition(WINDOW.start.date(), "prod")

    def fetched() -> tuple[bool, tuple[str, ...]]:
        found = open_series(settings, settings.clusters[0], partition, window, walk.store, again=False).finish()
        return found.reused, found.nodes

    assert [fetched(), fetched()] == [(False, ("n1",)), (True, ("n1",))]
    pq.write_table(pa.Table.from_pylist([row | {"Hostname": "n2"} for row in ROWS]), tmp_path / "series" / "more.parquet")
    assert [fetched(), fetched()] == [(False, ("n1", "n2")), (True, ("n1", "n2"))]


def test_series_and_tables_are_kept_apart(tmp_path: Path) -> None:
    config = tmp_path / "chargeback.yaml"
    config.write_text(CONFIG.format(out=tmp_path / "out", kind="parquet", file=tmp_path, bill="bill.csv"), encoding="utf-8")
    with pytest.raises(SettingsError, match=r"clusters\.prod\.metrics\.path .* holds the output folder"):
        load_settings(config)
