"""Settings that name something which no cluster of the day has, a model of GPU or a type of machine, or that do nothing.

They are likely misspelt, and what they ask for is not done. Here do not belong settings wrong in themselves (``settings``).
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import date, timedelta
from difflib import SequenceMatcher
from fnmatch import fnmatchcase

import pandas as pd
import pyarrow as pa

from allocation.findings import Code, Finding, Severity
from allocation.policy import BY_SKU, WHOLE_PPB
from pipelines.samples import Fetched
from pipelines.settings import PolicyEntry, Settings, day_start

_SHOWN = 5


def unused_settings(
    settings: Settings, fetched: Mapping[str, Fetched], nodes: Mapping[str, pd.DataFrame], lines: pa.Table, day: date
) -> list[Finding]:
    """A finding for each setting that the day has no use for.

    That is a model under ``policy.reserved``, a type under ``instance_types`` or ``policy.gpu_share`` that the day does not have,
    ``policy.host`` where nothing is left to the host, and ``gpu_share: by_sku`` of a type whose lines tell no parts.

    Args:
        settings: The configuration.
        fetched: What was fetched of every cluster.
        nodes: The nodes of every cluster.
        lines: The day's lines of the bill.
        day: The UTC day.
    """
    told: list[tuple[str, str]] = []
    models = [one.models for one in fetched.values()]
    if all(names is not None for names in models):
        seen = {name for names in models for name in names or ()}
        told += _unused("policy.reserved", settings.policy.reserved, seen, "no card of the day has that model")
    types = {str(kind) for table in nodes.values() for kind in table.instance_type.dropna()}
    types |= {str(kind) for kind in lines["instance_type"].unique().to_pylist() if kind}
    told += _unused("instance_types", settings.instance_types, types, "no node and no line of the day has that type")
    told += _unused_shares(settings.policy, types)
    told += _without_parts(settings.policy, nodes, lines)
    period = day_start(day), day_start(day) + timedelta(days=1)
    return [Finding(Code.UNUSED_SETTING, Severity.INFO, setting, evidence, period) for setting, evidence in told]


def _unused_shares(policy: PolicyEntry, types: set[str]) -> Iterator[tuple[str, str]]:
    """Setting and evidence of each type or pattern of ``gpu_share`` that no type is or fits; and of a host without a part."""
    named = {name for name, _ in policy.gpu_share.by_type}
    met = {name for name in named if any(fnmatchcase(kind, name) for kind in types)} | (named & types)
    never = named - met if types else ()
    yield from _unused("policy.gpu_share", never, types, "no node and no line of the day has such a type")
    shares = (policy.gpu_share.default_ppb, *(share for _, share in policy.gpu_share.by_type))
    if policy.host == "by_requests" and min(shares) == WHOLE_PPB:
        yield "policy.host", "by_requests divides what gpu_share leaves to the host, and gpu_share leaves nothing; set it below 1"


def _without_parts(policy: PolicyEntry, nodes: Mapping[str, pd.DataFrame], lines: pa.Table) -> Iterator[tuple[str, str]]:
    """Setting and evidence of each type that is divided by the parts of its lines, and of which no line tells one."""
    choice = policy.policy()
    machines = pd.concat([table[["node_key", "instance_type"]] for table in nodes.values()]).drop_duplicates("node_key")
    told = lines.select(["node_key", "instance_type", "machine_part"]).to_pandas().dropna(subset="node_key")
    told = told.merge(machines, on="node_key", suffixes=("_billed", ""))
    told["kind"] = told.instance_type.astype("object").fillna(told.instance_type_billed).fillna("")
    for kind, parts in told.groupby("kind").machine_part:
        if choice.share_of(kind or None) == BY_SKU and not parts.notna().any():
            whose = f"of type {kind}" if kind else "of unknown type"
            evidence = (
                f"by_sku: no line of the machines {whose} says whether it pays for GPUs, cores or memory, so each goes "
                "to the GPUs whole; give that type a number"
            )
            yield "policy.gpu_share", evidence


def _unused(section: str, named: Iterable[str], seen: set[str], what: str) -> Iterator[tuple[str, str]]:
    """Setting and evidence of each name that was not seen; nothing where nothing at all was."""
    for name in sorted(set(named) - seen) if seen else ():
        near = sorted(seen, key=lambda other: (-SequenceMatcher(None, name.lower(), other.lower()).ratio(), other))
        more = f" and {len(near) - _SHOWN} more" if len(near) > _SHOWN else ""
        yield f"{section}.{name}", f"{what}; seen, the nearest first: {', '.join(near[:_SHOWN])}{more}"
