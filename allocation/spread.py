"""Discounts and taxes that name no resource, over their account's GPU lines (R47, policy ``unattributed: spread``).

Each clock hour of such a line goes to the machines of that account by the size of what their lines cost in that hour. Where the
account has no GPU line in an hour, or only lines of 0, that hour stays outside by rule ``no_resource``.
"""

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from allocation import wide
from allocation.line_parts import cut_lines, divide_cuts, overlap_ms
from allocation.times import HOUR_MS

Int64 = npt.NDArray[np.int64]
CATEGORIES = ("Tax", "Credit", "Adjustment")
NEGATION = "SavingsPlanNegation"
"""What takes back the on-demand price of covered hours: spread, it would move money between lines."""
RULE = "no_resource"
_ACCOUNT = ["billing_account", "currency", "cost_metric"]


def is_spread(lines: pa.Table, homes: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Which lines are spread: a discount, tax or correction of some money that names no resource."""
    kind = pc.is_in(lines["charge_category"], value_set=pa.array(CATEGORIES))
    negation = pc.fill_null(pc.equal(lines["line_type"], NEGATION), False)
    wanted = pc.and_(pc.and_not(kind, negation), pc.not_equal(lines["cost_nanos"], 0))
    found: npt.NDArray[np.bool_] = wanted.to_numpy(zero_copy_only=False) & (homes.rule == RULE).to_numpy(np.bool_)
    return found


def spread_parts(lines: pa.Table, rows: Int64, gpu: pd.DataFrame, from_ms: int, until_ms: int) -> pd.DataFrame:
    """The day's parts of lines that are spread (columns ``line_parts.PARTS``).

    Args:
        lines: table ``line_items``.
        rows: those of its rows that are spread.
        gpu: the clock hours of all lines that are split (columns ``line_parts.PARTS``).
        from_ms: start of the window, ms.
        until_ms: its end, ms.
    """
    cuts = cut_lines(lines, rows, from_ms, until_ms, 0)
    asked = _of_account(lines, cuts).assign(cut=np.arange(len(cuts)))
    sizes = _sizes(_of_account(lines, gpu))
    named = asked[asked.sub_account.notna()].merge(sizes, on=[*_ACCOUNT, "sub_account", "hour"], suffixes=("", "_of_gpu"))
    whole = asked[asked.sub_account.isna()].drop(columns="sub_account")
    pairs = pd.concat([named, whole.merge(sizes, on=[*_ACCOUNT, "hour"], suffixes=("", "_of_gpu"))], ignore_index=True)
    pairs = pairs[overlap_ms(pairs.start_ms, pairs.end_ms, pairs.start_ms_of_gpu, pairs.end_ms_of_gpu) > 0]
    sums = pairs.groupby(["cut", "node_key", "cluster"], as_index=False)[["upper", "lower"]].sum()
    high, low = _as_wide(sums.upper.to_numpy(np.int64), sums.lower.to_numpy(np.int64))
    shares = sums.assign(weight_high=high, weight=low, rule=None)
    return divide_cuts(cuts, shares, RULE)


def _of_account(lines: pa.Table, parts: pd.DataFrame) -> pd.DataFrame:
    """Parts of lines with their clock hour, the account that pays them and the money that they are in."""
    told = lines.select([*_ACCOUNT, "sub_account"]).take(pa.array(parts.line.to_numpy(np.int64))).to_pandas()
    return pd.concat([parts.assign(hour=parts.start_ms // HOUR_MS).reset_index(drop=True), told], axis=1)


def _sizes(gpu: pd.DataFrame) -> pd.DataFrame:
    """What each machine's lines cost in each hour, without sign, in two halves so that sums of many do not wrap."""
    size = gpu.nanos.abs().to_numpy(np.int64)
    keys = [*_ACCOUNT, "sub_account", "hour", "node_key", "cluster", "start_ms", "end_ms"]
    halves = gpu[keys].assign(upper=size >> wide.HALF, lower=size & wide.HALF_MASK)
    return halves.groupby(keys, as_index=False, dropna=False)[["upper", "lower"]].sum()


def _as_wide(upper: Int64, lower: Int64) -> tuple[Int64, Int64]:
    """``upper * 2**31 + lower`` as wide numbers."""
    upper = upper + (lower >> wide.HALF)
    return upper >> wide.HALF, ((upper & wide.HALF_MASK) << wide.HALF) | (lower & wide.HALF_MASK)
