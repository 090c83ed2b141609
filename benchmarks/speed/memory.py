"""Temporaries of the compiled programs, as the compiler states them."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxunc as ju

FOLD_INSTANCES = 100_000
"""The pure fold is compiled for this many instances, whatever is timed."""


def compiled_memory(forest: ju.Forest, bound: ju.BoundForest, X: np.ndarray) -> dict[str, Any]:
    """Temporary bytes of the programs that ``bound(X)`` runs, and of the pure fold and its gradient.

    ``[instances, trees]`` indices alone would take ``index_bytes``: a fold that never makes them stays below.
    """
    of = (forest, bound.combiner)
    return {
        "chunks": _or_reason(lambda: _chunk_programs(bound, X)),
        "threads": bound.threads,
        "fold_instances": FOLD_INSTANCES,
        "fold_index_bytes": 4 * FOLD_INSTANCES * forest.n_trees,
        "fold_temp_bytes": _or_reason(lambda: _fold_bytes(*of, missing=False)),
        "fold_missing_temp_bytes": _or_reason(lambda: _fold_bytes(*of, missing=True)),
        "fold_gradient_temp_bytes": _or_reason(lambda: _gradient_bytes(*of)),
    }


def _or_reason(measure: Callable[[], Any]) -> Any:
    """The measurement, or why there is none: it reaches into the library and asks what not every backend answers."""
    try:
        return measure()
    except (AttributeError, ImportError, NotImplementedError, TypeError) as error:
        return f"unavailable ({type(error).__name__})"


def _chunk_programs(bound: ju.BoundForest, X: np.ndarray) -> list[dict[str, int]]:
    """Of each chunk shape that a batch of this size may meet."""
    programs = {}
    for n in sorted({1, 1000, len(X)}):
        memory = bound.lower(n).compile().memory_analysis()
        sizes = {name: int(getattr(memory, f"{name}_size_in_bytes")) for name in ("temp", "argument", "output")}
        programs[sizes["output"]] = {"instances": n, **{f"{name}_bytes": size for name, size in sizes.items()}}
    return [programs[size] for size in sorted(programs)]


def _fold_bytes(forest: ju.Forest, combiner: ju.Combiner, *, missing: bool) -> int:
    fold = partial(ju.inference.merge_leaves, merge=combiner.merge, missing=missing)
    return _temp_bytes(fold, forest, combiner)


def _gradient_bytes(forest: ju.Forest, combiner: ju.Combiner) -> int:
    """Of the gradient with respect to the leaf table."""

    def total(forest, leaf_table, X):
        merged = ju.inference.merge_leaves(forest, leaf_table, X, merge=combiner.merge, missing=False)
        return sum(jnp.sum(part**2) for part in jax.tree.leaves(merged))

    return _temp_bytes(jax.grad(total, argnums=1), forest, combiner)


def _temp_bytes(function: Callable, forest: ju.Forest, combiner: ju.Combiner) -> int:
    """Of a function of a forest, its leaf table and instances."""
    X = jax.ShapeDtypeStruct((FOLD_INSTANCES, forest.n_features), jnp.float32)
    table = ju.inference.leaf_table(forest, combiner)
    if jax.default_backend() == "cpu":
        lowered = jax.jit(function).lower(forest, table, X)
    else:
        # The accelerator's form unrolls the levels, so the forest's depth must be known: it cannot be an argument.
        lowered = jax.jit(partial(function, forest)).lower(table, X)
    return int(lowered.compile().memory_analysis().temp_size_in_bytes)
