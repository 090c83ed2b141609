"""Folders and files as tests compare and make them, and programs whose calls of the system go through a library."""

import os
import pickle
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

import jaxunc as ju
from jaxunc.streaming import BatchPredictor, predict_files
from tests._exhaustive import SEED

OPTIONS = {"keep": ["id"], "outputs": ["class"], "chunk_rows": 16}
"""Of the run whose folder is the fixture `made`."""
NEEDS_SHIM = pytest.mark.skipif(
    sys.platform != "linux" or not shutil.which("gcc"), reason="needs a compiler of C, and Linux"
)


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def written(frame: pd.DataFrame, path: Path) -> Path:
    """The frame in a file of the form that its ending names."""
    texts = {form: partial(frame.to_csv, index=False, sep=mark) for form, mark in (("csv", ","), ("tsv", "\t"))}
    ways = {**texts, "parquet": frame.to_parquet, "arrow": frame.to_feather}
    ways[path.suffix[1:]](path)
    return path


def write_arrow(table: pa.Table, path: Path, rows: int | None = None) -> Path:
    """The table in a file of Arrow, in batches of so many rows."""
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)
    return path


def whole(tables) -> pd.DataFrame:
    """The tables of a stream as one frame."""
    return pa.concat_tables(list(tables)).to_pandas()


def by_other_doors(model, data: pd.DataFrame, folder: Path, **asked) -> tuple[dict, pd.DataFrame, pd.DataFrame]:
    """The settings and the answers of a run over a file, and the answers of a batch predictor that was pickled."""
    ju.save(folder / "model", model)
    manifest = predict_files(folder / "model", written(data, folder / "data.parquet"), folder / "out", **asked)
    batches = pickle.loads(pickle.dumps(BatchPredictor(folder / "model", **asked)))
    return manifest["settings"], pd.read_parquet(folder / "out"), batches(data).reset_index(drop=True)


_SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>
static int kind, left, calls;
void shim_set(int with, int at) { kind = with; left = at; calls = 0; }
int shim_calls(void) { return calls; }
static int ours(const char* path) { return path && strstr(path, "shimmed") != 0; }
static int is_ours(int fd) {
  char link[64], path[512]; snprintf(link, 64, "/proc/self/fd/%d", fd);
  ssize_t k = readlink(link, path, 511); if (k < 1) return 0; path[k] = 0; return ours(path); }
#define REAL(name) static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
"""
"""What such libraries begin with: of which kind the change is, after how many calls, and whose files they are."""


def shimmed(folder: Path, shim: str, program: str, *arguments) -> list[str]:
    """The lines that a program prints, which ends well, under a library of C."""
    (folder / "shim.c").write_text(_SHIM + shim)
    built = ["gcc", "-shared", "-fPIC", "-O1", "-o", folder / "shim.so", folder / "shim.c", "-ldl"]
    subprocess.run(built, check=True)
    own = {**os.environ, "LD_PRELOAD": str(folder / "shim.so"), "PYTHONPATH": os.getcwd()}
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"seed {SEED}: {done.stdout[-500:]} {done.stderr[-2000:]}"
    return done.stdout.splitlines()
