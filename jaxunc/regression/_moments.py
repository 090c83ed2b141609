"""Means and variances of leaves: the prediction of a forest, and its aleatoric and epistemic variance.

`LeafMoments` stores each leaf's mean and variance in place of class counts, and binds them to a combiner. So masks,
missing values and chunks work as for every bound forest.
"""

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from jaxunc._checks import check_numbers, check_readable, check_within, is_concrete, warn
from jaxunc._numerics import safe_divide, two_sum
from jaxunc._types import PyTree
from jaxunc.combiners import Combiner
from jaxunc.counting import PureLeavesWarning
from jaxunc.forest import Forest, Trees, check_trees
from jaxunc.inference import BoundForest, bind, leaf_index
from jaxunc.interop import from_any, library_of
from jaxunc.tables import Columns, InstancesLike, MaskLike, NumbersLike

VARIANCES = ("squared_error", "friedman_mse")
"""Criteria of scikit-learn whose impurity is the variance."""
SMALLEST = 1e-150
"""Smallest size of a nonzero target whose square does not underflow; the largest size is its reciprocal."""
LOST = 1e-4
"""Largest accepted rounding error, as a share of the difference between two leaves."""
AGREED, LOST_BY_SQUARES = 2.0**-40, 2.0**-27
"""Two relative errors. A variance below 2^-40 of the mean square counts as rounding in sums of some 2^12 terms. And a
standard deviation from summed squares is off by 2^-27 of the mean, since half of float64's digits are lost."""


class Moments(NamedTuple):
    """A forest's answer for a number: float64 arrays ``[instances]``, NaN where no tree counts."""

    mean: np.ndarray
    """The mean of the leaves' means: the prediction."""
    aleatoric: np.ndarray
    """The mean of the leaves' variances, which more data would not reduce."""
    epistemic: np.ndarray
    """The variance of the leaves' means (divided by the number of trees): how far trees disagree."""

    @property
    def std(self) -> np.ndarray:
        """The standard deviation of a target drawn from the leaf of a random tree: √(aleatoric + epistemic)."""
        return np.sqrt(self.aleatoric + self.epistemic)


class MomentSums(Combiner[Any]):
    """Combiner that sums the leaves' means, squared means and variances over trees.

    Columns of a leaf: its mean, its variance, and the square of the mean as a sum of two floats.
    """

    merge: ClassVar[PyTree] = {"mean": "exact_sum", "variance": "sum", "square": ["exact_sum", "sum"], "number": "sum"}

    def lift(self, counts: Array) -> PyTree:
        """Return a leaf's statistic by name: its columns, which ``counts [... columns]`` hold, and 1 as "number"."""
        mean, variance, *square = (counts[..., i] for i in range(4))
        return {"mean": mean, "variance": variance, "square": square, "number": jnp.ones((), counts.dtype)}

    def finish(self, stat: PyTree) -> PyTree:
        """Return the sums ``stat`` unchanged; `in_doubles` divides them in float64."""
        return stat

    def in_doubles(self, sums: PyTree, xp: Any = np) -> tuple[Any, Any, Any]:
        """Return (mean of the leaves' means, mean of their variances, variance of their means).

        ``sums`` are those of `finish` in float64, as arrays of the module ``xp``: NumPy or ``jax.numpy``.
        """
        n_trees = sums["number"]
        # Exact sums are pairs of floats.
        mean_high, mean_low = sums["mean"]
        (square_high, square_low), square_rest = sums["square"]
        mean = (mean_high + mean_low) / n_trees
        mean_square = (square_high + (square_low + square_rest)) / n_trees
        variance = mean_square - mean**2
        # Where trees agree, the difference is rounding.
        epistemic = xp.where(variance < AGREED * mean_square, 0.0, variance)
        return mean, sums["variance"] / n_trees, epistemic

    def of_one(self, stat: PyTree) -> tuple[Any, Any, Any]:
        """Return the three numbers of `in_doubles` for the merged statistic ``stat``, inside a 64-bit JAX program."""
        return self.in_doubles(jax.tree.map(lambda part: part.astype(float), stat), jnp)


class MomentsByTree(Combiner[Any]):
    """Combiner that keeps the mean of each tree's leaf, for forests where sums of squares would lose too many digits.

    Columns of a leaf: its mean, its variance, and the remainder that rounding took from the mean.
    """

    merge: ClassVar[PyTree] = {"mean": "collect", "variance": "sum"}

    def lift(self, counts: Array) -> PyTree:
        """Return a leaf's statistic by name: "mean", a list of two floats that add up to it, and "variance".

        ``counts [... 3]`` hold a leaf's mean as a float, its variance, and the remainder that rounding took from the
        mean.
        """
        return {"mean": [counts[..., 0], counts[..., 2]], "variance": counts[..., 1]}

    def finish(self, stat: PyTree) -> tuple[Array, ...]:
        """Return five arrays: three that add up to the mean, the mean variance, and the variance of the means.

        ``stat`` has the mean of each tree's leaf, NaN where the tree is masked, and the sum of the leaves' variances.
        """
        by_tree = [jnp.moveaxis(part, -1, 0) for part in stat["mean"]]
        zero = jnp.zeros(by_tree[0].shape[1:], by_tree[0].dtype)

        def include(carry: tuple[Array, ...], tree: list[Array]) -> tuple[tuple[Array, ...], None]:
            """Add a tree's leaf to the carry, and return the carry and None, as `jax.lax.scan` expects.

            The carry: number of trees, the first tree's mean, and two floats that add up to the sum of offsets from
            that mean. Last are Welford's mean and sum of squared deviations of the offsets.
            """
            n_trees, origin, high, low, mean, squares = carry
            is_present = ~jnp.isnan(tree[0])
            # Offsets from the first tree's mean: where trees agree these are exactly 0, however large the mean is.
            origin = jnp.where(is_present & (n_trees == 0), tree[0], origin)
            offset = jnp.where(is_present, tree[0] - origin + tree[1], 0)
            n_trees = n_trees + is_present.astype(n_trees.dtype)
            high, error = two_sum(high, offset)
            deviation = jnp.where(is_present, offset - mean, 0)  # Welford's update of mean and squared deviations
            mean = mean + deviation / jnp.maximum(n_trees, 1)
            squares = squares + deviation * jnp.where(is_present, offset - mean, 0)
            return (n_trees, origin, high, low + error, mean, squares), None

        n_trees, origin, high, low, _, squares = lax.scan(include, (zero,) * 6, by_tree)[0]
        means = (safe_divide(part, n_trees, jnp.nan) for part in (high, low, stat["variance"], squares))
        return origin, *means

    def in_doubles(self, parts: tuple[Any, ...]) -> tuple[Any, Any, Any]:
        """Return (mean of the leaves' means, mean of their variances, variance of their means).

        ``parts`` are the five arrays of `finish`, in float64.
        """
        origin, shift, rest, aleatoric, epistemic = parts
        return origin + (shift + rest), aleatoric, epistemic

    def of_one(self, stat: PyTree) -> tuple[Any, Any, Any]:
        """Return the three numbers of `in_doubles` for the merged statistic ``stat``, inside a 64-bit JAX program."""
        high, low = (part.astype(float) for part in stat["mean"])
        means = high + low
        offset = means - means[0]
        mean = jnp.mean(offset)
        return means[0] + mean, stat["variance"].astype(float) / len(means), jnp.mean((offset - mean) ** 2)


class LeafMoments:
    r"""Mean, aleatoric and epistemic variance of a regression forest's answers, from its leaves' means and variances.

    .. math:: m = \frac1T \sum_t m_t, \quad \text{aleatoric} = \frac1T \sum_t v_t, \quad
              \text{epistemic} = \frac1T \sum_t (m_t - m)^2

    with :math:`m_t` the answer of tree t, and :math:`v_t` the variance of the targets in the leaf that it reaches
    (divided by their number). By the law of total variance, aleatoric and epistemic add up to the variance of a target
    drawn from the leaf of a random tree.

    Parameters
    ----------
    model
        A fitted forest, bag or tree of scikit-learn that predicts one number, or a random forest of another library
        that `jaxunc.from_any` takes (XGBoost's with one round, LightGBM's ``boosting_type="rf"``), or an
        `AdditiveTrees` that is a forest.
    X, y
        Rows from which the leaves' variances are computed. Default: scikit-learn's own variances, of the rows that grew
        the trees, with bags and sample weights. Only its trees of squared errors keep these; other models need rows.
        The leaves' means are the model's own in any case.
    weight
        How often each row counts in each tree, ``[instances trees]``, or in all trees, ``[instances]``, ≥ 0: sample
        weights times multiplicities; 0 where a tree has not seen a row. Default 1.
    shrinkage
        Strength of a prior, in rows: a leaf of n rows with the variance v gets (n v + shrinkage V) / (n + shrinkage),
        where V is the mean of the leaves' variances, weighted by their rows. A leaf without rows gets V.

    Raises
    ------
    TypeError
        If the model is a classifier, or of an unknown kind.
    ValueError
        If it is boosted, predicts several numbers, is not fitted, or keeps no variances and no rows are given. If
        targets are not finite numbers ``[instances]``, or differ by so little beside their size that scikit-learn's own
        variances have lost their digits: then pass X and y.

    Notes
    -----
    A leaf of one row has variance 0. So without shrinkage the aleatoric variance of grown-out trees is small: rely on
    the sum, `Moments.std`. A leaf stores how far its mean lies from the middle of all leaves' means, as a float32. This
    offset and its square are summed to twice that precision. Where float32 would lose the difference between sibling
    leaves, the offset is two floats, kept for each tree, which takes half as long again. The epistemic variance is
    exactly 0 where trees agree. Under ``jax_enable_x64`` all is float64.

    References
    ----------
    Hutter, Xu, Hoos and Leyton-Brown 2014, "Algorithm runtime prediction", section 4.1, for the sum of both parts.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from jaxunc.regression import LeafMoments
    >>> X, y = load_diabetes(return_X_y=True)
    >>> forest = RandomForestRegressor(50, min_samples_leaf=5, random_state=0).fit(X, y)
    >>> moments = LeafMoments(forest).answer(X[:3])
    >>> bool((abs(moments.mean - forest.predict(X[:3])) < 1e-4).all()), moments.std.shape
    (True, (3,))
    """

    bound: BoundForest
    """The forest, with the leaves' means and variances in place of counts."""
    centre: float
    """Number that is subtracted from the leaves' means."""
    scale: float
    """Power of two by which the centred means are divided, and variances by its square."""
    spread: float
    """Total variance of the targets: the mean of the leaves' variances, plus the variance of their means."""
    support: tuple[float, float] = (-math.inf, math.inf)
    """Range in which quantiles lie."""
    separates_doubt = True
    """Whether aleatoric and epistemic variance are told apart."""

    def __init__(
        self,
        model: Any,
        X: InstancesLike | None = None,
        y: NumbersLike | None = None,
        *,
        weight: NumbersLike | None = None,
        shrinkage: float = 0.0,
    ):
        check_within("shrinkage", shrinkage, "[0, inf)", ", in rows")
        leaves = leaf_means(model)
        trees, mean = leaves.trees, leaves.mean
        if (X is None) != (y is None):
            raise ValueError("X and y are given together or not at all; pass both.")
        if X is None and weight is not None:
            raise ValueError("weight is read with the rows X and y alone; pass these, or leave weight out.")
        if X is not None:
            n_rows, variance = _count_rows(trees, X, y, weight)
        elif leaves.row_moments is None:
            raise ValueError(f"{leaves.why} Pass the rows X and y to be counted in its leaves.")
        else:
            n_rows, variance = leaves.row_moments
        is_leaf = np.asarray(trees.is_leaf)
        mean_variance = np.average(variance[is_leaf], weights=n_rows[is_leaf]) if n_rows[is_leaf].any() else 0.0
        variance = _shrink(variance, n_rows, mean_variance, shrinkage)
        # Less the centre, means keep their digits as floats; in units of the scale none, and no variance, exceeds 1.
        low, high = mean[is_leaf].min(), mean[is_leaf].max()
        self.centre = float(low + (high - low) / 2)
        largest = max(high - low, math.sqrt(float(variance[is_leaf].max())))
        self.scale = 2.0 ** math.frexp(largest)[1] if largest > 0 else 1.0  # a power of two: division is exact
        # Leaves count alike; but one whose rows weighed less than 1 when they grew it counts for less.
        leaf_weight = np.minimum(n_rows[is_leaf], 1) if X is None else np.ones(np.sum(is_leaf))
        overall_mean = np.average(mean[is_leaf], weights=leaf_weight)
        self.spread = float(mean_variance + np.average((mean[is_leaf] - overall_mean) ** 2, weights=leaf_weight))
        offset = np.where(is_leaf, (mean - self.centre) / self.scale, 0)
        scaled_variance = np.where(is_leaf, variance / self.scale**2, 0)
        self.bound = _bind_moments(trees, _leaf_table(trees, offset, scaled_variance))

    @classmethod
    def of(cls, leaves: "LeafTable") -> "LeafMoments":
        """Return the moments that the table ``leaves`` describes; raise a ValueError if the table is damaged."""
        trees = check_trees(leaves.trees)
        _check_leaf_table(leaves, trees)
        moments = object.__new__(cls)
        moments.centre = float(leaves.centre)
        moments.scale = float(leaves.scale)
        moments.spread = float(leaves.spread)
        moments.bound = _bind_moments(trees, leaves.table)
        return moments

    @property
    def columns(self) -> Columns:
        """The columns of the data that the trees read."""
        return self.bound.columns

    @property
    def kept(self) -> "LeafTable":
        """The table from which `of` makes the same moments."""
        forest = self.bound.forest
        columns = slice(3 if isinstance(self.bound.combiner, MomentsByTree) else 2)
        return LeafTable(forest.trees, forest.count_table[:, columns], self.centre, self.scale, self.spread)

    @cached_property
    def is_pure(self) -> bool:
        """Whether each leaf's targets are all equal, up to rounding, while leaves differ."""
        largest_variance = self.scale**2 * float(np.asarray(self.bound.forest.count_table)[:, 1].max(initial=0))
        # Up to rounding of variances and means.
        return largest_variance < 1e-9 * self.spread and math.sqrt(self.spread) > 1e-12 * abs(self.centre)

    def warn_of_one_doubt(self) -> None:
        """Warn if leaves are pure: all uncertainty then looks epistemic."""
        if self.is_pure:
            warn(
                "every leaf of this forest holds one number alone, so aleatoric variance is 0 and all doubt is "
                "epistemic, whatever the data are. Take leaves of several rows, such as min_samples_leaf=5.",
                PureLeavesWarning,
            )

    def answer(self, X: InstancesLike, *, tree_mask: MaskLike | None = None) -> Moments:
        """Return mean, aleatoric and epistemic variance of each instance.

        Parameters
        ----------
        X
            Instances, as for `bind`.
        tree_mask
            Whether a tree counts for an instance, booleans ``[instances trees]``. For a training row, the trees that
            have not seen it. Default: all. An instance without a tree gets NaN.

        Returns
        -------
        Moments
            Arrays of float64 on the host, ``[instances]`` each.

        Raises
        ------
        TypeError
            If X or ``tree_mask`` is traced by JAX: sums are divided in float64 on the host.
        """
        if not is_concrete(X, tree_mask):
            raise TypeError(
                "X or tree_mask is traced: what is said of numbers is put together in float64 on the host. Ask outside "
                "of jit, grad and vmap; or trace what it is made of, moments.bound.answer(X)."
            )
        sums = jax.tree.map(lambda part: np.asarray(part, np.float64), self.bound.answer(X, tree_mask=tree_mask))
        combiner: Any = self.bound.combiner
        with np.errstate(invalid="ignore"):  # rows without a tree
            return self._scaled(*combiner.in_doubles(sums))

    def _scaled(self, mean: Any, aleatoric: Any, epistemic: Any) -> Moments:
        """Return moments in the target's units; ``mean`` is (mean - `centre`) / `scale`, variances are / `scale`²."""
        return Moments(self.centre + self.scale * mean, self.scale**2 * aleatoric, self.scale**2 * epistemic)

    @property
    def parts(self) -> tuple[BoundForest]:
        """The bound forests that the model answers by, as `to_onnx` and `shard` ask: here one."""
        return (self.bound,)

    def over(self, transform: Callable[[Any], Any]) -> "LeafMoments":
        """Return the moments with the bound forest replaced by ``transform(bound)``, as `shard` does."""
        moments = object.__new__(LeafMoments)
        vars(moments).update(vars(self) | {"bound": transform(self.bound), "is_pure": self.is_pure})
        return moments

    def of_sums(self, stat: PyTree) -> dict[str, Any]:
        """Return one instance's mean, std, aleatoric and epistemic variance, by name, inside a 64-bit JAX program.

        ``stat`` is the merged statistic of the bound forest's combiner.
        """
        combiner: Any = self.bound.combiner
        moments = self._scaled(*combiner.of_one(stat))
        std = jnp.sqrt(moments.aleatoric + moments.epistemic)
        return {"mean": moments.mean, "std": std, "aleatoric": moments.aleatoric, "epistemic": moments.epistemic}


class LeafTable(NamedTuple):
    """Contents of `LeafMoments` in a file: for each node a row with (mean - centre) / scale and variance / scale².

    A third column, if there is one, has the remainder that rounding took from the mean, for `MomentsByTree`.
    """

    trees: Trees
    table: Array  # ``[trees·nodes 2]``, or ``[trees·nodes 3]`` with remainders
    centre: float
    scale: float
    spread: float


def _check_leaf_table(leaves: LeafTable, trees: Trees) -> None:
    """Raise a ValueError unless the table ``leaves`` fits its ``trees``, and its numbers are in range."""
    table = np.asarray(leaves.table)
    if table.dtype.kind != "f" or table.ndim != 2 or table.shape[1] not in (2, 3):
        raise ValueError(
            f"the table of leaves has {table.dtype} and shape {table.shape}; expected floats in two or three columns."
        )
    if len(table) != trees.n_trees * trees.n_nodes:
        raise ValueError(f"the table has {len(table)} rows for {trees.n_trees} trees of {trees.n_nodes} nodes.")
    # In units of the scale no centred mean, no variance and no remainder is larger than 1; a variance is not negative.
    least = [-1, 0, -1][: table.shape[1]]
    if not ((np.abs(table) <= 1) & (table >= least)).all():
        raise ValueError("the table of leaves holds means or variances beyond the scale, or none.")
    is_finite = np.isfinite([leaves.centre, leaves.scale, leaves.spread]).all()
    if not (is_finite and leaves.scale > 0 and leaves.spread >= 0):
        raise ValueError(f"centre={leaves.centre}, scale={leaves.scale} or spread={leaves.spread} is out of range.")


def _shrink(variance: np.ndarray, n_rows: np.ndarray, mean_variance: Any, shrinkage: float) -> np.ndarray:
    """Return the leaves' variances drawn towards ``mean_variance`` by ``shrinkage`` rows, ``[trees nodes]``.

    ``variance`` and ``n_rows``, the weight of the rows in each leaf, are ``[trees nodes]``. Leaves without rows get
    ``mean_variance``.
    """
    divisor = n_rows + float(shrinkage)
    shrunk = (n_rows * variance + shrinkage * mean_variance) / np.maximum(divisor, 1e-300)
    return np.where(divisor > 0, shrunk, mean_variance)


def _leaf_table(trees: Trees, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Return the table of a `LeafTable` from its centred and scaled means and variances, both ``[trees nodes]``.

    It has a column of remainders where floats would lose the differences between sibling leaves.
    """
    columns = [mean, variance]
    remainder = mean - mean.astype(jnp.result_type(float))
    # Without remainders a mean is off by its rounding, and a standard deviation by what sums of squares lose.
    if _is_lost(trees, mean, np.maximum(np.abs(remainder), LOST_BY_SQUARES * np.abs(mean))):
        columns.append(remainder)
    return np.stack(columns, axis=-1).reshape(mean.size, len(columns))


def _bind_moments(trees: Trees, table: Array | np.ndarray) -> BoundForest:
    """Return ``trees`` bound to the columns of a `LeafTable`: by `MomentsByTree` if there are three, else `MomentSums`.

    For `MomentSums` two columns are added, whose sum is the squared mean: one float would lose digits.
    """
    dtype = jnp.result_type(float)
    if table.shape[1] == 3:
        return bind_table(trees, jnp.asarray(table, dtype), MomentsByTree())
    with np.errstate(over="ignore"):
        table = np.asarray(table).astype(dtype)
        square = table[:, 0].astype(np.float64) ** 2
        remainder = square - square.astype(dtype)
        columns = np.column_stack([table, square.astype(dtype), remainder.astype(dtype)])
    return bind_table(trees, jax.device_put(columns), MomentSums())


def bind_table(trees: Trees, table: Array, combiner: Combiner[Any]) -> BoundForest:
    """Return ``trees`` bound to a ``combiner`` that reads a node's row of ``table`` in place of class counts.

    ``table [trees*nodes numbers]`` has a row for each node, tree after tree.
    """
    n_columns = table.shape[1]
    forest = Forest(
        trees=trees,
        count_table=table,
        code=jax.device_put(np.arange(len(table), dtype=np.int32).reshape(trees.is_leaf.shape)),
        prior=jnp.full(n_columns, 1 / n_columns),
        n_samples=jnp.zeros(()),
        class_labels=tuple(range(n_columns)),
    )
    return bind(forest, combiner)


class LeafMeans(NamedTuple):
    """Means of a forest's leaves, and the variances that the model keeps of them: float64 ``[trees nodes]``."""

    trees: Trees
    mean: np.ndarray
    row_moments: tuple[np.ndarray, np.ndarray] | None
    """Weight and variance of each leaf's rows; None if the model keeps no variances."""
    why: str = ""
    """The reason why the model keeps no variances, for a message."""


def leaf_means(model: Any) -> LeafMeans:
    """Return the means, and if it has them the variances, of the leaves of a regression forest ``model``.

    A `LeafMeans` is returned unchanged. Raises a TypeError or a ValueError for models that `LeafMoments` does not take.
    """
    if isinstance(model, LeafMeans):
        return model
    name = type(model).__name__
    is_grown = hasattr(model, "estimators_features_") or hasattr(model, "criterion")
    if library_of(model) == "sklearn" and is_grown and not (hasattr(model, "loss") or hasattr(model, "classes_")):
        return _read_grown_leaves(model, name)
    ensemble = from_any(model)
    if isinstance(ensemble, Forest) or ensemble.class_labels is not None:
        raise TypeError(f"model is a {name} of classes; pass one that predicts numbers.")
    if ensemble.n_outputs > 1:
        raise ValueError(f"model predicts {ensemble.n_outputs} numbers; fit one model for each.")
    if not ensemble.is_forest:
        raise ValueError(
            f"model is a {name} whose {ensemble.n_trees // ensemble.trees_per_stage} stages of trees correct each "
            "other: their leaves hold corrections, and no targets. Grow a forest (scikit-learn's "
            "RandomForestRegressor, XGBoost's XGBRFRegressor, LightGBM's boosting_type='rf'); of the boosted model ask "
            "jaxunc.from_any(model).virtual_uncertainty(X)."
        )
    if ensemble.link != "identity":
        raise ValueError(f"model is a {name} whose sums go through {ensemble.link!r}: its leaves hold no targets.")
    mean = np.asarray(ensemble.values, np.float64)[:, :, 0] * ensemble.n_trees + float(np.asarray(ensemble.base)[0])
    why = f"model is a {name}, whose leaves hold no variances."
    return LeafMeans(ensemble.trees, mean, row_moments=None, why=why)


def _read_grown_leaves(model: Any, name: str) -> LeafMeans:
    """Return the leaves' means and variances in a fitted scikit-learn forest; messages call its class ``name``.

    ``row_moments`` is None, with a reason, if the criterion keeps no variances or rounding took their digits.
    """
    # Imported here, since it loads scikit-learn.
    from jaxunc.interop import grown_leaves

    trees, size, mean, variance = grown_leaves(model)
    is_leaf = np.asarray(trees.is_leaf)
    first_tree = getattr(model, "estimators_", [model])[0]
    if first_tree.criterion not in VARIANCES:
        why = f"model is a {name} grown by {first_tree.criterion!r}, whose leaves hold no variances."
        return LeafMeans(trees, mean, row_moments=None, why=why)
    eps = float(np.finfo(np.float64).eps)
    # Rounding errors of scikit-learn's variances, which are differences of float64 sums of squares; 8 is a safe factor.
    rounding = 8 * eps * np.sqrt(np.maximum(size, 1)) * mean**2
    spread = float(np.var(mean[is_leaf]))
    largest = float(np.abs(mean[is_leaf]).max())
    usual_variance = max(float(np.mean(variance[is_leaf])), spread)
    # Single leaves without bags have one mean: nothing tells constant targets from variances that are lost.
    has_bags = getattr(model, "bootstrap", False) and len(mean) > 1
    is_unclear = not has_bags and is_leaf[:, 0].all() and largest > 0 and size[:, 0].max() > 1
    means_differ = spread > (8 * eps * largest) ** 2
    all_lost = rounding[is_leaf].max() > LOST * usual_variance and (is_unclear or means_differ)
    # By these roots `_is_lost` compares the rounding of variances with `LOST` times the squares of gaps.
    if all_lost or _is_lost(trees, mean, np.sqrt(LOST * rounding)):
        why = (
            f"model is a {name} of targets up to {largest:.6g} that differ by so little, if at all, that the variances "
            "which scikit-learn keeps have lost their digits."
        )
        return LeafMeans(trees, mean, row_moments=None, why=why)
    return LeafMeans(trees, mean, (size, np.where(variance > rounding, variance, 0)))


def checked_target(y: Any, n: int, name: str = "y", *, squared: bool = False) -> np.ndarray:
    """Return the targets ``y`` as float64 ``[instances]``.

    Raises a ValueError or a TypeError, which calls them ``name``, unless they are n finite numbers; with ``squared``
    also if their squares overflow, or all underflow to 0.
    """
    check_readable(name, y)
    array = np.asarray(y)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}; pass one number for each instance: one model a target.")
    if array.dtype.kind in "cmM":
        raise TypeError(f"{name} holds {array.dtype}, which are no numbers; pass real ones.")
    try:
        numbers = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} holds {array.dtype} that are no numbers: {error}.") from error
    if len(numbers) != n:
        raise ValueError(f"{name} has {len(numbers)} numbers for {n} instances; pass one for each.")
    if not np.isfinite(numbers).all():
        index = int(np.argmin(np.isfinite(numbers)))
        raise ValueError(
            f"{name} holds {numbers[index]} at position {index}; leave out rows whose target is not known."
        )
    largest = np.abs(numbers).max(initial=0)
    if squared and not (largest == 0 or SMALLEST <= largest <= 1 / SMALLEST):
        raise ValueError(f"{name} holds numbers of up to {largest:.3g}, whose squares are none; divide it by that.")
    return numbers


def checked_weight(weight: Any, n: int, n_trees: int) -> np.ndarray:
    """Return the rows' weights as float64, ``[instances trees]``, or ``[instances 1]`` if they hold for all trees.

    None gives ones. Raises a ValueError unless there are n weights for all trees, or n for each of ``n_trees``, finite
    and ≥ 0.
    """
    if weight is None:
        return np.ones((n, 1))
    check_numbers("weight", weight)
    numbers = np.asarray(weight, np.float64)
    numbers = numbers[:, None] if numbers.ndim == 1 else numbers
    if numbers.shape not in ((n, 1), (n, n_trees)) or not (np.isfinite(numbers).all() and (numbers >= 0).all()):
        raise ValueError(
            f"weight has shape {np.shape(weight)}; pass finite numbers >= 0, ({n},) of each instance or "
            f"{(n, n_trees)} of each in each tree."
        )
    return numbers


def _count_rows(trees: Trees, X: Any, y: Any, weight: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return (weight of the rows X in each leaf, variance of their targets y), both ``[trees nodes]``.

    ``weight`` is the argument of `LeafMoments`. Raises a ValueError if all weights are 0.
    """
    leaves = np.asarray(leaf_index(trees, X))
    target = checked_target(y, len(leaves), squared=True)
    weights = checked_weight(weight, len(leaves), trees.n_trees)
    # Centred, so that sums of targets keep their digits.
    has_weight = weights.any(axis=1)
    target = target - (target[has_weight].mean() if has_weight.any() else 0)
    size, variance = np.zeros((2, trees.n_trees, trees.n_nodes))
    for t, leaf in enumerate(leaves.T):
        tree_weight = weights[:, min(t, weights.shape[1] - 1)]  # one column serves all trees
        size[t] = np.bincount(leaf, tree_weight, trees.n_nodes)
        divisor = np.where(size[t] > 0, size[t], 1)
        mean = np.bincount(leaf, tree_weight * target, trees.n_nodes) / divisor
        variance[t] = np.bincount(leaf, tree_weight * (target - mean[leaf]) ** 2, trees.n_nodes) / divisor
    if not size.any():
        raise ValueError("no instance has a positive weight; there is nothing to count.")
    return size, variance


def _is_lost(trees: Trees, mean: np.ndarray, error: np.ndarray) -> bool:
    """Return whether rounding hides the gap between the means of sibling leaves, in over 1 % of the pairs of siblings.

    A gap is hidden if the rounding error of a mean exceeds `LOST` times the gap. ``mean`` and ``error``, the rounding
    errors, are ``[trees nodes]``. Means that are equal up to rounding have no gap.
    """
    is_leaf = np.asarray(trees.is_leaf)
    child = np.asarray(trees.child)
    # The right child comes after the left one. Leaves have none: what they get is left out below.
    left = np.where(is_leaf, 0, child)
    right = np.minimum(left + 1, child.shape[1] - 1)

    def of_siblings(array: np.ndarray) -> list[np.ndarray]:
        """Return the values of ``array [trees nodes]`` at the left and at the right child of each node."""
        return [np.take_along_axis(array, side, axis=1) for side in (left, right)]

    are_leaves = ~is_leaf & np.logical_and(*of_siblings(is_leaf))
    left_mean, right_mean = of_siblings(mean)
    gap = np.abs(left_mean - right_mean)[are_leaves]
    if not len(gap):
        return False
    largest_error = np.abs(np.stack(of_siblings(error))).max(axis=0)[are_leaves]
    has_gap = gap > 1e-13 * np.abs(left_mean)[are_leaves]
    return bool(np.mean((largest_error > LOST * gap) & has_gap) > 0.01)
