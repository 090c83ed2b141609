"""Counts of leaves, forests, neighbours and cells, read as they stand, by Laplace and by empirical Bayes.

Whatever counts classes has an artificial sample: all its counts on the training rows, each as often as it has
instances. The prior is fitted to them, and added to the counts that new rows meet.

* A tree: its leaves, as in the paper.
* A forest, tree by tree: each tree has the prior of its own leaves (`jaxunc.smoothing.fit_forest_prior`).
* A forest as a whole, "leaves level extended to classifiers level" (the paper's section 7): the sample holds one count
  for each training row, what its out-of-bag trees say of it together. The paper does not say how large that count is,
  so there are three: ``trees`` is the mean frequency as often as there are trees, ``pooled`` the sum of their counts,
  ``mean leaf`` that sum over the number of trees.
  Beside them `jaxunc.smoothing.MemberSmoothing`, whose sample are the leaves that one row reaches.
* Nearest neighbours: the classes of each training row's ten nearest others.
* Naive Bayes: a prior for each feature, whose sample are the class counts of its bins. Classes are judged by
  p(c)^(1-d) Π_j p(c | bin of feature j), which is naive Bayes for relative frequencies.
* A decision table: the cells of three features' bins. Three are taken that tell most of the class, one at a time.

Numeric features have up to four bins with about as many training rows each, nominal ones their levels.
"""

from collections.abc import Callable

import numpy as np
from scipy.special import softmax
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import mutual_info_classif
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

import jaxunc as ju
from benchmarks.data import DataSet
from benchmarks.studies.suttoncharani2020.methods import columns
from jaxunc.counting import oob_mask
from jaxunc.smoothing import DirichletPrior, fit_dirichlet_prior, fit_forest_prior, smooth

WAYS = ("raw", "laplace", "eb", "marginal")
"""Relative frequencies, one instance of each class added, and the paper's and the counts' likelihood."""
N_TREES, N_NEIGHBOURS, N_BINS, N_IN_TABLE = 100, 10, 4, 3
ZERO = 1e-12
"""What naive Bayes reads for a frequency of 0."""


def priors(sample: np.ndarray) -> dict[str, DirichletPrior]:
    """A prior for each way to read counts, from the artificial sample ``[counts classes]``."""
    n_classes = sample.shape[-1]
    fixed = {name: DirichletPrior(np.full(n_classes, a), np.int32(0)) for name, a in (("raw", 0.0), ("laplace", 1.0))}
    return fixed | {"eb": fit_dirichlet_prior(sample), "marginal": fit_dirichlet_prior(sample, "marginal")}


def ways_to_read(sample: np.ndarray, counts: np.ndarray) -> dict[str, np.ndarray]:
    """``[rows classes]`` probabilities of the counts that rows meet; no counts at all are read as the sample's mean."""
    overall = sample.sum(axis=0) / sample.sum()
    return {way: shares(counts, prior, overall) for way, prior in priors(sample).items()}


def shares(counts: np.ndarray, prior: DirichletPrior, overall: np.ndarray) -> np.ndarray:
    """Smoothed counts; where neither counts nor prior weigh anything, the overall frequencies."""
    nothing = (counts.sum(axis=-1) + np.asarray(prior.alpha).sum() == 0)[..., None]
    return np.where(nothing, overall, np.asarray(smooth(np.where(nothing, 1.0, counts), prior)))


def forests(X: np.ndarray, y: np.ndarray, X_test: np.ndarray) -> dict[str, np.ndarray]:
    """Probabilities of a random forest, by its trees' bags or by all training rows, and corrected."""
    model = RandomForestClassifier(N_TREES, random_state=0).fit(X, y)
    inbag = ju.from_sklearn(model)
    ones = DirichletPrior(np.ones(inbag.n_classes), np.int32(0))

    def answers(forest: ju.Forest, **rules: ju.Combiner) -> dict[str, np.ndarray]:
        rules["laplace"] = ju.smoothing.SmoothedMean(ones)
        rules["tree"] = ju.smoothing.SmoothedMean(fit_forest_prior(forest))
        rules["members"] = ju.smoothing.MemberSmoothing("weighted_mle")
        return {name: np.asarray(ju.bind(forest, rule).probability(X_test), float) for name, rule in rules.items()}

    found = answers(inbag, mean=ju.Mean(), pooling=ju.Pooling())
    by_all = answers(ju.count_leaves(inbag, X, y), mean=ju.Mean())
    found |= {f"{name}, all rows": p for name, p in by_all.items()}
    own, new = (np.asarray(ju.leaf_counts(inbag, rows), float) for rows in (X, X_test))
    mask = oob_mask(model, len(y), X=X, y=y)
    for name, together in TOGETHER.items():
        prior = fit_dirichlet_prior(together(own * mask[..., None]))
        found[f"whole, {name}"] = np.asarray(smooth(together(new), prior))
    return found


_sizes = lambda counts: counts.sum(axis=2, keepdims=True)
TOGETHER: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "trees": lambda counts: (counts / np.maximum(_sizes(counts), 1)).sum(axis=1),
    "pooled": lambda counts: counts.sum(axis=1),
    "mean leaf": lambda counts: counts.sum(axis=1) / np.maximum((_sizes(counts) > 0).sum(axis=1), 1),
}
"""How counts ``[rows trees classes]``, zeros where a tree has no say, become one count a row."""


def counting_classifiers(data: DataSet, train: np.ndarray, test: np.ndarray) -> dict[str, dict[str, np.ndarray]]:
    """{classifier: {way: probabilities}}."""
    y, onehot = data.y, np.eye(len(data.class_labels))[data.y[train]]
    bins = [binned(data.X[:, j], bool(is_nominal), train) for j, is_nominal in enumerate(data.nominal)]
    informative = mutual_info_classif(np.stack([b[train] for b in bins], axis=1), y[train], discrete_features=True)
    chosen = np.argsort(-informative, kind="stable")[:N_IN_TABLE]
    cell = np.unique(np.stack([bins[j] for j in chosen], axis=1), axis=0, return_inverse=True)[1].reshape(-1)
    in_table = counts_of(cell, onehot, train)
    return {
        "neighbours": neighbours(columns(data), onehot, train, test),
        "naive Bayes": naive_bayes(bins, onehot, train, test),
        "table": ways_to_read(in_table, in_table[cell[test]]),
    }


def binned(column: np.ndarray, is_nominal: bool, train: np.ndarray) -> np.ndarray:
    """``[rows]`` the bin of each row; edges are quantiles of the training rows."""
    if is_nominal:
        return column.astype(int)
    edges = np.unique(np.quantile(column[train], np.arange(1, N_BINS) / N_BINS))
    return np.searchsorted(edges, column, side="left")


def counts_of(cell: np.ndarray, onehot: np.ndarray, train: np.ndarray) -> np.ndarray:
    """``[cells classes]`` the training rows of each cell."""
    counts = np.zeros((cell.max() + 1, onehot.shape[1]))
    np.add.at(counts, cell[train], onehot)
    return counts


def neighbours(wide: np.ndarray, onehot: np.ndarray, train: np.ndarray, test: np.ndarray) -> dict[str, np.ndarray]:
    """Classes of the nearest training rows, features scaled to unit variance."""
    scale = StandardScaler().fit(wide[train])
    finder = NearestNeighbors(n_neighbors=N_NEIGHBOURS).fit(scale.transform(wide[train]))
    own = finder.kneighbors(return_distance=False)  # without the row itself
    near = finder.kneighbors(scale.transform(wide[test]), return_distance=False)
    return ways_to_read(onehot[own].sum(axis=1), onehot[near].sum(axis=1))


def naive_bayes(
    bins: list[np.ndarray], onehot: np.ndarray, train: np.ndarray, test: np.ndarray
) -> dict[str, np.ndarray]:
    """Each feature's bins are leaves of a tree of its own, and the features' answers are multiplied."""
    overall = onehot.mean(axis=0)
    score = {way: (1 - len(bins)) * np.log(np.tile(overall, (len(test), 1))) for way in WAYS}
    for column in bins:
        counts = counts_of(column, onehot, train)
        for way, p in ways_to_read(counts, counts[column[test]]).items():
            score[way] = score[way] + np.log(np.maximum(p, ZERO))
    return {way: softmax(logs, axis=1) for way, logs in score.items()}
