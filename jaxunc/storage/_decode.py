"""Decoding: from a file's document and arrays to the object that they describe, which is checked before it is made.

A `Decoder` makes a value of each node of the document. `module_of` makes trees, forests, columns and combiners from
their fields, as their constructors would have made them.
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
"""Largest depth of nodes within nodes: it bounds the recursion."""
MOST_COLUMNS = 2**24
"""Most data columns that a file may claim; the number is checked before memory is taken for columns."""

LATER_FIELDS: dict[type, dict[str, Any]] = {
    Columns: {name: getattr(Columns, name) for name in ("spaces_are_underlines", "decimal", "thousands")},
    NumberLaw: NumberLaw._field_defaults,
}
"""Defaults of fields, by class, that older files lack: those of version 0.2.0, and earlier ones of regressors."""
TABLES: dict[Any, type] = {LeafMoments: LeafTable, LeafScales: ScaleTable}
"""Classes of numbers in leaves, and the tables in which files keep them."""


class Decoder:
    """A maker of objects from a document, JSON whose nodes each describe a value (`jaxunc.storage` lists them).

    ``arrays`` are the file's, by name; ``trusted`` are a user's classes and functions that nodes may name. With
    ``estimator``, a function that loads the file's estimator, an estimator's node becomes a `StoredEstimator`. But
    estimators of transduction, and those with a pipeline, are restored whole. In methods ``depth`` is the number of
    nodes that enclose a node.
    """

    def __init__(
        self, arrays: Mapping[str, np.ndarray], trusted: Iterable[Any], estimator: Callable[[], Any] | None = None
    ):
        self._arrays, self._trusted, self._estimator_of_file = arrays, tuple(trusted), estimator
        self._on_device: dict[str, Any] = {}
        self._unchecked: list[Trees] = []

    def whole(self, node: Any) -> Any:
        """Return the object that a document's outermost node describes; trees without a forest are checked, too."""
        value = self.value(node)
        for trees in self._unchecked:
            check_trees(trees)
        return value

    def value(self, node: Any, depth: int = 0) -> Any:
        """Return the value that a node describes; raise a ValueError if it describes none, or one that is not sound."""
        if node is None or isinstance(node, bool | str | int | float):
            return node
        if depth > DEEPEST:
            raise ValueError(f"its document is nested more than {DEEPEST} deep.")
        if not isinstance(node, dict):
            raise _no_node(node)
        # The keys have to match exactly, so that nothing in a file is passed over.
        keys = frozenset(node)
        make = next((make for kind_keys, make in self._kinds().items() if keys == frozenset(kind_keys)), None)
        if make is None:
            raise _no_node(node)
        return make(node, depth + 1)

    def _kinds(self):
        """Return {keys of a node: method that takes such a node and its depth, and returns the node's value}."""
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
        if not isinstance(nodes, list):
            raise _no_node(nodes)
        return [self.value(node, depth) for node in nodes]

    def _dict(self, nodes: Any, depth: int) -> dict[str, Any]:
        if not isinstance(nodes, dict):
            raise _no_node(nodes)
        return {name: self.value(node, depth) for name, node in nodes.items()}

    def _map(self, node: Any, depth: int) -> dict[Any, Any]:
        """Return a dict whose keys need not be texts; raise a ValueError for a key that is not a label."""
        pairs = self._list(node["map"], depth)
        if not all(
            isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str | int | float) for pair in pairs
        ):
            raise _no_node(node)
        return dict(pairs)

    def _host_array(self, node: Any, depth: int = 0) -> np.ndarray:
        name = node["array"]
        if not isinstance(name, str) or name not in self._arrays:
            raise ValueError(f"its document names the array {name!r:.100}, which the file does not have.")
        return self._arrays[name]

    def _array(self, node: Any, depth: int) -> Any:
        """Return the JAX array that a node names."""
        host = self._host_array(node)
        # An array that several fields shared when it was saved is shared again, and travels to the device once.
        if node["array"] not in self._on_device:
            dtype = dtypes.canonicalize_dtype(host.dtype)
            self._on_device[node["array"]] = jnp.asarray(host.astype(dtype, copy=False), dtype)
        return self._on_device[node["array"]]

    def _float(self, node: Any, depth: int) -> float:
        if node["float"] not in ("nan", "inf", "-inf"):
            raise _no_node(node)
        return float(node["float"])

    def _json(self, node: Any, depth: int) -> tuple:
        """Return a tuple of texts and numbers, which the node's array of bytes holds as JSON."""
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
        """Return the array of texts or objects that a node describes, ``[labels]``."""
        values, dtype = self.value(node["labels"], depth), node["dtype"]
        are_labels = isinstance(values, tuple) and all(isinstance(label, str | int | float | None) for label in values)
        if not are_labels or not isinstance(dtype, str):
            raise _no_node(node)
        if dtype == "O":
            # The None, cut off again, keeps NumPy from making numbers or further axes of the labels.
            return np.array([*values, None], object)[:-1]
        array = np.array(values)
        if array.ndim != 1 or (array.size and array.dtype.kind != "U"):
            raise _no_node(node)
        return array.astype(np.str_)

    def _module(self, node: Any, depth: int) -> Any:
        """Return an object of the node's class; raise a ValueError if its fields are not sound."""
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
        function = find(node["scorer"], scorer_names(), self._trusted, "scorer")
        args, settings = self._list(node["args"], depth), self._dict(node["settings"], depth)
        return as_partial(Partial(function, *args, **settings))

    def _bound(self, node: Any, depth: int) -> Any:
        return bind(self._value_of(Forest, node["bound"], depth), self._value_of(Combiner, node["combiner"], depth))

    def _vote(self, node: Any, depth: int) -> Any:
        """Return the vote that `bind_vote` makes of the node's forest and settings."""
        settings = self.value(node["settings"], depth)
        settings_names = {"max_trees", "criterion", "population", "prior"}
        if not isinstance(settings, dict) or set(settings) not in (
            settings_names | {"confidence"},
            settings_names | {"disagreement"},
        ):
            raise _no_node(node)
        # Imported here, since `jaxunc.voting` imports SciPy's statistics.
        from jaxunc.voting import bind_vote

        return bind_vote(self._value_of(Forest, node["vote"], depth), **settings)

    def _estimator(self, node: Any, depth: int) -> Any:
        """Return a node's fitted estimator, or a `StoredEstimator` if the decoder has a function that loads it."""
        name, fitted = node["estimator"], self._dict(node["fitted"], depth)
        takes_raw = "transformers" in fitted  # a pipeline needs scikit-learn to answer
        answers_by_forest = name in ESTIMATORS and has_forest(name)
        if self._estimator_of_file is not None and answers_by_forest and not takes_raw:
            return StoredEstimator(name, fitted, self._estimator_of_file)
        # Imported here, since it imports scikit-learn.
        from ._estimators import restore

        return restore(name, self._dict(node["params"], depth), fitted, self._trusted)

    def _value_of(self, kind: type, node: Any, depth: int) -> Any:
        value = self.value(node, depth)
        if not isinstance(value, kind):
            raise ValueError(f"its document has a {type(value).__name__} where a {kind.__name__} belongs.")
        return value


def _no_node(node: Any) -> ValueError:
    return ValueError(f"its document holds {node!r:.100}, which says nothing.")


def module_of(cls: type, fields: dict[str, Any]) -> Any:
    """Return an instance of a class with these values of fields; raise a ValueError if one is absent, or not sound."""
    if isinstance(cls, type) and issubclass(cls, Levels):
        return _levels(cls, fields)
    if cls in (*TABLES, NumberLaw, Strata, TargetBins, TargetMap):
        return _parts_of_regressor(cls, fields)
    if not (isinstance(cls, type) and issubclass(cls, eqx.Module | Columns)):
        raise ValueError(f"the file has fields for {cls!r:.100}, which is no module.")
    field_names = {field.name for field in dataclasses.fields(cls)}
    fields = LATER_FIELDS.get(cls, {}) | fields
    fields = _check_fields(
        cls, fields, field_names, typing.get_type_hints(cls) if cls.__module__.startswith("jaxunc") else {}
    )
    if cls is Columns:
        return _columns(fields)
    # Without the constructor, which may take arguments other than the fields; its checks follow here. `Decoder` checks
    # the nodes of trees, once it has their forest.
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
    """Return the fields, with arrays of JAX where ``hints`` take only such.

    Raises a ValueError unless the fields are those in ``names``, with the types in ``hints``, annotations by field.
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
    """Return an instance of ``cls``, a class of a regressor such as its law; raise a ValueError for bad fields."""
    tuple_class: Any = TABLES.get(cls, cls)
    fields = LATER_FIELDS.get(cls, {}) | fields
    value = tuple_class(**_check_fields(cls, fields, set(tuple_class._fields), typing.get_type_hints(tuple_class)))
    if cls in TABLES:
        return cls.of(value)
    checks: dict[type, Callable] = {NumberLaw: check_law, TargetBins: check_bins}
    if cls in checks:  # strata and maps are checked with their law
        checks[cls](value)
    return value


def _as_jax(part: Any, hint: Any) -> Any:
    """Return the field's value ``part``: a NumPy array as JAX's if the type ``hint`` takes only such, else unchanged.

    So an object that was saved after `jax.device_get`, which makes all arrays NumPy's, can be loaded.
    """
    if not isinstance(part, np.ndarray) or part.dtype.kind not in "biuf" or _suits(part, hint):
        return part
    return jnp.asarray(part)


def _levels(kind: type[Levels], fields: dict[str, Any]) -> Levels:
    values = fields.get("values")
    if set(fields) != {"values", "has_missing"} or not isinstance(values, tuple):
        raise ValueError("the file's levels of a column are no tuple of values.")
    return kind(values, bool(fields["has_missing"]))


def _columns(fields: dict[str, Any]) -> Columns:
    if not 0 <= fields["number"] <= MOST_COLUMNS:
        raise ValueError(f"the file claims {fields['number']} columns; at most {MOST_COLUMNS} are read.")
    return Columns(**fields)


def _check_class_labels(forest: Forest) -> None:
    if not all(isinstance(label, str | int | float) for label in forest.class_labels):
        raise ValueError("the file's class labels are not texts or numbers.")


def _check_combiner(combiner: Combiner) -> None:
    """Raise a ValueError unless the combiner's constructor takes its fields, and makes a combiner of the same form.

    Of a constructor that cannot be called with fields alone nothing is asked: the types of fields were checked.
    """
    parameters = inspect.signature(type(combiner)).parameters
    arguments = {name: getattr(combiner, name) for name in parameters if hasattr(combiner, name)}
    if any(p.kind is p.VAR_KEYWORD or (p.default is p.empty and p.name not in arguments) for p in parameters.values()):
        return
    remade = type(combiner)(**arguments)  # the constructor checks values
    if _form(combiner) != _form(remade):
        raise ValueError(f"the file's {type(combiner).__name__} has fields that its constructor would not give it.")


def _form(combiner: Combiner) -> tuple[Any, list[tuple[tuple[int, ...], str]]]:
    """Return a combiner's structure, and the shape and kind of each array in it.

    Widths of numbers are no part of it: a file keeps those of its writer, with or without jax_enable_x64.
    """
    leaves, structure = jax.tree.flatten(combiner)
    return structure, [(np.shape(leaf), jnp.result_type(leaf).kind) for leaf in leaves]


def _suits(value: Any, hint: Any) -> bool:
    """Return whether a value is of the type that the annotation ``hint`` names, its entries included.

    An int suits float; a hint that is not understood suits every value.
    """
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or isinstance(hint, TypeVar):
        return True
    if origin is Literal:
        return any(value == option and type(value) is type(option) for option in args)
    if origin in (Union, types.UnionType):
        return any(_suits(value, option) for option in args)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        entry_hints = args[:1] * len(value) if args[1:] == (...,) else args
        return len(value) == len(entry_hints) and all(map(_suits, value, entry_hints))
    if origin is dict:
        return isinstance(value, dict) and all(_suits(k, args[0]) and _suits(v, args[1]) for k, v in value.items())
    if isinstance(origin, type):  # a class that is generic in what it answers
        return isinstance(value, origin)
    # An int may stand for a float; a bool, which is an int in Python, may not.
    if hint is float:
        return isinstance(value, float | int) and not isinstance(value, bool)
    if hint is int or hint is bool:
        return type(value) is hint
    if isinstance(hint, type) or (inspect.isclass(hint) and issubclass(hint, AbstractArray)):
        return isinstance(value, hint)
    return True


def _describe(value: Any) -> str:
    if hasattr(value, "dtype"):
        return f"an array of {value.dtype} and shape {value.shape}"
    return f"{value!r:.60}"


class StoredEstimator:
    """A fitted estimator from its file, which answers without scikit-learn; only `takes_missing` imports scikit-learn.

    ``name`` is the estimator's class, ``fitted`` its fitted attributes, ``estimator`` a function that loads all of it.
    """

    def __init__(self, name: str, fitted: dict[str, Any], estimator: Callable[[], Any]):
        if name == REGRESSOR:
            self.bound_: Any = law_of(check_fitted_numbers(name, fitted))
        else:
            fitted = check_fitted(name, {key: part for key, part in fitted.items() if key not in ("sample", "chosen")})
            self.bound_ = bind(fitted["forest_"], fitted["combiner_"])
        self.feature_names_in_: np.ndarray | None = fitted.get("feature_names_in_")
        self.calibration_: np.ndarray | None = fitted.get("calibration_")
        self._estimator = estimator

    @cached_property
    def takes_missing(self) -> bool:
        """Whether the estimator takes missing values; scikit-learn tells it, so the whole estimator is loaded."""
        from sklearn.utils import get_tags

        return get_tags(self._estimator()).input_tags.allow_nan
