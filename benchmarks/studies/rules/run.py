"""Which rule when: all rules × whose counts, on many data sets. Source of the table in the README.

    python -m benchmarks rules [--data FOLDER] [--sets NAME ...] [--parts rules abstaining] [--work FOLDER]

In the first part each (set, counts) is a study of `jaxunc.compare`, kept in the work folder as it goes: an interrupted
run goes on where it stopped. At the end the means over folds go to ``rules.json``, of which the page is made. The
second asks which rows to leave open, and has cells (`benchmarks.cells`).
"""

import json
import sys
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.cells import Study, make_part, study_options
from benchmarks.data import DataSet, load
from benchmarks.studies.rules.abstaining import abstaining_section, cells, is_sound, run_cell
from benchmarks.studies.rules.page import rules_page, write_pictures
from jaxunc import compare

# heart-statlog is not among them: its patients are those of heart-c, and blocks of a test must be independent.
SETS = (
    # two classes
    "banana", "banknote", "biodeg", "breast-cancer-ljubljana", "breast-w", "climate", "credit-g", "cylinder-bands",
    "diabetes", "heart-c", "heart-h", "hepatitis", "ionosphere", "kr-vs-kp", "liver", "mammo", "sick",
    "sonar", "spambase", "spect", "tic-tac-toe", "vertebral-2c", "wdbc",
    # more
    "autos", "balance-scale", "car", "cmc", "dermatology", "glass", "libras", "vehicle-statlog", "vowel",
    "waveform-5000", "wine", "yeast",
)  # fmt: skip
COUNTS = ("inbag", "oob", "held_out")
FIXED = tuple(name for name, rule in compare.COMPARED_COMBINERS.items() if not (rule.learns or rule.is_model))
"""Learned rules have a study of their own: `benchmarks.studies.learning`."""
TAKES = "35 data sets, two kinds of forests, three kinds of counts; hours"
RESULTS = Path(__file__).parent


def settings(counts: str) -> compare.Settings:
    """What is run on each set."""
    return compare.Settings(leaf_sizes=(1, 4, 16), n_repeats=1, n_folds=5, counts=counts, combiners=FIXED)


def table(data: DataSet) -> compare.Table:
    """A data set for `jaxunc.compare`: nominal values as ranks of their levels, as in `jaxunc compare`."""
    kept = np.bincount(data.y) >= 5
    rows = kept[data.y]
    y = (np.cumsum(kept) - 1)[data.y[rows]]
    labels = tuple(label for label, keep in zip(data.class_labels, kept, strict=True) if keep)
    X = data.X[rows]
    varying = np.array([len(np.unique(column)) > 1 for column in X.T])
    return compare.Table(data.name, X[:, varying], y, labels)


def means(results: compare.Results) -> pd.DataFrame:
    """A row per forest kind, leaf size and rule: the mean of each measure over folds."""
    records = results.records().rename(columns={"combiner": "rule"})
    groups = records.groupby(["forest", "leaf_size", "rule"], sort=False)
    return groups[list(compare.COMPARED_MEASURES)].mean().round(5).reset_index()


ABSTAINING = make_part(SETS, cells, is_sound, run_cell, lambda name, folder: table(load(name, folder)))
STUDY = Study(str(__doc__), RESULTS, {"abstaining": ABSTAINING})


def options() -> ArgumentParser:
    """What the study takes."""
    found = study_options(__doc__, RESULTS, SETS, ("rules", "abstaining"))
    found.add_argument("--work", default="benchmarks/work/rules", help="folder that keeps what has been run")
    return found


def run(args: Namespace) -> None:
    """Run what is missing, and write the means over folds."""
    if "abstaining" in args.parts:
        STUDY.run(Namespace(**vars(args) | {"parts": ["abstaining"]}))
    if "rules" not in args.parts:
        return
    found = []
    for i, name in enumerate(args.sets):
        data = table(load(name, args.data))
        for counts in COUNTS:
            start = time.perf_counter()
            results = compare.run(data, settings(counts), Path(args.work) / name / counts, quiet=True)
            found.append(means(results).assign(set=name, counts=counts, n_classes=len(data.class_labels)))
            seconds = time.perf_counter() - start
            print(f"{i + 1}/{len(args.sets)} {name}, {counts}: {seconds:.0f} s", file=sys.stderr, flush=True)
    write(pd.concat(found, ignore_index=True), args.out)


def write(everything: pd.DataFrame, folder: Path) -> None:
    """The numbers, compactly."""
    keys = ["set", "n_classes", "counts", "forest", "leaf_size", "rule"]
    rows = [list(row) for row in everything[[*keys, *compare.COMPARED_MEASURES]].itertuples(index=False)]
    head = {
        "command": "python -m benchmarks rules",
        "settings": "random forests and extremely randomised trees, 100 trees, 5-fold cross-validation, seed 0",
        "columns": [*keys, *compare.COMPARED_MEASURES],
    }
    lines = ",\n".join(json.dumps(row) for row in rows)
    text = json.dumps(head, indent=1).removesuffix("\n}") + f',\n "rows": [\n{lines}\n]}}\n'
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rules.json").write_text(text, encoding="utf-8")


def write_page(out: Path) -> None:
    """The page that reads the numbers, and its pictures."""
    document = json.loads((out / "rules.json").read_text(encoding="utf-8"))
    everything = pd.DataFrame(document["rows"], columns=document["columns"])
    page = rules_page(everything)
    if left_open := STUDY.kept(out):
        page += f"\n{abstaining_section(left_open)}\n"
    (out / "README.md").write_text(page, encoding="utf-8")
    write_pictures(everything, out)
