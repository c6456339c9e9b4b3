"""Distinct holders of rows of usage; texts as numbers."""

import numpy as np
import pandas as pd
import pyarrow as pa

from allocation.coded import coded, combined, united
from allocation.holders import holders_of
from allocation.text_maps import TextMaps


def test_holders_are_counted_in_order_and_null_is_empty() -> None:
    columns = {"bucket": ["idle", "workload", "idle", "workload", "workload"], "namespace": [None, "ns", "", "ns", "ns"]}
    columns |= {"pod": ["", "a", None, "a", "a"], "pod_uid": [None, "u", None, "u", "v"], "node": ["n", "n", "n", "n", "n"]}
    usage = pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
    start, end = np.array([0, 0, 0, 5, 0]), np.array([5, 5, 5, 9, 5])
    holders, number = holders_of(usage, start, end, "c")
    assert number.tolist() == [0, 1, 0, 2, 3]
    assert holders.to_dict("split")["data"] == [
        ["idle", "", "", "", "n", 0, 5, "c"],
        ["workload", "ns", "a", "u", "n", 0, 5, "c"],
        ["workload", "ns", "a", "u", "n", 5, 9, "c"],
        ["workload", "ns", "a", "v", "n", 0, 5, "c"],
    ]


def test_texts_as_numbers() -> None:
    one, other = coded(pa.array(["b", "", None, "a", "b"])), coded(pd.Series(["x", "b", None, "b", "a"], dtype=object))
    assert one.texts().tolist() == ["b", None, None, "a", "b"]
    assert one.tested("b".__eq__).tolist() == [True, False, False, False, True]
    assert one.numbers_of(pa.array(["a", "", "z"])).tolist() == [one.codes[3], -1, -2]
    both = united([one, other], np.array([0, 1, 1, -1, 1]))
    assert both.texts("-").tolist() == ["b", "b", "-", "-", "a"]
    assert len(both.values) == len(set(both.values.to_pylist()))


def test_numbers_of_several_columns_differ_where_the_rows_do() -> None:
    columns = [np.array([-1, -1, 0, 2**40, 2**40, -1]), np.array([-1, 0, -1, 2**40, 2**40 - 1, -1])]
    number = combined([(column, 2**40 + 1) for column in columns])
    assert len(set(number.tolist())) == 5
    assert number[0] == number[5]


def test_a_key_of_maps_is_read_where_it_is_first() -> None:
    maps = pa.array(
        [[("a", "1"), ("b", "2")], None, [], [("b", ""), ("a", "3"), ("a", "4")], [("c", "5")]], pa.map_("string", "string")
    )
    assert TextMaps(maps).of("a").texts().tolist() == ["1", None, None, "3", None]
    assert TextMaps(maps.slice(3)).of("b").texts("none").tolist() == ["none", "none"]
    assert TextMaps(maps).of("z").texts().tolist() == [None] * 5
