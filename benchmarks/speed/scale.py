"""``python -m benchmarks.speed.scale``: from Parquet to Parquet, at any size.

The full report of a cautious forest (100 trees of depth 8, 30 columns): in memory, from files to files, and
scikit-learn's mean of probabilities in a loop over the same batches. Every run is a process of its own, so that its
largest memory is its own, too. ``--layouts`` measures files to files of float64 in other layouts: row groups, one batch
of all, text, several files. ``--kill`` kills a run three times at random moments and compares what it ends with.
"""

import argparse
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from .machine import about, peak_bytes, publish
from .measure import say, spread

N_FEATURES = 30
FILE_ROWS = 2**21
SHAPES = (100, 8), (500, 8), (100, 16)
WORDS = "rows", "seconds", "cpu_seconds", "peak_bytes"


def make_data(folder: Path, n_rows: int) -> Path:
    """A folder of Parquet files of float32, a row group of 2^17 rows at a time."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    target = folder / f"rows-{n_rows}"
    if target.exists():
        return target
    target.mkdir(parents=True)
    how = {"compression": "snappy", "use_dictionary": False, "write_statistics": False}
    for i, start in enumerate(range(0, n_rows, FILE_ROWS)):
        with parquet.ParquetWriter(target / f"{i:04d}.parquet", _schema(), **how) as writer:
            for j, first in enumerate(range(start, min(start + FILE_ROWS, n_rows), 2**17)):
                rows = min(2**17, n_rows - first)
                X = np.random.default_rng((i, j)).normal(size=(N_FEATURES, rows)).astype(np.float32)
                writer.write_table(pa.table(dict(zip(_schema().names, X, strict=True)), schema=_schema()))
    return target


def _schema():
    import pyarrow as pa

    return pa.schema([(f"x{j}", pa.float32()) for j in range(N_FEATURES)])


LAYOUTS = {
    "Parquet, one file, row groups of 250,000": ("parquet", 250_000),
    "Parquet, one file, row groups of 1,000,000": ("parquet", 1_000_000),
    "Parquet, one file, one row group": ("parquet", None),
    "Arrow, one file, one batch": ("arrow", None),
    "CSV, one file, four decimals": ("csv", 250_000),
    "Parquet, files of 500,000": ("folder", 500_000),
}
"""Kinds of files of float64, and the rows that are written together; None: all."""


def make_layout(folder: Path, kind: str, together: int | None, n_rows: int) -> Path:
    """Files of one layout; all rows lie in memory where they are written together."""
    import pyarrow as pa
    import pyarrow.csv as arrow_csv
    import pyarrow.parquet as parquet

    together, rng = together or n_rows, np.random.default_rng(0)
    schema = pa.schema([(name, pa.float64()) for name in _schema().names])
    makers = {"parquet": parquet.ParquetWriter, "arrow": pa.ipc.new_file, "csv": arrow_csv.CSVWriter}
    target = folder / f"layout.{kind}" if kind in makers else folder / "layout"
    target.unlink(missing_ok=True) if kind in makers else target.mkdir()
    writer = makers[kind](target, schema) if kind in makers else None
    for start in range(0, n_rows, together):
        rows = min(together, n_rows - start)
        X = (rng.normal(size=rows).round(4) for _ in schema)
        table = pa.table(dict(zip(schema.names, X, strict=True)), schema=schema)
        if writer is None:
            parquet.write_table(table, target / f"{start:09d}.parquet")
        elif kind == "parquet":
            writer.write_table(table, row_group_size=rows)
        else:
            writer.write_table(table)
    if writer is not None:
        writer.close()
    return target


def layouts(folder: Path, n_rows: int) -> list[dict]:
    """From files to files, in every layout, once."""
    model, found = make_model(folder, 100, 8), []
    for layout, (kind, together) in LAYOUTS.items():
        data = make_layout(folder, kind, together, n_rows)
        files = sorted(data.iterdir()) if data.is_dir() else [data]
        size = sum(file.stat().st_size for file in files)
        found.append({"layout": layout, "trees": 100, "depth": 8, "file_bytes": size})
        found[-1] |= measured("files", model, data, folder / "out")
        say(json.dumps(found[-1]))
        for file in files:
            file.unlink()
    return found


def make_model(folder: Path, n_trees: int, depth: int) -> Path:
    """A saved cautious forest, and scikit-learn's beside it."""
    import joblib
    import pandas as pd
    from sklearn.ensemble import RandomForestClassifier

    import jaxunc as ju

    path = folder / f"model-{n_trees}-{depth}.safetensors"
    if not path.exists():
        rng = np.random.default_rng(0)
        X = pd.DataFrame(rng.normal(size=(20_000, N_FEATURES)).astype(np.float32), columns=_schema().names)
        y = (X.to_numpy()[:, :10].sum(axis=1) + 3 * rng.normal(size=len(X)) > 0).astype(int)
        model = RandomForestClassifier(n_trees, max_depth=depth, n_jobs=-1, random_state=0).fit(X, y)
        joblib.dump(model, path.with_suffix(".joblib"))
        ju.save(path, ju.bind(ju.from_sklearn(model), ju.decisions.CautiousReport(2.0)))
    return path


def run_files(model: Path, data: Path, output: Path) -> dict:
    """From files to files."""
    from jaxunc.streaming import predict_files

    return {"rows": predict_files(model, data, output, outputs=["class", "probability", "interval", "set"])["rows"]}


def run_memory(model: Path, data: Path, output: Path) -> dict:
    """The same answers of rows that lie in memory as float32, 2^20 of them again and again."""
    import jax

    import jaxunc as ju

    bound, n_rows = ju.load(model), int(data.name.partition("-")[2])
    X = np.random.default_rng(0).normal(size=(min(n_rows, 2**20), N_FEATURES)).astype(np.float32)
    jax.block_until_ready(bound.answer(X[: 2**17]))
    start, done = time.perf_counter(), 0
    while done < n_rows:
        jax.block_until_ready(bound.answer(X[: n_rows - done]))
        done += min(len(X), n_rows - done)
    return {"rows": done, "seconds": time.perf_counter() - start}


def run_sklearn(model: Path, data: Path, output: Path) -> dict:
    """The mean of probabilities, by scikit-learn with all cores, in a loop over batches of the files."""
    import joblib
    import pyarrow as pa
    import pyarrow.parquet as parquet

    fitted = joblib.load(model.with_suffix(".joblib")).set_params(n_jobs=-1)
    output.mkdir(parents=True, exist_ok=True)
    n_rows = 0
    for file in sorted(data.iterdir()):
        with parquet.ParquetFile(file) as opened:
            writer = None
            for batch in opened.iter_batches(2**17):
                probability = fitted.predict_proba(batch.to_pandas())
                columns = {f"probability_{c}": probability[:, i] for i, c in enumerate(fitted.classes_)}
                table = pa.table({"class": fitted.classes_[probability.argmax(axis=1)], **columns})
                writer = writer or parquet.ParquetWriter(output / file.name, table.schema)
                writer.write_table(table)
                n_rows += batch.num_rows
            if writer is not None:
                writer.close()
    return {"rows": n_rows}


RUNS = {"files": run_files, "memory": run_memory, "sklearn": run_sklearn}


def worker(kind: str, model: Path, data: Path, output: Path) -> None:
    """One run in this process; prints what it took."""
    start = time.perf_counter()
    found = RUNS[kind](model, data, output)
    used = resource.getrusage(resource.RUSAGE_SELF)
    found = {"seconds": time.perf_counter() - start, **found}
    found |= {"cpu_seconds": used.ru_utime + used.ru_stime, "peak_bytes": peak_bytes()}
    print(json.dumps({word: found[word] for word in WORDS}))


def _command(kind: str, model: Path, data: Path, output: Path) -> list[str]:
    return [sys.executable, "-m", "benchmarks.speed.scale", "--worker", kind, str(model), str(data), str(output)]


def measured(kind: str, model: Path, data: Path, output: Path) -> dict:
    """One run in a process of its own."""
    shutil.rmtree(output, ignore_errors=True)
    done = subprocess.run(_command(kind, model, data, output), capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def sweep(folder: Path, sizes: list[int], repeats: int, with_sklearn: int) -> list[dict]:
    """Every size by every way, in turns."""
    found = []
    for n_rows in sizes:
        data = make_data(folder, n_rows)
        for n_trees, depth in SHAPES if n_rows == 10**6 else SHAPES[:1]:
            model = make_model(folder, n_trees, depth)
            kinds = [kind for kind in RUNS if kind != "sklearn" or n_rows <= with_sklearn]
            runs: dict[str, list[dict]] = {kind: [] for kind in kinds}
            for _ in range(repeats if n_rows <= 10**6 else 1):
                for kind in kinds:
                    runs[kind].append(measured(kind, model, data, folder / "out"))
            entry: dict = {"rows": n_rows, "trees": n_trees, "depth": depth}
            for kind, those in runs.items():
                entry[kind] = {word: spread(np.array([run[word] for run in those])) for word in WORDS[1:]}
            speed = {kind: np.array([n_rows / run["seconds"] for run in those]) for kind, those in runs.items()}
            entry["share_of_memory"] = spread(speed["files"] / speed["memory"])
            if "sklearn" in speed:
                entry["times_sklearn"] = spread(speed["files"] / speed["sklearn"])
            say(json.dumps(entry))
            found.append(entry)
        if n_rows > 10**6:
            shutil.rmtree(data)
    return found


def killed(folder: Path, n_rows: int, seed: int = 0) -> dict:
    """Whether a run that is killed three times at random moments ends with the bytes of one that was not."""
    data, model = make_data(folder, n_rows), make_model(folder, 100, 8)
    whole, again = folder / "whole", folder / "again"
    seconds = measured("files", model, data, whole)["seconds"]
    shutil.rmtree(again, ignore_errors=True)
    moments, rows, rng = [], [], random.Random(seed)
    while len(moments) < 3:
        run = subprocess.Popen(_command("files", model, data, again), stdout=subprocess.DEVNULL)
        moments.append(rng.uniform(0.25, 0.5) * seconds)  # of which the first seconds start and compile
        time.sleep(moments[-1])
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
        manifest = again / "_manifest.json"
        rows.append(json.loads(manifest.read_text())["rows"] if manifest.exists() else 0)
    last = subprocess.run(_command("files", model, data, again), capture_output=True, text=True, check=True)
    digests = [
        {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in output.iterdir()}
        for output in (whole, again)
    ]
    return {
        "rows": n_rows,
        "seconds_undisturbed": seconds,
        "killed_after_seconds": [round(moment, 1) for moment in moments],
        "rows_finished_then": rows,
        "seconds_of_the_last_run": json.loads(last.stdout.splitlines()[-1])["seconds"],
        "files": len(digests[0]),
        "same_bytes": digests[0] == digests[1],
    }


def main(arguments: list[str] | None = None) -> None:
    """Measure, write the file, print it."""
    parser = argparse.ArgumentParser("python -m benchmarks.speed.scale", description=main.__doc__)
    parser.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=int, nargs="*", default=[10**4, 10**5, 10**6, 2 * 10**7])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--with-sklearn", type=int, default=10**6, help="rows up to which scikit-learn is run, too")
    parser.add_argument("--layouts", type=int, default=5 * 10**6, help="rows in every other layout; 0: none")
    parser.add_argument("--kill", type=int, default=2 * 10**7, help="rows of the run that is killed; 0: none")
    parser.add_argument("--folder", type=Path, help="where data are made (3 GB for 2·10^7 rows); default: temporary")
    parser.add_argument("--output", type=Path, help="default: print only")
    options = parser.parse_args(arguments)
    if options.worker:
        kind, *paths = options.worker
        worker(kind, *map(Path, paths))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        result = {
            **about(),
            "columns": N_FEATURES,
            "sizes": sweep(folder, options.rows, options.repeats, options.with_sklearn),
            "layouts": layouts(folder, options.layouts) if options.layouts else None,
            "killed": killed(folder, options.kill) if options.kill else None,
        }
    publish(result, options.output)


if __name__ == "__main__":
    main()
