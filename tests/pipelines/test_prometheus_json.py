"""Prometheus' JSON, read fast, against the standard library's reading of the same bytes."""

import json
from collections.abc import Callable

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pipelines.metric_sources.prometheus_json import (
    read_answer,
    read_decimal,
    read_digits,
    read_label_sets,
    read_matrix,
    read_plain,
    read_points,
)

Points = tuple[NDArray[np.int64], NDArray[np.float64]]

TIMES = st.one_of(
    st.integers(0, 4_000_000_000_000).map(lambda ms: json.dumps(ms / 1000)),
    st.integers(0, 4_000_000_000).map(str),
    st.sampled_from(["0.5", "1e3", "-1.5", "1.7908128e9", "1790812800.1000", "1790812800.123"]),
)
VALUES = st.one_of(
    st.integers(0, 10**20).map(str),
    st.decimals(0, 10**9, places=6).map(lambda value: format(value, "f")),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["NaN", "+Inf", "-Inf", "0", "0.000000000000001", "999999999999999", "1e+09", "00012", "5.", "\\u0035"]),
)
PLAIN = st.integers(0, 999_999_999_999_999).map(str) | st.integers(0, 10**14).map(lambda n: f"{n / 1000:.3f}")


def by_json(text: bytes) -> Points:
    points = json.loads(text)
    times = np.array([round(seconds * 1000) for seconds, _ in points], np.int64)
    return times, np.array([float(value) for _, value in points], np.float64)


def interpreted(text: bytes) -> Points:
    """The loop as Python runs it, without the compiler; only for plain points."""
    times, values = np.empty(len(text), np.int64), np.empty(len(text), np.float64)
    count = read_plain(np.frombuffer(text, np.uint8), times, values)
    assert count >= 0
    return times[:count], values[:count]


def written(points: list[tuple[str, str]], separator: str = ",") -> bytes:
    return ("[" + separator.join(f'[{at},"{value}"]' for at, value in points) + "]").encode()


def same(read: Callable[[bytes], Points], text: bytes) -> None:
    times, values = read(text)
    expected_times, expected_values = by_json(text)
    np.testing.assert_array_equal(times, expected_times)
    np.testing.assert_array_equal(values, expected_values)


@settings(deadline=None)
@given(st.lists(st.tuples(TIMES, VALUES), max_size=5), st.sampled_from([",", ", ", ",\n"]))
def test_any_points_equal_the_standard_library(points: list[tuple[str, str]], separator: str) -> None:
    same(read_points, written(points, separator))


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4 * 10**12).map(lambda ms: json.dumps(ms / 1000)), PLAIN), max_size=5))
def test_plain_points_are_read_by_the_loop_itself(points: list[tuple[str, str]]) -> None:
    same(interpreted, written(points))


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "1e5", "1234567890123456", "\\u0035", ""])
@pytest.mark.parametrize("before", ["", '[1,"1"],'])
def test_unusual_points_are_left_to_the_standard_library(value: str, before: str) -> None:
    text = np.frombuffer(f'[{before}[1790812800.5,"{value}"]]'.encode(), np.uint8)
    room = np.empty(9, np.int64), np.empty(9, np.float64)
    assert read_plain(text, *room) == -1


@pytest.mark.parametrize(("text", "expected"), [("120.50,", (12050, 3, 2, 6)), ("7,", (7, 1, 0, 1)), ("x", (0, 0, 0, 0))])
def test_a_decimal_is_its_digits_and_the_place_of_its_point(text: str, expected: tuple[int, ...]) -> None:
    assert read_decimal(np.frombuffer(text.encode(), np.uint8), 0) == expected


def test_digits_go_on_from_a_number() -> None:
    assert read_digits(np.frombuffer(b"a12,", np.uint8), 1, 3) == (312, 3)


def test_a_matrix_is_read_with_its_labels() -> None:
    body = (
        b'{"status":"success","data":{"resultType":"matrix","result":['
        b'{"metric":{"__name__":"m","a":"\\u00fc \\"q\\""},"values":[[1790812800.123,"53053"],[1790812830,"NaN"]]},'
        b'{"metric":{},"histograms":[[1,{}]]}]},"infos":["x"]}'
    )
    answer = read_answer(body)
    (labels, times, values), (no_labels, no_times, no_values) = read_matrix(answer.data)
    assert labels == {"__name__": "m", "a": 'ü "q"'}
    assert times.tolist() == [1790812800123, 1790812830000]
    assert values[0] == 53053.0
    assert np.isnan(values[1])
    assert (no_labels, len(no_times), len(no_values)) == ({}, 0, 0)


def test_what_is_no_matrix_is_refused() -> None:
    with pytest.raises(ValueError, match="vector"):
        list(read_matrix(msgspec.Raw(b'{"resultType":"vector","result":[]}')))
    with pytest.raises(ValueError, match="JSON is malformed"):
        read_answer(b"<html>sign in</html>")


def test_texts_of_any_bytes_are_read_and_stay_apart() -> None:
    raw = [b"x\xff", b"x\xfe", rb"\ud800", rb"\\ud800", rb"\ud83d\ude00", rb"\udc00\u0000", "\u00fc\u200f".encode()]
    body = b'{"status":"success","data":[' + b",".join(b'{"a":"' + text + b'"}' for text in raw) + b"]}"
    found = [labels["a"] for labels in read_label_sets(read_answer(body).data)]
    assert found == ["x\\xff", "x\\xfe", "\\ud800", "\\ud800", "\U0001f600", "\\udc00\0", "\u00fc\u200f"]
    series = b'{"metric":{"a":"\xff"},"values":[[1,"2"]]}'
    matrix = b'{"status":"success","data":{"resultType":"matrix","result":[' + series + b"]}}"
    ((labels, times, values),) = read_matrix(read_answer(matrix).data)
    assert (labels, times.tolist(), values.tolist()) == ({"a": "\\xff"}, [1000], [2.0])
