#!/usr/bin/env python3
"""Looks at a worker, and cancels what it runs, as a Flight client that knows nothing of Flightpath.

    foreign_client.py EXAMPLES DATA

EXAMPLES is the folder with the built `worker` and `sql` examples; DATA holds TPC-H's lineitem as Parquet.
Every wait has a deadline; the first expectation that does not hold ends the run with an error.
"""

import json
import re
import signal
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.flight as flight

from processes import address, expect, started, wait_for

# Each wait ends as soon as what it waits for is there; unoptimized builds on a busy machine are slow.
STARTUP = 60
PROGRESS = 60
REACTION = 30
CALL = flight.FlightCallOptions(timeout=20)

# Every line pairs with every line of the same status: billions of pairs, minutes of work. The second
# condition needs both sides, so that no aggregate can be moved below the join.
LONG_QUERY = """
    SELECT count(*) FROM lineitem a JOIN lineitem b ON a.l_linestatus = b.l_linestatus
    WHERE a.l_partkey <> b.l_suppkey
"""

ENDED = {"finished", "failed", "cancelled", "unused"}
FIELDS = {"query_id", "stage", "task", "attempt", "status", "output_rows", "output_bytes", "elapsed_ms"}


class Worker:
    """A worker, seen through plain Flight calls."""

    def __init__(self, url):
        # What the worker prints is an HTTP URL; pyarrow calls the same thing grpc.
        self.client = flight.connect(re.sub(r"^https?", "grpc+tcp", url))

    def actions(self):
        return {action.type for action in self.client.list_actions(CALL)}

    def act(self, action, body=b""):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        results = list(self.client.do_action(flight.Action(action, body), CALL))
        expect(len(results) == 1, f"{action} answered {len(results)} times, expected once")
        return json.loads(results[0].body.to_pybytes())

    def tasks(self):
        """What ListFlights says: pairs of descriptor and state."""
        infos = self.client.list_flights(options=CALL)
        tasks = [(info.descriptor, json.loads(info.app_metadata)) for info in infos]
        for _, state in tasks:
            expect(FIELDS <= state.keys(), f"ListFlights lacks {FIELDS - state.keys()} in {state}")
        return tasks

    def running(self):
        return [
            (descriptor, state)
            for descriptor, state in self.tasks()
            if state["status"] not in ENDED and (state["elapsed_ms"] or 0) > 0
        ]


def check_version(worker):
    expect({"version", "task", "cancel"} <= worker.actions(), f"actions are {worker.actions()}")
    version = worker.act("version")
    expect(version.get("name") == "flightpath", f"version says {version}")
    expect({"version", "protocol"} <= version.keys(), f"version says {version}")
    print(f"version: {version}")


def check_task(worker, descriptor, state):
    """ListFlights, GetFlightInfo and the action `task` speak of one task alike."""
    key = {name: state[name] for name in ("query_id", "stage", "task")}
    path = [part.decode() for part in descriptor.path]
    expect(path == [str(part) for part in key.values()], f"path {path} is not the key {key}")
    info = worker.client.get_flight_info(descriptor, CALL)
    for source, other in (("GetFlightInfo", json.loads(info.app_metadata)), ("task", worker.act("task", key))):
        expect(FIELDS <= other.keys(), f"{source} lacks {FIELDS - other.keys()}")
        same = all(other[name] == state[name] for name in (*key, "attempt"))
        expect(same, f"{source} says {other}, ListFlights said {state}")
        grown = all(other[name] >= state[name] for name in ("output_rows", "output_bytes", "elapsed_ms"))
        expect(grown, f"{source} went back from {state} to {other}")
    return key


def check_cancel(worker, sql, whole_query):
    """Cancels a running query, or one task of it, and expects the query to end and to say so."""
    with started(*sql, LONG_QUERY) as query:

        def running():
            expect(query.poll() is None, "the long query ended before anything was cancelled")
            return worker.running()

        # Tasks of the last stage run as long as the query; those of others may end before the cancel arrives.
        tasks = wait_for("running task", PROGRESS, running)
        descriptor, state = max(tasks, key=lambda task: task[1]["stage"])
        key = check_task(worker, descriptor, state)
        target = {"query_id": key["query_id"]} if whole_query else key
        answer = worker.act("cancel", target)
        enough = answer["cancelled"] >= 1 if whole_query else answer["cancelled"] == 1
        expect(enough, f"cancel of {target} answered {answer}")
        wait_for("end of the cancelled query", REACTION, lambda: query.poll() is not None)
        expect(query.returncode > 0, f"the cancelled query ended with {query.returncode}, expected an error")
        expect(re.search("cancel", query.output(), re.IGNORECASE), "its error does not speak of cancellation")

        def stopped():
            return all(state["query_id"] != key["query_id"] for _, state in worker.running())

        wait_for("end of the query's tasks", REACTION, stopped)
        print(f"cancelled {'a query' if whole_query else 'one task'}: {answer}; its error:")
        print("\n".join(f"    {line}" for line in query.output().strip().splitlines()[-5:]))


def worker_words(error):
    """What the worker said, without what pyarrow puts around it."""
    text = str(error).strip("'")
    found = re.search(r"with message: (.*?)(?:\. gRPC client debug context|\. Client context|$)", text, re.DOTALL)
    return found[1].strip() if found else text


def check_bad_input(worker):
    """Each mistake is answered with a message of its own, and the worker lives on."""
    client = worker.client
    nowhere = {"query_id": "00000000-0000-7000-8000-000000000000", "stage": 1, "task": 0}
    mistakes = {
        "garbage ticket": lambda: client.do_get(flight.Ticket(b"\xff\x00garbage"), CALL).read_all(),
        "empty ticket": lambda: client.do_get(flight.Ticket(b""), CALL).read_all(),
        "unknown action": lambda: worker.act("no-such-action"),
        "garbage body of task": lambda: worker.act("task", b"\xff{"),
        "garbage body of cancel": lambda: worker.act("cancel", b"[1, 2"),
        "cancel without a query": lambda: worker.act("cancel", {}),
        "unknown task": lambda: worker.act("task", nowhere),
        "short descriptor": lambda: client.get_flight_info(flight.FlightDescriptor.for_path("x"), CALL),
        "command descriptor": lambda: client.get_flight_info(flight.FlightDescriptor.for_command(b"x"), CALL),
    }
    for name, make in mistakes.items():
        try:
            answer = make()
        # pyarrow raises some status codes, such as INVALID_ARGUMENT and NOT_FOUND, as Arrow's own errors.
        except (flight.FlightError, pa.ArrowException, OSError) as error:
            message = worker_words(error)
        else:
            raise AssertionError(f"{name} was answered with {answer}, expected an error")
        expect(not re.search("unavailable|timed out|deadline|panic", message, re.IGNORECASE), f"{name}: {message}")
        expect(len(message.split()) > 3, f"{name}: {message!r} does not say what was expected")
        print(f"{name}: {message.splitlines()[0]}")
        worker.act("version")


def main(examples, data):
    table = data / "lineitem"
    table = table if table.is_dir() else data / "lineitem.parquet"
    expect(table.exists(), f"{table} does not exist")
    with started(examples / "worker", "--listen", "127.0.0.1:0") as process:
        url = address(process, STARTUP)
        worker = Worker(url)
        sql = (examples / "sql", "--workers", url, "--table", f"lineitem={table}")
        check_version(worker)
        check_cancel(worker, sql, whole_query=True)
        check_cancel(worker, sql, whole_query=False)
        check_bad_input(worker)
        worker.client.close()
        process.send_signal(signal.SIGTERM)
        wait_for("end of the worker after SIGTERM", REACTION, lambda: process.poll() is not None)
        expect(process.returncode == 0, f"the worker ended with {process.returncode} after SIGTERM, expected 0")
    print("a foreign Flight client can look at a worker and cancel what it runs")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        main(*map(Path, sys.argv[1:]))
    except AssertionError as error:
        sys.exit(f"foreign client: {error}")
