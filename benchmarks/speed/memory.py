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


def compiled_memory(bound: ju.BoundForest, X: np.ndarray) -> dict[str, Any]:
    """Temporary bytes of the programs that ``bound(X)`` runs, and of the pure fold and its gradient.

    ``[instances, trees]`` indices alone would take ``index_bytes``: a fold that never makes them stays below.
    """
    n_trees = bound.forest.n_trees
    return {
        "chunks": _or_reason(lambda: _chunk_programs(bound, X)),
        "threads": bound.threads,
        "fold_instances": FOLD_INSTANCES,
        "fold_index_bytes": 4 * FOLD_INSTANCES * n_trees,
        "fold_temp_bytes": _or_reason(lambda: _fold_bytes(bound, missing=False)),
        "fold_missing_temp_bytes": _or_reason(lambda: _fold_bytes(bound, missing=True)),
        "fold_gradient_temp_bytes": _or_reason(lambda: _gradient_bytes(bound)),
    }


def _or_reason(measure: Callable[[], Any]) -> Any:
    """The measurement, or why there is none: it reaches into the library and asks what not every backend answers."""
    try:
        return measure()
    except (AttributeError, ImportError, NotImplementedError, TypeError) as error:
        return f"unavailable ({type(error).__name__})"


def _chunk_programs(bound: ju.BoundForest, X: np.ndarray) -> list[dict[str, int]]:
    """Of each chunk shape: the arguments are caught on their way, then compiled once more to be asked."""
    from jaxunc.routing import _bind

    run, calls = _bind._merge_chunk, {}

    def catch(*arguments):
        shapes = tuple(np.shape(part) for part in jax.tree.leaves(arguments))
        calls.setdefault(shapes, arguments)
        return run(*arguments)

    _bind._merge_chunk = catch
    try:
        jax.block_until_ready(bound.probability(X))
    finally:
        _bind._merge_chunk = run
    programs = []
    for arguments in calls.values():
        memory = run.lower(*arguments).compile().memory_analysis()
        rows = [len(part) for part in arguments if getattr(part, "shape", ())[1:] == X.shape[1:]]
        programs.append(
            {
                "instances": rows[0],
                "temp_bytes": int(memory.temp_size_in_bytes),
                "argument_bytes": int(memory.argument_size_in_bytes),
                "output_bytes": int(memory.output_size_in_bytes),
            }
        )
    return sorted(programs, key=lambda program: program["instances"])


def _fold_bytes(bound: ju.BoundForest, *, missing: bool) -> int:
    merge = bound.combiner.merge

    def fold(forest, leaf_table, X):
        return ju.routing.fold(forest, leaf_table, X, merge=merge, missing=missing)

    return _temp_bytes(fold, bound)


def _gradient_bytes(bound: ju.BoundForest) -> int:
    """Of the gradient with respect to the leaf table."""
    merge = bound.combiner.merge

    def total(forest, leaf_table, X):
        merged = ju.routing.fold(forest, leaf_table, X, merge=merge, missing=False)
        return sum(jnp.sum(part**2) for part in jax.tree.leaves(merged))

    return _temp_bytes(jax.grad(total, argnums=1), bound)


def _temp_bytes(function: Callable, bound: ju.BoundForest) -> int:
    """Of a function of a forest, its leaf table and instances."""
    X = jax.ShapeDtypeStruct((FOLD_INSTANCES, bound.forest.n_features), jnp.float32)
    if jax.default_backend() == "cpu":
        lowered = jax.jit(function).lower(bound.forest, bound.leaf_table, X)
    else:
        # The accelerator's form unrolls the levels, so the forest's depth must be known: it cannot be an argument.
        lowered = jax.jit(partial(function, bound.forest)).lower(bound.leaf_table, X)
    return int(lowered.compile().memory_analysis().temp_size_in_bytes)
