#!/usr/bin/env python3
"""What docker-compose.yml starts, as plain processes: Jaeger and Prometheus look at four workers and a coordinator.

    topology.py EXAMPLES DATA JAEGER

EXAMPLES is the folder with the built `worker` and `sql` examples; DATA holds TPC-H tables as Parquet; JAEGER is the
program of Jaeger 2. Jaeger and Prometheus run with the files of deploy/, but for addresses. Every wait has a
deadline; the first expectation that does not hold ends the run with an error.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path

from processes import address, expect, started, wait_for

STARTUP = 60
QUERY = 120
# From the end of a query to its spans in the store of Jaeger, and from there through Prometheus.
ARRIVAL = 60

WORKERS = 4
JOIN = """
    SELECT o_orderpriority, count(*) AS lines, sum(l_quantity) AS quantity
    FROM lineitem JOIN orders ON l_orderkey = o_orderkey
    WHERE l_shipmode = 'RAIL'
    GROUP BY o_orderpriority ORDER BY o_orderpriority
"""
# Fails on a worker, and not on the coordinator: only rows know that they are zero.
DIVISION = "SELECT sum(1 / (l_linenumber - l_linenumber)) FROM lineitem"
# Every line pairs with every line of the same status: billions of pairs, minutes of work. The second
# condition needs both sides, so that no aggregate can be moved below the join.
LONG = """
    SELECT count(*) FROM lineitem a JOIN lineitem b ON a.l_linestatus = b.l_linestatus
    WHERE a.l_partkey <> b.l_suppkey
"""


def get(url, **parameters):
    """JSON from a URL; None while nobody answers, or there is nothing there."""
    query = f"?{urllib.parse.urlencode(parameters)}" if parameters else ""
    try:
        with urllib.request.urlopen(url + query, timeout=10) as answer:
            return json.load(answer)
    except (urllib.error.URLError, ConnectionError, json.JSONDecodeError):
        return None


def free_ports(count):
    """Ports that nobody has now; programs that cannot say which port they took need one told."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]


class Span:
    def __init__(self, span, processes):
        self.id = span["spanID"]
        self.name = span["operationName"]
        self.tags = {tag["key"]: tag["value"] for tag in span["tags"]}
        self.types = {tag["key"]: tag["type"] for tag in span["tags"]}
        self.service = processes[span["processID"]]["serviceName"]
        self.resource = {tag["key"]: tag["value"] for tag in processes[span["processID"]]["tags"]}
        self.warnings = span["warnings"] or []
        kinds = defaultdict(list)
        for reference in span["references"]:
            kinds[reference["refType"]].append(reference["spanID"])
        self.parent = next(iter(kinds["CHILD_OF"]), None)
        self.links = kinds["FOLLOWS_FROM"]

    @property
    def is_error(self):
        return self.tags.get("error") is True

    def number(self, name):
        expect(name in self.tags, f"span {self.name} has no {name}: {sorted(self.tags)}")
        expect(self.types[name] in ("int64", "float64"), f"{self.name}: {name} is a {self.types[name]}")
        return float(self.tags[name])


def is_abort(warning):
    """Whether a span ended moments after the one above it: what an operator spawned is aborted, and not waited for."""
    delta = re.search(r"calculated delta of -([\d.]+)(µs|ms)$", warning)
    return delta and (delta[2] == "µs" or float(delta[1]) < 100)


class Trace:
    """One trace, as Jaeger's HTTP API gives it back."""

    def __init__(self, answer, cut_off):
        expect(len(answer["data"]) == 1, f"Jaeger gave {len(answer['data'])} traces, expected 1")
        [trace] = answer["data"]
        expect(not trace["warnings"], f"Jaeger warns of the trace: {trace['warnings']}")
        self.spans = [Span(span, trace["processes"]) for span in trace["spans"]]
        self.by_id = {span.id: span for span in self.spans}
        for span in self.spans:
            warnings = [text for text in span.warnings if not (cut_off and is_abort(text))]
            expect(not warnings, f"Jaeger warns of {span.name}: {warnings}")
            known = span.parent is None or span.parent in self.by_id
            expect(known, f"the parent of {span.name} is missing")

    def named(self, name):
        return [span for span in self.spans if re.fullmatch(name, span.name)]

    def one(self, name):
        found = self.named(name)
        expect(len(found) == 1, f"{len(found)} spans {name}, expected 1: {sorted(s.name for s in self.spans)}")
        return found[0]

    def children(self, span):
        return [child for child in self.spans if child.parent == span.id]

    def above(self, span):
        while span := self.by_id.get(span.parent):
            yield span


def check_tree(trace):
    """Every stage under the query, every task under its stage on a worker of its own, and every operator once."""
    roots = [span for span in trace.spans if span.parent is None]
    expect(len(roots) == 1, f"roots are {[span.name for span in roots]}, expected one")
    query = trace.one("query")
    expect(trace.one("plan").parent == query.id, "plan is not under query")
    stages = trace.named(r"stage \d+")
    expect(query.number("flightpath.stage.count") == len(stages) >= 2, f"{len(stages)} stages")
    expect(query.number("flightpath.worker.count") == WORKERS, f"workers: {query.tags}")
    producers = {}
    for stage in stages:
        expect(stage.parent == query.id, f"{stage.name} is not under query")
        tasks = [span for span in trace.children(stage) if span.name == "task"]
        expect(len(tasks) == stage.number("flightpath.stage.task_count"), f"{stage.name} has {len(tasks)} tasks")
        producers[int(stage.number("flightpath.stage.id"))] = {task.id for task in tasks}
        for task in tasks:
            expect(task.service == "flightpath-worker", f"a task is of {task.service}")
            expect(task.tags["flightpath.task.status"] == "finished", f"task: {task.tags}")
            operators = [task]
            names = []
            while operators:
                operators = [child for above in operators for child in trace.children(above)]
                names += [span.name for span in operators]
            expect(len(names) >= 2, f"a task of {stage.name} has the operators {names}")
    instances = {s.resource["service.instance.id"] for s in trace.named("task")}
    expect(len(instances) == WORKERS, f"tasks ran in {len(instances)} processes, expected {WORKERS}")

    boundaries = trace.named(r"Network\w+Exec")
    expect(boundaries, "no span of a boundary")
    for boundary in boundaries:
        stage = int(boundary.number("flightpath.boundary.input_stage"))
        expect(boundary.links, f"{boundary.name} has no links")
        expect(set(boundary.links) <= producers[stage], f"{boundary.name} links to others than tasks of stage {stage}")
    scans = trace.named("DataSourceExec")
    rows = sum(span.number("datafusion.metrics.output_rows") for span in scans)
    expect(rows > 0, "scans have no rows")
    failed = [span.name for span in trace.spans if span.is_error]
    expect(not failed, f"spans of a good query say that they failed: {failed}")
    print(f"{len(trace.spans)} spans: {len(stages)} stages, {len(trace.named('task'))} tasks on {len(instances)} workers")


def check_failure(trace):
    """The operator that failed says so, and so does every span above it."""
    failed = [span for span in trace.spans if span.is_error]
    on_workers = [span for span in failed if span.service == "flightpath-worker"]
    expect(on_workers, f"no span of a worker failed: {[span.name for span in failed]}")
    expect(any(span.name.endswith("Exec") for span in on_workers), "no operator failed")
    expect(trace.one("query").is_error, "the query's span does not say that it failed")
    for span in failed:
        expect("error.type" in span.tags, f"{span.name} failed without error.type: {span.tags}")
    for span in on_workers:
        for above in trace.above(span):
            expect(above.is_error or above.parent is None, f"{above.name}, above what failed, is no error")
    print(f"failed: {len(failed)} spans, of {sorted({span.tags['error.type'] for span in failed})}")


def check_cancelled(trace):
    """What was stopped from outside is cancelled, and nothing of it an error."""
    failed = [(span.name, span.service, span.tags.get("otel.status_description")) for span in trace.spans if span.is_error]
    expect(not failed, f"a cancelled query has spans with errors: {failed}")
    statuses = [span.tags.get("flightpath.task.status") for span in trace.named("task")]
    expect("cancelled" in statuses and "failed" not in statuses, f"tasks are {statuses}")
    print(f"cancelled: tasks are {sorted(statuses)}")


class Topology:
    def __init__(self, stack, examples, data, jaeger, work):
        deploy = Path(__file__).resolve().parent.parent / "deploy"
        (health, self.jaeger, grpc, otlp_grpc, otlp_http, span_metrics, prometheus) = free_ports(7)
        self.prometheus = f"http://{prometheus}"
        self.examples, self.data = examples, data
        ports = {
            "JAEGER_HEALTH": health,
            "JAEGER_HTTP": self.jaeger,
            "JAEGER_GRPC": grpc,
            "OTLP_GRPC": otlp_grpc,
            "OTLP_HTTP": otlp_http,
            "SPAN_METRICS": span_metrics,
            "PROMETHEUS_URL": self.prometheus,
        }
        config = deploy / "jaeger" / "config.yaml"
        stack.enter_context(started(jaeger, "--config", config, env={**os.environ, **ports}))
        wait_for("Jaeger", STARTUP, lambda: get(f"http://{health}/status"))

        self.environment = {**os.environ, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"http://{otlp_grpc}"}
        listen = ("--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0")
        worker = (examples / "worker", *listen)
        self.workers = [stack.enter_context(started(*worker, env=self.environment)) for _ in range(WORKERS)]
        self.urls = [address(worker, STARTUP) for worker in self.workers]
        self.metrics = [address(worker, STARTUP, r"(http://\S+/metrics)") for worker in self.workers]

        scraped = (deploy / "prometheus" / "prometheus.yml").read_text().replace("jaeger:8889", span_metrics)
        workers = ", ".join(f'"{urllib.parse.urlsplit(url).netloc}"' for url in self.metrics)
        scraped, found = re.subn(r'"worker-1:9464".*(?=\])', workers, scraped)
        expect(found == 1, "deploy/prometheus/prometheus.yml does not list worker-1:9464")
        (work / "prometheus.yml").write_text(scraped)
        files = (f"--config.file={work}/prometheus.yml", f"--storage.tsdb.path={work}/prometheus")
        stack.enter_context(started("prometheus", *files, f"--web.listen-address={prometheus}"))
        ready = f"{self.prometheus}/api/v1/status/runtimeinfo"
        wait_for("Prometheus", STARTUP, lambda: get(ready))

    def sql(self, text):
        tables = [f"{path.stem}={path}" for path in self.data.iterdir() if path.stem in ("lineitem", "orders")]
        expect(len(tables) == 2, f"{self.data} lacks tables")
        arguments = [part for table in tables for part in ("--table", table)]
        return started(
            self.examples / "sql", "--workers", ",".join(self.urls), *arguments, text, env=self.environment
        )

    def trace(self, query, complete, cut_off):
        """The trace of a query that has ended, or was cut off, once `complete` says that it has arrived whole."""
        id = re.search(r"\b[0-9a-f]{32}\b", query.output())
        expect(id, f"no trace id in the output of the query:\n{query.output()}")

        def arrived():
            answer = get(f"http://{self.jaeger}/api/traces/{id[0]}")
            spans = answer and answer["data"] and answer["data"][0]["spans"]
            return spans and complete(spans) and answer

        return Trace(wait_for(f"whole trace {id[0]} in Jaeger", ARRIVAL, arrived), cut_off)

    def run(self, text, succeeds):
        with self.sql(text) as query:
            wait_for("end of the query", QUERY, lambda: query.poll() is not None)
            outcome = "succeed" if succeeds else "fail"
            expect((query.returncode == 0) == succeeds, f"it ended with {query.returncode}, expected to {outcome}")
            return self.trace(query, has_all_tasks, cut_off=not succeeds)

    def cancel(self):
        """Interrupts a query once workers have tasks of it that run, as a person would at a terminal."""
        with self.sql(LONG) as query:

            def running():
                expect(query.poll() is None, "the long query ended before it was interrupted")
                pages = [scrape(url) for url in self.metrics]
                active = r"^flightpath_task_active(?:\{[^}]*\})? (\d+)"
                counts = [re.search(active, page, re.MULTILINE) for page in pages]
                return all(count and int(count[1]) > 0 for count in counts)

            wait_for("active tasks on every worker", QUERY, running)
            query.send_signal(signal.SIGINT)
            wait_for("end of the interrupted query", QUERY, lambda: query.poll() is not None)
            expect(query.returncode != 0, "an interrupted query ended with 0")
            return self.trace(query, has_all_tasks, cut_off=True)

    def series(self, expression):
        answer = get(f"{self.prometheus}/api/v1/query", query=expression)
        return answer["data"]["result"] if answer and answer["status"] == "success" else []


def has_all_tasks(spans):
    """Whether the spans of a query, its stages and all their tasks are there: they end last in their processes."""
    names = [span["operationName"] for span in spans]
    tags = [tag for span in spans if span["operationName"] == "query" for tag in span["tags"]]
    planned = sum(tag["value"] for tag in tags if tag["key"] == "flightpath.task.count")
    ids = {span["spanID"] for span in spans}
    parents = {reference["spanID"] for span in spans for reference in span["references"]}
    return "query" in names and planned > 0 and names.count("task") >= planned and parents <= ids


def scrape(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


def check_exposition(topology):
    for url in topology.metrics:
        page = scrape(url)
        linted = subprocess.run(["promtool", "check", "metrics"], input=page, text=True, capture_output=True)
        found = (linted.stdout + linted.stderr).strip()
        expect(linted.returncode == 0 and not found, f"promtool on {url}: {found}")
    print(f"promtool finds no fault in what {len(topology.metrics)} workers expose")


def check_prometheus(topology):
    """Prometheus has scraped every worker, and its numbers are those of the workers."""
    ended = 'sum(flightpath_task_duration_seconds_count{flightpath_task_status="finished"}) by (instance)'

    def all_workers():
        series = topology.series(ended)
        return len(series) == WORKERS and series

    counts = [float(one["value"][1]) for one in wait_for("series of all workers", ARRIVAL, all_workers)]
    expect(all(count > 0 for count in counts), f"finished tasks by worker: {counts}")
    rows = wait_for("operator rows", ARRIVAL, lambda: topology.series("sum(flightpath_operator_rows_total)"))
    expect(float(rows[0]["value"][1]) > 0, f"rows: {rows}")
    print(f"Prometheus: {sum(counts):.0f} tasks finished, {float(rows[0]['value'][1]):.0f} rows of operators")


def check_metrics_tab(topology):
    """Jaeger's metrics tab: what it counted of spans, asked through Prometheus."""
    services = ("flightpath-worker", "flightpath-coordinator")
    window = {"lookback": 600_000, "step": 5_000, "ratePer": 600_000, "groupByOperation": "true"}

    def counted():
        found = set()
        for service in services:
            calls = f"http://{topology.jaeger}/api/metrics/calls"
            answer = get(calls, service=service, spanKind="internal", **window)
            for metric in (answer or {}).get("metrics", []):
                if metric["metricPoints"]:
                    found |= {label["value"] for label in metric["labels"] if label["name"] == "operation"}
        return {"task", "query"} <= found and found

    operations = wait_for("span metrics in Jaeger", ARRIVAL, counted)
    print(f"Jaeger's metrics tab: {len(operations)} operations")


def main(examples, data, jaeger):
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        topology = Topology(stack, examples, data, jaeger, work)
        check_tree(topology.run(JOIN, succeeds=True))
        check_failure(topology.run(DIVISION, succeeds=False))
        check_cancelled(topology.cancel())
        check_exposition(topology)
        check_prometheus(topology)
        check_metrics_tab(topology)
        for worker in topology.workers:
            worker.send_signal(signal.SIGTERM)
        for worker in topology.workers:
            wait_for("end of a worker after SIGTERM", STARTUP, lambda: worker.poll() is not None)
            expect(worker.returncode == 0, f"a worker ended with {worker.returncode} after SIGTERM, expected 0")
    print("Jaeger and Prometheus see what four workers and a coordinator do")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    try:
        main(*map(Path, sys.argv[1:]))
    except AssertionError as error:
        sys.exit(f"topology: {error}")
