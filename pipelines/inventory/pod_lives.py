"""When a pod started and ended, as far as that is known for certain.

A known start or end clips what the samples say, so only what cannot cut into a life counts. The start is the kubelet's word
(``kube_pod_start_time``), else the earliest start of a container, else the creation. The end is ``kube_pod_completion_time``,
else the first sight of a terminal phase. The completion time alone is stated as soon as *one* container has terminated, so where
phases are known it needs a terminal phase beside it; an end before the start is no end. That a pod is no longer seen, or is to be
deleted, is no end: kube-state-metrics may be away, and a pod may take its time.
Source: kubernetes/kube-state-metrics internal/store/pod.go.
"""

import numpy as np
import pandas as pd

from pipelines.inventory.pod_sights import PodSights
from pipelines.inventory.stretches import LATEST_MS, last_of

_TERMINAL = ("Succeeded", "Failed")


def lives(sights: PodSights) -> pd.DataFrame:
    """``started_ms`` and ``ended_ms`` of each pod (NaN: unknown), and ``ended_early_ms``: an end that lay before the start."""
    pods = len(sights.pods)
    containers = _moments(sights, "kube_pod_container_state_started")
    started = _last(_moments(sights, "kube_pod_start_time"), pods)
    started = started.fillna(containers.groupby("pod").moment_ms.min()).fillna(_last(_moments(sights, "kube_pod_created"), pods))
    terminal, phased = _terminal(sights, pods)
    completed = _last(_moments(sights, "kube_pod_completion_time"), pods)
    ended = completed.where(~phased | terminal.notna()).fillna(terminal)
    early = ended < started
    return pd.DataFrame({"started_ms": started, "ended_ms": ended.mask(early), "ended_early_ms": ended.where(early)})


def _moments(sights: PodSights, metric: str) -> pd.DataFrame:
    """What a metric states as a time, without what cannot be one."""
    said = sights.of(metric)
    said = said.assign(moment_ms=said.value * 1000)
    return said[(said.moment_ms > 0) & (said.moment_ms < LATEST_MS)]


def _last(said: pd.DataFrame, pods: int) -> "pd.Series[float]":
    told = last_of(said, "pod", ["last_ms", "first_ms", "moment_ms"])
    return told.set_index("pod").moment_ms.reindex(range(pods))


def _terminal(sights: PodSights, pods: int) -> tuple["pd.Series[float]", "pd.Series[bool]"]:
    """First sight of the terminal phase in which each pod was last seen (NaN for none), and whether its phases are known."""
    said = sights.of("kube_pod_status_phase", "phase")
    said = said[said.value == 1]
    over = said.phase.isin(_TERMINAL)
    living = said[~over].groupby("pod").last_ms.max()
    ends = said[over].join(living.rename("lived_ms"), on="pod")
    ends = ends[ends.last_ms >= ends.lived_ms.fillna(-1)]
    phased = np.zeros(pods, np.bool_)
    phased[said.pod] = True
    return ends.groupby("pod").first_ms.min().reindex(range(pods)).astype("float64"), pd.Series(phased)
