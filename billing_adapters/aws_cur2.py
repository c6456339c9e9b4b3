"""AWS CUR 2.0: a Data Export, or one file of it. What its rows mean is ``aws_lines``'s."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from billing_adapters.aws_costs import METRICS
from billing_adapters.aws_lines import aws_lines, tells_invoices
from billing_adapters.base import BillOptions, Delivery, ensure_sayable
from billing_adapters.data_exports import exported_deliveries
from billing_adapters.files import open_bill, single_file


class AwsCur2Bill:
    """A CUR 2.0 export: its folder or prefix (with ``data/`` and ``metadata/``), or one file."""

    def __init__(self, options: BillOptions) -> None:
        ensure_sayable("aws-cur2", options, METRICS)
        self._options = options
        self._store = open_bill(options)

    def discover(self) -> Sequence[Delivery]:
        """The newest delivery of each billing period by its manifest; a path that is one file is one delivery."""
        return single_file(self._store) or exported_deliveries(self._store)

    def parse(self, delivery: Delivery) -> Iterator[pa.Table]:
        """See ``base.BillSource``."""
        return aws_lines(self._store, self._options, delivery)

    def tells_invoices(self, delivery: Delivery) -> bool:
        """See ``base.TellsInvoices``."""
        return tells_invoices(self._store, delivery)
