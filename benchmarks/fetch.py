"""How fast samples come from real servers, as ratios of times taken in one run.

    python -m benchmarks.fetch [--small]

Fills a real Prometheus and a real VictoriaMetrics with the same ten million samples (``fetch_data``), and fetches a day of them
shard by shard into nothing, each time in a process of its own. Beside it the servers answer the very same requests to a client
that throws the bytes away. ``README.md`` says what each ratio means. Ends with 1 where a bar is missed. ``--small``: 0.2 million,
two rounds.
"""

import argparse
import hashlib
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import requests
import urllib3
from prometheus_api_client import MetricRangeDataFrame, PrometheusConnect
from requests.adapters import BaseAdapter

from benchmarks.bars import Bar, show
from benchmarks.fetch_data import DAY, GPUS, METRIC, START, import_lines, labels_of, nodes_for, write_open_metrics
from benchmarks.fleet import worker_pids
from benchmarks.fleet_data import instance_id, write_bill
from benchmarks.machine import peak_mib
from pipelines.metric_sources.prometheus_json import read_answer, read_matrix
from pipelines.metric_sources.registry import load_metric_source
from pipelines.metrics_entries import MetricsEntry
from pipelines.results import RESULT_TABLES
from pipelines.settings import load_settings
from pipelines.stages import run_day
from pipelines.walk import open_walk
from tests.servers import HAS_PROMETHEUS, HAS_VICTORIA_METRICS, prometheus, victoria_metrics

CONCURRENCY = 4
_MACHINE = {"instance_type": "gpu8", "gpus": GPUS, "gpu_memory": "80GiB"}
GROUP = "gpu-000[0-9]|gpu-001[0-5]"
Figures = dict[str, Any]


@dataclass(frozen=True)
class Sent:
    """A request as it was sent."""

    method: str
    url: str
    body: str | bytes | None
    headers: dict[str, str]


def main(arguments: Sequence[str]) -> int:
    """Measures and prints; the exit code."""
    parser = argparse.ArgumentParser(description="How fast samples come from servers.")
    parser.add_argument("--small", action="store_true", help="0.2 million samples instead of ten, two rounds instead of three")
    parser.add_argument("--child", nargs=2, metavar=("KIND", "URL"), help=argparse.SUPPRESS)
    parser.add_argument("--run", type=Path, metavar="CONFIG", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.child or given.run:
        print(json.dumps(fetched(*given.child) if given.child else run(given.run)))
        return 0
    bars = measure(given.small)
    show("fetching", bars)
    return int(not all(bar.held for bar in bars))


def measure(small: bool) -> list[Bar]:
    """The bars; none where the servers are not installed."""
    if not (HAS_PROMETHEUS and HAS_VICTORIA_METRICS):
        print("not measured: the Debian packages `prometheus` and `victoria-metrics` are needed")
        return []
    nodes, rounds = nodes_for(200_000 if small else 10_000_000), 2 if small else 3
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_open_metrics(folder / "metrics.om", nodes)
        with prometheus(folder, folder / "metrics.om") as one, victoria_metrics(folder, import_lines(nodes)) as other:
            (folder / "metrics.om").unlink()
            parsing = parsing_ratio(one, rounds)
            prometheus_ratio, first = whole_ratio("prometheus", one, rounds)
            export_ratio, second = whole_ratio("victoriametrics", other, rounds)
            peak = runs_compared(folder, nodes, {"prometheus": one, "victoriametrics": other})
    if first["hash"] != second["hash"]:
        raise SystemExit("the two servers' rows differ: the figures are worth nothing")
    print(f"both servers give the same {first['samples']:,} samples in {first['shards']} shards: {first['hash'][:16]}")
    return [
        Bar("prometheus-api-client with MetricRangeDataFrame / our parsing", parsing, ">=", 12, number="P6"),
        Bar("fetch of a day from Prometheus / its answers read to nowhere", prometheus_ratio, "<=", 1.3, number="P6"),
        Bar("fetch of a day from VictoriaMetrics / export read to nowhere", export_ratio, "<=", 4),
        Bar("peak memory of a fetching process", max(first["peak_mib"], second["peak_mib"]), "<=", 450, "MiB"),
        Bar("peak memory of a process of a whole run from a server", peak, "<=", 450, "MiB"),
    ]


def whole_ratio(kind: str, url: str, rounds: int) -> tuple[float, Figures]:
    """The least time of a whole fetch over the least time of the server alone, and what was fetched."""
    sent = recorded(kind, url)
    alone, whole, told = math.inf, math.inf, Figures()
    for _ in range(rounds):
        alone = min(alone, to_nowhere(sent))
        child = [sys.executable, "-m", "benchmarks.fetch", "--child", kind, url]
        told = json.loads(subprocess.run(child, check=True, stdout=subprocess.PIPE).stdout)
        whole = min(whole, told["seconds"])
    rate = told["samples"] / whole / 1e6
    peak = f"{len(sent)} requests, peak {told['peak_mib']} MiB"
    print(f"{kind}: server alone {alone:.2f} s, fetch {whole:.2f} s ({rate:.2f} M samples/s), {peak}")
    return whole / alone, told


def fetched(kind: str, url: str) -> Figures:
    """A day of the fleet, shard by shard into nothing, in this process: seconds, samples, a hash of all rows, peak memory."""
    list(
        read_matrix(
            read_answer(b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,"2"]]}]}}').data
        )
    )
    source = load_metric_source(
        MetricsEntry.model_validate({"kind": kind, "url": url, "concurrency": CONCURRENCY}), "fleet", 900_000
    )
    digest, count, samples, spent = hashlib.sha256(), 0, 0, 0.0
    began = time.perf_counter()
    for shard in source.shards(DAY, source.nodes(DAY)):
        spent += time.perf_counter() - began
        count += 1
        samples += pc.sum(pc.list_value_length(shard.samples["values"])).as_py()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, shard.samples.schema) as stream:
            stream.write_table(shard.samples.combine_chunks())
        digest.update(sink.getvalue())
        began = time.perf_counter()
    return {"seconds": spent, "samples": samples, "shards": count, "hash": digest.hexdigest(), "peak_mib": round(peak_mib())}


def runs_compared(folder: Path, nodes: int, urls: dict[str, str]) -> float:
    """The peak of whole runs over the servers, from a bill to tables on disk, which must be the same in every byte."""
    bill, told = folder / "bill.parquet", {}
    write_bill(bill, nodes, START.date())
    names = [labels_of(node, 0)["Hostname"] for node in range(nodes)]
    stays = [{"name": name, "provider_id": f"aws:///us-west-2a/{instance_id(n)}", **_MACHINE} for n, name in enumerate(names)]
    for kind, url in urls.items():
        cluster = {"name": "fleet", "metrics": [{"kind": kind, "url": url, "concurrency": CONCURRENCY}], "nodes": stays}
        billing = [{"kind": "focus", "path": str(bill), "cost": "effective", "currency": "USD"}]
        config = folder / f"{kind}.yaml"
        config.write_text(json.dumps({"version": 1, "output": f"out-{kind}", "clusters": [cluster], "billing": billing}))
        command = [sys.executable, "-m", "benchmarks.fetch", "--run", str(config)]
        told[kind] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        peaks = ", ".join(f"{peak:.0f}" for peak in told[kind]["peaks"])
        print(f"{kind}: a whole run {told[kind]['seconds']:.1f} s, {told[kind]['rows']:,} rows, peaks {peaks} MiB")
    first, second = told.values()
    if first["files"] != second["files"] or not first["rows"]:
        raise SystemExit("the two servers' tables differ: the figures are worth nothing")
    return float(max(*first["peaks"], *second["peaks"]))


def run(config: Path) -> Figures:
    """A day from its bill to its tables: seconds, rows, the tables' hashes, and the peak of this process and each worker."""
    began = time.perf_counter()
    with open_walk(load_settings(config)) as walk:
        results = run_day(walk, START.date())
        spent = time.perf_counter() - began
        peaks = [peak_mib(), *(peak_mib(pid) for pid in worker_pids(walk))]
    partitions = [(table, result.partition) for result in results for table in RESULT_TABLES]
    files = [dict(commit.files) for table, partition in partitions if (commit := walk.store.commit(table, partition))]
    return {"seconds": spent, "rows": results[0].sums.rows, "files": files, "peaks": peaks}


def recorded(kind: str, url: str) -> list[Sent]:
    """The requests of a whole fetch."""
    seen: list[Sent] = []
    send = requests.Session.send

    def noting(self: requests.Session, request: requests.PreparedRequest, **options: Any) -> requests.Response:  # noqa: ANN401
        seen.append(Sent(str(request.method), str(request.url), request.body, dict(request.headers)))
        return send(self, request, **options)

    requests.Session.send = noting
    try:
        fetched(kind, url)
    finally:
        requests.Session.send = send
    return seen


def to_nowhere(sent: Sequence[Sent]) -> float:
    """Seconds in which a server answers these requests, as many at once as a fetch sends; nobody looks at the bytes."""
    with urllib3.PoolManager(maxsize=CONCURRENCY) as pool, ThreadPoolExecutor(CONCURRENCY) as threads:

        def drain(one: Sent) -> None:
            answer = pool.urlopen(
                one.method, one.url, body=one.body, headers=one.headers, preload_content=False, decode_content=False
            )
            while answer.read1(2**18):
                pass
            answer.release_conn()

        began = time.perf_counter()
        list(threads.map(drain, sent))
        return time.perf_counter() - began


class _Kept(BaseAdapter):
    """Answers every request with the same bytes."""

    def __init__(self, body: bytes) -> None:
        super().__init__()
        self._body = body

    def send(self, request: requests.PreparedRequest, **_: Any) -> requests.Response:  # noqa: ANN401
        """The bytes."""
        answer = requests.Response()
        answer.status_code, answer.raw, answer.url = requests.codes.ok, BytesIO(self._body), str(request.url)
        return answer

    def close(self) -> None:
        """Nothing is open."""


def parsing_ratio(url: str, rounds: int) -> float:
    """How much longer the usual client takes from the bytes of one real answer to a frame than we take to arrays."""
    query = {"query": f'{METRIC}{{Hostname=~"{GROUP}"}}[86400s]', "time": str((START + timedelta(days=1)).timestamp() - 0.001)}
    body = requests.post(f"{url}/api/v1/query", data=query, timeout=300).content
    session = requests.Session()
    client = PrometheusConnect(url="http://kept", session=session)
    session.mount("http://kept/", _Kept(body))
    theirs, ours = math.inf, math.inf
    for _ in range(rounds):
        began = time.perf_counter()
        frame = MetricRangeDataFrame(client.custom_query_range(METRIC, DAY.start, DAY.end, "30s"))
        theirs = min(theirs, time.perf_counter() - began)
        began = time.perf_counter()
        count = sum(len(times) for _, times, _ in read_matrix(read_answer(body).data))
        ours = min(ours, time.perf_counter() - began)
        if count != len(frame):
            raise SystemExit("the two readers differ: the figures are worth nothing")
    print(f"parsing {count:,} samples ({len(body) >> 20} MiB): prometheus-api-client {theirs:.2f} s, ours {ours:.3f} s")
    return theirs / ours


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
