"""Does reliable classification help evidence accumulation? Rules that weight a leaf by its doubts, beside known ones.

    python -m benchmarks reliable_evidence [--data FOLDER] [--sets NAME ...]

The part ``main`` has the sets of two classes, folds and forests of `benchmarks.studies.rules`, with in-bag counts:
degrees of preference compare two classes. The further parts are those of `beyond`: more classes, out-of-bag counts,
random decision trees. A cell (`benchmarks.cells`) is a forest on a fold of a set.
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from sklearn.model_selection import RepeatedStratifiedKFold

import jaxunc as ju
from benchmarks.cells import Journal, run_missing, study_options
from benchmarks.data import load
from benchmarks.studies.reliable_evidence import beyond
from benchmarks.studies.reliable_evidence.beyond import Cell
from benchmarks.studies.reliable_evidence.methods import NAMES, rules_of
from benchmarks.studies.reliable_evidence.page import MEASURES, REJECTED_BY, page
from benchmarks.studies.rules.run import SETS as RULES_SETS
from benchmarks.studies.rules.run import table
from jaxunc import compare
from jaxunc.compare import FORESTS

# The smallest first.
SETS = (
    "hepatitis", "sonar", "spect", "breast-cancer-ljubljana", "heart-h", "heart-c", "vertebral-2c", "liver",
    "ionosphere", "climate", "cylinder-bands", "wdbc", "breast-w", "diabetes", "mammo", "tic-tac-toe", "credit-g",
    "biodeg", "banknote", "kr-vs-kp", "sick", "spambase", "banana",
)  # fmt: skip
KINDS, LEAF_SIZES, N_FOLDS, N_TREES = ("random-forest", "extra-trees"), (1, 4, 16), 5, 100
TAKES = "35 data sets, 1254 forests"
RESULTS = Path(__file__).parent


def run_cell(cell: Cell, data: compare.Table) -> dict:
    """{"rules": {rule: `MEASURES`}}, of the forest that `benchmarks.studies.rules` grows there."""
    folds = RepeatedStratifiedKFold(n_splits=N_FOLDS, n_repeats=1, random_state=0).split(data.X, data.y)
    train, test = list(folds)[cell.fold]
    model = FORESTS[cell.forest](N_TREES, cell.leaf_size, cell.fold, False).fit(data.X[train], data.y[train])
    forest = ju.from_sklearn(model)
    rules = rules_of(forest.prior) | {"doubt": ju.UncertaintyDecomposition("plausibility")}
    answers = ju.bind(forest, rules).answer(data.X[test])
    doubt = answers.pop("doubt")
    return {"rules": {name: measured(answer, doubt, data.y[test]) for name, answer in answers.items()}}


def measured(answer: ju.combiners.Answer, doubt: ju.combiners.Uncertainty, y: np.ndarray) -> list[float]:
    """`MEASURES` of a rule's answer; rejection by its own score, or by what the forest doubts."""
    scores, labels = jnp.asarray(answer.class_scores), jnp.asarray(y, jnp.int32)
    margin = ju.margin(scores)
    right = jnp.argmax(scores, axis=1) == labels
    shares = jnp.asarray(answer.probability)
    by = {"score": jnp.abs(margin)} | {part: -jnp.asarray(getattr(doubt, part)) for part in REJECTED_BY[1:]}
    found = [
        ju.metrics.auc(margin, labels),
        ju.metrics.accuracy(scores, labels),
        ju.metrics.brier_score(shares / jnp.sum(shares, axis=1, keepdims=True), labels, scale_by_half=True),
        *(1 - ju.metrics.area_under_risk_coverage(by[part], right) for part in REJECTED_BY),
    ]
    return [round(float(value), 6) for value in found]


def journal(out: Path, name: str) -> Journal:
    """The finished cells of a set."""
    cells = [Cell(name, *key) for key in np.ndindex(len(KINDS), len(LEAF_SIZES), N_FOLDS)]
    cells = [Cell(name, KINDS[c[1]], LEAF_SIZES[c[2]], int(c[3])) for c in cells]

    def is_sound(record: dict, cell: Cell) -> bool:
        return set(record["rules"]) == set(NAMES) and all(len(v) == len(MEASURES) for v in record["rules"].values())

    return Journal(out, "main", cells, is_sound)


def kept(out: Path) -> dict[Cell, dict]:
    """All cells of the sets that have been run to the end."""
    found = {}
    for name in SETS:
        one = journal(out, name)
        found |= one.found if len(one.found) == len(one.wanted) else {}
    return found


def options() -> ArgumentParser:
    """What the study takes."""
    return study_options(__doc__, RESULTS, dict.fromkeys((*SETS, *RULES_SETS)), ("main", *beyond.KINDS))


def run(args: Namespace) -> None:
    """Run what is missing, part by part."""
    for part in args.parts:
        if part == "main":
            journals = {name: journal(args.out, name) for name in args.sets if name in SETS}
            run_missing(journals, lambda name: table(load(name, args.data)), run_cell)
        else:
            beyond.run_part(part, args.sets, args.data, args.out)


def write_page(out: Path) -> None:
    """The page of all sets that have been run to the end."""
    further = {part: beyond.kept(out, part) for part in beyond.KINDS}
    (out / "README.md").write_text(page(kept(out), further), encoding="utf-8")
