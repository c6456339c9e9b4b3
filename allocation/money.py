"""The one door for money: decimal texts to whole nano-units, and back. Nothing else imports ``decimal`` or rounds.

A line must fit int64 nanos (about 9.2 billion units either way). It is rounded once, half to even, from its decimal text;
what is cut is kept as the residue.
"""

import re
from decimal import Context, Decimal, Inexact, localcontext

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from allocation import amounts
from allocation.text_buffers import text_buffers

LARGEST_NANOS = 2**63 - 1
RESIDUE_SCALE = 30
ANY_NUMBER = r"^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$"

Int64 = npt.NDArray[np.int64]


def nanos_to_decimal(nanos: int) -> Decimal:
    """Nano-units as an exact decimal with nine places.

    >>> nanos_to_decimal(-1)
    Decimal('-1E-9')
    """
    with localcontext(Context(prec=60)):
        return Decimal(nanos).scaleb(-9)


def decimal_to_nanos(amount: Decimal) -> int:
    """An amount of at most nine places, of any size, in nano-units.

    >>> decimal_to_nanos(Decimal("12345678901234567890123456789.000000001"))
    12345678901234567890123456789000000001
    """
    with localcontext(Context(prec=60, traps=[Inexact])):
        return int(amount.scaleb(9))


def sum_nanos(nanos: Int64) -> int:
    """The exact sum of nanos, never wrapped."""
    return decimal_to_nanos(exact_sum(nanos_column(nanos)))


def parse_cost(text: str) -> tuple[int, Decimal]:
    """One cost text as nanos and what rounding cut (text = nanos / 10^9 + residue, exactly).

    >>> parse_cost("1.0000000015")
    (1000000002, Decimal('-5E-10'))

    Raises:
        ValueError: no number, beyond int64 nanos, or more than 30 decimals.
    """
    with localcontext(Context(prec=400, traps=[Inexact])) as context:
        try:
            if not re.fullmatch(ANY_NUMBER, text.strip(), re.ASCII):
                raise ValueError(f"the cost {text!r} is no number")
            amount = Decimal(text)
            if amount.adjusted() >= 300:
                raise ValueError(f"the cost {text!r} is no number")
            scaled = amount.scaleb(9)
            context.traps[Inexact] = False
            nanos = int(scaled.to_integral_value(rounding="ROUND_HALF_EVEN"))
            context.traps[Inexact] = True
            residue = (scaled - nanos).scaleb(-9)
        except ArithmeticError:
            raise ValueError(f"the cost {text!r} is no number") from None
    if abs(nanos) > LARGEST_NANOS:
        raise ValueError(
            f"the cost {text} does not fit: a line holds at most 9223372036.854775807 units either way; "
            "split the line or bill in a larger unit"
        )
    if residue and -residue.as_tuple().exponent > RESIDUE_SCALE:  # type: ignore[operator]
        raise ValueError(f"the cost {text!r} has more than {RESIDUE_SCALE} decimals")
    return nanos, residue


def exact_product(*texts: str) -> str:
    """The exact product of decimal texts, as a text.

    >>> exact_product("10.2", "0.21")
    '2.142'

    Raises:
        ValueError: one is no number, or the product has more digits than an amount can have.
    """
    with localcontext(Context(prec=100, traps=[Inexact])) as context:
        try:
            result = Decimal(1)
            for text in texts:
                if not re.fullmatch(ANY_NUMBER, text.strip(), re.ASCII):
                    raise ValueError(f"{text!r} is no number")
                result = context.multiply(result, Decimal(text.strip()))
            return format(result, "f")
        except ArithmeticError:
            raise ValueError(f"the product of {', '.join(texts)} has too many digits") from None


class CostError(ValueError):
    """A cost text that cannot be read for certain; ``index`` is its place in the array."""

    def __init__(self, index: int, problem: str) -> None:
        self.index, self.problem = index, problem
        super().__init__(problem)


def to_nanos(values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Costs as ``int64`` nanos and ``decimal128(38, 30)`` residues; a double means the shortest decimal that reads as it.

    Raises:
        CostError: an empty, unreadable or too large cost, with its index.
    """
    if values.null_count:
        raise CostError(pc.index(pc.is_null(values), True).as_py(), "the cost is empty")
    nanos = np.empty(len(values), np.int64)
    words = np.zeros((len(values), 2), np.int64)
    odd = np.empty(len(values), np.bool_)
    if pa.types.is_floating(values.type):
        amounts.of_doubles(values.cast(pa.float64()).to_numpy(), nanos, words, odd)
        left = np.flatnonzero(odd)
        if len(left):
            _put_texts(left, values.take(pa.array(left)).cast(pa.string()), nanos, words)
    else:
        _put_texts(np.arange(len(values)), values.cast(pa.string()), nanos, words)
    residues = pa.Array.from_buffers(pa.decimal128(38, RESIDUE_SCALE), len(values), [None, pa.py_buffer(words)])
    return pa.array(nanos), residues


_FACTOR = pa.decimal128(35, 18)
_PRODUCT = pa.decimal256(70, 36)


def products_to_nanos(quantities: pa.Array, prices: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The exact products of decimal texts (or doubles) as ``to_nanos`` gives amounts; beyond 30 decimals they are rounded there.

    >>> [c.to_pylist() for c in products_to_nanos(pa.array(["0.32085564"]), pa.array(["0.0187"]))]
    [[6000000], [Decimal('4.68000000000000000000E-10')]]

    Raises:
        CostError: an empty or unreadable factor, one of more than 17 digits before or 18 behind the point, or a product too
            large for a line, with its index.
    """
    product = pc.cast(pc.multiply(_factors(quantities), _factors(prices)), _PRODUCT)
    whole = pc.round(product, 9, "half_to_even")
    too_large = pc.greater(pc.abs(whole), pa.scalar(nanos_to_decimal(LARGEST_NANOS)).cast(_PRODUCT))
    if pc.any(too_large).as_py():
        raise CostError(pc.index(too_large, True).as_py(), "the product of quantity and price does not fit into a line")
    residue = pc.cast(pc.round(pc.subtract(product, whole), RESIDUE_SCALE, "half_to_even"), pa.decimal128(38, RESIDUE_SCALE))
    return pa.array(column_nanos(pc.cast(whole, pa.decimal128(38, 9)))), residue


def _factors(values: pa.Array) -> pa.Array:
    texts = values if values.type == pa.string() else pc.cast(values, pa.string())
    if texts.null_count:
        raise CostError(pc.index(pc.is_null(texts), True).as_py(), "the quantity or the price is empty")
    readable = pc.match_substring_regex(texts, ANY_NUMBER)
    if not pc.all(readable).as_py():
        index = pc.index(readable, False).as_py()
        raise CostError(index, f"{texts[index].as_py()!r} is no number")
    try:
        return pc.cast(pc.cast(texts, _FACTOR), pa.decimal256(35, 18))
    except pa.ArrowInvalid:
        index = _first_unfit(texts)
        raise CostError(index, f"{texts[index].as_py()!r} has too many digits") from None


def _first_unfit(texts: pa.Array) -> int:
    """The place of the first text that is no factor, found by halving."""
    low, high = 0, len(texts)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            pc.cast(texts.slice(low, middle - low), _FACTOR)
        except pa.ArrowInvalid:
            high = middle
        else:
            low = middle
    return low


def _put_texts(places: npt.NDArray[np.intp], texts: pa.Array, nanos: Int64, words: Int64) -> None:
    """Writes what the texts mean to their places: compiled where they are plain, else one distinct text at a time."""
    offsets, data = text_buffers(texts)
    plain, finer = np.empty(len(texts), np.int64), np.zeros((len(texts), 2), np.int64)
    odd = np.empty(len(texts), np.bool_)
    amounts.of_texts(offsets, data, plain, finer, odd)
    nanos[places], words[places] = plain, finer
    left = np.flatnonzero(odd)
    if not len(left):
        return
    encoded = texts.take(pa.array(left)).dictionary_encode()
    codes = encoded.indices.to_numpy()
    values, residues = np.empty(len(encoded.dictionary), np.int64), np.empty(len(encoded.dictionary), object)
    for code, text in enumerate(encoded.dictionary.to_pylist()):
        try:
            values[code], residues[code] = parse_cost(text)
        except ValueError as error:
            problem = str(error) if text.strip() else "the cost is empty"
            raise CostError(int(places[left[np.flatnonzero(codes == code)[0]]]), problem) from error
    cut = pa.array(residues, pa.decimal128(38, RESIDUE_SCALE))
    nanos[places[left]] = values[codes]
    words[places[left]] = np.frombuffer(cut.buffers()[1], np.int64).reshape(-1, 2)[codes]


def nanos_column(nanos: Int64) -> pa.Array:
    """Nanos as ``decimal128(38, 9)`` without a detour over Python numbers."""
    words = np.empty((len(nanos), 2), dtype=np.int64)
    words[:, 0] = nanos
    words[:, 1] = nanos >> 63
    return pa.Array.from_buffers(pa.decimal128(38, 9), len(nanos), [None, pa.py_buffer(words)])


def per_unit(amounts: pa.ChunkedArray, units: pa.ChunkedArray, scale: int = 1) -> pa.ChunkedArray:
    """Amounts by ``scale`` units each, rounded half to even once to nine places; null where there are no units.

    >>> per_unit(pa.chunked_array([nanos_column(np.array([2 * 10**9]))]), pa.chunked_array([[3]])).to_pylist()
    [Decimal('0.666666667')]
    """
    places = 9 if pa.types.is_decimal(units.type) else 0
    whole = pc.cast(units, pa.decimal256(28 if places else 19, places))
    some = pc.if_else(pc.equal(whole, pa.scalar(0).cast(whole.type)), None, whole)
    scaled = pc.multiply(pc.cast(amounts, pa.decimal256(29, 9)), pa.scalar(Decimal(scale), pa.decimal256(len(str(scale)), 0)))
    return pc.round(pc.divide(scaled, some), 9, "half_to_even").cast(pa.decimal128(38, 9))


def column_nanos(column: pa.Array | pa.ChunkedArray) -> Int64:
    """``decimal128(38, 9)`` without nulls as nanos; the values must fit int64."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], pa.decimal128(38, 9))
    words = np.frombuffer(array.buffers()[1] or b"", dtype=np.int64)
    start = array.offset * 2
    low: Int64 = words[start : start + 2 * len(array) : 2].copy()
    return low


def exact_sum(column: pa.Array | pa.ChunkedArray) -> Decimal:
    """The exact sum of a decimal column; 0 where it is empty. Arrow widens to 38 digits, so nothing wraps."""
    total = pc.sum(column).as_py()
    return Decimal(0) if total is None else total


NO_RESIDUE = pa.scalar(Decimal(0), pa.decimal128(38, RESIDUE_SCALE))
"""Nothing cut."""
NO_MONEY = pa.scalar(Decimal(0), pa.decimal128(38, 9))
"""No money."""
