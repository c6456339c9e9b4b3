"""The columns of Azure's cost exports that are read, and the one word that each has whatever its spelling.

Enterprise agreements, customer agreements, pay as you go and their versions name a column differently, in other cases, and in
the portal's language with the English name in brackets. What may stand beside its namesake has a name of its own here.
"""

import re
from collections.abc import Collection

from allocation.errors import AdapterError

COST = "CostInBillingCurrency"
DATE = "Date"
PERIOD_START, PERIOD_END = "BillingPeriodStartDate", "BillingPeriodEndDate"
CURRENCY, PRICING_CURRENCY = "BillingCurrency", "PricingCurrency"
QUANTITY, UNIT = "Quantity", "UnitOfMeasure"
EFFECTIVE_PRICE, LIST_PRICE, LIST_COST = "EffectivePrice", "PayGPrice", "PaygCostInBillingCurrency"
RESOURCE, INFO = "ResourceId", "AdditionalInfo"
SUBSCRIPTION, ACCOUNT = "SubscriptionId", "BillingAccountId"
CATEGORY, METER, METER_ID, SERVICE = "MeterCategory", "MeterName", "MeterId", "ConsumedService"
CHARGE, PRICING = "ChargeType", "PricingModel"
RESERVATION, BENEFIT = "ReservationId", "BenefitId"
REGION, LOCATION = "ResourceLocation", "Location"
INVOICE = "InvoiceId"

_MANDATORY = (COST, DATE, CATEGORY, RESOURCE, INFO)
_TELLING = (
    *_MANDATORY, PERIOD_START, PERIOD_END, CURRENCY, PRICING_CURRENCY, QUANTITY, UNIT, EFFECTIVE_PRICE, LIST_PRICE, LIST_COST,
    SUBSCRIPTION, ACCOUNT, METER, METER_ID, SERVICE, CHARGE, PRICING, RESERVATION, BENEFIT, REGION, LOCATION,
)  # fmt: skip
HASHED = tuple(sorted(_TELLING))
"""The columns whose content makes the id of a line: Azure gives none. A line keeps it when its invoice is issued."""
WANTED = (*_TELLING, INVOICE)

_SAME = {
    COST: ("Cost", "PreTaxCost"),
    DATE: ("UsageDateTime", "UsageDate"),
    PERIOD_START: ("BillingPeriodStart",),
    PERIOD_END: ("BillingPeriodEnd",),
    CURRENCY: ("BillingCurrencyCode", "Currency"),
    PRICING_CURRENCY: ("PricingCurrencyCode",),
    QUANTITY: ("UsageQuantity", "ConsumedQuantity"),
    EFFECTIVE_PRICE: ("ResourceRate",),
    RESOURCE: ("InstanceId", "InstanceName"),
    SUBSCRIPTION: ("SubscriptionGuid",),
}
_WORDS = {other.lower(): name.lower() for name, others in _SAME.items() for other in others}
_BRACKETED = re.compile(r".*\(\s*([A-Za-z0-9 ]+?)\s*\)")

_PRICES = {"list": (LIST_PRICE, QUANTITY), "contracted": (EFFECTIVE_PRICE, QUANTITY)}


def one_word(name: str) -> str:
    """A column's name in lower case: equal for all its spellings.

    >>> [one_word(n) for n in ("Abonnement-GUID (SubscriptionGuid)", "preTaxCost", "Cost", "billingCurrency", "Meter Category")]
    ['subscriptionid', 'costinbillingcurrency', 'costinbillingcurrency', 'billingcurrency', 'metercategory']
    """
    bracketed = _BRACKETED.fullmatch(name.strip())
    word = (bracketed[1] if bracketed else name).strip().lower().replace(" ", "").replace("_", "")
    return _WORDS.get(word, word)


def ensure_readable(file: str, header: Collection[str], costs: Collection[str], currency: str | None) -> None:
    """Refuses a file whose header lacks what its lines need, naming what is there and what to switch on.

    Args:
        file: its name, for the message.
        header: its columns as they stand there.
        costs: the metrics that are asked for.
        currency: what the billing entry says, for files that have no column of it.
    """
    there = {one_word(name) for name in header}
    named = f"columns: {', '.join(sorted(header)) or 'none'}"
    missing = [_told(name) for name in _MANDATORY if name.lower() not in there]
    if ACCOUNT.lower() not in there and SUBSCRIPTION.lower() not in there:
        missing.append(_told(SUBSCRIPTION))
    if missing:
        problem = f"this is no Azure cost export: mandatory columns are missing: {', '.join(missing)}; {named}"
        kinds = "Cost and usage details, actual, amortized or FOCUS"
        raise AdapterError(problem, file=file, remedy=f"Point billing.path at an export of {kinds}, and leave its columns in.")
    if CURRENCY.lower() not in there and currency is None:
        problem = f"no column says the currency ({_told(CURRENCY)}); {named}"
        raise AdapterError(problem, file=file, remedy="Say it in the billing entry (currency: EUR), or export the column.")
    for metric in costs:
        _ensure_price(file, there, metric, named)


def _ensure_price(file: str, there: Collection[str], metric: str, named: str) -> None:
    if _has_price(there, metric):
        return
    lacking = " and ".join(_told(name) for name in _PRICES[metric] if name.lower() not in there)
    possible = [m for m in ("billed", "contracted", "list") if _has_price(there, m)]
    says = f"it can say {', '.join(possible)}, and effective where it is of type AmortizedCost"
    problem = f"cost: {metric} needs {lacking}, which is missing; {says}; {named}"
    raise AdapterError(problem, file=file, remedy="Change billing.cost, or export the column.")


def _has_price(there: Collection[str], metric: str) -> bool:
    product = all(name.lower() in there for name in _PRICES.get(metric, ()))
    return product or (metric == "list" and LIST_COST.lower() in there)


def _told(name: str) -> str:
    others = _SAME.get(name, ())
    return f"{name} (or {', '.join(others)})" if others else name
