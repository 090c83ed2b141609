"""Trees, forests, columns and rules made from their fields, as their own constructors would have made them."""

import dataclasses
import inspect
import types
import typing
from typing import Any, Literal, TypeVar, Union

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import AbstractArray

from jaxunc.additive import AdditiveTrees, check_additive
from jaxunc.combiners import Combiner, LearnedPool
from jaxunc.forest import OWN, CountSet, Forest, Trees
from jaxunc.tables import Columns, Levels

MOST_COLUMNS = 2**24
"""Largest number of data columns: a file that claims more is refused before anything is made of it."""

LATER_FIELDS: dict[type, dict[str, Any]] = {
    Columns: {
        name: getattr(Columns, name)
        for name in ("boolean", "missing_words", "cuts", "absent_is_missing", "spaces_are_underlines")
    },
    Forest: {"further": {}},
    AdditiveTrees: {"averaged": False},
}
"""Defaults of fields that files of the first versions lack."""


def module_of(made: type, fields: dict[str, Any]) -> Any:
    """Return an instance of a class with these fields; raises a ValueError if some lack, or are of another kind."""
    if isinstance(made, type) and issubclass(made, Levels):
        return _levels(made, fields)
    if not (isinstance(made, type) and issubclass(made, eqx.Module | Columns)):
        raise ValueError(f"the file has fields for {made!r:.100}, which is no module.")
    names = {field.name for field in dataclasses.fields(made)}
    fields = LATER_FIELDS.get(made, {}) | fields
    if made is LearnedPool and "both" in fields:
        fields["reads"] = (OWN, "oob") if fields.pop("both") else (OWN,)
    if made is Forest:
        fields = _own_and_further(fields)
    if set(fields) != names:
        raise ValueError(
            f"the file's {made.__name__} has the fields {sorted(fields)[:20]}; expected {sorted(names)}. Was it saved "
            "by a version in which the class was another?"
        )
    for name, hint in typing.get_type_hints(made).items() if made.__module__.startswith("jaxunc") else ():
        fields |= {name: _of_jax(fields[name], hint)} if name in fields else {}
        if name in fields and not _suits(fields[name], hint):
            raise ValueError(f"the file's {made.__name__} has a {name} that is {_said(fields[name])}, not {hint}.")
    if made is Columns:
        return _columns(fields)
    # Past the constructor, which may take other arguments than the fields. What it would have checked is checked below.
    value = object.__new__(made)
    for name, part in fields.items():
        object.__setattr__(value, name, part)
    if isinstance(value, Combiner):
        _check_rule(value)
    if isinstance(value, Trees | Forest):
        _check_labels(value)
    if isinstance(value, AdditiveTrees):
        check_additive(value)
    return value


def _of_jax(part: Any, hint: Any) -> Any:
    """Return NumPy's array as JAX's where the field holds such: what was saved after `jax.device_get` is loaded."""
    if not isinstance(part, np.ndarray) or part.dtype.kind not in "biuf" or _suits(part, hint):
        return part
    return jnp.asarray(part)


def _own_and_further(fields: dict[str, Any]) -> dict[str, Any]:
    """Split out-of-bag counts from the own ones: in files of the first versions they are further columns of these."""
    table: Any = fields.get("count_table")
    forks: Any = fields.get("fork_counts")
    labels: Any = fields.get("class_labels")
    n = len(labels) if isinstance(labels, tuple) else 0
    if n == 0 or fields["further"] or getattr(table, "ndim", 0) != 2 or table.shape[1] != 2 * n:
        return fields
    own, others = (None, None) if getattr(forks, "ndim", 0) != 2 else (forks[:, :n], forks[:, n:])
    code: Any = fields.get("code")
    further = {"oob": CountSet(table[:, n:], code, others)}
    return fields | {"count_table": table[:, :n], "fork_counts": own, "further": further}


def _levels(kind: type[Levels], fields: dict[str, Any]) -> Levels:
    values = fields.get("values")
    if set(fields) != {"values", "has_missing"} or not isinstance(values, tuple):
        raise ValueError("the file's levels of a column are no tuple of values.")
    return kind(values, bool(fields["has_missing"]))


def _columns(fields: dict[str, Any]) -> Columns:
    if not 0 <= fields["number"] <= MOST_COLUMNS:
        raise ValueError(f"the file claims {fields['number']} columns; at most {MOST_COLUMNS} are read.")
    return Columns(**fields)


def _check_labels(value: Trees | Forest) -> None:
    if isinstance(value, Forest) and not all(isinstance(label, str | int | float) for label in value.class_labels):
        raise ValueError("the file's class labels are not texts or numbers.")


def _check_rule(rule: Combiner) -> None:
    """Check that the rule's own constructor, given its fields, makes a rule of the same structure."""
    parameters = inspect.signature(type(rule)).parameters
    arguments = {name: getattr(rule, name) for name in parameters if hasattr(rule, name)}
    needed = [name for name, p in parameters.items() if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    if not set(needed) <= set(arguments) or any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return  # its parts were checked by themselves
    # The constructor checks values; equal structures and shapes say that it would have made these very fields.
    again = type(rule)(**arguments)
    shapes = [[(np.shape(leaf), jnp.result_type(leaf)) for leaf in jax.tree.leaves(one)] for one in (rule, again)]
    if jax.tree.structure(rule) != jax.tree.structure(again) or shapes[0] != shapes[1]:
        raise ValueError(f"the file's {type(rule).__name__} has fields that its constructor would not give it.")


def _suits(value: Any, hint: Any) -> bool:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or isinstance(hint, TypeVar):
        return True
    if origin is Literal:
        return any(value == one and type(value) is type(one) for one in inner)
    if origin in (Union, types.UnionType):
        return any(_suits(value, one) for one in inner)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        of_each = inner[:1] * len(value) if inner[1:] == (...,) else inner
        return len(value) == len(of_each) and all(map(_suits, value, of_each))
    if origin is dict:
        return isinstance(value, dict) and all(_suits(k, inner[0]) and _suits(v, inner[1]) for k, v in value.items())
    if isinstance(origin, type):  # a class that is generic in what it answers
        return isinstance(value, origin)
    # An int may stand for a float; a bool, which Python counts among the integers, may not.
    if hint is float:
        return isinstance(value, float | int) and not isinstance(value, bool)
    if hint is int or hint is bool:
        return type(value) is hint
    if isinstance(hint, type) or (inspect.isclass(hint) and issubclass(hint, AbstractArray)):
        return isinstance(value, hint)
    return True


def _said(value: Any) -> str:
    if hasattr(value, "dtype"):
        return f"an array of {value.dtype} and shape {value.shape}"
    return f"{value!r:.60}"
