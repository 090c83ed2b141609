"""The mean of a boosted model, and the size of its errors, as two values of each leaf.

A boosted model's trees split rows where its mean changes, and errors often change there, too. So each leaf gets a
second value, a step of log s², where s² is the variance of errors; one walk adds both.
"""

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxunc._numerics import unit_weight
from jaxunc.additive import AdditiveTrees, LeafSum
from jaxunc.forest import Trees, check_trees
from jaxunc.inference import BoundForest
from jaxunc.tables import Columns, InstancesLike

from ._moments import Moments, bind_table

LINKS: dict[str, tuple[Callable[[Any, Any], Any], tuple[float, float]]] = {
    "identity": (lambda raw, xp: raw, (-math.inf, math.inf)),
    "exp": (lambda raw, xp: xp.exp(raw), (0.0, math.inf)),
    "logistic": (lambda raw, xp: 1 / (1 + xp.exp(-raw)), (0.0, 1.0)),
}
"""By name of a model's link: the inverse of the link, from the sum of leaves to the mean, and the means' range."""
RATE = 0.1
"""Share of a leaf's step that is taken, so that later trees correct earlier ones."""
OFFSET = 0.05
"""Share of the residuals' root mean square that is added to each |residual| before its logarithm is taken."""
LARGEST_LOG = 700.0
"""The largest log s² whose exponential is a float64."""


class ScaleTable(NamedTuple):
    """Contents of `LeafScales` in a file: for each node a row with its value of the mean and its step of log s²."""

    trees: Trees
    table: Array
    base: np.ndarray
    """Numbers that are added to the two sums over trees ``[2]``: of values, and of steps of log s²."""
    link: str  # key of `LINKS`
    floor: float  # number that is added to s²
    spread: float  # mean square of the residuals


class LeafScales:
    r"""A boosted model's mean, and the standard deviation of its errors.

    .. math:: m(x) = g\Big(b + \sum_t v_t(x)\Big), \quad s^2(x) = \text{floor} + \exp\Big(c + \sum_t u_t(x)\Big)

    with :math:`v_t` the model's own values, g the inverse of its link, and :math:`u_t` what `scale_steps` learns of
    residuals of rows that the model has not seen. ``answer`` returns m, and s² in the place of the aleatoric variance.
    The epistemic variance is 0: residuals do not tell it from the aleatoric one.
    """

    separates_doubt = False

    def __init__(self, table: ScaleTable):
        self.kept = table
        values = table.table.reshape(*table.trees.is_leaf.shape, 2)
        self._sums: Callable[[InstancesLike], Array] = AdditiveTrees(table.trees, values, jnp.zeros(2), "identity").raw

    @classmethod
    def of(cls, table: ScaleTable) -> "LeafScales":
        """Return the scales that the contents ``table`` of a file describe; raise a ValueError if they are damaged."""
        trees = check_trees(table.trees)
        values = np.asarray(table.table)
        base = table.base
        shape = (trees.n_trees * trees.n_nodes, 2)
        if values.dtype.kind != "f" or values.shape != shape:
            raise ValueError(
                f"the table of leaves has {values.dtype} and shape {values.shape}; expected floats of shape {shape}."
            )
        if table.link not in LINKS or base.shape != (2,) or base.dtype != np.float64:
            raise ValueError(f"scales have the link {table.link!r:.40} and a base of shape {base.shape}.")
        if not (np.isfinite(values).all() and np.isfinite([*base, table.floor, table.spread]).all()):
            raise ValueError("values of leaves, the base, floor or spread of scales are not finite.")
        if table.floor < 0 or table.spread < 0:
            raise ValueError(f"floor={table.floor} or spread={table.spread} is below 0.")
        return cls(table)

    @property
    def columns(self) -> Columns:
        """The columns of the data that the trees read."""
        return self.kept.trees.columns

    @property
    def spread(self) -> float:
        """The mean square of the residuals."""
        return self.kept.spread

    @property
    def support(self) -> tuple[float, float]:
        """The range in which the model's means and quantiles lie: that of the inverse of its link."""
        return LINKS[self.kept.link][1]

    def answer(self, X: InstancesLike) -> Moments:
        """Return the moments of each instance: its mean, s² as the aleatoric variance, and an epistemic variance of 0.

        ``X`` are instances as for `bind`, whose errors are raised.
        """
        return self._moments(np.asarray(self._sums(X), np.float64), np)

    def _moments(self, sums: Any, xp: Any) -> Moments:
        """Return the moments for ``sums [... 2]``: the sums over trees of values, and of steps of log s².

        ``xp`` is the module of the array ``sums``: NumPy or ``jax.numpy``.
        """
        raw_mean = sums[..., 0] + self.kept.base[0]
        log_square = sums[..., 1] + self.kept.base[1]
        square = xp.exp(xp.clip(log_square, -LARGEST_LOG, LARGEST_LOG)) + self.kept.floor
        inverse_link, _ = LINKS[self.kept.link]
        return Moments(mean=inverse_link(raw_mean, xp), aleatoric=square, epistemic=xp.zeros_like(square))

    @cached_property
    def parts(self) -> tuple[BoundForest]:
        """The bound forests that the model answers by, as `to_onnx` and `shard` ask: here one, which adds both sums."""
        return (bind_table(self.kept.trees, self.kept.table, LeafSum()),)

    def over(self, transform: Callable[[Any], Any]) -> "LeafScales":
        """Return the scales with their bound forest replaced by ``transform(forest)``, as `shard` does."""
        scales = object.__new__(LeafScales)
        (bound,) = self.parts
        forest = transform(bound)
        vars(scales).update(vars(self) | {"parts": (forest,), "_sums": lambda X: forest.answer(X).value})
        return scales

    def of_sums(self, stat: Any) -> dict[str, Any]:
        """Return one instance's mean, std, aleatoric and epistemic variance, by name, inside a 64-bit JAX program.

        ``stat`` is the merged statistic of `LeafSum`.
        """
        moments = self._moments(stat.high.astype(float) + stat.low.astype(float), jnp)
        zero = jnp.zeros_like(moments.mean)
        columns = {"mean": moments.mean, "std": jnp.sqrt(moments.aleatoric)}
        return columns | {"aleatoric": moments.aleatoric, "epistemic": zero}


def scale_steps(
    leaves: np.ndarray, residual: np.ndarray, weight: np.ndarray, shrinkages: Sequence[float], n_nodes: int
) -> tuple[float, np.ndarray]:
    r"""Return (base of log s², step of each leaf ``[shrinkages trees nodes]``), learned from residuals.

    .. math:: u = \nu\,\frac{\sum_i w_i\,(e_i - \eta_i)}{\sum_i w_i + \lambda}, \quad
              e_i = \log\big(|r_i| + 0.05\,\sigma\big)^2

    over the rows i of the leaf, tree by tree; :math:`\eta` is the base and the steps of the trees before, λ a
    shrinkage, and σ the root of the mean square. A leaf without rows has the step 0.

    Parameters
    ----------
    leaves
        The leaves that rows reach, ``[trees rows]``.
    residual, weight
        Residuals of a model that has not seen the rows, and how often each counts, ``[rows]``.
    shrinkages
        Values of λ, for each of which steps are learned: a step shrinks as if its leaf had λ more rows with e = η.
    n_nodes
        Number of nodes of a tree.
    """
    weight = weight / unit_weight(weight)  # a shrinkage is a number of rows
    rms = math.sqrt(np.average(residual**2, weights=weight)) or 1.0
    log_square = 2 * np.log(np.abs(residual) + OFFSET * rms)
    base = float(np.average(log_square, weights=weight))
    remainder = np.tile(log_square - base, (len(shrinkages), 1))
    steps = np.zeros((len(shrinkages), len(leaves), n_nodes))
    is_unweighted = (weight == 1).all()
    for t, leaf in enumerate(leaves):  # in order: each tree learns what the trees before it left of log |r|²
        leaf = leaf.astype(np.intp)
        n_rows = np.bincount(leaf, None if is_unweighted else weight, n_nodes)
        for k, shrinkage in enumerate(shrinkages):
            weighted = remainder[k] if is_unweighted else weight * remainder[k]
            steps[k, t] = RATE * np.bincount(leaf, weighted, n_nodes) / (n_rows + shrinkage)
            remainder[k] -= steps[k, t].take(leaf)
    return base, steps


def scale_table(model: AdditiveTrees, base: float, steps: np.ndarray, floor: float, spread: float) -> ScaleTable:
    """Return the `ScaleTable` of a boosted model with the ``steps [trees nodes]`` of log s².

    ``base`` is added to the sum of steps, and ``floor`` to s²; ``spread`` is the mean square of the residuals.
    """
    value = np.asarray(model.values, np.float64)[:, :, 0]
    is_leaf = np.asarray(model.trees.is_leaf)
    # Each tree's leaves less their middle, since the size of a base that a library hides in one tree would cost digits.
    low = np.min(np.where(is_leaf, value, np.inf), axis=1)
    high = np.max(np.where(is_leaf, value, -np.inf), axis=1)
    middle = low + (high - low) / 2
    value = np.where(is_leaf, value - middle[:, None], 0)
    table = np.stack([value, steps], axis=-1).reshape(-1, 2)
    bases = np.array([float(np.asarray(model.base)[0]) + middle.sum(), base])
    return ScaleTable(model.trees, jnp.asarray(table, jnp.result_type(float)), bases, model.link, floor, spread)
