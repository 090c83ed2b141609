"""Importer of CatBoost's models, from their JSON files."""

import tempfile
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from jaxunc.additive import AdditiveTrees
from jaxunc.forest import TreeNodes

from ._catboost_features import Features, Test
from ._documents import numbers, part, read_document
from ._given_trees import GivenTree, ensemble_of
from ._versions import version_in, warn_if_newer

_LINKS = {
    **dict.fromkeys(("RMSE", "MAE", "Quantile", "MultiQuantile", "Huber", "Expectile", "MAPE", "Lq"), "identity"),
    **dict.fromkeys(("LogCosh", "LogLinQuantile", "RMSPE", "MultiRMSE", "MultiRMSEWithMissingValues"), "identity"),
    **dict.fromkeys(("Logloss", "CrossEntropy", "Focal", "MultiLogloss", "MultiCrossEntropy"), "logistic"),
    **dict.fromkeys(("Poisson", "Tweedie"), "exp"),
    "MultiClass": "softmax",
    # One logistic probability a class; they do not add to 1.
    "MultiClassOneVsAll": "logistic",
}
_TWO_CLASSES, _CLASS_EACH = ("Logloss", "CrossEntropy", "Focal"), ("MultiClass", "MultiClassOneVsAll")
_LABELS = {"Integer": int, "Float": float, "String": str, "Boolean": bool}
_LABEL_KINDS = {"Integer": int, "Float": (int, float), "String": str, "Boolean": (bool, int)}
_DEEPEST = 30


def from_catboost(model: Any, *, pool: Any = None) -> AdditiveTrees:
    """Import a CatBoost model, exactly: every instance reaches the leaf that it reaches there.

    Parameters
    ----------
    model
        A JSON file that ``save_model(path, format="json")`` wrote, its bytes, or a fitted ``CatBoost``,
        ``CatBoostClassifier`` or ``CatBoostRegressor``. CatBoost is not needed for files. A model keeps the trees that
        it predicts with: with ``use_best_model`` CatBoost has cut it to its best iteration.
    pool
        The ``Pool`` of training, for a live model that tests categories: CatBoost keeps hashes, and the pool has the
        words. For a file ``save_model`` takes it.

    Returns
    -------
    AdditiveTrees
        Its ``raw`` is CatBoost's ``RawFormulaVal``, scale and bias included. Of several targets each is an output.
        Levels of a column of categories are those that trees test; any other word is none of these. Classes that
        training was told of but never met, whose probability is 0, are left out.

    Raises
    ------
    TypeError
        If ``model`` is of another kind, or a ``pool`` comes with a file.
    ValueError
        If the model is not fitted, the file is damaged, or the model has parts that are not imported: statistics of
        categories (CTR tables), text and embedding features, losses of ranking and survival, with uncertainty, or one's
        own. They are named. Also if categories are tested and their words are not known.

    Warns
    -----
    UntestedVersionWarning
        If a newer CatBoost made the model than was tested.

    Notes
    -----
    CatBoost compares float32: a bit is x > border, and an oblivious tree's leaf is Σ 2^b bit_b. A missing value is less
    than every border, or greater where the model was fitted with ``nan_mode="Max"``; columns without missing values in
    training treat it as less. CatBoost itself refuses missing categories; here they are no level.

    Categories are equal in CatBoost if 32 bits of their hashes are; here their words must be. A bool is the word 1 or
    0, in a column of objects, too.

    ``predict`` gives probabilities of classes; CatBoost's labels follow a threshold, if one was set. Of several labels
    at a time (``MultiLogloss``) it gives the probability of each.
    """
    if hasattr(model, "save_model") and hasattr(model, "is_fitted"):
        model = _saved(model, pool)
    elif pool is not None:
        raise TypeError(
            "pool is for live models; a file has the words if save_model(path, 'json', pool=pool) wrote it."
        )
    if not isinstance(model, str | PathLike | bytes | bytearray | memoryview):
        raise TypeError(
            f"model is a {type(model).__name__}; pass a fitted CatBoost, CatBoostClassifier or CatBoostRegressor, or a "
            "file of save_model(path, format='json')."
        )
    return from_catboost_document(read_document(model, "CatBoost"))


def _saved(model: Any, pool: Any) -> bytes:
    if not model.is_fitted():
        raise ValueError(f"model ({type(model).__name__}) is not fitted; call model.fit(X, y) first.")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.json")
        try:
            model.save_model(str(path), format="json", pool=pool)
        except Exception as error:  # a CatBoostError: it has no JSON for text and embedding features
            raise ValueError(f"CatBoost cannot write this model as JSON: {error}") from error
        return path.read_bytes()


def from_catboost_document(document: dict) -> AdditiveTrees:
    """Return the model of a document that ``save_model`` wrote; errors and warnings are those of `from_catboost`."""
    info = part(document, "model_info")
    loss = part(info, "params", "loss_function", "type", kind=str)
    if loss not in _LINKS:
        raise ValueError(f"the loss function is {loss!r:.60}; from_catboost imports {', '.join(sorted(_LINKS))}.")
    # Files say "Branch: tags/v1.2.10" among much else; those of other builds tell no version.
    _, _, version = str(info.get("catboost_version_info")).partition("tags/v")
    warn_if_newer("CatBoost", version_in(version[:20]))
    features = Features(part(document, "features_info"))
    scale, bias = _scale_and_bias(document)
    if "oblivious_trees" in document:
        given = part(document, "oblivious_trees", kind=list)
        trees = [_oblivious(f"tree {t}", tree, features) for t, tree in enumerate(given)]
    else:
        given = part(document, "trees", kind=list)
        trees = [_branching(f"tree {t}", tree, features) for t, tree in enumerate(given)]
    if not trees:
        raise ValueError("the model has no trees.")
    if len(each := {tree.values.shape[1] for tree in trees}) > 1:
        raise ValueError(f"the model's leaves have different numbers of values: {sorted(each)}.")
    n_outputs = each.pop()
    if len(bias) not in (0, n_outputs):
        raise ValueError(f"the model's bias has {len(bias)} numbers for {n_outputs} outputs.")
    with np.errstate(over="ignore", invalid="ignore"):
        trees = [tree._replace(values=(scale * tree.values).astype(np.float32)) for tree in trees]
    return ensemble_of(
        trees,
        features.columns,
        bias if len(bias) else np.zeros(n_outputs),
        _LINKS[loss],
        class_labels=_labels(info, loss, n_outputs),
    )


def _scale_and_bias(document: dict) -> tuple[float, np.ndarray]:
    found = part(document, "scale_and_bias", kind=list) if "scale_and_bias" in document else [1, 0]  # none before 0.20
    if len(found) != 2:
        raise ValueError(f"the model's scale_and_bias is {found!r:.60}; expected the scale and the list of biases.")
    scale = part({"scale": found[0]}, "scale", kind=(int, float))
    bias = found[1] if isinstance(found[1], list) else [found[1]] * (found[1] != 0)  # one number up to 0.22
    return float(scale), numbers({"bias": bias}, "bias", np.float64)


def _labels(info: dict, loss: str, n_outputs: int) -> tuple | None:
    """The labels of the classes that the outputs stand for; None where there are no classes."""
    if loss not in _TWO_CLASSES + _CLASS_EACH:
        return None
    number = 2 if loss in _TWO_CLASSES else n_outputs
    if "class_params" not in info:
        return _old_labels(info, number)
    kind = part(info, "class_params", "class_label_type", kind=str)
    names = part(info, "class_params", "class_names", kind=list)
    labels = numbers(info["class_params"], "class_to_label", np.int64).tolist()
    if names:
        if any(place not in range(len(names)) for place in labels):
            raise ValueError(f"the model's classes have the names {names!r:.60} and the places {labels!r:.60}.")
        labels = [names[place] for place in labels]
    as_expected = n_outputs == (1 if loss in _TWO_CLASSES else number)
    if kind not in _LABELS or len(set(map(str, labels))) != number or len(labels) != number or not as_expected:
        raise ValueError(f"the model has classes {labels!r:.60} of type {kind!r:.20} for {n_outputs} outputs.")
    if any(not isinstance(label, _LABEL_KINDS[kind]) or label != label for label in labels):
        raise ValueError(f"the model's classes {labels!r:.60} are not of the type {kind!r:.60}.")
    return tuple(_LABELS[kind](label) for label in labels)


def _old_labels(info: dict, number: int) -> tuple:
    """The labels in files of CatBoost up to 0.22, which hold them among the parameters, as texts."""
    options = part(info, "params").get("data_processing_options")
    names = (options.get("class_names") if isinstance(options, dict) else None) or list(range(number))
    if not isinstance(names, list) or len(set(map(str, names))) != number or len(names) != number:
        raise ValueError(f"the model has classes {names!r:.60} for {number}.")
    if not all(isinstance(name, str | int | float) and name == name for name in names):
        raise ValueError(f"the model's classes {names!r:.60} are no texts and no numbers.")
    return tuple(names)


@lru_cache
def _heap(depth: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Left and right children of a whole tree, and the split that each level tests.

    The root tests the last split, whose bit is the highest: leaves are then in CatBoost's order.
    """
    nodes = np.arange(2 ** (depth + 1) - 1)
    inner = nodes < 2**depth - 1
    split = np.repeat(np.append(np.arange(depth)[::-1], 0), 2 ** np.arange(depth + 1))
    return np.where(inner, 2 * nodes + 1, -1), np.where(inner, 2 * nodes + 2, -1), split


def _oblivious(what: str, tree: Any, features: Features) -> GivenTree:
    splits = part({what: tree}, what).get("splits") or []
    tests = [features.test(split) for split in part({"splits": splits}, "splits", kind=list)]
    leaves, depth = numbers(tree, "leaf_values", np.float64), len(tests)
    if depth > _DEEPEST or leaves.size == 0 or leaves.size % 2**depth:
        raise ValueError(f"{what} has {leaves.size} leaf values for {depth} tests.")
    left, right, split = _heap(depth)
    values = np.zeros((len(left), leaves.size >> depth))
    values[2**depth - 1 :] = leaves.reshape(2**depth, -1)
    return _tree(features.nodes(tests, left, right, split), values, tests, split)


def _branching(what: str, tree: Any, features: Features) -> GivenTree:
    nodes, left, right, tests, leaves = [tree], [], [], [], {}
    for place, node in enumerate(nodes):  # which grows
        is_leaf = "value" in part({what: node}, what)
        left.append(-1 if is_leaf else len(nodes))
        right.append(-1 if is_leaf else len(nodes) + 1)
        if is_leaf:
            value = node["value"]
            leaves[place] = numbers({"value": value if isinstance(value, list) else [value]}, "value", np.float64)
            tests.append(Test(0, 0.0))
        else:
            tests.append(features.test(part(node, "split")))
            nodes += [part(node, side) for side in ("left", "right")]
    if len(each := {len(leaf) for leaf in leaves.values()}) > 1 or each == {0}:
        raise ValueError(f"{what} has leaves with {sorted(each)} values; expected one number, above 0.")
    values = np.zeros((len(nodes), each.pop()))
    values[list(leaves)] = list(leaves.values())
    children, place = (np.array(left), np.array(right)), np.arange(len(nodes))
    return _tree(features.nodes(tests, *children, place), values, tests, place)


def _tree(nodes: TreeNodes, values: np.ndarray, tests: list[Test], place: np.ndarray) -> GivenTree:
    if all(test.category is None for test in tests):
        return GivenTree(nodes, values, {})
    inner = np.flatnonzero(nodes.left >= 0)
    sets = {int(i): test for i in inner if (test := tests[place[i]].category) is not None}
    return GivenTree(nodes, values, sets)
