"""The frozen choices of a run: how long a sample holds, who bears overhead, idle, stranded memory and the host's part."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from typing import Literal

OverheadPolicy = Literal["proportional", "even", "separate"]
IdlePolicy = Literal["holder", "separate", "proportional", "even"]
StrandedPolicy = Literal["separate", "spread"]
HostPolicy = Literal["separate", "by_requests"]
UnattributedPolicy = Literal["out_of_scope", "spread"]
WHOLE_PPB = 10**9
BY_SKU = -1
"""In place of a share: lines of GPUs go to the GPUs, lines of cores and memory to the host (R48)."""
FROM_LIST_PRICES = -2
"""In place of a share: what the GPUs are of the sum of the machine's list prices (R48); it is told frame by frame."""
_SILENT: Mapping[str, object] = {"gpu_shares": (), "host": "separate", "unattributed": "out_of_scope"}
"""Choices that came after the first release, with the value that changes nothing: with it they are no part of ``policy_id``."""


@dataclass(frozen=True)
class Policy:
    """See the configuration's ``policy`` section; durations in ms, memory in bytes, shares in parts of 10^9.

    A share is also ``BY_SKU`` or ``FROM_LIST_PRICES``.
    """

    max_hold_ms: int = 120_000
    max_gap_ms: int = 900_000
    overhead: OverheadPolicy = "proportional"
    idle: IdlePolicy = "holder"
    stranded: StrandedPolicy = "separate"
    gpu_share_ppb: int = WHOLE_PPB
    min_coverage: float = 0.5
    reserved_bytes: Mapping[str, int] = field(default_factory=dict)
    gpu_shares: tuple[tuple[str, int], ...] = ()
    """Instance types, or shell patterns of them, with the GPUs' part; of other types it is ``gpu_share_ppb``."""
    host: HostPolicy = "separate"
    unattributed: UnattributedPolicy = "out_of_scope"

    @property
    def policy_id(self) -> str:
        """A hash of the choices, on every row."""
        told = {**asdict(self), "reserved_bytes": dict(self.reserved_bytes)}
        told = {name: value for name, value in told.items() if name not in _SILENT or value != _SILENT[name]}
        text = json.dumps(told, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def chooses(self, choice: int) -> bool:
        """Whether any machine's share can be this one (``BY_SKU``, ``FROM_LIST_PRICES``)."""
        return choice in (self.gpu_share_ppb, *(share for _, share in self.gpu_shares))

    def share_of(self, instance_type: object) -> int:
        """The GPUs' part of the price of a machine of this type: by its name, else the first pattern that fits.

        In parts of 10^9, or ``BY_SKU`` or ``FROM_LIST_PRICES``.
        Anything but a text is an unknown type, which only ``gpu_share_ppb`` speaks of.
        """
        if not isinstance(instance_type, str):
            return self.gpu_share_ppb
        exact = dict(self.gpu_shares).get(instance_type)
        fits = (share for pattern, share in self.gpu_shares if fnmatchcase(instance_type, pattern))
        return next(fits, self.gpu_share_ppb) if exact is None else exact
