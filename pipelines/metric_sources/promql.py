"""Selectors of PromQL as text, with everything quoted that came from outside.

Here belongs only the writing of selectors; who sends them and why stands in ``prometheus``.
"""

import re
from collections.abc import Iterable, Mapping

_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_REGEX_SIGNS = re.compile(r"[\\.+*?()|\[\]{}^$]")


def quoted(text: str) -> str:
    r"""Text as a string of PromQL.

    >>> print(quoted('a"b'))
    "a\"b"
    """
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def one_of(label: str, values: Iterable[str]) -> str:
    r"""A matcher for exactly these values.

    >>> print(one_of("node", ["gpu.a", "b"]))
    node=~"gpu\\.a|b"
    """
    return f"{label}=~" + quoted("|".join(_REGEX_SIGNS.sub(r"\\\g<0>", value) for value in values))


def selector(metric: str, match: Mapping[str, str], *matchers: str) -> str:
    """The series of a metric (empty: of any) with these labels and matchers.

    >>> selector("up", {"cluster": "prod"}, 'node!=""')
    'up{cluster="prod",node!=""}'
    """
    parts = [*(f"{name}={quoted(value)}" for name, value in match.items()), *matchers]
    if not metric or _METRIC.fullmatch(metric):
        return f"{metric}{{{','.join(parts)}}}"
    return f"{{__name__={quoted(metric)},{','.join(parts)}}}"
