"""Models whose leaves hold values: boosted trees, and forests of regression trees."""

from collections.abc import Iterator
from functools import cached_property, partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxunc._checks import is_concrete
from jaxunc._numerics import TwoFloat
from jaxunc.forest import Forest, Trees
from jaxunc.routing import BoundForest, bind, fold, leaf_index
from jaxunc.tables import Columns, Encoded, InstancesLike, as_instances, as_traceable

from ._leaf_sum import LeafSum
from ._links import apply_link

STAGED_ROWS = 4096
"""Instances whose leaf values are held at a time, one for each tree."""


class TreeEnsemble(eqx.Module):
    r"""Trees whose leaves hold values that are added: f(x) = base + Σ value of the leaf of x in each tree.

    Boosted trees and forests of regression trees, imported by ``from_xgboost`` and its kin. `leaf_index` and `recount`
    take its ``trees``; counted on instances that it was not fitted to, they are a `Forest` for every rule.

    A pytree, differentiable in ``values`` and ``base``. Instances reach the leaves that they reach in the library that
    the model comes from; sums are rounded once.
    """

    trees: Trees
    """The structure, in the library's own order of trees."""
    values: Float[Array, "trees nodes each"]
    """The values of leaves: one, which counts for one output, or one for each output."""
    base: Float[Array, "outputs"]
    """What is added to the sums."""
    link: str = eqx.field(static=True)
    """What sums mean: ``"identity"``, ``"logistic"``, ``"softmax"``, ``"one-vs-rest"`` or ``"exp"``."""
    trees_per_stage: int = eqx.field(static=True, default=1)
    """Trees that one iteration of boosting adds: first all those of the first output, and so on."""
    class_labels: tuple[Any, ...] | None = eqx.field(static=True, default=None)
    """The labels of the classes; None for regressors."""

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return self.trees.n_trees

    @property
    def n_outputs(self) -> int:
        """Number of sums for each instance: one for two classes, else one for each class."""
        return self.base.shape[0]

    @property
    def n_features(self) -> int:
        """Number of columns that the data must have."""
        return self.trees.n_features

    @property
    def columns(self) -> Columns:
        """The columns of data."""
        return self.trees.columns

    @property
    def outputs_of_trees(self) -> np.ndarray:
        """The output that each tree counts for, where leaves hold one value."""
        of_stage = np.arange(self.n_trees) % self.trees_per_stage
        return of_stage // max(1, self.trees_per_stage // self.n_outputs)

    def raw(self, X: InstancesLike) -> Float[Array, "instances outputs"]:
        """Return the sums before the link, the base included.

        Parameters
        ----------
        X
            Instances, as for `bind`. Differentiable in the values and the base, under `jax.grad` and its kin.

        Raises
        ------
        TypeError, ValueError
            As a bound forest does, where columns are not the model's or hold no numbers.
        """
        if not is_concrete(self, X):
            return self._traced_raw(as_traceable(X, self.columns))
        sums = [bound.answer(self._encoded(X)) for bound in self._bound]
        return _with_base(self.base, sums)

    def predict(self, X: InstancesLike) -> Float[Array, "instances *classes"]:
        """Return class probabilities, or the predictions of a regressor, ``[instances]`` where it has one output.

        X and errors: see `raw`.
        """
        return self._answered(self.raw(X))

    def leaf_values(self, X: InstancesLike) -> Float[Array, "instances trees each"]:
        """Return the value of the leaf that each instance reaches, for every tree. X and errors: see `raw`."""
        leaves = leaf_index(self.trees, X)
        return self.values[jnp.arange(self.n_trees), leaves]

    def staged(self, X: InstancesLike) -> Iterator[Float[Array, "instances outputs"]]:
        """Yield the sums after every stage, the base included: what `raw` gives is the last. X, errors: see `raw`."""
        values = self.leaf_values(X)
        total = TwoFloat(jnp.broadcast_to(self.base, (values.shape[0], self.n_outputs)), jnp.zeros(()))
        for start in range(0, self.n_trees, self.trees_per_stage):
            for t in range(start, start + self.trees_per_stage):
                total = _add_tree(total, values[:, t], int(self.outputs_of_trees[t]), self.values.shape[2] > 1)
            yield total.value

    def first_stages(self, n_stages: int) -> "TreeEnsemble":
        """Return the model as it was after so many stages, at least one."""
        n_all = self.n_trees // self.trees_per_stage
        if not 1 <= n_stages <= n_all:
            raise ValueError(f"n_stages={n_stages} must be between 1 and {n_all}.")
        return self._of_trees(np.arange(n_stages * self.trees_per_stage))

    def _answered(self, raw: Array) -> Array:
        answer = _linked(self.link, None if self.class_labels is None else len(self.class_labels), raw)
        return answer[:, 0] if self.class_labels is None and self.n_outputs == 1 else answer

    def _of_trees(self, chosen: np.ndarray) -> "TreeEnsemble":
        trees = self.trees
        parts = (trees.feature, trees.threshold, trees.child, trees.missing_right, trees.tree_depth)
        fewer = Trees(*(part[chosen] for part in parts), columns=trees.columns)
        return eqx.tree_at(lambda m: (m.trees, m.values), self, (fewer, self.values[chosen]))

    def _groups(self) -> Iterator["TreeEnsemble"]:
        """The trees of each output, or all where leaves hold values for each."""
        if self.values.shape[2] > 1 or self.n_outputs == 1:
            yield self
        else:
            for output in range(self.n_outputs):
                yield self._of_trees(np.flatnonzero(self.outputs_of_trees == output))

    @cached_property
    def _bound(self) -> tuple[BoundForest, ...]:
        return tuple(bind(group._as_forest(), LeafSum()) for group in self._groups())

    def _as_forest(self) -> Forest:
        """The values where a forest has counts, for what looks leaves up and adds."""
        n_trees, n_nodes, each = self.values.shape
        code = jnp.arange(n_trees * n_nodes, dtype=jnp.int32).reshape(n_trees, n_nodes)
        table = self.values.reshape(n_trees * n_nodes, each)
        return Forest(
            trees=self.trees,
            count_table=table,
            code=code,
            prior=jnp.full(each, 1 / each),
            n_samples=jnp.zeros(()),
            class_labels=tuple(range(each)),
        )

    def _encoded(self, X: InstancesLike) -> Any:
        return as_instances(X, self.columns, infinite=True)

    def _traced_raw(self, X: Array) -> Array:
        sums = [fold(group.trees, group.values, Encoded(X, True), merge="exact_sum") for group in self._groups()]
        return _with_base(self.base, sums)

    def __repr__(self) -> str:
        return (
            f"TreeEnsemble(n_trees={self.n_trees}, n_outputs={self.n_outputs}, n_features={self.n_features}, "
            f"link={self.link!r})"
        )


@jax.jit
def _with_base(base: Array, sums: list[TwoFloat]) -> Array:
    together = TwoFloat(*(jnp.concatenate(parts, axis=-1) for parts in zip(*sums, strict=True)))
    return together.plus(TwoFloat(base, jnp.zeros_like(base))).value


@partial(jax.jit, static_argnums=(0, 1))
def _linked(link: str, n_classes: int | None, raw: Array) -> Array:
    return apply_link(link, raw, n_classes)


@partial(jax.jit, static_argnums=(2, 3))
def _add_tree(total: TwoFloat, values: Array, output: int, has_all: bool) -> TwoFloat:
    more = values if has_all else jnp.zeros_like(total.high).at[:, output].set(values[:, 0])
    return TwoFloat(*jnp.broadcast_arrays(*total)).plus(TwoFloat(more, jnp.zeros_like(more)))
