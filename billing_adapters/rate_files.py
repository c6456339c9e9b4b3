"""A rate card in a YAML or CSV file: found, fingerprinted, read into charges.

Numbers are read from their text and never pass through binary fractions. Here does not belong what a card means (``rate_card``).
"""

import csv
import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
import yaml
from pydantic import BaseModel, ValidationError

from allocation.errors import AdapterError, nearest
from billing_adapters.base import BillOptions, Delivery, ensure_sayable
from billing_adapters.files import fingerprint, open_bill
from billing_adapters.gcp_machines import MachinePrices
from billing_adapters.gcp_price_cache import price_list
from billing_adapters.rate_card import WHOLE, Charge, Match, Part, Rate, RateCard, charges_of

_SAYABLE = ("billed", "effective", "contracted", "list")
_SUFFIXES = (".yaml", ".yml", ".csv")
_MOST_BYTES = 64 << 20
_BY_LIST = b"gcp-list"
_OF_CARD = ("version", "currency", "billing_account", "provider")
_OF_MATCH = tuple(Match.model_fields)
_OF_PART = tuple(field.alias or name for name, field in Part.model_fields.items())
_OF_RATE = ("name", "cluster", "from", "until", "price")
_COLUMNS = (*_OF_CARD, *_OF_RATE, *_OF_MATCH, "part", *_OF_PART)
Rows = dict[tuple[str, str], int]


class RateCardBill:
    """The bill of machines that are owned or rented at a fixed price; its lines follow from the nodes (``rate_lines``)."""

    def __init__(self, options: BillOptions) -> None:
        ensure_sayable("rate-card", options, _SAYABLE)
        self.options = options
        self._files = open_bill(options)

    def discover(self) -> Sequence[Delivery]:
        """The card as it stands now. Other list prices are another delivery of a card that names them."""
        names = [f.name for f in self._files.list_files() if f.name.lower().endswith(_SUFFIXES)]
        if len(names) != 1:
            problem = f"a rate card is one file that ends in .yaml, .yml or .csv; here are {len(names)}"
            raise AdapterError(problem, file=self.options.path, remedy="Name the card's file in billing.path.")
        mark = fingerprint(self._files, names)
        if _BY_LIST in self._content(names[0]):
            mark = hashlib.sha256(f"{mark} {self.prices.price_id}".encode()).hexdigest()
        return [Delivery(mark, tuple(names))]

    @cached_property
    def prices(self) -> MachinePrices:
        """Google's list prices, for rates that say ``price: gcp-list``."""
        if self.options.prices is None:
            raise self._error("names list prices, and nobody says where they are kept")
        return MachinePrices(price_list(self.options.prices))

    def _content(self, name: str) -> bytes:
        with self._files.open(name) as stream:
            return stream.read(_MOST_BYTES)

    def parse(self, delivery: Delivery) -> Iterator[pa.Table]:
        """No lines: which there are depends on the nodes. The card itself is read, so that a wrong one is refused."""
        self.card(delivery)
        yield from ()

    def card(self, delivery: Delivery) -> tuple[RateCard, list[Charge]]:
        """The card and its charges.

        Raises:
            AdapterError: the card cannot be read for certain, or cannot say a cost that is asked for.
        """
        (name,) = delivery.files
        try:
            text = self._content(name).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise self._error(f"is not UTF-8 (byte {error.start})") from None
        told, rows = self._of_csv(text) if name.lower().endswith(".csv") else self._of_yaml(text)
        try:
            card = RateCard.model_validate(told)
            charges = charges_of(card, rows)
        except ValidationError as error:
            raise self._error("; ".join(_explain(e) for e in error.errors())) from None
        except ValueError as error:
            raise self._error(str(error)) from None
        self._check(card, charges)
        return card, charges

    def _check(self, card: RateCard, charges: Sequence[Charge]) -> None:
        wanted = self.options.currency
        if wanted is not None and card.currency != wanted:
            raise self._error(f"the card is in {card.currency}, but the billing entry says currency: {wanted}")
        if any(c.by_list for c in charges) and self.prices.prices.currency != card.currency:
            told = self.prices.prices.currency
            raise self._error(f"the card is in {card.currency} and the list prices are in {told}; set prices.currency")
        silent = [c for c in charges if c.list_nanos is None]
        if "list" in self.options.costs and silent:
            can = ", ".join(_SAYABLE[:-1])
            raise self._error(f"the rate {silent[0].rate!r} ({silent[0].part}) has no `list` price; the card can say {can}")

    def _of_yaml(self, text: str) -> tuple[dict[str, Any], Rows]:
        try:
            told = yaml.load(text, _Texts)  # noqa: S506
        except yaml.YAMLError as error:
            raise self._error(f"is no YAML: {' '.join(str(error).split())}") from None
        if not isinstance(told, dict):
            raise self._error("holds no rate card: it needs `currency` and `rates`")
        rows = {}
        rates = told.get("rates")
        for number, rate in enumerate(rates if isinstance(rates, list) else []):
            parts = rate.get("parts") if isinstance(rate, dict) else None
            for part in parts if isinstance(parts, dict) and parts else (WHOLE,):
                rows[str(rate.get("name") if isinstance(rate, dict) else ""), str(part)] = number + 1
        return told, rows

    def _of_csv(self, text: str) -> tuple[dict[str, Any], Rows]:
        reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        try:
            table = list(reader)
        except csv.Error as error:
            raise self._error(f"is no CSV: {error}", reader.line_num) from None
        for name in reader.fieldnames or ():
            if list(reader.fieldnames or ()).count(name) > 1:
                raise self._error(f"the column {name!r} stands twice")
            if name not in _COLUMNS:
                raise self._error(f"unknown column {name!r}; {nearest(name, _COLUMNS)}")
        if not table:
            raise self._error("holds no rates")
        card: dict[str, Any] = {}
        rates: dict[str, dict[str, Any]] = {}
        rows: Rows = {}
        for number, line in enumerate(table, 1):
            if None in line or None in line.values():
                raise self._error("the row has not as many cells as the header", number)
            cells = {name: cell.strip() for name, cell in line.items() if cell.strip()}
            self._merge(card, {c: cells[c] for c in _OF_CARD if c in cells}, number)
            self._rate(rates, cells, rows, number)
        return {**card, "rates": list(rates.values())}, rows

    def _rate(self, rates: dict[str, dict[str, Any]], cells: Mapping[str, str], rows: Rows, number: int) -> None:
        """Adds one row: a whole rate, or a part of one."""
        name, part = cells.get("name", ""), cells.get("part", WHOLE)
        if (name, part) in rows:
            raise self._error(f"the rate {name!r} ({part}) stands twice", number)
        rows[name, part] = number
        match = {c: cells[c] for c in _OF_MATCH if c in cells}
        shared = {c: cells[c] for c in _OF_RATE if c in cells} | ({"match": match} if match else {})
        rate = rates.setdefault(name, {})
        self._merge(rate, shared, number)
        told = {c: cells[c] for c in _OF_PART if c in cells}
        if "part" in cells:
            rate.setdefault("parts", {})[part] = told
        else:
            rate.update(told)

    def _merge(self, before: dict[str, Any], now: Mapping[str, Any], row: int) -> None:
        for name, value in now.items():
            if before.setdefault(name, value) != value:
                raise self._error(f"{name} is {value!r} here and {before[name]!r} in an earlier row", row)

    def _error(self, problem: str, row: int | None = None) -> AdapterError:
        return AdapterError(problem, file=self.options.path, row=row, remedy="Correct the rate card.")


class _Texts(yaml.BaseLoader):
    """Every scalar as its text; a key that stands twice is refused."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """A section as a dictionary."""
        keys = [key.value for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} stands twice", node.start_mark)
        return super().construct_mapping(node, deep)


def _explain(error: Mapping[str, Any]) -> str:
    place = ".".join(str(part + 1 if isinstance(part, int) else part) for part in error["loc"]) or "the card"
    if error["type"] == "extra_forbidden":
        return f"unknown key {error['loc'][-1]!r} at {place}; {nearest(str(error['loc'][-1]), _keys_at(error['loc'][:-1]))}"
    if error["type"] == "missing":
        return f"{place} is missing"
    return f"{place}: {str(error['msg']).removeprefix('Value error, ')}"


def _keys_at(place: Sequence[int | str]) -> list[str]:
    last = next((model for name, model in (("match", Match), ("parts", Part), ("rates", Rate)) if name in place), RateCard)
    model: type[BaseModel] = last
    return [field.alias or name for name, field in model.model_fields.items()]
