"""Two processes with four devices each on one machine: `one_of_two`, run twice."""

import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SECONDS = 200
"""Until both processes are ended; they take a tenth of that on two idle cores."""


@pytest.mark.exhaustive
@pytest.mark.once
def test_two_processes():
    with socket.socket() as free:
        free.bind(("localhost", 0))
        coordinator = f"localhost:{free.getsockname()[1]}"
    command = [sys.executable, "-m", "tests.parallel.one_of_two", coordinator]
    started = [
        subprocess.Popen([*command, number], cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for number in ("0", "1")
    ]
    until, said = time.monotonic() + SECONDS, []
    try:
        for process in started:
            said.append(process.communicate(timeout=max(1, until - time.monotonic()))[0])
    finally:
        for process in started:
            process.kill()
            process.wait()
    for process, text in zip(started, said, strict=True):
        assert process.returncode == 0, text[-4000:]
        assert "all is well" in text
        assert "'largest_difference': 0.0" in text or "e-0" in text
