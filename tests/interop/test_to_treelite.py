"""Models as treelite's: its own inference of rules and ensembles, and what is refused."""

import sys

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor

import jaxunc as ju
from jaxunc.additive import AdditiveTrees
from jaxunc.interop import from_treelite, to_treelite
from jaxunc.interop._exported import plain_nodes
from tests._rules import make

from ._rows import near

treelite = pytest.importorskip("treelite", minversion="4.8")
from treelite import gtil  # noqa: E402

pytestmark = pytest.mark.once
N_TREES, N_FEATURES, ROWS = 9, 4, 2000


def data(n_classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, N_FEATURES)).round(1)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, np.digitize(np.nan_to_num(X[:, 0]) + rng.normal(size=300), np.linspace(-1, 1, n_classes - 1))


def forest_of(n_classes, min_samples_leaf=2):
    X, y = data(n_classes)
    model = RandomForestClassifier(N_TREES, random_state=0, min_samples_leaf=min_samples_leaf)
    return ju.from_sklearn(model.fit(X, y))


def rows(trees):
    """float64 rows at the numbers where float32 rounds to another side, and at other edges."""
    nodes = plain_nodes(trees, wide=True)
    own = [nodes.value[nodes.inner & (nodes.feature == j)] for j in range(trees.n_features)]
    return np.clip(near(own, ROWS, np.random.default_rng(1), np.float64), -3e38, 3e38)


RULES = [
    *("mean", "vote", "evidence", "evidence_published", "smoothed_mean", "weighted_mean", "mean_plausibility"),
    *("evidence_to_prior", "laplace", "weighted_vote"),
]


@pytest.mark.parametrize("n_classes", [2, 3, 10])
@pytest.mark.parametrize("name", RULES)
@pytest.mark.exhaustive(keep=8)
def test_rules(name, n_classes):
    forest = forest_of(n_classes)
    if name == "mean_plausibility" and n_classes > 2:
        pytest.skip("is of two classes")
    own = {
        "laplace": ju.Mean(ju.scorers.laplace),
        "weighted_vote": ju.Weighted(ju.Vote(), np.arange(N_TREES) % 3),
        "evidence": ju.EvidenceAccumulation(forest.prior),
        "smoothed_mean": ju.smoothing.SmoothedMean(
            ju.smoothing.DirichletPrior(forest.prior * 2, np.zeros((), np.int32))
        ),
    }
    named = name not in own and n_classes < 10
    if not (named or name in own):
        return
    bound = ju.bind(forest, make(name, n_classes, N_TREES) if named else own[name])
    X = rows(forest.trees)
    answer = bound.answer(X)
    found = gtil.predict(to_treelite(bound), X)[:, 0]
    # Ours rounds log evidence to float32 before it is a probability.
    tolerance = 1e-6 * max(1, np.abs(np.asarray(answer.class_scores)).max())
    np.testing.assert_allclose(found, answer.probability, rtol=0, atol=tolerance)


def test_scores_without_bound():
    forest = forest_of(2)
    bound = ju.bind(forest, ju.Mean(ju.scorers.linear))
    X = rows(forest.trees)
    np.testing.assert_allclose(gtil.predict(to_treelite(bound), X)[:, 0], bound(X), rtol=1e-6, atol=1e-6)


def test_trees_of_one_leaf():
    forest = forest_of(3, min_samples_leaf=200)
    bound = ju.bind(forest, ju.Mean())
    X = rows(forest.trees)
    np.testing.assert_allclose(gtil.predict(to_treelite(bound), X)[:, 0], bound.probability(X), atol=1e-6)


@pytest.mark.parametrize("name", ["two classes", "three classes", "numbers", "two numbers"])
@pytest.mark.exhaustive(keep=2)
def test_ensembles(name):
    X, y = data(3)
    twice = np.stack([np.nan_to_num(X[:, 0]), y], axis=1)
    model, targets = {
        "two classes": (HistGradientBoostingClassifier(max_iter=5), y > 1),
        "three classes": (HistGradientBoostingClassifier(max_iter=3), y),
        "numbers": (RandomForestRegressor(5), y),
        "two numbers": (RandomForestRegressor(5), twice),
    }[name]
    ensemble = ju.from_sklearn_values(model.fit(X, targets))
    made, X = to_treelite(ensemble), rows(ensemble.trees)
    expected = np.asarray(ensemble.predict(X))
    found = gtil.predict(made, X).reshape(len(X), -1)
    expected = expected[:, 1:] if name == "two classes" else expected.reshape(found.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    again = from_treelite(made)
    assert isinstance(again, AdditiveTrees)
    np.testing.assert_array_equal(again.raw(X), ensemble.raw(X))


def test_refusals(monkeypatch):
    forest = forest_of(2)
    bound = ju.bind(forest, ju.Mean())
    for rule in (ju.Pooling(), ju.DempsterRule(), ju.Weighted(ju.Pooling(), np.ones(N_TREES)), ju.Median()):
        with pytest.raises(ValueError, match=r"none of the combiners that treelite can finish.*Take to_onnx"):
            to_treelite(ju.bind(forest, rule))
    with pytest.raises(ValueError, match="weights that are not all 0"):
        to_treelite(ju.bind(forest, ju.Weighted(ju.Mean(), np.zeros(N_TREES))))
    with pytest.raises(ValueError, match="veto a class"):
        to_treelite(ju.bind(forest, ju.EvidenceAccumulation(forest.prior, smoothing=0)))
    with pytest.raises(ValueError, match="clipped"):
        to_treelite(ju.bind(forest, ju.Mean(lambda counts: 1.5 * ju.scorers.probability(counts))))
    with pytest.raises(TypeError, match="model is a Forest; pass a bound forest"):
        to_treelite(forest)
    ensemble = AdditiveTrees(forest.trees, forest.counts.astype(float), jnp.zeros(2), "one-vs-rest", 1, (0, 1))
    with pytest.raises(ValueError, match="'one-vs-rest' of 2 sums"):
        to_treelite(ensemble)
    monkeypatch.setitem(sys.modules, "treelite.model_builder", None)
    with pytest.raises(ImportError, match=r"treelite>=4\.8"):
        to_treelite(bound)
