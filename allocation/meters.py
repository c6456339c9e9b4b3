"""Integrals over time of a device's bytes per unit of weight, from which each holder's byte-time is read when its weight changes.

A holder of weight w has, between two readings, w times what the meter moved: nothing is done for those who do not change. A meter
is a wide whole number and a part below one, so that a reading loses nothing however far the meter has run: the difference of two
readings is exact but for the parts, about 10^-16 ms each.
"""

import numpy as np
import numpy.typing as npt

from allocation import wide
from allocation.compiled import inner

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]

USED_METER, OVERHEAD_METER, IDLE_METER, HEAD_METER = range(4)
"""Used, overhead and idle per unit of weight; idle per holder where it is shared evenly."""
METERS = 4
NARROW = float(1 << 61)


@inner
def advance(whole: Int64, part: Float64, meter: int, amount: int, dt: int, total: int) -> None:
    """Moves a meter by ``amount * dt / total``: bytes, ms, and the sum of the weights.

    ``whole`` has the meters' wide whole numbers, shape (meters, 2), ``part`` what is below one of each.
    """
    high, low, below_one = 0, dt, part[meter]
    if amount != total:
        per_unit, size = 1.0 / total, float(amount) * dt
        if size < NARROW and size * per_unit < wide.SMALL:
            low, rest = wide.correct(int(size * per_unit), amount, dt, total)
        else:
            product_high, product_low = wide.multiply(amount, dt)
            high, low, _, rest = wide.scale(product_high, product_low, 0, 1, 0, total)
        below_one += rest * per_unit
    if below_one >= 1.0:
        below_one -= 1.0
        low += 1
    part[meter] = below_one
    whole[meter, 0], whole[meter, 1] = wide.add(whole[meter, 0], whole[meter, 1], high, low)


@inner
def share(weight: int, high: int, low: int, part: float, rest: float) -> tuple[int, int, float]:
    """What a holder of ``weight`` gets of a move of ``(high, low) + part``: a wide whole number and the new rest below one."""
    if high == 0 and low < (1 << 31):
        high, low = wide.multiply(weight, low)
    else:
        high, low = wide.product(high, low, weight)
    rest += weight * part
    units = np.floor(rest)
    high, low = wide.add(high, low, 0, int(units))
    return high, low, rest - units
