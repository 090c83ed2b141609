"""Accuracy."""

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Real

from jaxunc._numerics import jit

from ._instances import Labels, as_array, as_floats, check_columns, checked_labels, nan_unless_classes
from ._ranking import checked_scores


def accuracy(
    class_scores: Real[Array | np.ndarray, "instances classes"],
    y: Labels,
) -> Float[Array, ""]:
    r"""Share of instances whose class has the largest class score.

    .. math:: \frac1n \sum_i [\arg\max_c s_{ic} = y_i]

    Parameters
    ----------
    class_scores
        A number per class, larger is better; probabilities serve as well. The lowest index wins ties.
    y
        Class indices ``[instances]`` in [0, classes).

    Returns
    -------
    Array
        A scalar in [0, 1].

    Raises
    ------
    ValueError
        If the shapes do not fit, there are no instances or, outside a trace, a class score is NaN or a label no class.
    TypeError
        If the labels are neither integer nor bool.

    Notes
    -----
    Scores that are all -inf (every class vetoed) are a tie. Under a trace NaN and labels that are no class give NaN.
    NumPy's 64-bit numbers are compared as they are, on the host. Hits are counted as integers, exactly. Gradient: 0.

    References
    ----------
    Busch et al. 2021, whose code takes class 1 on binary ties instead.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(accuracy(jnp.array([[0.2, 0.8], [0.5, 0.5], [0.4, 0.6], [0.1, 0.9]]), jnp.array([1, 0, 0, 1])))
    0.75
    """
    class_scores = as_array(class_scores, name="class_scores")
    check_columns(class_scores, name="class_scores")
    y = checked_labels(y, *class_scores.shape)
    return _accuracy(checked_scores(class_scores, name="class_scores"), y)


@jit
def _accuracy(class_scores, y):
    n, n_classes = class_scores.shape
    hits = jnp.sum(lax.argmax(class_scores, axis=1, index_dtype=jnp.int32) == y, dtype=jnp.int32)
    share = hits.astype(as_floats(class_scores).dtype) / n
    share = jnp.where(jnp.any(jnp.isnan(class_scores)), jnp.nan, share)
    return nan_unless_classes(share, y, n_classes)
