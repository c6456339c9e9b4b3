"""Names from clusters and bills as a page, a chart and a file name can bear them."""

import hashlib
import re
import unicodedata
from urllib.parse import quote

NOBODY = "nobody"
"""Shown where no team stands for the money."""
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]")
_LONGEST_FILE = 180


def clean(name: str | None, empty: str = NOBODY) -> str:
    """A name without control characters; what stands for none."""
    return _UNSEEN.sub("\ufffd", name) or "(empty)" if name is not None else empty


def cells(name: str) -> int:
    """How wide a name is in letters; East Asian ones count twice."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in name)


def shortened(name: str, width: int) -> str:
    """A name that fits a chart; what is cut shows as an ellipsis.

    >>> shortened("team-of-research", 8)
    'team-of…'
    """
    if cells(name) <= width:
        return name
    taken = 0
    for place, letter in enumerate(name):
        taken += cells(letter)
        if taken >= width:
            return name[: max(place, 1)] + "…"
    return name


def file_stem(name: str | None) -> str:
    """A file name, percent-encoded; a long one ends in a hash, and no name is mistaken for that of nobody.

    >>> file_stem("a/b"), file_stem(None), file_stem(".."), file_stem("_nobody")
    ('a%2Fb', '_nobody', '%2E%2E', '%5Fnobody')
    """
    if name is None:
        return f"_{NOBODY}"
    stem = quote(name, safe="")
    stem = stem.replace(".", "%2E") if set(name) <= {"."} else re.sub(r"^[._~]", lambda m: f"%{ord(m[0]):02X}", stem)
    if len(stem) <= _LONGEST_FILE:
        return stem or "%"
    return f"{stem[:120]}~{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
