"""How a run ends where something is wrong: one clear line in Dagster, tried again only where that may help."""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from allocation.errors import ChargebackError, SourceUnavailableError

RETRY = dg.RetryPolicy(max_retries=3, delay=60, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS)
"""For steps that ask servers and object stores."""


@contextmanager
def clear_errors() -> Iterator[None]:
    """Turns our errors into a failure that says what, where and what to do; only an unreachable source is tried again."""
    try:
        yield
    except ChargebackError as error:
        raise dg.Failure(str(error), allow_retries=isinstance(error, SourceUnavailableError)) from error
