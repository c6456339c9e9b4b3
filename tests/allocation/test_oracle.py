"""The compiled method against the brute-force one, on random shards."""

from fractions import Fraction

from hypothesis import given, settings

from tests.oracle import Key, Period, Row
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
        assert abs(share - its) <= slack / max(total, 1), (
            f"{where}: shares {[*map(float, got.shares)]}, {[*map(float, wanted.shares)]}"
        )


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
        used = sum((r.used for r in got.values()), Fraction(0))
        for key, row in wanted.items():
            device = [r for k, r in got.items() if (k.gpu, k.instance) == (key.gpu, key.instance)]
            total = sum((r.used + r.overhead + r.idle for r in device), Fraction(0))
            pooled = shard.policy.idle == "proportional" and used
            slack = Fraction(shard.slack) * (1 + (total / used if pooled else 0))
            check_row(f"{key} of {period}", got[key], row, slack, total)


@settings(max_examples=120)
@given(shards(mig=False))
def test_whole_gpus(shard: Shard) -> None:
    check(shard)


@settings(max_examples=60)
@given(shards(mig=True, coverage=(0.0,)))
def test_partitioned_gpus(shard: Shard) -> None:
    check(shard)
