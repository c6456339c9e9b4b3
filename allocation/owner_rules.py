"""One rule of owners: patterns that a holder must match, and the names that it gives, groups of the patterns filled in.

Here belongs a rule by itself, with what makes it unusable. Here does not belong which rule counts (``owners``).
"""

import fnmatch
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from string import Formatter

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from allocation.coded import Coded, always, coded, combined, numbered

Bools = npt.NDArray[np.bool_]
Ask = Callable[[str], Coded]
"""What a source says of each holder."""
_GROUP = re.compile(r"\{\w+\}")


@dataclass(frozen=True)
class Rule:
    """Names fields for pods that match all patterns while the rule is valid, judged at the charge period's start (ms).

    ``match`` holds globs that fit a whole value, ``match_regex`` regular expressions that are found anywhere in it; the keys
    are sources. With ``match_regex`` a name is a template: ``{word}`` and ``{1}`` stand for groups.
    """

    match: Mapping[str, str]
    names: Mapping[str, str]
    from_ms: int | None = None
    until_ms: int | None = None
    match_regex: Mapping[str, str] = field(default_factory=dict)


def check_rule(match_regex: Mapping[str, str], names: Mapping[str, str]) -> None:
    """Raises ValueError where an expression cannot be read, or a name asks for a group that no expression has."""
    compiled = {source: _compiled(source, text) for source, text in match_regex.items()}
    words = [word for pattern in compiled.values() for word in pattern.groupindex]
    twice = sorted({word for word in words if words.count(word) > 1})
    if twice:
        raise ValueError(f"match_regex: two expressions have a group {twice[0]!r}; give each its own word")
    for name, text in names.items():
        if not match_regex and _GROUP.search(text):
            raise ValueError(f"{name}: {text!r} asks for a group, and the rule has no match_regex")
        for _, group in _pieces(name, text) if match_regex else ():
            if group is not None:
                _owner_of(group, compiled, f"{name}: {text!r}")


def _compiled(source: str, text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"match_regex: {source}: {text!r} is no regular expression: {error}") from None


def _pieces(name: str, template: str) -> list[tuple[str, str | None]]:
    """Literal text, and the group that follows it (None: none)."""
    try:
        pieces = list(Formatter().parse(template))
    except ValueError as error:
        raise ValueError(f"{name}: {template!r} cannot be read: {error}; write {{{{ for a brace") from None
    for _, group, form, conversion in pieces:
        if group is not None and (form or conversion or not re.fullmatch(r"\w+", group)):
            raise ValueError(f"{name}: {template!r}: write a group as {{word}} or {{1}}")
    return [(literal, group) for literal, group, _, _ in pieces]


def _owner_of(group: str, compiled: Mapping[str, re.Pattern[str]], where: str) -> str:
    """The source whose expression has the group; a number is one of the only expression with groups."""
    if group.isdecimal():
        having = [source for source, pattern in compiled.items() if pattern.groups]
        if len(having) > 1:
            raise ValueError(f"{where}: several expressions have groups; name the group, as in (?P<team>...) and {{team}}")
        if having and 1 <= int(group) <= compiled[having[0]].groups:
            return having[0]
    for source, pattern in compiled.items():
        if group in pattern.groupindex:
            return source
    known = sorted({word for pattern in compiled.values() for word in pattern.groupindex})
    raise ValueError(f"{where}: no expression has a group {group!r}; named groups: {', '.join(known) or 'none'}")


def matching(rule: Rule, said: Ask, start_ms: npt.NDArray[np.int64]) -> Bools:
    """Which holders the rule speaks of."""
    hit = np.ones(len(start_ms), np.bool_)
    if rule.from_ms is not None:
        hit &= start_ms >= rule.from_ms
    if rule.until_ms is not None:
        hit &= start_ms < rule.until_ms
    for source, pattern in rule.match.items():
        hit &= glob(pattern, said(source))
    for source, text in rule.match_regex.items():
        hit &= said(source).tested(re.compile(text).search)
    return hit


def glob(pattern: str, said: Coded) -> Bools:
    """Which values the whole of a glob fits; none that is not there."""
    start = pattern.removesuffix("*")
    if any(c in start for c in "*?["):
        return said.tested(re.compile(fnmatch.translate(pattern)).match)
    fits = pc.equal(said.values, pattern) if start == pattern else pc.starts_with(said.values, start)
    return said.fits(fits.to_numpy(zero_copy_only=False))


def named(rule: Rule, name: str, said: Ask, hit: Bools) -> Coded:
    """The field's name for each holder of ``hit``: none where a group took no part, or where the result is empty."""
    if not rule.match_regex:
        told = always(rule.names[name], len(hit))
        return told._replace(codes=np.where(hit, told.codes, -1))
    rows = np.flatnonzero(hit)
    compiled = {source: re.compile(text) for source, text in rule.match_regex.items()}
    pieces = _pieces(name, rule.names[name])
    groups = {group: _owner_of(group, compiled, name) for _, group in pieces if group is not None}
    asked = {source: said(source) for source in groups.values()}
    number, first = numbered(combined([(0 * rows, 1), *((a.codes[rows], len(a.values)) for a in asked.values())]))
    texts = {source: a.at(rows[first]).texts().tolist() for source, a in asked.items()}
    parts: list[pa.Array | str] = []
    for literal, group in pieces:
        parts.append(literal)
        if group is not None:
            pattern = compiled[groups[group]]
            key = group if group in pattern.groupindex else int(group)
            parts.append(pa.array([_group(pattern, text, key) for text in texts[groups[group]]], pa.string()))
    joined = pc.binary_join_element_wise(*parts, pa.array([""] * len(first), pa.string()), "")
    told = coded(joined)
    codes = np.full(len(hit), -1, np.int64)
    codes[rows] = told.codes[number]
    return told._replace(codes=codes)


def _group(pattern: re.Pattern[str], text: str | None, key: str | int) -> str | None:
    """What a group of an expression caught in a text; None where it took no part."""
    found = None if text is None else pattern.search(text)
    return None if found is None else found[key]
