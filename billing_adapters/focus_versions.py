"""Which version of FOCUS a header is, and what another header looks like: by columns alone.

Here do not belong what a row means (``focus``) or which rows are split (``focus_scope``).
"""

from collections.abc import Collection, Iterator, Sequence

from allocation.errors import AdapterError
from billing_adapters.base import COST_METRICS

COST_COLUMNS = {metric: f"{metric.capitalize()}Cost" for metric in COST_METRICS}
MANDATORY = (
    "BillingAccountId",
    "BillingCurrency",
    "BillingPeriodStart",
    "ChargeCategory",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "ResourceId",
)
PROVIDER_COLUMNS = ("ServiceProviderName", "ProviderName", "HostProviderName")
"""The newest name first: 1.3 has all three, 1.4 has no ``ProviderName``."""
TOO_OLD = "0.5"
_OLD = ("ChargeType", "ChargeSubcategory", "UsageQuantity", "UsageUnit")
_NEW_IN = (
    ("1.4", ("InvoiceDetailId", "CommitmentProgramEligibilityDetails")),
    (
        "1.3",
        (
            "ServiceProviderName", "HostProviderName", "ContractApplied", "AllocatedMethodId", "AllocatedMethodDetails",
            "AllocatedResourceId", "AllocatedResourceName", "AllocatedTags",
        ),
    ),
    (
        "1.2",
        (
            "InvoiceId", "BillingAccountType", "SubAccountType", "PricingCurrency", "PricingCurrencyContractedUnitPrice",
            "PricingCurrencyEffectiveCost", "PricingCurrencyListUnitPrice",
        ),
    ),
    (
        "1.1",
        (
            "CapacityReservationId", "CapacityReservationStatus", "CommitmentDiscountQuantity", "CommitmentDiscountUnit",
            "ServiceSubcategory", "SkuMeter", "SkuPriceDetails",
        ),
    ),
)  # fmt: skip
"""The columns that each version brought, newest first. Source: the specification's columns by release."""
_GONE_IN_1_4 = ("ProviderName", "PublisherName")
_NO_KIND = "no kind reads it: switch on the export in FOCUS instead"
_OTHERS = (
    (("lineitem/unblendedcost", "identity/lineitemid", "bill/payeraccountid"), "an AWS CUR (legacy)", "use `kind: aws-cur`"),
    (("line_item_unblended_cost", "line_item_usage_type"), "an AWS CUR 2.0", "use `kind: aws-cur2`"),
    (("costinbillingcurrency", "pretaxcost", "metercategory"), "an Azure cost export (actual or amortized)", "use `kind: azure`"),
    (("sku.id", "usage_start_time", "cost_type", "service.description"), "a Google Cloud billing export", "use `kind: gcp`"),
    (("lineitem/referenceno", "cost/mycost"), "an Oracle Cloud cost report of its own format", _NO_KIND),
)


def focus_version(columns: Collection[str]) -> str | None:
    """The version whose columns these are: ``1.0`` to ``1.4``, ``0.5`` (and previews before 1.0), None for no FOCUS.

    An export may leave columns out, so the newest column there is tells; a header of common columns only is 1.0.

    >>> focus_version(["BilledCost", "ChargePeriodStart", "SkuMeter", "ProviderName"])
    '1.1'
    """
    known = {name.strip().lower() for name in columns}
    if "chargeperiodstart" not in known:
        return None
    if _any(known, _OLD):
        return TOO_OLD
    by_column = next((version for version, names in _NEW_IN if _any(known, names)), "1.0")
    if by_column == "1.3" and "serviceprovidername" in known and not _any(known, _GONE_IN_1_4):
        return "1.4"
    return by_column


def check_header(file: str, columns: Collection[str], costs: Sequence[str]) -> None:
    """Refuses a header that cannot be read: another format, FOCUS before 1.0, a cost or a mandatory column that is not there."""
    known = {name.strip().lower() for name in columns}
    there = ", ".join(sorted(columns))
    _refuse_others(file, known)
    if focus_version(columns) == TOO_OLD:
        problem = f"this is FOCUS {TOO_OLD} or a preview of 1.0 ({', '.join(n for n in _OLD if n.lower() in known)})"
        raise AdapterError(problem, file=file, remedy="Switch on the export in FOCUS 1.0 or later.")
    for metric in costs:
        _ensure_cost(file, known, metric, there)
    missing = list(_missing(known))
    if missing:
        problem = f"mandatory columns are missing: {', '.join(missing)}; columns: {there}"
        raise AdapterError(problem, file=file, remedy="Switch them on in the export (FOCUS, with resource ids).")


def _any(known: Collection[str], names: Sequence[str]) -> bool:
    return any(name.lower() in known for name in names)


def _refuse_others(file: str, known: Collection[str]) -> None:
    if "chargeperiodstart" in known:
        return
    for names, what, todo in _OTHERS:
        if _any(known, names):
            raise AdapterError(f"this is no FOCUS: it looks like {what}", file=file, remedy=f"{todo[0].upper()}{todo[1:]}.")


def _ensure_cost(file: str, known: Collection[str], metric: str, there: str) -> None:
    cost = COST_COLUMNS[metric]
    if cost.lower() in known:
        return
    possible = [m for m in COST_METRICS if COST_COLUMNS[m].lower() in known]
    says = f"it can say {', '.join(possible)}" if possible else "it has no cost column of FOCUS"
    raise AdapterError(f"the column {cost} (cost: {metric}) is missing; {says}; columns: {there}", file=file)


def _missing(known: Collection[str]) -> Iterator[str]:
    yield from (name for name in MANDATORY if name.lower() not in known)
    if not _any(known, PROVIDER_COLUMNS):
        yield f"{PROVIDER_COLUMNS[0]} (1.3 on) or {PROVIDER_COLUMNS[1]} (to 1.3)"
