"""The columns of Google's detailed billing export that are read, and the one name that each has whatever its spelling.

A column of the BigQuery table may be a record: ``service.id`` is its field, whether a file has records (Parquet, JSON) or flat
columns (CSV: ``service.id`` or ``service_id``). Without ``.``, ``_`` and case all spellings are one word.
"""

from collections.abc import Collection, Sequence

from allocation.errors import AdapterError

COST = "cost"
LIST = "cost_at_list"
CONTRACTED = ("cost_at_effective_price_default", "cost_at_effective_price")
CREDITS = "credits"
SYSTEM_LABELS = "system_labels"
RESOURCE_NAME, GLOBAL_NAME = "resource.name", "resource.global_name"
START, END, MONTH = "usage_start_time", "usage_end_time", "invoice.month"
AMOUNT = "usage.amount"

ACCOUNTING = ("billing_account_id", "project.id", "currency")
PLACING = ("location.region", "location.location", "location.zone")
RULING = (
    "service.id", "service.description", "sku.description", "usage.unit", "usage.pricing_unit", "cost_type", "adjustment_info.id",
    "consumption_model.description",
)  # fmt: skip
"""Columns of which a bill has few different texts together, whatever its length."""
IDENTITY = (RESOURCE_NAME, GLOBAL_NAME, "project.id", "location.zone", "service.id")

_MANDATORY = (
    "billing_account_id", COST, "cost_type", "currency", MONTH, "project.id", "service.id", "sku.description", "sku.id",
    "usage.unit", END, START, CREDITS,
)  # fmt: skip
_PRICED = ("usage.amount_in_pricing_units",)
_ROW = {*_MANDATORY, *ACCOUNTING, *PLACING, *RULING, *IDENTITY, *_PRICED, AMOUNT, LIST, *CONTRACTED, "export_time"}
HASHED = tuple(sorted(_ROW - {CREDITS}))
"""The columns whose content makes the id of a line: the export has none of its own."""
WANTED = (*HASHED, CREDITS, SYSTEM_LABELS)

MONEY = (*ACCOUNTING, *PLACING, START, END, MONTH, "sku.description", COST, CREDITS)
"""What the fees and credits of commitments are summed by."""

_COSTS = {"list": (LIST,), "contracted": CONTRACTED}
METRICS = ("billed", "effective", "contracted", "list")
_OTHERS = (
    (("billedcost", "chargeperiodstart"), "FOCUS", "Use `kind: focus`."),
    (("listprice", "pricingunit", "skuid"), "the export of prices", "Point billing.path at the detailed usage cost export."),
    (("lineitemunblendedcost",), "an AWS report", "Use `kind: aws-cur` or `kind: aws-cur2`."),
    (("metercategory",), "an Azure cost export", "Use `kind: azure`."),
)


def one_word(name: str) -> str:
    """A column's name without case and separators: equal for all its spellings.

    >>> {one_word(n) for n in ("service.id", "service_id", "Service.ID")}
    {'serviceid'}
    """
    return name.strip().lower().replace(".", "").replace("_", "")


def check_header(file: str, columns: Collection[str], costs: Sequence[str]) -> None:
    """Refuses a header that cannot be read: another format, the standard export, a cost or a column that is not there.

    Args:
        file: for messages.
        columns: the names in the file, fields of records as ``record.field``.
        costs: the metrics that are asked for.
    """
    there = {one_word(name) for name in columns}
    missing = [name for name in _MANDATORY if one_word(name) not in there]
    if missing:
        _refuse_others(file, there)
    if not {one_word(RESOURCE_NAME), one_word(GLOBAL_NAME)} & there and not missing:
        raise standard_export(file)
    if missing:
        told = ", ".join(sorted(columns)) or "none"
        problem = f"mandatory columns are missing: {', '.join(missing)}; columns: {told}"
        raise AdapterError(problem, file=file, remedy="Export these columns too, from the table of the detailed usage cost.")
    for cost in costs:
        _ensure_cost(file, there, cost)


def standard_export(file: str, row: int | None = None) -> AdapterError:
    """What ends the run where a file has no resources."""
    problem = "this is the standard usage cost export: it has no resource, so no line names its machine"
    remedy = "Switch on 'Detailed usage cost' (gcp_billing_export_resource_v1_...) and read that table."
    return AdapterError(problem, file=file, row=row, remedy=remedy)


def has_column(there: Collection[str], metric: str) -> bool:
    """Whether a file with these columns (as words) can say the metric."""
    return metric not in _COSTS or any(one_word(name) in there for name in _COSTS[metric])


def _ensure_cost(file: str, there: Collection[str], metric: str) -> None:
    if has_column(there, metric):
        return
    possible = ", ".join(m for m in METRICS if has_column(there, m))
    problem = f"the column {_COSTS[metric][0]} (cost: {metric}) is missing; the file can say {possible}"
    raise AdapterError(problem, file=file, remedy="Export that column too, or change billing.cost.")


def _refuse_others(file: str, there: Collection[str]) -> None:
    for words, what, todo in _OTHERS:
        if all(word in there for word in words):
            raise AdapterError(f"this is no Google billing export: it looks like {what}", file=file, remedy=todo)
