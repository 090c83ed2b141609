"""JAX's settings that look for mistakes are for a user's own code: the library's answers are as without."""

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

import jaxunc as ju
from jaxunc import belief, decisions, learning, metrics, scorers, smoothing, voting
from jaxunc.estimators import (
    CautiousForestClassifier,
    CombinedForestClassifier,
    RandomDecisionTreesClassifier,
    TransductiveTreeClassifier,
)

pytestmark = [pytest.mark.once, pytest.mark.filterwarnings("ignore")]

X = np.random.default_rng(0).normal(size=(120, 3)).astype(np.float32)
y = (X[:, 0] + 0.3 * X[:, 1] > 0).astype(int)
COUNTS = np.array([[[3, 1], [0, 4], [2, 2]], [[5, 0], [4, 0], [0, 0]]])
PROBABILITIES = np.array([[0.9, 0.1], [1.0, 0.0], [0.3, 0.7], [0.5, 0.5]])
LABELS = np.array([0, 0, 1, 1])
MASSES = np.array([[0.0, 0.2, 0.3, 0.5], [0.0, 0.0, 0.9, 0.1], [0.0, 0.1, 0.1, 0.8]])
RULES = [
    name
    for name in ju.__all__
    if isinstance(kind := getattr(ju, name), type) and issubclass(kind, ju.Combiner) and kind is not ju.Combiner
]
MADE = {
    "AveragedIntervals": lambda: ju.AveragedIntervals(s=1.0),
    "EvidenceAccumulation": lambda: ju.EvidenceAccumulation([0.5, 0.5]),
    "ExplainedVote": lambda: ju.ExplainedVote(s=1.0),
    "GeneralizedVote": lambda: ju.GeneralizedVote(s=1.0),
    "LearnedPool": lambda: ju.LearnedPool([0.5, 0.5]),
    "Stack": lambda: ju.Stack([ju.Mean(), ju.Pooling()], [0.5, 0.5]),
    "Calibrated": lambda: ju.Calibrated(ju.Mean()),
    "OneVsRest": lambda: ju.OneVsRest(ju.Mean()),
    "Weighted": lambda: ju.Weighted(ju.Mean(), np.linspace(1, 2, 6)),
}


@cache
def _grown(n_trees: int) -> RandomForestClassifier:
    return RandomForestClassifier(n_trees, min_samples_leaf=2, random_state=0).fit(X, y)


def forest(n_trees: int = 6) -> ju.Forest:
    """A forest that is read anew, so that what is cached with it is computed anew."""
    return ju.from_sklearn(_grown(n_trees))


def boosted() -> Any:
    return ju.from_any(HistGradientBoostingClassifier(max_iter=3).fit(X, y))


masses = lambda: jnp.asarray(MASSES, jnp.float32)  # under the setting that is tried


def _of_rule(name: str) -> Any:
    """Of counts and bound."""
    rule = MADE.get(name, getattr(ju, name))()
    bound = ju.bind(forest(), rule)
    return rule(np.repeat(COUNTS, 2, axis=1)), bound(X), bound(X[:1]), jax.jit(bound)(X[:5])


METRICS, VOTE = ("accuracy", "brier_score", "log_loss", "calibration_error", "reliability_curve"), ju.Vote()
ENTRIES: dict[str, Callable[[], Any]] = {
    **{f"rule {name}": lambda name=name: _of_rule(name) for name in RULES},
    **{
        f"scorer {name}": lambda name=name: getattr(scorers, name)(COUNTS)
        for name in ("plausibility", "probability", "laplace", "linear", "likelihood_mass")
    },
    "scorer densities": lambda: (scorers.beta_densities(COUNTS), scorers.confidence_bounds(COUNTS)),
    "gradient": lambda: jax.grad(lambda c: ju.Pooling()(c).sum())(jnp.asarray(COUNTS, jnp.float32)),
    "bind inside": lambda: jax.jit(lambda rows: ju.bind(forest(), ju.Pooling()).probability(rows))(X[:5]),
    "export": lambda: ju.bind(forest(), ju.Mean()).export("probability"),
    "leaves": lambda: (
        *(ju.leaf_index(forest(), X), ju.leaf_counts(forest(), X), ju.count_leaves(forest(), X, y)),
        ju.inference.merge_leaves(forest(), ju.inference.leaf_table(forest(), VOTE), X, merge=VOTE.merge),
    ),
    "gradient of rows": lambda: jax.grad(
        lambda s: ju.bind(forest(), ju.EvidenceAccumulation([0.5, 0.5], smoothing=s)).log_probability(X).sum()
    )(0.5),
    "margin": lambda: ju.margin(ju.Mean()(COUNTS)),
    "settled": lambda: ju.predict_until_settled(forest(60), X),
    "settled vote": lambda: voting.bind_vote(forest(60))(X),
    "boosted": lambda: (boosted().predict(X), boosted().predict(X[:1])),
    "shard": lambda: ju.shard(ju.bind(forest(), ju.Mean()), jax.make_mesh((1, 1), ("data", "tree"))).probability(X),
    "random trees": lambda: RandomDecisionTreesClassifier(3, random_state=0).fit(X, y).predict_proba(X),
    "combined": lambda: CombinedForestClassifier(RandomForestClassifier(60, random_state=0)).fit(X, y).predict_proba(X),
    "cautious": lambda: CautiousForestClassifier(RandomForestClassifier(6, random_state=0)).fit(X, y).predict(X),
    "transductive": lambda: TransductiveTreeClassifier().fit(X[:40], y[:40]).predict_proba(X[:5]),
    "smoothing": lambda: (
        smoothing.smooth_forest(forest()),
        ju.bind(forest(), smoothing.SmoothedMean(smoothing.fit_forest_prior(forest())))(X),
    ),
    "learned": lambda: learning.fit_combiner(ju.LearnedPool([0.5, 0.5]), learning.dataset_from_counts(COUNTS, [0, 1])),
    "belief": lambda: [
        *(belief.combine_masses(masses()), belief.combine_masses(masses(), "cautious")),
        belief.pignistic(masses()),
    ],
    "intervals": lambda: (
        scorers.dominance(COUNTS[:, 0], s=1.0),
        decisions.interval_dominance(scorers.idm_interval(COUNTS[:, 0], s=1.0)),
    ),
    "metrics": lambda: [getattr(metrics, name)(PROBABILITIES, LABELS) for name in METRICS],
    "scores": lambda: (
        *(metrics.auc(PROBABILITIES[:, 1], LABELS), metrics.auc(PROBABILITIES[:2, 1], LABELS[:2])),
        metrics.risk_coverage_curve(PROBABILITIES[:, 0], LABELS == 0),
    ),
}
SETTINGS = {
    "jax_numpy_rank_promotion": "raise",
    "jax_debug_infs": True,
    "jax_debug_nans": True,
    "jax_check_tracer_leaks": True,
    "jax_disable_jit": True,
    "jax_numpy_dtype_promotion": "strict",
}


def _arrays(answer: Any) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(answer) if isinstance(leaf, np.ndarray | jax.Array | float)]


@pytest.fixture
def setting(request):
    """A setting for all threads, and what is compiled anew under it."""
    before = jax.config.values[request.param]
    jax.clear_caches()
    jax.config.update(request.param, SETTINGS[request.param])
    yield request.param
    jax.config.update(request.param, before)


@pytest.mark.room(keep=1)
@pytest.mark.parametrize("setting", SETTINGS, indirect=True)
@pytest.mark.parametrize("name", ENTRIES)
@pytest.mark.exhaustive(keep=5)
def test_answers_are_as_without(setting, name):
    answer = ENTRIES[name]()
    found = _arrays(answer)
    jax.config.update(
        setting, {"jax_numpy_rank_promotion": "allow", "jax_numpy_dtype_promotion": "standard"}.get(setting, False)
    )
    for own, plain in zip(found, _arrays(ENTRIES[name]()), strict=True):
        np.testing.assert_array_equal(own, plain)


def test_nan_of_ones_own_is_still_found():
    with jax.debug_nans(True):
        ju.bind(forest(), ju.Mean()).probability(X)
        with pytest.raises(FloatingPointError, match="nan"):
            jax.jit(jnp.sqrt)(-1.0).block_until_ready()
