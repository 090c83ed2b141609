"""Over eight devices, `eight_devices` in a process of its own; and over two processes, `one_of_two` run twice."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests._patience import Deadline, patience

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.exhaustive
def test_eight_devices(x64):
    """In float64 those alone whose numbers differ there."""
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/parallel/eight_devices.py"]
    command += ["-k", "answers_as_on_one_device or numbers or any_size_and_kind"] if x64 else []
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=patience(50), check=False
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


@pytest.mark.exhaustive
@pytest.mark.once
def test_two_processes():
    with socket.socket() as held:  # to the end: nobody else gets the port, and the coordinator, as gRPC does, shares it
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(("localhost", 0))
        command = [sys.executable, "-m", "tests.parallel.one_of_two", f"localhost:{held.getsockname()[1]}"]
        started = [
            subprocess.Popen([*command, number], cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            for number in ("0", "1")
        ]
        deadline, said = Deadline(20), []
        try:
            for process in started:
                said.append(process.communicate(timeout=deadline.left())[0])
        finally:
            for process in started:
                process.kill()
                process.wait()
    for process, text in zip(started, said, strict=True):
        assert process.returncode == 0, text[-4000:]
        assert "all is well" in text
        assert "'largest_difference': 0.0" in text or "e-0" in text
