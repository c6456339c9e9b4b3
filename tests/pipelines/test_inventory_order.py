"""The order in which series come, and how the table is cut, changes nothing."""

import pyarrow as pa
import pytest

from pipelines.inventory import build_nodes, build_pods, disagreements, inventory_table, sections_of
from tests.pipelines.inventories import HOLD_MS, info

OWNED = {"namespace": "ml", "pod": "t-0", "uid": "u0", "owner_kind": "Job", "owner_is_controller": "true"}
SERIES = [
    info("kube_node_info", 0, 60, node="n1", provider_id="aws:///z/i-1"),
    info("kube_node_info", 10, 60, node="n1", provider_id="aws:///z/i-2"),
    *(info("kube_pod_info", k, 60, namespace="ml", pod=f"t-{k}", uid=f"u{k}", node="n1") for k in range(4)),
    info("kube_pod_info", 20, 50, namespace="ml", pod="t-1", uid="u1", node="n2"),
    *(info("kube_pod_labels", k, 60, namespace="ml", pod=f"t-{k}", uid="", label_team=f"team-{k % 2}") for k in range(4)),
    info("kube_pod_labels", 30, 60, namespace="ml", pod="t-2", uid="u2", label_team="late", label_app="a"),
    info("kube_pod_owner", 0, 60, **OWNED, owner_name="j"),
    info("kube_pod_owner", 5, 60, **OWNED, owner_name="k"),
    info("kube_pod_start_time", 0, 60, 1.8e9, namespace="ml", pod="t-3", uid="u3"),
    info("kube_pod_completion_time", 0, 60, 1.7e9, namespace="ml", pod="t-3", uid="u3"),
]  # fmt: skip


@pytest.mark.parametrize("step", [1, 3, 5, 7])
def test_order_and_chunks_do_not_matter(step: int) -> None:
    """Any order of the series, their labels and the table's pieces: the same nodes, pods and findings as in theirs."""
    shuffled = sorted(range(len(SERIES)), key=lambda k: (k * step) % len(SERIES))
    table = inventory_table([SERIES[k] for k in shuffled])
    whole = pa.concat_tables([table.slice(0, 5), table.slice(5, 0), table.slice(5)])
    kept = sections_of(whole)
    assert build_pods(kept).equals(build_pods(SERIES))
    assert build_nodes(kept, [], ["n1"], HOLD_MS).equals(build_nodes(SERIES, [], ["n1"], HOLD_MS))
    assert disagreements(kept, []) == disagreements(SERIES, [])
    assert [finding.subject for finding in disagreements(kept, [])] == ["n1", "ml/t-1", "ml/t-3"]
    labels = {(row["pod"], dict(row["labels"]).get("team"), row["workload_name"]) for row in build_pods(kept).to_pylist()}
    assert labels == {
        ("t-0", "team-0", "k"), ("t-1", "team-1", None), ("t-2", "late", None), ("t-3", "team-1", None),
    }  # fmt: skip
