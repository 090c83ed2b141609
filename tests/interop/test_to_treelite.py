"""Models as treelite's: its own inference of rules and ensembles, and what is refused."""

import sys

import jax.numpy as jnp
import numpy as np
import pytest

import jaxunc as ju
from jaxunc.additive import AdditiveTrees
from jaxunc.interop import from_treelite, to_treelite
from tests._rules import make

from ._made import N_TREES, ROWS, ensemble_of, forest_of, rows

treelite = pytest.importorskip("treelite", minversion="4.8")
from treelite import gtil  # noqa: E402

pytestmark = pytest.mark.once


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
    X = rows(forest.trees, ROWS, np.float64, wide=True)
    answer = bound.answer(X)
    found = gtil.predict(to_treelite(bound), X)[:, 0]
    # Ours rounds log evidence to float32 before it is a probability.
    tolerance = 1e-6 * max(1, np.abs(np.asarray(answer.class_scores)).max())
    np.testing.assert_allclose(found, answer.probability, rtol=0, atol=tolerance)


def test_scores_without_bound_and_trees_of_one_leaf():
    forest = forest_of(2)
    bound = ju.bind(forest, ju.Mean(ju.scorers.linear))
    X = rows(forest.trees, ROWS, np.float64, wide=True)
    np.testing.assert_allclose(gtil.predict(to_treelite(bound), X)[:, 0], bound(X), rtol=1e-6, atol=1e-6)
    bound = ju.bind(forest_of(3, min_samples_leaf=200), ju.Mean())
    np.testing.assert_allclose(gtil.predict(to_treelite(bound), X)[:, 0], bound.probability(X), atol=1e-6)


@pytest.mark.parametrize("name", ["two classes", "three histograms", "numbers", "two numbers"])
@pytest.mark.exhaustive(keep=2)
def test_ensembles(name):
    ensemble = ensemble_of(name)
    made, X = to_treelite(ensemble), rows(ensemble.trees, ROWS, np.float64, wide=True)
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
    others = ju.Pooling(), ju.DempsterRule(), ju.Weighted(ju.Pooling(), np.ones(N_TREES)), ju.Median()
    for rule, said in (
        *((rule, r"none of the combiners that treelite can finish.*Take to_onnx") for rule in others),
        (ju.Weighted(ju.Mean(), np.zeros(N_TREES)), "weights that are not all 0"),
        (ju.EvidenceAccumulation(forest.prior, smoothing=0), "veto a class"),
        (ju.Mean(lambda counts: 1.5 * ju.scorers.probability(counts)), "clipped"),
    ):
        with pytest.raises(ValueError, match=said):
            to_treelite(ju.bind(forest, rule))
    with pytest.raises(TypeError, match="model is a Forest; pass a bound forest"):
        to_treelite(forest)
    ensemble = AdditiveTrees(forest.trees, forest.counts.astype(float), jnp.zeros(2), "one-vs-rest", 1, (0, 1))
    with pytest.raises(ValueError, match="'one-vs-rest' of 2 sums"):
        to_treelite(ensemble)
    monkeypatch.setitem(sys.modules, "treelite.model_builder", None)
    with pytest.raises(ImportError, match=r"treelite>=4\.8"):
        to_treelite(bound)
