"""Leaves of transduction read by pools: learned on leaves left out, calibrated by them, and in bags.

Each training instance is left out and inserted with each label. Its k leaves do not know its class, so what reads
leaves can be learned on them. Everything here is of a fold's training instances alone.
"""

from collections.abc import Callable

import numpy as np

import jaxunc as ju
from benchmarks.data import DataSet
from benchmarks.papers.costa2013_methods import (
    DECIMALS,
    MEASURES,
    Probabilities,
    by_rule,
    frequencies,
    laplace,
    measured,
    widened,
)
from benchmarks.papers.costa2013_sets import fold_of
from benchmarks.venn_abers import merged_pair, venn_abers_pair
from jaxunc import metrics, transduction
from jaxunc.learning import OobDataset, dataset_from_counts, fit_combiner

POOL_MEASURES = (*MEASURES, "log")
"""``log`` is the log loss in nats."""
CLIP = 1e-6
"""Least probability of a class in the log loss."""
N_FOLDS = 5
BAG = 20
"""Bootstrap samples of a bag."""
Measures = dict[str, list]


def left_out(data: DataSet) -> Measures:
    """{reading: `POOL_MEASURES`} of instances left out one by one."""
    counts = transduction.leave_one_out_leaf_counts(data.X, data.y, nominal=data.nominal, inductive=True)
    probs = {
        "tree": frequencies(counts[:, -1:]),
        "tree_laplace": laplace(counts[:, -1:]),
        "tpce": laplace(counts[:, :-1]),
        "tpce_frequencies": frequencies(counts[:, :-1]),
        "tpce_pool": pooled(counts[:, :-1]),
    }
    return scored(probs, data.y)


def cross_validated(data: DataSet) -> Measures:
    """{reading: `POOL_MEASURES`} of all instances, each as a test instance of one of five folds."""
    fold, parts = fold_of(data.y, N_FOLDS), []
    for number in range(N_FOLDS):
        parts.append(_of_fold(data, np.flatnonzero(fold != number), np.flatnonzero(fold == number), number))
    y = data.y[np.concatenate([np.flatnonzero(fold == number) for number in range(N_FOLDS)])]
    return scored({name: np.concatenate([part[name] for part in parts]) for name in parts[0]}, y)


def _of_fold(data: DataSet, train: np.ndarray, test: np.ndarray, number: int) -> Probabilities:
    X, y, nominal, n_classes = data.X[train], data.y[train], data.nominal, len(data.class_labels)
    classes, position = np.unique(y, return_inverse=True)
    counts = transduction.transductive_leaf_counts(X, position, data.X[test], nominal=nominal, inductive=True)
    known = transduction.leave_one_out_leaf_counts(X, position, nominal=nominal, inductive=True)
    leaves, tree = counts[:, :-1], counts[:, -1:]
    rows = {name: dataset_from_counts(of, position) for name, of in _both(known).items()}
    probs = {
        "tree": frequencies(tree),
        "tree_laplace": laplace(tree),
        "tree_learned": learned(rows["tree"])(tree),
        "tpce": laplace(leaves),
        "tpce_frequencies": frequencies(leaves),
        "tpce_pool": pooled(leaves),
        "tpce_learned": learned(rows["tpce"])(leaves),
        "tpce_weights": learned(rows["tpce"], freeze=("scale", "bias", "noise"))(leaves),
    }
    if len(classes) == 2:
        probs["venn_abers"] = venn_abers(pooled(known[:, :-1])[:, 1], position, pooled(leaves)[:, 1])
    wide = {name: widened(of, classes, n_classes) for name, of in probs.items()}
    return wide | bags(data, train, test, number)


def _both(known: np.ndarray) -> dict[str, np.ndarray]:
    return {"tpce": known[:, :-1], "tree": known[:, -1:]}


def pooled(counts: np.ndarray) -> np.ndarray:
    """The leaves' instances counted together ``[instances leaves classes]``; the inserted ones are among them."""
    return (counts.sum(axis=-2) / counts.sum(axis=(-2, -1))[..., None]).round(DECIMALS)


def learned(rows: OobDataset, freeze: tuple[str, ...] = ()) -> Callable[[np.ndarray], np.ndarray]:
    """A reading by a `LearnedPool` that was fitted to rows by log loss, starting from pooling."""
    start = ju.LearnedPool(rows.prior, size_power=1.0)
    return by_rule(fit_combiner(start, rows, freeze=freeze).combiner)


def venn_abers(known: np.ndarray, y: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Venn-Abers probabilities ``[tests 2]`` of test scores, from those of instances left out, for two classes.

    The test instance joins the known ones with either label; of the two isotonic fits at its score, p0 and p1, the
    answer is the p1 / (1 - p0 + p1) that Vovk and Petej derive for the log loss. The scores of the known instances are
    those without it, which costs a score its exact exchangeability.
    """
    p1 = merged_pair(*venn_abers_pair(known, y == 1, scores))
    return np.column_stack([1 - p1, p1]).round(DECIMALS)


def bags(data: DataSet, train: np.ndarray, test: np.ndarray, seed: int) -> Probabilities:
    """Means over bootstrap samples: of the pooled leaves of transduction, and of the samples' trees."""
    drawn = np.random.default_rng(seed).integers(len(train), size=(BAG, len(train)))
    n_classes = len(data.class_labels)
    found: dict[str, list[np.ndarray]] = {"bag_tpce_pool": [], "bag": [], "bag_laplace": []}
    for sample in drawn:
        X, y = data.X[train[sample]], data.y[train[sample]]
        classes, position = np.unique(y, return_inverse=True)
        counts = transduction.transductive_leaf_counts(X, position, data.X[test], nominal=data.nominal, inductive=True)
        found["bag_tpce_pool"].append(widened(pooled(counts[:, :-1]), classes, n_classes))
        wide = np.zeros((len(test), 1, n_classes))
        wide[:, 0, classes] = counts[:, -1]
        found["bag"].append(frequencies(wide))
        found["bag_laplace"].append(laplace(wide))
    return {name: np.mean(of, axis=0).round(DECIMALS) for name, of in found.items()}


def scored(probs: Probabilities, y: np.ndarray) -> Measures:
    """`POOL_MEASURES` of every reading."""
    plain = measured(probs, y)
    return {name: [*plain[name], round(log_loss(of, y), 6)] for name, of in probs.items()}


def log_loss(probs: np.ndarray, y: np.ndarray) -> float:
    """The mean of -log of the class's probability, which is taken to be `CLIP` at least."""
    return float(metrics.log_loss(np.clip(probs, CLIP, None) / np.clip(probs, CLIP, None).sum(axis=1)[:, None], y))
