"""Decoding: from a file's document and arrays to the object that they describe, which is checked before it is made.

A `Decoder` makes a value of each node of the document. `module_of` makes trees, forests, columns and combiners of the
values of their fields, as their constructors would have made them.
"""

import dataclasses
import inspect
import json
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, Literal, TypeVar, Union

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import dtypes
from jax.tree_util import Partial
from jaxtyping import AbstractArray

from jaxunc.additive import AdditiveTrees, check_additive
from jaxunc.combiners import Combiner
from jaxunc.forest import Forest, Trees, check_forest, check_trees
from jaxunc.inference import bind
from jaxunc.regression import (
    LeafMoments,
    LeafScales,
    LeafTable,
    NumberLaw,
    ScaleTable,
    Strata,
    TargetBins,
    TargetMap,
    check_bins,
    check_law,
)
from jaxunc.scorers import as_partial
from jaxunc.tables import Columns, Levels

from ._names import (
    ESTIMATORS,
    REGRESSOR,
    check_fitted,
    check_fitted_numbers,
    classes,
    find,
    has_forest,
    law_of,
    scorer_names,
)

DEEPEST = 64
"""Largest number of nodes that may enclose a node: it bounds the recursion."""
MOST_COLUMNS = 2**24
"""Most data columns that a file may claim; the number is checked before memory is taken for columns."""

LATER_FIELDS: dict[type, dict[str, Any]] = {
    Columns: {name: getattr(Columns, name) for name in ("spaces_are_underlines", "decimal", "thousands")},
    NumberLaw: NumberLaw._field_defaults,
}
"""{class: {field: default}} of fields that older files lack: those of version 0.2.0, and earlier ones of regressors."""
TABLES: dict[Any, type] = {LeafMoments: LeafTable, LeafScales: ScaleTable}
"""{class of numbers in leaves: class of the table in which files keep them}."""


class Decoder:
    """A maker of objects from a document, JSON whose nodes each describe a value (`jaxunc.storage` lists the nodes).

    ``arrays`` is {name: array} of the file; ``trusted`` are a user's classes and functions that nodes may name. With
    ``estimator``, a function that loads the file's estimator, an estimator's node becomes a `StoredEstimator`, unless
    the estimator is transductive or has a pipeline. In methods ``depth`` is the number of nodes that enclose a node.
    """

    def __init__(
        self, arrays: Mapping[str, np.ndarray], trusted: Iterable[Any], estimator: Callable[[], Any] | None = None
    ):
        self._arrays = arrays
        self._trusted = tuple(trusted)
        self._estimator_of_file = estimator
        self._on_device: dict[str, Any] = {}  # arrays of JAX that were made so far, by name
        self._unchecked: list[Trees] = []  # trees without a forest so far

    def whole(self, node: Any) -> Any:
        """Return the object that a document's outermost node describes, after a check of trees without a forest."""
        value = self.value(node)
        for trees in self._unchecked:
            check_trees(trees)
        return value

    def value(self, node: Any, depth: int = 0) -> Any:
        """Return the value that a node describes; raise a ValueError for a node that describes no sound value."""
        if node is None or isinstance(node, bool | str | int | float):
            return node
        if depth > DEEPEST:
            raise ValueError(f"its document is nested more than {DEEPEST} deep.")
        if not isinstance(node, dict):
            raise _no_node(node)
        # All keys have to match, so that nothing in a file is passed over.
        node_keys = set(node)
        for keys, make in self._makers().items():
            if node_keys == set(keys):
                return make(node, depth + 1)
        raise _no_node(node)

    def _makers(self) -> dict[tuple[str, ...], Callable[[Any, int], Any]]:
        """Return {keys of a node: function that takes such a node and its depth, and returns the node's value}."""
        return {
            ("array",): self._array,
            ("array", "on"): self._host_array,
            ("float",): self._float,
            ("tuple",): lambda node, depth: tuple(self._list(node["tuple"], depth)),
            ("list",): lambda node, depth: self._list(node["list"], depth),
            ("dict",): lambda node, depth: self._dict(node["dict"], depth),
            ("map",): self._map,
            ("json",): self._json,
            ("labels", "dtype"): self._labels,
            ("class", "fields"): self._module,
            ("scorer",): lambda node, depth: find(node["scorer"], scorer_names(), (), "scorer"),
            ("scorer", "args", "settings"): self._scorer,
            ("bound", "combiner"): self._bound,
            ("vote", "settings"): self._vote,
            ("estimator", "params", "fitted"): self._estimator,
        }

    def _list(self, nodes: Any, depth: int) -> list:
        """Return the values that a list of nodes describes; raise a ValueError for anything but a list."""
        if not isinstance(nodes, list):
            raise _no_node(nodes)
        return [self.value(node, depth) for node in nodes]

    def _dict(self, nodes: Any, depth: int) -> dict[str, Any]:
        """Return {name: value} that {name: node} describes; raise a ValueError for anything but a dict."""
        if not isinstance(nodes, dict):
            raise _no_node(nodes)
        return {name: self.value(node, depth) for name, node in nodes.items()}

    def _map(self, node: Any, depth: int) -> dict[Any, Any]:
        """Return a node's dict, whose keys are strings or numbers; raise a ValueError for any other key."""
        pairs = self._list(node["map"], depth)
        for pair in pairs:
            is_pair = isinstance(pair, tuple) and len(pair) == 2
            if not is_pair or not isinstance(pair[0], str | int | float):
                raise _no_node(node)
        return dict(pairs)

    def _host_array(self, node: Any, depth: int = 0) -> np.ndarray:
        """Return the NumPy array that a node names; raise a ValueError if the file does not have it."""
        name = node["array"]
        if not isinstance(name, str) or name not in self._arrays:
            raise ValueError(f"its document names the array {name!r:.100}, which the file does not have.")
        return self._arrays[name]

    def _array(self, node: Any, depth: int) -> Any:
        """Return the array that a node names as an array of JAX; raise a ValueError if the file does not have it."""
        host = self._host_array(node)
        # An array that several fields shared when it was saved is shared again, and travels to the device once.
        if node["array"] not in self._on_device:
            dtype = dtypes.canonicalize_dtype(host.dtype)
            self._on_device[node["array"]] = jnp.asarray(host.astype(dtype, copy=False), dtype)
        return self._on_device[node["array"]]

    def _float(self, node: Any, depth: int) -> float:
        """Return a node's number that JSON lacks, such as NaN; raise a ValueError for other numbers."""
        if node["float"] not in ("nan", "inf", "-inf"):
            raise _no_node(node)
        return float(node["float"])

    def _json(self, node: Any, depth: int) -> tuple:
        """Return the texts and numbers that a node's array of bytes holds as JSON; refuse others with a ValueError."""
        array = self._host_array({"array": node["json"]})
        if array.dtype != np.uint8 or array.ndim != 1:
            raise _no_node(node)
        try:
            entries = json.loads(array.tobytes())
        except (ValueError, RecursionError) as error:
            raise ValueError(f"its array {node['json']!r:.100} is no JSON.") from error
        if not isinstance(entries, list) or not all(isinstance(entry, str | int | float) for entry in entries):
            raise _no_node(node)
        return tuple(entries)

    def _labels(self, node: Any, depth: int) -> np.ndarray:
        """Return the NumPy array of texts or objects that a node describes, ``[labels]``.

        Raises a ValueError for entries that are neither texts nor numbers nor None.
        """
        labels = self.value(node["labels"], depth)
        dtype = node["dtype"]
        are_labels = isinstance(labels, tuple) and all(isinstance(label, str | int | float | None) for label in labels)
        if not are_labels or not isinstance(dtype, str):
            raise _no_node(node)
        if dtype == "O":
            # The None, cut off again, keeps NumPy from making numbers or further axes of the labels.
            return np.array([*labels, None], object)[:-1]
        array = np.array(labels)
        if array.ndim != 1 or (array.size and array.dtype.kind != "U"):  # no labels at all are an array of floats
            raise _no_node(node)
        return array.astype(np.str_)

    def _module(self, node: Any, depth: int) -> Any:
        """Return the object that a node describes by its class and fields; raise a ValueError if one is not sound."""
        cls = find(node["class"], classes(), self._trusted, "class")
        value = module_of(cls, self._dict(node["fields"], depth))
        if isinstance(value, Trees):
            # Trees are checked with their forest, which knows more about them; `whole` checks those without a forest.
            self._unchecked.append(value)
        if isinstance(value, Forest):
            check_forest(value)
            self._unchecked = [trees for trees in self._unchecked if trees is not value.trees]
        return value

    def _scorer(self, node: Any, depth: int) -> Partial:
        """Return the scorer that a node describes by its function, arguments and settings."""
        function = find(node["scorer"], scorer_names(), self._trusted, "scorer")
        args = self._list(node["args"], depth)
        settings = self._dict(node["settings"], depth)
        return as_partial(Partial(function, *args, **settings))

    def _bound(self, node: Any, depth: int) -> Any:
        """Return what `bind` makes of a node's forest and combiner."""
        forest = self._value_of(Forest, node["bound"], depth)
        combiner = self._value_of(Combiner, node["combiner"], depth)
        return bind(forest, combiner)

    def _vote(self, node: Any, depth: int) -> Any:
        """Return what `bind_vote` makes of a node's forest and settings."""
        settings = self.value(node["settings"], depth)
        common_names = {"max_trees", "criterion", "population", "prior"}
        # The criterion "optimal" promises a disagreement, the others a confidence.
        possible_names = (common_names | {"confidence"}, common_names | {"disagreement"})
        if not isinstance(settings, dict) or set(settings) not in possible_names:
            raise _no_node(node)
        # Imported here, since `jaxunc.voting` imports SciPy's statistics.
        from jaxunc.voting import bind_vote

        return bind_vote(self._value_of(Forest, node["vote"], depth), **settings)

    def _estimator(self, node: Any, depth: int) -> Any:
        """Return a node's estimator: a `StoredEstimator` if one is asked for and it answers by its forest alone."""
        name = node["estimator"]
        fitted = self._dict(node["fitted"], depth)
        has_pipeline = "transformers" in fitted  # which needs scikit-learn to answer
        answers_by_forest = name in ESTIMATORS and has_forest(name)
        if self._estimator_of_file is not None and answers_by_forest and not has_pipeline:
            return StoredEstimator(name, fitted, self._estimator_of_file)
        # Imported here, since it imports scikit-learn.
        from ._estimators import restore

        return restore(name, self._dict(node["params"], depth), fitted, self._trusted)

    def _value_of(self, kind: type, node: Any, depth: int) -> Any:
        """Return the value that a node describes; raise a ValueError unless it is an instance of ``kind``."""
        value = self.value(node, depth)
        if not isinstance(value, kind):
            raise ValueError(f"its document has a {type(value).__name__} where a {kind.__name__} belongs.")
        return value


def _no_node(node: Any) -> ValueError:
    """Return the error for a node that describes nothing."""
    return ValueError(f"its document holds {node!r:.100}, which says nothing.")


def module_of(cls: type, fields: dict[str, Any]) -> Any:
    """Return the instance of ``cls`` that has ``fields``, {field: value}; raise a ValueError unless they are sound.

    ``cls`` is a class of modules, such as forests and combiners, or one of `Columns`, `Levels` and parts of regressors.
    """
    if isinstance(cls, type) and issubclass(cls, Levels):
        return _levels(cls, fields)
    if cls in (*TABLES, NumberLaw, Strata, TargetBins, TargetMap):
        return _parts_of_regressor(cls, fields)
    if not (isinstance(cls, type) and issubclass(cls, eqx.Module | Columns)):
        raise ValueError(f"the file has fields for {cls!r:.100}, which is no module.")
    field_names = {field.name for field in dataclasses.fields(cls)}
    hints = typing.get_type_hints(cls) if cls.__module__.startswith("jaxunc") else {}
    fields = _check_fields(cls, LATER_FIELDS.get(cls, {}) | fields, field_names, hints)
    if cls is Columns:
        return _columns(fields)
    # The constructor is not called, since it may take other arguments than the fields. Its checks follow here, and
    # `Decoder` checks the nodes of trees, once it has their forest.
    value = object.__new__(cls)
    for name, field_value in fields.items():
        object.__setattr__(value, name, field_value)
    if isinstance(value, Combiner):
        _check_combiner(value)
    if isinstance(value, Forest):
        _check_class_labels(value)
    if isinstance(value, AdditiveTrees):
        check_additive(value)
    return value


def _check_fields(cls: type, fields: dict[str, Any], names: set[str], hints: dict[str, Any]) -> dict[str, Any]:
    """Return ``fields``, {field: value} of an instance of ``cls``, with arrays of JAX where the class has only these.

    ``hints`` is {field: annotation}. Raises a ValueError unless the fields are ``names``, with values of their types.
    """
    if set(fields) != names:
        raise ValueError(
            f"the file's {cls.__name__} has the fields {sorted(fields)[:20]}; expected {sorted(names)}. Was it saved "
            "by a version in which the class was another?"
        )
    fields = {name: _as_jax(field_value, hints.get(name)) for name, field_value in fields.items()}
    for name, hint in hints.items():
        if name in fields and not _suits(fields[name], hint):
            raise ValueError(f"the file's {cls.__name__} has a {name} that is {_describe(fields[name])}, not {hint}.")
    return fields


def _parts_of_regressor(cls: type, fields: dict[str, Any]) -> Any:
    """Return the part of a regressor of class ``cls`` that has ``fields``; raise a ValueError unless they are sound."""
    tuple_class: Any = TABLES.get(cls, cls)  # the other classes are named tuples themselves
    fields = LATER_FIELDS.get(cls, {}) | fields
    fields = _check_fields(cls, fields, set(tuple_class._fields), typing.get_type_hints(tuple_class))
    value = tuple_class(**fields)
    if cls in TABLES:
        return cls.of(value)
    if cls is NumberLaw:
        check_law(value)  # which also checks its strata and its map of targets, the two classes that are left
    elif cls is TargetBins:
        check_bins(value)
    return value


def _as_jax(part: Any, hint: Any) -> Any:
    """Return the value ``part`` of a field: a NumPy array as an array of JAX if the annotation ``hint`` asks for one.

    So an object can be loaded whose arrays `jax.device_get` had made NumPy's when it was saved.
    """
    if not isinstance(part, np.ndarray) or part.dtype.kind not in "biuf" or _suits(part, hint):
        return part
    return jnp.asarray(part)


def _levels(kind: type[Levels], fields: dict[str, Any]) -> Levels:
    """Return the levels, of the class ``kind``, that have ``fields``; raise a ValueError unless values are a tuple."""
    values = fields.get("values")
    if set(fields) != {"values", "has_missing"} or not isinstance(values, tuple):
        raise ValueError("the file's levels of a column are no tuple of values.")
    return kind(values, bool(fields["has_missing"]))


def _columns(fields: dict[str, Any]) -> Columns:
    """Return the `Columns` that have ``fields``; raise a ValueError for more than `MOST_COLUMNS` columns."""
    if not 0 <= fields["number"] <= MOST_COLUMNS:
        raise ValueError(f"the file claims {fields['number']} columns; at most {MOST_COLUMNS} are read.")
    return Columns(**fields)


def _check_class_labels(forest: Forest) -> None:
    """Raise a ValueError unless the labels of a forest's classes are texts or numbers."""
    if not all(isinstance(label, str | int | float) for label in forest.class_labels):
        raise ValueError("the file's class labels are not texts or numbers.")


def _check_combiner(combiner: Combiner) -> None:
    """Raise a ValueError unless a combiner's constructor takes its fields, and makes an equal structure of them.

    A constructor that needs other arguments than the fields is not called; the types of the fields were checked before.
    """
    parameters = inspect.signature(type(combiner)).parameters
    arguments = {name: getattr(combiner, name) for name in parameters if hasattr(combiner, name)}
    for parameter in parameters.values():
        lacks_argument = parameter.default is parameter.empty and parameter.name not in arguments
        if parameter.kind is parameter.VAR_KEYWORD or lacks_argument:
            return
    remade = type(combiner)(**arguments)  # the constructor checks values
    if _form(combiner) != _form(remade):
        raise ValueError(f"the file's {type(combiner).__name__} has fields that its constructor would not give it.")


def _form(combiner: Combiner) -> tuple[Any, list[tuple[tuple[int, ...], str]]]:
    """Return a combiner's structure as a tree of JAX, and (shape, kind of dtype) of each array in it.

    Kinds do not tell float32 from float64: a file keeps the width that its writer had, with or without jax_enable_x64.
    """
    leaves, structure = jax.tree.flatten(combiner)
    return structure, [(np.shape(leaf), jnp.result_type(leaf).kind) for leaf in leaves]


def _suits(value: Any, hint: Any) -> bool:
    """Return whether a value, with its entries, is of the type that the annotation ``hint`` names.

    An int may stand for a float. Annotations that are not understood fit every value.
    """
    origin = typing.get_origin(hint)
    args = typing.get_args(hint)
    if hint is Any or isinstance(hint, TypeVar):
        return True
    if origin is Literal:
        return any(value == option and type(value) is type(option) for option in args)
    if origin in (Union, types.UnionType):
        return any(_suits(value, option) for option in args)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        entry_hints = args[:1] * len(value) if args[1:] == (...,) else args  # ``tuple[type, ...]`` has any length
        return len(value) == len(entry_hints) and all(map(_suits, value, entry_hints))
    if origin is dict:
        key_hint, value_hint = args
        return isinstance(value, dict) and all(_suits(k, key_hint) and _suits(v, value_hint) for k, v in value.items())
    if isinstance(origin, type):  # a generic class, such as Combiner[Any]: its arguments are not checked
        return isinstance(value, origin)
    if hint is float:
        return isinstance(value, float | int) and not isinstance(value, bool)  # a bool is an int in Python
    if hint is int or hint is bool:
        return type(value) is hint
    is_class = isinstance(hint, type) or (inspect.isclass(hint) and issubclass(hint, AbstractArray))
    return not is_class or isinstance(value, hint)


def _describe(value: Any) -> str:
    """Return a phrase on a value for messages: dtype and shape of an array, else its beginning."""
    if hasattr(value, "dtype"):
        return f"an array of {value.dtype} and shape {value.shape}"
    return f"{value!r:.60}"


class StoredEstimator:
    """A fitted estimator in a file, which answers without scikit-learn; only `takes_missing` imports scikit-learn.

    ``name`` is the estimator's class, and ``fitted`` is {fitted attribute: value} in the file. ``estimator`` is a
    function that loads the whole estimator.
    """

    def __init__(self, name: str, fitted: dict[str, Any], estimator: Callable[[], Any]):
        # No answer of this class reads these two; a regressor has no sample, and is refused with one.
        unread = {"chosen"} if name == REGRESSOR else {"chosen", "sample"}
        fitted = {key: part for key, part in fitted.items() if key not in unread}
        if name == REGRESSOR:
            self.bound_: Any = law_of(check_fitted_numbers(name, fitted))
        else:
            fitted = check_fitted(name, fitted)
            self.bound_ = bind(fitted["forest_"], fitted["combiner_"])
        self.feature_names_in_: np.ndarray | None = fitted.get("feature_names_in_")
        self.calibration_: np.ndarray | None = fitted.get("calibration_")
        self._estimator = estimator

    @cached_property
    def takes_missing(self) -> bool:
        """Whether the estimator takes missing values, as its tags in scikit-learn say; it is loaded whole for this."""
        from sklearn.utils import get_tags

        return get_tags(self._estimator()).input_tags.allow_nan
