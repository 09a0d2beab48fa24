"""A Ray cluster that runs already is found by its address, used, and left running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import create_server

import pytest

SCRIPT = """
import sys
import alu
from tests import working
with alu.Workers(address=sys.argv[1]) as workers:
    found = dict(workers.run(working.squared, 10, range(8)))
    print(workers.count, [found[number][0] for number in range(8)])
"""


def free_port() -> int:
    with create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


@contextmanager
def cluster(port: int, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A Ray of two cores at this port, with everything that it has started."""
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as folder:
        words = ["--head", f"--port={port}", "--include-dashboard=false", f"--temp-dir={folder}", "--num-cpus=2"]
        command = [str(Path(sys.executable).with_name("ray")), "start", "--block", "--disable-usage-stats", *words]
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


@pytest.mark.slow
def test_a_cluster_that_runs_is_used_and_left_running() -> None:
    port = free_port()
    environment = {**os.environ, "RAY_AUTH_MODE": "disabled", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", SCRIPT, f"127.0.0.1:{port}"]
    outputs: list[str] = []
    with cluster(port, environment) as head:
        deadline = time.monotonic() + 300
        while len(outputs) < 2:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            assert head.poll() is None, "it runs"
            assert time.monotonic() < deadline, done.stderr
            if done.returncode:  # it has not begun yet
                assert "There is no Ray cluster at" in done.stderr, done.stderr
                time.sleep(1)
            else:
                outputs.append(done.stdout)
    assert outputs == [f"2 {[number**2 + 10 for number in range(8)]}\n"] * 2
