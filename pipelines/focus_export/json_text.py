"""Columns as JSON texts, each distinct text written once."""

import json
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.csv_text import plain_decimals

PREFIX = "gpu-chargeback/"
"""Before the key of each tag that we give."""
UNIT = "GiB-Seconds"


def method_details(ratio: pa.Array, gib_seconds: pa.Array) -> pa.Array:
    """``AllocatedMethodDetails``: the part of the line, and the memory over time that it comes from where there is any."""
    measured = pc.greater(gib_seconds, 0.0)
    told = pc.binary_join_element_wise(f',"UsageUnit":"{UNIT}","UsageQuantity":', gib_seconds.cast(pa.string()), "")
    start = '{"Elements":[{"AllocatedRatio":'
    return pc.binary_join_element_wise(start, plain_decimals(ratio), pc.if_else(measured, told, ""), "}]}", "")


def tags(values: Mapping[str, pa.Array]) -> pa.Array:
    """``AllocatedTags``: one key a column that has a value; null where none has."""
    pairs = [
        pc.fill_null(pc.binary_join_element_wise("," + json.dumps(PREFIX + key) + ":", _as_json(column), ""), "")
        for key, column in values.items()
    ]
    joined = pc.utf8_slice_codeunits(pc.binary_join_element_wise(*pairs, ""), 1)
    return pc.if_else(pc.equal(joined, ""), None, pc.binary_join_element_wise("{", joined, "}", ""))


def _as_json(texts: pa.Array) -> pa.Array:
    encoded = texts.dictionary_encode()
    distinct = [json.dumps(text, ensure_ascii=False) for text in encoded.dictionary.to_pylist()]
    return pa.array(distinct, pa.string()).take(encoded.indices)
