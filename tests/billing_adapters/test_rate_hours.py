"""An amount over hours adds up to the amount."""

import numpy as np
import pytest

from billing_adapters.rate_hours import hour_nanos


def test_a_month_of_744_hours_adds_up_and_the_first_hours_get_the_rest() -> None:
    # 744 x 1.344086021 = 999.999999624, so 376 nanos are left.
    nanos = hour_nanos(1000 * 10**9, 744, np.arange(744))
    assert nanos.sum() == 1000 * 10**9
    assert nanos[375] == 1344086022
    assert nanos[376] == 1344086021


def test_an_hour_outside_is_refused() -> None:
    with pytest.raises(ValueError, match="over 744 hours"):
        hour_nanos(1, 744, np.array([744]))
