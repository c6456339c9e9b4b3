"""OpenMetrics text: its grammar, what bad files get, and windows over a file."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocation.errors import SeriesError
from pipelines.metric_sources.base import InfoSeries, MetricSource, RoleCount, Window
from pipelines.metric_sources.openmetrics_text import parse, read_series
from pipelines.metric_sources.registry import load_metric_source
from pipelines.metrics_entries import MetricsEntry

USED = 'DCGM_FI_DEV_FB_USED{UUID="GPU-1",Hostname="n1"%s} %s %s\n'


def window(start_s: float, end_s: float) -> Window:
    return Window(datetime.fromtimestamp(start_s, UTC), datetime.fromtimestamp(end_s, UTC))


def source(folder: Path, text: str, **entry: object) -> MetricSource:
    path = folder / "metrics.om"
    path.write_text(text, encoding="utf-8")
    return load_metric_source(MetricsEntry.model_validate({"kind": "openmetrics", "path": path, **entry}), "prod", 900_000)


def parsed(text: str) -> list[tuple[str, dict[str, str], list[tuple[int, float]]]]:
    found = parse(text.encode(), "m.om")
    samples: list[list[tuple[int, float]]] = [[] for _ in found.metrics]
    for series, at, value in zip(found.series.tolist(), found.times.tolist(), found.values.tolist(), strict=True):
        samples[series].append((at, value))
    return list(zip(found.metrics, found.labels, samples, strict=True))


def test_values_and_times_of_every_kind_are_read() -> None:
    text = (
        "# HELP m some text\n# TYPE m gauge\n"
        'm{a="1"} 42 1790812800\nm{a="1"} 1.5e+3 1790812800.123\nm{a="1"} .5 1.7908128005e+09\n'
        "bare +7 0\nbare -0.25 0.001\nbare 9223372036854775794 2\n# EOF\n"
    )
    assert parsed(text) == [
        ("m", {"a": "1"}, [(1790812800000, 42.0), (1790812800123, 1500.0), (1790812800500, 0.5)]),
        ("bare", {}, [(0, 7.0), (1, -0.25), (2000, 2.0**63)]),
    ]


def test_values_that_are_no_numbers_of_memory_are_still_read() -> None:
    ((_, _, samples),) = parsed("m NaN 1\nm +Inf 2\nm -Inf 3\nm inf 4\n# EOF")
    assert [at for at, _ in samples] == [1000, 2000, 3000, 4000]
    assert np.isnan(samples[0][1])
    assert [value for _, value in samples[1:]] == [np.inf, -np.inf, np.inf]


def test_labels_may_hold_what_the_grammar_is_made_of() -> None:
    text = 'm{a="x y",b="}{,#\\" # {",c="back\\\\slash",d="two\\nlines",e="",f="ü"} 1 2\n# EOF\n'
    labels = {"a": "x y", "b": '}{,#" # {', "c": "back\\slash", "d": "two\nlines", "f": "ü"}
    assert parsed(text) == [("m", labels, [(2000, 1.0)])]


def test_exemplars_are_tolerated() -> None:
    text = 'm{a=" # {"} 1 2 # {trace="x y"} 0.5 1.5\nm{a=" # {"} 3 4\n# EOF\n'
    assert parsed(text) == [("m", {"a": " # {"}, [(2000, 1.0), (4000, 3.0)])]


def test_samples_of_a_series_stand_together_whatever_the_order_of_lines() -> None:
    assert parsed('m{a="1"} 1 1\nm{a="2"} 2 1\nm{a="1"} 3 2\n# EOF\n') == [
        ("m", {"a": "1"}, [(1000, 1.0), (2000, 3.0)]),
        ("m", {"a": "2"}, [(1000, 2.0)]),
    ]


@settings(deadline=None)
@given(st.dictionaries(st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,5}", fullmatch=True), st.text(min_size=1), max_size=4))
def test_any_label_value_survives_being_written_and_read(labels: dict[str, str]) -> None:
    escaped = {k: v.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"') for k, v in labels.items()}
    text = "m{" + ",".join(f'{name}="{value}"' for name, value in escaped.items()) + "}"
    assert read_series(text) == ("m", labels)


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("m 1 2\n", 1, "# EOF"),
        ("", 1, "# EOF"),
        ("m 1 2\n# EO", 2, "# EOF"),
        ("m 1 2\n# EOF\n\nm 1 3\n", 4, "after the line"),
        ('m 1 2\nm{a="b"} 1\n# EOF\n', 2, "no timestamp"),
        ('m 1 2\nm{a="b c"} 1\n# EOF\n', 2, "no timestamp"),
        ('m{a="b c"} 1 # {t="x"} 1 2\n# EOF\n', 1, "unreadable"),
        ("# TYPE m gauge\nm 1 2\nm one 2\n# EOF\n", 3, "value 'one'"),
        ("m 1_0 2\n# EOF\n", 1, "value '1_0'"),
        ("m 0x10 2\n# EOF\n", 1, "value '0x10'"),
        ("m 1 2\nm 1 noon\n# EOF\n", 2, "timestamp 'noon'"),
        ("m 1 NaN\n# EOF\n", 1, "timestamp 'NaN'"),
        ("m 1 1790812800000\n# EOF\n", 1, "timestamp '1790812800000'"),
        ("m 1 2\nm{a=b} 1 2\n# EOF\n", 2, "unreadable"),
        ('m 1 2\nm{a="b" 1 2\n# EOF\n', 2, "unreadable"),
        ('m{a="b",a="c"} 1 2\n# EOF\n', 1, "labels"),
        ("1m 1 2\n# EOF\n", 1, "unreadable series"),
        ("m\n# EOF\n", 1, "no timestamp"),
    ],
)
def test_a_bad_file_is_refused_with_file_and_line(text: str, line: int, problem: str) -> None:
    with pytest.raises(SeriesError) as caught:
        parse(text.encode(), "m.om")
    assert str(caught.value).startswith(f"m.om, line {line}: ")
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_label_values_of_any_bytes_are_read_and_counted(tmp_path: Path) -> None:
    (tmp_path / "m.om").write_bytes(b'm{a="\xff",b="\x00\t\xc3\xbc"} 1 2\nm{a="\xfe"} 1 2\nm{a="x"} 1 2\n# EOF\n')
    found = parse((tmp_path / "m.om").read_bytes(), "m.om")
    assert found.labels == [{"a": "\\xff", "b": "\0\tü"}, {"a": "\\xfe"}, {"a": "x"}]
    assert found.not_utf8 == 2
    read = load_metric_source(MetricsEntry(kind="openmetrics", path=tmp_path / "m.om"), "prod", 900_000)
    noticed = [(f.code.value, f.subject, f.count) for f in read.notices(window(0, 20)) if f.code.value == "invalid_samples"]
    assert noticed == [("invalid_samples", "m.om", 2)]


def test_a_metric_name_of_strange_bytes_is_refused_with_its_line() -> None:
    with pytest.raises(SeriesError, match=r"^m\.om, line 2: "):
        parse(b'm 1 2\n\xff{a="b"} 1 2\n# EOF\n', "m.om")


def test_a_file_that_is_not_there_is_refused_with_its_setting(tmp_path: Path) -> None:
    entry = MetricsEntry(kind="openmetrics", path=tmp_path / "none.om")
    with pytest.raises(SeriesError, match=r"none\.om: cannot be read .*clusters\.prod\.metrics\.path"):
        load_metric_source(entry, "prod", 1).nodes(window(0, 1))


def test_a_window_is_half_open_and_only_its_nodes_are_named(tmp_path: Path) -> None:
    text = USED % ("", 1, 99) + USED % ("", 2, 100) + USED % ("", 3, 199.999) + USED % ("", 4, 200)
    text += 'DCGM_FI_DEV_FB_USED{UUID="GPU-2",Hostname="n2"} 5 300\n# EOF\n'
    read = source(tmp_path, text)
    assert list(read.nodes(window(100, 200))) == ["n1"]
    (shard,) = read.shards(window(100, 200), ["n1"])
    assert shard.samples.column("timestamps_ms").to_pylist() == [[100_000, 199_999]]
    assert shard.samples.column("values").to_pylist() == [[2.0 * 2**20, 3.0 * 2**20]]
    assert list(read.nodes(window(0, 301))) == ["n1", "n2"]


def test_shards_hold_so_many_nodes_in_name_order(tmp_path: Path) -> None:
    names = ["n3", "n1", "n2"]
    text = "".join(f'DCGM_FI_DEV_FB_USED{{UUID="GPU-{n}",node="{n}"}} 1 10\n' for n in names) + "# EOF\n"
    read = source(tmp_path, text, nodes_per_shard=2)
    shards = list(read.shards(window(0, 20), [*names, "n4"]))
    assert [shard.nodes for shard in shards] == [("n1", "n2"), ("n3", "n4")]
    assert [shard.samples.column("node").to_pylist() for shard in shards] == [["n1", "n2"], ["n3"]]


def test_match_leaves_out_other_clusters(tmp_path: Path) -> None:
    text = USED % (',cluster="prod"', 1, 10) + USED % (',cluster="dev"', 9, 11) + USED % ("", 9, 12) + "# EOF\n"
    (shard,) = source(tmp_path, text, match={"cluster": "prod"}).shards(window(0, 20), ["n1"])
    assert shard.samples.column("timestamps_ms").to_pylist() == [[10_000]]


def test_inventory_is_reduced_to_stretches(tmp_path: Path) -> None:
    node = 'kube_node_info{node="n1",provider_id="%s"} %s %s\n'
    rows = [("a", 1, 0), ("a", 2, 900), ("a", 3, 1801), ("b", 1, 5000)]
    read = source(tmp_path, "".join(node % row for row in rows) + "# EOF\n")
    labels = {"node": "n1", "provider_id": "a"}
    assert list(read.inventory(window(0, 4000))) == [
        InfoSeries("kube_node_info", labels, 0, 900_000, 2.0),
        InfoSeries("kube_node_info", labels, 1_801_000, 1_801_000, 3.0),
    ]


def test_roles_are_counted_and_series_without_a_node_are_noticed(tmp_path: Path) -> None:
    text = USED % ("", 1, 10) + USED % (',pod="a",namespace="ns"', 1, 10) + USED % (',pod="b",namespace="ns"', 1, 99)
    text += 'DCGM_FI_DEV_FB_FREE{UUID="GPU-9"} 1 10\n# EOF\n'
    read = source(tmp_path, text)
    assert RoleCount("pod_memory", "DCGM_FI_DEV_FB_USED", 1) in read.roles(window(0, 20))
    assert RoleCount("used", "DCGM_FI_DEV_FB_USED", 1) in read.roles(window(0, 20))
    assert RoleCount("free", "DCGM_FI_DEV_FB_FREE", 0) in read.roles(window(0, 20))
    (shard,) = read.shards(window(0, 20), ["n1"])
    assert [(f.code.value, f.subject) for f in shard.findings] == [("no_series", "DCGM_FI_DEV_FB_FREE")]
