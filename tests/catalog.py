"""A price list of our own behind a gRPC server that speaks the Cloud Catalog's protocol; the real client talks to it."""

from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

import grpc
from google.cloud.billing_v1.types import (
    Category,
    ListSkusRequest,
    ListSkusResponse,
    PricingExpression,
    PricingInfo,
    Sku,
)
from google.type.money_pb2 import Money

SERVICE = "google.cloud.billing.v1.CloudCatalog"
A100 = ("039F-D0DA-4055", "Nvidia Tesla A100 GPU running in Americas", "GPU", "h", 2_933_908_000)
A2_CORE = ("2922-40C5-B19F", "A2 Instance Core running in Americas", "CPU", "h", 31_611_000)
A2_RAM = ("2390-DCAF-DA38", "A2 Instance Ram running in Americas", "RAM", "GiBy.h", 4_237_000)
REGIONS = ("us-central1", "us-east1")


def sku(
    of: tuple[str, str, str, str, int],
    since: datetime,
    *,
    regions: tuple[str, ...] = REGIONS,
    usage_type: str = "OnDemand",
    tiers: tuple[tuple[float, int], ...] = (),
    currency: str = "USD",
) -> Sku:
    """A SKU with one version of its price; ``tiers``: where each starts, and its nanos, instead of the one price."""
    sku_id, description, group, unit, nanos = of
    rates = [
        PricingExpression.TierRate(
            start_usage_amount=start, unit_price=Money(currency_code=currency, units=price // 10**9, nanos=price % 10**9)
        )
        for start, price in tiers or ((0.0, nanos),)
    ]
    info = PricingInfo(effective_time=since, pricing_expression=PricingExpression(usage_unit=unit, tiered_rates=rates))
    category = Category(
        service_display_name="Compute Engine", resource_family="Compute", resource_group=group, usage_type=usage_type
    )
    return Sku(sku_id=sku_id, description=description, category=category, service_regions=regions, pricing_info=[info])


@dataclass
class Catalog:
    """What the server tells: ``skus`` in pages of ``page_size``; ``fault`` instead, from the page ``fault_at`` on."""

    url: str = ""
    skus: list[Sku] = field(default_factory=list)
    page_size: int = 2
    fault: grpc.StatusCode | None = None
    fault_at: int = 0
    requests: list[ListSkusRequest] = field(default_factory=list)

    def list_skus(self, request: ListSkusRequest, context: grpc.ServicerContext) -> ListSkusResponse:
        """One page."""
        self.requests.append(request)
        first = int(request.page_token or 0)
        if self.fault is not None and first // self.page_size >= self.fault_at:
            context.abort(self.fault, "told to fail")
        after = first + self.page_size
        token = str(after) if after < len(self.skus) else ""
        return ListSkusResponse(skus=self.skus[first:after], next_page_token=token)


@contextmanager
def catalog_server() -> Iterator[Catalog]:
    """The server, on a free port of this machine."""
    catalog = Catalog()
    handler = grpc.unary_unary_rpc_method_handler(catalog.list_skus, ListSkusRequest.deserialize, ListSkusResponse.serialize)
    server = grpc.server(futures.ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"ListSkus": handler}),))
    catalog.url = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield catalog
    finally:
        server.stop(None).wait()
