"""The section ``owners`` as the method reads it; the mapping file is read here."""

from datetime import datetime

from allocation.owner_mapping import OwnerMapping
from allocation.owner_rules import Rule
from allocation.owners import FIELDS, Owners
from allocation.times import to_ms
from pipelines.mapping_file import read_mapping
from pipelines.metric_sources.model_servers import split_of
from pipelines.owner_entries import OwnersEntry


def owners_of(entry: OwnersEntry) -> Owners:
    """The configured owners as the method reads them, or a ``SettingsError`` where the mapping file cannot be used."""
    rules = [Rule(r.match, r.names, _instant(r.valid_from), _instant(r.valid_until), r.match_regex) for r in entry.rules]
    buckets = {str(name): {f: told for f in FIELDS if (told := getattr(b, f))} for name, b in entry.buckets.items()}
    sources = {name: tuple(getattr(entry, name)) for name in FIELDS}
    split = None if entry.model_split is None else split_of(entry.model_split)
    return Owners(sources, tuple(rules), buckets, _mapping(entry), split)


def _mapping(entry: OwnersEntry) -> OwnerMapping | None:
    if entry.mapping is None:
        return None
    named = {name for rule in entry.rules for name in rule.names}
    found = [name for name in FIELDS if getattr(entry, name) or name in named]
    return read_mapping(entry.mapping.path, entry.mapped, found)


def _instant(moment: datetime | None) -> int | None:
    return None if moment is None else to_ms(moment)
