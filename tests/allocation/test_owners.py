"""Who owns a row: rules, sources, versions of labels, and what decided. Every expected name is read off the inputs."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from allocation.owner_rules import Rule, check_rule
from allocation.owners import Owners, assign
from allocation.schemas import PODS

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HOUR = 3_600_000


def pods_table(*pods: Mapping[str, object]) -> pa.Table:
    """Table ``pods`` of what is named; seen from hour 0 unless said otherwise."""
    rows = []
    for pod in pods:
        row: dict[str, object] = dict.fromkeys(PODS.names)
        row |= {"namespace": "ns", "pod": "p", "pod_uid": "u", "labels": [], "annotations": []}
        row |= {"labels_from": EPOCH, "seen_from": EPOCH, "seen_until": EPOCH + timedelta(days=1)}
        rows.append({**row, **pod})
    return pa.Table.from_pylist(rows, schema=PODS.arrow())


def hour(number: float) -> datetime:
    return EPOCH + timedelta(hours=number)


def holders(*named: Mapping[str, object]) -> pd.DataFrame:
    """Holders in the first hour unless said otherwise."""
    usual = {"bucket": "workload", "namespace": "ns", "pod": "p", "pod_uid": "u", "start_ms": 0, "end_ms": HOUR}
    return pd.DataFrame([{**usual, **one} for one in named])


def decided(rows: pd.DataFrame, pods: pa.Table, owners: Owners, field: str = "team") -> list[tuple[object, str]]:
    known = assign(rows, pods, owners)
    return list(zip(known[field], known[f"{field}_by"], strict=True))


def test_a_rule_goes_before_a_label_and_the_label_before_the_namespace() -> None:
    pods = pods_table({"pod": "a", "labels": [("team", "red")]}, {"pod": "b", "labels": [("team", "red")]}, {"pod": "c"})
    rules = (Rule({"pod": "x*"}, {"team": "never"}), Rule({"pod": "a"}, {"team": "rule"}))
    owners = Owners({"team": ("label:team", "namespace")}, rules)
    rows = holders({"pod": "a"}, {"pod": "b"}, {"pod": "c"})
    assert decided(rows, pods, owners) == [("rule", "rules[1]"), ("red", "label:team"), ("ns", "namespace")]


def test_validity_is_half_open_at_the_start_of_the_charge_period() -> None:
    rules = (Rule({}, {"team": "old"}, None, 2 * HOUR), Rule({}, {"team": "new"}, 2 * HOUR))
    rows = holders(*({"start_ms": h * HOUR, "end_ms": (h + 1) * HOUR} for h in (1, 2)))
    assert decided(rows, pods_table({}), Owners(rules=rules)) == [("old", "rules[0]"), ("new", "rules[1]")]


def test_groups_of_expressions_fill_in_names() -> None:
    rule = Rule(
        {},
        {"team": "{team}", "model": "m-{size}"},
        match_regex={"namespace": r"^team-(?P<team>[a-z]+)-", "pod": r"llama-(?P<size>\d+b)"},
    )
    rows = holders(
        {"namespace": "team-red-prod", "pod": "llama-70b-0"},
        {"namespace": "my-team-red-prod", "pod": "llama-70b-0"},
        {"namespace": "team-blue-x", "pod": "a-llama-8b"},
        {"namespace": "team-blue-x", "pod": "mistral"},
    )
    owners = Owners({"team": ("namespace",)}, (rule,))
    known = assign(rows, pods_table({}), owners)
    assert list(known.team) == ["red", "my-team-red-prod", "blue", "team-blue-x"]
    assert list(known.team_by) == ["rules[0]", "namespace", "rules[0]", "namespace"]
    assert list(known.model) == ["m-70b", "unowned", "m-8b", "unowned"]
    assert list(known.model_by) == ["rules[0]", "fallback", "rules[0]", "fallback"]


def test_an_expression_that_no_holder_matches_names_nobody() -> None:
    rule = Rule({}, {"team": "{t}"}, match_regex={"namespace": "^(?P<t>never)$"})
    rows = holders({}, {"namespace": ""})
    assert decided(rows, pods_table({}), Owners({"team": ("namespace",)}, (rule,))) == [
        ("ns", "namespace"),
        ("unowned", "fallback"),
    ]


def test_a_group_by_number_and_a_group_that_took_no_part() -> None:
    rule = Rule({"pod": "*"}, {"team": "{1}"}, match_regex={"namespace": r"^(?:t-(\w+)|lab.*)$"})
    rows = holders({"namespace": "t-red"}, {"namespace": "lab7"})
    assert decided(rows, pods_table({}), Owners(rules=(rule,))) == [("red", "rules[0]"), ("unowned", "fallback")]


def test_an_empty_group_names_nobody_and_the_next_rule_is_asked() -> None:
    rules = (Rule({}, {"team": "{t}"}, match_regex={"namespace": r"^a(?P<t>.*)$"}), Rule({}, {"team": "rest"}))
    rows = holders({"namespace": "a"}, {"namespace": "ab"})
    assert decided(rows, pods_table({}), Owners(rules=rules)) == [("rest", "rules[1]"), ("b", "rules[0]")]


def test_a_brace_that_is_no_group_is_written_twice() -> None:
    rule = Rule({}, {"team": "{{{t}}}"}, match_regex={"namespace": r"(?P<t>.*)"})
    assert decided(holders({}), pods_table({}), Owners(rules=(rule,))) == [("{ns}", "rules[0]")]


@pytest.mark.parametrize(
    ("match_regex", "name", "text"),
    [
        ({"namespace": "("}, "x", "namespace: '(' is no regular expression"),
        ({"namespace": "(?P<team>.*)"}, "{taem}", "no expression has a group 'taem'; named groups: team"),
        ({"namespace": "(.*)"}, "{2}", "no expression has a group '2'"),
        ({"namespace": "(.*)"}, "{0}", "no expression has a group '0'"),
        ({"namespace": "(.*)", "pod": "(.*)"}, "{1}", "several expressions have groups"),
        ({"namespace": "(?P<t>.*)", "pod": "(?P<t>.*)"}, "{t}", "two expressions have a group 't'"),
        ({"namespace": "(?P<t>.*)"}, "{t!r}", "write a group as {word}"),
        ({"namespace": "(?P<t>.*)"}, "{t", "cannot be read"),
        ({}, "{team}", "has no match_regex"),
    ],
)
def test_an_unusable_rule_is_told(match_regex: dict[str, str], name: str, text: str) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        check_rule(match_regex, {"team": name})
    assert text in str(error.value)


def test_every_source_is_read() -> None:
    pod = {
        "labels": [("app_kubernetes_io_model_name", "l")],
        "annotations": [("owner", "a")],
        "namespace_labels": [("cost_center", "n")],
        "workload_name": "w",
        "workload_kind": "Deployment",
    }
    rows = holders({"node": "node-1", "cluster": "prod"})
    told = {
        "label:app.kubernetes.io/modelName": "l",
        "annotation:owner": "a",
        "namespace_label:cost-center": "n",
        "workload": "w",
        "workload_kind": "Deployment",
        "namespace": "ns",
        "pod": "p",
        "node": "node-1",
        "cluster": "prod",
    }
    for source, name in told.items():
        assert decided(rows, pods_table(pod), Owners({"team": (source,)})) == [(name, source)]
        glob = Rule({source: f"{name[:1]}*"}, {"team": "t"})
        assert decided(rows, pods_table(pod), Owners(rules=(glob,))) == [("t", "rules[0]")]


def test_what_nothing_says_fits_no_glob_and_is_no_owner() -> None:
    owners = Owners({"team": ("label:team",)}, (Rule({"label:team": "*"}, {"team": "labelled"}),))
    empty = {"labels": [("team", "")]}
    for pods, rows in ((pods_table({}), {}), (pods_table(empty), {}), (pods_table(), {}), (pods_table({}), {"pod": "other"})):
        assert decided(holders(rows), pods, owners) == [("unowned", "fallback")]


def test_buckets_have_no_owner_unless_someone_stands_for_them() -> None:
    owners = Owners({"team": ("namespace",)}, buckets={"idle": {"team": "platform"}})
    rows = holders({"bucket": "idle", "namespace": ""}, {"bucket": "stranded", "namespace": ""})
    assert decided(rows, pods_table({}), owners) == [("platform", "buckets.idle"), (None, "")]


def test_a_field_with_neither_list_nor_rule_is_null() -> None:
    assert decided(holders({}), pods_table({}), Owners({"team": ("namespace",)}), "cost_center") == [(None, "")]


def test_labels_are_those_last_seen_before_the_period_ended() -> None:
    versions = [{"labels": [("team", t)], "labels_from": hour(h)} for t, h in (("a", 0), ("b", 2), ("c", 2.5))]
    pods = pods_table(*versions)
    rows = holders(*({"start_ms": h * HOUR, "end_ms": (h + 1) * HOUR} for h in range(4)))
    known = decided(rows, pods, Owners({"team": ("label:team",)}))
    assert [team for team, _ in known] == ["a", "a", "c", "c"], (
        "hour 1 ends when b is first seen, and half-open it is not its own"
    )


def test_a_period_before_all_versions_has_the_first() -> None:
    pods = pods_table(*({"labels": [("team", t)], "labels_from": hour(h)} for t, h in (("b", 9), ("a", 5))))
    assert decided(holders({}), pods, Owners({"team": ("label:team",)})) == [("a", "label:team")]


def test_a_holder_without_a_uid_is_the_pod_of_that_name_that_came_last() -> None:
    pods = pods_table(
        {"pod_uid": "u1", "labels": [("team", "a")], "seen_from": hour(0)},
        {"pod_uid": "u2", "labels": [("team", "b")], "seen_from": hour(2)},
    )
    rows = holders(*({"pod_uid": uid, "end_ms": h * HOUR} for uid, h in (("", 1), ("", 3), ("u1", 3), ("u9", 3))))
    known = decided(rows, pods, Owners({"team": ("label:team",)}))
    assert [team for team, _ in known] == ["a", "b", "a", "unowned"], "u9 is another pod than those that are known"


def test_a_holder_whose_uid_is_not_known_is_the_pod_without_a_uid() -> None:
    pods = pods_table({"pod_uid": "", "labels": [("team", "a")]})
    assert decided(holders({"pod_uid": "u9"}), pods, Owners({"team": ("label:team",)})) == [("a", "label:team")]


def test_the_id_follows_every_part() -> None:
    parts = [
        Owners(),
        Owners({"team": ("namespace",)}),
        Owners(rules=(Rule({}, {"team": "a"}),)),
        Owners(rules=(Rule({}, {"team": "a"}, 0),)),
        Owners(rules=(Rule({}, {"team": "a"}, match_regex={"pod": "x"}),)),
        Owners(buckets={"idle": {"team": "a"}}),
    ]
    assert len({owners.owners_id for owners in parts}) == len(parts)
    assert Owners(rules=(Rule({}, {"team": "a"}),)).owners_id == parts[2].owners_id


def test_many_holders_in_any_order_get_their_own() -> None:
    n = 2000
    chance = np.random.default_rng(1)
    pods = pods_table(*({"pod": f"p{k}", "pod_uid": f"u{k}", "labels": [("team", f"t{k % 7}")]} for k in range(n)))
    asked = chance.permutation(n)
    known = decided(holders(*({"pod": f"p{k}", "pod_uid": f"u{k}"} for k in asked)), pods, Owners({"team": ("label:team",)}))
    assert [team for team, _ in known] == [f"t{k % 7}" for k in asked]
