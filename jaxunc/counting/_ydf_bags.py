"""Bags of YDF's random forests: drawn anew by its learner, and compared with what the model keeps."""

import importlib
from typing import Any

import numpy as np

from jaxunc._checks import warn
from jaxunc.tables import Frame, InstancesLike, LabelsLike, as_frame, as_labels, class_positions, is_sparse, plain_table

_KIND = "RandomForestModel"


def is_ydf_forest(model: Any) -> bool:
    """Return whether a model is a random forest of YDF for classification, which may have bags."""
    kind = type(model)
    is_forest = kind.__module__.partition(".")[0] == "ydf" and kind.__name__ == _KIND
    return is_forest and model.task().name == "CLASSIFICATION"


def ydf_bags(
    model: Any, n: int, *, learner: Any = None, X: InstancesLike | None = None, y: LabelsLike | None = None
) -> list[np.ndarray]:
    """Return the positions that each tree of a YDF forest drew, as its learner tells them.

    A model keeps neither its seed nor its bags. A learner of the same settings draws the same ones; that it did is
    checked by the counts of all leaves if X and y are given; else hardly anything tells, and there is a warning.
    """
    known = int(model.data_spec().created_num_rows)
    if known != n:
        raise ValueError(f"n={n}, but model was fitted on {known} instances; pass the number of training instances.")
    is_assumed = learner is None
    if is_assumed:
        package: Any = importlib.import_module("ydf")
        learner = package.RandomForestLearner(label=model.label(), num_trees=model.num_trees())
    if not hasattr(learner, "in_bag_example_indices"):
        raise TypeError(
            f"learner is a {type(learner).__name__}, which tells no bags; pass the RandomForestLearner of YDF 0.14 or "
            "later that trained the model."
        )
    try:
        drawn = [learner.in_bag_example_indices(num_examples=n, tree_idx=t) for t in range(model.num_trees())]
    except (ValueError, RuntimeError) as error:
        raise ValueError(f"YDF's learner does not tell the bags of this model: {error}") from error
    bags = [np.asarray(bag, np.int64) for bag in drawn]
    if X is None:
        _check_evaluations(model, bags, n)
        if is_assumed:
            warn(
                "YDF's models keep no seed: these are the bags of its default one, and without X and y little tells "
                "whether they are the model's. Pass X and y, or the learner."
            )
    else:
        _check_leaves(model, bags, X, y, n)
    return bags


_REMEDY = (
    "Pass the learner that trained the model, if its random_seed or its bootstrap is not YDF's default: "
    "forest.with_count_set('oob', "
    "count_leaves(forest, X, y, tree_mask=oob_mask(model, n, X=X, y=y, learner=learner))). "
    "For rows that were held out take 'held_out'."
)


def _check_evaluations(model: Any, bags: list[np.ndarray], n: int) -> None:
    """Raise a ValueError if YDF's evaluations count other instances out of the bags: of one tree, and of all.

    Trees are evaluated in the order in which they were ready.
    """
    told = [int(entry.evaluation.num_examples) for entry in model.out_of_bag_evaluations()]
    if not told:
        raise ValueError("the model has no out-of-bag evaluations that its bags could be compared with; pass X and y.")
    drawn = [np.bincount(bag, minlength=n) > 0 for bag in bags]
    if told[0] not in [int(np.sum(~one)) for one in drawn] or told[-1] != np.sum(~np.all(drawn, axis=0)):
        raise ValueError(f"the learner's bags are not those that the model was grown on. {_REMEDY}")


def _check_leaves(model: Any, bags: list[np.ndarray], X: InstancesLike, y: LabelsLike | None, n: int) -> None:
    """Raise a ValueError unless the instances, put into the leaves of all trees by the bags, give their counts."""
    labels = tuple(model.label_classes())
    position = _positions(model, y)
    if len(position) != n:
        raise ValueError(
            f"y has {len(position)} labels, but model was fitted on {n} instances; pass all, in their order."
        )
    try:
        leaves = np.asarray(model.predict_leaves(_dataset(model, X, len(position))))
    except (ValueError, TypeError, RuntimeError, KeyError, AttributeError) as error:
        raise ValueError(f"YDF cannot read X as the columns {model.input_feature_names()}: {error}") from error
    for t, (bag, tree) in enumerate(zip(bags, model.iter_trees(), strict=True)):
        values = _leaf_values(tree.root)
        cell = leaves[bag, t] * len(labels) + position[bag]
        counts = np.bincount(cell, minlength=len(values) * len(labels)).reshape(-1, len(labels))
        told = np.array([np.multiply(value.probability, value.num_examples) for value in values])
        if counts.shape != told.shape or not np.allclose(counts, told, rtol=1e-5, atol=1e-3):
            raise ValueError(
                f"with X and y in their order the bag of tree {t} does not give the counts in its leaves: these are "
                f"not the rows that this {_KIND} was grown on, or it was grown with weights. {_REMEDY}"
            )


def ydf_cells(model: Any, X: InstancesLike, y: LabelsLike | None) -> tuple[np.ndarray, np.ndarray]:
    """Return a number for each value of each column, ``[instances features]``, and each instance's class."""
    position = _positions(model, y)
    columns = _dataset(model, X, len(position))
    values = [np.unique(columns[one.name].astype(str), return_inverse=True)[1] for one in model.input_features()]
    return np.stack(values, axis=1).astype(np.float32), position


def _positions(model: Any, y: LabelsLike | None) -> np.ndarray:
    """Return each instance's class; the labels of YDF's models are texts."""
    if y is None:
        raise ValueError("y is None, but X is given; pass the labels, too.")
    return class_positions(tuple(model.label_classes()), np.asarray(as_labels(y)).astype(str))


def _leaf_values(root: Any) -> list:
    """What leaves hold, in the order of YDF's numbers: those of the negative child first."""
    found, waiting = [], [root]
    while waiting:
        node = waiting.pop()
        if node.is_leaf:
            found.append(node.value)
        else:
            waiting += [node.pos_child, node.neg_child]
    return found


def _dataset(model: Any, X: Any, n: int) -> Any:
    """Return X as YDF reads it, with a column of labels, which it asks for and does not read."""
    features, label = model.input_features(), np.full(n, model.label_classes()[0], object)
    table = X.toarray() if is_sparse(X) else plain_table(X)
    if (frame := as_frame(table)) is not None:
        _check_columns(list(frame.columns), [one.name for one in features])
        _check_rows(frame.shape[0], n)
        # What has columns of its own kind keeps their types.
        is_plain = isinstance(frame, Frame) and (frame is X or not hasattr(X, "columns"))
        kept = dict(zip(frame.columns, frame.parts, strict=True)) if is_plain else X
        return {**{one.name: np.asarray(kept[one.name]) for one in features}, model.label(): label}
    values = np.asarray(table)
    if values.ndim != 2 or values.shape[1] != len(features):
        raise ValueError(
            f"X has shape {values.shape}; pass instances [instances features], of {len(features)} features."
        )
    _check_rows(len(values), n)
    columns = {one.name: values[:, j] for j, one in enumerate(features)}
    for one in features:
        if one.semantic.name == "BOOLEAN":
            columns[one.name] = np.asarray(columns[one.name], np.float64) > 0
    return {**columns, model.label(): label}


def _check_columns(given: list, known: list[str]) -> None:
    for many, said in ((0, "lacks"), (2, "has several times")):
        if wrong := [name for name in known if min(given.count(name), 2) == many]:
            raise ValueError(f"X {said} {wrong[:5]} ({len(wrong)} in all); its columns are {given[:10]}.")


def _check_rows(given: int, n: int) -> None:
    if given != n:
        raise ValueError(f"X has {given} instances and y {n} labels; pass one label for each.")
