"""Money as people see it: exact nanos rounded to a currency's smallest coin, so that what is shown adds up as shown.

Whole numbers only. Here does not belong what is added up, or where a figure is shown.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_PLACES = 9
_NONE = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"
_THREE = "BHD IQD JOD KWD LYD OMR TND"
_FOUR = "CLF UYW"
_EXCEPTIONS = {code: n for n, codes in ((0, _NONE), (3, _THREE), (4, _FOUR)) for code in codes.split()}
"""Currencies of ISO 4217 (list one, as kept by its maintenance agency) whose minor unit is not a hundredth."""


def minor_places(currency: str) -> int:
    """How many decimals a currency's smallest coin has.

    >>> [minor_places(code) for code in ("USD", "JPY", "KWD")]
    [2, 0, 3]
    """
    return _EXCEPTIONS.get(currency.upper(), 2)


@dataclass(frozen=True)
class Coin:
    """A currency's smallest coin, by its decimals: amounts in nanos become whole numbers of coins."""

    places: int

    @property
    def nanos(self) -> int:
        """What a coin is worth."""
        return int(10 ** (_PLACES - self.places))

    def of(self, exact: int) -> int:
        """The nearest number of coins; a half goes away from zero.

        >>> [Coin(2).of(n) for n in (14_999_999, 15_000_000, -15_000_000)]
        [1, 2, -2]
        """
        coins = (2 * abs(exact) + self.nanos) // (2 * self.nanos)
        return coins if exact >= 0 else -coins

    def parts(self, exact: Sequence[int], total: int) -> list[int]:
        """Coins that add up to ``total``, each less than one coin off its part.

        Largest remainder, ties to the earlier, parts of the opposite sign its mirror image. ``total`` is what the sum of the
        parts is shown as: its floor or its ceiling in coins.

        >>> Coin(2).parts([3_333_333, 3_333_333, 3_333_334], 1)
        [0, 0, 1]
        """
        if _is_mirrored(exact):
            return [-coins for coins in self._upright([-n for n in exact], -total)]
        return self._upright(exact, total)

    def _upright(self, exact: Sequence[int], total: int) -> list[int]:
        if not exact:
            return []
        floors = [n // self.nanos for n in exact]
        rests = np.array([n % self.nanos for n in exact], np.int64)
        for place in np.argsort(-rests, kind="stable")[: total - sum(floors)].tolist():
            floors[place] += 1
        return floors

    def text(self, coins: int) -> str:
        """A number of coins as an amount, with thousands set apart.

        >>> Coin(2).text(-123456789), Coin(0).text(1234), Coin(3).text(5)
        ('-1,234,567.89', '1,234', '0.005')
        """
        whole, rest = divmod(abs(coins), 10**self.places)
        fraction = f".{rest:0{self.places}d}" if self.places else ""
        return f"{'-' if coins < 0 else ''}{whole:,}{fraction}"


def _is_mirrored(exact: Sequence[int]) -> bool:
    """Whether the parts are worked out with their signs turned: by their sum, else by which sign has the larger parts."""
    total = sum(exact)
    if total:
        return total < 0
    falling, turned = sorted(exact, reverse=True), sorted((-n for n in exact), reverse=True)
    if falling != turned:
        return falling < turned
    return next((n < 0 for n in exact if n), False)


def exact_text(nanos: int) -> str:
    """An exact amount with all nine decimals.

    >>> exact_text(-1_500_000_000_001)
    '-1,500.000000001'
    """
    return Coin(_PLACES).text(nanos)
