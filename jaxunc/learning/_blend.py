"""Averages of several rules, weighted by rows that they were not learned from."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax
import numpy as np

from jaxunc.combiners import Combiner, Stack

from ._choose import cross_fits
from ._rows import OobDataset
from ._watch import Told

HELD = 1.0
"""Prior weight of each candidate, in rows, before any row is seen."""


class StackResult(NamedTuple):
    """Result of `stack_combiners`: an average of rules that have learned from all rows."""

    combiner: Stack
    weights: dict[str, float]
    """Weight of every candidate in the average, adding to 1."""
    losses: dict[str, float]
    """Log loss of every candidate, on rows that it was not learned from."""
    loss: float
    """Log loss of the average."""


def stack_combiners(
    candidates: Mapping[str, Combiner | Sequence[Combiner]],
    rows: OobDataset,
    *,
    n_folds: int | None = None,
    key: jax.Array | None = None,
    progress: Told = None,
) -> StackResult:
    r"""Learn several rules, and average their probabilities by how well they do in a cross-validation over the rows.

    .. math:: \max_v \; \sum_i \log \sum_k v_k P_k^{(-i)}(y_i) + \sum_k \log v_k

    P⁽⁻ⁱ⁾ is learned without row i's fold (stacking, Wolpert 1992). The second sum is a prior worth one row for each
    candidate. Where rows do not tell which is better, both count, which costs little.

    Parameters
    ----------
    candidates, rows, n_folds, key, progress
        See `select_combiner`. Rules learn by their log loss, and answer with probabilities.

    Returns
    -------
    StackResult
        The average as a `Stack`, its weights, and the losses.

    Raises
    ------
    ValueError, TypeError
        As `select_combiner` does.

    Notes
    -----
    Costs a fit of every candidate for all rows, and one per fold. The rule reads both counts if any candidate does.
    """
    crossed = cross_fits(candidates, rows, "log", n_folds, key, progress)
    y, weight = np.asarray(rows.y)[: rows.n], np.asarray(rows.weight, float)[: rows.n]
    own = np.zeros((len(candidates), rows.n))
    for place, rules in zip(own, crossed.rules.values(), strict=True):
        for k, rule in enumerate(rules):
            here = crossed.fold == k
            # What each candidate says of a row's class, learned without the row's fold.
            place[here] = np.asarray(rows.answer(rule).log_probability, float)[here, y[here]]
    shares = _weights(own, weight)
    mixed = np.logaddexp.reduce(own + np.log(shares)[:, None], axis=0)
    mean = lambda logs: float(-(weight @ logs) / weight.sum())  # noqa: E731
    names = list(crossed.fits)
    return StackResult(
        combiner=Stack({name: crossed.fits[name].combiner for name in names}, shares),
        weights=dict(zip(names, shares.tolist(), strict=True)),
        losses={name: mean(logs) for name, logs in zip(names, own, strict=True)},
        loss=mean(mixed),
    )


def _weights(log_shares: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the best weights of the candidates' probabilities for each row's class, by expectation maximisation."""
    found = np.full(len(log_shares), 1 / len(log_shares))
    # The objective is concave in the weights, so expectation and maximisation cannot end in a wrong place.
    for _ in range(200):
        parts = log_shares + np.log(found)[:, None]
        told = np.exp(parts - np.logaddexp.reduce(parts, axis=0)) @ weight + HELD
        found = told / told.sum()
    return found
