"""A made-up dump of Google's detailed export for ``bills``: the same bytes for the same seed. No expectations here."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

FILE_LINES = 1_000_000
_MACHINES = 50_000
_HOUR_MICROS = 3_600_000_000
_SPECS = ("a2-highgpu-1g", "a3-highgpu-8g", "g2-standard-12", "n2-standard-8", "e2-medium")
_SKUS = (
    *(f"Nvidia {m} GPU running in Americas" for m in ("Tesla A100", "H100 80GB", "L4")),
    *(f"{f} Instance {p} running in Americas" for f in ("A2", "A3", "G2", "N2", "E2") for p in ("Core", "Ram")),
    *(f"Spot Preemptible {f} Instance {p} running in Americas" for f in ("A2", "N2") for p in ("Core", "Ram")),
    "Storage PD Capacity", "Network Internet Egress from Americas to EMEA", *(f"Network Inter Zone {n}" for n in range(20)),
)  # fmt: skip
_CREDITS = ("DISCOUNT", "PROMOTION", "SUSTAINED_USAGE_DISCOUNT", "COMMITTED_USAGE_DISCOUNT_DOLLAR_BASE")
_UNITS = (("seconds", "hour"), ("byte-seconds", "gibibyte hour"), ("bytes", "gibibyte"))

Codes = npt.NDArray[np.int64]


def write_dump(root: Path, lines: int) -> None:
    """One month in Parquet files of a million rows, with records and lists as ``EXPORT DATA`` writes them."""
    root.mkdir(parents=True)
    for seed in range(-(-lines // FILE_LINES)):
        rows = made_up(seed, min(FILE_LINES, lines - seed * FILE_LINES))
        pq.write_table(rows, root / f"rows-{seed:012d}.parquet", compression="snappy", row_group_size=1 << 17)


def made_up(seed: int, lines: int) -> pa.Table:
    """Rows of a month in no order of time; a tenth of them has one or two credits, one in a hundred thousand is a fee."""
    random = np.random.default_rng(seed)
    begin = int(datetime(2026, 10, 1, tzinfo=UTC).timestamp()) * 10**6 + random.integers(0, 744, lines) * _HOUR_MICROS
    sku, machine = random.integers(0, len(_SKUS), lines), random.integers(0, _MACHINES, lines)
    fee = random.random(lines) < 1e-5
    skus = (*_SKUS, "Commitment - dollar based v1: GCP Compute Flexible CUD 1 Year")
    sku = np.where(fee, len(_SKUS), sku)
    unit = np.array([1 if "Ram" in s or "Storage" in s else 2 if "Network" in s else 0 for s in skus])[sku]
    project, nothing = machine % 60, machine * 0
    cost = np.round(random.random(lines) * 4, 6)
    zones = tuple(f"us-central1-{z}" for z in "abcf")
    paths = [f"projects/{10**11 + n % 60}/zones/{zones[n % 4]}/instances/{10**18 + n}" for n in range(_MACHINES)]
    numbers = tuple(f"//compute.googleapis.com/{path}" for path in paths)
    names = tuple(f"gke-train-pool-{n:08x}" for n in range(_MACHINES))
    columns = {
        "billing_account_id": few(("01ABCD-23EF45-67890A",), nothing),
        "service": record(id=few(("6F81-5844-456A",), nothing), description=few(("Compute Engine",), nothing)),
        "sku": record(id=few(tuple(f"{n:04X}-0000-0000" for n in range(len(skus))), sku), description=few(skus, sku)),
        "usage_start_time": times(begin),
        "usage_end_time": times(begin + _HOUR_MICROS),
        "project": record(
            id=few(tuple(f"project-{n}" for n in range(60)), project),
            number=few(tuple(f"{10**11 + n}" for n in range(60)), project),
            name=few(tuple(f"Project {n}" for n in range(60)), project),
            ancestry_numbers=few(("/987654321098/",), nothing),
        ),
        "labels": lists(np.full(lines, 2), ("goog-k8s-cluster-name", "team"), tuple(f"v{n}" for n in range(40)), random),
        "system_labels": specs(machine),
        "location": record(
            location=few(zones, machine % 4),
            country=few(("US",), nothing),
            region=few(("us-central1",), nothing),
            zone=few(zones, machine % 4),
        ),
        "resource": record(name=few(names, machine, fee), global_name=few(numbers, machine, fee)),
        "cost": pa.array(cost),
        "currency": few(("USD",), nothing),
        "currency_conversion_rate": pa.array(np.ones(lines)),
        "usage": record(
            amount=pa.array(np.round(random.random(lines) * 43200, 3)),
            unit=few(tuple(u for u, _ in _UNITS), unit),
            amount_in_pricing_units=pa.array(np.round(random.random(lines) * 12, 6)),
            pricing_unit=few(tuple(p for _, p in _UNITS), unit),
        ),
        "credits": credits_of(random, lines, cost),
        "invoice": record(month=few(("202610",), nothing)),
        "cost_type": few(("regular",), nothing),
        "adjustment_info": record(id=few(("",), nothing, nothing == 0), type=few(("",), nothing, nothing == 0)),
        "export_time": times(begin + random.integers(2, 30, lines) * _HOUR_MICROS),
        "cost_at_list": decimals(cost),
        "cost_at_effective_price_default": decimals(cost * 0.9),
        "transaction_type": few(("GOOGLE",), nothing),
        "seller_name": few(("",), nothing, nothing == 0),
        "consumption_model": record(
            id=few(("7754-699E-0EBF", "1DE0-3B28-F1C4"), sku % 2), description=few(("Default", "Compute Flexible CUDs"), sku % 2)
        ),
    }
    return pa.table(columns)


def few(words: Sequence[str], codes: Codes, absent: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """A column of few words, by the code of each row; null where absent."""
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32), mask=absent), pa.array(words)).cast(pa.string())


def record(**fields: pa.Array) -> pa.Array:
    """A column of records."""
    return pa.StructArray.from_arrays(list(fields.values()), list(fields))


def times(micros: Codes) -> pa.Array:
    """TIMESTAMP, by microseconds."""
    return pa.array(micros).cast(pa.timestamp("us", tz="UTC"))


def decimals(amounts: npt.NDArray[np.float64]) -> pa.Array:
    """BigQuery's NUMERIC, of six decimals."""
    return pa.array(np.round(amounts, 6)).cast(pa.decimal128(38, 9))


def lists(counts: Codes, keys: Sequence[str], values: Sequence[str], random: np.random.Generator) -> pa.Array:
    """Lists of key and value, so many in each row."""
    place = np.concatenate([[0], np.cumsum(counts)])
    flat = np.arange(place[-1])
    pairs = record(key=few(keys, flat % len(keys)), value=few(values, random.integers(0, len(values), len(flat))))
    return pa.ListArray.from_arrays(pa.array(place.astype(np.int32)), pairs)


def specs(machine: Codes) -> pa.Array:
    """The two system labels of a machine: its cores and its type."""
    flat = np.repeat(machine % len(_SPECS), 2)
    first = np.arange(len(flat)) % 2 == 0
    words = (*(str(8 * n) for n in range(1, 6)), *_SPECS)
    pairs = record(
        key=few(("compute.googleapis.com/cores", "compute.googleapis.com/machine_spec"), (~first).astype(np.int64)),
        value=few(words, np.where(first, flat, flat + len(_SPECS))),
    )
    return pa.ListArray.from_arrays(pa.array(np.arange(0, len(flat) + 1, 2, dtype=np.int32)), pairs)


def credits_of(random: np.random.Generator, lines: int, cost: npt.NDArray[np.float64]) -> pa.Array:
    """One or two credits on a tenth of the rows."""
    counts = np.where(random.random(lines) < 0.1, random.integers(1, 3, lines), 0)
    place = np.concatenate([[0], np.cumsum(counts)])
    kind = random.integers(0, len(_CREDITS), place[-1])
    names = few(tuple(f"credit {n}" for n in range(len(_CREDITS))), kind)
    amount = pa.array(np.round(-0.1 * np.repeat(cost, counts), 6))
    given = record(name=names, amount=amount, full_name=names, id=names, type=few(_CREDITS, kind))
    return pa.ListArray.from_arrays(pa.array(place.astype(np.int32)), given)
