"""Google's Cloud Catalog: the list prices of Compute Engine as they are told now, one row a SKU, region, time and tier.

Here belongs the call and what its answer means; the SDK is imported when prices are fetched. Where prices are kept, and which
version holds when, stands in ``gcp_price_cache``.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from urllib.parse import urlsplit

import pyarrow as pa

from allocation.errors import AdapterError, MissingExtraError, SourceUnavailableError
from allocation.money import LARGEST_NANOS
from billing_adapters.base import PriceOptions
from billing_adapters.gcp_price_cache import COMPUTE_ENGINE, SKUS

try:
    import grpc
    from google.api_core import exceptions, retry
    from google.api_core.client_options import ClientOptions
    from google.auth.exceptions import GoogleAuthError
    from google.cloud.billing_v1 import CloudCatalogClient, ListSkusRequest, ListSkusResponse
    from google.cloud.billing_v1.services.cloud_catalog.transports import CloudCatalogGrpcTransport
    from google.cloud.billing_v1.types import Sku
    from google.type.money_pb2 import Money
except ImportError as error:
    raise MissingExtraError("google-cloud-billing", "gcp") from error

PAGE_SIZE = 5000
SETTING = "prices"
_REMEDY = {
    "PermissionDenied": "Switch on the Cloud Billing API for the project, or give an API key (prices.api_key).",
    "Forbidden": "Switch on the Cloud Billing API for the project, or give an API key (prices.api_key).",
    "Unauthenticated": "Sign in (gcloud auth application-default login), or give an API key (prices.api_key).",
    "InvalidArgument": "Check prices.currency and prices.api_key.",
    "ResourceExhausted": "The project's quota of the Cloud Billing API is used up; try again later.",
}


def fetch_skus(options: PriceOptions) -> pa.Table:
    """All prices of Compute Engine that stand now (schema ``SKUS``).

    Raises:
        SourceUnavailableError: the catalog cannot be reached, or refuses; nothing that was read so far is used.
        AdapterError: the answer cannot be read for certain.
    """
    again = retry.Retry(retry.if_exception_type(exceptions.ServiceUnavailable), initial=0.2, timeout=options.patience_s)
    request = ListSkusRequest(parent=f"services/{COMPUTE_ENGINE}", currency_code=options.currency, page_size=PAGE_SIZE)
    columns: dict[str, list[object]] = {name: [] for name in SKUS.names}
    try:
        pages = _client(options).list_skus(request, retry=again).pages
        for page in pages:
            for row in _rows(ListSkusResponse.pb(page).skus, options):
                for name, value in zip(SKUS.names, row, strict=True):
                    columns[name].append(value)
    except (exceptions.GoogleAPIError, GoogleAuthError) as error:
        raise _unavailable(error, options) from error
    if not columns["sku_id"]:
        raise AdapterError("the catalog told no prices", file=_place(options), remedy="Try again later.")
    return pa.table(columns, schema=SKUS)


def _client(options: PriceOptions) -> CloudCatalogClient:
    """A client with the SDK's own credentials or an API key; without any where the URL is plain http (a test server)."""
    url = urlsplit(options.endpoint_url or "")
    if url.scheme == "http":
        channel = grpc.insecure_channel(url.netloc, options=[("grpc.max_receive_message_length", -1)])
        return CloudCatalogClient(transport=CloudCatalogGrpcTransport(channel=channel))
    return CloudCatalogClient(client_options=ClientOptions(api_endpoint=url.netloc or None, api_key=options.api_key))


def _place(options: PriceOptions) -> str:
    return f"{options.endpoint_url or 'https://cloudbilling.googleapis.com'}/v1/services/{COMPUTE_ENGINE}/skus"


def _unavailable(error: Exception, options: PriceOptions) -> SourceUnavailableError:
    """The same as one clear line. What hides behind a retry that ran out is its last cause."""
    cause = getattr(error, "cause", None) or error
    kind, told = type(cause).__name__, " ".join(str(getattr(cause, "message", "") or cause).split())
    remedy = _REMEDY.get(kind, "Check the network and the credentials.")
    return SourceUnavailableError(
        _place(options), f"the price list cannot be read: {kind}: {told}", setting=SETTING, remedy=remedy
    )


def _rows(skus: Iterable[Sku], options: PriceOptions) -> Iterator[tuple[object, ...]]:
    """The rows of one page, in the order of ``SKUS``."""
    for sku in skus:
        category = sku.category
        named = sku.sku_id, sku.description, category.resource_family, category.resource_group, category.usage_type
        for info in sku.pricing_info:
            stamp, expression = info.effective_time, info.pricing_expression
            moment = datetime.fromtimestamp(stamp.seconds, UTC).replace(microsecond=stamp.nanos // 1000)
            for tier in expression.tiered_rates:
                told = expression.usage_unit, tier.start_usage_amount, tier.unit_price.currency_code
                nanos = _nanos(sku.sku_id, tier.unit_price, options)
                for region in sku.service_regions:
                    yield *named, region, moment, *told, nanos


def _nanos(sku_id: str, price: Money, options: PriceOptions) -> int:
    """Units and nanos as whole nanos."""
    nanos = int(price.units) * 10**9 + int(price.nanos)
    if not 0 <= nanos <= LARGEST_NANOS:
        problem = f"the SKU {sku_id} costs {price.units} units and {price.nanos} nanos, which is no price"
        raise AdapterError(problem, file=_place(options), remedy="Report it to Google.")
    if price.currency_code != options.currency:
        problem = f"the SKU {sku_id} is priced in {price.currency_code!r} where {options.currency} was asked for"
        raise AdapterError(problem, file=_place(options), remedy="Change prices.currency.")
    return nanos
