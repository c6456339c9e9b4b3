"""The mapping from finance: its file, its rows in order, and its speed."""

import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from allocation.errors import SettingsError
from allocation.owners import Owners, assign
from allocation.times import to_ms
from pipelines.mapping_file import MappingError, read_mapping
from pipelines.owner_entries import OwnersEntry
from pipelines.owner_settings import owners_of
from tests.allocation.test_owners import holders, pods_table


def owners(folder: Path, text: str | bytes, **lists: list[str]) -> Owners:
    """Owners with a mapping file of that text."""
    path = folder / "mapping.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return owners_of(OwnersEntry.model_validate({"mapping": {"path": path}, **lists}))


TEAM = {"team": ["label:team", "mapping", "namespace"]}


def test_the_first_row_that_fits_counts(tmp_path: Path) -> None:
    found = owners(tmp_path, "namespace,pod,team\nml,a-*,one\nml,,two\nml,b,never\n*,c,three\n", **TEAM)
    rows = holders(*({"namespace": n, "pod": p} for n, p in (("ml", "a-1"), ("ml", "b"), ("x", "c"), ("x", "d"))))
    known = assign(rows, pods_table(), found)
    assert list(known.team) == ["one", "two", "three", "x"]
    assert list(known.team_by) == ["mapping row 1", "mapping row 2", "mapping row 4", "namespace"]


def test_a_glob_before_and_after_a_plain_row(tmp_path: Path) -> None:
    found = owners(tmp_path, "namespace,team\nm?,glob\nmy,plain\nmy-*,prefix\nmy-x,late\n[ab]z,either\n", team=["mapping"])
    rows = holders(*({"namespace": n} for n in ("my", "my-x", "bz", "cz", "m")))
    assert list(assign(rows, pods_table(), found).team) == ["glob", "prefix", "either", "unowned", "unowned"]


def test_each_field_takes_the_first_row_that_names_it(tmp_path: Path) -> None:
    lists = {"team": ["mapping"], "cost_center": ["mapping"]}
    found = owners(tmp_path, "namespace,team,cost_center\nns,red,\nns,blue,CC2\n,,CC3\n", **lists)
    known = assign(holders({}, {"namespace": "x"}), pods_table(), found)
    assert list(zip(known.team, known.cost_center, known.cost_center_by, strict=True)) == [
        ("red", "CC2", "mapping row 2"),
        ("unowned", "CC3", "mapping row 3"),
    ]


def test_a_field_found_without_the_mapping_is_a_key(tmp_path: Path) -> None:
    lists = {"team": ["label:team"], "cost_center": ["mapping"]}
    found = owners(tmp_path, "team,cost_center\nred,CC1\nb*,CC2\n", **lists)
    pods = pods_table(*({"pod": p, "labels": [("team", t)]} for p, t in (("a", "red"), ("b", "blue"), ("c", "green"))))
    known = assign(holders({"pod": "a"}, {"pod": "b"}, {"pod": "c"}), pods, found)
    assert list(known.cost_center) == ["CC1", "CC2", "unowned"]


def test_rows_are_valid_from_and_until_at_the_start_of_the_charge_period(tmp_path: Path) -> None:
    text = "namespace,team,from,until\nns,old,,2026-10-01\nns,new,2026-10-01,2026-10-01T12:00:00Z\n"
    text += "ns,next,2026-10-01T14:00:00+02:00,\n"
    found = owners(tmp_path, text, team=["mapping"])
    starts = [datetime(2026, 9, 30, 23, tzinfo=UTC), *(datetime(2026, 10, 1, h, tzinfo=UTC) for h in (0, 11, 12))]
    rows = holders(*({"start_ms": to_ms(s), "end_ms": to_ms(s) + 1} for s in starts))
    assert list(assign(rows, pods_table(), found).team) == ["old", "new", "new", "next"]


def test_labels_as_keys_and_what_a_spreadsheet_does_to_a_file(tmp_path: Path) -> None:
    text = '\ufefflabel:app.kubernetes.io/name , team\r\n"chat, big",red\r\n\r\n , \r\nx,"blue"\r\n'
    found = owners(tmp_path, text, team=["mapping"])
    key = "app_kubernetes_io_name"
    pods = pods_table({"pod": "a", "labels": [(key, "chat, big")]}, {"pod": "b", "labels": [(key, "x")]})
    known = assign(holders({"pod": "a"}, {"pod": "b"}), pods, found)
    assert list(zip(known.team, known.team_by, strict=True)) == [("red", "mapping row 1"), ("blue", "mapping row 4")]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is empty"),
        ("namespace,team\n", "has no rows"),
        ("namspace,team\na,b\n", "unknown column 'namspace'; did you mean 'namespace'"),
        ("namespace;team\na;b\n", "separate columns by commas"),
        ("namespace,team,team\na,b,c\n", "'team' stands twice"),
        ("namespace\na\n", "the file has no column 'team'"),
        ("namespace,cost_center,team\na,b,c\n", "'cost_center' is a key"),
        ("namespace,team\na,b\nc,\n", "row 2: names no team"),
        ("namespace,team\na,b\nc\n", "row 2: has 1 cells and the header 2"),
        ("namespace,team,from\na,b,2026-10-01\nc,d,10/1/2026\n", "row 2: `from`: '10/1/2026' is no date"),
        ("namespace,team,from,until\na,b,2026-10-02,2026-10-02\n", "row 1: `from` is not before `until`"),
        ('namespace,team\na,"b\n', "is no CSV"),
        (b"namespace,team\na,b\nc,\xe4\n", "row 2: is not UTF-8"),
    ],
)
def test_a_file_that_cannot_be_used_is_told(tmp_path: Path, text: str | bytes, told: str) -> None:
    with pytest.raises(MappingError) as error:
        owners(tmp_path, text, team=["mapping"])
    assert told in str(error.value)
    assert str(tmp_path / "mapping.csv") in str(error.value)
    assert error.value.exit_code == 2


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        read_mapping(tmp_path / "none.csv", ["team"], ["team"])


def test_file_and_lists_go_together() -> None:
    for values in ({"team": ["mapping"]}, {"mapping": {"path": "x.csv"}, "team": ["namespace"]}):
        with pytest.raises(ValueError, match="mapping"):
            OwnersEntry.model_validate(values)


def test_the_content_is_part_of_the_id(tmp_path: Path) -> None:
    ids = {owners(tmp_path, f"namespace,team\na,{t}\n", team=["mapping"]).owners_id for t in ("x", "y", "x")}
    assert len(ids) == 2


def test_a_large_mapping_takes_seconds(tmp_path: Path) -> None:
    count = 50_000
    lines = [f"ns-{k % 500},pod-{k},t{k % 40}" for k in range(count)] + [f"ns-{k},g{k}-*,glob{k}" for k in range(500)]
    found = owners(tmp_path, "\n".join(["namespace,pod,team", *lines]) + "\n", team=["mapping"])
    asked = np.arange(2 * count)
    pods = [f"pod-{k}" if k < count else f"g{k % 500}-{k}" for k in asked]
    rows = holders({}).loc[[0] * len(asked)].assign(namespace=[f"ns-{k % 500}" for k in asked], pod=pods, pod_uid="")
    start = time.process_time()
    known = assign(rows, pods_table(), found)
    assert time.process_time() - start < 20
    assert list(known.team[:count]) == [f"t{k % 40}" for k in range(count)]
    assert list(known.team[count:]) == [f"glob{k % 500}" for k in range(count, 2 * count)]
