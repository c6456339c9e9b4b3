"""An amount of a rate card over equal hours, exactly. Knows no card, no node and no calendar."""

import numpy as np
import numpy.typing as npt


def hour_nanos(total_nanos: int, hours: int, index: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The nanos of the hours at ``index`` (0 is the first of ``hours``) by largest remainder; all hours sum to the total.

    Hours weigh the same, so the earlier ones get the nano-unit that is left over.

    Raises:
        ValueError: no hours, a negative total or an index outside.
    """
    if hours <= 0 or total_nanos < 0 or (len(index) and (index.min() < 0 or index.max() >= hours)):
        raise ValueError(f"{total_nanos} nanos cannot be split over {hours} hours")
    each, rest = divmod(total_nanos, hours)
    return np.int64(each) + (index < rest).astype(np.int64)
