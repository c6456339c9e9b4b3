"""The id of a partition's figures: a hash of all that they depend on; no clock in it."""

import hashlib
import json
from collections.abc import Mapping

from allocation.schemas import BILL_CLUSTER
from pipelines.day_bill import DayBill
from pipelines.overruled import rules_of
from pipelines.partition import Partition
from pipelines.samples import Fetched
from pipelines.version import VERSION
from pipelines.walk import Walk


def run_id_of(walk: Walk, partition: Partition, bill: DayBill, fetched: Mapping[str, Fetched]) -> str:
    """A hash of all that the partition's figures depend on; no clock in it."""
    owners = walk.owners.owners_id
    series: object = (
        {name: f.fingerprint for name, f in fetched.items()}
        if partition.cluster == BILL_CLUSTER
        else fetched[partition.cluster].fingerprint
    )
    if walk.settings.owners.model_split is not None and partition.cluster != BILL_CLUSTER:
        series = [series, fetched[partition.cluster].counters_fingerprint]
    nodes: list[object] = [n.model_dump(mode="json") for c in walk.settings.clusters for n in c.nodes]
    if walk.settings.instance_types:
        nodes.append({name: kind.model_dump(mode="json") for name, kind in walk.settings.instance_types.items()})
    money = [b.marks for b in walk.settings.billing]
    rules = rules_of(walk.settings)
    told = [str(partition), bill.deliveries, money, rules, series, walk.policy.policy_id, owners, nodes, VERSION]
    told += [walk.prices_id] if walk.prices_id else []
    text = json.dumps(told, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
