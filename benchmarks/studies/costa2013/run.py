"""The study of Costa, Verwer and Blockeel 2013: certainty of a tree by inserting the instance with each label.

    python -m benchmarks costa2013 [--data FOLDER] [--sets NAME ...]

Tables 1 to 3 and Figures 4 to 6 by leave-one-out up to 2000 instances, by ten-fold cross-validation above; all sets
by ten folds as well, because leaving one out can tilt areas. Beyond the paper: Laplace-smoothed baselines, other
read-outs of the leaves, the batch variant of its conclusion, Kukar and Kononenko's threshold, and what happens if the
inserted instance makes thresholds (its Figure 3).

Four further parts go beyond the paper: `pools`, `paths`, `branches` and `general`.

A cell (`benchmarks.cells`) is a set and how it is cut up. The page and its figures are made of the cells.
"""

from pathlib import Path

from benchmarks.cells import Study, make_part
from benchmarks.data import DataSet, load
from benchmarks.studies.costa2013 import branches, further, general, paths, pools
from benchmarks.studies.costa2013.methods import MEASURES, cross_validated, leave_one_out, own_thresholds
from benchmarks.studies.costa2013.page import study_page
from benchmarks.studies.costa2013.pools import PoolCell as Cell
from benchmarks.studies.costa2013.sets import SETS, protocols

TAKES = "48 data sets; the first part less than an hour of one core"
FLOAT64 = True
RESULTS = Path(__file__).parent
RUNS = {"loo": leave_one_out, "folds": cross_validated, "own": own_thresholds}


def run_cell(cell: Cell, data: DataSet) -> dict:
    """{method: measures}, with the set's sizes."""
    found = RUNS[cell.protocol](data)
    return {"n": len(data.y), "features": data.X.shape[1], "classes": len(data.class_labels), **found}


def _is_sound(record: dict, cell: Cell) -> bool:
    method = "tpce_own" if cell.protocol == "own" else "tpce"
    return len(record[method]) == len(MEASURES) and record["classes"] > 1


def finished(out: Path) -> dict[str, dict[str, dict]]:
    """{set: {protocol: record}} of the sets that are finished."""
    kept = MAIN.kept(out, whole=True)
    return {name: {cell.protocol: record for cell, record in found.items()} for name, found in kept.items()}


def write_page(out: Path) -> None:
    """The page of the sets that are finished, its figures, and the sections of what goes beyond the paper."""
    found = finished(out)
    if len(found) > 1:
        (out / "README.md").write_text(study_page(found, out, further_sections(out)), encoding="utf-8")


def further_sections(out: Path) -> list[str]:
    """The sections of what goes beyond the paper: of each part of which two sets are finished."""
    found = {part: finished_part(out, part) for part in FURTHER}
    five = sum("five" in of for of in found["pools"].values())
    sections = {"pools": further.pools_section, "paths": further.paths_section}
    sections |= {"branches": further.branches_section, "general": further.general_section}
    return [sections[part](of) for part, of in found.items() if (five if part == "pools" else len(of)) > 1]


def finished_part(out: Path, part: str) -> dict[str, dict[str, dict]]:
    """{set: {protocol or learner, ``five`` where there is one: record}} of the sets of which the part is finished.

    Of pools, of the sets of which a cell is there.
    """
    kept = FURTHER[part].kept(out, whole=part != "pools")
    named = lambda found: {cell[1] if len(cell) > 1 else "five": record for cell, record in found.items()}
    return {name: named(found) for name, found in kept.items() if found}


FURTHER = {"pools": pools.PART, "paths": paths.PART, "branches": branches.PART, "general": general.PART}
MAIN = make_part(SETS, lambda name: [Cell(name, run) for run in protocols(name)], _is_sound, run_cell, load, "main")
STUDY = Study(str(__doc__), RESULTS, {"main": MAIN, **FURTHER})
options, run = STUDY.options, STUDY.run
