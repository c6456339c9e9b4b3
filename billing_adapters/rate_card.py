"""A rate card: what machines cost while they exist, as people write it, and the charges that it means.

Here belongs what may stand in a card and the exact amount of each hour. How a card is read from YAML or CSV stands in
``rate_files``, which machine is charged for which hour in ``rate_lines``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from allocation.money import exact_product, parse_cost
from allocation.times import DAY_MS, HOUR_MS, from_ms, to_ms
from billing_adapters.currencies import ensure_currency
from billing_adapters.rate_hours import hour_nanos
from billing_adapters.times import to_times

Int64 = npt.NDArray[np.int64]
WHOLE = "rate"
"""The part of a rate that has one amount."""
EVER_MS, NEVER_MS = 0, to_ms(datetime(2200, 1, 1, tzinfo=UTC))
MOST_MONTHS = 600


def _amount(text: object) -> int:
    """Nanos of a decimal text; not negative, at most nine decimals."""
    nanos, residue = parse_cost(str(text))
    if nanos < 0:
        raise ValueError(f"{text} is negative; a rate card has no credits")
    if residue:
        raise ValueError(f"{text} has more than nine decimals, the smallest amount that is told apart")
    return nanos


def _number(text: object) -> str:
    _amount(text)
    return str(text).strip()


def _moment_ms(text: object) -> int:
    return to_ms(to_times(pa.array([str(text).strip()]))[0].as_py())


Amount = Annotated[int, BeforeValidator(_amount)]
Number = Annotated[str, BeforeValidator(_number)]
MomentMs = Annotated[int, BeforeValidator(_moment_ms)]
Per = Literal["node-hour", "gpu-hour", "month"]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Match(_Section):
    """Patterns like a shell's, of which all must fit, whatever the case."""

    node: str | None = None
    provider_id: str | None = None
    instance_type: str | None = None
    gpu_model: str | None = None

    @property
    def patterns(self) -> dict[str, str]:
        """The fields that are written."""
        return {name: str(told) for name, told in self if told is not None}

    @model_validator(mode="after")
    def _telling(self) -> "Match":
        if not self.patterns or not all(told.strip() for told in self.patterns.values()):
            raise ValueError("name at least one of node, provider_id, instance_type, gpu_model, each with a pattern")
        return self


class Part(_Section):
    """One part of a price, in exactly one of four ways: an amount, a depreciation, power, or a factor of another part."""

    amount: Amount | None = None
    list_amount: Amount | None = Field(default=None, alias="list")
    per: Per | None = None
    purchase: Amount | None = None
    residual: Amount | None = None
    start: MomentMs | None = None
    end: MomentMs | None = None
    months: int | None = Field(default=None, ge=1, le=MOST_MONTHS)
    kw: Number | None = None
    price_per_kwh: Number | None = None
    factor: Number | None = None
    of: str | None = None

    @model_validator(mode="after")
    def _one_way(self) -> "Part":
        told = {name for name, value in self if value is not None}
        ways = ({"amount", "per"}, {"purchase", "start"}, {"kw", "price_per_kwh"}, {"factor", "of"})
        more = ({"list_amount"}, {"residual", "end", "months"}, set[str](), set[str]())
        if not any(needed <= told <= needed | extra for needed, extra in zip(ways, more, strict=True)):
            raise ValueError(
                "a part says `amount` and `per` (node-hour, gpu-hour or month), or `purchase`, `start` and `months` or `end`, "
                "or `kw` and `price_per_kwh`, or `factor` and `of`; nothing else beside"
            )
        return self if self.purchase is None else self._depreciation(self.purchase)

    def _depreciation(self, purchase: int) -> "Part":
        if (self.months is None) == (self.end is None):
            raise ValueError("a depreciation lasts for `months`, or until `end`: say one of them")
        if (self.residual or 0) > purchase:
            raise ValueError("`residual` is more than `purchase`")
        if self.period[0] % HOUR_MS or self.period[1] % HOUR_MS or self.period[0] >= self.period[1]:
            raise ValueError("a depreciation starts and ends on the hour, and ends after its start")
        return self

    @property
    def period(self) -> tuple[int, int]:
        """Of a depreciation: its start and end in ms."""
        start = self.start or 0
        return start, _months_later(start, self.months) if self.months else (self.end or 0)


def _months_later(start_ms: int, months: int) -> int:
    """The same moment so many calendar months later; the last day of a shorter month where it has no such day."""
    start = from_ms(start_ms)
    number = start.year * 12 + start.month - 1 + months
    first = datetime(number // 12, number % 12 + 1, 1, tzinfo=UTC)
    last = (date((number + 1) // 12, (number + 1) % 12 + 1, 1) - first.date()).days
    return to_ms(first) + (min(start.day, last) - 1) * DAY_MS + start_ms % DAY_MS


class Rate(_Section):
    """What some machines cost: one amount, or parts."""

    name: str = Field(min_length=1)
    match: Match
    cluster: str | None = None
    per: Per | None = None
    amount: Amount | None = None
    list_amount: Amount | None = Field(default=None, alias="list")
    price: Literal["gcp-list"] | None = None
    parts: dict[str, Part] = Field(default_factory=dict)
    valid_from: MomentMs = Field(default=EVER_MS, alias="from")
    valid_until: MomentMs = Field(default=NEVER_MS, alias="until")

    @model_validator(mode="after")
    def _complete(self) -> "Rate":
        if self.price is not None and (self.amount is not None or self.parts or self.per not in (None, "node-hour")):
            raise ValueError(f"the rate {self.name!r}: `price` is that of a node-hour and stands alone")
        if self.price is None and (self.amount is None) == (not self.parts):
            raise ValueError(f"the rate {self.name!r} needs an `amount`, or `parts`, and not both")
        if self.price is None and (self.amount is None) != (self.per is None):
            raise ValueError(f"the rate {self.name!r}: `amount` and `per` (node-hour, gpu-hour or month) go together")
        if self.parts and self.list_amount is not None:
            raise ValueError(f"the rate {self.name!r}: `list` belongs to its parts")
        if self.valid_from >= self.valid_until:
            raise ValueError(f"the rate {self.name!r} ends (`until`) before it begins (`from`)")
        for name, part in self.parts.items():
            if part.of is not None and (part.of not in self.parts or self.parts[part.of].kw is None):
                raise ValueError(f"the part {name!r} is a factor of {part.of!r}, which is no part of this rate with `kw`")
        return self


class RateCard(_Section):
    """The whole card."""

    version: Literal["1"] = "1"
    currency: Annotated[str, AfterValidator(ensure_currency)]
    billing_account: str = "rate-card"
    provider: str = Field(default="onprem", pattern=r"^[a-z0-9][a-z0-9._-]*$")
    rates: list[Rate] = Field(min_length=1)

    @model_validator(mode="after")
    def _distinct(self) -> "RateCard":
        names = [rate.name for rate in self.rates]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two rates have the name {twice[0]!r}; lines are told apart by it")
        return self


@dataclass(frozen=True)
class Charge:
    """One amount for machines, valid in ``[from_ms, until_ms)``.

    ``row`` is the rate's place in the card. ``by_list``: the amount is the machine's list price and not told yet (see
    ``rate_prices``). ``only``: the keys of the machines that it is for, where it is not for all that fit.
    """

    rate: str
    part: str
    match: Mapping[str, str]
    cluster: str | None
    per: Literal["node-hour", "gpu-hour", "month", "period"]
    nanos: int
    list_nanos: int | None
    from_ms: int
    until_ms: int
    period: tuple[int, int] = (0, 0)
    row: int = 1
    by_list: bool = False
    only: frozenset[str] | None = None

    def hourly(self, hours_ms: Int64, nanos: int) -> Int64:
        """What each whole hour that starts at ``hours_ms`` costs a machine (or a GPU), nanos; exact over a month or period."""
        if self.per == "month":
            months = hours_ms.astype("datetime64[ms]").astype("datetime64[M]")
            first = months.astype("datetime64[ms]").astype(np.int64)
            after = (months + 1).astype("datetime64[ms]").astype(np.int64)
            whole = np.zeros(len(hours_ms), np.int64)
            for start, end in sorted(set(zip(first.tolist(), after.tolist(), strict=True))):
                mine = first == start
                whole[mine] = hour_nanos(nanos, (end - start) // HOUR_MS, (hours_ms[mine] - start) // HOUR_MS)
            return whole
        if self.per == "period":
            start, end = self.period
            inside = (hours_ms >= start) & (hours_ms < end)
            whole = np.zeros(len(hours_ms), np.int64)
            whole[inside] = hour_nanos(nanos, (end - start) // HOUR_MS, (hours_ms[inside] - start) // HOUR_MS)
            return whole
        return np.full(len(hours_ms), nanos, np.int64)


def charges_of(card: RateCard, rows: Mapping[tuple[str, str], int]) -> list[Charge]:
    """All charges of a card; ``rows``: where each rate's part stands in its file, counted from 1.

    Raises:
        ValueError: the product of a power part has more than nine decimals.
    """
    found = []
    for rate in card.rates:
        if rate.price is not None:
            place, span = rows[rate.name, WHOLE], (rate.valid_from, rate.valid_until)
            charge = Charge(
                rate.name, WHOLE, rate.match.patterns, rate.cluster, "node-hour", 0, 0, *span, row=place, by_list=True
            )
            found.append(charge)
            continue
        parts = rate.parts or {WHOLE: Part.model_construct(amount=rate.amount, list_amount=rate.list_amount, per=rate.per)}
        for name, part in parts.items():
            found.append(_charge(rate, name, part, rows[rate.name, name]))
    return found


def _charge(rate: Rate, name: str, part: Part, row: int) -> Charge:
    start, end = rate.valid_from, rate.valid_until
    if part.purchase is not None:
        first, last = part.period
        nanos, start, end = part.purchase - (part.residual or 0), max(start, first), min(end, last)
        return Charge(rate.name, name, rate.match.patterns, rate.cluster, "period", nanos, None, start, end, part.period, row)
    if part.per is not None and part.amount is not None:
        nanos, listed = part.amount, part.list_amount
        return Charge(rate.name, name, rate.match.patterns, rate.cluster, part.per, nanos, listed, start, end, row=row)
    power = part if part.of is None else rate.parts[part.of]
    try:
        nanos = _amount(exact_product(power.kw or "0", power.price_per_kwh or "0", part.factor or "1"))
    except ValueError as error:
        raise ValueError(f"the rate {rate.name!r}, part {name!r}: {error}") from None
    return Charge(rate.name, name, rate.match.patterns, rate.cluster, "node-hour", nanos, None, start, end, row=row)
