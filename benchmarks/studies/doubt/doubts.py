"""The doubts that the study compares: what forests say by whose counts, and what is beside them.

A doubt is a number for each row; more is more doubtful. Its name is ``doubt/counts/leaf``: the least rows of a leaf are
1, 5 or 20, and doubts that read one kind of counts alone have none between the strokes.
"""

from typing import Any

import numpy as np
from sklearn.ensemble import IsolationForest, RandomForestClassifier
from sklearn.neighbors import NearestNeighbors

import jaxunc as ju
from benchmarks.studies.rules.abstaining import bags_of, proximities

N_TREES, LEAVES, STRENGTH = 100, (1, 5, 20), 1.0
N_NEAREST, N_NEAREST_LABELS = 5, 10
LEAST = 1e-6
"""The least probability of a label, as cleanlab has it."""
BLOCK, N_MOST = 1024, 2**20
"""Count vectors whose support is asked at a time, so that few programs are compiled; more than a leaf holds."""


def counts_of(leaves: np.ndarray, y: np.ndarray, n_classes: int, times: np.ndarray) -> np.ndarray:
    """Counts of rows in the leaves that they reach, each so often in each tree, ``[trees nodes classes]``."""
    counts = np.zeros((leaves.shape[1], int(leaves.max()) + 1, n_classes), np.float32)
    np.add.at(counts, (np.arange(len(counts)), leaves, y[:, None]), times)
    return counts


class Fitted:
    """A forest whose leaves hold so many rows at least, its training rows, and their counts."""

    def __init__(self, X: np.ndarray, y: np.ndarray, leaf: int, seed: int):
        self.X, self.y, self.leaf, self.n_classes = X, y, leaf, int(y.max()) + 1
        self.model = RandomForestClassifier(N_TREES, min_samples_leaf=leaf, random_state=seed).fit(X, y)
        self.bags = bags_of(self.model, X)
        self.is_out = self.bags.times == 0
        weights = {"in-bag": self.bags.times, "train": np.ones_like(self.bags.times), "oob": self.is_out}
        self.counts = {name: counts_of(self.bags.leaves, y, self.n_classes, each) for name, each in weights.items()}

    def reached(self, counts: str, leaves: np.ndarray) -> np.ndarray:
        """The counts of leaves ``[rows trees]``, ``[rows trees classes]``."""
        return self.counts[counts][np.arange(N_TREES), leaves]

    def learned(self) -> tuple[ju.LearnedPool, Any]:
        """The learned pool, and the rows that it is learned from."""
        rows = ju.learning.oob_dataset(self.model, self.X, self.y, source="oob", counts="both")
        pool = ju.LearnedPool(rows.prior, reads=rows.count_sets)
        return ju.learning.fit_combiner(pool, rows).combiner, rows

    def named(self, doubts: dict[str, np.ndarray], counts: str = "") -> dict[str, np.ndarray]:
        """Doubts by their full names."""
        return {f"{doubt}/{counts}/{self.leaf}": values for doubt, values in doubts.items()}


def kinds(
    counts: np.ndarray, mask: np.ndarray | None = None, *, support: bool = True
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The mean probability by counts ``[rows trees classes]`` of the trees in a mask, and doubts that know no answer.

    They are those of `ju.Mean`, `ju.UncertaintyDecomposition` and `ju.AveragedIntervals`, in NumPy, since each set
    would compile its own programs; plausibilities if ``support``. For two classes the total entropy ranks as 1 - p
    does, and is left out.
    """
    size, n_classes = counts.sum(axis=2), counts.shape[2]
    shares = np.divide(counts, size[:, :, None], out=np.full(counts.shape, 1 / n_classes), where=size[:, :, None] > 0)
    mean_of = lambda each: np.average(np.broadcast_to(each, size.shape), axis=1, weights=mask)
    mean = np.stack([mean_of(shares[:, :, c]) for c in range(n_classes)], axis=1)
    total, aleatoric = entropy(mean), mean_of(entropy(shares))
    found = {"entropy": total} if n_classes > 2 else {}
    found |= {"aleatoric": aleatoric, "epistemic": total - aleatoric}
    if n_classes == 2 and support:
        least, most = (1 - mean_of(degree) for degree in plausible(counts))
        found |= {"plausibility, aleatoric": most, "plausibility, epistemic": 1 - least}
    return mean, found | {"credal width": mean_of(STRENGTH / (size + STRENGTH))}


def entropy(probability: np.ndarray) -> np.ndarray:
    """In bits."""
    return -np.sum(probability * np.log2(np.where(probability > 0, probability, 1)), axis=-1)


def plausible(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The smaller and the larger degree of support of leaves of two classes."""
    pairs = counts.astype(int) @ (1, N_MOST)
    codes, place = np.unique(pairs, return_inverse=True)
    vectors = np.stack([codes % N_MOST, codes // N_MOST], axis=1).astype(np.float32)
    padded = np.pad(vectors, ((0, -len(vectors) % BLOCK), (0, 0))).reshape(-1, BLOCK, 2)
    degrees = np.exp(np.concatenate([np.asarray(ju.scorers.support(block).log_degrees, float) for block in padded]))
    return degrees.min(axis=1)[place].reshape(pairs.shape), degrees.max(axis=1)[place].reshape(pairs.shape)


def less(probability: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """1 less the probability of a label."""
    return 1 - probability[np.arange(len(labels)), labels]


def behind(probability: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """How far a label's probability is behind the largest of the others."""
    others = np.array(probability)
    others[np.arange(len(labels)), labels] = -np.inf
    return others.max(axis=1) - probability[np.arange(len(labels)), labels]


def of_rows(fitted: Fitted, X: np.ndarray, *, learns: bool) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The forest's answers for new rows, and all doubts of them; that of the learned pool where it learns."""
    leaves = fitted.model.apply(X)
    answers, found = kinds(fitted.reached("in-bag", leaves))[0].argmax(axis=1), {}
    for counts in fitted.counts:
        p, doubts = kinds(fitted.reached(counts, leaves))
        known = {"1 - p": less(p, answers)} | ({"margin": behind(p, answers)} if fitted.n_classes > 2 else {})
        found |= fitted.named(known | doubts, counts)
    p = kinds(fitted.reached("in-bag", fitted.bags.leaves), fitted.is_out)[0]
    near = proximities(fitted.bags, leaves)
    found |= fitted.named({"RF-ICE": 1 - near @ (p.argmax(axis=1) == fitted.y)})
    found |= fitted.named({"outside share": ju.outside_share(fitted.model, X, rows=fitted.X)})
    if learns:
        pool, rows = fitted.learned()
        learned = np.asarray(rows.bind(pool, threads=1).probability(X), float)
        found |= fitted.named({"learned p": less(learned, answers)})
    return answers, found


def of_labels(fitted: Fitted, *, learns: bool) -> dict[str, np.ndarray]:
    """All doubts of the labels of the training rows, out of bag."""
    y = fitted.y
    p, doubts = kinds(fitted.reached("in-bag", fitted.bags.leaves), fitted.is_out)
    expected = np.array([p[y == c, c].mean() for c in range(fitted.n_classes)])
    adjusted = p - expected + expected.max()
    adjusted /= adjusted.sum(axis=1, keepdims=True)
    found = {"self-confidence": less(p, y), "self-confidence, adjusted": less(adjusted, y)}
    found["confidence-weighted entropy"] = entropy(p) / np.clip(1 - less(p, y), LEAST, None)
    if fitted.n_classes > 2:
        found["normalised margin"] = behind(p, y)
    if learns:
        pool, rows = fitted.learned()
        learned = np.asarray(rows.answer(pool).probability, float)
        found["learned p of the label"] = less(learned, y)
        if fitted.n_classes > 2:
            found["learned margin of the label"] = behind(learned, y)
    return fitted.named(found | {"1 - p, no label": 1 - p.max(axis=1)} | doubts)


def beside(X: np.ndarray, asked: np.ndarray, nominal: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """What users would take instead: an isolation forest, and the mean distance of the five nearest training rows."""
    near, far = (as_numbers(X, rows, nominal) for rows in (X, asked))
    isolation = IsolationForest(n_estimators=N_TREES, random_state=seed).fit(near)
    return {"isolation forest//": -isolation.score_samples(far), "distance//": distance(near, far)}


def distance(near: np.ndarray, far: np.ndarray) -> np.ndarray:
    """The mean distance of the five nearest of some rows, both as numbers."""
    return NearestNeighbors(n_neighbors=N_NEAREST).fit(near).kneighbors(far)[0].mean(axis=1)


def beside_labels(X: np.ndarray, y: np.ndarray, nominal: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """The share of the ten nearest other rows that have another label, and an isolation forest."""
    numbers = as_numbers(X, X, nominal)
    near = NearestNeighbors(n_neighbors=N_NEAREST_LABELS).fit(numbers).kneighbors(return_distance=False)
    isolation = IsolationForest(n_estimators=N_TREES, random_state=seed).fit(numbers)
    others = (y[near] != y[:, None]).mean(axis=1)
    return {"labels of the nearest//": others, "isolation forest//": -isolation.score_samples(numbers)}


def as_numbers(X: np.ndarray, rows: np.ndarray, nominal: np.ndarray) -> np.ndarray:
    """Rows for distances: numbers in standard deviations of X, missing ones 0; a column for each level that X has."""
    columns = []
    for known, column, is_nominal in zip(X.T, rows.T, nominal, strict=True):
        if is_nominal:
            levels = np.unique(known[~np.isnan(known)])
            columns.append((column[:, None] == levels) / 2**0.5)
        else:
            columns.append(np.nan_to_num((column - np.nanmean(known)) / (np.nanstd(known) or 1))[:, None])
    return np.concatenate(columns, axis=1)
