"""All sources of one cluster together: one map of places, one part a group of nodes (R25).

Here belongs what needs more than one source. Here do not belong the sources themselves or the store.
"""

from collections.abc import Iterable, Iterator, Sequence

from allocation.findings import Code, Finding, Severity
from pipelines.metric_sources.base import InfoSeries, MetricSource, Shard, Window
from pipelines.metric_sources.normalise import ShardBuilder, node_groups
from pipelines.metric_sources.placing import Places, places_of

Asked = Sequence[tuple[MetricSource, Window]]
"""Sources, each with the window in which it is looked at."""


def all_places(asked: Asked, inventory: Sequence[InfoSeries], configured: Iterable[str]) -> Places:
    """What the inventory and, where a row needs it, the devices of all sources say of where rows are."""
    places = places_of(inventory, configured)
    if not any(source.needs_sights(window) for source, window in asked):
        return places
    return places.with_sights(sight for source, window in asked for sight in source.sights(window, places))


def groups_of(asked: Asked, places: Places) -> list[tuple[str, ...]]:
    """The groups of nodes, in order of names, whose devices have series; each group is a shard."""
    nodes = {node for source, window in asked for node in source.nodes(window, places)}
    return list(node_groups(sorted(nodes), min((source.nodes_per_shard for source, _ in asked), default=1)))


def one_shard(asked: Asked, places: Places, group: Sequence[str], max_hold_ms: int) -> Shard:
    """The device series of a group of nodes: what every source tells of them."""
    builder = ShardBuilder(places, group, max_hold_ms)
    for source, window in asked:
        source.pour(builder, window, places, group)
    return builder.shard()


def all_shards(asked: Asked, places: Places, max_hold_ms: int) -> Iterator[Shard]:
    """The device series of all sources, shard by shard."""
    for group in groups_of(asked, places):
        yield one_shard(asked, places, group, max_hold_ms)


def all_notices(asked: Asked, places: Places) -> list[Finding]:
    """What stands out of the sources' series as a whole."""
    told = [finding for source, window in asked for finding in source.notices(window, places)]
    return [*told, *_ambiguous(places)]


def _ambiguous(places: Places) -> Iterator[Finding]:
    """A finding for each device that was seen on two nodes, and each place that had two devices, where it matters."""
    for gpu, nodes in sorted(places.gpus.items()):
        if len(nodes) > 1:
            text = f"the device is shown on {', '.join(sorted(nodes))}; rows that do not name their node are placed by their pod"
            yield Finding(Code.CONTRADICTING_INVENTORY, Severity.WARNING, gpu, text)
    for (node, place), ids in sorted(places.ids.items()):
        if len(ids) > 1:
            text = f"place {place} shows {', '.join(sorted(ids))}; rows that name the place alone stay a device of their own"
            yield Finding(Code.CONTRADICTING_INVENTORY, Severity.WARNING, node, text)
