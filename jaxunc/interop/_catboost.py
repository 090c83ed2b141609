"""Importer of CatBoost's models, from their JSON files.

Trees are oblivious, with one test for all nodes of a depth (`_oblivious`), or each inner node has a test
(`_branching`). `Features` says what the tests of a file mean.
"""

import subprocess
import sys
import tempfile
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxunc.additive import AdditiveTrees
from jaxunc.tables import Columns, Levels, LevelsOfCatBoost

from ._comparing_trees import AT_MOST, MOST_COLUMNS, NOT_IN_SET, ComparingTree, ensemble_of, set_of_codes
from ._documents import GIVEN, content_of, integer, numbers, part, read_document, version_in, warn_if_newer

_LINKS = {  # by loss function
    **dict.fromkeys(("RMSE", "MAE", "Quantile", "MultiQuantile", "Huber", "Expectile", "MAPE", "Lq"), "identity"),
    **dict.fromkeys(("LogCosh", "LogLinQuantile", "RMSPE", "MultiRMSE", "MultiRMSEWithMissingValues"), "identity"),
    **dict.fromkeys(("Logloss", "CrossEntropy", "Focal", "MultiLogloss", "MultiCrossEntropy"), "logistic"),
    **dict.fromkeys(("Poisson", "Tweedie"), "exp"),
    "MultiClass": "softmax",
    # One logistic probability for each class; they do not add to 1.
    "MultiClassOneVsAll": "logistic",
}
_TWO_CLASSES = ("Logloss", "CrossEntropy", "Focal")  # losses with one sum for two classes
_CLASS_EACH = ("MultiClass", "MultiClassOneVsAll")  # losses with a sum for each class
_LABELS = {"Integer": int, "Float": float, "String": str, "Boolean": bool}  # what labels become, by the file's types
_LABEL_KINDS = {"Integer": int, "Float": (int, float), "String": str, "Boolean": (bool, int)}  # what JSON has for them
_DEEPEST = 30  # the most tests of an oblivious tree
_EXACT = 2**53  # integers below it are exact as float64
OWN_FORMAT = b"CBM1"  # how files of CatBoost's own format begin, .cbm
_TO_JSON = """
import sys, catboost
try:
    catboost.CatBoost().load_model(sys.argv[1], format="cbm").save_model(sys.argv[2], format="json")
except Exception as error:
    print(error)
    sys.exit(3)
"""
"""The program that writes a .cbm file as JSON, by CatBoost."""
_SECONDS = 600  # how long this program may run
_REFUSED = 3  # its exit status if CatBoost refuses the file


def from_catboost(model: Any, *, pool: Any = None) -> AdditiveTrees:
    """Import a CatBoost model, exactly: every instance reaches the leaf that it reaches there.

    Parameters
    ----------
    model
        A JSON file that ``save_model(path, format="json")`` wrote, its bytes, or a fitted ``CatBoost``,
        ``CatBoostClassifier`` or ``CatBoostRegressor``. CatBoost is not needed for JSON files. A file of its own format
        (.cbm) is read by CatBoost itself, in another process. ``use_best_model`` has cut a model to its best iteration
        already. A sum of models of one loss function (``catboost.sum_models``) is a model, too.
    pool
        The ``Pool`` of training, for a live model that tests categories: CatBoost keeps only their hashes, and the pool
        has the words. For files, pass the pool to ``save_model``.

    Returns
    -------
    AdditiveTrees
        Its ``raw`` is CatBoost's ``RawFormulaVal``, scale and bias included. Each of several targets is an output. The
        levels of a column of categories are those that trees test; other words are not levels. Classes that training
        was given but never met, whose probability is 0, are left out.

    Raises
    ------
    TypeError
        If ``model`` is of another kind, or a ``pool`` comes with a file.
    ValueError
        If the model is not fitted, the file is damaged, or the model has parts that are not imported, which are named:
        statistics of categories (CTR tables), text and embedding features, losses of ranking and survival, losses with
        uncertainty, custom losses, or several losses in a sum of models. Also if words of tested categories are not
        known, or if a file has CatBoost's own format, and CatBoost is not installed or cannot read it.

    Warns
    -----
    UntestedVersionWarning
        If a newer CatBoost made the model than was tested.

    Notes
    -----
    CatBoost compares float32. An instance reaches leaf Σ 2^b bit_b of an oblivious tree: bit_b is 1 where x > border in
    test b. A missing value is less than every border, or greater where the model was fitted with ``nan_mode="Max"`` and
    the column had missing values in training. CatBoost itself refuses missing categories; here they are no level.

    Categories are equal in CatBoost if 32 bits of their hashes are; here their words must be. A bool is the word 1 or
    0, in a column of objects, too.

    ``predict`` gives probabilities of classes; CatBoost's labels follow a threshold, if one was set. For several labels
    at a time (``MultiLogloss``) it gives the probability of each.
    """
    if hasattr(model, "save_model") and hasattr(model, "is_fitted"):
        model = _save_as_json(model, pool)
    elif pool is not None:
        raise TypeError(
            "pool is for live models; a file has the words if save_model(path, 'json', pool=pool) wrote it."
        )
    if not isinstance(model, GIVEN):
        raise TypeError(
            f"model is a {type(model).__name__}; pass a fitted CatBoost, CatBoostClassifier or CatBoostRegressor, or a "
            "file of save_model(path, format='json')."
        )
    content = content_of(model)
    if content.startswith(OWN_FORMAT):
        content = _as_json(content)
    return from_catboost_document(read_document(content, "CatBoost"))


def _as_json(content: bytes) -> bytes:
    """Return the ``content`` of a .cbm file as JSON, by CatBoost in another process; a ValueError if it cannot."""
    problem = "the model is in CatBoost's own format"
    if find_spec("catboost") is None:
        raise ValueError(
            f"{problem}, which CatBoost alone reads: pip install catboost, or write it by model.save_model(path, "
            "format='json', pool=pool)."
        )
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "model.cbm")
        target = Path(folder, "model.json")
        source.write_bytes(content)
        # Damaged files may crash the process that reads them. With -P nothing is imported from the current folder.
        command = [sys.executable, "-P", "-c", _TO_JSON, str(source), str(target)]
        try:
            process = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, errors="replace")
        except subprocess.TimeoutExpired:
            raise ValueError(f"{problem}, and CatBoost did not read it in {_SECONDS} s; is the file whole?") from None
        if process.returncode == 0:
            return target.read_bytes()
        reason = " ".join(process.stdout.split()) if process.returncode == _REFUSED else "it ended; is the file whole?"
        raise ValueError(f"{problem}, and CatBoost makes no JSON of it: {reason:.300}")


def _save_as_json(model: Any, pool: Any) -> bytes:
    """Return ``model``, a live model of CatBoost, as JSON, with the words of categories in ``pool`` if it is not None.

    A ValueError if the model is not fitted, or CatBoost has no JSON for it.
    """
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
    """Return the model of ``document``, the JSON of a file; errors and warnings are those of `from_catboost`."""
    info = part(document, "model_info")
    loss = _loss(info)
    if loss not in _LINKS:
        raise ValueError(f"the loss function is {loss!r:.60}; from_catboost imports {', '.join(sorted(_LINKS))}.")
    # Files say "Branch: tags/v1.2.10" among much else; those of other builds name no version.
    for name, version_info in info.items():
        if name.endswith("catboost_version_info"):  # a sum of models has one for each
            warn_if_newer("CatBoost", version_in(str(version_info).partition("tags/v")[2][:20]))
    features = Features(part(document, "features_info"))
    scale, bias = _scale_and_bias(document)
    are_oblivious = "oblivious_trees" in document
    read_tree = _oblivious if are_oblivious else _branching
    documents = part(document, "oblivious_trees" if are_oblivious else "trees", kind=list)
    trees = [read_tree(f"tree {t}", tree, features) for t, tree in enumerate(documents)]
    if not trees:
        raise ValueError("the model has no trees.")
    if len(widths := {tree.leaf_values.shape[1] for tree in trees}) > 1:
        raise ValueError(f"the model's leaves have different numbers of values: {sorted(widths)}.")
    n_outputs = widths.pop()
    if len(bias) not in (0, n_outputs):
        raise ValueError(f"the model's bias has {len(bias)} numbers for {n_outputs} outputs.")
    with np.errstate(over="ignore", invalid="ignore"):
        trees = [tree._replace(leaf_values=scale * tree.leaf_values) for tree in trees]
    base = bias if len(bias) else np.zeros(n_outputs)
    labels = _labels(info, loss, n_outputs)
    return ensemble_of(trees, features.columns, base, _LINKS[loss], class_labels=labels)


def _loss(info: dict) -> str:
    """Return the name of the loss function in ``info``, the document's ``model_info``; a ValueError if it has none."""
    is_sum = "params" not in info and any(str(name).startswith("model0:") for name in info)
    if not is_sum:
        return part(info, "params", "loss_function", "type", kind=str)
    if "loss_function" not in info:
        raise ValueError(
            "the model is a sum (catboost.sum_models) of models with different loss functions, and nothing says what "
            "their sum stands for; import each model, or sum models of one loss function with the same parameters."
        )
    loss_text = part(info, "loss_function", kind=str)  # JSON within a text
    return part(read_document(loss_text.encode(), "CatBoost"), "type", kind=str)


def _scale_and_bias(document: dict) -> tuple[float, np.ndarray]:
    """Return (scale, biases ``[outputs]``) of a ``document``: the raw score is scale · Σ leaf values + bias.

    The biases are empty where the document has none.
    """
    if "scale_and_bias" not in document:  # before 0.20
        return 1.0, np.zeros(0)
    pair = part(document, "scale_and_bias", kind=list)
    if len(pair) != 2:
        raise ValueError(f"the model's scale_and_bias is {pair!r:.60}; expected the scale and the list of biases.")
    scale = part({"scale": pair[0]}, "scale", kind=(int, float))
    biases = pair[1]
    if not isinstance(biases, list):  # up to 0.22 it is one number
        biases = [biases] if biases != 0 else []
    return float(scale), numbers({"bias": biases}, "bias", np.float64)


def _labels(info: dict, loss: str, n_outputs: int) -> tuple | None:
    """Return the class labels in ``info``, the document's ``model_info``; None if ``loss`` is not a loss of classes.

    A ValueError unless they fit ``n_outputs``, the number of values of a leaf.
    """
    if loss not in _TWO_CLASSES + _CLASS_EACH:
        return None
    n_classes = 2 if loss in _TWO_CLASSES else n_outputs
    if "class_params" not in info:
        return _old_labels(info, n_classes)
    kind = part(info, "class_params", "class_label_type", kind=str)
    names = part(info, "class_params", "class_names", kind=list)
    labels = numbers(info["class_params"], "class_to_label", np.int64).tolist()  # with names: positions among them
    if names:
        if any(index not in range(len(names)) for index in labels):
            raise ValueError(f"the model's classes have the names {names!r:.60} and the positions {labels!r:.60}.")
        labels = [names[index] for index in labels]
    are_distinct = len(labels) == len(set(map(str, labels))) == n_classes
    n_sums = 1 if loss in _TWO_CLASSES else n_classes
    if kind not in _LABELS or not are_distinct or n_outputs != n_sums:
        raise ValueError(f"the model has classes {labels!r:.60} of type {kind!r:.20} for {n_outputs} outputs.")
    if any(not isinstance(label, _LABEL_KINDS[kind]) or label != label for label in labels):  # NaN is no label
        raise ValueError(f"the model's classes {labels!r:.60} are not of the type {kind!r:.60}.")
    return tuple(_LABELS[kind](label) for label in labels)


def _old_labels(info: dict, number: int) -> tuple:
    """Return the ``number`` class labels in ``info``, the ``model_info`` of CatBoost up to 0.22; else 0, 1, ….

    A ValueError if they are not as many, or neither texts nor numbers.
    """
    options = part(info, "params").get("data_processing_options")
    names = options.get("class_names") if isinstance(options, dict) else None
    names = names or list(range(number))
    are_distinct = isinstance(names, list) and len(names) == len(set(map(str, names))) == number
    if not are_distinct:
        raise ValueError(f"the model has classes {names!r:.60} for {number}.")
    if not all(isinstance(name, str | int | float) and name == name for name in names):
        raise ValueError(f"the model's classes {names!r:.60} are no texts and no numbers.")
    return tuple(names)


@lru_cache
def _heap(depth: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (left child, right child, test) of each node of a complete tree in which every path has ``depth`` tests.

    Children are -1 at leaves. The root makes test ``depth`` - 1, and the level above the leaves test 0.
    """
    nodes = np.arange(2 ** (depth + 1) - 1)  # level by level: the children of node i are 2 i + 1 and 2 i + 2
    inner = nodes < 2**depth - 1
    # All nodes of a level make its test (0 at leaves, where it is not read); level l has 2^l nodes.
    test = np.repeat(np.append(np.arange(depth)[::-1], 0), 2 ** np.arange(depth + 1))
    return np.where(inner, 2 * nodes + 1, -1), np.where(inner, 2 * nodes + 2, -1), test


def _oblivious(what: str, tree: Any, features: "Features") -> ComparingTree:
    """Return the tree that ``tree``, its JSON, describes: all nodes of a level make one test, the root the last.

    ``features`` tell what tests mean, and ``what`` names the tree in messages.
    """
    splits = part({what: tree}, what).get("splits") or []
    tests = [features.test(split) for split in part({"splits": splits}, "splits", kind=list)]
    leaf_values = numbers(tree, "leaf_values", np.float64)
    depth = len(tests)
    if depth > _DEEPEST or leaf_values.size == 0 or leaf_values.size % 2**depth:
        raise ValueError(f"{what} has {leaf_values.size} leaf values for {depth} tests.")
    left, right, test_index = _heap(depth)
    values = np.zeros((len(left), leaf_values.size >> depth))
    values[2**depth - 1 :] = leaf_values.reshape(2**depth, -1)  # leaves are the last nodes
    return _tree(tests, left, right, test_index, values)


def _branching(what: str, tree: Any, features: "Features") -> ComparingTree:
    """Return the tree that ``tree``, its JSON, describes: an inner node is an object that holds its two children.

    ``features`` tell what tests mean, and ``what`` names the tree in messages.
    """
    nodes = [tree]  # the loop appends children
    left, right, tests = [], [], []
    leaves = {}  # the values of each leaf, by its index among the nodes
    for index, node in enumerate(nodes):
        is_leaf = "value" in part({what: node}, what)
        left.append(-1 if is_leaf else len(nodes))
        right.append(-1 if is_leaf else len(nodes) + 1)
        if is_leaf:
            value = node["value"]
            leaves[index] = numbers({"value": value if isinstance(value, list) else [value]}, "value", np.float64)
            tests.append(Test(0, 0.0))  # a placeholder, since leaves test nothing
        else:
            tests.append(features.test(part(node, "split")))
            nodes += [part(node, side) for side in ("left", "right")]
    if len(widths := {len(leaf) for leaf in leaves.values()}) > 1 or widths == {0}:
        raise ValueError(f"{what} has leaves with {sorted(widths)} values; expected one number, above 0.")
    values = np.zeros((len(nodes), widths.pop()))
    values[list(leaves)] = list(leaves.values())
    return _tree(tests, np.array(left), np.array(right), np.arange(len(nodes)), values)


def _tree(tests: list, left: np.ndarray, right: np.ndarray, index: np.ndarray, values: np.ndarray) -> ComparingTree:
    """Return a tree whose inner node i makes the test ``tests[index[i]]``.

    ``left`` and ``right`` have the children of nodes, -1 at leaves. ``values [nodes outputs]`` are read at leaves.
    """
    if not tests:
        tests = [Test(0, 0.0)]  # a single leaf tests nothing
    column, border, missing_right, codes = zip(*tests, strict=True)
    borders = numbers({"borders": list(border)}, "borders", np.float32)
    if not np.isfinite(borders).all():
        raise ValueError("the model has borders that are not finite.")
    has_code = np.array([code is not None for code in codes])[index]
    code_nodes = np.flatnonzero(has_code & (left >= 0)).tolist()
    return ComparingTree(
        feature=np.array(column)[index],
        compare=np.where(has_code, NOT_IN_SET, AT_MOST),  # the one category goes right
        value=borders.astype(np.float64)[index],
        left=left,
        right=right,
        missing_left=~np.array(missing_right)[index],
        sets={i: set_of_codes(np.array([codes[index[i]]])) for i in code_nodes},
        leaf_values=values,
    )


class Test(NamedTuple):
    """The test of a node: numbers above ``border`` go right; if ``code`` is not None, that category alone does."""

    column: int
    border: float
    missing_right: bool = False
    code: int | None = None


class Features:
    """The features of a document: columns of the data (``columns``), and what tests of them mean (`test`)."""

    def __init__(self, info: dict):
        """Read ``info``, the document's ``features_info``; raise a ValueError for features that are not imported."""
        unknown = set(info) - {"float_features", "categorical_features", "cat_features_hash"}
        if unknown:
            raise ValueError(
                f"the model has {', '.join(sorted(unknown))} (statistics of categories are 'ctrs'); from_catboost "
                "imports numbers, and categories with one_hot_max_size as large as their number."
            )
        floats, nominal = (_list_entries(info, f"{kind}_features") for kind in ("float", "categorical"))
        indices = [integer(entry, "flat_feature_index") for entry in floats + nominal]
        if not indices or len(set(indices)) < len(indices) or not 0 <= min(indices) <= max(indices) < MOST_COLUMNS:
            raise ValueError(f"the model's features are the columns {indices!r:.60}; expected each once.")
        self._floats = {}  # {number of the feature: (column, whether missing values go right)}
        self._categories = {}  # {number of the feature: (column, {hash of a category: code})}
        for entry in floats:
            treatment = part(entry, "nan_value_treatment", kind=str)
            if treatment not in ("AsIs", "AsFalse", "AsTrue"):
                raise ValueError(f"the model treats missing values {treatment!r:.20}; known are AsIs, AsFalse, AsTrue.")
            column = integer(entry, "flat_feature_index")
            missing_right = treatment == "AsTrue" and part(entry, "has_nans", kind=bool)
            self._floats[integer(entry, "feature_index")] = column, missing_right
        if len(self._floats) < len(floats):
            raise ValueError("the model lists a feature twice.")
        words = _words(info)
        levels = {}
        for entry in nominal:  # one that no tree tests lists no values
            column = integer(entry, "flat_feature_index")
            hashes = numbers(entry, "values", np.int64).tolist() if "values" in entry else []
            codes = {value: code for code, value in enumerate(hashes)}
            levels[column] = _levels([_word(words, value) for value in hashes])
            self._categories[integer(entry, "feature_index")] = column, codes
        names = [entry.get("feature_id", "") for entry in floats + nominal]
        self.columns = _columns(indices, names, levels)

    def test(self, split: Any) -> Test:
        """Return the test that ``split``, its JSON, describes; a ValueError for statistics of categories (CTR)."""
        kind = part(split, "split_type", kind=str)
        if kind == "FloatFeature":
            column, missing_right = _look_up(self._floats, integer(split, "float_feature_index"))
            return Test(column, part(split, "border", kind=(int, float)), missing_right)
        if kind == "OneHotFeature":
            column, codes = _look_up(self._categories, integer(split, "cat_feature_index"))
            code = _look_up(codes, integer(split, "value"))
            # The last code is alone above a border, so that its test needs no set.
            return Test(column, code - 1, code=code if code < len(codes) - 1 else None)
        raise ValueError(
            f"the model has tests of the type {kind!r:.20}; from_catboost imports numbers and one-hot ones."
        )


def _list_entries(info: dict, name: str) -> list[dict]:
    """Return ``info[name]``, a list of objects in the document's ``features_info``; [] if it is absent or empty."""
    entries = part(info, name, kind=list) if info.get(name) else []
    return [part({name: entry}, name) for entry in entries]


def _look_up(table: dict, which: int) -> Any:
    """Return ``table[which]``, the entry of a feature or of a category's hash; a ValueError if there is none."""
    if which not in table:
        raise ValueError(f"the model tests a feature or a category, {which}, that it does not list.")
    return table[which]


def _words(info: dict) -> dict[int, str]:
    """Return {hash: category} of ``info``, the document's ``features_info``; hashes are signed integers of 32 bits."""
    entries = _list_entries(info, "cat_features_hash")
    return {(integer(entry, "hash") + 2**31) % 2**32 - 2**31: part(entry, "value", kind=str) for entry in entries}


def _word(words: dict[int, str], value: int) -> str:
    """Return the category in ``words``, {hash: category}, whose hash is ``value``; a ValueError if it is not there."""
    if value not in words:
        raise ValueError(
            "the model tests categories of which the file has hashes alone; save it by save_model(path, format='json', "
            "pool=pool) with the Pool of training, or pass from_catboost(model, pool=pool)."
        )
    return words[value]


def _levels(words: list[str]) -> Levels:
    """Return ``words``, the categories of a column, as levels; as integers if each word is one.

    Levels that are integers match integers, bools and words in data. A ValueError if a word is there twice.
    """
    if len(set(words)) < len(words):
        raise ValueError(f"the model lists a category twice: {words!r:.60}.")
    # A word such as "007" is no plain integer: its text differs.
    as_integers = [int(word) for word in words if word.removeprefix("-").isdecimal() and len(word) < 17]
    are_plain = [str(number) for number in as_integers] == words and all(abs(number) < _EXACT for number in as_integers)
    return LevelsOfCatBoost(tuple(as_integers if are_plain else words), has_missing=False)


def _columns(indices: list[int], names: list, levels: dict[int, Levels]) -> Columns:
    """Return the columns of the data, up to the last of ``indices``, the columns of the features.

    ``names`` are the features'; columns have them only if each column is a feature with a name. ``levels`` has the
    levels of nominal columns, by column.
    """
    n_columns = max(indices) + 1
    if odd := [name for name in names if not isinstance(name, str)]:
        raise ValueError(f"the model's features have names {odd[:3]!r:.60}; expected strings.")
    is_named = len(indices) == n_columns and all(names)
    name_of = dict(zip(indices, names, strict=True))
    return Columns(
        n_columns,
        tuple(name_of[j] for j in range(n_columns)) if is_named else None,
        tuple(j in levels for j in range(n_columns)) if levels else None,
        tuple(levels.get(j) for j in range(n_columns)) if levels else None,
    )
