"""What rows of Google's export cost by the price list, where the export has no ``cost_at_list``: price x quantity, exactly.

Here belongs which price a row has, by its SKU, region and time. What else a row says stands with the export's other columns.
"""

from functools import lru_cache

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from allocation.times import milliseconds
from billing_adapters.base import PriceOptions
from billing_adapters.gcp_price_cache import COMPUTE_ENGINE, PriceList, price_list
from billing_adapters.row_batches import RowBatch, decimal_texts

QUANTITY, SKU, REGION, SERVICE, COST = "usage.amount_in_pricing_units", "sku.id", "location.region", "service.id", "cost"
COLUMNS = (QUANTITY, SKU, REGION, SERVICE, COST, "usage_start_time", "currency")
"""The columns that are read of a row."""
_EVERYWHERE = "global"
_QUANTITIES = pa.decimal256(50, 30)
_PRICES = pa.decimal256(19, 9)
_NUMBER = r"^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,2})?$"


@lru_cache(maxsize=2)
def kept_prices(options: PriceOptions) -> PriceList:
    """The price list, asked for once a run, whatever the number of batches."""
    return price_list(options)


def list_amounts(batch: RowBatch, prices: PriceList) -> pa.Array:
    """The list cost of each row as a decimal text, null where no price is known.

    The price is that of the row's SKU in its region (else everywhere) at the start of its usage; before the first known version
    the first one's. Of a SKU with several tiers it is the first tier that costs anything, as one row does not say how much the
    month had. A row of another service than Compute Engine, of which the list knows nothing, is taken at its cost.

    Raises:
        AdapterError: a row is in another currency than the list, or has a quantity of more than 30 decimals.
    """
    currency = batch.required("currency")
    same = pc.equal(currency, prices.currency)
    if not pc.all(same).as_py():
        index = pc.index(same, False).as_py()
        problem = f"the row is in {currency[index].as_py()}, and the list prices of cost: list are in {prices.currency}"
        raise batch.error(index, problem, "Set prices.currency.")
    amounts = decimal_texts(pc.multiply(_quantities(batch), _prices_of(batch, prices)))
    foreign = pc.not_equal(batch.required(SERVICE), COMPUTE_ENGINE)
    return pc.if_else(foreign, pc.cast(batch.amounts(COST)[COST], pa.string()), amounts)


def _quantities(batch: RowBatch) -> pa.Array:
    """The quantities as they stand, exactly; null where a row has none."""
    texts = pc.cast(batch.amounts(QUANTITY)[QUANTITY], pa.string())
    wrong = pc.invert(pc.fill_null(pc.match_substring_regex(texts, _NUMBER), True))
    if pc.any(wrong).as_py():
        index = pc.index(wrong, True).as_py()
        raise batch.error(index, f"{QUANTITY}: {texts[index].as_py()!r} is no number", "Correct the export.")
    try:
        return pc.cast(texts, _QUANTITIES)
    except pa.ArrowInvalid as error:
        raise batch.error(
            0, f"{QUANTITY}: a number in these rows has too many digits ({error})", "Correct the export."
        ) from error


def _prices_of(batch: RowBatch, prices: PriceList) -> pa.Array:
    """Each row's price, null where there is none."""
    wanted = pd.DataFrame(
        {
            "sku_id": batch.text(SKU).to_pandas().astype("object").fillna(""),
            "region": batch.text(REGION).to_pandas().astype("object").fillna(_EVERYWHERE),
            "at_ms": milliseconds(batch.times("usage_start_time")),
        }
    )
    distinct = wanted.drop_duplicates(ignore_index=True)
    told = _versions(prices, set(distinct.sku_id))
    found = _latest(distinct, told)
    elsewhere = _latest(distinct.assign(region=_EVERYWHERE), told)
    distinct["nanos"] = np.where(found >= 0, found, elsewhere)
    nanos = wanted.merge(distinct, on=["sku_id", "region", "at_ms"], how="left").nanos.to_numpy(np.int64)
    units = pc.multiply(pc.cast(pa.array(nanos, mask=nanos < 0), pa.decimal256(19, 0)), pa.scalar(_NANO))
    return pc.cast(units, _PRICES)


_NANO = pa.scalar("0.000000001").cast(pa.decimal256(10, 9))


def _versions(prices: PriceList, skus: set[str]) -> pd.DataFrame:
    """The versions of these SKUs in order of time, one price each: of its tiers the first that costs anything."""
    rows = prices.table.filter(pc.is_in(prices.table["sku_id"], pa.array(sorted(skus), pa.string())))
    table = rows.select(["sku_id", "region", "tier_start", "price_nanos"]).to_pandas()
    table = table.assign(from_ms=milliseconds(rows["effective_from"]), free=table.price_nanos == 0)
    table = table.sort_values(["from_ms", "sku_id", "region", "free", "tier_start"])
    return table.drop_duplicates(["from_ms", "sku_id", "region"])[["sku_id", "region", "from_ms", "price_nanos"]]


def _latest(wanted: pd.DataFrame, told: pd.DataFrame) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """The price that holds at each time, else the first one; -1 where there is none."""
    key = ["sku_id", "region"]
    wanted, told = (table.astype(dict.fromkeys(key, "object")) for table in (wanted, told))
    asked = wanted[[*key, "at_ms"]].assign(place=np.arange(len(wanted))).sort_values("at_ms")
    found = pd.merge_asof(asked, told, left_on="at_ms", right_on="from_ms", by=key).sort_values("place")
    first = wanted[key].merge(told.drop_duplicates(key), on=key, how="left").price_nanos
    prices = found.price_nanos.reset_index(drop=True).astype("Int64").fillna(first.astype("Int64")).fillna(-1)
    nanos: np.ndarray[tuple[int], np.dtype[np.int64]] = prices.to_numpy(np.int64)
    return nanos
