"""How much each training row counts in each tree, so that a leaf's answer is a weighted mean of its rows' targets.

A row counts as often as the tree's bag drew it, times its sample weight and the weight of its class. Which of these
factors a model was grown with is found by trial: the rows have to give the sizes of all leaves. If targets are passed,
they have to give the leaves' counts of classes or means, too.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jaxunc._checks import as_weights, is_concrete
from jaxunc._types import ReadsRawRows
from jaxunc.counting import OtherRowsError, bags_of, counts_in_nodes, has_bags
from jaxunc.forest import Forest, Trees
from jaxunc.inference import BoundForest
from jaxunc.interop import from_any, library_of
from jaxunc.regression import checked_target
from jaxunc.tables import class_positions

CLOSE = 1e-6
"""Relative difference up to which sizes of leaves agree: some libraries keep float32."""
LEAVES = "kind='leaves' takes any model, and claims nothing: the share of trees in which two rows meet."


class Contents(NamedTuple):
    """What a model's leaves hold of the rows that they were grown on: counts of classes, or sizes and mean targets."""

    trees: Trees
    counts: tuple[np.ndarray, np.ndarray] | None = None
    """Table of class counts ``[distinct classes]``, and the row of each leaf ``[trees nodes]``; None for regressors."""
    size: np.ndarray | None = None
    """Total weight of the rows in each leaf of a regressor, ``[trees nodes]``; None where it is not kept."""
    mean: np.ndarray | None = None
    """The mean target in each leaf of a regressor, ``[trees nodes]``; None for classes."""
    class_labels: tuple[Any, ...] = ()
    """The labels of the classes, in the order of the counts; empty for regressors."""


def unwrap_model(model: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Return the forest inside ``model``, and a function from raw rows to rows as the forest reads them.

    ``model`` is a pipeline or an estimator. Trees, a bound forest, models of other libraries and the path of a model
    file are taken, too. For them the function returns its argument.
    """
    identity = lambda X: X
    if isinstance(model, BoundForest):
        return model.forest, identity
    if isinstance(model, Trees):
        return model, identity
    library = library_of(model)
    if not library:  # no library's object: the path of a file
        return from_any(model), identity
    if library != "sklearn":
        return model, identity
    # Imported only here: they import scikit-learn, which models of other libraries do not need.
    from sklearn.frozen import FrozenEstimator
    from sklearn.utils.validation import check_is_fitted

    from jaxunc.interop import known_to_sklearn, n_rows, opened, steps_of, transformed

    model_or_pipeline, last_step, _ = opened(FrozenEstimator(model))
    if isinstance(last_step, ReadsRawRows):
        check_is_fitted(last_step)
        fitted_model = opened(vars(last_step).get("estimator_")).forest
        forest = vars(last_step)["forest_"] if fitted_model is None else fitted_model  # files keep no fitted model
        read = last_step._instances
    else:
        forest = last_step
        read = identity
    if not (steps := steps_of(model_or_pipeline)):
        return forest, read

    def transform_and_read(X):
        """Return raw rows as the forest reads them: transformed by the pipeline's steps, then read."""
        X = known_to_sklearn(X)
        if n_rows(X):
            return read(transformed(steps, X))
        return np.zeros((0, contents_of(forest).trees.n_features), np.float32)  # transformers refuse a table of no rows

    return forest, transform_and_read


def check_on_host(*tables: Any) -> None:
    """Raise a TypeError if any of ``tables``, which are queries, rows or None, is traced."""
    if not is_concrete(*tables):
        raise TypeError("X or rows is traced, and rows are compared on the host. Ask outside of jit, grad and vmap.")


def contents_of(model: Any) -> Contents:
    """Return the `Contents` of ``model``: `Trees`, or what `jaxunc.from_any` takes; raises as that does."""
    if library_of(model) == "sklearn":
        from jaxunc.interop import GROWN, grown_leaves  # which import scikit-learn

        if isinstance(model, GROWN):
            trees, size, mean, _ = grown_leaves(model)
            return Contents(trees, size=size, mean=mean)
    if isinstance(model, Trees):
        return Contents(model)
    ensemble = from_any(model)
    if isinstance(ensemble, Forest):
        counts = np.asarray(ensemble.count_table), np.asarray(ensemble.code)
        return Contents(ensemble.trees, counts, class_labels=ensemble.class_labels)
    if not (
        ensemble.is_forest and ensemble.link == "identity" and ensemble.n_outputs == 1 and ensemble.class_labels is None
    ):
        return Contents(ensemble.trees)  # leaves hold terms of a sum, and no means
    # The answer of T trees, base + Σ value, is the mean of the trees' own answers T · value + base.
    mean = np.asarray(ensemble.values, np.float64)[:, :, 0] * ensemble.n_trees + float(np.asarray(ensemble.base)[0])
    return Contents(ensemble.trees, mean=mean)


def check_is_mean(model: Any, contents: Contents, kind: str) -> None:
    """Raise a ValueError unless the answer of ``model`` is a weighted mean of its rows' targets, with known weights.

    ``contents`` is what its leaves hold, and ``kind`` the kind of answer: "prediction", or "out_of_bag".
    """
    if lack := _find_lack(model, contents, kind):
        raise ValueError(f"kind={kind!r} needs {lack}. {LEAVES}")


def _find_lack(model: Any, contents: Contents, kind: str) -> str | None:
    """Return what ``kind`` needs and ``model`` lacks, in words that follow "kind=… needs"; None if it lacks nothing."""
    name = type(model).__name__
    members = getattr(model, "estimators_", [model])
    if isinstance(model, Trees):
        return "the rows that each tree drew, and of a saved regressor the trees alone are known"
    if contents.counts is None and contents.mean is None:
        return (
            f"leaves that hold means of targets, and those of {name} hold what trees add to each other's answers, or "
            "sums before a link"
        )
    if any(getattr(member, "criterion", None) == "absolute_error" for member in members):
        return (
            "leaves that hold means, and those of criterion='absolute_error' hold medians: no weights of rows give "
            "them. Grow the forest by 'squared_error'"
        )
    if any(getattr(member, "monotonic_cst", None) is not None for member in members):
        return f"leaves that hold means, and constraints (monotonic_cst) bound those of {name}"
    if kind == "out_of_bag" and not has_bags(model):
        return (
            f"trees that have not seen a row, and {name} has no bags that are known. Grow it with bootstrap=True, or "
            "take kind='prediction'"
        )
    return None


class RowCounts:
    """How much each training row counts in each tree of a model: a callable, whose answers agree with the leaves.

    ``contents`` is what the model's leaves hold. ``rows`` are the ``n`` rows that the model was grown on, as it reads
    them; ``y`` has their targets or labels, or is None. Raises a ValueError or TypeError for invalid targets and
    weights, and an `OtherRowsError` if the rows do not give what the leaves hold.
    """

    def __init__(self, model: Any, contents: Contents, rows: Any, n: int, *, y: Any, sample_weight: Any):
        self._model = model
        self._contents = contents
        self._is_leaf = np.asarray(contents.trees.is_leaf)
        self._weight = None if sample_weight is None else as_weights(sample_weight, n)
        # Numbers of the rows' classes, or their targets; both None without y.
        self._position = self._target = None
        if y is not None and contents.counts is not None:
            self._position = class_positions(contents.class_labels, y)
            if len(self._position) != n:
                raise ValueError(f"y has {len(self._position)} labels for {n} rows; pass one for each.")
        elif y is not None:
            self._target = checked_target(y, n)
        if contents.counts is None and contents.size is None and y is None:
            raise ValueError(
                f"model is a {type(model).__name__}, which keeps no sizes of leaves that rows could be compared with; "
                f"pass y, the rows' targets. {LEAVES}"
            )
        if library_of(model) == "ydf" and has_bags(model) and y is None:
            raise ValueError(f"the bags of a {type(model).__name__} are found with the rows' labels; pass y. {LEAVES}")
        try:
            self.bags = bags_of(model, n, X=rows, y=y) if has_bags(model) else None
        except OtherRowsError as error:
            raise OtherRowsError(f"there are {n} rows: {error} {LEAVES}") from error
        self._n = n

    def __call__(self, t: int, leaf: np.ndarray) -> np.ndarray:
        """Return how much each row counts in tree ``t``, ``[rows]``; ``leaf [rows]`` is each row's leaf in that tree.

        Raises an `OtherRowsError` if the rows do not give what the leaves hold.
        """
        n_drawn = np.ones(self._n)
        if self.bags is not None:
            n_drawn = np.bincount(self.bags[t], minlength=self._n).astype(float)
        # Since scikit-learn 1.9 the weights decide what bags draw; before, they multiply what was drawn.
        candidates = [n_drawn] if self._weight is None else [n_drawn * self._weight, n_drawn]
        if self._position is not None:
            candidates = [row_counts * self._class_weights(t, row_counts)[self._position] for row_counts in candidates]
        for row_counts in candidates:
            if self._matches_leaves(t, leaf, row_counts):
                return row_counts
        raise self._refusal(t)

    def out_of_bag(self) -> np.ndarray:
        """Return whether a row is out of the bag of a tree, bools ``[rows trees]``; the model must have bags."""
        assert self.bags is not None
        return np.stack([np.bincount(bag, minlength=self._n) == 0 for bag in self.bags], axis=1)

    def _node_contents(self, t: int) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray]:
        """Return (sizes or None, class counts or mean targets, whether they are leaves) of the nodes of tree ``t``."""
        contents = self._contents
        is_leaf = self._is_leaf[t]
        if contents.counts is not None:
            table, code = contents.counts
            counts = table[code[t]].astype(np.float64)
            return counts.sum(axis=1), counts, is_leaf
        size = None if contents.size is None else contents.size[t]
        return size, contents.mean[t], is_leaf  # pyright: ignore[reportOptionalSubscript]

    def _class_weights(self, t: int, row_counts: np.ndarray) -> np.ndarray:
        """Return the weight of each class in tree ``t``: its count in all leaves, over the sum of its ``row_counts``.

        ``row_counts [rows]`` leave out the weight of the row's class. A class without rows has the weight 0.
        """
        assert self._position is not None
        n_classes = len(self._contents.class_labels)
        if library_of(self._model) == "sklearn":  # whose trees keep their counts in float64
            tree = getattr(self._model, "estimators_", [self._model])[t]
            root = np.zeros(1, int)
            class_totals = counts_in_nodes(tree, root, n_classes)[0]
        else:
            _, counts, is_leaf = self._node_contents(t)
            class_totals = counts[is_leaf].sum(axis=0)  # pyright: ignore[reportOptionalSubscript]
        row_totals = np.bincount(self._position, row_counts, n_classes)
        weights = np.divide(class_totals, row_totals, out=np.zeros(n_classes), where=row_totals > 0)
        return np.where(np.abs(weights - 1) < CLOSE, 1.0, weights)  # no class weights: 1 but for rounding

    def _matches_leaves(self, t: int, leaf: np.ndarray, row_counts: np.ndarray) -> bool:
        """Return whether ``row_counts [rows]`` of rows in leaves ``leaf [rows]`` give what tree ``t`` holds there."""
        size, expected, is_leaf = self._node_contents(t)
        n_nodes = len(is_leaf)
        total = np.bincount(leaf, row_counts, n_nodes)
        if size is not None and not _are_close(total[is_leaf], size[is_leaf]):
            return False
        if self._position is not None:
            n_classes = len(self._contents.class_labels)
            counts = np.bincount(leaf * n_classes + self._position, row_counts, n_nodes * n_classes)
            counts = counts.reshape(n_nodes, n_classes)
            return _are_close(counts[is_leaf], expected[is_leaf])  # pyright: ignore[reportOptionalSubscript]
        if self._target is None:
            return True
        has_rows = is_leaf & (total > 0)  # the other leaves have no mean to compare
        mean = np.bincount(leaf, row_counts * self._target, n_nodes)[has_rows] / total[has_rows]
        deviation = np.abs(mean - expected[has_rows])  # pyright: ignore[reportOptionalSubscript]
        spread = np.std(self._target)
        floor = 1e-6 * np.abs(mean)  # for targets that are all alike, whose spread is 0
        # Models without sizes are of other libraries, whose means may be float32.
        tolerance = 1e-6 if size is not None else 1e-4
        return bool((deviation <= tolerance * (spread + floor)).all())

    def _refusal(self, t: int) -> OtherRowsError:
        """Return the error for rows that do not give what the leaves of tree ``t`` hold, with advice for this model."""
        model = self._model
        name = type(model).__name__
        class_weight = getattr(model, "class_weight", None)
        class_weight = class_weight or getattr(getattr(model, "estimator_", None), "class_weight", None)
        if self._position is None and class_weight is not None:
            advice = f"It was grown with class_weight={class_weight!r:.60}: pass y, the rows' labels, too."
        else:
            weights = " (and its sample_weight)" if self._weight is None else ", with its sample_weight"
            advice = f"Pass the rows just as they went into model.fit{weights}."
        rows = "rows"
        if self.bags is None and library_of(model) != "sklearn":
            rows = f"the bags of this {name}, if it was grown on any, are not known, and without bags the rows"
            advice += " Bags are known of a forest of scikit-learn itself: pass that, if these trees are its own."
        tree = f"tree {t}" if self.bags is None else f"the bag of tree {t}"
        what = "sizes" if self._position is None and self._target is None else "contents"
        return OtherRowsError(
            f"{rows} are not those that this {name} was grown on, in their order: with them {tree} does not give "
            f"the {what} of its leaves. {advice} {LEAVES}"
        )


def _are_close(numbers: np.ndarray, others: np.ndarray) -> bool:
    """Return whether all ``numbers`` equal ``others`` up to `CLOSE` times these plus `CLOSE` times their mean."""
    return bool(np.allclose(numbers, others, rtol=CLOSE, atol=CLOSE * float(others.mean())))
