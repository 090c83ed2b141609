"""Encoding: from an object to a document, JSON that describes it, and to the arrays that the document names."""

import dataclasses
import inspect
import json
import math
from typing import Any

import jax
import numpy as np
from jax.tree_util import Partial

from jaxunc._checks import is_concrete
from jaxunc.additive import AdditiveTrees
from jaxunc.combiners import Combiner
from jaxunc.forest import CountSet, Forest, Forks, Trees
from jaxunc.inference import BoundForest
from jaxunc.regression import INVERSES, LeafMoments, LeafScales, NumberLaw, Strata, TargetBins, TargetMap
from jaxunc.scorers import ChosenScorer
from jaxunc.tables import Columns, Levels
from jaxunc.voting import BoundVote

from ._estimators import is_estimator, is_model, parts_of
from ._file import PLAIN
from ._names import classes, name_of, scorer_names

LONG = 64
"""Most entries of a tuple of strings or numbers that is stored in the document; a longer one becomes an array."""


class Encoder:
    """A maker of a document's nodes, JSON that describes values; its ``arrays`` are those of all values, by name.

    An array's name is its path from the saved object, the fields that lead to it, such as ``forest.trees.child``.
    Without ``owns`` nodes must not name a user's classes and functions.
    """

    def __init__(self, *, owns: bool = True) -> None:
        self._owns = owns
        self.arrays: dict[str, np.ndarray] = {}
        self._names: dict[int, str] = {}  # name of each array, by the identity of the object that was saved
        self._objects: list[Any] = []  # these objects, kept alive so that no later array gets the same identity

    def node(self, value: Any, path: str) -> Any:
        """Return the node that describes a value; raise a TypeError, with ``path``, if it has no place in a file.

        ``path`` leads from the saved object to the value; it is "" for the object itself.
        """
        if value is None or isinstance(value, bool | str):
            return value
        # The order counts: a bool is an int, too, and a float64 of NumPy is a float.
        if isinstance(value, np.generic):
            return self.node(value.item(), path)
        if isinstance(value, int):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, np.ndarray | jax.Array):
            return self._array(value, path)
        if isinstance(value, Columns | Levels | Forest | Trees | Forks | CountSet | Combiner | AdditiveTrees):
            return self._module(value, path)
        if isinstance(value, LeafMoments | LeafScales | NumberLaw | Strata | TargetBins | TargetMap):
            return self._part_of_regressor(value, path)
        if isinstance(value, Partial):
            return self._scorer(value, path)
        if inspect.isfunction(value) and scorer_names().get(value.__name__) is value:
            return {"scorer": value.__name__}
        if isinstance(value, BoundForest):
            return self._nodes({"bound": value.forest, "combiner": value.combiner}, path)
        if isinstance(value, BoundVote):
            return self._nodes({"vote": value.forest, "settings": value.settings}, path)
        if is_estimator(value) or is_model(value):
            nodes = {key: self._nodes(values, path) for key, values in parts_of(value).items()}
            return {"estimator": type(value).__name__} | nodes
        return self._container(value, path)

    def _part_of_regressor(self, value: Any, path: str) -> Any:
        """Return the node of a part of a regressor; raise a TypeError for a `TargetMap` of functions without names."""
        if isinstance(value, TargetMap) and value.functions is not None:
            raise TypeError(
                "a file holds no code, and the TransformedTargetRegressor has functions that it cannot name; it "
                f"names pairs of NumPy's and SciPy's ({', '.join(f'{f}/{g}' for f, g in INVERSES.items())}), "
                "scalers, and PowerTransformer. Pickle and joblib keep the whole estimator."
            )
        values = value.kept if isinstance(value, LeafMoments | LeafScales) else value
        return {"class": type(value).__name__, "fields": self._nodes(values._asdict(), path)}

    def _container(self, value: Any, path: str) -> Any:
        """Return the node of a tuple, a list or a dict; raise a TypeError for anything else."""
        # Levels and labels by the thousand would make the header, which is read as a whole, large and slow.
        if type(value) is tuple and len(value) > LONG and all(map(_is_plain, value)):
            text = json.dumps(value, allow_nan=False).encode()
            return {"json": self._keep(np.frombuffer(text, np.uint8), path)}
        if type(value) in (tuple, list):
            entries = [self.node(entry, _within(path, str(i))) for i, entry in enumerate(value)]
            return {type(value).__name__: entries}
        if type(value) is dict and all(isinstance(key, str) for key in value):
            return {"dict": self._nodes(value, path)}
        if type(value) is dict:  # with keys of other types, such as class weights by label
            return {"map": [self._container(pair, path) for pair in value.items()]}
        raise TypeError(
            f"{path or 'x'} is a {type(value).__name__}, which has no place in a file. Saved are trees, "
            "forests, combiners, what bind and bind_vote return, and fitted estimators of jaxunc, of arrays, numbers "
            "and texts."
        )

    def _nodes(self, parts: dict[str, Any], path: str) -> dict[str, Any]:
        """Return {name: node} of {name: value} at a path, to which the names are appended."""
        return {name: self.node(part, _within(path, name)) for name, part in parts.items()}

    def _module(self, value: Any, path: str) -> Any:
        """Return the node of a dataclass or of `Levels`: its class, and its fields."""
        names = value._fields if isinstance(value, Levels) else [field.name for field in dataclasses.fields(value)]
        fields = self._nodes({name: getattr(value, name) for name in names}, path)
        return {"class": self._name_of(type(value), classes()), "fields": fields}

    def _scorer(self, value: Partial, path: str) -> Any:
        """Return the node of a scorer with settings: its function's name, its arguments and its keywords."""
        function = value.func
        keywords = value.keywords
        if isinstance(function, ChosenScorer):  # it holds the scorer, and some of the settings
            keywords = {**function.keywords, **keywords}
            function = function.func
        return {
            "scorer": self._name_of(function, scorer_names()),
            "args": [self.node(part, _within(path, str(i))) for i, part in enumerate(value.args)],
            "settings": self._nodes(keywords, path),
        }

    def _name_of(self, part: Any, known: dict[str, Any]) -> str:
        """Return the name in files of ``part``, a class or a function; raise a TypeError for a user's without ``owns``.

        ``known`` is {name: class or function} of the library's.
        """
        name = name_of(part, known)
        if not self._owns and ":" in name:  # only a user's have a colon: "module:name"
            raise TypeError(
                f"{name} is your own: a state of arrays and texts, which skops and its like write, cannot hold it. "
                f"jaxunc.save keeps it by its name, for jaxunc.load(path, known=[{name.rpartition(':')[2]}]); pickle "
                "and joblib write everything."
            )
        return name

    def _array(self, value: Any, path: str) -> Any:
        """Return the node of an array: the name under which it is stored, or the entries of one of texts or objects.

        Raises a TypeError, with the path, for traced arrays, and for dtypes that are not in `PLAIN`.
        """
        if not is_concrete(value):
            raise TypeError(f"{path or 'x'} is traced; save it outside of jit, grad and vmap.")
        if isinstance(value, np.ndarray) and value.dtype.kind in "OU":
            labels = self._container(tuple(value.ravel().tolist()), path)
            return {"labels": labels, "dtype": value.dtype.str if value.dtype.kind == "U" else "O"}
        if getattr(value.dtype, "name", "key") not in PLAIN:  # dtypes of random keys have no name
            raise TypeError(f"{path or 'x'} is an array of {value.dtype}; files hold {sorted(PLAIN)}.")
        # By identity: an array that several fields share is stored once, and shared again when it is loaded.
        name = self._names.get(id(value))
        if name is None:
            name = self._names[id(value)] = self._keep(np.asarray(value), path)
            self._objects.append(value)
        return {"array": name, "on": "host"} if isinstance(value, np.ndarray) else {"array": name}

    def _keep(self, array: np.ndarray, path: str) -> str:
        """Add an array to ``arrays`` by a new name, and return it: ``path``, or "array" for "", perhaps with "_"s."""
        name = path or "array"
        while name in self.arrays:
            name += "_"
        self.arrays[name] = array
        return name


def _is_plain(entry: Any) -> bool:
    """Return whether JSON can hold an entry: a string, or a number that is finite."""
    return isinstance(entry, str | int) or (isinstance(entry, float) and math.isfinite(entry))


def _within(path: str, name: str) -> str:
    """Return the path of the part ``name`` of the object at ``path``."""
    return f"{path}.{name}" if path else name
