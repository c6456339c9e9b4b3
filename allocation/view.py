"""A shard's runs as the findings look at them: tables of its devices, pod series and holders within the frames.

Here belongs what several findings read, and how a finding is addressed. What is found stands in ``noticed_devices`` and
``noticed_pods``, the passes over runs in ``figures``.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from allocation import instant
from allocation.compiled import read_only
from allocation.devices import Shard
from allocation.figures import COVERED, LARGEST, POSITIVE, SMALLEST, series_figures, sizes_by_series
from allocation.findings import Code, Finding, Severity
from allocation.held import Held
from allocation.lives import POD_KEY
from allocation.policy import Policy
from allocation.ranks import places_in
from allocation.stretches import Stretches, Windows, stretches_of, windows_of
from allocation.times import from_ms

Int64 = npt.NDArray[np.int64]
GIB = 2**30


@dataclass(frozen=True)
class View:
    """What the findings look at: a shard's runs, the frames (``machine``, ``start_ms``, ``end_ms``), and figures of both."""

    held: Held
    frames: pd.DataFrame
    policy: Policy

    @property
    def shard(self) -> Shard:
        """The shard."""
        return self.held.shard

    @cached_property
    def windows(self) -> Windows:
        """The union of each machine's frames."""
        return windows_of(self.frames, len(self.shard.machines))

    @cached_property
    def stretches(self) -> Stretches:
        """When each series holds anything."""
        found: Stretches = stretches_of(self.held.runs)
        return found

    @cached_property
    def devices(self) -> pd.DataFrame:
        """The devices with ``machine``, ``gpu_uuid``, ``partitioned`` (a card with instances) and ``size`` (K, NaN unknown).

        Also what series say of the size: ``total``, ``whole``, ``visible``; and ``stated``: what is configured or on the
        nameplate. Bytes, NaN where unknown.
        """
        gpus, topology = self.shard.gpus, self.shard.topology
        table = self.shard.devices[["gpu", "gpu_instance"]].assign(
            machine=gpus.machine.to_numpy()[self.shard.devices.gpu], gpu_uuid=gpus.gpu_uuid.to_numpy()[self.shard.devices.gpu]
        )
        said = sizes_by_series(
            self.held.runs, self.figures, topology.role, topology.includes_reserved, topology.series_offsets,
            read_only(self.series.machine.to_numpy(np.int64)), self.windows,
        )  # fmt: skip
        for k, name in enumerate(("total", "whole", "visible")):
            table[name] = np.where(said[:, k] > 0, said[:, k], np.nan)
        stated = np.where(topology.configured > 0, topology.configured, topology.nameplate)[self.shard.devices.gpu]
        whole = (table.gpu_instance == "").to_numpy()
        several = np.diff(topology.device_offsets)[self.shard.devices.gpu] > 1
        table = table.assign(stated=np.where(whole & (stated > 0), stated, np.nan), partitioned=whole & several)
        return table.assign(size=table.total.fillna(table.whole).fillna(table.stated).fillna(table.visible))

    @cached_property
    def _numbers(self) -> Int64:
        topology = self.shard.topology
        return np.repeat(np.arange(len(self.shard.devices)), np.diff(topology.series_offsets))

    @cached_property
    def series(self) -> pd.DataFrame:
        """One row a series: ``role``, ``level``, ``device``, ``machine``, ``holder`` (number, -1 for none)."""
        topology, device = self.shard.topology, self._numbers
        gpu = self.shard.devices.gpu.to_numpy(np.int64)[device]
        is_pod = topology.role == instant.POD
        holder = np.full(len(device), -1, np.int64)
        place = topology.device_holder_offsets[device] + topology.local
        holder[is_pod] = topology.device_holders[place[is_pod]]
        return pd.DataFrame(
            {
                "role": topology.role, "level": topology.level, "device": device, "holder": holder,
                "machine": self.shard.gpus.machine.to_numpy(np.int64)[gpu],
            }
        )  # fmt: skip

    @cached_property
    def figures(self) -> Int64:
        """Figures of every series within the frames (columns as in ``figures``)."""
        gpu = self.shard.devices.gpu.to_numpy(np.int64)[self._numbers]
        return np.asarray(
            series_figures(self.held.runs, read_only(self.shard.gpus.machine.to_numpy(np.int64)[gpu]), self.windows)
        )

    @cached_property
    def pods(self) -> pd.DataFrame:
        """One row a pod series within the frames: ``covered``, ``positive`` ms, ``smallest``, ``largest`` bytes."""
        names = dict(zip(("covered", "positive", "smallest", "largest"), (COVERED, POSITIVE, SMALLEST, LARGEST), strict=True))
        table = self.series.assign(**{name: self.figures[:, column] for name, column in names.items()})
        return table[(table.role == instant.POD) & (table.covered > 0)]

    @cached_property
    def holders(self) -> pd.DataFrame:
        """The shard's holders with what the inventory knows of them (``known``: it knows the pod)."""
        holders, lives = self.shard.holders, self.held.lives
        place = places_in(holders, lives, POD_KEY)
        told = lives.drop(columns=["node", *POD_KEY])
        told = (
            told.iloc[place]
            if (place >= 0).all()
            else told.reset_index(drop=True).reindex(np.where(place < 0, len(lives), place))
        )
        return holders.assign(**{name: told[name].array for name in told.columns}, known=place >= 0)

    @cached_property
    def frame_ms(self) -> Int64:
        """How long the union of each machine's frames is."""
        length = np.concatenate(([0], np.cumsum(self.windows.end - self.windows.start)))
        return np.asarray(length[self.windows.offsets[1:]] - length[self.windows.offsets[:-1]])

    def device_name(self, device: int) -> str:
        """``gpu`` or ``gpu/instance``."""
        return self._device_names[device]

    @cached_property
    def _device_names(self) -> list[str]:
        both = zip(self.devices.gpu_uuid, self.devices.gpu_instance, strict=True)
        return ["/".join(part for part in parts if part) for parts in both]

    @cached_property
    def _node_names(self) -> list[str]:
        return list(self.shard.machines.node)

    @cached_property
    def _machine_of_device(self) -> list[int]:
        return [int(machine) for machine in self.devices.machine]

    def of_device(self, code: Code, device: int, evidence: str, severity: Severity = Severity.WARNING) -> Finding:
        """A finding about a device."""
        machine = self._machine_of_device[device]
        subject = f"{self._node_names[machine]}/{self.device_name(device)}"
        return Finding(code, severity, subject, evidence, self.period_of([machine]))

    def of_pods(
        self, code: Code, rows: pd.DataFrame, evidence: "pd.Series[str]", severity: Severity = Severity.WARNING
    ) -> list[Finding]:
        """One finding a pod: ``rows`` has ``namespace``, ``pod``, ``machine``; the evidence of one pod's rows is joined."""
        told: dict[tuple[str, str], list[tuple[int, str]]] = {}
        for namespace, pod, machine, text in zip(rows.namespace, rows.pod, rows.machine, evidence, strict=True):
            told.setdefault((namespace, pod), []).append((int(machine), text))
        return [
            Finding(
                code, severity, "/".join(pod), "; ".join(dict.fromkeys(text for _, text in told[pod])),
                self.period_of([machine for machine, _ in told[pod]]), len(told[pod]),
            )
            for pod in sorted(told)
        ]  # fmt: skip

    def period_of(self, machines: "pd.Series[int] | list[int] | Int64") -> tuple[pd.Timestamp, pd.Timestamp]:
        """From the first frame of these machines to the end of their last."""
        first, last = self.windows.offsets[list(machines)], self.windows.offsets[np.array(list(machines)) + 1] - 1
        return from_ms(self.windows.start[first].min()), from_ms(self.windows.end[last].max())


def gib(size: float) -> str:
    """Bytes in GiB, for people."""
    return f"{size / GIB:.3f}"
