"""The quick start's inputs: reproducible, small, holding what their README says; its figures are worked out again.

Nothing of the program is used: the figures follow from ``bill.csv`` and ``metrics.om`` by the README's own rules.
"""

import csv
import re
import subprocess
import sys
from collections import defaultdict
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples" / "quickstart"
DAY_START = 1_790_812_800
GPU_A, GPU_B, GPU_C = "i-0a1f3c5e7d9b2a4c6", "i-0b2e4d6f8a1c3e5b7", "i-0c3d5e7f9b1a2c4d6"
CARD_MIB = 97_887

Labels = dict[str, str]
Series = list[tuple[str, Labels, list[tuple[int, int]]]]


@pytest.fixture(scope="module")
def bill() -> list[Labels]:
    with (FOLDER / "bill.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def series() -> Series:
    found: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for line in (FOLDER / "metrics.om").read_text(encoding="utf-8").splitlines():
        if match := re.fullmatch(r"(\w+)\{(.*)\} (\d+) (\d+)", line):
            found[match[1], match[2]].append((int(match[4]) - DAY_START, int(match[3])))
    return [(metric, dict(re.findall(r'(\w+)="([^"]*)"', labels)), samples) for (metric, labels), samples in found.items()]


def used(series: Series, **wanted: str) -> Series:
    return [
        s for s in series if s[0] == "DCGM_FI_DEV_FB_USED" and all(s[1].get(name, "") == value for name, value in wanted.items())
    ]


def cost(bill: list[Labels], resource: str, category: str = "Usage", unit: str = "Hours") -> Decimal:
    chosen = (b for b in bill if (b["ResourceId"], b["ChargeCategory"], b["ConsumedUnit"]) == (resource, category, unit))
    return sum((Decimal(b["EffectiveCost"]) for b in chosen), Decimal())


def minutes(clock: str) -> int:
    return int(clock[:2]) * 60 + int(clock[3:])


def test_generator_writes_the_committed_bytes(tmp_path: Path) -> None:
    subprocess.run([sys.executable, FOLDER / "generate.py", "--out", tmp_path], check=True, capture_output=True)
    for name in ("metrics.om", "bill.csv"):
        assert (tmp_path / name).read_bytes() == (FOLDER / name).read_bytes(), name


def test_quick_start_stays_under_three_megabytes() -> None:
    assert sum(f.stat().st_size for f in FOLDER.iterdir() if f.is_file()) < 3_000_000
    assert (FOLDER / "metrics.om").stat().st_size < 2_500_000


def test_metrics_are_well_formed(series: Series) -> None:
    lines = (FOLDER / "metrics.om").read_text(encoding="utf-8").splitlines()
    assert lines[-1] == "# EOF"
    metrics = [line.split("{")[0] for line in lines if not line.startswith("#")]
    changes = [m for m, before in zip(metrics, ["", *metrics], strict=False) if m != before]
    assert len(changes) == len(set(changes)) == 7
    assert all(times == sorted(set(times)) for times in ([t for t, _ in samples] for _, _, samples in series))
    assert sum(len(samples) for _, _, samples in series) == len(metrics)


def test_three_nodes_and_eight_gpus(series: Series, bill: list[Labels]) -> None:
    nodes = {labels["node"]: labels["provider_id"] for metric, labels, _ in series if metric == "kube_node_info"}
    assert {n: p.rsplit("/", 1)[1] for n, p in nodes.items()} == {"gpu-a": GPU_A, "gpu-b": GPU_B, "gpu-c": GPU_C}
    measured = {(labels["Hostname"], labels["UUID"]) for _, labels, _ in used(series)}
    assert sorted(node for node, _ in measured) == ["gpu-a"] * 4 + ["gpu-b"] * 2
    counts = re.findall(r"name: (gpu-\w), .*gpus: (\d)", (FOLDER / "chargeback.yaml").read_text(encoding="utf-8"))
    assert sum(int(count) for _, count in counts) == 8
    assert sum(b["ResourceId"] == GPU_C for b in bill) == 24


def test_shared_gpu_repeats_the_device_value(series: Series) -> None:
    rows = used(series, UUID="GPU-a19e3b64")
    assert [labels["pod"].split("-")[0] for _, labels, _ in rows] == ["chat", "reranker", "tagger"]
    assert rows[0][2] == rows[1][2] == rows[2][2]
    assert min(value for _, value in rows[0][2]) > 0


def test_idle_gpu_and_restarted_pod(series: Series) -> None:
    ((_, idle, samples),) = used(series, UUID="GPU-a37b61e8")
    assert "pod" not in idle
    assert {value for _, value in samples} == {0}
    lives = {s[1]["uid"]: s[2] for s in series if s[0] == "kube_pod_info" and s[1]["pod"] == "embedder-0"}
    (first, *_), (second, *_) = lives.values()
    assert len(lives) == 2
    assert (first[0], second[0]) == (0, minutes("13:06") * 60)
    assert next(iter(lives.values()))[-1][0] == minutes("13:02") * 60
    assert [t for t, _ in used(series, UUID="GPU-a0c1f7d2", pod="")[0][2]] == [minutes("13:04") * 60]


@pytest.mark.parametrize(("node", "last", "following"), [("gpu-a", "10:04", "10:14"), ("gpu-b", "03:10", "03:52")])
def test_exporter_gaps(series: Series, node: str, last: str, following: str) -> None:
    start, end = minutes(last) * 60, minutes(following) * 60
    rows = [{t for t, _ in samples} for _, labels, samples in used(series, Hostname=node) if len(samples) > 300]
    assert len(rows) >= 3
    for times in rows:
        around = sorted(t for t in times if start <= t <= end)
        assert around in ([start, end], [])


def test_mig_instances_leave_a_quarter_of_the_card(series: Series) -> None:
    free = {labels["GPU_I_ID"]: samples for metric, labels, samples in series if metric.endswith("FREE") and "GPU_I_ID" in labels}
    sizes = {}
    for _, labels, samples in used(series, UUID="GPU-b1c7d350"):
        totals = {value + other for (_, value), (_, other) in zip(samples, free[labels["GPU_I_ID"]], strict=True)}
        (sizes[labels["GPU_I_PROFILE"]],) = totals
    assert sizes == {"2g.48gb": 48_512, "1g.24gb": 24_192}
    assert CARD_MIB - sum(sizes.values()) == 25_183


def test_savings_plan_moves_money_but_not_the_total(bill: list[Labels]) -> None:
    covered = [b for b in bill if b["ResourceId"] == GPU_A and b["PricingCategory"] == "Committed"]
    assert len(covered) == 24
    assert {(b["BilledCost"], b["EffectiveCost"], b["ListCost"]) for b in covered} == {("0", "3.744", "5.76")}
    assert {b["CommitmentDiscountId"] for b in covered} == {b["ResourceId"] for b in bill if b["ChargeCategory"] == "Purchase"}
    totals = {sum(Decimal(b[column]) for b in bill) for column in ("BilledCost", "EffectiveCost")}
    assert totals == {Decimal("506.656")}


def figures(bill: list[Labels]) -> dict[str, Fraction]:
    """Every figure of the README, from the bill's amounts and the times and sizes that the tests above find."""
    card_a, card_b = Fraction(cost(bill, GPU_A)) / 24 / 4, Fraction(cost(bill, GPU_B)) / 24 / 2
    credit = Fraction(cost(bill, GPU_B, "Credit", "")) / 2
    unknown = card_b * Fraction(40, 60)
    large, small = Fraction(48_512, CARD_MIB), Fraction(24_192, CARD_MIB)
    measured = 24 * card_b + credit - unknown
    found = {
        "embedder before": card_a * Fraction(minutes("13:04"), 60),
        "embedder after": card_a * Fraction(minutes("24:00") - minutes("13:06"), 60),
        "shared third": card_a * 24 / 3,
        "ocr": card_a * 12,
        "idle": card_a * (24 + 12 + Fraction(2, 60)),
        "trainer": measured,
        "draft": measured * large,
        "notebook": measured * small,
        "stranded": measured * (1 - large - small),
        "unknown time": unknown * 2,
        "gpu-c": Fraction(cost(bill, GPU_C)),
    }
    nodes = Fraction(cost(bill, GPU_A) + cost(bill, GPU_B) + cost(bill, GPU_B, "Credit", "") + cost(bill, GPU_C))
    assert sum(found.values()) + 2 * found["shared third"] == nodes
    found |= {
        "research": found["trainer"] + found["notebook"],
        "assistant": found["draft"] + found["shared third"],
        "search": found["embedder before"] + found["embedder after"] + found["shared third"],
        "platform": found["idle"] + found["stranded"],
        "nobody": found["gpu-c"] + found["unknown time"],
    }
    return found


def test_readme_figures_follow_from_the_inputs(bill: list[Labels]) -> None:
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    for name, value in figures(bill).items():
        exact = Decimal(value.numerator) / Decimal(value.denominator)
        assert f"{exact:.4f}" in readme, f"{name}: {exact:.4f}"
    teams = dict(re.findall(r"^\| (\w+) \| ([\d.]+) \|", readme, re.MULTILINE))
    assert abs(sum(Decimal(v) for v in teams.values()) - Decimal("490.656")) <= Decimal("0.0004")


def test_readme_tells_what_is_out_of_scope(bill: list[Labels]) -> None:
    machine_time = {(GPU_A, "Hours"), (GPU_B, "Hours"), (GPU_C, "Hours")}
    beside = {
        b["ChargeDescription"]: Decimal(b["EffectiveCost"])
        for b in bill
        if (b["ResourceId"], b["ConsumedUnit"]) not in machine_time and b["ChargeCategory"] != "Credit"
    }
    assert sorted(beside.values()) == [Decimal(0), Decimal("0.80"), Decimal("2.70"), Decimal("12.50")]
    assert cost(bill, GPU_A, unit="GB") == Decimal("2.70")
    assert sum(beside.values()) == Decimal("506.656") - Decimal("490.656")
