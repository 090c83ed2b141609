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
        """Return the scales that a kept table describes; raises a ValueError if the table is damaged."""
        trees, values, base = check_trees(table.trees), np.asarray(table.table), table.base
        if values.dtype.kind != "f" or values.shape != (trees.n_trees * trees.n_nodes, 2):
            raise ValueError(f"the table of leaves has {values.dtype} and shape {values.shape}; expected pairs.")
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
        """The range of the model's means, which no quantile leaves."""
        return LINKS[self.kept.link][1]

    def answer(self, X: InstancesLike) -> Moments:
        """Return the mean and s² of each instance; raise an error for X that a bound forest would refuse."""
        return self._moments(np.asarray(self._sums(X), np.float64), np)

    def _moments(self, sums: Any, xp: Any) -> Moments:
        """Return the moments for the two ``sums [... 2]`` over trees; ``xp`` is NumPy or ``jax.numpy``."""
        mean, log_square = sums[..., 0] + self.kept.base[0], sums[..., 1] + self.kept.base[1]
        square = xp.exp(xp.clip(log_square, -LARGEST_LOG, LARGEST_LOG)) + self.kept.floor
        return Moments(LINKS[self.kept.link][0](mean, xp), square, xp.zeros_like(square))

    @cached_property
    def parts(self) -> tuple[BoundForest]:
        """The bound forests that the model answers by, as `to_onnx` and `shard` ask: here one, of both sums."""
        return (bind_table(self.kept.trees, self.kept.table, LeafSum()),)

    def over(self, transform: Callable[[Any], Any]) -> "LeafScales":
        """Return the scales with their bound forest replaced by ``transform(forest)``, as `shard` does."""
        scales, (bound,) = object.__new__(LeafScales), self.parts
        forest = transform(bound)
        vars(scales).update(vars(self) | {"parts": (forest,), "_sums": lambda X: forest.answer(X).value})
        return scales

    def of_sums(self, stat: Any) -> dict[str, Any]:
        """Return one instance's moments, by name, from the merged sums ``stat``, inside a 64-bit JAX program."""
        moments = self._moments(stat.high.astype(float) + stat.low.astype(float), jnp)
        zero = jnp.zeros_like(moments.mean)
        columns = {"mean": moments.mean, "std": jnp.sqrt(moments.aleatoric)}
        return columns | {"aleatoric": moments.aleatoric, "epistemic": zero}


def scale_steps(
    leaves: np.ndarray, residual: np.ndarray, weight: np.ndarray, shrinkages: Sequence[float], n_nodes: int
) -> tuple[float, np.ndarray]:
    r"""Return the base of log s² and each leaf's step ``[shrinkages trees nodes]``, learned from residuals.

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
    rms = math.sqrt(np.average(residual**2, weights=weight)) or 1.0
    log_square = 2 * np.log(np.abs(residual) + OFFSET * rms)
    base = float(np.average(log_square, weights=weight))
    remainder = np.tile(log_square - base, (len(shrinkages), 1))
    steps, is_unweighted = np.zeros((len(shrinkages), len(leaves), n_nodes)), (weight == 1).all()
    for t, leaf in enumerate(leaves):  # in order: each tree learns what the trees before it left of log |r|²
        leaf = leaf.astype(np.intp)
        rows = np.bincount(leaf, None if is_unweighted else weight, n_nodes)
        for step, rest, shrinkage in zip(steps[:, t], remainder, shrinkages, strict=True):
            step[:] = RATE * np.bincount(leaf, rest if is_unweighted else weight * rest, n_nodes) / (rows + shrinkage)
            rest -= step.take(leaf)
    return base, steps


def scale_table(model: AdditiveTrees, base: float, steps: np.ndarray, floor: float, spread: float) -> ScaleTable:
    """Return a `ScaleTable`: each node's value in a boosted model, and its step of log s² in ``steps [trees nodes]``.

    ``base`` is added to the sum of steps, and ``floor`` to s²; ``spread`` is the mean square of the residuals.
    """
    value, is_leaf = np.asarray(model.values, np.float64)[:, :, 0], np.asarray(model.trees.is_leaf)
    # Less the middle of each tree's leaves: a base that a library hides in a tree takes no digits from the others.
    low, high = (end(np.where(is_leaf, value, -limit), axis=1) for end, limit in ((np.min, -np.inf), (np.max, np.inf)))
    middle = low + (high - low) / 2
    value = np.where(is_leaf, value - middle[:, None], 0)
    table = np.stack([value, steps], axis=-1).reshape(-1, 2)
    bases = np.array([float(np.asarray(model.base)[0]) + middle.sum(), base])
    return ScaleTable(model.trees, jnp.asarray(table, jnp.result_type(float)), bases, model.link, floor, spread)
