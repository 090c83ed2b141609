"""The description of a generator, and the checks that all draws share."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, Int32, Num

from jaxunc._checks import check_integer, check_key

Drawn = tuple[Float32[Array, "instances features"], Int32[Array, "instances"]]
"""Instances, and the class of each."""


class Generator(NamedTuple):
    """A synthetic problem: how to draw from it, and the best that any classifier can do on it.

    All classes are equally likely, so the Bayes-optimal decision is the class with the largest likelihood.

    Examples
    --------
    >>> import jax
    >>> from benchmarks.problems import GENERATORS
    >>> generator = GENERATORS["twonorm"]
    >>> X, y = generator.draw(jax.random.key(0), 2000)
    >>> error = (generator.bayes_class(X) != y).mean()
    >>> print(bool(abs(error - generator.bayes_error) < 0.01))
    True
    """

    name: str
    draw: Callable[..., Drawn]
    """The function ``(key, n)`` of the same name."""
    log_density: Callable[[Float[Array, "instances features"]], Float[Array, "instances classes"]]
    """Logarithm of the density (of the probability, where features are discrete) of instances given each class."""
    n_features: int
    n_classes: int
    bayes_error: float
    """The error of `bayes_class`, below which no classifier gets: by integration, to the digits given."""

    def log_likelihood(self, X: Num[Array | np.ndarray, "instances features"]) -> Float[Array, "instances classes"]:
        """Log p(x given c) of instances, for each class; a ValueError unless they have the generator's features."""
        X = jnp.asarray(X)
        if X.shape[1] != self.n_features:
            raise ValueError(f"X has {X.shape[1]} features; {self.name} has {self.n_features}.")
        return self.log_density(X if jnp.issubdtype(X.dtype, jnp.floating) else X.astype(jnp.float32))

    def posterior(self, X: Num[Array | np.ndarray, "instances features"]) -> Float[Array, "instances classes"]:
        """P(c given x), the probabilities that no estimate betters; a ValueError as for `log_likelihood`."""
        return jax.nn.softmax(self.log_likelihood(X), axis=1)

    def bayes_class(self, X: Num[Array | np.ndarray, "instances features"]) -> Int32[Array, "instances"]:
        """The likeliest class, of equals the lowest; a ValueError as for `log_likelihood`."""
        return jnp.argmax(self.log_likelihood(X), axis=1).astype(jnp.int32)


def checked_size(key, n) -> int:
    """Return the number of instances as Python's int, if that and the key are what a draw takes."""
    check_key(key)
    check_integer("n", n, 1, "; it is the number of instances to draw")
    return int(n)


def log_normal(X: Float[Array, "instances features"], mean, variance: float = 1.0) -> Float[Array, "instances"]:
    """Return the log density of the normal distribution with that mean and the covariance ``variance`` · I."""
    apart = X - jnp.asarray(mean, X.dtype)[None, :]
    n_features = X.shape[1]
    return -0.5 * (jnp.sum(apart**2, axis=1) / variance + n_features * float(np.log(2 * np.pi * variance)))
