"""The methods of the study of Costa, Verwer and Blockeel 2013: from leaf counts to probabilities, and their measures.

Every protocol answers with a record, {method: its measures}.
"""

import warnings
from collections.abc import Callable

import jax
import numpy as np

import jaxunc as ju
from benchmarks.data import DataSet
from benchmarks.papers.costa2013_bags import MANY, counts_of_test, left_out_counts
from benchmarks.papers.costa2013_batch import batch_certainty
from benchmarks.papers.costa2013_own import agreeing, own_threshold_counts
from benchmarks.papers.costa2013_sets import folds
from jaxunc import metrics, transduction
from jaxunc.forest import Forest
from jaxunc.smoothing import DirichletPrior, PriorStatus, SmoothedMean, fit_dirichlet_prior
from jaxunc.transduction import Reliability, reliability_threshold

MEASURES = ("brier", "auc", "reliability", "accuracy")
"""Of every method; ``reliability`` is the AUC of the largest probability (of K&K: of its reliability)."""
DECIMALS = 12
"""Probabilities are rounded: other orders of the same sum are no other ranks."""
ROWS = 64
"""Instances are read in multiples of so many."""
Probabilities = dict[str, np.ndarray]


def leave_one_out(data: DataSet) -> dict:
    """{method: its measures} of instances left out one by one, and what a threshold on reliability tells."""
    n_classes = len(data.class_labels)
    counts = transduction.leave_one_out_leaf_counts(data.X, data.y, nominal=data.nominal, inductive=True)
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
    kk = transduction.reliability_of(counts)
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
    parts, tests, reliabilities = [], [], []
    for fold, (train, test) in enumerate(folds(data.name, data.y)):
        probs, kk = _of_fold(data, train, test, fold)
        parts.append(probs)
        tests.append(test)
        reliabilities.append(kk)
    y = data.y[np.concatenate(tests)]
    probs = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    kk = Reliability(*(np.concatenate(of) for of in zip(*reliabilities, strict=True)))
    return {"n_tests": len(y), **measured(probs, y), "kk": _of_kk(kk, y)}


def _of_fold(data: DataSet, train, test, fold: int) -> tuple[Probabilities, Reliability]:
    """Probabilities of a fold's test instances, with a column for every class of the set."""
    X, y, kinds = data.X[train], data.y[train], {"nominal": data.nominal}
    classes = np.unique(y)
    counts = transduction.transductive_leaf_counts(X, y, data.X[test], **kinds, inductive=True)
    tree = ju.transduction.grow_greedy_trees(X, y, **kinds)
    bag = counts_of_test(data, train, test, len(classes), fold)
    batch = batch_certainty(jax.random.key(fold), X, y, data.X[test], **kinds)
    probs = {
        "bag": frequencies(bag),
        "bag_laplace": laplace(bag),
        "batch": batch.round(DECIMALS),
    }
    for rule, read in read_outs(tree).items():
        probs[f"tpce_{rule}"] = read(counts[:, :-1])
        if rule not in ("pool", "eva"):  # a single leaf has nothing to combine
            probs[f"tree_{rule}"] = read(counts[:, -1:])
    probs["tree"], probs["tpce"] = probs.pop("tree_frequencies"), probs.pop("tpce_laplace")
    kk = transduction.reliability_of(counts)
    wide = {name: widened(of, classes, len(data.class_labels)) for name, of in probs.items()}
    return wide, kk._replace(predicted=classes[kk.predicted], probability=kk.probability[:, :0])


def read_outs(tree: Forest) -> dict[str, Callable]:
    """How leaves are read and combined, with what can be learned from the tree of the training set."""
    prior = np.asarray(tree.prior)
    fitted = fit_dirichlet_prior(np.asarray(tree.counts)[0])
    if int(fitted.status) not in (PriorStatus.FITTED, PriorStatus.CONCENTRATED):
        raise ValueError(f"no prior fits the leaves: {PriorStatus(int(fitted.status)).name}.")
    to_prior = DirichletPrior(len(prior) * prior, fitted.status)
    rules = {
        "m": SmoothedMean(to_prior),
        "eb": SmoothedMean(fitted),
        "pool": ju.Pooling(),
        "eva": ju.EvidenceAccumulation(prior),
    }
    read: dict[str, Callable] = {name: by_rule(rule) for name, rule in rules.items()}
    return {"frequencies": frequencies, "laplace": laplace, **read}


def called_reliable(reliability: np.ndarray, correct: np.ndarray) -> list[int]:
    """[called reliable, right among them, not called so, right among those], with a threshold from the other half.

    Kukar and Kononenko's supervised procedure: of each half of the instances, drawn by a fixed seed, the threshold is
    the one that tells most about the other half's outcomes. Where fewer are right above that one, none is called so.
    """
    half = np.random.default_rng(0).permutation(len(correct)) % 2
    called = np.empty(len(correct), bool)
    for own in (0, 1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the threshold is safe, and the page says so
            threshold = reliability_threshold(reliability[half != own], correct[half != own])
        called[half == own] = reliability[half == own] > threshold.value
    return [int(of.sum()) for of in (called, called & correct, ~called, ~called & correct)]


def measured(probs: Probabilities, y: np.ndarray) -> dict[str, list]:
    """`MEASURES` of every method; None where one is not defined."""
    return {name: _measures(of, of.max(axis=1), of.argmax(axis=1), y) for name, of in probs.items()}


def _measures(probs, reliability, predicted, y) -> list:
    correct = predicted == y
    values = (
        metrics.brier_score(probs, y),
        metrics.auc(probs, y),
        metrics.auc_reliability(reliability, correct),
        correct.mean(),
    )
    return [round(float(v), 6) if np.isfinite(v) else None for v in values]


def _of_kk(found: Reliability, y: np.ndarray) -> list:
    """K&K orders predictions alone: it has no Brier score and no AUC of its own."""
    correct = found.predicted == y
    area = float(metrics.auc_reliability(found.reliability.round(DECIMALS), correct))
    return [None, None, round(area, 6) if np.isfinite(area) else None, round(float(correct.mean()), 6)]


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
