"""What a sample is, against a plain reading of the rulings with dictionaries."""

import math
import time
from random import Random

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from allocation.findings import Code
from allocation.schemas import SAMPLES, conform
from allocation.series import LABELS, clean

Row = tuple[dict[str, str | bool], list[tuple[int, float]]]
PEBIBYTE = 1125899906842624.0


def series(
    pod: str = "", *, role: str = "pod_memory", gpu: str = "GPU-1", model: str = "", **others: str
) -> dict[str, str | bool]:
    named: dict[str, str | bool] = dict.fromkeys(LABELS, "")
    named |= {
        "role": role,
        "level": "container",
        "metric": "m",
        "includes_reserved": False,
        "node": "n",
        "gpu_uuid": gpu,
    }
    return named | {"gpu_model": model, "namespace": "ns" if pod else "", "pod": pod, **others}


def cleaned(rows: list[Row]) -> tuple[pa.Table, dict[tuple[Code, str], int]]:
    kinds = {c.name: c.type for c in SAMPLES.columns}
    labels = pa.table({n: pa.array([labels[n] for labels, _ in rows], kinds[n]) for n in LABELS})
    samples = [sample for _, given_samples in rows for sample in given_samples]
    times = np.array([at for at, _ in samples], np.int64)
    values = np.array([value for _, value in samples], np.float64)
    table, findings = clean(labels, np.array([len(s) for _, s in rows], np.int64), times, values)
    assert conform(table, SAMPLES, source="test").equals(table)
    return table, {(f.code, f.subject): f.count for f in findings}


def test_replicas_of_one_series_interleave() -> None:
    table, findings = cleaned([(series("a"), [(0, 1.0), (60, 2.0)]), (series("a"), [(30, 3.0), (90, 4.0)])])
    assert table.column("timestamps_ms").to_pylist() == [[0, 30, 60, 90]]
    assert table.column("values").to_pylist() == [[1.0, 3.0, 2.0, 4.0]]
    assert findings == {}


def test_of_equal_times_the_larger_stays_and_the_rest_are_counted() -> None:
    table, findings = cleaned([(series("a"), [(0, 5.0), (0, 7.0), (10, 1.0)]), (series("a"), [(0, 6.0), (10, 1.0)])])
    assert table.column("values").to_pylist() == [[7.0, 1.0]]
    assert findings == {(Code.DUPLICATE_SAMPLES, "n/GPU-1"): 3}


def test_values_that_cannot_be_true_are_gone_before_the_larger_is_chosen() -> None:
    blanks = [math.nan, math.inf, -math.inf, -1.0, PEBIBYTE, 2.0**63 * 2**20]
    rows = [(series("a"), [(0, 40.0), *((0, blank) for blank in blanks)])]
    table, findings = cleaned(rows)
    assert table.column("values").to_pylist() == [[40.0]]
    assert findings == {(Code.INVALID_SAMPLES, "n/GPU-1"): len(blanks)}


def test_the_largest_true_value_is_just_below_a_pebibyte() -> None:
    table, findings = cleaned([(series("a"), [(0, PEBIBYTE - 1)])])
    assert table.column("values").to_pylist() == [[PEBIBYTE - 1]]
    assert findings == {}


def test_a_series_without_a_sample_left_vanishes_and_findings_are_per_device() -> None:
    rows = [
        (series("a", gpu="GPU-2"), [(0, math.nan)]),
        (series("a", gpu="GPU-1"), [(0, 1.0), (5, -2.0)]),
        (series("b", gpu="GPU-1", gpu_instance="3"), [(0, math.nan), (1, math.nan)]),
    ]
    table, findings = cleaned(rows)
    assert table.column("gpu_uuid").to_pylist() == ["GPU-1"]
    assert findings == {
        (Code.INVALID_SAMPLES, "n/GPU-1"): 1,
        (Code.INVALID_SAMPLES, "n/GPU-1/3"): 2,
        (Code.INVALID_SAMPLES, "n/GPU-2"): 1,
    }


def test_a_model_name_is_no_identity_but_a_profile_and_a_uid_are() -> None:
    rows = [
        (series("a", model=""), [(0, 1.0)]),
        (series("a", model="A100"), [(5, 1.0)]),
        (series("a", mig_profile="1g.5gb"), [(0, 2.0)]),
        (series("a", pod_uid="u"), [(0, 3.0)]),
    ]
    table, _ = cleaned(rows)
    assert table.column("values").to_pylist() == [[1.0, 1.0], [3.0], [2.0]]
    assert table.column("gpu_model").to_pylist() == ["A100", "", ""]


def test_series_stand_in_order_of_device_then_role_then_holder_by_bytes() -> None:
    keys = [("GPU-2", "used", ""), ("GPU-1", "used", ""), ("GPU-1", "pod_memory", "a"), ("GPU-1", "pod_memory", "Z")]
    table, _ = cleaned([(series(pod, role=role, gpu=gpu), [(0, 1.0)]) for gpu, role, pod in keys])
    order = list(zip(*(table.column(n).to_pylist() for n in ("gpu_uuid", "role", "pod")), strict=True))
    assert order == [keys[3], keys[2], keys[1], keys[0]]


def test_no_series_give_an_empty_table() -> None:
    table, findings = cleaned([])
    assert table.num_rows == 0
    assert findings == {}


ROWS = st.lists(
    st.tuples(
        st.builds(
            series,
            st.sampled_from(["", "a", "b"]),
            gpu=st.sampled_from(["GPU-1", "GPU-2"]),
            model=st.sampled_from(["", "M"]),
        ),
        st.lists(
            st.tuples(st.integers(0, 6), st.sampled_from([0.0, -0.0, 1.0, 2.0, -1.0, math.nan, math.inf, PEBIBYTE])),
            max_size=6,
        ),
    ),
    max_size=8,
)


@settings(deadline=None)
@given(ROWS, st.randoms(use_true_random=False))
def test_order_never_matters_and_the_result_is_the_plain_one(rows: list[Row], random: Random) -> None:
    table, findings = cleaned(rows)
    shuffled = [(labels, random.sample(samples, len(samples))) for labels, samples in random.sample(rows, len(rows))]
    again, findings_again = cleaned(shuffled)
    assert again.equals(table)
    assert findings_again == findings
    expected: dict[tuple[str, str], dict[int, float]] = {}
    seen, invalid = 0, 0
    for labels, samples in rows:
        for at, value in samples:
            seen += 1
            if not 0 <= value < PEBIBYTE:
                invalid += 1
                continue
            held = expected.setdefault((str(labels["gpu_uuid"]), str(labels["pod"])), {})
            held[at] = max(value, held.get(at, 0.0))
    names = zip(table.column("gpu_uuid").to_pylist(), table.column("pod").to_pylist(), strict=True)
    found = zip(names, table.column("timestamps_ms").to_pylist(), table.column("values").to_pylist(), strict=True)
    assert [(k, list(zip(t, v, strict=True))) for k, t, v in found] == [
        (k, sorted(expected[k].items())) for k in sorted(expected)
    ]
    kept = sum(len(samples) for samples in expected.values())
    assert sum(n for (code, _), n in findings.items() if code is Code.INVALID_SAMPLES) == invalid
    assert sum(n for (code, _), n in findings.items() if code is Code.DUPLICATE_SAMPLES) == seen - invalid - kept


def test_a_million_samples_take_far_less_than_a_row_by_row_reading() -> None:
    count, length = 350, 2880
    kinds = {c.name: c.type for c in SAMPLES.columns}
    names = [series(f"p{n}", gpu=f"GPU-{n % 128}") for n in range(count)]
    labels = pa.table({n: pa.array([one[n] for one in names], kinds[n]) for n in LABELS})
    times = np.tile(np.arange(length, dtype=np.int64) * 30_000, count)
    began = time.process_time()
    table, findings = clean(labels, np.full(count, length, np.int64), times, np.ones(count * length))
    took = time.process_time() - began
    assert table.num_rows == count
    assert not findings
    assert took < 2.0
