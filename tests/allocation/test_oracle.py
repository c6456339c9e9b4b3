"""The compiled method against the brute-force one, on random shards."""

from fractions import Fraction

from hypothesis import given, settings

from tests.oracle import Key, Period, Row
from tests.shards import Shard, answered, expected, measured
from tests.strategies import shards


def check_row(shard: Shard, period: Period, key: Key, got: Row, wanted: Row, slack: Fraction) -> None:
    where = f"{key} of {period}"
    for column in ("used", "overhead", "idle"):
        off = abs(getattr(got, column) - getattr(wanted, column))
        assert off <= shard.slack, f"{where}: {column} {getattr(got, column)} for {float(getattr(wanted, column))}"
    times = (got.observed, got.imputed, got.basis)
    assert times == (wanted.observed, wanted.imputed, wanted.basis), f"{where}: {times} for {wanted}"
    assert abs(got.coverage - wanted.coverage) < Fraction(1, 10**12), f"{where}: coverage {float(wanted.coverage)}"
    for mine, its in zip(got.shares, wanted.shares, strict=True):
        assert abs(mine - its) <= slack, f"{where}: shares {tuple(map(float, got.shares))} for {tuple(map(float, wanted.shares))}"


def is_crumb(shard: Shard, row: Row) -> bool:
    """A share of the node's idle for a pod of 0 bytes that got a byte-ms in rounding."""
    return row.observed + row.imputed == 0 and row.idle <= shard.slack and not row.unmeasured


def check(shard: Shard) -> None:
    answer = answered(measured(shard).usage, shard.periods)
    for period, wanted in expected(shard).items():
        got = {k: r for k, r in answer[period].items() if k in wanted or not is_crumb(shard, r)}
        assert got.keys() == wanted.keys(), (
            f"{period}: too much {got.keys() - wanted.keys()}, missing {wanted.keys() - got.keys()}"
        )
        for key, row in wanted.items():
            device = [r for k, r in got.items() if (k.gpu, k.instance) == (key.gpu, key.instance)]
            total = sum((r.used + r.overhead + r.idle for r in device), Fraction(0))
            check_row(shard, period, key, got[key], row, Fraction(shard.slack) / total if total else Fraction(0))


@settings(max_examples=120)
@given(shards(mig=False))
def test_whole_gpus(shard: Shard) -> None:
    check(shard)


@settings(max_examples=60)
@given(shards(mig=True))
def test_partitioned_gpus(shard: Shard) -> None:
    check(shard)
