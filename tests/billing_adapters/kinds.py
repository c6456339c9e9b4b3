"""The kinds of bill that the behaviour suite asks, one entry each. No expectations here."""

import csv
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.billing_adapters.azure_runs import azure_bytes, write_run
from tests.billing_adapters.bills import cur_bytes, focus_bytes, write_export
from tests.billing_adapters.gcp_files import gcp_bytes, write_folder
from tests.billing_adapters.reports import legacy_bytes, write_report


@dataclass(frozen=True)
class Kind:
    """One kind: ``content`` makes a file of one row per set of changes, ``layout`` lays several files down as one delivery.

    The rest are columns of the format; ``unsayable`` is a metric that it has not, and ``sayable`` those it has.
    """

    name: str
    content: Callable[..., bytes]
    layout: Callable[[Path, Mapping[str, bytes]], Path]
    cost: str
    resource: str
    text: str
    start: str
    currency: str
    sayable: tuple[str, ...]
    unsayable: str

    def told(self, column: str) -> str:
        """How messages name a column: those of AWS' two reports both by its name in CUR 2.0."""
        return {
            "lineItem/UnblendedCost": "line_item_unblended_cost",
            "lineItem/UsageStartDate": "line_item_usage_start_date",
        }.get(column, column)

    def parquet(self, path: Path, *changes: Mapping[str, str]) -> Path:
        """The same rows as a Parquet file of texts."""
        rows = list(csv.DictReader(io.StringIO(self.content(*changes).decode(), newline="")))
        table = pa.table({name: pa.array([row[name] for row in rows], pa.string()) for name in rows[0]})
        pq.write_table(table, path)
        return path


KINDS = [
    Kind(
        "focus",
        focus_bytes,
        write_export,
        cost="BilledCost",
        resource="ResourceId",
        text="ServiceName",
        start="ChargePeriodStart",
        currency="BillingCurrency",
        sayable=("billed", "effective", "contracted", "list"),
        unsayable="",
    ),
    Kind(
        "aws-cur",
        legacy_bytes,
        write_report,
        cost="lineItem/UnblendedCost",
        resource="lineItem/ResourceId",
        text="lineItem/ProductCode",
        start="lineItem/UsageStartDate",
        currency="lineItem/CurrencyCode",
        sayable=("billed", "effective", "list"),
        unsayable="contracted",
    ),
    Kind(
        "aws-cur2",
        cur_bytes,
        write_export,
        cost="line_item_unblended_cost",
        resource="line_item_resource_id",
        text="line_item_product_code",
        start="line_item_usage_start_date",
        currency="line_item_currency_code",
        sayable=("billed", "effective", "list"),
        unsayable="contracted",
    ),
    Kind(
        "azure",
        azure_bytes,
        write_run,
        cost="CostInBillingCurrency",
        resource="ResourceId",
        text="MeterCategory",
        start="Date",
        currency="BillingCurrency",
        sayable=("billed", "contracted"),
        unsayable="list",
    ),
    Kind(
        "gcp",
        gcp_bytes,
        write_folder,
        cost="cost",
        resource="resource.name",
        text="service.description",
        start="usage_start_time",
        currency="currency",
        sayable=("billed", "effective", "list"),
        unsayable="contracted",
    ),
]
each_kind = pytest.mark.parametrize("kind", KINDS, ids=[k.name for k in KINDS])
