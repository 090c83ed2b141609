"""Models whose leaves hold values that are added: boosted trees, and forests of regression trees.

`AdditiveTrees` binds its trees to `LeafSum`, or to `ObliviousSums` where all nodes of a level make one test;
`apply_link` turns sums into predictions. `AdditiveTrees.virtual_uncertainty` compares a model with its first stages.
"""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Num

from jaxunc._checks import check_bool, check_integer, check_one_of, is_concrete
from jaxunc._numerics import (
    KeptWhileAlive,
    PickledModule,
    TwoFloat,
    jit,
    map_over_devices,
    on_host,
    put_beside,
    softmax,
    sum_in_order,
    two_sum,
)
from jaxunc._types import PyTree
from jaxunc.combiners import Answer, Combiner
from jaxunc.forest import Forest, Trees, way_to_forest
from jaxunc.inference import BoundForest, bind, encode_for, leaf_index, merge_leaves, walks_at_once
from jaxunc.tables import Columns, Encoded, InstancesLike, encode_traced

from ._oblivious import ObliviousSums, levels_of

Link = Literal["identity", "logistic", "softmax", "one-vs-rest", "exp"]

LINKS: tuple[str, ...] = get_args(Link)
"""Predictions by link. ``"identity"``: the sums; ``"exp"``: their exponentials; ``"logistic"``: the logistic function
of each; ``"softmax"``: their softmax; ``"one-vs-rest"``: the logistic function of each, divided by the sum of these."""


class LeafSum(Combiner[Any]):
    """Combiner that adds the values of leaves, which a forest holds in place of counts, as sums of two floats."""

    merge: ClassVar[str] = "exact_sum"

    def lift(self, counts: Num[Array, "... outputs"]) -> PyTree:
        """Return ``counts``, the leaves' values, unchanged: the statistic is the value itself."""
        return counts

    def finish(self, stat: PyTree) -> TwoFloat:
        """Return ``stat``, the sums over trees, unchanged: sums of two floats, not yet rounded to one."""
        return stat


class LinkedSum(LeafSum):
    """A `LeafSum` that also adds the base and applies the link of `AdditiveTrees`: one program makes predictions."""

    base: Float[Array, "outputs"]
    link: str = eqx.field(static=True)  # one of `LINKS`
    n_classes: int | None = eqx.field(static=True)  # None for a regressor

    def finish(self, stat: TwoFloat) -> Array:
        """Return the predictions ``[instances *classes]`` of `AdditiveTrees.predict` for the sums ``stat``."""
        high, error = two_sum(stat.high, self.base)
        raw = lax.optimization_barrier(high + (error + stat.low))  # rounded here, not fused into the link
        return _predictions(self.link, self.n_classes, raw)


class AdditiveTrees(PickledModule):
    r"""Trees whose leaves hold values that are added: f(x) = base + Σ value of the leaf of x in each tree.

    Boosted trees and forests of regression trees, imported by ``from_xgboost`` and its kin. `leaf_index` and
    `count_leaves` take the model's ``trees``. With counts of instances that the model was not fitted to, its trees
    become a `Forest`, for any combiner.

    The model is a pytree, differentiable in ``values`` and ``base``. Instances reach the same leaves as in the library
    that the model comes from. Sums are rounded once.
    """

    trees: Trees
    """The structure of the trees, in the order of the library."""
    values: Float[Array, "trees nodes each"]
    """Values of each leaf. The axis *each* has length 1, for the output that a tree adds to, or an entry per output."""
    base: Float[Array, "outputs"]
    """The number that is added to the sum of each output."""
    link: str = eqx.field(static=True)
    """How sums become predictions: ``"identity"``, ``"logistic"``, ``"softmax"``, ``"one-vs-rest"`` or ``"exp"``."""
    trees_per_stage: int = eqx.field(static=True, default=1)
    """Number of trees of a stage, which one iteration of boosting adds: first those of the first output, and so on."""
    class_labels: tuple[Any, ...] | None = eqx.field(static=True, default=None)
    """The labels of the classes; None for regressors."""
    averaged: bool = eqx.field(static=True, default=False)
    """Whether the sums are averages over trees that were grown for the same target, as in forests."""

    def __check_init__(self) -> None:
        check_additive(self)

    @property
    def is_forest(self) -> bool:
        """Whether no tree corrects another: the trees are averaged, or all belong to one iteration of boosting.

        Then each tree answers the same question, and counts in its leaves are evidence for any combiner.
        """
        return self.averaged or self.trees_per_stage == self.n_trees

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return self.trees.n_trees

    @property
    def n_outputs(self) -> int:
        """Number of sums for each instance, the outputs: one for each class or target; usually one for two classes."""
        return self.base.shape[0]

    @property
    def n_features(self) -> int:
        """Number of columns that the data must have."""
        return self.trees.n_features

    @property
    def columns(self) -> Columns:
        """The columns that the data must have: their number, names, and levels."""
        return self.trees.columns

    @property
    def outputs_of_trees(self) -> np.ndarray:
        """Index of the output that each tree adds to, ``[trees]``.

        It follows from the order of trees. If leaves hold a value for each output, it has no meaning.
        """
        place_in_stage = np.arange(self.n_trees) % self.trees_per_stage
        return place_in_stage // max(1, self.trees_per_stage // self.n_outputs)

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
            If the columns are not the model's, or hold no numbers, as for a bound forest.
        """
        if not is_concrete(self, X):
            return map_over_devices(lambda model, x: model._traced_raw(x), encode_traced(X, self.columns), beside=self)
        return self._raw(*encode_for(self.trees, X, infinite=True))

    def predict(self, X: InstancesLike) -> Float[Array, "instances *classes"]:
        """Return class probabilities ``[instances classes]``, or a regressor's predictions.

        A regressor's predictions are ``[instances]`` for one output, ``[instances outputs]`` for several. ``X`` and
        errors are as for `raw`.
        """
        if not is_concrete(self, X):
            return self._answered(self.raw(X))
        trees, encoded = encode_for(self.trees, X, infinite=True)
        bound = self._for_few(trees, len(encoded.values))
        return self._answered(self._raw(trees, encoded)) if bound is None else bound.answer(encoded)

    def answer(self, X: InstancesLike) -> Answer:
        """Return class scores, which are the sums, and probabilities of each instance.

        ``X`` and errors are as for `raw`. A regressor raises a TypeError.
        """
        return self._as_answer(self.raw(X))

    def blank_answer(self) -> Answer:
        """Return what `answer` returns for one instance whose sums are 0, as NumPy arrays.

        A regressor raises a TypeError.
        """
        return jax.tree.map(np.asarray, self._as_answer(jnp.zeros((1, self.n_outputs))))

    def leaf_values(self, X: InstancesLike) -> Float[Array, "instances trees each"]:
        """Return the values of the leaf that each instance reaches in each tree; ``X`` and errors are as for `raw`.

        The last axis, *each*, is that of the field ``values``.
        """
        leaves = leaf_index(self.trees, X)
        return self.values[jnp.arange(self.n_trees), leaves]

    def staged(self, X: InstancesLike) -> Iterator[Float[Array, "instances outputs"]]:
        """Return an iterator of the sums ``[instances outputs]`` after each stage, with the base.

        The last sums are those of `raw`. ``X`` and errors are as for `raw`.
        """
        return self._staged(self.leaf_values(X))

    def _staged(self, values: Float[Array, "instances trees each"]) -> Iterator[Float[Array, "instances outputs"]]:
        """Yield the sums after each stage, the base included; ``values`` are those that `leaf_values` returned."""
        base = jnp.broadcast_to(self.base, (values.shape[0], self.n_outputs))
        total = TwoFloat(base, jnp.zeros_like(base))
        has_all = self.values.shape[2] > 1  # leaves hold a value for each output
        for start in range(0, self.n_trees, self.trees_per_stage):
            for t in range(start, start + self.trees_per_stage):
                total = _add_tree(total, values[:, t], int(self.outputs_of_trees[t]), has_all)
            yield total.value

    def first_stages(self, n_stages: int) -> "AdditiveTrees":
        """Return the model of the first ``n_stages`` stages; raise an error unless it has so many.

        Parameters
        ----------
        n_stages
            Number of stages, ≥ 1. Of averaged trees, as in forests, the result answers the average of the first ones.
        """
        n_all = self.n_trees // self.trees_per_stage
        check_integer("n_stages", n_stages)
        if not 1 <= n_stages <= n_all:
            raise ValueError(f"n_stages={n_stages} must be between 1 and {n_all}.")
        model = self._of_trees(np.arange(n_stages * self.trees_per_stage))
        if not self.averaged:
            return model
        # The values of averaged trees are divided by the number of trees.
        return eqx.tree_at(lambda m: m.values, model, model.values * (n_all / n_stages))

    def virtual_uncertainty(self, X: InstancesLike, *, n_members: int = 10) -> "AdditiveUncertainty":
        """Return how uncertain a boosted model is of each instance, by a virtual ensemble of its first stages.

        With T stages and K members, the i-th member, i = 1 … K, has the first T - (K - i) ⌊T / 2K⌋ stages. For classes,
        ``data`` is (1/K) Σ H(p_i), and ``knowledge`` is H((1/K) Σ p_i) - data, with H the entropy in nats. For one
        number, ``knowledge`` is the variance of the members' predictions (divided by K, not K - 1).

        Parameters
        ----------
        X
            Instances, as for `bind`.
        n_members
            Number of members K, at most half the number of stages.

        Raises
        ------
        TypeError, ValueError
            As `raw`. Also if there are fewer than 2 K stages, if K < 1, if trees are averaged as in forests, or if a
            regressor has several outputs.

        References
        ----------
        Malinin, Prokhorenkova and Ustimenko 2021, "Uncertainty in gradient boosting via ensembles", section 4. Members
        of a model that was boosted with noise (SGLB) are samples of a posterior. Members of other models are much
        alike: their uncertainty only ranks instances.
        """
        labels, model = self.class_labels, self
        if labels is None and self.link == "identity":
            # Beside a large base, rounding would lose the differences of members.
            model = eqx.tree_at(lambda m: m.base, self, jnp.zeros_like(self.base))
        members = virtual_ensemble(model, X, n_members=n_members)
        if labels is None:
            if self.n_outputs > 1:
                raise ValueError(f"the model predicts {self.n_outputs} numbers; ask one at a time.")
            return AdditiveUncertainty(None, jnp.var(apply_link(self.link, members, None)[..., 0], axis=1))
        shares = apply_link(self.link, members, len(labels))
        data = _entropy(shares).mean(axis=1)
        return AdditiveUncertainty(data, jnp.maximum(_entropy(shares.mean(axis=1)) - data, 0))

    def _as_answer(self, raw: Array) -> Answer:
        """Return class scores and probabilities for sums ``raw [instances outputs]``; a TypeError for a regressor."""
        if self.class_labels is None:
            raise TypeError("the model is a regressor, which has no classes: ask model.predict(X).")
        shares = self._answered(raw)
        if raw.shape[-1] == 1:  # two classes with one sum, the score of the second
            return Answer.from_shares(shares, jnp.concatenate([-raw, raw], axis=-1), raw[:, 0])
        return Answer.from_shares(shares, raw, None)

    def _raw(self, trees: Trees, encoded: Encoded) -> Array:
        """Return the sums of ``encoded`` instances, the base included, by ``trees``; `encode_for` returned both."""
        return _with_base(self.base, [bound.answer(encoded) for bound in self._bound(trees)])

    def _answered(self, raw: Array) -> Array:
        """Return the predictions for the sums ``raw [instances outputs]``, which include the base."""
        return _linked(self.link, self._n_classes, raw)

    @property
    def _n_classes(self) -> int | None:
        """Number of classes; None for a regressor."""
        return None if self.class_labels is None else len(self.class_labels)

    def _of_trees(self, chosen: np.ndarray) -> "AdditiveTrees":
        """Return the model of some trees of this one: those with the indices ``chosen``, in that order."""
        trees = self.trees
        arrays = (trees.feature, trees.threshold, trees.child, trees.missing_right, trees.tree_depth, self.values)
        if on_host(arrays):  # NumPy needs no program for each shape
            *fields, values = put_beside(self.values, [np.asarray(array)[chosen] for array in arrays])
        else:
            *fields, values = (array[chosen] for array in arrays)
        return eqx.tree_at(lambda m: (m.trees, m.values), self, (Trees(*fields, columns=trees.columns), values))

    def _groups(self) -> Iterator["AdditiveTrees"]:
        """Yield a model of the trees of each output; the whole model if each tree adds to all outputs."""
        if self.values.shape[2] > 1 or self.n_outputs == 1:
            yield self
        else:
            for output in range(self.n_outputs):
                yield self._of_trees(np.flatnonzero(self.outputs_of_trees == output))

    def _bound(self, trees: Trees) -> tuple[BoundForest | ObliviousSums, ...]:
        """Return each of `_groups`, of ``trees`` as `encode_for` returned them, bound to its sums; kept in `_BOUND`."""
        arrays = (trees.feature, trees.threshold, trees.child, trees.missing_right, trees.tree_depth, self.values)
        settings = (self.n_outputs, self.trees_per_stage)

        def make() -> tuple[BoundForest | ObliviousSums, ...]:
            model = eqx.tree_at(lambda m: m.trees, self, trees)
            return tuple(group._bind() for group in model._groups())

        return _BOUND.get(arrays, settings, make)

    def _bind(self) -> BoundForest | ObliviousSums:
        """Return the model bound to the sums of its leaf values, without the base: an `ObliviousSums` if it can be."""
        levels = levels_of(self.trees, self.values)
        if levels is not None:
            return ObliviousSums(levels, self.n_features, lambda: bind(self._as_forest(), LeafSum()))
        return bind(self._as_forest(), LeafSum())

    def _for_few(self, trees: Trees, n_instances: int) -> BoundForest | None:
        """Return the model bound to `LinkedSum`, whose one program predicts few instances; it is kept in `_FOR_FEW`.

        None if ``n_instances`` are too many to walk all trees at once, or the model has several `_groups`. ``trees``
        are as for `_bound`.
        """
        bound = self._bound(trees)
        # As a forest that is walked; None for oblivious trees that answer so many instances faster by their codes.
        walk = bound[0].walk_for(n_instances) if isinstance(bound[0], ObliviousSums) else bound[0]
        if len(bound) > 1 or walk is None or not walks_at_once(n_instances, self.n_trees):
            return None

        def make() -> BoundForest:
            return BoundForest(walk.engine, LinkedSum(self.base, self.link, self._n_classes), walk.threads)

        return _FOR_FEW.get((trees.threshold, self.values, self.base), (id(walk), self.link, self._n_classes), make)

    def _as_forest(self) -> Forest:
        """Return a forest whose leaves hold the model's values in place of counts, for `LeafSum`."""
        n_trees, n_nodes, n_values = self.values.shape
        code = jax.device_put(np.arange(n_trees * n_nodes, dtype=np.int32).reshape(n_trees, n_nodes))
        table = self.values.reshape(n_trees * n_nodes, n_values)
        return Forest(
            trees=self.trees,
            count_table=table,
            code=code,
            prior=jnp.full(n_values, 1 / n_values),
            n_samples=jnp.zeros(()),
            class_labels=tuple(range(n_values)),
        )

    def _traced_raw(self, X: Array) -> Array:
        """Return the sums, the base included, of ``X [instances features]``, encoded instances that are traced."""
        rows = Encoded(X, missing=True)
        sums = [merge_leaves(group.trees, group.values, rows, merge="exact_sum") for group in self._groups()]
        return _with_base(self.base, sums)

    def __repr__(self) -> str:
        return (
            f"AdditiveTrees(n_trees={self.n_trees}, n_outputs={self.n_outputs}, n_features={self.n_features}, "
            f"link={self.link!r})"
        )


def uncounted_forest(model: AdditiveTrees) -> Forest:
    """Return the trees of ``model``, a classifier, as a forest whose counts are all 0; a TypeError for a regressor."""
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


_BOUND: KeptWhileAlive[tuple[BoundForest | ObliviousSums, ...]] = KeptWhileAlive()  # of `AdditiveTrees._bound`
_FOR_FEW: KeptWhileAlive[BoundForest] = KeptWhileAlive()  # of `AdditiveTrees._for_few`


def check_additive(model: AdditiveTrees) -> None:
    """Raise a ValueError unless the fields of ``model`` fit together, and concrete values and base are finite."""
    trees, labels = model.trees, model.class_labels
    shape, base_shape = np.shape(model.values), np.shape(model.base)
    check_one_of("link", model.link, LINKS)
    check_bool("averaged", model.averaged)
    if len(base_shape) != 1 or not base_shape[0]:
        raise ValueError(f"base has shape {base_shape}; pass a number for each output.")
    n_outputs = base_shape[0]
    if len(shape) != 3 or shape[:2] != (trees.n_trees, trees.n_nodes) or shape[2] not in (1, n_outputs):
        raise ValueError(
            f"values has shape {shape}; this model needs {(trees.n_trees, trees.n_nodes, '1 or outputs')} "
            f"(trees, nodes, each) for {n_outputs} outputs."
        )
    size = model.trees_per_stage
    if isinstance(size, bool) or not isinstance(size, int) or size < 1 or trees.n_trees % size:
        raise ValueError(f"trees_per_stage={size!r} must divide the number of trees, {trees.n_trees}.")
    if shape[2] == 1 and size % n_outputs:
        raise ValueError(f"trees_per_stage={size} trees cannot be shared out among {n_outputs} outputs.")
    if labels is not None and len(labels) != max(2, n_outputs):
        raise ValueError(f"class_labels has {len(labels)} labels for {n_outputs} outputs: one for each, two for one.")
    for name in ("values", "base"):
        array = getattr(model, name)
        if is_concrete(array) and not np.isfinite(np.asarray(array)).all():
            raise ValueError(f"the model's {name} holds numbers that are not finite in {array.dtype}.")


@jit
def _with_base(base: Array, sums: list[TwoFloat]) -> Array:
    """Return the ``sums`` of each of `AdditiveTrees._groups` side by side plus ``base``, ``[instances outputs]``."""
    total = TwoFloat(*(jnp.concatenate(parts, axis=-1) for parts in zip(*sums, strict=True)))
    return total.plus(TwoFloat(base, jnp.zeros_like(base))).value


@jit(static_argnums=(0, 1))
def _linked(link: str, n_classes: int | None, raw: Array) -> Array:
    """Return the predictions for the sums ``raw`` by a compiled program; arguments are those of `_predictions`."""
    return _predictions(link, n_classes, raw)


def _predictions(link: str, n_classes: int | None, raw: Array) -> Array:
    """Return the predictions of `AdditiveTrees.predict` for the sums ``raw [instances outputs]``.

    ``link`` is one of `LINKS`, and ``n_classes`` is None for a regressor.
    """
    answer = apply_link(link, raw, n_classes)
    return answer[:, 0] if n_classes is None and raw.shape[-1] == 1 else answer


@jit(static_argnums=(2, 3))
def _add_tree(total: TwoFloat, values: Array, output: int, has_all: bool) -> TwoFloat:
    """Return ``total [instances outputs]``, the sums so far, plus the leaf ``values`` of one tree.

    These are ``[instances outputs]`` with ``has_all``; else ``[instances 1]``, for the output ``output``.
    """
    addend = values if has_all else jnp.zeros_like(total.high).at[:, output].set(values[:, 0])
    return total.plus(TwoFloat(addend, jnp.zeros_like(addend)))


def apply_link(link: str, raw: Float[Array, "... outputs"], n_classes: int | None) -> Array:
    """Return the predictions ``[... outputs]``, or class probabilities ``[... classes]``, for the sums ``raw``.

    ``link`` is one of `LINKS`, and ``n_classes`` is None for a regressor. A single sum for two classes is the score of
    the second class, and its negative that of the first.
    """
    if n_classes == 2 and raw.shape[-1] == 1:
        raw = jnp.concatenate([-raw, raw], axis=-1)
    return _APPLY[link](raw)


def _one_vs_rest(raw: Float[Array, "... outputs"]) -> Float[Array, "... outputs"]:
    """Return the logistic function of each sum in ``raw``, divided by what these add up to."""
    shares = jax.nn.sigmoid(raw)
    return shares / sum_in_order(shares, keepdims=True)


_APPLY: dict[str, Callable[[Array], Array]] = {
    "identity": lambda raw: raw,
    "exp": jnp.exp,
    "logistic": jax.nn.sigmoid,
    "softmax": softmax,
    "one-vs-rest": _one_vs_rest,
}


class AdditiveUncertainty(NamedTuple):
    """Uncertainty of each instance: in nats for classes, in squared units of the target for one number."""

    data: Float[Array, "instances"] | None
    """Uncertainty that no further data would remove: the mean entropy of the members; None for regressors."""
    knowledge: Float[Array, "instances"]
    """Uncertainty that more data would remove: the mutual information of class and member, or members' variance."""


def virtual_ensemble(
    model: AdditiveTrees, X: InstancesLike, *, n_members: int = 10
) -> Float[Array, "instances members outputs"]:
    """Return the sums of each member of a virtual ensemble, before the link; the last member is the whole model.

    Members, arguments and errors are those of `AdditiveTrees.virtual_uncertainty`, but several outputs are allowed.
    """
    check_integer("n_members", n_members, 1)
    if model.averaged:
        raise ValueError(
            "the model averages its trees, and the first of them are no earlier model, as of boosted ones."
        )
    n_stages = model.n_trees // model.trees_per_stage
    period = n_stages // (2 * n_members)  # stages between members; the first has somewhat more than half of all
    if not period:
        raise ValueError(f"n_members={n_members} needs {2 * n_members} stages at least; the model has {n_stages}.")
    ends = [n_stages - (n_members - i) * period for i in range(1, n_members + 1)]
    return jnp.stack([sums for stage, sums in enumerate(model.staged(X), start=1) if stage in set(ends)], axis=1)


def _entropy(shares: Float[Array, "... classes"]) -> Float[Array, "..."]:
    """Return the entropy, in nats, of class probabilities ``shares``, over their last axis."""
    return -sum_in_order(jax.scipy.special.xlogy(shares, shares))


@way_to_forest.register
def _(model: AdditiveTrees) -> str:
    boosted = "" if model.is_forest else ", and its trees correct each other"
    return (
        f"Its leaves hold values{boosted}: no combiner merges such trees. Ask its raw and predict; or count instances "
        "that it was not fitted to: jaxunc.count_leaves(model.trees, X, y). See docs/libraries.md."
    )
