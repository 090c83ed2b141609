"""Virtual ensembles: what the parts of one boosted model say about its uncertainty."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxunc._checks import check_integer, check_kind
from jaxunc._numerics import sum_in_order
from jaxunc.tables import InstancesLike

from ._links import apply_link
from ._tree_ensemble import AdditiveTrees


class AdditiveUncertainty(NamedTuple):
    """Uncertainty of each instance: in nats for classes, in squared units of the target for one number."""

    data: Float[Array, "instances"] | None
    """What no further data would remove: the mean entropy of the members; None for regressors, which do not tell it."""
    knowledge: Float[Array, "instances"]
    """What more data would: the mutual information of class and member, or the variance of the members."""


def virtual_ensemble(
    model: AdditiveTrees, X: InstancesLike, *, n_members: int = 10
) -> Float[Array, "instances members outputs"]:
    r"""Return the sums of members that are parts of one boosted model: its first stages, up to all of them.

    With T stages and K members, the i-th member, i = 1 … K, has the first T - (K - i) ⌊T / 2K⌋.

    Parameters
    ----------
    model
        A boosted model.
    X
        Instances, as for `bind`.
    n_members
        Members, K; at most half as many as stages.

    Returns
    -------
    Float[Array, "instances members outputs"]
        Sums before the link. The last member is the model.

    Raises
    ------
    TypeError, ValueError
        As `AdditiveTrees.raw`; if there are fewer than 2 K stages, K < 1, or trees are averaged, as in forests.

    References
    ----------
    Malinin, Prokhorenkova and Ustimenko 2021, "Uncertainty in gradient boosting via ensembles", section 4. Models that
    were boosted with noise (SGLB) are sampled from a posterior by it; of others members are alike, and it ranks only.
    """
    check_kind("model", model, AdditiveTrees, "a AdditiveTrees, such as from_xgboost(model)")
    check_integer("n_members", n_members, 1)
    if model.averaged:
        raise ValueError(
            "the model averages its trees, and the first of them are no earlier model, as of boosted ones."
        )
    n_stages = model.n_trees // model.trees_per_stage
    period = n_stages // (2 * n_members)
    if not period:
        raise ValueError(f"n_members={n_members} needs {2 * n_members} stages at least; the model has {n_stages}.")
    ends = [n_stages - (n_members - i) * period for i in range(1, n_members + 1)]
    return jnp.stack([sums for stage, sums in enumerate(model.staged(X), start=1) if stage in set(ends)], axis=1)


def uncertainty(model: AdditiveTrees, X: InstancesLike, *, n_members: int = 10) -> AdditiveUncertainty:
    """Return how uncertain the model is of each instance, and of which kind, by a `virtual_ensemble`.

    Of classes: data is (1/K) Σ H(p_i), knowledge H((1/K) Σ p_i) less that, H the entropy in nats. Of one number:
    knowledge is the variance of the members' predictions (over K). Errors: as of `virtual_ensemble`; a
    ValueError for regressors of several outputs.

    Parameters
    ----------
    model, X, n_members
        See `virtual_ensemble`.
    """
    members = virtual_ensemble(model, X, n_members=n_members)
    if model.class_labels is None:
        if model.n_outputs > 1:
            raise ValueError(f"the model predicts {model.n_outputs} numbers; ask one at a time.")
        return AdditiveUncertainty(None, jnp.var(apply_link(model.link, members, None)[..., 0], axis=1))
    shares = apply_link(model.link, members, len(model.class_labels))
    data = _entropy(shares).mean(axis=1)
    return AdditiveUncertainty(data, jnp.maximum(_entropy(shares.mean(axis=1)) - data, 0))


def _entropy(shares: Float[Array, "... classes"]) -> Float[Array, "..."]:
    return -sum_in_order(jax.scipy.special.xlogy(shares, shares))
