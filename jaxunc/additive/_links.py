"""Links: what the sums of leaf values mean."""

from collections.abc import Callable
from typing import Literal, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxunc._numerics import softmax, sum_in_order

Link = Literal["identity", "logistic", "softmax", "one-vs-rest", "exp"]
LINKS: tuple[str, ...] = get_args(Link)
"""``"identity"``: the sums themselves; ``"exp"``: their exponentials; ``"logistic"``: each is the log-odds of a
probability; ``"softmax"``: the probabilities of all; ``"one-vs-rest"``: logistic ones, divided by their sum."""


def _one_vs_rest(raw: Float[Array, "... outputs"]) -> Float[Array, "... outputs"]:
    own = jax.nn.sigmoid(raw)
    return own / sum_in_order(own, keepdims=True)


_APPLY: dict[str, Callable[[Array], Array]] = {
    "identity": lambda raw: raw,
    "exp": jnp.exp,
    "logistic": jax.nn.sigmoid,
    "softmax": softmax,
    "one-vs-rest": _one_vs_rest,
}


def apply_link(link: str, raw: Float[Array, "... outputs"], n_classes: int | None) -> Array:
    """Return what the sums mean: ``[... outputs]``, or class probabilities ``[... classes]``.

    One log-odds ratio for two classes is the second one's.
    """
    if n_classes == 2 and raw.shape[-1] == 1:
        raw = jnp.concatenate([-raw, raw], axis=-1)
    return _APPLY[link](raw)
