"""The section ``owners`` of the configuration.

Here belongs what may be written there. Here does not belong what it means (``allocation.owners``) or how files and servers are
read for it (``mapping_file``, ``metric_sources.model_servers``).
"""

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from allocation.owner_rules import check_rule
from allocation.owners import FIELDS, MAPPING
from pipelines.section import Section
from pipelines.values import Instant, MatchKey, OwnerSource, WeightPpm


class OwnerRule(Section):
    """Names a team, model or cost centre for what matches, while it is valid (half-open).

    ``match`` holds globs for whole values; ``match_regex`` Python's regular expressions, found anywhere in a value, whose
    groups the names may use: ``team: "{team}"``, ``team: "{1}"``.
    """

    match: dict[MatchKey, str] = Field(default_factory=dict)
    match_regex: dict[MatchKey, str] = Field(default_factory=dict)
    team: str | None = None
    model: str | None = None
    cost_center: str | None = None
    valid_from: Instant | None = Field(default=None, alias="from")
    valid_until: Instant | None = Field(default=None, alias="until")

    @property
    def names(self) -> dict[str, str]:
        """The fields that the rule names, with their names or templates."""
        return {name: told for name in FIELDS if (told := getattr(self, name))}

    @model_validator(mode="after")
    def _readable(self) -> "OwnerRule":
        check_rule(self.match_regex, self.names)
        if not self.names:
            raise ValueError("the rule names no team, model or cost_center; add one, or take the rule out")
        if self.valid_from and self.valid_until and self.valid_from >= self.valid_until:
            raise ValueError("`from` must be before `until`; the rule would never hold")
        empty = [key for key, pattern in {**self.match, **self.match_regex}.items() if not pattern]
        if empty:
            raise ValueError(f"match.{empty[0]} is empty and would never fit; write a pattern, or leave it out")
        return self


class BucketOwner(Section):
    """Who stands for a bucket."""

    team: str | None = None
    model: str | None = None
    cost_center: str | None = None


class MappingEntry(Section):
    """A CSV file from finance, as the source ``mapping``."""

    path: Path


class TokenWeights(Section):
    """What a token counts for, 0 to 1000 with at most six decimals (kept in 10^-6)."""

    prompt: WeightPpm = Field(default="1", validate_default=True)
    generation: WeightPpm = Field(default="1", validate_default=True)

    @model_validator(mode="after")
    def _some(self) -> "TokenWeights":
        if not self.prompt and not self.generation:
            raise ValueError("prompt and generation are both 0, so nothing would count")
        return self


class CustomCounter(Section):
    """One counter of a server that is not known by name."""

    metric: str = Field(min_length=1)


class CustomTime(CustomCounter):
    """A counter of time."""

    unit: Literal["s", "ms", "us"] = "s"


class CounterLabels(Section):
    """Which label says what on the counters of a server that is not known by name."""

    namespace: str = "namespace"
    pod: str = "pod"
    model: str = "model"
    adapter: str | None = None


class CustomServer(Section):
    """The counters of a server that is not known by name."""

    prompt: CustomCounter | None = None
    generation: CustomCounter | None = None
    requests: CustomCounter | None = None
    compute_time: CustomTime | None = None
    labels: CounterLabels = CounterLabels()

    @model_validator(mode="after")
    def _some(self) -> "CustomServer":
        counters = [c.metric for c in (self.prompt, self.generation, self.requests, self.compute_time) if c is not None]
        if not counters:
            raise ValueError("name at least one of prompt, generation, requests, compute_time")
        if len(set(counters)) < len(counters):
            raise ValueError("two of prompt, generation, requests, compute_time name one metric; give each its own")
        return self


_WITHOUT_TIME = ("vllm", "sglang", "tgi")
"""Known servers that count tokens and no compute time; all known ones count requests."""


class ModelSplitEntry(Section):
    """How the row of one server is split over the models that it serves."""

    by: Literal["tokens", "requests", "compute_time"] = "tokens"
    weights: TokenWeights = TokenWeights()
    servers: list[Literal["auto", "vllm", "sglang", "tgi", "triton", "custom"]] = Field(default=["auto"], min_length=1)
    custom: CustomServer | None = None

    @model_validator(mode="after")
    def _complete(self) -> "ModelSplitEntry":
        if "auto" in self.servers and len(self.servers) > 1:
            raise ValueError("servers: auto means all of them; leave the others out, or auto")
        if "custom" in self.servers and self.custom is None:
            raise ValueError("servers: custom needs the section `custom`")
        if self.custom is not None and not {"auto", "custom"}.intersection(self.servers):
            raise ValueError("the section `custom` is there, and servers does not name custom")
        if self.custom is not None and not self._custom_weighs():
            raise ValueError("every counter that `custom` names weighs 0; set weights.prompt or weights.generation above 0")
        if "weights" in self.model_fields_set and not self._counts_tokens():
            raise ValueError(
                f"weights are for tokens, and under by: {self.by} none of the servers is weighed by tokens; take weights out, "
                "or set by: tokens"
            )
        return self

    def _counts_tokens(self) -> bool:
        """Whether any server is weighed by tokens: under another measure those that do not count it."""
        if self.by == "tokens":
            return True
        if self.custom is not None and (self.custom.prompt or self.custom.generation) and getattr(self.custom, self.by) is None:
            return True
        return self.by == "compute_time" and bool({"auto", *_WITHOUT_TIME}.intersection(self.servers))

    def _custom_weighs(self) -> bool:
        assert self.custom is not None  # noqa: S101
        tokens = (self.custom.prompt and self.weights.prompt, self.custom.generation and self.weights.generation)
        return any((*tokens, self.custom.requests, self.custom.compute_time))


class OwnersEntry(Section):
    """Where team, model and cost centre come from, in order."""

    team: list[OwnerSource] = Field(default_factory=list)
    model: list[OwnerSource] = Field(default_factory=list)
    cost_center: list[OwnerSource] = Field(default_factory=list)
    rules: list[OwnerRule] = Field(default_factory=list)
    buckets: dict[Literal["idle", "overhead", "stranded", "host", "unallocated"], BucketOwner] = Field(default_factory=dict)
    mapping: MappingEntry | None = None
    model_split: ModelSplitEntry | None = None

    @property
    def mapped(self) -> tuple[str, ...]:
        """The fields that the mapping names."""
        return tuple(name for name in FIELDS if MAPPING in getattr(self, name))

    @model_validator(mode="after")
    def _complete(self) -> "OwnersEntry":
        if self.mapped and self.mapping is None:
            raise ValueError(f"{self.mapped[0]} lists the source mapping; name its file: mapping: {{path: mapping.csv}}")
        if self.mapping is not None and not self.mapped:
            raise ValueError("mapping names a file, and no list names the source: write for example team: [label:team, mapping]")
        return self
