"""Shown money adds up as shown, on every level, and is less than a coin off."""

from hypothesis import given
from hypothesis import strategies as st

from allocation.shown import Coin, exact_text, minor_places

places = st.sampled_from([0, 2, 3, 4])
amounts = st.integers(-(10**20), 10**20) | st.integers(-(10**8), 10**8)
parts = st.lists(amounts, min_size=1, max_size=30)


@given(parts, places)
def test_parts_add_up_and_are_less_than_a_coin_off(exact: list[int], number: int) -> None:
    coin = Coin(number)
    shown = coin.parts(exact, coin.of(sum(exact)))
    assert sum(shown) == coin.of(sum(exact))
    assert all(abs(s * coin.nanos - e) < coin.nanos for s, e in zip(shown, exact, strict=True))


@given(st.lists(parts, min_size=1, max_size=8), places)
def test_levels_add_up(groups: list[list[int]], number: int) -> None:
    coin = Coin(number)
    teams = [sum(group) for group in groups]
    shown = coin.parts(teams, coin.of(sum(teams)))
    for group, total in zip(groups, shown, strict=True):
        models = coin.parts(group, total)
        assert sum(models) == total
        assert all(abs(s * coin.nanos - e) < coin.nanos for s, e in zip(models, group, strict=True))


@given(parts, places)
def test_the_opposite_sign_is_the_mirror_image(exact: list[int], number: int) -> None:
    coin = Coin(number)
    turned = [-n for n in exact]
    assert coin.parts(turned, coin.of(sum(turned))) == [-n for n in coin.parts(exact, coin.of(sum(exact)))]


@given(st.lists(amounts, min_size=1, max_size=20, unique_by=lambda n: n % 10**9), st.randoms())
def test_the_order_of_parts_without_ties_does_not_matter(exact: list[int], random: object) -> None:
    coin, other = Coin(2), list(exact)
    random.shuffle(other)  # type: ignore[attr-defined]
    total = coin.of(sum(exact))
    if len({n % coin.nanos for n in exact}) < len(exact) or not sum(exact):
        return
    assert dict(zip(exact, coin.parts(exact, total), strict=True)) == dict(zip(other, coin.parts(other, total), strict=True))


def test_by_hand() -> None:
    cent = Coin(2)
    assert cent.parts([3_333_333, 3_333_333, 3_333_334], 1) == [0, 0, 1]
    assert cent.parts([5_000_000, 5_000_000], 1) == [1, 0]
    assert cent.parts([], 0) == []
    assert Coin(0).parts([1_500_000_000, 1_500_000_000], 3) == [2, 1]
    assert exact_text(-1) == "-0.000000001"
    assert [minor_places(c) for c in ("USD", "JPY", "KRW", "KWD", "TND", "CLF", "EUR")] == [2, 0, 0, 3, 3, 4, 2]
