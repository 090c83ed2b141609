"""Models whose leaves hold values: boosted trees, and forests of regression trees."""

import weakref
from collections.abc import Iterator
from typing import Any, NoReturn

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxunc._checks import check_bool, check_one_of, is_concrete
from jaxunc._numerics import PickledModule, TwoFloat, along_instances, jit
from jaxunc.combiners import Answer, Combiner
from jaxunc.forest import Forest, Trees
from jaxunc.inference import BoundForest, bind, fold, leaf_index
from jaxunc.tables import Columns, Encoded, InstancesLike, encode_rows, encode_traced

from ._leaf_sum import LeafSum
from ._links import LINKS, apply_link
from ._oblivious import ObliviousSums, levels_of

STAGED_ROWS = 4096
"""Instances whose leaf values are held at a time, one for each tree."""


class AdditiveTrees(PickledModule):
    r"""Trees whose leaves hold values that are added: f(x) = base + Σ value of the leaf of x in each tree.

    Boosted trees and forests of regression trees, imported by ``from_xgboost`` and its kin. `leaf_index` and
    `count_leaves` take its ``trees``; counted on instances that it was not fitted to, they are a `Forest` for every
    rule.

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
    averaged: bool = eqx.field(static=True, default=False)
    """Whether the sum is an average of trees that were grown for the same target, as in forests."""

    def __check_init__(self) -> None:
        check_additive(self)

    @property
    def forest(self) -> None:
        """None: there are no class counts. ``count_leaves(model.trees, X, y)`` has those of instances of its own."""

    @property
    def combiner(self) -> None:
        """None: the answer is no rule's."""

    @property
    def is_forest(self) -> bool:
        """Whether trees do not correct each other: they are averaged, or all of one iteration of boosting.

        Then each answers the same question, and counts in their leaves are evidence for any rule.
        """
        return self.averaged or self.trees_per_stage == self.n_trees

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
            Instances, as for `bind`. What a sparse matrix does not store is 0, or missing if the library that the model
            came from takes it so (`Columns.absent_is_missing`). Differentiable in the values and the base, under
            `jax.grad` and its kin.

        Raises
        ------
        TypeError, ValueError
            As a bound forest does, where columns are not the model's or hold no numbers.
        """
        if not is_concrete(self, X):
            return along_instances(self._traced_raw, encode_traced(X, self.columns))
        encoded = encode_rows(X, self.columns, infinite=True)
        return _with_base(self.base, [bound.answer(encoded) for bound in self._bound()])

    def predict(self, X: InstancesLike) -> Float[Array, "instances *classes"]:
        """Return class probabilities, or the predictions of a regressor, ``[instances]`` where it has one output.

        Errors: see `raw`.

        Parameters
        ----------
        X
            Instances, as for `raw`.
        """
        return self._answered(self.raw(X))

    def answer(self, X: InstancesLike) -> Answer:
        """Return what streams and files ask of classifiers: sums as class scores, and probabilities.

        Raises a TypeError for regressors.

        Parameters
        ----------
        X
            Instances, as for `raw`.
        """
        return self._as_answer(self.raw(X))

    def blank_answer(self) -> Answer:
        """Return an answer for one instance that says nothing."""
        return jax.tree.map(np.asarray, self._as_answer(jnp.zeros((1, self.n_outputs))))

    def with_rule(self, combiner: Combiner) -> NoReturn:
        """Raise a TypeError: rules ask class counts, which leaves of values do not have."""
        raise TypeError(
            f"{type(combiner).__name__} asks for class counts, which this model's leaves do not hold. Count instances "
            "that it was not fitted to: ju.bind(ju.count_leaves(model.trees, X, y), rule)."
        )

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

    def first_stages(self, n_stages: int) -> "AdditiveTrees":
        """Return the model as it was after so many stages, at least one."""
        n_all = self.n_trees // self.trees_per_stage
        if not 1 <= n_stages <= n_all:
            raise ValueError(f"n_stages={n_stages} must be between 1 and {n_all}.")
        return self._of_trees(np.arange(n_stages * self.trees_per_stage))

    def _as_answer(self, raw: Array) -> Answer:
        if self.class_labels is None:
            raise TypeError("the model is a regressor, which has no classes: ask model.predict(X).")
        shares = self._answered(raw)
        both = jnp.concatenate([-raw, raw], axis=-1) if raw.shape[-1] == 1 else raw
        return Answer.from_shares(shares, both, raw[:, 0] if raw.shape[-1] == 1 else None)

    def _answered(self, raw: Array) -> Array:
        answer = _linked(self.link, None if self.class_labels is None else len(self.class_labels), raw)
        return answer[:, 0] if self.class_labels is None and self.n_outputs == 1 else answer

    def _of_trees(self, chosen: np.ndarray) -> "AdditiveTrees":
        trees = self.trees
        parts = (trees.feature, trees.threshold, trees.child, trees.missing_right, trees.tree_depth)
        fewer = Trees(*(part[chosen] for part in parts), columns=trees.columns)
        return eqx.tree_at(lambda m: (m.trees, m.values), self, (fewer, self.values[chosen]))

    def _groups(self) -> Iterator["AdditiveTrees"]:
        """The trees of each output, or all where leaves hold values for each."""
        if self.values.shape[2] > 1 or self.n_outputs == 1:
            yield self
        else:
            for output in range(self.n_outputs):
                yield self._of_trees(np.flatnonzero(self.outputs_of_trees == output))

    def _bound(self) -> tuple[BoundForest | ObliviousSums, ...]:
        """The trees bound to their sums; kept while their arrays live, since a module cannot."""
        trees = self.trees
        arrays = (trees.feature, trees.threshold, trees.child, trees.missing_right, trees.tree_depth, self.values)
        known = (*map(id, arrays), self.n_outputs, self.trees_per_stage)
        if known not in _BOUND:
            _BOUND[known] = tuple(group._bind() for group in self._groups())
            for array in arrays:  # another one may have its place in memory later
                weakref.finalize(array, _BOUND.pop, known, None)
        return _BOUND[known]

    def _bind(self) -> BoundForest | ObliviousSums:
        if (levels := levels_of(self.trees, self.values)) is not None:
            return ObliviousSums(levels, self.n_features)
        return bind(self._as_forest(), LeafSum())

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

    def _traced_raw(self, X: Array) -> Array:
        sums = [fold(group.trees, group.values, Encoded(X, True), merge="exact_sum") for group in self._groups()]
        return _with_base(self.base, sums)

    def __repr__(self) -> str:
        return (
            f"AdditiveTrees(n_trees={self.n_trees}, n_outputs={self.n_outputs}, n_features={self.n_features}, "
            f"link={self.link!r})"
        )


def uncounted_forest(model: AdditiveTrees) -> Forest:
    """Return the trees of a classifier as a forest of its classes whose leaves count nothing yet."""
    labels = model.class_labels
    if labels is None:
        raise TypeError("the model is a regressor, which has no classes to count.")
    shape = model.trees.n_trees, model.trees.n_nodes
    return Forest(
        trees=model.trees,
        count_table=jnp.zeros((1, len(labels)), jnp.int32),
        code=jnp.zeros(shape, jnp.int32),
        prior=jnp.full(len(labels), 1 / len(labels)),
        n_samples=jnp.zeros(()),
        class_labels=labels,
    )


_BOUND: dict[tuple[int, ...], tuple[BoundForest | ObliviousSums, ...]] = {}
"""By the arrays of models while those live."""


def check_additive(model: AdditiveTrees) -> None:
    """Raise a ValueError unless values, base, stages and labels suit each other; of traced arrays only the shapes."""
    values, base, labels = np.shape(model.values), np.shape(model.base), model.class_labels
    check_one_of("link", model.link, LINKS)
    check_bool("averaged", model.averaged)
    if len(base) != 1 or not base[0]:
        raise ValueError(f"base has shape {base}; pass a number for each output.")
    if len(values) != 3 or values[:2] != (model.trees.n_trees, model.trees.n_nodes) or values[2] not in (1, *base):
        raise ValueError(
            f"values has shape {values}; this model needs {(model.trees.n_trees, model.trees.n_nodes, '1 or outputs')} "
            f"(trees, nodes, each) for {base[0]} outputs."
        )
    each = model.trees_per_stage
    if isinstance(each, bool) or not isinstance(each, int) or each < 1 or model.trees.n_trees % each:
        raise ValueError(f"trees_per_stage={each!r} must divide the number of trees, {model.trees.n_trees}.")
    if values[2] == 1 and each % base[0]:
        raise ValueError(f"trees_per_stage={each} trees cannot be shared out among {base[0]} outputs.")
    if labels is not None and len(labels) != max(2, base[0]):
        raise ValueError(f"class_labels has {len(labels)} labels for {base[0]} outputs: one for each, two for one.")
    for name in ("values", "base"):
        array = getattr(model, name)
        if is_concrete(array) and not np.isfinite(np.asarray(array)).all():
            raise ValueError(f"the model's {name} holds numbers that are not finite in {array.dtype}.")


@jit
def _with_base(base: Array, sums: list[TwoFloat]) -> Array:
    together = TwoFloat(*(jnp.concatenate(parts, axis=-1) for parts in zip(*sums, strict=True)))
    return together.plus(TwoFloat(base, jnp.zeros_like(base))).value


@jit(static_argnums=(0, 1))
def _linked(link: str, n_classes: int | None, raw: Array) -> Array:
    return apply_link(link, raw, n_classes)


@jit(static_argnums=(2, 3))
def _add_tree(total: TwoFloat, values: Array, output: int, has_all: bool) -> TwoFloat:
    more = values if has_all else jnp.zeros_like(total.high).at[:, output].set(values[:, 0])
    return TwoFloat(*jnp.broadcast_arrays(*total)).plus(TwoFloat(more, jnp.zeros_like(more)))
