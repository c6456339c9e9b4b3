"""A real VictoriaMetrics beside a real Prometheus with the same samples, and lines that neither of them writes."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from allocation.errors import SettingsError, SourceUnavailableError
from pipelines.metric_sources.base import Window
from pipelines.metric_sources.prometheus import PrometheusSource
from pipelines.metric_sources.registry import load_metric_source
from pipelines.metric_sources.victoriametrics import VictoriaMetricsSource
from pipelines.metric_sources.victoriametrics_json import read_export, read_line, read_numbers, read_times, read_values
from pipelines.metrics_entries import MetricsEntry
from pipelines.settings import load_settings
from tests.servers import needs_prometheus, needs_victoria_metrics, prometheus, victoria_metrics

START = datetime(2024, 10, 1, tzinfo=UTC)
HOUR = Window(START, START + timedelta(hours=1))
USED, FREE, INFO = "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE", "kube_pod_info"
Series = tuple[dict[str, str], list[tuple[int, str]]]


def series_of_a_cluster() -> Iterator[Series]:
    """Three nodes with pods; samples on the borders of chunks and of the window, and beside them."""
    borders = sorted(n * 600_000 + beside for n in range(7) for beside in (-250, -1, 0, 1, 250))
    for number, node in enumerate(("gpu-a", 'gpu"b\\', "gpu.c")):
        device = {"UUID": f"GPU-{number}", "gpu": "0", "modelName": "NVIDIA A100-SXM4-80GB", "Hostname": node}
        pod = {"namespace": "ns-ü", "pod": f"train-{number}", "container": "main"}
        yield {"__name__": USED, **device, **pod}, [(at, str(40_000 + n)) for n, at in enumerate(borders)]
        yield {"__name__": FREE, **device}, [(at, f"{n}.5") for n, at in enumerate(range(number * 15_000, 3_600_000, 30_000))]
        info = {"namespace": "ns-ü", "pod": f"train-{number}", "node": node, "uid": f"uid-{number}"}
        yield {"__name__": INFO, **info}, [(at, "1") for at in range(0, 3_600_000, 60_000)]


def open_metrics(series: Series) -> str:
    labels, points = series
    texts = ",".join(f"{name}={json.dumps(text, ensure_ascii=False)}" for name, text in labels.items() if name != "__name__")
    times = [(HOUR.start_ms + at, value) for at, value in points]
    return "".join(f"{labels['__name__']}{{{texts}}} {value} {ms // 1000}.{ms % 1000:03d}\n" for ms, value in times)


def import_line(series: Series) -> bytes:
    labels, points = series
    told = {"metric": labels, "values": [float(value) for _, value in points]}
    return json.dumps({**told, "timestamps": [HOUR.start_ms + at for at, _ in points]}).encode() + b"\n"


@needs_prometheus
@needs_victoria_metrics
def test_prometheus_and_victoria_metrics_give_the_same(tmp_path: Path) -> None:
    """With the profile found by itself, in chunks that cut the hour at the samples' borders."""
    cluster = sorted(series_of_a_cluster(), key=lambda series: series[0]["__name__"])
    (tmp_path / "m.om").write_text("".join(map(open_metrics, cluster)) + "# EOF\n", encoding="utf-8")
    with prometheus(tmp_path, tmp_path / "m.om") as one, victoria_metrics(tmp_path, map(import_line, cluster)) as other:
        entries = [
            MetricsEntry.model_validate({"kind": kind, "url": url, "profile": "auto", "chunk": "10m", "nodes_per_shard": 2})
            for kind, url in (("prometheus", one), ("victoriametrics", other), ("victoriametrics", f"{other}/prometheus"))
        ]
        first, *others = [load_metric_source(entry, "prod", 900_000) for entry in entries]
        shards = list(first.shards(HOUR, first.nodes(HOUR)))
        for source in others:
            assert isinstance(source, VictoriaMetricsSource)
            assert list(source.nodes(HOUR)) == list(first.nodes(HOUR))
            assert list(source.profiles(HOUR)) == ["dcgm"]
            assert list(source.shards(HOUR, source.nodes(HOUR))) == shards
            assert list(source.inventory(HOUR)) == list(first.inventory(HOUR))
            assert list(source.roles(HOUR)) == list(first.roles(HOUR))
        assert isinstance(first, PrometheusSource)
    used = [row for shard in shards for row in shard.samples.to_pylist() if row["role"] == "pod_memory"]
    inside = [at for at in sorted(n * 600_000 + b for n in range(7) for b in (-250, -1, 0, 1, 250)) if 0 <= at < 3_600_000]
    assert [(row["node"], row["pod"]) for row in used] == [('gpu"b\\', "train-1"), ("gpu-a", "train-0"), ("gpu.c", "train-2")]
    assert all([ms - HOUR.start_ms for ms in row["timestamps_ms"]] == inside for row in used)


@needs_victoria_metrics
def test_what_victoria_metrics_refuses_is_one_clear_line(tmp_path: Path) -> None:
    with victoria_metrics(tmp_path) as url:
        wrong = MetricsEntry.model_validate({"kind": "victoriametrics", "url": f"{url}/no/such/place"})
        with pytest.raises(SourceUnavailableError, match=r"/no/such/place: .*clusters\.prod\.metrics\.url"):
            load_metric_source(wrong, "prod", 900_000).nodes(HOUR)


def test_a_url_is_needed(tmp_path: Path) -> None:
    config = "version: 1\noutput: out\nclusters: [{name: prod, metrics: [{kind: victoriametrics}]}]\n"
    config += "billing: [{kind: focus, path: b}]\n"
    (tmp_path / "c.yaml").write_text(config, encoding="utf-8")
    with pytest.raises(SettingsError, match="kind victoriametrics needs `url`"):
        load_settings(tmp_path / "c.yaml")


def test_words_for_what_is_no_number_are_read_in_both_spellings() -> None:
    old = b'{"metric":{"a":"NaN,+Inf"},"values":[1,+Inf,-Inf,NaN,2],"timestamps":[1,2,3,4,5]}'
    new = b'{"metric":{"a":"NaN,+Inf"},"values":[1,"Infinity","-Infinity",null,2],"timestamps":[1,2,3,4,5]}'
    for line in (old, new):
        labels, times, values = read_line(line)
        assert labels == {"a": "NaN,+Inf"}
        assert (times.tolist(), values.tolist()) == ([1, 2, 3, 5], [1.0, float("inf"), float("-inf"), 2.0])


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b'{"metric":{"a":"b"},"values":[1,2],"timestamps":[1]}', "1 times and 2 values"),
        (b'{"metric":{"a":"b"},"values":[1,null],"timestamps":[1]}', "1 times and 2 values"),
        (b'{"metric":{"a":"b"}}', "no series of an export"),
        (b'{"metric":{"a":"b"},"values":[1', "truncated"),
        (b"remoteAddr: cannot read", "malformed"),
        (b'{"status":"error","error":"too many"}', "broke off: too many"),
    ],
)
def test_a_line_that_is_no_series_is_refused(line: bytes, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        list(read_export([line]))


@pytest.mark.parametrize("text", ["[1,-2]", "[1, 2]", "[1e3]", "[null]", "[1234567890123456]", '["1"]', "", "[1;2]"])
def test_unusual_numbers_are_left_to_the_standard_library(text: str) -> None:
    raw = np.frombuffer(text.encode(), np.uint8)
    assert read_times(raw, np.empty(9, np.int64)) == -1
    assert read_values(raw, np.empty(9, np.float64)) == -1


def test_plain_numbers_are_read_by_the_loops() -> None:
    times, values = np.empty(9, np.int64), np.empty(9, np.float64)
    assert read_times(np.frombuffer(b"[1727740800001,7]", np.uint8), times) == 2
    assert read_values(np.frombuffer(b"[0.125,84934656000,3]", np.uint8), values) == 3
    assert (times[:2].tolist(), values[:3].tolist()) == ([1727740800001, 7], [0.125, 84934656000.0, 3.0])
    assert [part.tolist() for part in read_numbers(b"[]", b"[]")] == [[], []]
