"""Which column makes the doubt: how often is a planted one named first, and when can the answer be trusted?

    python -m benchmarks attributions [--parts DESIGN ...]

A column makes labels noise where it is large, and another has a range without rows. `ju.explain` of the uncertainty of
leaves, permutation of the column and the SHAP values of the mean say which column comes first, for forests of 20 trees,
at ten seeds: `methods`.

A cell (`benchmarks.cells`) is a setting with all its seeds.
"""

from collections import namedtuple
from pathlib import Path

from benchmarks.cells import Study, make_part
from benchmarks.studies.attributions.methods import CAUSES, DESIGNS, METHODS, named_first
from benchmarks.studies.attributions.page import page

N_SEEDS = 10
TAKES = "no data; 24 settings of ten seeds each"
RESULTS = Path(__file__).parent
Cell = namedtuple("Cell", "data learner leaf rows copies")
"""A setting: a design, a learner and its least leaf, training rows, and whether columns have copies."""
SETTINGS = (
    *((learner, leaf, 1000, 0) for learner in ("forest", "extra trees") for leaf in (5, 1)),
    ("forest", 5, 3000, 0),
    ("forest", 5, 1000, 1),
)


def run_cell(cell: Cell, _: object = None) -> dict:
    """{cause: {method: [of each seed: [planted first, its copy first]]}}, shares of the instances."""
    design = DESIGNS[cell.data]._replace(copies=bool(cell.copies))
    return named_first(design, cell.learner, cell.leaf, cell.rows, N_SEEDS)


def _is_sound(record: dict, cell: Cell) -> bool:
    return all(len(of) == 1 + cell.copies for cause in CAUSES for name in METHODS for of in record[cause][name])


_cells = lambda name: [Cell(name, *setting) for setting in SETTINGS]
STUDY = Study(str(__doc__), RESULTS, {name: make_part((name,), _cells, _is_sound, run_cell) for name in DESIGNS}, page)
kept, options, run, write_page = STUDY.kept, STUDY.options, STUDY.run, STUDY.write_page
