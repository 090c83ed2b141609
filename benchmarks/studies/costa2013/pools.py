"""Transduction, read better: pools beside the mean of the published rule, learned pools, Venn-Abers, bags.

    python -m benchmarks costa2013 --parts pools [--data FOLDER] [--sets NAME ...]

Goes beyond Costa, Verwer and Blockeel 2013. Two cells of each set: ``loo``, instances left out one by one, and
``five``, five folds, in which readings learn from the training instances left out one by one. In a fold,
each training instance is left out and inserted with each label. Its k leaves do not know its class, so what reads
leaves can be learned on them. Everything is of a fold's training instances alone.
"""

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np

import jaxunc as ju
from benchmarks.cells import Part, make_part
from benchmarks.data import DataSet, load
from benchmarks.studies.costa2013 import methods
from benchmarks.studies.costa2013.sets import LARGE, SETS, fold_of
from benchmarks.studies.learning.methods import merged_pair, venn_abers_pair
from jaxunc import metrics, transduction
from jaxunc.learning import OobDataset, dataset_from_counts, fit_combiner

POOL_MEASURES = (*methods.MEASURES, "log")
"""``log`` is the log loss in nats."""
N_FOLDS = 5
BAG = 20
"""Bootstrap samples of a bag."""
Measures = dict[str, list]


def left_out(data: DataSet) -> Measures:
    """{reading: `POOL_MEASURES`} of instances left out one by one."""
    counts = transduction.transductive_leaf_counts(data.X, data.y, nominal=data.nominal, inductive=True)
    probs = {
        "tree": methods.frequencies(counts[:, -1:]),
        "tree_laplace": methods.laplace(counts[:, -1:]),
        "tpce": methods.laplace(counts[:, :-1]),
        "tpce_frequencies": methods.frequencies(counts[:, :-1]),
        "tpce_pool": pooled(counts[:, :-1]),
    }
    return scored(probs, data.y)


def by_folds(data: DataSet, of_fold: Callable[..., methods.Probabilities], rows: Any = slice(None)) -> Measures:
    """Measures of all instances, or of some in their order, each asked by what the other folds say.

    ``of_fold`` takes data, training instances, test instances, the fold's number.
    """
    fold, asked = fold_of(data.y, N_FOLDS), np.arange(len(data.y))[rows]
    tests = [asked[fold[asked] == number] for number in range(N_FOLDS)]
    parts = [of_fold(data, np.flatnonzero(fold != number), test, number) for number, test in enumerate(tests)]
    probs = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return scored(probs, data.y[np.concatenate(tests)])


def _of_fold(data: DataSet, train: np.ndarray, test: np.ndarray, number: int) -> methods.Probabilities:
    X, y, nominal, n_classes = data.X[train], data.y[train], data.nominal, len(data.class_labels)
    classes, position = np.unique(y, return_inverse=True)
    counts = transduction.transductive_leaf_counts(X, position, data.X[test], nominal=nominal, inductive=True)
    known = transduction.transductive_leaf_counts(X, position, nominal=nominal, inductive=True)
    leaves, tree = counts[:, :-1], counts[:, -1:]
    of_leaves, of_tree = (dataset_from_counts(part, position) for part in (known[:, :-1], known[:, -1:]))
    probs = {
        "tree": methods.frequencies(tree),
        "tree_laplace": methods.laplace(tree),
        "tree_learned": learned(of_tree)(tree),
        "tpce": methods.laplace(leaves),
        "tpce_frequencies": methods.frequencies(leaves),
        "tpce_pool": pooled(leaves),
        "tpce_learned": learned(of_leaves)(leaves),
        "tpce_weights": learned(of_leaves, freeze=("scale", "bias", "noise"))(leaves),
    }
    if len(classes) == 2:
        probs["venn_abers"] = venn_abers(pooled(known[:, :-1])[:, 1], position, pooled(leaves)[:, 1])
    wide = {name: methods.widened(of, classes, n_classes) for name, of in probs.items()}
    return wide | bags(data, train, test, number)


def pooled(counts: np.ndarray) -> np.ndarray:
    """The leaves' instances counted together ``[instances leaves classes]``; the inserted ones are among them."""
    return (counts.sum(axis=-2) / counts.sum(axis=(-2, -1))[..., None]).round(methods.DECIMALS)


def learned(rows: OobDataset, freeze: tuple[str, ...] = ()) -> Callable[[np.ndarray], np.ndarray]:
    """A reading by a `LearnedPool` that was fitted to rows by log loss, starting from pooling."""
    start = ju.LearnedPool(rows.prior, size_power=1.0)
    return methods.by_rule(fit_combiner(start, rows, freeze=freeze).combiner)


def venn_abers(known: np.ndarray, y: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Venn-Abers probabilities ``[tests 2]`` of test scores, from those of instances left out, for two classes.

    The test instance joins the known ones with either label; of the two isotonic fits at its score, p0 and p1, the
    answer is the p1 / (1 - p0 + p1) that Vovk and Petej derive for the log loss. The scores of the known instances are
    those without it, which costs a score its exact exchangeability.
    """
    p1 = merged_pair(*venn_abers_pair(known, y == 1, scores))
    return np.column_stack([1 - p1, p1]).round(methods.DECIMALS)


def bags(data: DataSet, train: np.ndarray, test: np.ndarray, seed: int) -> methods.Probabilities:
    """Means over bootstrap samples: of the pooled leaves of transduction, and of the samples' trees."""
    n_classes = len(data.class_labels)
    found: dict[str, list[np.ndarray]] = {"bag_tpce_pool": [], "bag": [], "bag_laplace": []}
    for sample in np.random.default_rng(seed).integers(len(train), size=(BAG, len(train))):
        X, y = data.X[train[sample]], data.y[train[sample]]
        classes, position = np.unique(y, return_inverse=True)
        counts = transduction.transductive_leaf_counts(X, position, data.X[test], nominal=data.nominal, inductive=True)
        found["bag_tpce_pool"].append(methods.widened(pooled(counts[:, :-1]), classes, n_classes))
        wide = np.zeros((len(test), 1, n_classes))
        wide[:, 0, classes] = counts[:, -1]
        found["bag"].append(methods.frequencies(wide))
        found["bag_laplace"].append(methods.laplace(wide))
    return {name: np.mean(of, axis=0).round(methods.DECIMALS) for name, of in found.items()}


def scored(probs: methods.Probabilities, y: np.ndarray) -> Measures:
    """`POOL_MEASURES` of every reading."""
    plain = methods.measured(probs, y)
    return {name: [*plain[name], round(log_loss(of, y), 6)] for name, of in probs.items()}


def log_loss(probs: np.ndarray, y: np.ndarray) -> float:
    """The mean of -log of the class's probability, which is taken to be 10⁻⁶ at least."""
    clipped = np.clip(probs, 1e-6, None)
    return float(metrics.log_loss(clipped / clipped.sum(axis=1)[:, None], y))


# The cells of the study of pools: where they lie, and which of them are finished.

SMALL = tuple(name for name in SETS if name not in LARGE)
"""The sets whose instances are left out one by one, cheap ones first."""
SetCell = namedtuple("SetCell", "data")
"""A set, by five folds."""
PoolCell = namedtuple("PoolCell", "data protocol")
"""A set and how it is cut up."""


def sizes(data: DataSet) -> dict:
    """How many instances and classes a set has."""
    return {"n": len(data.y), "classes": len(data.class_labels)}


def run_cell(cell: PoolCell, data: DataSet) -> dict:
    """{reading: measures}, with the set's sizes."""
    return sizes(data) | (left_out(data) if cell.protocol == "loo" else by_folds(data, _of_fold))


def part_of_five(
    name: str, of_fold: Callable[..., methods.Probabilities], last: str, sets: tuple[str, ...] = SMALL
) -> Part:
    """A part with a cell for each set: measures `by_folds` of its readings, the ``last`` among them, and its sizes."""
    is_sound = lambda record, _: len(record[last]) == len(POOL_MEASURES)
    run = lambda _, data: sizes(data) | by_folds(data, of_fold)
    return make_part(sets, lambda of: [SetCell(of)], is_sound, run, load, name)


_is_sound = lambda record, _: len(record["tpce_pool"]) == len(POOL_MEASURES) and record["classes"] > 1
PART = make_part(
    SMALL, lambda name: [PoolCell(name, run) for run in ("loo", "five")], _is_sound, run_cell, load, "pools"
)
