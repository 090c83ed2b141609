"""The methods of the study of Costa, Verwer and Blockeel 2013: from leaf counts to probabilities, and their measures.

Every protocol answers with a record, {method: its measures}.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

import jaxunc as ju
from benchmarks.data import DataSet
from benchmarks.studies.costa2013.sets import folds
from jaxunc import metrics, transduction
from jaxunc.forest import Forest
from jaxunc.inference import leaf_counts
from jaxunc.smoothing import DirichletPrior, PriorStatus, SmoothedMean, fit_dirichlet_prior
from jaxunc.tables import encode_instances

MEASURES = ("brier", "auc", "reliability", "accuracy")
"""Of every method; ``reliability`` is the AUC of the largest probability (of K&K: of its reliability)."""
DECIMALS = 12
"""Probabilities are rounded: other orders of the same sum are no other ranks."""
ROWS = 64
"""Instances are read in multiples of so many."""
Probabilities = dict[str, np.ndarray]


# Kukar and Kononenko's reliability, which the paper compares with, by one transduction: the tree with the instance
# under the class that is predicted for it, against the tree without it. The paper does not print the divergence of the
# two leaves. References: Kukar and Kononenko 2002; Costa, Verwer and Blockeel 2013, section 2.2.


class Reliability(NamedTuple):
    """Predictions ``[instances]`` and how far each is to be trusted, of which the order alone has a meaning."""

    predicted: np.ndarray
    reliability: np.ndarray


def reliability_of(counts: np.ndarray) -> Reliability:
    """2^-J, in (0, 1], from leaf counts ``[instances labels classes]`` whose last label stands for no label."""
    inductive = transduction.label_average(counts[:, -1:])
    predicted = inductive.argmax(axis=1)
    transductive = transduction.label_average(counts[np.arange(len(counts)), predicted][:, None])
    return Reliability(predicted, 2.0 ** -j_divergence(inductive, transductive))


def j_divergence(p: np.ndarray, q: np.ndarray) -> np.ndarray | np.float64:
    r"""The symmetric Kullback-Leibler divergence in bits, :math:`J=\sum_c (p_c-q_c)\log_2(p_c/q_c)`.

    An array ``[...]``: infinite where a class has probability 0 in one distribution alone; 0 where the two are equal.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        # 0 · (log 0 - log 0) is NaN; where both are equal the term is 0.
        terms = (p - q) * (np.log2(p) - np.log2(q))
    return np.where(p == q, 0.0, terms).sum(axis=-1)


def reliability_threshold(reliability: np.ndarray, correct: np.ndarray) -> float:
    """The threshold that says most about which predictions are correct: those above it are called reliable.

    It lies halfway between two reliabilities; of several with the same information gain it is the lowest that has more
    right predictions above than below. Gain has no direction: where all of the best have fewer right ones above, the
    reliability points the wrong way, and the threshold is ∞, which calls none reliable. Where no threshold gains
    anything it is -∞, or ∞ if no prediction is right.
    """
    nothing = -np.inf if correct.any() else np.inf
    order = np.argsort(reliability, kind="stable")
    ascending, n = reliability[order], len(order)
    right = np.cumsum(correct[order])
    cut = np.flatnonzero(ascending[1:] > ascending[:-1])
    if not len(cut):
        return nothing
    size = cut + 1
    below, above = right[cut] / size, (right[-1] - right[cut]) / (n - size)
    gain = _entropy(right[-1] / n) - (size * _entropy(below) + (n - size) * _entropy(above)) / n
    if gain.max() < 1e-12:
        return nothing
    # Gains that are equal but for rounding tie, so that the lowest threshold wins on every machine.
    gain = gain.round(12)
    best = np.flatnonzero((gain == gain.max()) & (above > below))
    return float(ascending[cut[best[0]] : cut[best[0]] + 2].mean()) if len(best) else np.inf


def _entropy(p):
    p = np.asarray(p, float)
    q = 1 - p
    return -p * np.log2(np.where(p > 0, p, 1)) - q * np.log2(np.where(q > 0, q, 1))


# What is run on a set.


def leave_one_out(data: DataSet) -> dict:
    """{method: its measures} of instances left out one by one, and what a threshold on reliability tells."""
    n_classes = len(data.class_labels)
    counts = transduction.transductive_leaf_counts(data.X, data.y, nominal=data.nominal, inductive=True)
    bag = left_out_counts(data, max(MANY, n_classes))
    probs = {
        "tree": frequencies(counts[:, -1:]),
        "tree_laplace": laplace(counts[:, -1:]),
        "bag": frequencies(bag[:, :n_classes]),
        "bag_laplace": laplace(bag[:, :n_classes]),
        "many": frequencies(bag[:, :MANY]),
        "many_laplace": laplace(bag[:, :MANY]),
        "tpce": laplace(counts[:, :-1]),
        "tpce_frequencies": frequencies(counts[:, :-1]),
    }
    kk = reliability_of(counts)
    reliabilities = {name: (probs[name].argmax(axis=1), probs[name].max(axis=1)) for name in ("tree_laplace", "tpce")}
    reliabilities["kk"] = (kk.predicted, kk.reliability.round(DECIMALS))
    called = {name: called_reliable(r, p == data.y) for name, (p, r) in reliabilities.items()}
    return {
        **measured(probs, data.y),
        "kk": _of_kk(kk, data.y),
        "agreeing": round(agreeing(counts[:, :-1]), 6),
        "called": called,
    }


def own_thresholds(data: DataSet) -> dict:
    """The same trees, but with thresholds beside the inserted instance's values."""
    counts = own_threshold_counts(data)
    return {**measured({"tpce_own": laplace(counts)}, data.y), "agreeing": round(agreeing(counts), 6)}


def cross_validated(data: DataSet) -> dict:
    """{method: its measures} of all test instances of the folds together."""
    cut = list(folds(data.name, data.y))
    parts, reliabilities = zip(*(_of_fold(data, *rows, fold) for fold, rows in enumerate(cut)), strict=True)
    y = data.y[np.concatenate([test for _, test in cut])]
    probs = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    kk = Reliability(*(np.concatenate(of) for of in zip(*reliabilities, strict=True)))
    return {"n_tests": len(y), **measured(probs, y), "kk": _of_kk(kk, y)}


def _of_fold(data: DataSet, train, test, fold: int) -> tuple[Probabilities, Reliability]:
    """Probabilities of a fold's test instances, with a column for every class of the set."""
    X, y, X_test, nominal = data.X[train], data.y[train], data.X[test], data.nominal
    classes = np.unique(y)
    counts = transduction.transductive_leaf_counts(X, y, X_test, nominal=nominal, inductive=True)
    drawn = np.random.default_rng(fold).integers(len(train), size=(len(classes), len(train)))
    bag = np.asarray(leaf_counts(transduction.grow_greedy_trees(X, y, samples=drawn, nominal=nominal), X_test))
    batch = batch_certainty(jax.random.key(fold), X, y, X_test, nominal=nominal)
    probs = {"bag": frequencies(bag), "bag_laplace": laplace(bag), "batch": batch.round(DECIMALS)}
    for rule, read in read_outs(transduction.grow_greedy_trees(X, y, nominal=nominal)).items():
        probs[f"tpce_{rule}"] = read(counts[:, :-1])
        if rule not in ("pool", "eva"):  # a single leaf has nothing to combine
            probs[f"tree_{rule}"] = read(counts[:, -1:])
    probs["tree"], probs["tpce"] = probs.pop("tree_frequencies"), probs.pop("tpce_laplace")
    kk = reliability_of(counts)
    wide = {name: widened(of, classes, len(data.class_labels)) for name, of in probs.items()}
    return wide, kk._replace(predicted=classes[kk.predicted])


def read_outs(tree: Forest) -> dict[str, Callable]:
    """How leaves are read and combined, with what can be learned from the tree of the training set."""
    prior = np.asarray(tree.prior)
    fitted = fit_dirichlet_prior(np.asarray(tree.counts)[0])
    if int(fitted.status) not in (PriorStatus.FITTED, PriorStatus.CONCENTRATED):
        raise ValueError(f"no prior fits the leaves: {PriorStatus(int(fitted.status)).name}.")
    rules = {
        "m": SmoothedMean(DirichletPrior(len(prior) * prior, fitted.status)),
        "eb": SmoothedMean(fitted),
        "pool": ju.Pooling(),
        "eva": ju.EvidenceAccumulation(prior),
    }
    return {"frequencies": frequencies, "laplace": laplace, **{name: by_rule(rule) for name, rule in rules.items()}}


def called_reliable(reliability: np.ndarray, correct: np.ndarray) -> list[int]:
    """[called reliable, right among them, not called so, right among those], with a threshold from the other half.

    Kukar and Kononenko's supervised procedure: of each half of the instances, drawn by a fixed seed, the threshold is
    the one that tells most about the other half's outcomes. Where fewer are right above that one, none is called so.
    """
    half = np.random.default_rng(0).permutation(len(correct)) % 2
    called = np.empty(len(correct), bool)
    for own in (0, 1):
        threshold = reliability_threshold(reliability[half != own], correct[half != own])
        called[half == own] = reliability[half == own] > threshold
    return [int(of.sum()) for of in (called, called & correct, ~called, ~called & correct)]


def measured(probs: Probabilities, y: np.ndarray) -> dict[str, list]:
    """`MEASURES` of every method; None where one is not defined."""
    return {name: _measures(of, of.max(axis=1), of.argmax(axis=1), y) for name, of in probs.items()}


def _measures(probs, reliability, predicted, y) -> list:
    """K&K, which orders predictions alone, has no probabilities: no Brier score and no AUC of its own."""
    correct, of_probs = predicted == y, (metrics.brier_score, metrics.auc)
    values = [np.nan if probs is None else measure(probs, y) for measure in of_probs]
    values += [metrics.auc(reliability, correct), correct.mean()]
    return [round(float(v), 6) if np.isfinite(v) else None for v in values]


def _of_kk(found: Reliability, y: np.ndarray) -> list:
    return _measures(None, found.reliability.round(DECIMALS), found.predicted, y)


def laplace(counts: np.ndarray) -> np.ndarray:
    """The mean of Laplace's estimates of the leaves ``[instances leaves classes]``."""
    return transduction.label_average(counts).round(DECIMALS)


def frequencies(counts: np.ndarray) -> np.ndarray:
    """The mean of the leaves' relative frequencies."""
    return (counts / counts.sum(axis=-1, keepdims=True)).mean(axis=-2).round(DECIMALS)


def by_rule(rule: ju.Combiner) -> Callable:
    """A reading of leaves by a rule of the library."""

    def read(counts: np.ndarray) -> np.ndarray:
        """Probabilities; rows are repeated up to a common number, so that all folds are one program."""
        padded = np.resize(counts, (-(-len(counts) // ROWS) * ROWS, *counts.shape[1:]))
        return transduction.label_average(padded, rule)[: len(counts)].round(DECIMALS)

    return read


def widened(probs: np.ndarray, classes: np.ndarray, n_classes: int) -> np.ndarray:
    """Probabilities with a column for every class of the set; those that the training set lacks have 0."""
    wide = np.zeros((len(probs), n_classes))
    wide[:, classes] = probs
    return wide


# Bagging beside transduction: for a test set, and for instances that are left out one by one.

MANY = 20
"""Trees of the larger bags."""


def drawn_outside(rng: np.random.Generator, n: int, least: int) -> np.ndarray:
    """Bootstrap samples ``[trees n]``: as many as it takes for every instance to be outside of ``least`` of them."""
    outside, rows = np.zeros(n, int), []
    while outside.min() < least:
        rows.append(rng.integers(n, size=n))
        outside += np.bincount(rows[-1], minlength=n) == 0
    return np.array(rows)


def left_out_counts(data: DataSet, n_trees: int) -> np.ndarray:
    """Leaf counts ``[instances trees classes]`` of bags that were grown without the instance.

    A bootstrap sample that misses an instance is one of the others: each instance has its own bag, the first
    ``n_trees`` that miss it, and all instances share a few dozen trees instead of having n bags.
    """
    n = len(data.y)
    rows = drawn_outside(np.random.default_rng(0), n, n_trees)
    outside = np.stack([np.bincount(row, minlength=n) == 0 for row in rows], axis=1)
    forest = transduction.grow_greedy_trees(data.X, data.y, samples=rows, nominal=data.nominal)
    chosen = np.argsort(~outside, axis=1, kind="stable")[:, :n_trees]
    return np.take_along_axis(np.asarray(leaf_counts(forest, data.X)), chosen[..., None], axis=1)


# The paper's shortcut for whole batches: as many trees as labels, each instance with another label in each tree.


def batch_certainty(key: jax.Array, X_train: Any, y_train: Any, X: Any, *, nominal: Any = None) -> np.ndarray:
    """Insert the whole batch at once: k trees, in each of which every instance has another label, drawn by the key.

    The variant that the paper's conclusion (section 5) sketches and finds wanting: k trees for all instances, but each
    leaf then depends on the labels of the others, and values of X make thresholds. Returns the mean of Laplace's
    estimates of the k leaves ``[instances classes]``. `jaxunc.transductive_certainty` is exact and takes batches too.
    """
    limits = transduction.checked_limits("boundary", 2)
    train = transduction.presort(X_train, y_train, nominal, name="X_train")
    # The batch's own values as the training set knows them: a value that was not seen is one of the others.
    values = np.asarray(encode_instances(X, train.columns)[0])
    known = np.asarray(encode_instances(X_train, train.columns)[0])
    n, k = len(values), train.n_classes
    if not n:
        return np.zeros((0, k))
    # A permutation for each instance: in k trees it gets every label once.
    labels = np.asarray(jax.vmap(lambda own: jax.random.permutation(own, k))(jax.random.split(key, n)))
    both, counts = np.concatenate([known, values]), []
    for own in labels.T:
        joint = transduction.presort(both, np.concatenate([train.label, own]), train.columns.is_nominal)
        forest = transduction.forest_of([transduction.grow_greedy_tree(joint, limits)], joint)
        counts.append(np.asarray(leaf_counts(forest, values))[:, 0])
    return transduction.label_average(np.stack(counts, axis=1))


# What the paper's Figure 3 warns of: the inserted instance makes thresholds, as any training instance does.


def own_threshold_counts(data: DataSet) -> np.ndarray:
    """Leaf counts ``[instances labels classes]`` of leave-one-out, an instance's values being cut at, too.

    The set with the instance under a label is the set with that label changed, so nothing is sorted anew: the tree for
    its own label is the tree of the set, of the others only the instance's path is grown.
    """
    sample, y = transduction.presort(data.X, data.y, data.nominal), data.y
    plain = np.asarray(leaf_counts(transduction.grow_greedy_trees(data.X, y, nominal=data.nominal), data.X))[:, 0]
    counts = np.empty((len(y), sample.n_classes, sample.n_classes), int)
    for i in range(len(y)):
        for label in range(sample.n_classes):
            counts[i, label] = plain[i] if label == y[i] else _leaf_of(sample, i, label)
    return counts


def _leaf_of(sample: transduction.Presorted, i: int, label: int) -> np.ndarray:
    """The class counts at the end of an instance's path, with that label."""
    labels = sample.label.copy()
    labels[i] = label
    changed, limits = sample._replace(label=labels), transduction.SplitLimits(True, 2, None)
    order, members = sample.order, np.arange(sample.n, dtype=np.int32)
    while (test := transduction.best_test(changed, order, members, limits)) is not None:
        flags = np.zeros(sample.n, bool)
        flags[test.members] = True
        side = flags if flags[i] else ~flags
        members = members[side[members]]
        order = order[side[order]].reshape(len(order), len(members))
    return np.bincount(labels[members], minlength=sample.n_classes)


def agreeing(counts: np.ndarray) -> float:
    """The share of instances that every label wins over: the tree of each predicts it (of tied classes, the first)."""
    return float((counts.argmax(axis=2) == np.arange(counts.shape[1])).all(axis=1).mean())
