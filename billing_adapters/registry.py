"""Kind of bill -> adapter, imported on use."""

from importlib import import_module

from allocation.errors import SettingsError, nearest
from billing_adapters.base import BillOptions, BillSource

_KINDS = {
    "focus": ("billing_adapters.focus", "FocusBill"),
    "aws-cur": ("billing_adapters.aws_cur", "AwsCurBill"),
    "aws-cur2": ("billing_adapters.aws_cur2", "AwsCur2Bill"),
    "gcp": ("billing_adapters.gcp_billing_export", "GcpBill"),
    "rate-card": ("billing_adapters.rate_files", "RateCardBill"),
}


def load_bill_source(kind: str, options: BillOptions) -> BillSource:
    """The source of that kind, or a ``SettingsError`` that names the kinds there are."""
    if kind not in _KINDS:
        raise SettingsError(f"unknown kind of bill {kind!r}; {nearest(kind, _KINDS)}")
    module, name = _KINDS[kind]
    source: BillSource = getattr(import_module(module), name)(options)
    return source
