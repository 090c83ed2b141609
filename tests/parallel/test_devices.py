"""Over eight devices: `eight_devices`, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests._patience import patience

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.exhaustive
def test_eight_devices():
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/parallel/eight_devices.py"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=patience(50), check=False
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
