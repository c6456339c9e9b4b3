"""The answer of ``explain`` for people: the matching rows, then each walk from the bill's line down to the samples.

Here belongs how it looks; every figure is the document's (``explain_row``), shortened for reading. Nothing is computed but GiB.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console

from pipelines.explain import Explained
from pipelines.explain_layout import clock, make_grid, say, title
from pipelines.explain_row import HOST_REASON
from pipelines.explain_slices import KINDS
from pipelines.explain_text_owners import model_split, owner

WALKED, LISTED, SLICES = 3, 40, 60
"""How many rows are walked unless --limit says otherwise, how many are listed, how many slices of one are shown."""
PIPED_WIDTH = 100
_GIB = 2**30
_GIB_MS = _GIB * 1000
Walked = Mapping[str, Any]
_WHY = {
    "mig_partition": "stranded: the card's capacity x its time, less each instance's capacity x its time (R23)",
    "gpu_share": "host: what gpu_share leaves of the machine's price (R36)",
    "gpu_without_metrics": "the machine has this GPU and nothing is known of it in the period (R17)",
    "node_without_metrics": "the machine has no series in these days (R18)",
    "unknown_time": "the time of which nothing is known, where that is too much of the expected time (R9)",
}

_BY_REQUESTS = "the pod's part of what gpu_share leaves: half by its CPU request, half by its memory request (R48)"


def console(given: Console) -> Console:
    """The console itself at a terminal; 100 columns where output goes elsewhere."""
    return given if given.is_terminal else Console(width=PIPED_WIDTH)


def show(found: Explained, out: Console) -> None:
    """Prints the whole answer."""
    _matched(found, out)
    for number, walk in enumerate(found.walks, 1):
        say(out, "")
        model = f", {walk['row']['model'] or '-'}" if len(walk["holder"]["models"]) > 1 else ""
        whose = f"{_whose(walk['row'])}{model}, {_period(walk['row'])}"
        out.rule(f"{number} of {len(found.matched)}: {whose}", align="left", style="dim")
        _bill(walk, out)
        _division(walk, out)
        _device(walk, out)
        _slices(walk, out)
        _pool(walk, out)
        model_split(walk, out)
        owner(walk, out)
        _checks(walk, out)
    rest = len(found.matched) - len(found.walks)
    if rest:
        say(out, f"\n{rest} more rows are not walked here; raise --limit, or --format json has all of them in full")


def _whose(row: Walked) -> str:
    if row["pod"]:
        return f"{row['namespace']}/{row['pod']}"
    return f"bucket {row['bucket']}" + (f" ({row['reason']})" if row["reason"] else "")


def _period(row: Walked) -> str:
    return f"{row['charge_period_start'].replace('T', ' ').removesuffix('Z')} to {clock(row['charge_period_end'])}"


def _device_name(row: Walked) -> str:
    return "/".join(str(row[n]) for n in ("gpu_uuid", "gpu_instance") if row[n]) or "-"


def _matched(found: Explained, out: Console) -> None:
    """All rows that match, with their sum."""
    asked = ", ".join(f"{k} {v}" for k, v in found.query.items() if k not in ("date", "clusters", "cost_metric"))
    title(out, f"{len(found.matched)} rows of {asked} on {found.query['date']}, {found.query['cost_metric']} cost")
    grid = make_grid("from", "node", "device", "whose", ">cost")
    listed = found.matched.slice(0, LISTED).to_pylist()
    named = [(f"{row['charge_period_start']:%H:%M}", row["node"], _device_name(row), _whose(row)) for row in listed]
    several = Counter(named)
    for names, row in zip(named, listed, strict=True):
        model = f", {row['model'] or '-'}" if several[names] > 1 else ""
        grid.add_row(*names[:-1], names[-1] + model, f"{row['cost']:f}")
    rest = len(found.matched) - len(listed)
    if rest:
        grid.add_row("...", f"{rest} more")
    for total in found.totals:
        grid.add_row("sum", total["currency"], "", "", total["cost"], style="bold")
    out.print(grid)
    for total in found.totals:
        parts = (f"{kind} {total[f'{kind}_cost']}" for kind in KINDS)
        say(out, f"        {total['currency']} for {', '.join(parts)}")


def _bill(walk: Walked, out: Console) -> None:
    line, part = walk["line"], walk["line"]["part"]
    currency = f"{line['currency']} {line['cost_metric']}"
    say(out, f"bill    {line['source_file']}, row {line['source_row']}: line {line['line_item_id']}")
    say(out, f"        {line['charge_period_start']} to {line['charge_period_end']}, {line['line_cost']} {currency}")
    if line["node"] is None:
        say(out, f"        paid by several machines together; this cluster's part of the day is {line['cost_in']}")
    if (part["start"], part["end"]) != (line["charge_period_start"], line["charge_period_end"]):
        when = f"{clock(part['start'])} to {clock(part['end'])}"
        say(out, f"        of it this day {line['cost_in']}; of this {when}: {part['cost']}")


def _division(walk: Walked, out: Console) -> None:
    """The part over the node's GPUs, and the GPU over its instances."""
    node, gpu = walk["node"], walk["gpu"]
    title(out, f"node {node['node']} ({node['node_id']}): the part over its GPUs")
    grid = make_grid("", "GPU", "model", ">weight", ">cost")
    for g in node["gpus"]:
        grid.add_row(">" if g["this"] else "", g["gpu_uuid"] or g["reason"] or "-", g["gpu_model"] or "", g["weight"], g["cost"])
    out.print(grid)
    if len(gpu["devices"]) > 1:
        title(out, f"GPU {gpu['gpu_uuid']}: over its instances")
        grid = make_grid("", "instance", "profile", ">weight", ">cost")
        for d in gpu["devices"]:
            name = d["gpu_instance"] or d["reason"] or "-"
            grid.add_row(">" if d["this"] else "", name, d["mig_profile"] or "", d["weight"], d["cost"])
        out.print(grid)


def _gib_s(text: str, digits: int = 3) -> str:
    return f"{int(text) / _GIB_MS:,.{digits}f}"


def _gib(value: int | None) -> str:
    return "-" if value is None else f"{value / _GIB:.2f}"


def _device(walk: Walked, out: Console) -> None:
    """The device's rows: whose its memory over time was, and what each cost."""
    device = walk["device"]
    known = ""
    if device["capacity_bytes"]:
        known = (
            f": {_gib(device['capacity_bytes'])} GiB by {device['capacity_from']}, known {device['known_seconds']:g} of "
            f"{walk['node']['expected_seconds']:g} s"
        )
    title(out, f"device {_device_name(device)}{known}; GiB-seconds")
    grid = make_grid("", "whose", "basis", ">used", ">overhead", ">idle", ">cost")
    for row in device["rows"]:
        over_time = (_gib_s(row[f"{k}_byte_ms"]) for k in KINDS)
        grid.add_row(">" if row["this"] else "", _whose(row), row["basis"], *over_time, row["cost"])
    out.print(grid)
    why = _BY_REQUESTS if _from_host(walk) else _WHY.get(walk["row"]["reason"] or "")
    if why:
        say(out, f"        {why}")
    got = walk["holder"]
    part = "this row's part" if len(got["models"]) == 1 else "the whole row"
    say(out, f"        {part}: used {got['used_cost']} + overhead {got['overhead_cost']} + idle {got['idle_cost']}")
    say(out, f"        = {got['cost']}, observed {got['observed_seconds']:g} s, imputed {got['imputed_seconds']:g} s")
    if len(got["models"]) > 1 and not (walk["model_split"] and walk["model_split"]["as_stored"]):
        for model in got["models"]:
            say(out, f"        row of model {model['model'] or '-'}: {model['cost']}")


def _from_host(walk: Walked) -> bool:
    """Whether a pod's row is its part of what the host was left."""
    of_host = any(gpu["this"] and gpu["reason"] == HOST_REASON for gpu in walk["node"]["gpus"])
    return of_host and walk["row"]["bucket"] == "workload"


def _how(told: Walked) -> str:
    """How the memory in use was shared at that time."""
    if not told["known"]:
        return "unknown"
    if not told["holders"]:
        return "nobody"
    basis = str(told["basis"]).removeprefix("estimated_")
    if told["weight"] is None or not (told["repeated"] or told["not_mapped"]):
        return basis
    return f"{told['weight']}/{told['weights_total']} {basis}"


def _behind(told: Walked) -> str:
    """When the samples that hold were taken: one time where it is the same for all series."""
    groups: dict[str, list[str]] = {}
    for s in told["samples"]:
        text = clock(s["sample_at"]) + (f" x{s['samples']}" if s["samples"] > 1 else "") + ("~" if s["imputed"] else "")
        groups.setdefault(text, []).append(s["role"])
    if len(groups) == 1:
        return next(iter(groups))
    return "; ".join(f"{'+'.join(dict.fromkeys(roles))} {text}" for text, roles in groups.items())


def _slices(walk: Walked, out: Console) -> None:
    """Each stretch of constant state: S, U, R, X and m in GiB, what the row is booked there, and by which samples."""
    told = walk["slices"]
    if not told:
        return
    title(out, f"{len(told)} slice{'s' * (len(told) > 1)} of constant state; what the row is booked in each, GiB-seconds")
    grid = make_grid("from", ">s", ">S", ">U", ">R", ">X", ">m", "shared", ">used", ">over", ">idle", "sample")
    grid.padding = (0, 1, 0, 0)
    for s in told[:SLICES]:
        sizes = (_gib(s[f"{name}_bytes"]) for name in ("held", "used", "reserved", "unexplained", "memory"))
        booked = (_gib_s(s[f"{k}_byte_ms"], 1) for k in KINDS)
        grid.add_row(clock(s["start"]), _seconds(s), *sizes, _how(s), *booked, _behind(s))
    rest = told[SLICES:]
    if rest:
        grid.add_row("...", "", "", "", "", "", "", f"{len(rest)} more", *_sums(rest))
    grid.add_row("sum", "", "", "", "", "", "", "", *_sums(told), style="bold")
    out.print(grid)
    say(out, "        GiB: S held by all, U used on the device, R reserved, X unexplained, m own; ~ imputed")
    left = {k: v for k, v in walk["rounding_byte_ms"].items() if v != "0"}
    if left:
        say(out, "        and of rounding: " + ", ".join(f"{k} {v} byte-ms" for k, v in left.items()))
    _series(told, out)


def _series(told: Sequence[Walked], out: Console) -> None:
    """Which series the samples are of, and from when to when."""
    grid = make_grid("series", "metric", "level", "container", ">samples", "first", "last")
    seen: dict[tuple[str, ...], list[Walked]] = {}
    for s in told:
        for sample in s["samples"]:
            seen.setdefault(tuple(sample[n] for n in ("role", "metric", "level", "container")), []).append(sample)
    for names, samples in seen.items():
        count = sum(s["samples"] for s in {s["sample_at"]: s for s in samples}.values())
        grid.add_row(*names, str(count), clock(samples[0]["sample_at"]), clock(samples[-1]["last_sample_at"]))
    out.print(grid)


def _seconds(told: Walked) -> str:
    length = datetime.fromisoformat(told["end"]) - datetime.fromisoformat(told["start"])
    return f"{length.total_seconds():g}"


def _sums(told: Sequence[Walked]) -> list[str]:
    return [_gib_s(str(sum(int(s[f"{k}_byte_ms"]) for s in told)), 1) for k in KINDS]


def _pool(walk: Walked, out: Console) -> None:
    """Idle policy `proportional`: how the device's idle went to the node's holders."""
    pool = walk["pool"]
    if not pool:
        return
    idle, used = _gib_s(pool["device_idle_byte_ms"]), _gib_s(pool["node_used_byte_ms"])
    title(out, f"idle of the device, {idle} GiB-seconds, by {used} used on the node")
    grid = make_grid("holder on the node", ">used", ">idle")
    for h in pool["holders"]:
        grid.add_row(f"{h['namespace']}/{h['pod']}", _gib_s(h["used_byte_ms"]), _gib_s(h["idle_byte_ms"]))
    out.print(grid)


def _checks(walk: Walked, out: Console) -> None:
    """That the walk adds up; a walk that does not is never shown."""
    checks = walk["adds_up"]
    say(out, f"adds up ({len(checks)} sums are exact): this row is {walk['row']['cost']} {walk['row']['currency']}")
    if walk["changed_inputs"]:
        say(
            out,
            f"        changed since the run: {', '.join(walk['changed_inputs'])}; the holder's money comes out the same",
        )
