"""Models as treelite's: its own inference of rules and ensembles, and what is refused."""

import dataclasses
import datetime
import sys

import jax.numpy as jnp
import numpy as np
import pytest

import jaxunc as ju
from jaxunc.additive import AdditiveTrees
from jaxunc.interop import from_treelite, to_treelite
from tests._exhaustive import a_few_of
from tests._refusal import refusals
from tests._rules import make

from ._made import N_TREES, ROWS, ensemble_of, forest_of, rows
from ._rows import answers_of, raw_of

treelite = pytest.importorskip("treelite", minversion="4.8")
from treelite import gtil  # noqa: E402

pytestmark = pytest.mark.once


NAMED = ("mean", "vote", "evidence_published", "weighted_mean", "evidence_to_prior", "mean_plausibility")


def rules(n_classes):
    prior = forest_of(n_classes).prior
    of_leaves = ju.smoothing.DirichletPrior(2 * np.asarray(prior), np.zeros((), np.int32))
    made = {
        "laplace": ju.Mean(ju.scorers.laplace),
        "weighted_vote": ju.Weighted(ju.Vote(), np.arange(N_TREES) % 3),
        "evidence": ju.EvidenceAccumulation(prior),
        "smoothed_mean": ju.smoothing.SmoothedMean(of_leaves),
    }
    names = NAMED[: {2: 6, 3: 5}.get(n_classes, 0)]
    return made | {name: make(name, n_classes, N_TREES) for name in names}


@pytest.mark.parametrize("n_classes", a_few_of([2, 3, 10], [2]))
def test_rules(n_classes):
    forest = forest_of(n_classes)
    X = rows(forest.trees, ROWS, np.float64, wide=True)
    answers = ju.bind(forest, rules(n_classes)).answer(X)
    for name, rule in rules(n_classes).items():
        found, answer = gtil.predict(to_treelite(ju.bind(forest, rule)), X)[:, 0], answers[name]
        # Ours rounds log evidence to float32 before it is a probability.
        tolerance = 1e-6 * max(1, np.abs(np.asarray(answer.class_scores)).max())
        np.testing.assert_allclose(found, answer.probability, rtol=0, atol=tolerance, err_msg=name)


def test_scores_without_bound_and_trees_of_one_leaf():
    forest = forest_of(2)
    bound = ju.bind(forest, ju.Mean(ju.scorers.linear))
    X = rows(forest.trees, ROWS, np.float64, wide=True)
    np.testing.assert_allclose(gtil.predict(to_treelite(bound), X)[:, 0], bound(X), rtol=1e-6, atol=1e-6)
    bound = ju.bind(forest_of(3, min_samples_leaf=200), ju.Mean())
    np.testing.assert_allclose(gtil.predict(to_treelite(bound), X)[:, 0], bound.probability(X), atol=1e-6)


@pytest.mark.parametrize("name", ["two classes", "three histograms", "numbers", "two numbers"])
def test_ensembles(name):
    ensemble = ensemble_of(name)
    made, X = to_treelite(ensemble), rows(ensemble.trees, ROWS, np.float64, wide=True)
    expected = answers_of(ensemble, X)
    found = gtil.predict(made, X).reshape(len(X), -1)
    expected = expected[:, 1:] if name == "two classes" else expected.reshape(found.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    again = from_treelite(made)
    assert isinstance(again, AdditiveTrees)
    np.testing.assert_array_equal(raw_of(again, X), raw_of(ensemble, X))


def test_stages_and_averages_come_back():
    averaged = ensemble_of("numbers")
    added = dataclasses.replace(averaged, averaged=False)
    for ensemble in (averaged, added, dataclasses.replace(added, trees_per_stage=N_TREES)):
        again = from_treelite(to_treelite(ensemble))
        assert isinstance(again, AdditiveTrees)
        assert (again.averaged, again.trees_per_stage) == (ensemble.averaged, ensemble.trees_per_stage)


@pytest.mark.parametrize("labels", [("no", "ÿes"), (7, 3), (0.5, 2), ("a", "a")])
def test_labels_come_back(labels):
    bound = ju.bind(dataclasses.replace(forest_of(2), class_labels=labels), ju.Mean())
    assert from_treelite(to_treelite(bound)).class_labels == ((0, 1) if labels == ("a", "a") else labels)


def of_labels(*labels):
    return lambda: to_treelite(ju.bind(dataclasses.replace(forest_of(2), class_labels=labels), ju.Mean()))


def bound(rule):
    return ju.bind(forest_of(2), rule)


def without_treelite(monkeypatch):
    monkeypatch.setitem(sys.modules, "treelite.model_builder", None)
    to_treelite(bound(ju.Mean()))


def shares_of_two_sums():
    forest = forest_of(2)
    values = np.asarray(forest.count_table, np.float32)[np.asarray(forest.code)]
    return AdditiveTrees(forest.trees, jnp.asarray(values), jnp.zeros(2), "one-vs-rest", 1, (0, 1))


OTHER = "none of the combiners that treelite can finish.*Take to_onnx"
test_refusals = refusals(
    ("pooling", lambda: to_treelite(bound(ju.Pooling())), OTHER),
    ("dempster", lambda: to_treelite(bound(ju.DempsterRule())), OTHER),
    ("weighted pooling", lambda: to_treelite(bound(ju.Weighted(ju.Pooling(), np.ones(N_TREES)))), OTHER),
    ("median", lambda: to_treelite(bound(ju.Median())), OTHER),
    ("no weight", lambda: to_treelite(bound(ju.Weighted(ju.Mean(), np.zeros(N_TREES)))), "weights that are not all 0"),
    ("a veto", lambda: to_treelite(bound(ju.EvidenceAccumulation([0.5, 0.5], smoothing=0))), "veto a class"),
    ("clipped", lambda: to_treelite(bound(ju.Mean(lambda n: 1.5 * ju.scorers.probability(n)))), "clipped"),
    ("a forest", lambda: to_treelite(forest_of(2)), "model is a Forest; pass a bound forest", TypeError),
    ("shares of two sums", lambda: to_treelite(shares_of_two_sums()), "'one-vs-rest' of 2 sums"),
    (
        "dates",
        of_labels(datetime.date(2020, 1, 1), 1),
        "class_labels are .*labels that are texts, numbers of 64 bits or",
    ),
    ("large", of_labels(2**64, 1), "class_labels are .*labels that are texts, numbers of 64 bits or bools"),
    ("no treelite", without_treelite, r"treelite>=4\.8", ImportError),
)
