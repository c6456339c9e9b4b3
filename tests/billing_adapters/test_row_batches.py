"""Rows in batches: what is computed once for each combination of values is what would be computed row by row."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from allocation.errors import AdapterError
from billing_adapters.lines import one_of
from billing_adapters.row_batches import RowBatch


def joined(batch: RowBatch) -> dict[str, pa.Array]:
    parts = [batch.text(name) for name in ("kind", "unit", "absent")]
    text = pc.binary_join_element_wise(*parts, "|", null_handling="replace", null_replacement="-")
    return {"text": pc.if_else(one_of(batch.text("kind"), ["b"]), None, text), "length": pc.utf8_length(text)}


@pytest.mark.parametrize("encoded", [False, True])
def test_each_row_gets_what_its_combination_gives(encoded: bool) -> None:
    kinds = pa.array(["a", "b", None, " a", "NULL", "a", "b"])
    units = pa.array(["h", "h", "h", "h", None, "d", "h"])
    if encoded:
        kinds, units = kinds.dictionary_encode(), units.dictionary_encode()
    batch = RowBatch("f.csv", 1, 7, {"kind": kinds, "unit": units})
    seen: list[int] = []

    def compute(few: RowBatch) -> dict[str, pa.Array]:
        seen.append(few.rows)
        return joined(few)

    found = batch.by_distinct(["kind", "Unit", "absent"], compute)
    assert seen == [6]
    assert found["text"].to_pylist() == ["a|h|-", None, "-|h|-", "a|h|-", "-|-|-", "a|d|-", None]
    assert found["length"].to_pylist() == [5, 5, 5, 5, 5, 5, 5]
    assert found["text"].null_count == 2


def test_an_error_names_the_first_row_of_the_combination() -> None:
    batch = RowBatch("f.csv", 101, 4, {"kind": pa.array(["x", "x", "", "x"]), "unit": pa.array(["h", "d", "h", "h"])})
    with pytest.raises(AdapterError, match=r"f\.csv.*row 103.*kind is empty"):
        batch.by_distinct(["kind", "unit"], lambda few: {"kind": few.required("kind")})


def test_many_values_a_column_never_overflow() -> None:
    many = pa.array([str(n) for n in range(5000)])
    batch = RowBatch("f.csv", 1, 5000, {f"c{n}": many for n in range(8)})
    found = batch.by_distinct([f"c{n}" for n in range(8)], lambda few: {"c7": few.text("c7")})
    assert found["c7"].cast(pa.string()).equals(many)
