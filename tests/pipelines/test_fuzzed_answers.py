"""Both readers of samples against the standard library, on answers with everything that a server may write."""

import json
import math

from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.metric_sources.prometheus_json import Points, read_answer, read_matrix, read_points
from pipelines.metric_sources.victoriametrics_json import read_export

TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ['quo"te', "back\\slash", "\n\t\x00", "ü€😀", "a" * 70_000, '],"timestamps":[1', '"values":[NaN,+Inf]', "],["]
    ),
)
LABELS = st.dictionaries(TEXTS, TEXTS, max_size=4)
MOMENTS = st.integers(0, 4_000_000_000_000)
NUMBERS = st.one_of(
    st.integers(-(10**20), 10**20).map(str),
    st.integers(0, 10**15).map(str),
    st.decimals(-(10**9), 10**9, places=4).map(lambda value: format(value, "f")),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["0", "1e5", "1E-7", "1.5e+09", "84934656000", "0.1234567890123456", "1234567890123456", "5e-324"]),
)
SPACES = st.sampled_from(["", " ", "\n "])
PROMETHEUS_WORDS = st.sampled_from(["NaN", "+Inf", "-Inf"])
EXPORT_WORDS = st.sampled_from(["null", '"Infinity"', '"-Infinity"', "+Inf", "-Inf", "NaN", '"NaN"'])


def same(found: list[Points], expected: list[tuple[dict[str, str], list[int], list[float]]]) -> None:
    assert [(labels, times.tolist(), repr(values.tolist())) for labels, times, values in found] == [
        (labels, times, repr(values)) for labels, times, values in expected
    ]


@settings(deadline=None, max_examples=80)
@given(
    st.lists(st.tuples(LABELS, st.lists(st.tuples(MOMENTS, NUMBERS | PROMETHEUS_WORDS), max_size=6)), max_size=3),
    SPACES,
    st.booleans(),
)
def test_an_answer_of_prometheus_is_read_as_json_reads_it(
    series: list[tuple[dict[str, str], list[tuple[int, str]]]], space: str, ascii_only: bool
) -> None:
    def point(ms: int, value: str) -> str:
        return f'[{json.dumps(ms / 1000)},{space}"{value}"]'

    def row(labels: dict[str, str], points: list[tuple[int, str]]) -> str:
        values = ("," + space).join(point(*one) for one in points)
        return f'{{"metric":{space}{json.dumps(labels, ensure_ascii=ascii_only)},"values":[{values}]}}'

    result = ",".join(row(labels, points) for labels, points in series)
    body = f'{{"status":"success","data":{{"resultType":"matrix","result":[{result}]}}}}'.encode()
    expected = [
        (row["metric"], [round(at * 1000) for at, _ in row["values"]], [float(value) for _, value in row["values"]])
        for row in json.loads(body)["data"]["result"]
    ]
    same(list(read_matrix(read_answer(body).data)), expected)


@settings(deadline=None, max_examples=80)
@given(
    st.lists(st.tuples(LABELS, st.lists(st.tuples(MOMENTS, NUMBERS | EXPORT_WORDS), max_size=6)), max_size=3),
    SPACES.filter(lambda space: "\n" not in space),
    st.booleans(),
    st.integers(1, 50),
)
def test_an_export_of_victoria_metrics_is_read_as_json_reads_it(
    series: list[tuple[dict[str, str], list[tuple[int, str]]]], space: str, ascii_only: bool, size: int
) -> None:
    lines, expected = [], []
    for labels, points in series:
        values, times = ("," + space).join(value for _, value in points), ("," + space).join(str(ms) for ms, _ in points)
        metric = json.dumps(labels, ensure_ascii=ascii_only)
        lines.append(f'{{"metric":{metric},"values":[{values}],"timestamps":[{times}]}}\n')
        told = [math.nan if value in ("null", "NaN", '"NaN"') else float(value.strip('"')) for _, value in points]
        kept = [(ms, value) for (ms, _), value in zip(points, told, strict=True) if not math.isnan(value)]
        expected.append((labels, [ms for ms, _ in kept], [value for _, value in kept]))
    body = "".join(lines).encode()
    pieces = [body[at : at + size] for at in range(0, 5_000, size)] + [body[-(-5_000 // size) * size :]]
    same(list(read_export(pieces)), expected)


def test_a_long_series_with_something_unusual_in_it_is_read_whole() -> None:
    """Ten thousand points with a word, a long number and spaces far apart; each point says its own place."""
    values = [str(n) for n in range(10_000)]
    values[2_000], values[7_000], values[9_999] = "NaN", "1234567890123456789", "-5e3"
    text = ("[" + ",".join(f'[{n},"{value}"]' for n, value in enumerate(values)) + "]").replace('[8000,"', '[8000, "')
    times, found = read_points(text.encode())
    assert times.tolist() == [n * 1000 for n in range(10_000)]
    assert repr(found.tolist()) == repr([float(value) for value in values])
