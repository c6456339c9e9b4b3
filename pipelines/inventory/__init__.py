"""Nodes by provider id and pods over time, from kube-state-metrics' series, the node labels and the configured ``nodes:``.

Works without any of them, with less said: a node that nobody describes is joined by its own name, a pod that nobody describes has
no uid, owner, labels or requests. Here belongs what a series of the inventory means; how it is fetched and reduced to stretches
is `pipelines.metric_sources`. Rules R16-R20, R37.
"""

from pipelines.inventory.billed_types import with_billed_types
from pipelines.inventory.catalogue import InstanceType, catalogue, instance_types
from pipelines.inventory.contradictions import disagreements, overruled
from pipelines.inventory.frames import nodes_frame, pods_frame
from pipelines.inventory.host_requests import requests_unknown
from pipelines.inventory.nodes import build_nodes
from pipelines.inventory.pods import build_pods
from pipelines.inventory.sections import Inventory, Sections, sections_of
from pipelines.inventory.stretches import EARLIEST, LATEST, inventory_table

__all__ = [
    "EARLIEST",
    "LATEST",
    "InstanceType",
    "Inventory",
    "Sections",
    "build_nodes",
    "build_pods",
    "catalogue",
    "disagreements",
    "instance_types",
    "inventory_table",
    "nodes_frame",
    "overruled",
    "pods_frame",
    "requests_unknown",
    "sections_of",
    "with_billed_types",
]
