"""The quick start's made-up day: nodes, pods, and who stood on which GPU from when to when.

Only the scene belongs here, not how it is written down (``generate.py``). Whole numbers only, so that every machine
sees the same day.
"""

from collections.abc import Callable
from dataclasses import dataclass

DAY_START = 1_790_812_800  # 2026-10-01T00:00:00Z
HOUR = 3600
DAY = 24 * HOUR
SCRAPE = 120
A10G = "NVIDIA A10G"
RTX = "NVIDIA RTX PRO 6000 Blackwell Server Edition"


def at(clock: str) -> int:
    """Seconds after the day's start: ``at("13:06") == 47160``."""
    hours, minutes = clock.split(":")
    return int(hours) * HOUR + int(minutes) * 60


@dataclass(frozen=True)
class Node:
    """A machine; ``outages`` are (last scrape, next scrape) around a silence of its exporter."""

    name: str
    instance_id: str
    instance_type: str
    resources: dict[str, int]
    outages: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Pod:
    """A pod, from its first to its last sight in the day."""

    node: str
    namespace: str
    name: str
    uid: str
    kind: str
    owner: str
    labels: dict[str, str]
    resource: str = "nvidia_com_gpu"
    first: int = 0
    last: int = DAY - SCRAPE


@dataclass(frozen=True)
class Row:
    """One series of a device: who stands on it, from when to when, and what the device uses then."""

    node: str
    labels: dict[str, str]
    visible_mib: int
    used: Callable[[int], int]
    pod: Pod | None = None
    start: int = 0
    end: int = DAY


NODES = {
    "gpu-a": Node("gpu-a", "i-0a1f3c5e7d9b2a4c6", "g5.12xlarge", {"nvidia_com_gpu": 12}, ((at("10:04"), at("10:14")),)),
    "gpu-b": Node(
        "gpu-b",
        "i-0b2e4d6f8a1c3e5b7",
        "g7e.12xlarge",
        {"nvidia_com_gpu": 1, "nvidia_com_mig_2g_48gb": 1, "nvidia_com_mig_1g_24gb": 1},
        ((at("03:10"), at("03:52")),),
    ),
    "gpu-c": Node("gpu-c", "i-0c3d5e7f9b1a2c4d6", "g7e.12xlarge", {"nvidia_com_gpu": 2}),
}

EMBEDDER = {"label_team": "search", "label_model": "embed-large"}
EMBEDDER_BEFORE = Pod("gpu-a", "search", "embedder-0", "7c1d6b52", "StatefulSet", "embedder", EMBEDDER, last=at("13:02"))
EMBEDDER_AFTER = Pod("gpu-a", "search", "embedder-0", "e4902fa8", "StatefulSet", "embedder", EMBEDDER, first=at("13:06"))
CHAT = Pod(
    "gpu-a",
    "assistant",
    "chat-6d5f-x2k8q",
    "1f0b7a34",
    "ReplicaSet",
    "chat-6d5f",
    {"label_team": "assistant", "label_model": "chat-8b"},
)
RERANKER = Pod(
    "gpu-a",
    "search",
    "reranker-84c9-mm4tz",
    "92ad03c7",
    "ReplicaSet",
    "reranker-84c9",
    {"label_team": "search", "label_app_kubernetes_io_name": "reranker"},
)
TAGGER = Pod("gpu-a", "support", "tagger-5b77-p9wlc", "c83e5d10", "ReplicaSet", "tagger-5b77", {"label_team": "support"})
OCR = Pod(
    "gpu-a",
    "documents",
    "ocr-nightly-7hq2d",
    "3ab96e8f",
    "Job",
    "ocr-nightly",
    {"label_team": "documents", "label_app_kubernetes_io_name": "ocr"},
    first=at("08:00"),
    last=at("19:58"),
)
TRAINER = Pod(
    "gpu-b",
    "research",
    "trainer-0",
    "60d2f97b",
    "StatefulSet",
    "trainer",
    {"label_team": "research", "label_model": "base-7b"},
)
DRAFT = Pod(
    "gpu-b",
    "assistant",
    "draft-79cb-r5j6n",
    "b51c48e2",
    "ReplicaSet",
    "draft-79cb",
    {"label_team": "assistant", "label_model": "draft-1b"},
    "nvidia_com_mig_2g_48gb",
)
NOTEBOOK = Pod("gpu-b", "notebooks", "notebook-lin-0", "0e7d19a6", "StatefulSet", "notebook-lin", {}, "nvidia_com_mig_1g_24gb")
SIMULATION = Pod(
    "gpu-c",
    "research",
    "simulation-0",
    "f26b80d4",
    "StatefulSet",
    "simulation",
    {"label_team": "research", "label_model": "weather"},
)
PODS = (
    EMBEDDER_BEFORE,
    EMBEDDER_AFTER,
    CHAT,
    RERANKER,
    TAGGER,
    OCR,
    TRAINER,
    DRAFT,
    NOTEBOOK,
    SIMULATION,
)


def wave(base: int, swing: int, period: int, salt: int) -> Callable[[int], int]:
    """Slowly rising and falling MiB with a little unrest, from whole numbers alone."""

    def used(second: int) -> int:
        phase = (second + salt * 977) % period
        unrest = ((second // SCRAPE) * 2_654_435_761 + salt * 40_503 >> 9) % 23
        return base + 2 * swing * min(phase, period - phase) // period + unrest

    return used


def nothing(_second: int) -> int:
    """A device that nobody uses."""
    return 0


def device(uuid: str, model: str) -> dict[str, str]:
    """The exporter's labels of a device."""
    return {"UUID": uuid, "modelName": model}


def rows() -> list[Row]:
    """Every series of the two exporters, device by device."""
    a0, a1 = device("GPU-a0c1f7d2", A10G), device("GPU-a19e3b64", A10G)
    a2, a3 = device("GPU-a2d85c0f", A10G), device("GPU-a37b61e8", A10G)
    b0, b1 = device("GPU-b04f9a2e", RTX), device("GPU-b1c7d350", RTX)
    embed, shared = wave(9_300, 2_600, 5 * HOUR, 1), wave(14_200, 4_800, 7 * HOUR, 2)
    sharers = [Row("gpu-a", {**a1, "vgpu": str(n)}, 22_502, shared, pod) for n, pod in enumerate((CHAT, RERANKER, TAGGER))]
    wide, narrow = {"GPU_I_PROFILE": "2g.48gb", "GPU_I_ID": "1"}, {"GPU_I_PROFILE": "1g.24gb", "GPU_I_ID": "5"}
    return [
        Row("gpu-a", a0, 22_502, embed, EMBEDDER_BEFORE, end=at("13:04")),
        Row("gpu-a", a0, 22_502, nothing, start=at("13:04"), end=at("13:06")),
        Row("gpu-a", a0, 22_502, embed, EMBEDDER_AFTER, start=at("13:06")),
        *sharers,
        Row("gpu-a", a2, 22_502, nothing, end=at("08:00")),
        Row("gpu-a", a2, 22_502, wave(11_000, 6_500, 2 * HOUR, 3), OCR, at("08:00"), at("20:00")),
        Row("gpu-a", a2, 22_502, nothing, start=at("20:00")),
        Row("gpu-a", a3, 22_502, nothing),
        Row("gpu-b", b0, 97_251, wave(78_400, 9_200, 3 * HOUR, 4), TRAINER),
        Row("gpu-b", {**b1, **wide}, 48_512, wave(21_000, 14_000, 6 * HOUR, 5), DRAFT),
        Row("gpu-b", {**b1, **narrow}, 24_192, wave(2_900, 5_100, 9 * HOUR, 6), NOTEBOOK),
    ]
