"""Fields of rules: those that differ from tree to tree, and the domain in which each may be learned."""

from typing import Any, Literal, get_args

import equinox as eqx

from jaxunc._checks import check_one_of, check_within

Domain = Literal["real", "positive", "unit", "simplex", "log_simplex", "ordered", "fixed"]
DOMAINS = get_args(Domain)
"""Where a learned number may lie: see `learned_field`."""


def learned_field(domain: Domain = "real", *, spread: float = 1.0, nearest: float = 0.01, **kwargs: Any) -> Any:
    """Declare a field of a `Combiner` that `jaxunc.learning.fit_combiner` may change, and where its values lie.

    Parameters
    ----------
    domain
        ``"real"``; ``"positive"``; ``"unit"``, between 0 and 1; along the last axis ``"simplex"``, probabilities
        (a single number: that of class 1), ``"log_simplex"``, their logarithms, or ``"ordered"``, increasing;
        ``"fixed"``, not to be learned. Array fields that declare nothing are real.
    spread
        Expected move of the value from where it starts, as a standard deviation: a difference of a real number, of the
        logarithm of a positive one, of the log odds between 0 and 1 and on a simplex. Learning a value from few
        instances is held back accordingly; by one instance's log loss at one standard deviation.
    nearest
        Where learning starts from a bound of the domain, from which nothing pulls a value away: so far from it.
    **kwargs
        As for `equinox.field`.

    Returns
    -------
    Any
        What `equinox.field` returns, for the body of a class.
    """
    return eqx.field(metadata=_metadata(domain, spread, nearest), **kwargs)


def tree_field(domain: Domain = "real", *, spread: float = 1.0, nearest: float = 0.01, **kwargs: Any) -> Any:
    """Declare a field of a `Combiner` with one entry per tree along its leading axis (a weight, a reliability).

    `lift` sees the entry of its own tree; binding, blocks and shards slice the field alike. A number without axes is
    shared by all trees.

    Parameters
    ----------
    domain, spread, nearest
        See `learned_field`.
    **kwargs
        As for `equinox.field`.

    Returns
    -------
    Any
        What `equinox.field` returns, for the body of a class.
    """
    return eqx.field(metadata={"per_tree": True, **_metadata(domain, spread, nearest)}, **kwargs)


def _metadata(domain: Domain, spread: float, nearest: float) -> dict[str, Any]:
    check_one_of("domain", domain, DOMAINS)
    check_within("spread", spread, "(0, inf)")
    check_within("nearest", nearest, "(0, inf)")
    return {"domain": domain, "spread": float(spread), "nearest": float(nearest)}
