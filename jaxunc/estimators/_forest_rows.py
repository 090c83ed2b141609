"""Rows that a regressor is fitted to, and checks whether a fitted forest has been grown on them."""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.utils import _safe_indexing, check_random_state

from jaxunc.counting import OtherRowsError, first_of_each, has_bags, oob_mask
from jaxunc.forest import Trees
from jaxunc.learning import find_leak_of_numbers, warn_of_seen
from jaxunc.regression import Moments, TargetMap
from jaxunc.tables import Columns, SparseRows, encode_rows

NEWTON_STEPS = 64  # until a bag without replacement is full, however much weights differ
FOLDS = 5  # number of folds in a cross-fitting; more folds need more fits, each on a larger share of the rows


class Sample(NamedTuple):
    """Rows to fit a regressor to, with targets, weights, groups and strata ``[rows]``."""

    X: Any
    y: np.ndarray  # targets, transformed if the model is fitted to transformed targets
    weight: np.ndarray | None
    groups: np.ndarray | None  # number of each row's group; None if each row is a group
    stratum: np.ndarray | None = None  # number of each row's stratum; None without strata
    target: np.ndarray | None = None  # targets before they were transformed; None if ``y`` holds the given targets

    def part(self, rows: np.ndarray) -> "Sample":
        """Return the sample of the rows at the positions ``rows``."""
        if len(rows) == len(self.y):
            return self
        return Sample(*(None if array is None else _safe_indexing(array, rows) for array in self))  # pyright: ignore

    @property
    def weights(self) -> np.ndarray:
        """Weight of each row ``[rows]``; 1 without weights."""
        return np.ones(len(self.y)) if self.weight is None else self.weight

    def of(self, X: Any, target_map: TargetMap | None) -> "Sample":
        """Return the sample with X in place of its rows, and with targets transformed by ``target_map``, if any."""
        if target_map is None:
            return self._replace(X=X)
        return self._replace(X=X, y=target_map.forward(self.y), target=self.y)


class Grown(NamedTuple):
    """A fitted model or pipeline, and a sample of rows as its last step reads them."""

    whole: Any  # the pipeline; the model itself if there is no pipeline
    model: Any  # the last step of the pipeline; the model itself if there is no pipeline
    sample: Sample  # rows that the model was fitted to, or that a frozen model reads, after the pipeline's steps
    read: Callable[[Any], Any]  # the function from raw rows to the rows that the model reads
    target_map: TargetMap | None = None  # map from targets to the transformed targets that the model predicts, if any

    def reading(self, sample: Sample) -> Sample:
        """Return a sample of raw rows as the model reads it: after the pipeline's steps, with transformed targets."""
        return sample.of(self.read(sample.X), self.target_map)


class UnseenAnswers(NamedTuple):
    """A regressor's answers for rows, by leaves that do not know these rows' targets."""

    moments: Moments  # means and variances ``[rows]``
    sample: Sample  # the rows, as the model reads them
    p: np.ndarray  # probabilities of the bins ``[rows bins]``; a boosted model has one bin, of probability 1
    bin_weight: np.ndarray | None  # weight of each row where leaves count it in bins ``[rows]``; None if all weigh 1
    bin_mask: np.ndarray | None  # whether a tree's leaves count a row in bins ``[rows trees]``; None: all trees do
    rows: np.ndarray | None = None  # positions among the rows of the fit; None unless out of bag
    mask: np.ndarray | None = None  # whether a tree answers a row ``[rows trees]``; None: all trees do


def in_bags(model: Any, n: int, weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the weight of each row in the bag of each tree ``[rows trees]``, and a weight of each row ``[rows]``.

    ``model`` was fitted to ``n`` rows with sample weights ``weight [rows]``, or None. The second array, None without
    sample weights, has the weights by which leaves are to count the rows of a bag, each once.
    """
    times = np.stack([np.bincount(bag, minlength=n) for bag in model.estimators_samples_], axis=1).astype(float)
    if weight is None:
        return times, None
    bag_size = times.sum(axis=0)
    # Before 1.9 scikit-learn drew rows alike, and weighed those in a bag. Since then it draws them by weight, and each
    # weighs 1, so that every bag weighs its size; before, only single bags did, by chance.
    bag_weight = [member.tree_.weighted_n_node_samples[0] for member in model.estimators_]
    if not np.allclose(bag_weight, bag_size):
        return times * weight[:, None], weight
    # Heavy rows are in more bags already: the probability to be in a bag divides their weight.
    in_bag_share = _in_bag_shares(weight / weight.sum(), int(bag_size[0]), getattr(model, "bootstrap", True))
    return times, np.divide(weight, in_bag_share, out=np.zeros(n), where=in_bag_share > 0)


def _in_bag_shares(p: np.ndarray, size: int, with_replacement: bool) -> np.ndarray:
    """Return the probability of each row to be in a bag of ``size`` rows, ``[rows]``.

    They are drawn by the probabilities p ``[rows]``, ``with_replacement`` or each row at most once.
    """
    if with_replacement:
        with np.errstate(divide="ignore"):
            return -np.expm1(size * np.log1p(-p))  # 1 - (1 - p)^size
    # Let a row come at the rate p: by time t it has come with probability 1 - exp(-t p). The bag is full at the t at
    # which `size` rows are expected. Newton's method finds it from below: the expected number is concave in t.
    t = 0.0
    for _ in range(NEWTON_STEPS):
        n_come = np.sum(-np.expm1(-t * p))
        t += (size - n_come) / max(p @ np.exp(-t * p), 1e-300)  # by the slope, kept above 0
    return -np.expm1(-t * p)


def refuse_seen_rows(model: Any, trees: Trees, sample: Sample, why: str | None = None) -> None:
    """Raise a ValueError if a frozen ``model`` with these ``trees`` seems to have been grown on the sample's rows.

    ``why``, a clause of the message, is evidence that the caller has already; None: it is looked for here.
    """
    if why := why or _how_known(model, trees, sample):
        raise ValueError(
            "X and y are the rows that this frozen model was grown on, or hold many of them, so its answers know "
            f"their targets: {why}. "
            + ("Take counts='oob' with the very rows that it was fitted to, or pass" if has_bags(model) else "Pass")
            + " rows that it has not seen."
        )


def _how_known(model: Any, trees: Trees, sample: Sample) -> str | None:
    """Return evidence, as a clause of a message, that the model with these ``trees`` grew on many of the rows."""
    n = len(sample.y)
    estimators = getattr(model, "estimators_", [model])
    values = encode_rows(sample.X, trees.columns).values
    # One row of each group: copies would look like evidence.
    first_rows = np.arange(n) if sample.groups is None else first_of_each(sample.groups)
    if evidence := find_leak_of_numbers(model, trees, values[first_rows], sample.y[first_rows]):
        return evidence
    if not all(hasattr(member, "tree_") for member in estimators):
        return None
    try:
        times = np.ones((n, len(estimators)))
        if has_bags(model):
            oob_mask(model, n)  # raises unless the model was fitted to n rows
            times, _ = in_bags(model, n, sample.weight)
        check_leaf_means(model, sample, times)
        return "they give the sizes and means of its leaves"
    except OtherRowsError:
        warn_of_seen(model, values[first_rows])
        return None


def check_leaf_means(model: Any, sample: Sample, times: np.ndarray) -> None:
    """Raise an `OtherRowsError` unless the sample's rows give the leaves of the model their sizes and means.

    ``times [rows trees]`` is a row's weight in a tree's bag. The first, middle and last tree alone are compared.
    """
    rows = encode_rows(sample.X, Columns(np.shape(sample.X)[1])).values
    rows = rows.matrix() if isinstance(rows, SparseRows) else np.asarray(rows)
    estimators = getattr(model, "estimators_", [model])
    for t in sorted({0, len(estimators) // 2, len(estimators) - 1}):
        estimator = estimators[t]
        tree = estimator.tree_
        has_subsets = hasattr(model, "estimators_features_")  # each tree of a bag reads its own features
        features = model.estimators_features_[t] if has_subsets else slice(None)
        leaf = tree.apply(rows[:, features])
        leaf_weight = np.bincount(leaf, times[:, t], tree.node_count)
        is_leaf = tree.children_left < 0
        agrees = np.allclose(leaf_weight[is_leaf], tree.weighted_n_node_samples[is_leaf], rtol=1e-6)
        # Leaves hold no means if they were grown by absolute errors (medians), or under constraints.
        if agrees and estimator.criterion != "absolute_error" and getattr(estimator, "monotonic_cst", None) is None:
            means = np.bincount(leaf, times[:, t] * sample.y, tree.node_count)[is_leaf] / leaf_weight[is_leaf]
            deviation = np.abs(means - tree.value[is_leaf, 0, 0])
            target_spread = np.std(sample.y[times.any(axis=1)])
            # Equal but for rounding, whose size follows the targets' spread or, at least, their distance from 0.
            agrees = bool((deviation <= 1e-6 * (target_spread + 1e-6 * np.abs(means))).all())
        if not agrees:
            raise OtherRowsError(
                f"X and y are not the rows that this {type(model).__name__} was grown on, in their order: with them "
                f"the bag of tree {t} does not give the sizes and means of its leaves. Pass X and y just as they went "
                "into model.fit (and its sample_weight), or, of rows that it has not seen, take counts='held_out'."
            )


def split(sample: Sample, size: float, seed: Any) -> tuple[Sample, Sample]:
    """Return two samples: rows to fit a model to, and rows that are held out, the share ``size``, drawn by ``seed``.

    Rows of a group go into the same sample. Raises a ValueError if one of the samples would have no rows.
    """
    first_rows = np.arange(len(sample.y)) if sample.groups is None else first_of_each(sample.groups)  # one a group
    try:
        fitted, held_out = cast(Any, train_test_split(first_rows, test_size=size, random_state=seed))
    except ValueError as error:
        raise ValueError(
            f"counts='held_out' needs rows to fit the forest and others to fit the law, but held_out_size="
            f"{size} puts all of {len(first_rows)} rows or groups into one part. Pass more rows."
        ) from error
    if sample.groups is not None:  # from the first rows of groups to all rows of these groups
        fitted = np.flatnonzero(np.isin(sample.groups, sample.groups[fitted]))
        held_out = np.flatnonzero(np.isin(sample.groups, sample.groups[held_out]))
    return sample.part(fitted), sample.part(held_out)


def fold_numbers(sample: Sample, seed: Any) -> np.ndarray:
    """Return the number of each row's fold ``[rows]``, drawn by ``seed``, the same for all rows of a group.

    Raises a ValueError if all rows are in one fold.
    """
    group = np.arange(len(sample.y)) if sample.groups is None else sample.groups
    # Groups, in a random order, go to the folds in turn.
    fold = check_random_state(seed).permutation(int(group.max()) + 1)[group] % FOLDS
    if (fold == fold[:1]).all():
        raise ValueError("all rows are of one group: a law needs rows of two groups or more.")
    return fold
