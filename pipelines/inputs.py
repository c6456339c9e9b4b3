"""By which inputs a partition was computed, one mark each, so that a later reader can say which of them changed.

The marks stand in the partition's marker. They are for people: what decides is ``run_id``.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence

from pipelines.overruled import rules_of
from pipelines.partition import Commit, Partition
from pipelines.settings import Settings
from pipelines.storage import TableStore
from pipelines.version import VERSION

WORDS = {
    "policy": "the policy",
    "owners": "the owners",
    "billing": "the billing entries",
    "samples": "the kept samples",
    "counters": "the kept counters of model servers",
    "nodes": "the nodes",
    "pods": "the pods",
    "prices": "the list prices",
    "code": "the program's version",
}
"""What each mark is of, for people."""


def inputs_of(settings: Settings, store: TableStore, partition: Partition, owners_id: str, prices_id: str = "") -> dict[str, str]:
    """The marks of what the settings and the store hold now."""
    money = [b.marks for b in settings.billing]
    kept = {name: _mark(store.commit(name, partition)) for name in ("samples", "nodes", "pods")}
    samples = store.commit("samples", partition)
    counters = _hash(samples.detail.get("counters") if samples else None)
    policy_id = settings.policy.policy().policy_id
    return {
        "policy": policy_id,
        "owners": owners_id,
        "billing": _hash([money, rules_of(settings)]),
        "code": VERSION,
        "counters": counters,
        "prices": prices_id,
        **kept,
    }


def _mark(commit: Commit | None) -> str:
    """Of a kept table: the fingerprint that its marker has, else its files'."""
    return "" if commit is None else _hash(commit.detail.get("fingerprint") or dict(commit.files))


def _hash(told: object) -> str:
    return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()[:16]


def changed(then: object, now: Mapping[str, str]) -> list[str]:
    """The names of the inputs that differ from what a marker tells of them; none where it tells nothing."""
    return [name for name in WORDS if name in then and then[name] != now.get(name)] if isinstance(then, Mapping) else []


def since(names: Sequence[str]) -> str:
    """What changed, as the beginning of a sentence; empty where nothing is known to have changed."""
    return f"changed since it was computed: {', '.join(WORDS[n] for n in names)}; " if names else ""
