"""Which lines a configuration takes out and in."""

import pytest

from allocation.scope_rules import Rule, ScopeRules, overruled_scope
from tests.allocation.test_scope import line, table

LINES = table(
    line(1, "i-a", service="AmazonEC2", usage_type="USE1-BoxUsage:p5", line_type="Usage", region="us-east-1", sub_account="s1"),
    line(2, "i-a", service="AmazonEC2", usage_type="DataTransfer", scope_rule="usage_not_instance"),
    line(3, None, service="AWSSupport", charge_category="Tax", scope_rule="no_resource"),
    line(4, "i-a", scope_rule="split_copy"),
    line(5, "i-a", scope_rule="provider_split"),
    line(6, "i-b", source_id="other", service="AmazonEC2"),
    line(7, None),
    line(8, "cr-1", pool="reservation:cr-1", scope_rule="reserved_unused"),
)


def scoped(exclude: tuple[Rule, ...] = (), include: tuple[Rule, ...] = ()) -> dict[str, str | None]:
    """The lines whose rule is another one now."""
    found = overruled_scope(LINES, {"b": ScopeRules(exclude, include)})
    was, now = (t["scope_rule"].to_pylist() for t in (LINES, found.lines))
    return {str(n + 1): b for n, (a, b) in enumerate(zip(was, now, strict=True)) if a != b}


@pytest.mark.parametrize(
    ("rule", "out"),
    [
        ({"service": "amazonec2"}, ["1", "2"]),
        ({"usage_type": "*BoxUsage:*"}, ["1"]),
        ({"service": "AmazonEC2", "usage_type": "Data*"}, ["2"]),
        ({"line_type": "usage"}, ["1"]),
        ({"charge_category": "TAX"}, ["3"]),
        ({"resource": "i-?"}, ["1", "2"]),
        ({"sub_account": "s*"}, ["1"]),
        ({"region": "us-[ew]*"}, ["1"]),
        ({"rule": "no_resource"}, ["3", "7"]),
        ({"region": "*"}, ["1"]),
        ({"service": "Amazon"}, []),
    ],
)
def test_all_patterns_of_a_rule_fit_whole_values(rule: Rule, out: list[str]) -> None:
    assert scoped(exclude=(rule,)) == dict.fromkeys(out, "excluded")


def test_what_is_taken_in_loses_its_rule() -> None:
    assert scoped(include=({"usage_type": "DataTransfer"}, {"rule": "reserved_unused"})) == {"2": None, "8": None}


def test_copies_and_lines_without_a_resource_are_never_taken_in() -> None:
    assert scoped(include=({"rule": "*"},)) == {"2": None, "8": None}


def test_what_is_taken_in_wins_over_what_is_taken_out() -> None:
    """All is taken out, but what stands on i-a; a tax that is taken back has its own rule again."""
    everything: Rule = {"charge_category": "*"}
    assert scoped((everything,), ({"resource": "i-a"}, {"charge_category": "tax"})) == {
        "2": None, "7": "excluded", "8": "excluded",
    }  # fmt: skip


def test_a_rule_that_changes_nothing_is_told_with_the_reason() -> None:
    rules = ScopeRules(({"service": "nothing"},), ({"rule": "split_copy"}, {"usage_type": "DataTransfer"}))
    found = overruled_scope(LINES, {"b": rules, "absent": ScopeRules(({"service": "x"},))})
    assert [(source, name, rule) for source, name, rule, _ in found.idle] == [
        ("b", "exclude", {"service": "nothing"}), ("b", "include", {"rule": "split_copy"}),
    ]  # fmt: skip
    assert found.idle[0][3] != found.idle[1][3]


def test_a_rule_is_of_its_own_entry() -> None:
    found = overruled_scope(LINES, {"other": ScopeRules(({"service": "AmazonEC2"},))})
    assert found.lines["scope_rule"].to_pylist() == [
        None,
        *LINES["scope_rule"].to_pylist()[1:5],
        "excluded",
        None,
        "reserved_unused",
    ]


def test_no_lines_and_no_rules() -> None:
    assert overruled_scope(LINES.slice(0, 0), {"b": ScopeRules(({"service": "x"},))}).idle == ()
    assert overruled_scope(LINES, {}).lines.equals(LINES)
