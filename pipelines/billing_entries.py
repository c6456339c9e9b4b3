"""The configuration's section ``billing``: bills, the money that is read of them, and which of their lines are split.

What an adapter makes of an entry is ``billing_adapters``' knowledge.
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from billing_adapters.base import DateOrder
from billing_adapters.currencies import ensure_currency
from billing_adapters.files import holds_secret
from pipelines.scope_settings import ScopeRuleEntry
from pipelines.section import Section
from pipelines.values import Bytes, DurationMs, Instant

CostMetric = Literal["billed", "effective", "contracted", "list"]
AWS_REPORTS = ("aws-cur", "aws-cur2")
GOOGLE = "gcp"
AZURE = "azure"
RATE_CARD = "rate-card"


_OF_ONE_KIND = {"query_project": GOOGLE, "max_bytes_billed": GOOGLE, "include_promotions": GOOGLE, "date_order": AZURE}
_OF_BIGQUERY = ("query_project", "max_bytes_billed")
_DECIDING = ("include_promotions", "date_order")
"""Settings of one kind that decide what its lines say."""


class CapacityBlockEntry(Section):
    """Machines that AWS sold for a time at one price: their fee is spread over that time, and over them."""

    id: str = Field(pattern=r"^cr-[0-9a-zA-Z]+$")
    start: Instant = Field(alias="from")
    until: Instant
    instances: int | None = Field(default=None, ge=1, le=1000)
    nodes: list[Annotated[str, Field(pattern=r"^i-[0-9a-zA-Z]+$")]] = Field(default_factory=list)

    @model_validator(mode="after")
    def _complete(self) -> "CapacityBlockEntry":
        if self.until <= self.start:
            raise ValueError("`until` must be after `from`")
        if self.instances is None and not self.nodes:
            raise ValueError("say how many `instances` the block has, or name its `nodes`")
        if self.instances is not None and self.instances < len(self.nodes):
            raise ValueError("`nodes` names more than `instances`")
        return self


class BillingEntry(Section):
    """One bill export; ``cost`` is one metric, or a list of which every table then holds each."""

    kind: Literal["focus", "aws-cur", "aws-cur2", "gcp", "azure", "rate-card"]
    path: str
    cost: CostMetric | list[CostMetric] = "billed"
    name: str | None = None
    currency: Annotated[str, AfterValidator(ensure_currency)] | None = None
    endpoint_url: str | None = None
    region: str | None = None
    include: list[ScopeRuleEntry] = Field(default_factory=list)
    exclude: list[ScopeRuleEntry] = Field(default_factory=list)
    profile: str | None = None
    role_arn: str | None = Field(default=None, pattern=r"^arn:[^:]+:iam::\d{12}:role/.+")
    external_id: str | None = None
    capacity_blocks: list[CapacityBlockEntry] = Field(default_factory=list)
    query_project: str | None = None
    max_bytes_billed: Bytes = 100 << 30
    include_promotions: bool = False
    date_order: DateOrder = "month_first"
    final_after: DurationMs | None = None

    @property
    def marks(self) -> list[object]:
        """What of the entry decides the lines beside the delivery; a change of it makes them anew."""
        blocks = [block.model_dump(mode="json") for block in self.capacity_blocks]
        own = {name: getattr(self, name) for name in _OF_ONE_KIND if name in _DECIDING and name in self.model_fields_set}
        return [self.kind, self.name, *self.costs, self.currency, *([blocks] if blocks else []), *([own] if own else [])]

    @property
    def costs(self) -> tuple[CostMetric, ...]:
        """The metrics, at least one."""
        return (self.cost,) if isinstance(self.cost, str) else tuple(self.cost)

    @field_validator("cost")
    @classmethod
    def _distinct(cls, cost: CostMetric | list[CostMetric]) -> CostMetric | list[CostMetric]:
        if isinstance(cost, list) and (not cost or len(set(cost)) < len(cost)):
            raise ValueError("name one metric, or several once each")
        return cost

    @field_validator("path", "endpoint_url")
    @classmethod
    def _without_secret(cls, url: str | None) -> str | None:
        if url is not None and holds_secret(url):
            raise ValueError("holds a token or a password; it belongs in the environment (docs/bills)")
        return url

    @model_validator(mode="after")
    def _of_its_kind(self) -> "BillingEntry":
        if self.external_id is not None and self.role_arn is None:
            raise ValueError("`external_id` is told to a role: name `role_arn`")
        if self.kind == RATE_CARD and (self.include or self.exclude):
            raise ValueError("a rate card has no `include` and `exclude`: its rates' `match` says what it charges")
        if self.kind == RATE_CARD and self.final_after is not None:
            raise ValueError("a rate card has no `final_after`: it is final when the month is over")
        if self.capacity_blocks and self.kind not in AWS_REPORTS:
            raise ValueError(f"`capacity_blocks` belong to the kinds {', '.join(AWS_REPORTS)}")
        for name, kind in _OF_ONE_KIND.items():
            if name in self.model_fields_set and self.kind != kind:
                raise ValueError(f"`{name}` belongs to the kind {kind}")
        alien = [name for name in _OF_BIGQUERY if name in self.model_fields_set and not self.path.startswith("bigquery://")]
        if alien:
            raise ValueError(f"`{alien[0]}` belongs to a path bigquery://PROJECT.DATASET.TABLE")
        ids = [block.id.lower() for block in self.capacity_blocks]
        if len(set(ids)) < len(ids):
            raise ValueError("`capacity_blocks` names a block twice")
        return self
