"""Processes that checks start, and waits that end."""

import re
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path


def expect(holds, message):
    if not holds:
        raise AssertionError(message)


def wait_for(what, seconds, probe):
    """Asks `probe` until it gives something; fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := probe():
            return found
        time.sleep(0.1)
    raise AssertionError(f"no {what} within {seconds} s")


@contextmanager
def started(*command, env=None):
    """A child whose output goes to a file, so that it never blocks on a pipe; killed at the end."""
    with tempfile.NamedTemporaryFile("r", errors="replace") as log:
        with open(log.name, "w") as output:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env
            )
        child.output = lambda: Path(log.name).read_text(errors="replace")
        try:
            yield child
        except BaseException:
            print(f"--- output of {Path(command[0]).name}:\n{child.output()}---", file=sys.stderr)
            raise
        finally:
            child.kill()
            child.wait()


def address(process, seconds, pattern=r"^listening on (\S+)$"):
    """What a process prints once it listens."""

    def printed():
        expect(process.poll() is None, f"it ended with {process.returncode} before it listened")
        return re.search(pattern, process.output(), re.MULTILINE)

    return wait_for(f"line like {pattern}", seconds, printed)[1]
