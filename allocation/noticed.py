"""All findings that series and inventory give together. None of them changes an amount."""

import pandas as pd

from allocation.findings import Finding
from allocation.held import Held
from allocation.noticed_devices import notice_devices
from allocation.noticed_pods import notice_pods
from allocation.policy import Policy
from allocation.view import View


def notice(held: Held, frames: pd.DataFrame, policy: Policy) -> list[Finding]:
    """What is strange about devices and pods within the frames (``machine``, ``start_ms``, ``end_ms``)."""
    if not len(held.shard.devices) or frames.empty:
        return []
    view = View(held, frames, policy)
    return [*notice_devices(view), *notice_pods(view)]
