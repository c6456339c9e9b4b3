"""What a server's refusal means: which setting to look at, what to do, and whether half the time would be answered.

Here belong words and status codes of Prometheus, Thanos, Mimir, Cortex and VictoriaMetrics. Here does not belong HTTP itself.
"""

import re
from typing import TypeVar

from allocation.errors import SourceUnavailableError

RETRIED_STATUS = frozenset({429, 500, 502, 503, 504})
PAYLOAD_TOO_LARGE, TOO_MANY_REQUESTS = 413, 429

SETTING_OF_STATUS = {401: "auth", 403: "auth", 422: "chunk", 429: "concurrency"}
REMEDY_OF_STATUS = {
    301: "Name the URL that it redirects to.",
    302: "Name the URL that it redirects to; a sign-in page needs auth.",
    308: "Name the URL that it redirects to.",
    401: "Check the user, password or token.",
    403: "Check the user, password or token, and the tenant.",
    404: "Name the server's base URL, without /api/v1.",
    422: "If the query is too large, choose a shorter chunk or fewer nodes_per_shard.",
    429: "Choose a lower concurrency.",
}
REMEDY_OF_TOO_LARGE = "Not even the shortest time is answered: choose fewer nodes_per_shard, or raise the server's limit."
REMEDY_OF_TOO_LONG = "Not even the shortest time is shorter: choose fewer nodes_per_shard, or a lower concurrency."

_LIMITS = re.compile(
    r"too many (samples|series|chunks|points|bytes)"  # Prometheus: "query processing would load too many samples into memory"
    r"|err-mimir-max-"
    r"|\bexceed(s|ed|ing)?\b.{0,120}\blimit|\blimit\b.{0,120}\bexceed"  # Thanos, Cortex: "exceeded series limit"
    r"|exceed(s|ed)? the maximum"
    r"|(hit|reached|over) the (max|limit)"  # Cortex: "the query hit the max number of chunks limit"
    r"|(larger|more) than (the )?max"  # gRPC: "received message larger than max"
    r"|number of [\w ]+ exceeds|-search\.max\w+"  # VictoriaMetrics
    r"|(query|evaluation|expression) timed out|timed out in |context deadline exceeded",
    re.IGNORECASE | re.DOTALL,
)
_Error = TypeVar("_Error", bound=SourceUnavailableError)


class TooLargeError(SourceUnavailableError):
    """The server, or the bound on an answer's length, refused a query for its size: less time may be answered."""


class UnreachableError(SourceUnavailableError):
    """There was no connection at all: what was asked for plays no part in it."""


def is_too_large(status: int, said: str) -> bool:
    """Whether a refusal is about the size of what was asked for.

    >>> is_too_large(422, "execution: query processing would load too many samples into memory in query execution")
    True
    >>> is_too_large(429, "the request rate exceeds the limit"), is_too_large(400, "parse error")
    (False, False)
    """
    return status == PAYLOAD_TOO_LARGE or (status != TOO_MANY_REQUESTS and _LIMITS.search(said) is not None)


def located(error: _Error, where: str) -> _Error:
    """The same error with the place where it came up in front of it."""
    return type(error)(error.url, f"{where}: {error.problem}", setting=error.setting, remedy=error.remedy)


def one_line(text: str) -> str:
    """A text of a server as it may stand in a message: one line, not long."""
    line = " ".join(text.split())
    return line if len(line) <= 200 else line[:197] + "..."
