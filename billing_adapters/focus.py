"""Bills in FOCUS: which files a delivery has. What their rows mean is ``focus_lines``'.

A delivery is one file, or all files of a folder or prefix; where these lie in the layout of AWS Data Exports or of Azure's
exports, its manifests say which files count.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from allocation.errors import AdapterError
from billing_adapters.azure_exports import azure_deliveries, has_runs
from billing_adapters.azure_manifests import counted, rows_told
from billing_adapters.base import BillOptions, Delivery
from billing_adapters.data_exports import exported_deliveries, has_manifests
from billing_adapters.files import DATA_SUFFIXES, fingerprint, is_data, open_bill
from billing_adapters.focus_lines import focus_lines, tells_invoices
from billing_adapters.focus_versions import check_header, focus_version
from billing_adapters.readers import header_of


class FocusBill:
    """A bill in FOCUS: one file, a folder or a prefix of a bucket."""

    def __init__(self, options: BillOptions) -> None:
        self._options = options
        self._store = open_bill(options)

    def discover(self) -> Sequence[Delivery]:
        """All files as one delivery, or one delivery per billing period where manifests name the files."""
        found = self._store.list_files()
        if has_manifests(found):
            return exported_deliveries(self._store)
        if has_runs(self._store, found):
            return azure_deliveries(self._store)
        names = tuple(f.name for f in found if is_data(f))
        if not names:
            wanted = ", ".join(DATA_SUFFIXES)
            raise AdapterError(
                f"no bill is there (a file that ends in {wanted})", file=self._store.url, remedy="Check billing.path."
            )
        return [Delivery(fingerprint(self._store, names), names)]

    def parse(self, delivery: Delivery) -> Iterator[pa.Table]:
        """See ``base.BillSource``."""
        for name in delivery.files:
            yield from counted(name, focus_lines(self._store, self._options, delivery, name), rows_told(delivery))

    def format_of(self, delivery: Delivery) -> str:
        """The version of the delivery's first file, by its header, for messages."""
        header = header_of(self._store, delivery.files[0])
        check_header(delivery.files[0], header, self._options.costs)
        return f"FOCUS {focus_version(header)}"

    def tells_invoices(self, delivery: Delivery) -> bool:
        """See ``base.TellsInvoices``."""
        return tells_invoices(self._store, delivery)
