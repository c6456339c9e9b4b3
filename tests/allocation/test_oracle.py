"""The compiled method against the brute-force one, on random shards."""

from fractions import Fraction

from hypothesis import given, settings

from tests.oracle import Period, Row, Rows
from tests.shards import Shard, answered, expected, measured
from tests.strategies import shards


def check_row(where: str, got: Row, wanted: Row, slack: Fraction, total: Fraction) -> None:
    """Byte-time within the slack, the parts of the cost within its part of the device, all else exactly."""
    for column in ("used", "overhead", "idle"):
        mine, its = getattr(got, column), getattr(wanted, column)
        assert abs(mine - its) <= slack, f"{where}: {column} {mine} for {float(its)}"
    times = (got.observed, got.imputed, got.basis)
    assert times == (wanted.observed, wanted.imputed, wanted.basis), f"{where}: {times} for {wanted}"
    assert abs(got.coverage - wanted.coverage) < Fraction(1, 10**12), f"{where}: coverage {float(wanted.coverage)}"
    for share, its in zip(got.shares, wanted.shares, strict=True):
        assert abs(share - its) <= slack / (total or 1), f"{where}: share {float(share)} for {float(its)}"


def is_crumb(row: Row, slack: Fraction) -> bool:
    """A share of another device's idle so small that rounding the holder's used byte-time makes it or takes it away (R11)."""
    return row.observed + row.imputed == 0 and not row.used + row.overhead + row.unmeasured and 0 < row.idle <= slack


def check_rows(shard: Shard, period: Period, got: Rows, wanted: Rows) -> None:
    """All rows of one period. Where idle is pooled, a rounding of the weights moves it by a part of the pool."""
    used = sum((r.used for r in got.values()), Fraction(0))
    for key in got.keys() | wanted.keys():
        device = [r for k, r in wanted.items() if (k.gpu, k.instance) == (key.gpu, key.instance)]
        total = sum((r.used + r.overhead + r.idle for r in device), Fraction(0))
        pooled = shard.policy.idle == "proportional" and used
        slack = Fraction(shard.slack) * (1 + (total / used if pooled else 0))
        where = f"{key} of {period}"
        if key in got and key in wanted:
            check_row(where, got[key], wanted[key], slack, total)
        else:
            assert pooled, f"{where}: {'too much' if key in got else 'missing'}"
            assert is_crumb((got | wanted)[key], slack), f"{where}: {'too much' if key in got else 'missing'}"


def check(shard: Shard) -> None:
    answer = answered(measured(shard).usage, shard.periods)
    for period, wanted in expected(shard).items():
        check_rows(shard, period, answer[period], wanted)


@settings(max_examples=100)
@given(shards(mig=False))
def test_whole_gpus(shard: Shard) -> None:
    check(shard)


@settings(max_examples=50)
@given(shards(mig=True, coverage=(0.0,)))
def test_partitioned_gpus(shard: Shard) -> None:
    check(shard)
