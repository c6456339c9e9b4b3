"""Doctor asks for the labels of namespaces by their own flag, and for those of expressions."""

from pipelines.checks import Status
from pipelines.checks_labels import check_labels
from pipelines.metric_sources.base import InfoSeries
from pipelines.owner_entries import OwnersEntry


def test_labels_of_namespaces_have_their_own_flag() -> None:
    owners = OwnersEntry.model_validate({"team": ["namespace_label:team"]})
    series = [InfoSeries("kube_namespace_labels", {"namespace": "ns"}, 0, 1, 1.0)]
    (check,) = check_labels("prod", owners, series, "here")
    assert check.status == Status.WARN
    assert "kube_namespace_labels names namespaces but exports no label of them" in check.what
    assert "--metric-labels-allowlist=namespaces=[team], unless no namespace has them" in check.todo
    exported = InfoSeries("kube_namespace_labels", {"namespace": "ns", "label_team": "t"}, 0, 1, 1.0)
    assert check_labels("prod", owners, [exported], "here")[0].status == Status.OK


def test_labels_of_expressions_are_asked_for() -> None:
    owners = OwnersEntry.model_validate({"rules": [{"match_regex": {"label:tier": "^g"}, "team": "x"}]})
    (check,) = check_labels("prod", owners, [], "here")
    assert "owners need tier" in check.what


def test_label_columns_of_the_mapping_file_are_asked_for() -> None:
    owners = OwnersEntry.model_validate({"team": ["label:team", "mapping"], "mapping": {"path": "m.csv"}})
    labels = InfoSeries("kube_pod_labels", {"namespace": "ns", "pod": "p", "label_team": "t"}, 0, 1, 1.0)
    assert [c.status for c in check_labels("prod", owners, [labels], "here")] == [Status.OK]
    mapped = ["namespace", "label:project", "annotation:finance/code"]
    label, annotation = check_labels("prod", owners, [labels], "here", mapped)
    assert (label.status, label.what) == (Status.WARN, "exported: team; on no pod: project")
    assert "--metric-labels-allowlist=pods=[team,project]" in label.todo
    assert annotation.what == "owners need finance/code, and there are no series kube_pod_annotations"
