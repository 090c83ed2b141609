"""Mistakes that type checkers find. Checked alone: each comment must silence something. (It would not run.)"""

import jax
import jax.numpy as jnp
import numpy as np

import jaxunc as ju
from jaxunc.decisions import CautiousReport


def misspelt(counts: jax.Array, forest: ju.Forest, X: np.ndarray) -> None:
    ju.Mean().probabilty(counts)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    ju.bind(forest, ju.Mean()).probabilty(X)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    ju.Mean().answer(counts).probs  # pyright: ignore  # noqa: B018
    ju.Meen()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    ju.estimators.CombinedForest()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


def without_probabilities(counts: jax.Array, forest: ju.Forest, X: np.ndarray) -> None:
    ju.GeneralizedVote(1.0).probability(counts)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    ju.bind(forest, CautiousReport(1.0)).score(X)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


def no_rule(forest: ju.Forest) -> None:
    ju.bind(forest, "mean")  # pyright: ignore[reportArgumentType, reportCallIssue]
    ju.bind(forest, ju.Mean)  # pyright: ignore[reportArgumentType, reportCallIssue]
    ju.bind(forest, ju.Mean(), walk="levls")  # pyright: ignore[reportArgumentType, reportCallIssue]


def no_data(forest: ju.Forest) -> None:
    ju.bind(forest, ju.Mean())(None)  # pyright: ignore[reportArgumentType, reportCallIssue]
    ju.count_leaves(forest, jnp.ones((3, 2)), 3)  # pyright: ignore[reportArgumentType]
