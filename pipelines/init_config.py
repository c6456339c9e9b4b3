"""The first configuration, written out from a few answers with a short comment at each choice.

Here belongs the text of the file. Asking, and writing it to disk, are the command line's; what a key means is decided in
``settings``.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import get_args

import yaml

from allocation.errors import SettingsError, nearest
from pipelines.billing_entries import BillingEntry, CostMetric
from pipelines.metrics_entries import MetricsEntry

METRICS_KINDS: tuple[str, ...] = get_args(MetricsEntry.model_fields["kind"].annotation)
PROFILES: tuple[str, ...] = get_args(MetricsEntry.model_fields["profile"].annotation)
BILLING_KINDS: tuple[str, ...] = get_args(BillingEntry.model_fields["kind"].annotation)
COSTS = get_args(CostMetric)

_PLAIN = re.compile(r"[A-Za-z./][\w./:@-]*")


@dataclass(frozen=True)
class InitAnswers:
    """What the configuration is written from.

    ``metrics_place`` is a URL for servers and a path for files. Of a secret only the name of the environment variable that
    holds it is asked: ``bearer_env``, or ``basic_user`` with ``basic_password_env``. A token may lie in ``bearer_file``.
    """

    cluster: str = "prod"
    metrics_kind: str = "prometheus"
    metrics_place: str = "http://prometheus.monitoring:9090"
    profile: str = "dcgm"
    billing_kind: str = "focus"
    billing_path: str = "bill.csv"
    cost: str = "effective"
    currency: str | None = None
    output: str = "out"
    start: date | None = None
    match: Mapping[str, str] = field(default_factory=dict)
    bearer_env: str | None = None
    bearer_file: str | None = None
    basic_user: str | None = None
    basic_password_env: str | None = None


def render_config(answers: InitAnswers) -> str:
    """The configuration as commented YAML that ``load_settings`` accepts.

    Raises:
        SettingsError: an answer is none of the words that are known for it.
    """
    for asked, answer, known in (
        ("kind of metrics", answers.metrics_kind, METRICS_KINDS),
        ("profile", answers.profile, PROFILES),
        ("kind of bill", answers.billing_kind, BILLING_KINDS),
        ("cost", answers.cost, COSTS),
    ):
        if answer not in known:
            raise SettingsError(f"unknown {asked} {answer!r}; {nearest(answer, known)}")
    sections = (_head(answers), _metrics(answers), _NODES, _billing(answers), _POLICY, _OWNERS)
    return "".join(sections)


def kind_of(place: str) -> str:
    """The kind of metrics that a place is most likely of.

    >>> [kind_of(p) for p in ("https://prom:9090", "day.om", "day.parquet", "s3://bucket/series")]
    ['prometheus', 'openmetrics', 'parquet', 'parquet']
    """
    if place.startswith(("http://", "https://")):
        return "prometheus"
    return "parquet" if "://" in place or place.endswith((".parquet", ".pq", "/")) else "openmetrics"


def _head(answers: InitAnswers) -> str:
    start = f"start: {answers.start}" if answers.start else "# start: 2026-10-01"
    return (
        "# gpu-chargeback: splits the bill of GPU nodes over pods. Check this file with `gpu-chargeback doctor FILE`.\n"
        "# Relative paths are relative to this file. CHARGEBACK__POLICY__IDLE=separate in the environment overrides a key.\n"
        "version: 1\n"
        f"output: {_scalar(answers.output)} # a folder, or a URL of a bucket such as s3://bucket/prefix\n"
        f"{start} # the first UTC day there is anything to compute\n"
        "\nclusters:\n"
        f"  - name: {_scalar(answers.cluster)}\n"
    )


def _metrics(answers: InitAnswers) -> str:
    place = "url" if answers.metrics_kind in ("prometheus", "victoriametrics") else "path"
    lines = [
        "    metrics:",
        f"      - kind: {answers.metrics_kind} # {' | '.join(METRICS_KINDS)}",
        f"        {place}: {_scalar(answers.metrics_place)}",
        f"        profile: {answers.profile} # which exporter: {' | '.join(PROFILES)}",
    ]
    if answers.match:
        pairs = ", ".join(f"{_scalar(name)}: {_scalar(value)}" for name, value in answers.match.items())
        lines.append(f"        match: {{{pairs}}} # put into every query")
    else:
        lines.append("        # match: {cluster: prod} # put into every query, where one server holds several clusters")
    auth = _auth(answers)
    if auth:
        lines.append(f"        auth: {auth}")
    elif place == "url":
        lines.append("        # auth: {bearer: {env: METRICS_TOKEN}} # the variable's name; the token itself never stands here")
    return "\n".join(lines) + "\n" + (_CUSTOM if answers.profile == "custom" else "")


def _auth(answers: InitAnswers) -> str | None:
    if answers.bearer_env:
        return f"{{bearer: {{env: {_scalar(answers.bearer_env)}}}}} # the environment variable that holds the token"
    if answers.bearer_file:
        return f"{{bearer_file: {_scalar(answers.bearer_file)}}} # read again for every request"
    if answers.basic_user and answers.basic_password_env:
        password = f"{{env: {_scalar(answers.basic_password_env)}}}"
        return f"{{basic: {{username: {_scalar(answers.basic_user)}, password: {password}}}}} # password: a variable's name"
    if answers.basic_user or answers.basic_password_env:
        raise SettingsError("basic auth needs both a user name and the environment variable that holds the password")
    return None


def _billing(answers: InitAnswers) -> str:
    lines = [
        "\nbilling:",
        f"  - kind: {answers.billing_kind} # {' | '.join(BILLING_KINDS)}",
        f"    path: {_scalar(answers.billing_path)} # the export's own folder, a file, or a URL: s3://, gs://, az://",
        f"    cost: {answers.cost} # billed: the invoice; effective: amortised; contracted or list: prices",
    ]
    currency = f"currency: {_scalar(answers.currency)}" if answers.currency else "# currency: USD"
    lines.append(f"    {currency} # a line in any other currency is refused")
    if answers.billing_path.startswith("s3://"):
        lines.append("    # region: us-east-1 # credentials come from the cloud SDK's own chain")
    return "\n".join(lines) + "\n"


def _scalar(text: str) -> str:
    """Text as YAML, plain where it reads back as itself."""
    try:
        plain = bool(_PLAIN.fullmatch(text)) and yaml.safe_load(f"[{text}]") == [text]
    except yaml.YAMLError:
        plain = False
    return text if plain else json.dumps(text)


_CUSTOM = """\
        custom: # which series plays which role; pod_memory is needed, the others help
          pod_memory: {metric: pod_gpu_memory_bytes, unit: bytes, level: container} # level device: the device's value, repeated
          used: {metric: gpu_memory_used_bytes, unit: bytes, includes_reserved: false}
          total: {metric: gpu_memory_total_bytes, unit: bytes}
          # also: declared, free, reserved
          labels: {node: node, gpu: gpu_uuid, instance: mig, namespace: namespace, pod: pod, pod_uid: uid, container: container}
"""

_NODES = """\
    # nodes: # only what kube-state-metrics does not say
    #   - {name: gpu-a, provider_id: "aws:///us-east-1a/i-0abc", instance_type: p4d.24xlarge, gpus: 8, gpu_memory: 40GiB}
"""

_POLICY = """
policy:
  max_hold: 2m # how long a sample holds: a little more than the scrape interval
  max_gap: 15m # longer silences are unknown time
  overhead: proportional # what the driver reserves: proportional | even | separate
  idle: holder # free memory: holder | separate | proportional | even
  stranded: separate # what a MIG partition leaves unusable: separate | spread
  gpu_share: 1.0 # the GPUs' part of a node's cost, by_sku (Google), or a table {p5.*: 0.9, default: 1.0}; the rest is the host's
  host: separate # the host's part: separate (bucket host) | by_requests (pods, by their CPU and memory requests)
  min_coverage: 0.5 # below it, the cost of unknown time is unallocated
"""

_OWNERS = """
owners: # the first that a pod has counts; kube-state-metrics must export the labels (doctor says which it does not)
  team: [label:team, namespace]
  model: [label:model, label:app.kubernetes.io/name]
  # cost_center: [label:cost-center]
  rules: [] # {match: {namespace: "ml-*"}, team: research, from: 2026-10-01}
  buckets: {} # {idle: {team: platform}}: who stands for a bucket, if anyone
"""
