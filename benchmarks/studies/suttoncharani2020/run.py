"""The study of Sutton-Charani 2020: trees of six complexities, before and after empirical-Bayes smoothing.

    python -m benchmarks suttoncharani2020 [--data FOLDER] [--sets NAME ...]

Ten-fold cross-validation (stratified), repeated, in float64. Trees are grown and pruned as R's rpart does it (see
`trees`). Unlike the published code, the trees that were pruned by cross-validation are smoothed too.
``banknote-eb`` is the damaged file that the paper used, ``banknote`` the right one.

The part ``main`` has a cell (`benchmarks.cells`) for each set, repetition and fold; the others are `left_open` and
`beyond`. Tables, figures and the page are made of the cells.
"""

from argparse import Namespace
from pathlib import Path

from benchmarks.cells import Study
from benchmarks.studies.suttoncharani2020 import beyond, distances, left_open
from benchmarks.studies.suttoncharani2020.methods import MAIN, SETS
from benchmarks.studies.suttoncharani2020.page import study_page

TAKES = "19 data sets; the first part nine minutes of one core"
FLOAT64 = True
RESULTS = Path(__file__).parent
STUDY = Study(str(__doc__), RESULTS, {"main": MAIN, **left_open.PARTS, **beyond.RUN})
options = STUDY.options


def run(args: Namespace) -> None:
    """Run what is missing, part by part; of ``open`` all of its groups."""
    parts = [group for part in args.parts for group in (left_open.PARTS if part == "open" else (part,))]
    STUDY.run(Namespace(**vars(args) | {"parts": list(dict.fromkeys(parts))}))


def write_page(out: Path) -> None:
    """The page of the sets that are finished, and its figures."""
    finished = {name: list(found.values()) for name, found in MAIN.kept(out, whole=True).items()}
    if not any(SETS[name] for name in finished):
        return
    further = []
    if opened := left_open.records(out):
        of_paper = {name: finished[name] for name in opened if name in finished}
        further += [left_open.section(opened), distances.section(of_paper, opened)]
    if records := beyond.kept(out):
        further.append(beyond.section(records))
    (out / "README.md").write_text(study_page(finished, SETS, out, further), encoding="utf-8")
