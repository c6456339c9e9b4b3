"""Slices of ``explain`` that only some sources have: holders by inference, by declaration, and shares that do not divide."""

from fractions import Fraction
from pathlib import Path

import pytest

from tests.pipelines.explained import check_walk
from tests.pipelines.test_explain import CASES, DAY, computed, told


def test_an_inferred_holder_by_hand(tmp_path: Path) -> None:
    """62: only the inventory names train-0. It shows 0 bytes of its own and bears all of the 20 of 80 GiB that the card says."""
    walk = computed(CASES / "62-nvidia-smi-one-possibility" / "chargeback.yaml", tmp_path, DAY)
    (row,) = told(walk, gpu="GPU-22222222-0000-4000-8000-000000000002")["rows"]
    assert (row["row"]["pod"], row["row"]["basis"], row["row"]["cost"]) == ("train-0", "inferred", "80.000000000")
    assert {s["basis"] for s in row["slices"]} == {"inferred"}
    hour, gib = 3_600_000, 2**30
    for kind, size in (("used", 20), ("overhead", 0), ("idle", 60)):
        assert sum(int(s[f"{kind}_byte_ms"]) for s in row["slices"]) == size * gib * hour
    first = row["slices"][0]
    assert (first["memory_bytes"], first["others_memory_bytes"], first["holders"]) == (0, 0, 1)
    assert (first["used_bytes"], first["held_bytes"], first["unexplained_bytes"]) == (20 * gib, 20 * gib, 0)
    assert (first["weight"], first["weights_total"], first["repeated"], first["not_mapped"]) == (1, 1, False, False)
    assert {s["level"] for s in first["samples"] if s["role"] == "pod_memory"} == {"inferred"}


@pytest.mark.parametrize("case", ["56-declared-by-annotation-and-request", "81-reservation-pod"])
def test_declared_memory_by_hand(case: str, tmp_path: Path) -> None:
    """Both repeat the card's 60 GiB; small declared a quarter, large three: 15 and 45 of the 60, and of the 20 idle 5 and 15."""
    walk = computed(CASES / case / "chargeback.yaml", tmp_path, DAY)
    gib_hour, gib = 2**30 * 3_600_000, 2**30
    parts: dict[str, list[Fraction]] = {}
    for row in told(walk, gpu="GPU-1")["rows"]:
        slices = row["slices"]
        assert (slices[0]["memory_bytes"], slices[0]["held_bytes"], slices[0]["repeated"]) == (60 * gib, 60 * gib, True)
        assert {s["basis"] for s in slices} == {"estimated_requests"}
        assert all(s["weight"] == s["declared_bytes"] for s in slices)
        parts[row["row"]["pod"]] = [
            Fraction(sum(int(s[f"{kind}_byte_ms"]) for s in slices), gib_hour) for kind in ("used", "overhead", "idle")
        ]
    assert parts == {"small": [Fraction(15), Fraction(0), Fraction(5)], "large": [Fraction(45), Fraction(0), Fraction(15)]}


ODD = """
version: 1
output: out
clusters:
  - name: prod
    metrics:
      - kind: openmetrics
        path: metrics.om
        profile: custom
        custom:
          pod_memory: {metric: held, unit: bytes}
          used: {metric: used, unit: bytes}
          labels: {node: node, gpu: card, namespace: ns, pod: pod}
    nodes:
      - {name: gpu-a, provider_id: "aws:///us-east-1a/i-0a00000000000001a", instance_type: gpu.1x80, gpus: 1, gpu_memory: 80GiB}
billing:
  - {kind: focus, path: bill.csv, cost: billed}
policy: {overhead: OVERHEAD, idle: IDLE}
"""


@pytest.mark.parametrize("policy", [("proportional", "holder"), ("even", "even"), ("separate", "proportional")])
def test_shares_that_do_not_divide_differ_by_a_unit_a_slice(policy: tuple[str, str], tmp_path: Path) -> None:
    """`wave` changes every minute, six others never: their parts of overhead and idle are rounded once, in the slices each time.

    Used is m of each, a whole number; overhead and idle that no holder of the device bears are not divided: nothing to round.
    """
    config = ODD.replace("OVERHEAD", policy[0]).replace("IDLE", policy[1])
    (tmp_path / "chargeback.yaml").write_text(config, encoding="utf-8")
    (tmp_path / "bill.csv").write_bytes((CASES / "64-custom-decimal-units" / "bill.csv").read_bytes())
    card, lines = 'node="gpu-a",card="C-1"', ["# TYPE held gauge"]
    steady = {"a": 7_000_000_001, "b": 11_000_000_033, "c": 13, "d": 1_000_003, "e": 500_000_003, "f": 77}
    for minute in range(60):
        at = 1_790_812_800 + 60 * minute
        lines += [f'held{{{card},ns="ns",pod="{pod}"}} {size} {at}.137' for pod, size in steady.items()]
        lines.append(f'held{{{card},ns="ns",pod="wave"}} {1_000_000_007 + 998_244_353 * (minute % 7)} {at}.613')
    lines.append("# TYPE used gauge")
    lines += [f"used{{{card}}} 31000000039 {1_790_812_800 + 60 * minute}.137" for minute in range(60)]
    (tmp_path / "metrics.om").write_text("\n".join([*lines, "# EOF", ""]), encoding="utf-8")
    walk = computed(tmp_path / "chargeback.yaml", tmp_path, DAY)
    rows = told(walk, gpu="C-1")["rows"]
    assert {*steady, "wave"} <= {row["row"]["pod"] for row in rows}
    for row in rows:
        check_walk(row)
        assert len(row["slices"]) >= 60
    left = [int(row["rounding_byte_ms"][kind]) for row in rows for kind in ("used", "overhead", "idle")]
    assert any(left) == (policy[0] != "separate")
