"""Azure's cost exports: actual and amortized costs in their own columns, and FOCUS.

What their rows mean is ``azure_lines``' and ``focus_lines``'; which files count is ``azure_exports``'.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from billing_adapters.azure_costs import FOCUS, ensure_dataset
from billing_adapters.azure_exports import azure_deliveries
from billing_adapters.azure_lines import azure_lines, tells_invoices
from billing_adapters.azure_manifests import counted, rows_told
from billing_adapters.base import BillOptions, Delivery
from billing_adapters.files import open_bill
from billing_adapters.focus_lines import focus_lines
from billing_adapters.focus_lines import tells_invoices as focus_tells_invoices
from billing_adapters.focus_versions import focus_version
from billing_adapters.readers import header_of


class AzureBill:
    """An export's own folder (its months' folders lie in it), a folder of files, or one file."""

    def __init__(self, options: BillOptions) -> None:
        self._options = options
        self._store = open_bill(options)

    def discover(self) -> Sequence[Delivery]:
        """The newest complete run of each month; an export of another type than the costs ask for is refused."""
        found = azure_deliveries(self._store)
        for delivery in found:
            if not self._is_focus(delivery):
                place = delivery.detail.get("manifest", self._store.url)
                ensure_dataset(delivery.detail.get("type"), self._options.costs, place)
        return found

    def parse(self, delivery: Delivery) -> Iterator[pa.Table]:
        """See ``base.BillSource``. The rows of each file are counted against the manifest's."""
        lines = focus_lines if self._is_focus(delivery) else azure_lines
        for name in delivery.files:
            yield from counted(name, lines(self._store, self._options, delivery, name), rows_told(delivery))

    def format_of(self, delivery: Delivery) -> str:
        """The export's type, where it is told, and the run it is of, for messages."""
        told = delivery.detail.get("type")
        if self._is_focus(delivery):
            told = f"FOCUS {focus_version(header_of(self._store, delivery.files[0]))}" if delivery.files else FOCUS
        run = delivery.detail.get("manifest", "").rpartition("/")[0]
        return f"{told or 'an export whose type nothing tells'}{f', run {run}' if run else ''}"

    def tells_invoices(self, delivery: Delivery) -> bool:
        """See ``base.TellsInvoices``."""
        told = focus_tells_invoices if self._is_focus(delivery) else tells_invoices
        return told(self._store, delivery)

    def _is_focus(self, delivery: Delivery) -> bool:
        """By the manifest's type, else by the first file's header."""
        told = delivery.detail.get("type")
        if told is not None:
            return told.lower() == FOCUS.lower()
        return bool(delivery.files) and focus_version(header_of(self._store, delivery.files[0])) is not None
