"""What a measurement ran on. No host name, no path: results are published."""

import argparse
import json
import os
import platform
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


def machine() -> dict:
    """The processor, its memory, and how busy it was when the measurement began."""
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "cpu": _cpu_model(),
        "cores": cores(),
        "memory_gib": _memory_gib(),
        "load_at_start": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }


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
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "device": device(),
        "versions": versions(),
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


def device() -> dict:
    """The devices that JAX scores on."""
    devices = jax.devices()
    return {
        "backend": jax.default_backend(),
        "kind": devices[0].device_kind,
        "count": len(devices),
        "devices": [f"{d.platform}:{d.id}" for d in devices],
    }


def versions() -> dict[str, str | None]:
    """Of everything that was measured; None: not installed."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    return found


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):
        return None
