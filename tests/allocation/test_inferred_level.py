"""Pods that only the inventory says hold a device: what they get, and how sure it is. Worked out by hand."""

from allocation.findings import Code
from allocation.policy import Policy
from allocation.usage import Measured
from tests.oracle import Holder, Machine, Period, Series
from tests.shards import Shard, measured

GIB = 2**30
START = 1_790_812_800_000
LENGTH = 600_000
TIMES = tuple(range(START, START + LENGTH, 30_000))
ALL = LENGTH * GIB
A: Holder = ("ns", "a", "1")
B: Holder = ("ns", "b", "2")


def constant(role: str, gib: int, holder: Holder = ("", "", ""), level: str = "container") -> Series:
    return Series(role, "GPU-1", tuple((t, gib * GIB) for t in TIMES), holder=holder, level=level, metric=f"{role}-{level}")


def swept(*series: Series) -> Measured:
    """Ten minutes of a card of 80 GiB."""
    machine = Machine(gpus=1, memory=80 * GIB)
    return measured(Shard(series, (machine,), (Period(START, START + LENGTH, LENGTH),), Policy(60_000, 300_000)))


def weights_of(answer: Measured) -> dict[str, tuple[int, int, int, str]]:
    """Used, overhead and idle byte-ms, and the basis, of each pod."""
    return {
        row["pod"]: (int(row["used_byte_ms"]), int(row["overhead_byte_ms"]), int(row["idle_byte_ms"]), row["basis"])
        for row in answer.usage.to_pylist()
        if row["bucket"] == "workload"
    }


def codes_of(answer: Measured) -> set[Code]:
    return {finding.code for finding in answer.findings}


def test_one_has_all_that_the_device_uses() -> None:
    answer = swept(constant("used", 40), constant("pod_memory", 0, A, "inferred"))
    assert weights_of(answer) == {"a": (40 * ALL, 0, 40 * ALL, "inferred")}
    assert not codes_of(answer) & {Code.POD_MEMORY_NOT_MAPPED, Code.REPEATED_DEVICE_VALUES}


def test_several_share_evenly() -> None:
    answer = swept(constant("used", 40), *(constant("pod_memory", 0, pod, "inferred") for pod in (A, B)))
    assert weights_of(answer) == dict.fromkeys("ab", (20 * ALL, 0, 20 * ALL, "inferred"))
    assert not codes_of(answer) & {Code.POD_MEMORY_NOT_MAPPED, Code.REPEATED_DEVICE_VALUES}


def test_several_share_by_what_all_of_them_declared() -> None:
    pods = [constant("pod_memory", 0, pod, "inferred") for pod in (A, B)]
    answer = swept(constant("used", 40), *pods, constant("declared", 10, A), constant("declared", 30, B))
    assert weights_of(answer) == {"a": (10 * ALL, 0, 10 * ALL, "inferred"), "b": (30 * ALL, 0, 30 * ALL, "inferred")}


def test_a_device_not_in_use_is_idle_for_them() -> None:
    pods = [constant("pod_memory", 0, pod, "inferred") for pod in (A, B)]
    for own in ([constant("used", 0)], [constant("total", 80)]):
        answer = swept(*own, *pods)
        assert weights_of(answer) == dict.fromkeys("ab", (0, 0, 40 * ALL, "inferred"))
        assert not codes_of(answer) & {Code.POD_MEMORY_NOT_MAPPED, Code.REPEATED_DEVICE_VALUES}


def test_beside_a_measured_pod_it_has_no_bytes() -> None:
    answer = swept(constant("used", 40), constant("pod_memory", 30, A), constant("pod_memory", 0, B, "inferred"))
    assert weights_of(answer) == {"a": (30 * ALL, 10 * ALL, 40 * ALL, "measured"), "b": (0, 0, 0, "inferred")}


def test_a_row_of_the_exporter_beside_it_tells_that_the_mapping_is_broken() -> None:
    rows = constant("pod_memory", 0, A, "device"), constant("pod_memory", 0, B, "inferred")
    answer = swept(constant("used", 40, level="device"), *rows)
    assert weights_of(answer) == {"a": (20 * ALL, 0, 20 * ALL, "estimated_even"), "b": (20 * ALL, 0, 20 * ALL, "inferred")}
    assert Code.POD_MEMORY_NOT_MAPPED in codes_of(answer)
