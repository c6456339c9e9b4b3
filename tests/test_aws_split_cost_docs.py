"""The page that compares AWS' split of an instance with ours: its table is computed again, with fractions."""

import re
from fractions import Fraction
from pathlib import Path

PAGE = (Path(__file__).parents[1] / "docs" / "bills" / "aws-split-cost.md").read_text(encoding="utf-8")
PRICE, WEIGHTS = Fraction(10), (Fraction(9), Fraction("0.9"), Fraction("0.1"))
SIZE = (8, 64, 488)
PUBLISHED = ["1.908887", "3.264370", "2.413371", "2.413371"]


def asked() -> list[list[tuple[int, int]]]:
    """By pod: reserved and used GPUs, vCPU and GB, as the page says."""
    rows = re.findall(r"^\| \d \| (\d+) / (\d+) \| (\d+) / (\d+) \| (\d+) / (\d+) \|$", PAGE, re.MULTILINE)
    return [[(int(r[i]), int(r[i + 1])) for i in (0, 2, 4)] for r in rows]


def figures() -> dict[str, list[str]]:
    """The rows of the comparison."""
    found = re.findall(r"^\| (\d|all) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", PAGE, re.MULTILINE)
    return {name: list(cells) for name, *cells in found}


def test_the_comparison_is_what_its_rules_make_of_its_example() -> None:
    held = [[max(pair) for pair in pod] for pod in asked()]
    unit = PRICE / sum(w * n for w, n in zip(WEIGHTS, SIZE, strict=True))
    totals = [max(n, sum(pod[k] for pod in held)) for k, n in enumerate(SIZE)]
    pots = [unit * w * n for w, n in zip(WEIGHTS, SIZE, strict=True)]
    memory = sum(pod[2] for pod in held)
    unused = pots[2] * (totals[2] - memory) / totals[2]
    split = [sum((pots[k] * Fraction(pod[k], totals[k]) for k in range(3)), Fraction(0)) for pod in held]
    rest = [unused * Fraction(pod[2], memory) for pod in held]
    ours = [PRICE * Fraction(pod[0], SIZE[0]) for pod in held]
    columns: list[list[Fraction]] = [split, rest, [a + b for a, b in zip(split, rest, strict=True)], ours]
    wanted = {str(n + 1): [f"{float(column[n]):.6f}" for column in columns] for n in range(4)}
    wanted["all"] = [f"{float(sum(column)):.6f}" for column in columns]
    assert figures() == wanted
    assert [figures()[str(n)][2] for n in range(1, 5)] == PUBLISHED
    assert [totals[1], memory] == [66, 440]
