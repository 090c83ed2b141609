"""Map of predictions between two kinds of uncertainty, and of those that are wrong."""

from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int32, Real

from jaxunc._checks import check_integer, check_within
from jaxunc._numerics import jit

from ._instances import Labels, as_array, as_floats, check_column, check_no_nan, checked_labels


class UncertaintyMap(NamedTuple):
    """Numbers of instances by their aleatoric (first axis) and epistemic uncertainty (second axis)."""

    size: Int32[Array | np.ndarray, "bins bins"]
    """Number of all instances in each bin."""
    errors: Int32[Array | np.ndarray, "bins bins"]
    """Number of instances in each bin whose prediction is wrong."""
    aleatoric_edges: Float[Array | np.ndarray, "edges"]
    """Edges of the bins of the first axis: where each begins and the last one ends, one more than bins."""
    epistemic_edges: Float[Array | np.ndarray, "edges"]
    """Edges of the bins of the second axis, likewise."""


def uncertainty_map(
    aleatoric: Real[Array | np.ndarray, "instances"],
    epistemic: Real[Array | np.ndarray, "instances"],
    correct: Labels,
    *,
    n_bins: int = 20,
    upper: tuple[float, float] = (1.0, 1.0),
) -> UncertaintyMap:
    r"""Two-dimensional histogram of the instances by aleatoric and epistemic uncertainty, and of the wrong ones.

    With the edges :math:`e_a = u\,a/B` of an axis whose upper limit is u, and those of the other axis likewise:

    .. math:: size_{ab} = \sum_i [e_a \le aleatoric_i < e_{a+1}]\,[e_b \le epistemic_i < e_{b+1}], \qquad
              errors_{ab} = \text{the same sum over the wrong predictions}

    Parameters
    ----------
    aleatoric
        Uncertainty that more data would not remove, of each prediction.
    epistemic
        Uncertainty for want of data, of each prediction.
    correct
        Whether the prediction was right: bool, or 0 and 1.
    n_bins
        Number of bins B ≥ 1 of each axis.
    upper
        Upper limits > 0 of the aleatoric and the epistemic axis. An entropy in bits of K classes is at most log₂ K:
        1 for two classes.

    Returns
    -------
    UncertaintyMap
        ``size`` and ``errors`` ``[bins bins]``, ``aleatoric_edges`` and ``epistemic_edges`` ``[bins + 1]``.

    Raises
    ------
    ValueError
        If the shapes do not fit, there are no instances, n_bins < 1, or a limit is not positive and finite. Outside a
        trace also if an uncertainty is NaN or ``correct`` not 0 or 1.
    TypeError
        If ``correct`` is neither integer nor bool, or n_bins is no integer.

    Notes
    -----
    An edge belongs to the bin above it. Values at and beyond a limit are in the last bin, values below 0 (by rounding)
    in the first, so all instances are somewhere. Under a trace instances with NaN, or with a ``correct`` that is not 0
    or 1, are left out. Counts of folds add: a few hundred numbers stand for millions of points.
    Cost O(n B). No gradient: the answer is integers.

    References
    ----------
    Senge et al. 2014; Hüllermeier and Waegeman 2021 (the two kinds).

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> aleatoric, epistemic = jnp.array([0.1, 0.2, 0.9, 1.0]), jnp.array([0.0, 0.1, 0.6, 0.3])
    >>> drawn = uncertainty_map(aleatoric, epistemic, jnp.array([1, 1, 0, 1]), n_bins=2)
    >>> print(drawn.size.tolist(), drawn.errors.tolist(), drawn.aleatoric_edges)
    [[2, 0], [1, 1]] [[0, 0], [0, 1]] [0.  0.5 1. ]
    """
    check_integer("n_bins", n_bins, 1)
    ends = ", two positive numbers: the ends of both axes. For entropies in bits of K classes take log2(K)"
    check_within("upper", upper, "(0, inf)", ends, shape=(2,))
    given, edges = {"aleatoric": aleatoric, "epistemic": epistemic}, []
    axes = {name: as_array(values, name=name) for name, values in given.items()}
    for (name, values), limit in zip(axes.items(), upper, strict=True):
        check_column(values, name=name, remedy="An uncertainty per class has to be summed over the classes.")
        check_no_nan(values, name=name)
        axes[name] = as_floats(values)
        edges.append(jnp.asarray(np.arange(n_bins + 1) / n_bins * float(limit), axes[name].dtype))
    correct = checked_labels(correct, axes["aleatoric"].shape[0], 2, name="correct")
    if axes["epistemic"].shape != correct.shape:
        raise ValueError(
            f"epistemic has shape {axes['epistemic'].shape} and aleatoric {correct.shape}; expected both of each "
            "prediction, in the same order."
        )
    return UncertaintyMap(*_counts(*axes.values(), correct, *edges), *edges)


@jit
def _counts(aleatoric, epistemic, correct, aleatoric_edges, epistemic_edges):
    n_bins = aleatoric_edges.shape[0] - 1
    row, column = _bin_of(aleatoric, aleatoric_edges), _bin_of(epistemic, epistemic_edges)
    known = (correct >= 0) & (correct < 2) & ~jnp.isnan(aleatoric) & ~jnp.isnan(epistemic)
    count = partial(jnp.zeros((n_bins, n_bins), jnp.int32).at[row, column].add, mode="promise_in_bounds")
    return count(known.astype(jnp.int32)), count((known & (correct == 0)).astype(jnp.int32))


def _bin_of(values, edges):
    """Return the number of inner edges that the value has reached: its bin."""
    return jnp.sum(values[:, None] >= edges[None, 1:-1], axis=1, dtype=jnp.int32)
