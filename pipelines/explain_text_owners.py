"""The end of a walk for people: the division over models by a server's counters, and the owners, today's beside the row's."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from pipelines.explain_layout import clock, make_grid, say, title
from pipelines.explain_slices import KINDS

_MILLION = 10**6
_WORDS = {"cost_center": "cost centre"}
Told = Mapping[str, Any]


def model_split(walk: Told, out: Console) -> None:
    """How the whole row is divided over the models that the server served."""
    split = walk["model_split"]
    if not split:
        return
    whose = "" if split["as_stored"] else "; by today's settings, the row is of others"
    when = f"{clock(split['start'])} to {clock(split['end'])}"
    title(out, f"the whole row of {walk['holder']['cost']} over models, by counters of {split['server']}, {when}{whose}")
    _counters(split, out)
    table = make_grid("", "model", f">{split['unit']} x weight", ">share", *(f">{kind}" for kind in KINDS), ">cost")
    for model in split["models"]:
        weighed, share = millionths(int(model["weight"])), f"{model['share']:.4%}"
        costs = (model[f"{kind}_cost"] for kind in KINDS)
        table.add_row(">" if model["this"] else "", model["model"] or "-", weighed, share, *costs, model["cost"])
    whole = (walk["holder"][f"{kind}_cost"] for kind in KINDS)
    total = millionths(int(split["weights_total"]))
    table.add_row("", "sum", total, "", *whole, walk["holder"]["cost"], style="bold")
    out.print(table)


def _counters(split: Told, out: Console) -> None:
    """What each counter grew, and from which value to which."""
    table = make_grid("model", "counter", ">first", "at", ">last", "at", ">resets", ">growth", ">weight")
    for counter in split["counters"]:
        name = counter["model"] or "(none named)"
        for number, series in enumerate(_series(counter["stretches"])):
            first, last = series[0], series[-1]
            resets = sum(s["began"] == "reset" for s in series)
            grown = sum(int(s["grown"]) for s in series)
            weight = millionths(counter["weight_ppm"])
            ends = (first["from_value"], clock(first["from_at"]), last["until_value"], clock(last["until_at"]))
            table.add_row(*((name, counter["kind"]) if not number else ("", "")), *ends, str(resets), str(grown), weight)
    out.print(table)
    names = make_grid("counter", "metric, under any of its names")
    for kind, metrics in {counter["kind"]: counter["metrics"] for counter in split["counters"]}.items():
        names.add_row(kind, ", ".join(metrics))
    out.print(names)


def _series(stretches: Sequence[Told]) -> list[list[Told]]:
    """The stretches of each series of a counter."""
    found: dict[tuple[object, ...], list[Told]] = {}
    for told in stretches:
        found.setdefault((told["pod_uid"], *sorted(told["labels"].items())), []).append(told)
    return list(found.values())


def millionths(weight: int) -> str:
    """A whole number of 10^-6, exactly.

    >>> millionths(600_250_000), millionths(1_000_000_000)
    ('600.25', '1,000')
    """
    whole, rest = divmod(weight, _MILLION)
    return f"{whole:,}" + (f".{rest:06d}".rstrip("0") if rest else "")


def owner(walk: Told, out: Console) -> None:
    """The row's names with what decided each; where today's settings give others, both."""
    told = (
        f"{_word(name)} {field['name'] or '-'}" + (f" (by {field['by']})" if field["by"] else "")
        for name, field in walk["owner"].items()
    )
    say(out, "owner   " + ", ".join(told))
    differs = [name for name, field in walk["owner"].items() if field["today"]]
    if differs:
        _differences(walk, differs, out)
    elif "owners" in walk["changed_inputs"]:
        say(out, "        the owners in the settings changed since the run and give this row the same names and split")


def _differences(walk: Told, differs: Sequence[str], out: Console) -> None:
    """What the row says and what today's settings give for the whole row, field by field."""
    table = make_grid("", "", "the row says", ">", "today's settings give", "by", ">")
    for name in differs:
        today = walk["owner"][name]["today"]
        cost = walk["row"]["cost"] if name == "model" else ""
        said = (_word(name), walk["row"][name] or "-", cost)
        for number, told in enumerate(today):
            given = told["name"] or ("-" if told["cost"] else "only a run can tell")
            money = (told["cost"] or "") if name == "model" else ""
            table.add_row("       ", *(said if not number else ("", "", "")), given, told["by"] or "-", money)
    out.print(table)
    say(out, "        the table has today's owners once the day is run again")


def _word(name: str) -> str:
    return _WORDS.get(name, name)
