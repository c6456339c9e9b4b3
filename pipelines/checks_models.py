"""Doctor's look at the counters of model servers: are those there that ``model_split`` weighs by, and whom do they name.

Here do not belong the growth of a counter or the split itself.
"""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from allocation.findings import Finding
from pipelines.checks import Check, Status, count, some
from pipelines.metric_sources.model_servers import ModelServer, metrics_of, servers_of, split_of
from pipelines.owner_entries import ModelSplitEntry

_NO_COUNTERS = (
    "Let Prometheus scrape /metrics of the model servers, with the labels namespace and pod; for another server name its "
    "counters under owners.model_split.custom."
)
_NO_KIND = "Correct the counter's name, or scrape it too: without it the rows keep the model of the label."
_NO_MODEL = "Let scraping add a label with the model; until then the rows keep the model of the pod's label."


def check_models(cluster: str, entry: ModelSplitEntry, counters: pa.Table, noticed: Sequence[Finding], where: str) -> list[Check]:
    """Each server that has counters: how many, of which pods and models, and which of those that it is weighed by are missing.

    Args:
        cluster: The cluster's name.
        entry: How rows are split.
        counters: The counters of the cluster (table ``counters``).
        noticed: What was noticed while they were gathered.
        where: The place in the configuration.
    """
    name = f"models {cluster}"
    told = [Check(name, Status.WARN, f"{f.subject}: {f.evidence}", where) for f in noticed]
    servers = set(counters["server"].to_pylist())
    if not servers:
        what = f"no series that names a pod of any counter that model_split reads ({some(metrics_of(entry))})"
        return [Check(name, Status.WARN, what, where, _NO_COUNTERS), *told]
    weighed = split_of(entry).servers
    for server in servers_of(entry):
        if server.name in servers:
            rows = counters.filter(pc.equal(counters["server"], server.name))
            told += _server(name, server, list(weighed[server.name]), rows, where)
    absent = [server for server in servers_of(entry) if server.name == "custom" and server.name not in servers]
    told += [_without(name, server, list(weighed[server.name]), where) for server in absent]
    return told


def _server(name: str, server: ModelServer, weighed: Sequence[str], rows: pa.Table, where: str) -> list[Check]:
    pods = rows.group_by(["namespace", "pod"]).aggregate([]).num_rows
    models = {model for model in rows["model"].to_pylist() if model}
    what = f"{server.name}: {len(rows)} series of {count(pods, 'pod', 'pods')}"
    checks = [Check(name, Status.OK, f"{what}; models: {some(models)}", where)]
    if not models:
        checks = [Check(name, Status.WARN, f"{what}, and none names a model", where, _NO_MODEL)]
    missing = [kind for kind in weighed if kind not in set(rows["kind"].to_pylist())]
    return [*checks, *([_without(name, server, missing, where)] if missing else [])]


def _without(name: str, server: ModelServer, kinds: Sequence[str], where: str) -> Check:
    metrics = " and of ".join(" or ".join(server.kinds[kind][:2]) for kind in kinds)
    return Check(name, Status.WARN, f"{server.name}: no series that names a pod of {metrics}", where, _NO_KIND)
