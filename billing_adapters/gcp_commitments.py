"""The fees of Google's commitments on the usage that they paid for, where the bill shows them as fees and credits.

Under the older model of spend-based commitments, and under resource-based ones, covered usage is credited at its own price, and
the commitment costs a fee elsewhere. ``effective`` gives the fees of a UTC day to that day's credits, by their size: a credit of
``c`` becomes ``c * (C - S) / C`` and a fee of ``f`` becomes ``f * (F - S) / F``, where C is the size of all credits, F of all
fees, and S the smaller of the two. So the day's money stays what was invoiced, and what exceeds the credits stays an unused
commitment. Under the newer model (credits ``FEE_UTILIZATION_OFFSET``) the bill does so itself, and nothing is changed.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from billing_adapters.lines import Cost, renamed, rounded

FEE = "commitment_fee"
"""Whether a row is the fee of a commitment that the bill does not offset: ``dollar`` (spend-based), ``resource``, or null."""
COVERING = {"committed_usage_discount_dollar_base": "dollar", "committed_usage_discount": "resource"}
"""Credits of covered usage, and the fees that pay for them."""
OFFSET = "FEE_UTILIZATION_OFFSET"

_RATIO_DIGITS = 30
_RATIO = pa.decimal256(_RATIO_DIGITS + 1, _RATIO_DIGITS)
_REST = pa.decimal128(22, 21)
_NANO = pa.scalar("0.000000001").cast(pa.decimal128(10, 9))
_RESIDUE = pa.decimal128(37, 30)


@dataclass(frozen=True)
class Money:
    """What rows or credits cost on the invoice, the commitment that each is of (null: none), and what groups them."""

    cost: Cost
    commitment: pa.Array
    known: Mapping[str, pa.Array]


@dataclass(frozen=True)
class Commitments:
    """The days' fees and credits of a delivery. ``read`` goes through its fees and credits once more, where any is met."""

    read: Callable[[], Iterable[tuple[Money, Money]]]

    def fees(self, rows: Money) -> Cost:
        """The effective cost of rows: fees less what the day's credits bear."""
        return self._scaled(rows, "fees")

    def credits(self, rows: Money) -> Cost:
        """The effective cost of credits: those of covered usage less what the day's fees cost."""
        return self._scaled(rows, "credits")

    @cached_property
    def _sums(self) -> dict[str, tuple[int, int]]:
        """The size of all fees and of all credits by group, in nanos."""
        tables = [
            pa.table({"group": _groups(money, places), name: money.cost.nanos.take(places)})
            for pair in self.read()
            for name, money in zip(("fees", "credits"), pair, strict=True)
            if len(places := pc.indices_nonzero(pc.is_valid(money.commitment)))
        ]
        whole = pa.concat_tables(tables, promote_options="default")
        for name in ("fees", "credits"):
            if name not in whole.column_names:
                whole = whole.append_column(name, pa.nulls(len(whole), pa.int64()))
        sums = whole.group_by("group").aggregate([("fees", "sum"), ("credits", "sum")]).to_pylist()
        return {one["group"]: (max(0, one["fees_sum"] or 0), max(0, -(one["credits_sum"] or 0))) for one in sums}

    def _scaled(self, money: Money, which: str) -> Cost:
        places = pc.indices_nonzero(pc.is_valid(money.commitment))
        if not len(places):
            return money.cost
        groups = _groups(money, places).dictionary_encode()
        ratios = pa.array([_ratio(*self._sums[group], which) for group in groups.dictionary.to_pylist()]).cast(_RATIO)
        few = _times(Cost(money.cost.nanos.take(places), money.cost.residue.take(places)), ratios.take(groups.indices))
        mask = pc.is_valid(money.commitment)
        return Cost(*(pc.replace_with_mask(old, mask, new) for old, new in zip(money.cost, few, strict=True)))


def commitments_of_credits(types: pa.Array) -> pa.Array:
    """The commitment that each credit is of, by its type; null for other credits."""
    return renamed(types, COVERING)


def _groups(money: Money, places: pa.Array) -> pa.Array:
    """A text for each of these rows: commitment, account, currency, day, and for resource-based ones the region."""
    kind = money.commitment.take(places)
    texts = {name: pc.cast(money.known[name].take(places), pa.string()) for name in ("billing_account", "currency", "region")}
    region = pc.if_else(pc.equal(kind, "resource"), pc.fill_null(texts["region"], ""), "")
    day = pc.strftime(money.known["charge_period_start"].take(places), "%Y-%m-%d")
    return pc.binary_join_element_wise(kind, texts["billing_account"], texts["currency"], region, day, "\t")


def _ratio(fees: int, given: int, which: str) -> str:
    """What stays of the fees, or of the credits, as a decimal text: both lose the smaller of the two."""
    size = fees if which == "fees" else given
    stays = size - min(fees, given)
    if not size:
        return "1"
    digits = stays * 10**_RATIO_DIGITS // size
    return f"{digits // 10**_RATIO_DIGITS}.{digits % 10**_RATIO_DIGITS:0{_RATIO_DIGITS}d}"


def _times(cost: Cost, ratios: pa.Array) -> Cost:
    """Each cost times its ratio; what lies beyond nanos, and beyond those as delivered, is its residue."""
    exact = pc.multiply(pc.cast(cost.nanos, pa.decimal256(19, 0)), ratios)
    whole = pc.round(exact, 0, "half_to_even")
    rest = pc.cast(pc.round(pc.subtract(exact, whole), 21, "half_to_even"), _REST)
    residue = pc.add(pc.cast(pc.multiply(rest, _NANO), _RESIDUE), pc.cast(cost.residue, _RESIDUE))
    return rounded(pc.cast(whole, pa.int64()), pc.cast(residue, _RESIDUE))
