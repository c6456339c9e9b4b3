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

LARGEST_NANOS = 2**63 - 1
RESIDUE_SCALE = 30
PLAIN = r"^[+-]?(\d{1,9}(\.\d{0,9})?|\.\d{1,9})$"
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


class CostError(ValueError):
    """A cost text that cannot be read for certain; ``index`` is its place in the array."""

    def __init__(self, index: int, problem: str) -> None:
        self.index, self.problem = index, problem
        super().__init__(problem)


def to_nanos(texts: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Cost texts as ``int64`` nanos and ``decimal128(38, 30)`` residues.

    Plain numbers of at most nine digits on each side go by Arrow's decimal cast; the others go one distinct text at a time.

    Raises:
        CostError: an empty, unreadable or too large text, with its index.
    """
    empty = pc.or_kleene(pc.is_null(texts), pc.equal(pc.utf8_trim_whitespace(texts), ""))
    if pc.any(empty).as_py():
        raise CostError(pc.index(empty, True).as_py(), "the cost is empty")
    texts = pc.utf8_trim_whitespace(texts)
    plain = pc.match_substring_regex(texts, PLAIN)
    simple = pc.if_else(plain, texts, "0")
    nanos = _plain_nanos(simple)
    residues = np.zeros(len(texts), dtype=object)
    odd = np.flatnonzero(~plain.to_numpy(zero_copy_only=False))
    if len(odd):
        nanos = nanos.copy()
        _read_odd(texts, odd, nanos, residues)
    residues[residues == 0] = Decimal(0)
    return pa.array(nanos), pa.array(residues, pa.decimal128(38, RESIDUE_SCALE))


def _plain_nanos(texts: pa.Array) -> Int64:
    amounts = pc.cast(texts, pa.decimal128(18, 9))
    words = np.frombuffer(amounts.buffers()[1], dtype=np.int64)
    start = amounts.offset * 2
    low: Int64 = words[start : start + 2 * len(amounts) : 2]
    return low


def _read_odd(texts: pa.Array, odd: npt.NDArray[np.intp], nanos: Int64, residues: npt.NDArray[np.object_]) -> None:
    encoded = texts.take(pa.array(odd)).dictionary_encode()
    codes = encoded.indices.to_numpy()
    for code, text in enumerate(encoded.dictionary.to_pylist()):
        where = odd[codes == code] if len(encoded.dictionary) < 64 else None
        try:
            value, residue = parse_cost(text)
        except ValueError as error:
            raise CostError(int(odd[np.flatnonzero(codes == code)[0]]), str(error)) from error
        if where is not None:
            nanos[where], residues[where] = value, residue
    if len(encoded.dictionary) >= 64:
        parsed = [parse_cost(text) for text in encoded.dictionary.to_pylist()]
        nanos[odd] = np.array([p[0] for p in parsed], dtype=np.int64)[codes]
        residues[odd] = np.array([p[1] for p in parsed], dtype=object)[codes]


def nanos_column(nanos: Int64) -> pa.Array:
    """Nanos as ``decimal128(38, 9)`` without a detour over Python numbers."""
    words = np.empty((len(nanos), 2), dtype=np.int64)
    words[:, 0] = nanos
    words[:, 1] = nanos >> 63
    return pa.Array.from_buffers(pa.decimal128(38, 9), len(nanos), [None, pa.py_buffer(words)])


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
