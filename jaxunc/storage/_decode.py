"""Decoding: from a document and its arrays to the object, checked before it is made."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import dtypes
from jax.tree_util import Partial

from jaxunc.combiners import Combiner
from jaxunc.forest import Forest, Trees, check_forest, check_trees
from jaxunc.inference import bind
from jaxunc.scorers import as_partial

from ._fitted import StoredClassifier, has_forest
from ._modules import module_of
from ._names import ESTIMATORS, classes, find, scorer_names

DEEPEST = 64
"""Largest depth of nodes within nodes."""


class Decoder:
    """A maker of values from nodes.

    ``classifier``, where it is given, makes the classifier that the file holds: until someone calls it, what answers is
    enough.
    """

    def __init__(
        self, arrays: Mapping[str, np.ndarray], given: Iterable[Any], classifier: Callable[[], Any] | None = None
    ):
        self._arrays, self._given, self._classifier = arrays, tuple(given), classifier
        self._on_device: dict[str, Any] = {}
        self._unchecked: list[Trees] = []

    def whole(self, node: Any) -> Any:
        """Return the value of the document's node; trees that are in no forest are checked by themselves."""
        value = self.value(node)
        for trees in self._unchecked:
            check_trees(trees)
        return value

    def value(self, node: Any, depth: int = 0) -> Any:
        """Return the value of a node; raises a ValueError for what is none."""
        if node is None or isinstance(node, bool | str | int | float):
            return node
        if depth > DEEPEST:
            raise ValueError(f"its document is nested more than {DEEPEST} deep.")
        if not isinstance(node, dict):
            raise _no_node(node)
        # By its keys exactly: a node with one more or less is no node, so nothing in a file is passed over.
        keys = frozenset(node)
        make = next((make for needed, make in self._kinds().items() if keys == frozenset(needed)), None)
        if make is None:
            raise _no_node(node)
        return make(node, depth + 1)

    def _kinds(self):
        return {
            ("array",): self._array,
            ("array", "on"): self._host_array,
            ("float",): self._float,
            ("tuple",): lambda node, depth: tuple(self._list(node["tuple"], depth)),
            ("list",): lambda node, depth: self._list(node["list"], depth),
            ("dict",): lambda node, depth: self._dict(node["dict"], depth),
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

    def _host_array(self, node: Any, depth: int = 0) -> np.ndarray:
        name = node["array"]
        if not isinstance(name, str) or name not in self._arrays:
            raise ValueError(f"its document names the array {name!r:.100}, which the file does not have.")
        return self._arrays[name]

    def _array(self, node: Any, depth: int) -> Any:
        host = self._host_array(node)
        # Arrays that were shared when they were saved are shared again, and travel to the device once.
        if node["array"] not in self._on_device:
            self._on_device[node["array"]] = jnp.asarray(host, dtypes.canonicalize_dtype(host.dtype))
        return self._on_device[node["array"]]

    def _float(self, node: Any, depth: int) -> float:
        if node["float"] not in ("nan", "inf", "-inf"):
            raise _no_node(node)
        return float(node["float"])

    def _json(self, node: Any, depth: int) -> tuple:
        array = self._host_array({"array": node["json"]})
        if array.dtype != np.uint8 or array.ndim != 1:
            raise _no_node(node)
        try:
            parts = json.loads(array.tobytes())
        except (ValueError, RecursionError) as error:
            raise ValueError(f"its array {node['json']!r:.100} is no JSON.") from error
        if not isinstance(parts, list) or not all(isinstance(part, str | int | float) for part in parts):
            raise _no_node(node)
        return tuple(parts)

    def _labels(self, node: Any, depth: int) -> np.ndarray:
        values, dtype = self.value(node["labels"], depth), node["dtype"]
        plain = isinstance(values, tuple) and all(isinstance(part, str | int | float | None) for part in values)
        if not plain or not isinstance(dtype, str):
            raise _no_node(node)
        if dtype == "O":
            # The None keeps NumPy from making an array of numbers, or of several axes, of labels that look like them.
            return np.array([*values, None], object)[:-1]
        array = np.array(values)
        if array.ndim != 1 or (array.size and array.dtype.kind != "U"):
            raise _no_node(node)
        return array.astype(np.str_)

    def _module(self, node: Any, depth: int) -> Any:
        made = find(node["class"], classes(), self._given, "class")
        value = module_of(made, self._dict(node["fields"], depth))
        if isinstance(value, Trees):
            # Trees are checked with their forest, which knows more; those that stay outside of one at the end, by
            # themselves.
            self._unchecked.append(value)
        if isinstance(value, Forest):
            check_forest(value)
            self._unchecked = [trees for trees in self._unchecked if trees is not value.trees]
        return value

    def _scorer(self, node: Any, depth: int) -> Partial:
        function = find(node["scorer"], scorer_names(), self._given, "scorer")
        args, settings = self._list(node["args"], depth), self._dict(node["settings"], depth)
        return as_partial(Partial(function, *args, **settings))

    def _bound(self, node: Any, depth: int) -> Any:
        return bind(self._forest(node["bound"], depth), self._of(Combiner, node["combiner"], depth))

    def _vote(self, node: Any, depth: int) -> Any:
        settings = self.value(node["settings"], depth)
        known = {"max_trees", "criterion", "population", "prior"}
        if not isinstance(settings, dict) or set(settings) not in (known | {"confidence"}, known | {"disagreement"}):
            raise _no_node(node)
        # Here, since the room's tables of votes take SciPy.
        from jaxunc.voting import bind_vote

        return bind_vote(self._forest(node["vote"], depth), **settings)

    def _estimator(self, node: Any, depth: int) -> Any:
        name, fitted = node["estimator"], self._dict(node["fitted"], depth)
        if self._classifier is not None and name in ESTIMATORS and has_forest(name):
            return StoredClassifier(name, fitted, self._classifier)
        # Here, since it takes scikit-learn.
        from ._estimators import restored

        return restored(name, self._dict(node["params"], depth), fitted)

    def _forest(self, node: Any, depth: int) -> Forest:
        return self._of(Forest, node, depth)

    def _of(self, kind: type, node: Any, depth: int) -> Any:
        value = self.value(node, depth)
        if not isinstance(value, kind):
            raise ValueError(f"its document has a {type(value).__name__} where a {kind.__name__} belongs.")
        return value


def _no_node(node: Any) -> ValueError:
    return ValueError(f"its document holds {node!r:.100}, which says nothing.")
