"""The frozen choices of a run: how long a sample holds, who bears overhead, idle and stranded memory."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

OverheadPolicy = Literal["proportional", "even", "separate"]
IdlePolicy = Literal["holder", "separate", "proportional", "even"]
StrandedPolicy = Literal["separate", "spread"]
UnattributedPolicy = Literal["out_of_scope", "spread"]


@dataclass(frozen=True)
class Policy:
    """See the configuration's ``policy`` section; durations in ms, memory in bytes, shares in parts of 10^9."""

    max_hold_ms: int = 120_000
    max_gap_ms: int = 900_000
    overhead: OverheadPolicy = "proportional"
    idle: IdlePolicy = "holder"
    stranded: StrandedPolicy = "separate"
    gpu_share_ppb: int = 1_000_000_000
    min_coverage: float = 0.5
    reserved_bytes: Mapping[str, int] = field(default_factory=dict)
    unattributed: UnattributedPolicy = "out_of_scope"

    @property
    def policy_id(self) -> str:
        """A hash of the choices, on every row."""
        text = json.dumps({**asdict(self), "reserved_bytes": dict(self.reserved_bytes)}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]
