"""What a measurement ran on. No host name, no path: results are published."""

import argparse
import json
import os
import platform
import re
import resource
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import jax

from .engines import cores

_PACKAGES = (
    *("jax", "jaxlib", "numpy", "scikit-learn", "onnxruntime", "skl2onnx", "ydf", "scikit-learn-intelex", "treelite"),
    *("xgboost-cpu", "xgboost", "lightgbm", "catboost", "lleaves", "pylignum", "onnxmltools", "jax-cuda12-plugin"),
    *("jax-cuda13-plugin", "nvforest-cu12", "nvforest-cu13", "jaxunc", "shap"),
)


def peak_bytes() -> int:
    """The most memory that this process has had.

    Of Linux's numbers the one of the program that runs: that of `resource` is at least what the process that started
    this one had then.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text(encoding="ascii").splitlines() if line.startswith("VmHWM:"))
        return 1024 * int(line.split()[1])
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def about() -> dict:
    """When and on what a measurement begins."""
    devices = jax.devices()
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "system": platform.system(),
            "architecture": platform.machine(),
            "cpu": _cpu_model(),
            "cores": cores(),
            "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
            "load_at_start": os.getloadavg()[0],
        },
        "device": {
            "backend": jax.default_backend(),
            "kind": devices[0].device_kind,
            "count": len(devices),
            "devices": [f"{d.platform}:{d.id}" for d in devices],
        },
        "versions": {"python": platform.python_version(), **{package: _version(package) for package in _PACKAGES}},
    }


def command(name: str, about: str | None, repeats: int | None = None) -> argparse.ArgumentParser:
    """The options that measurements share."""
    parser = argparse.ArgumentParser(f"python -m benchmarks.speed.{name}", description=about)
    if repeats is not None:
        parser.add_argument("--repeats", type=int, default=repeats, help=f"rounds (default {repeats})")
    parser.add_argument("--quick", action="store_true", help="small: shows that it runs")
    parser.add_argument("--output", type=Path, help="default: print only")
    return parser


def publish(result: dict, output: Path | None) -> None:
    """Print a result, and keep it in a file if one is named."""
    text = json.dumps(result, indent=1)
    if output:
        output.write_text(text + "\n", encoding="utf-8")
    print(text)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    named = re.search(r"^model name\s*: (.*)$", info.read_text(), re.MULTILINE) if info.exists() else None
    return named[1].strip() if named else platform.processor()
