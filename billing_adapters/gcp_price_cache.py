"""List prices kept on disk with the date of their fetch: fetched once, used offline after, and never forgotten.

The catalog tells the prices of now. What was kept stays, so that a day is priced by what held on it: a price that is the
same as the last one adds nothing, another one is a new version from its ``effective_from`` on. Here does not belong which price a
machine has (``gcp_machines``).
"""

import hashlib
import os
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property, lru_cache
from importlib import import_module
from pathlib import Path
from tempfile import NamedTemporaryFile

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from allocation.errors import AdapterError, SourceUnavailableError
from billing_adapters.base import PriceOptions

COMPUTE_ENGINE = "6F81-5844-456A"
"""The service that has these prices."""
SKUS = pa.schema(
    [
        ("sku_id", pa.string()),
        ("description", pa.string()),
        ("resource_family", pa.string()),
        ("resource_group", pa.string()),
        ("usage_type", pa.string()),
        ("region", pa.string()),
        ("effective_from", pa.timestamp("us", tz="UTC")),
        ("usage_unit", pa.string()),
        ("tier_start", pa.float64()),
        ("currency", pa.string()),
        ("price_nanos", pa.int64()),
    ]
)
"""A price is per ``usage_unit`` (``h``, ``GiBy.h``), from ``tier_start`` units a month on; it holds from ``effective_from``."""
_FETCHED, _FORMAT = b"fetched_at", b"format"
_VERSION = b"1"
_VERSION_OF = ["sku_id", "region", "effective_from"]
_ORDER = [(name, "ascending") for name in (*_VERSION_OF, "tier_start")]


@dataclass(frozen=True)
class PriceList:
    """Prices (schema ``SKUS``, in order of SKU, region, time and tier) and when they were fetched.

    ``outdated`` says why they are older than they should be; empty where they are not.
    """

    table: pa.Table
    fetched_at: datetime
    currency: str
    place: str
    outdated: str = field(default="", compare=False)

    @cached_property
    def price_id(self) -> str:
        """A hash of the prices themselves: the same after a fetch that told nothing new."""
        told = hashlib.sha256(self.currency.encode())
        for name in ("sku_id", "region", "effective_from", "usage_unit", "tier_start", "price_nanos"):
            told.update("\0".join(map(str, self.table[name].to_pylist())).encode())
        return told.hexdigest()[:32]


def price_list(options: PriceOptions) -> PriceList:
    """The prices that are kept, fetched anew where they are older than ``max_age_ms`` or not there.

    Raises:
        SourceUnavailableError: there are none and the catalog does not tell them.
        AdapterError: the kept file, or the answer, cannot be read for certain.
    """
    path = Path(options.cache) / f"gcp-compute-engine-{options.currency}.parquet"
    kept = _kept(path, options)
    if kept is not None and options.now - kept.fetched_at <= timedelta(milliseconds=options.max_age_ms):
        return kept
    try:
        told: pa.Table = import_module("billing_adapters.gcp_catalog").fetch_skus(options)
    except SourceUnavailableError as error:
        if kept is None:
            problem = f"{error.problem}; and no price list is kept at {path}"
            raise SourceUnavailableError(error.url, problem, setting=error.setting, remedy=error.remedy) from error
        return PriceList(kept.table, kept.fetched_at, kept.currency, kept.place, error.problem)
    table = told.sort_by(_ORDER) if kept is None else merged(kept.table, told)
    _write(path, table, options.now)
    return PriceList(table, options.now, options.currency, str(path))


def merged(kept: pa.Table, told: pa.Table) -> pa.Table:
    """What was kept, and of what is told now the versions that say anything new. A version is a SKU's in a region, all tiers."""
    old, new = (_versions(table) for table in (kept, told))
    last = old.groupby(["sku_id", "region"], sort=False).tail(1)[["sku_id", "region", "content"]]
    joined = new.merge(last, on=["sku_id", "region"], how="left", suffixes=("", "_last"))
    fresh = joined[joined.content != joined.content_last][_VERSION_OF]
    if not len(fresh):
        return kept
    corrected = old.reset_index().merge(fresh, on=_VERSION_OF)["index"]
    stays = _rows_of(kept, old.drop(index=corrected)[_VERSION_OF])
    return pa.concat_tables([stays, _rows_of(told, fresh)]).sort_by(_ORDER)


def _versions(table: pa.Table) -> pd.DataFrame:
    """One row a version in order of time, with ``content``: its tiers, prices and unit."""
    rows = table.sort_by(_ORDER).select([*_VERSION_OF, "tier_start", "price_nanos", "usage_unit"]).to_pandas()
    rows["content"] = rows.tier_start.astype(str) + " " + rows.price_nanos.astype(str) + " " + rows.usage_unit
    return rows.groupby(_VERSION_OF, as_index=False, sort=True).content.agg("|".join)


def _rows_of(table: pa.Table, versions: pd.DataFrame) -> pa.Table:
    """The table's rows of these versions."""
    wanted = table.select(_VERSION_OF).to_pandas().reset_index().merge(versions, on=_VERSION_OF)["index"]
    return table.take(pa.array(wanted.to_numpy()))


def _kept(path: Path, options: PriceOptions) -> PriceList | None:
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(path, str(error.strerror)) from error
    found = _read(path, stat.st_mtime_ns, stat.st_size)
    if found.currency != options.currency:
        raise _unusable(path, f"holds prices in {found.currency}")
    return found


@lru_cache(maxsize=4)
def _read(path: Path, mtime_ns: int, size: int) -> PriceList:  # noqa: ARG001
    """The file as it stood at that time."""
    try:
        table = pq.read_table(path)
        detail = table.schema.metadata or {}
        if detail.get(_FORMAT) != _VERSION:
            raise _unusable(path, "is no price list of this version")
        moment = datetime.fromisoformat(detail[_FETCHED].decode())
        table = table.select(SKUS.names).cast(SKUS)
    except (OSError, ValueError, KeyError) as error:
        raise _unusable(path, " ".join(str(error).split())) from error
    currencies = table["currency"].unique().to_pylist()
    if len(currencies) != 1 or moment.tzinfo is None:
        raise _unusable(path, f"holds prices in {len(currencies)} currencies, or no time of its fetch")
    return PriceList(table, moment, currencies[0], str(path))


def _unusable(path: Path, problem: str) -> AdapterError:
    return AdapterError(f"the kept price list {problem}", file=str(path), remedy="Delete the file; it is fetched again.")


def _write(path: Path, table: pa.Table, moment: datetime) -> None:
    """The whole file or none of it."""
    table = table.replace_schema_metadata({_FORMAT: _VERSION, _FETCHED: moment.isoformat().encode()})
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as stream:
            pq.write_table(table, stream)
        os.replace(stream.name, path)
    except OSError as error:
        problem = f"the price list cannot be kept: {error.strerror}"
        raise AdapterError(problem, file=str(path), remedy="Set prices.cache to a folder that can be written.") from error
