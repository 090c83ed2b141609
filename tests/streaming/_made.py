"""Folders and files as tests compare and make them, and programs whose calls of the system go through a library."""

import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

from tests._exhaustive import SEED

NEEDS_SHIM = pytest.mark.skipif(
    sys.platform != "linux" or not shutil.which("gcc"), reason="needs a compiler of C, and Linux"
)


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def written(frame: pd.DataFrame, path: Path) -> Path:
    """The frame in a file of the form that its ending names."""
    ways = {"csv": partial(frame.to_csv, index=False), "parquet": frame.to_parquet, "arrow": frame.to_feather}
    ways[path.suffix[1:]](path)
    return path


def shimmed(folder: Path, shim: str, program: str, *arguments) -> list[str]:
    """The lines that a program prints, which ends well, under a library of C."""
    (folder / "shim.c").write_text(shim)
    built = ["gcc", "-shared", "-fPIC", "-O1", "-o", folder / "shim.so", folder / "shim.c", "-ldl"]
    subprocess.run(built, check=True)
    own = {**os.environ, "LD_PRELOAD": str(folder / "shim.so"), "PYTHONPATH": os.getcwd()}
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"seed {SEED}: {done.stdout[-500:]} {done.stderr[-2000:]}"
    return done.stdout.splitlines()
