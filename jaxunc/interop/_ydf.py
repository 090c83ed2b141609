"""Importer of the models of YDF (Yggdrasil Decision Forests)."""

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxunc.additive import AdditiveTrees
from jaxunc.forest import Forest, snap_to_integers
from jaxunc.tables import Columns, Levels, LevelsOfYdf, NumbersLike

from ._comparing_trees import AT_MOST, BELOW, NOT_IN_SET, ComparingTree, ensemble_of, forest_of, set_of_codes
from ._documents import version_in, warn_if_newer

_BOOSTED, _RANDOM = "GRADIENT_BOOSTED_TREES", "RANDOM_FOREST"
# Links by YDF's numbers of losses, as in its files. (7, Poisson: YDF's own `activation` does not say the exponential.)
_LINKS = {1: "logistic", 6: "logistic", 3: "softmax", 2: "identity", 8: "identity", 7: "exp"}
_KINDS = ("NUMERICAL", "DISCRETIZED_NUMERICAL", "CATEGORICAL", "BOOLEAN")  # of columns that are imported
_TESTS = {"NumericalHigherThanCondition", "DiscretizedNumericalHigherThanCondition", "IsTrueCondition"}
_TESTS |= {"CategoricalIsInCondition", "IsMissingInCondition"}


def from_ydf(model: Any, *, prior: NumbersLike | None = None) -> AdditiveTrees | Forest:
    """Import a YDF model, exactly: every instance reaches the leaf that it reaches there.

    Parameters
    ----------
    model
        A model of ``GradientBoostedTreesLearner``, ``RandomForestLearner`` or ``CartLearner``, for classification or
        regression.
    prior
        For forests of classification: class probabilities for combiners that measure evidence against a prior, in the
        order of ``model.label_classes()``. Default: the class frequencies of the samples that the trees were grown on.

    Returns
    -------
    AdditiveTrees | Forest
        A `Forest` with its own leaf counts for a random forest or a CART of classification, an `AdditiveTrees` for all
        others. Columns are ``model.input_feature_names()``, in that order and without the label. Class labels
        are strings, as YDF has them.

    Raises
    ------
    TypeError
        If ``model`` is no YDF model, or a ``prior`` is given for a model without class counts.
    ValueError
        If the model is of another kind or task (isolation forests, uplift, ranking, survival). Also if the model has
        oblique tests, tests of sets, vectors or categories that came as integers, or leaves without counts. The message
        names them.

    Warns
    -----
    UntestedVersionWarning
        If YDF is newer than was tested.

    Notes
    -----
    YDF compares float32: an instance goes right, to the positive child, where x >= t or its category is in the set. A
    missing value goes where the test says, as in ``predict_leaves`` and YDF's generic engine. Its fast engines replace
    it by the mean, which may go to the other side if numbers are large and discretised.

    Words that the column's dictionary lacks are one category; the empty word is a missing value. Bools are 1 and 0;
    among words, as in a column of objects, they are ``true`` and ``false``.

    A random forest of YDF votes by default: a class's ``predict`` is the share of trees in whose leaf it is largest.
    `Vote` answers the same, but for leaves with ties, whose vote YDF gives to one class. For a forest grown with
    ``winner_take_all=False``, ``predict`` is what `Mean` answers.

    Counts are YDF's probabilities times the examples of the leaf, snapped to integers within 1e-9 of it. Boosted
    models give probabilities even where YDF was asked for logits (``set_output_logits``).
    """
    if not all(hasattr(model, name) for name in ("iter_trees", "data_spec", "input_features", "task", "name")):
        raise TypeError(f"model is a {type(model).__name__}; pass a model that ydf's learner.train(data) returned.")
    kind, task = model.name(), model.task().name
    if kind not in (_BOOSTED, _RANDOM) or task not in ("CLASSIFICATION", "REGRESSION"):
        raise ValueError(
            f"model is a {kind} for {task}; from_ydf imports gradient boosted trees and random forests for "
            "CLASSIFICATION and REGRESSION."
        )
    warn_if_newer("YDF", version_in(str(getattr(sys.modules.get("ydf"), "__version__", ""))))
    counts_classes = kind == _RANDOM and task == "CLASSIFICATION"
    if prior is not None and not counts_classes:
        raise TypeError(f"prior is for forests of classification; this model is a {kind} for {task}.")
    features = _Features(model)
    labels = tuple(model.label_classes()) if task == "CLASSIFICATION" else None

    def read_leaves(what: str, leaves: list) -> np.ndarray:
        return _counts(what, leaves, len(labels or ())) if counts_classes else _values(leaves, model)

    trees = [_tree(f"tree {t}", tree.root, features, read_leaves) for t, tree in enumerate(model.iter_trees())]
    if not trees:
        raise ValueError("the model has no trees.")
    if counts_classes:
        forest = forest_of(trees, features.columns, labels or ())
        return forest if prior is None else forest.with_prior(prior)
    if kind == _BOOSTED:
        return _boosted_model(model, trees, features.columns, labels)
    shares = [tree._replace(leaf_values=tree.leaf_values / len(trees)) for tree in trees]
    return ensemble_of(shares, features.columns, np.zeros(1), "identity", averaged=True)


class _Test(NamedTuple):
    """The test of a node: a comparison with a number, or a set of codes; instances go left where it holds."""

    column: int = 0
    compare: int = AT_MOST  # how it compares, as in a `ComparingTree`
    value: float = 0.0  # what it compares with
    missing_right: bool = False
    codes: np.ndarray | None = None  # the categories that go right, if the test is of a set


class _Column(NamedTuple):
    """A column that trees may test."""

    index: int  # its position among the columns of the data
    kind: str  # one of `_KINDS`
    n_levels: int  # 0 without levels
    bounds: Sequence[float]  # thresholds of a discretised column


class _Features:
    """The columns that trees may test, by their numbers in YDF (``by_number``), and those of the data (``columns``)."""

    def __init__(self, model: Any):
        """Read the columns of ``model``, YDF's model; raise a ValueError for kinds that are not imported."""
        spec = model.data_spec()
        self.by_number = {}
        levels, names = [], []
        for index, feature in enumerate(model.input_features()):
            kind = feature.semantic.name
            column = spec.columns[feature.column_idx]
            if kind not in _KINDS:
                raise ValueError(
                    f"the model's column {feature.name!r} is {kind}; from_ydf imports {', '.join(_KINDS)}."
                )
            column_levels = _levels(column) if kind == "CATEGORICAL" else None
            bounds = tuple(column.discretized_numerical.boundaries)
            n_levels = 0 if column_levels is None else len(column_levels.values)
            self.by_number[feature.column_idx] = _Column(index, kind, n_levels, bounds)
            levels.append(column_levels)
            names.append(feature.name)
        nominal = tuple(column_levels is not None for column_levels in levels)
        if any(nominal):
            self.columns = Columns(len(names), tuple(names), nominal, tuple(levels))
        else:
            self.columns = Columns(len(names), tuple(names))


def _levels(column: Any) -> Levels:
    """Return the levels of ``column``, a nominal one of YDF's data specification: its words, and the empty word.

    A ValueError for categories that came as integers, and for a dictionary with holes.
    """
    spec = column.categorical
    if spec.is_already_integerized:
        raise ValueError(f"the model's column {column.name!r} has categories that came as integers; give it words.")
    words = {item.index: word for word, item in spec.items.items()}
    if sorted(words) != list(range(len(words))):
        raise ValueError(f"the model's column {column.name!r} has a dictionary with holes: {sorted(words)!r:.60}.")
    values = [words[index] for index in range(1, len(words))]  # entry 0 stands for unknown words
    if "" not in values:
        values.append("")
    return LevelsOfYdf(tuple(values), has_missing=True)


def _tree(what: str, root: Any, features: _Features, read_leaves: Callable[[str, list], np.ndarray]) -> ComparingTree:
    """Return the tree below ``root``, a node of YDF; its negative child becomes the left one. Nodes are depth first.

    ``what`` names the tree in messages. ``read_leaves(what, leaves)`` returns the leaf values ``[nodes values]``, given
    a list with YDF's value of each leaf, and None for inner nodes.
    """
    left, right, tests, leaves = [], [], [], []
    stack = [(root, None)]  # nodes that are still to be read, each with the index of its parent
    while stack:
        node, parent = stack.pop()
        node_index = len(left)
        if parent is not None:
            side = left if left[parent] < 0 else right  # a left child comes before the right one
            side[parent] = node_index
        left.append(-1)
        right.append(-1)
        leaves.append(node.value if node.is_leaf else None)
        tests.append(_Test() if node.is_leaf else _test(what, node.condition, features))
        if not node.is_leaf:
            # The last one is taken first, and so becomes the left child.
            stack += [(node.pos_child, node_index), (node.neg_child, node_index)]
    column, compare, value, missing_right, codes = zip(*tests, strict=True)
    sets = {i: set_of_codes(set_codes) for i, set_codes in enumerate(codes) if set_codes is not None}
    return ComparingTree(
        feature=np.array(column),
        compare=np.array(compare),
        value=np.array(value, np.float64),
        left=np.array(left),
        right=np.array(right),
        missing_left=~np.array(missing_right),
        sets=sets,
        leaf_values=read_leaves(what, leaves),
    )


def _test(what: str, condition: Any, features: _Features) -> _Test:
    """Return the test that ``condition``, a node's condition in YDF, makes; YDF's positive side is the right one.

    A ValueError, which calls the tree ``what``, if it is not imported.
    """
    name = type(condition).__name__
    if name not in _TESTS:
        raise ValueError(f"{what} has a {name}; from_ydf imports {', '.join(sorted(_TESTS))}.")
    if condition.attribute not in features.by_number:
        raise ValueError(f"{what} tests column {condition.attribute} of the data, which is no feature of the model.")
    column = features.by_number[condition.attribute]
    missing_right = bool(condition.missing)
    is_categorical = column.kind == "CATEGORICAL"
    if name == "CategoricalIsInCondition" and is_categorical:
        codes = _codes(what, condition.mask, column.n_levels, missing_right)
        return _Test(column.index, NOT_IN_SET, missing_right=missing_right, codes=codes)
    if name == "IsMissingInCondition":
        # Missing categories are not NaN: they have the last two codes, of the empty word and of what is no word.
        if is_categorical:
            return _Test(column.index, BELOW, column.n_levels - 1.0, missing_right=True)
        return _Test(column.index, AT_MOST, np.inf, missing_right=True)  # every number goes left
    if name == "DiscretizedNumericalHigherThanCondition":
        if not 1 <= condition.threshold_idx <= len(column.bounds):
            raise ValueError(f"{what} has the threshold {condition.threshold_idx} of {len(column.bounds)}.")
        threshold = column.bounds[condition.threshold_idx - 1]
    elif name == "IsTrueCondition":
        threshold = 1.0
    else:
        threshold = condition.threshold
    if is_categorical or not np.isfinite(threshold):
        raise ValueError(f"{what} has a {name} of a {column.kind} column and the threshold {threshold}.")
    return _Test(column.index, BELOW, float(threshold), missing_right)


def _codes(what: str, mask: Sequence[int], n_levels: int, missing_right: bool) -> np.ndarray:
    """Return the codes that go right at a test of a set; a word's code is its position in the dictionary, less 1.

    ``mask`` has the positions of the set's words. The column has ``n_levels``, of which the empty word is the last. If
    ``missing_right``, it goes right, too, and so does what is no word, whose code is ``n_levels``. A ValueError, which
    calls the tree ``what``, for other positions.
    """
    codes = np.unique(np.asarray(mask, np.int64)) - 1
    if len(codes) and not -1 <= codes[0] <= codes[-1] < n_levels - 1:
        raise ValueError(f"{what} has a set of categories that are not in the dictionary: {list(mask)!r:.60}.")
    codes_of_missing = [n_levels - 1, n_levels]
    return np.append(codes, codes_of_missing) if missing_right else codes


def _values(leaves: list, model: Any) -> np.ndarray:
    """Return the leaf values ``[nodes 1]`` of a tree, 0 at inner nodes; a ValueError if leaves hold no values.

    ``leaves`` has YDF's value of each leaf, None for inner nodes.
    """
    values = [0.0 if leaf is None else getattr(leaf, "value", None) for leaf in leaves]
    if any(value is None for value in values):
        raise ValueError(f"the model's leaves hold no values; is it a {model.name()} for {model.task().name}?")
    return np.array(values, np.float64)[:, None]


def _boosted_model(model: Any, trees: list[ComparingTree], columns: Columns, labels: tuple | None) -> AdditiveTrees:
    """Return the additive model of ``trees``, those of YDF's boosted ``model``; a ValueError if its loss is unknown.

    ``labels`` are the class labels, None for a regressor; ``columns`` are those of the data.
    """
    loss = int(model._model.loss())
    if loss not in _LINKS:
        raise ValueError(f"the model has YDF's loss number {loss}, such as of ranking, survival or one's own.")
    base = np.asarray(model.initial_predictions(), np.float64)
    per_stage = int(model.num_trees_per_iteration())
    if per_stage != len(base) or len(trees) % per_stage:
        raise ValueError(f"the model has {len(trees)} trees, {per_stage} an iteration, for {len(base)} outputs.")
    return ensemble_of(trees, columns, base, _LINKS[loss], trees_per_stage=per_stage, class_labels=labels)


def _counts(what: str, leaves: list, n_classes: int) -> np.ndarray:
    """Return the class counts ``[nodes classes]`` of a tree, 0 at inner nodes.

    ``leaves`` has YDF's value of each leaf, None for inner nodes. A ValueError, which calls the tree ``what``, unless
    they have probabilities of ``n_classes``.
    """
    counts = np.zeros((len(leaves), n_classes))
    sizes = np.zeros(len(leaves))
    for i, leaf in enumerate(leaves):
        if leaf is not None:
            shares = np.asarray(getattr(leaf, "probability", ()), np.float64)
            if len(shares) != n_classes:
                raise ValueError(f"{what} has a leaf with {len(shares)} probabilities for {n_classes} classes.")
            counts[i] = shares * leaf.num_examples
            sizes[i] = leaf.num_examples
    return snap_to_integers(counts, sizes)
