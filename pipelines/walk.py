"""What a run has in hand: settings, store, owners, prices, and the engine that runs its shards.

Here does not belong any arrow of the walk (``stages``).
"""

from dataclasses import dataclass
from datetime import date
from functools import cached_property
from types import TracebackType
from typing import Self

from allocation.owners import Owners
from allocation.policy import FROM_LIST_PRICES, Policy
from billing_adapters.gcp_machines import MachinePrices
from pipelines.closing.books import Books, open_books
from pipelines.engines import ensure_usable, open_engine
from pipelines.engines.base import Engine
from pipelines.frugal import be_frugal
from pipelines.owner_settings import owners_of
from pipelines.prices import machine_prices
from pipelines.settings import Settings
from pipelines.steps import Watch, unwatched
from pipelines.storage import TableStore


@dataclass(frozen=True)
class Walk:
    """One run's settings, store and choices; ``booking_date``: that of its adjustments, None: today."""

    settings: Settings
    store: TableStore
    refetch: bool = False
    accept_less_metrics: bool = False
    watch: Watch = unwatched
    booking_date: date | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Ends what the engine has started."""
        if "engine" in self.__dict__:
            self.engine.close()

    @cached_property
    def engine(self) -> Engine:
        """What runs the shards, made when the first one is there."""
        return open_engine(self.settings.engine, self.store.root)

    @cached_property
    def books(self) -> Books:
        """Which months were closed when the run began."""
        return open_books(self.store)

    @property
    def policy(self) -> Policy:
        """The method's choices."""
        return self.settings.policy.policy()

    @cached_property
    def owners(self) -> Owners:
        """Who owns what; the mapping file is read once a run."""
        return owners_of(self.settings.owners)

    @cached_property
    def prices(self) -> MachinePrices:
        """Google's list prices, read once a run; asked for only where the policy needs them."""
        return machine_prices(self.settings)

    @property
    def prices_id(self) -> str:
        """A mark of the list prices by which machines are divided; empty where none are."""
        return self.prices.price_id if self.policy.chooses(FROM_LIST_PRICES) else ""


def open_store(settings: Settings) -> TableStore:
    """The tables of the configured output."""
    return TableStore(settings.output, endpoint_url=settings.storage.endpoint_url, region=settings.storage.region)


def open_walk(
    settings: Settings,
    *,
    refetch: bool = False,
    accept_less_metrics: bool = False,
    watch: Watch = unwatched,
    booking_date: date | None = None,
) -> Walk:
    """A run over the settings' store; a mapping file or an engine that cannot be used ends it before anything is fetched."""
    be_frugal()
    store = open_store(settings)
    walk = Walk(settings, store, refetch, accept_less_metrics, watch, booking_date)
    _ = walk.owners
    ensure_usable(settings.engine)
    return walk
