"""Google's detailed billing export, as files that BigQuery wrote: Parquet, JSON lines or CSV."""

from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa

from allocation.errors import AdapterError
from billing_adapters.base import BillOptions, Delivery, ensure_sayable
from billing_adapters.files import DATA_SUFFIXES, fingerprint, is_data, open_bill
from billing_adapters.gcp_columns import METRICS, MONEY, WANTED, check_header
from billing_adapters.gcp_lines import gcp_lines
from billing_adapters.gcp_rows import read_rows
from billing_adapters.json_batches import JSON_SUFFIXES
from billing_adapters.lines import Origin
from billing_adapters.row_batches import RowBatch

_SUFFIXES = (*DATA_SUFFIXES, *JSON_SUFFIXES)


class GcpBill:
    """Files of rows of the table ``gcp_billing_export_resource_v1_...``: one, a folder, or a prefix of a bucket."""

    def __init__(self, options: BillOptions) -> None:
        ensure_sayable("gcp", options, METRICS)
        self._options = options
        self._store = open_bill(options)

    def discover(self) -> Sequence[Delivery]:
        """All files as one delivery."""
        names = tuple(f.name for f in self._store.list_files() if is_data(f, _SUFFIXES))
        if not names:
            wanted = ", ".join(_SUFFIXES)
            problem = f"no bill is there (a file that ends in {wanted})"
            raise AdapterError(problem, file=self._store.url, remedy="Check billing.path.")
        return [Delivery(fingerprint(self._store, names), names)]

    def parse(self, delivery: Delivery) -> Iterator[pa.Table]:
        """See ``base.BillSource``."""
        origin = Origin(self._options, delivery.delivery_id)
        return gcp_lines(lambda: self._rows(delivery, WANTED), origin, lambda: self._rows(delivery, MONEY))

    def _rows(self, delivery: Delivery, wanted: Sequence[str]) -> Iterator[RowBatch]:
        for name in delivery.files:
            yield from read_rows(self._store, name, self._check_header, wanted)

    def _check_header(self, file: str, columns: Collection[str]) -> None:
        listed = self._options.prices is not None
        check_header(file, columns, [cost for cost in self._options.costs if cost != "list" or not listed])
