"""Classifiers of forests: their counts, sets and intervals, and what they refuse."""

import json
import pickle
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.tree import DecisionTreeClassifier

import jaxunc as ju
from jaxunc.estimators import CautiousForestClassifier, CombinedForestClassifier, PureLeavesWarning
from tests._refusal import refusals, refuses

pytestmark = [pytest.mark.once, pytest.mark.filterwarnings("ignore:.*are in every tree's bag")]

X, X_test, y, y_test = train_test_split(*load_breast_cancer(return_X_y=True), random_state=0)
# Of so few leaves that all forests have one shape, which is compiled once.
SMALL = RandomForestClassifier(8, min_samples_leaf=2, max_leaf_nodes=30, random_state=0)


def test_the_mean_is_scikit_learns_forest():
    forest = clone(SMALL).fit(X.astype(np.float32), y)
    model = CombinedForestClassifier(SMALL, "mean").fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X_test), forest.predict_proba(X_test), atol=1e-6)
    clear = np.abs(model.predict_proba(X_test)[:, 0] - 0.5) > 1e-6  # scikit-learn's sums break ties
    np.testing.assert_array_equal(model.predict(X_test)[clear], forest.predict(X_test)[clear])


@pytest.mark.parametrize("is_binary", [True, False])
def test_the_default_rule_is_no_worse_than_the_mean_by_the_committed_numbers(is_binary):
    """What the class says of it, from the file behind ``rules.md``: grown-out forests, in-bag counts."""
    table = json.loads((Path(__file__).parents[2] / "benchmarks/studies/rules/rules.json").read_text())
    frame = pd.DataFrame(table["rows"], columns=table["columns"])
    frame = frame[(frame["counts"] == "inbag") & (frame["leaf_size"] == 1) & ((frame["n_classes"] == 2) == is_binary)]
    for measure, sign in (("brier", -1), ("accuracy", 1), ("auc", 1), ("log_loss", -1), ("risk_coverage", -1)):
        means = frame.pivot_table(index="set", columns="rule", values=measure)
        gain = sign * (means["mixture"] - means["probability"])  # the default where nothing is learned
        better, worse = (gain > 1e-6).sum(), (gain < -1e-6).sum()
        assert better >= worse, measure
        assert measure != "brier" or (better, worse) == ((17, 5) if is_binary else (11, 1))


@pytest.mark.parametrize("counts", ["inbag", "train", "oob", "held_out"])
@pytest.mark.room(keep=1)
def test_counts(counts):
    model = CombinedForestClassifier(SMALL, counts=counts, random_state=0).fit(X, y)
    assert model.score(X_test, y_test) > 0.9
    totals = np.asarray(model.forest_.counts).sum(axis=(1, 2))
    if counts == "train":
        np.testing.assert_array_equal(totals, len(y))
    elif counts == "oob":
        np.testing.assert_array_equal(totals, ju.counting.oob_mask(model.estimator_, len(y)).sum(axis=0))
        assert model.oob_decision_function_.shape == (len(y), 2)
        assert 0.9 < model.oob_score_ < 1
    elif counts == "held_out":
        np.testing.assert_array_equal(totals, np.ceil(0.2 * len(y)))
    assert hasattr(model, "oob_score_") == (counts == "oob")
    others = (X_test, y_test) if counts == "held_out" else (X, y)
    for forest, rows in ((SMALL, (X, y)), (FrozenEstimator(clone(SMALL).fit(X, y)), others)):
        cautious = CautiousForestClassifier(forest, counts=counts, random_state=0).fit(*rows)
        assert cautious.score(X_test, y_test) > 0.9
        assert cautious.predict_set(X_test).any(axis=1).all()


@pytest.mark.room
def test_every_face_of_the_answer():
    model = CombinedForestClassifier(SMALL, "dempster", {"prior": "forest"}, counts="oob").fit(X, y)
    bound = ju.bind(model.forest_, ju.DempsterRule(prior=model.forest_.prior))
    np.testing.assert_array_equal(model.decision_function(X_test), ju.margin(bound(X_test)))
    np.testing.assert_array_equal(model.predict_proba(X_test), bound.probability(X_test))
    np.testing.assert_array_equal(model.predict(X_test), model.classes_[np.argmax(bound(X_test), axis=1)])
    doubt = model.predict_uncertainty(X_test, "plausibility")
    assert isinstance(doubt, ju.combiners.Uncertainty)
    np.testing.assert_allclose(doubt.total, doubt.aleatoric + doubt.epistemic, rtol=1e-6)
    assert doubt.total.shape == (len(X_test),)


def test_more_classes_text_labels_and_frames():
    X, y = load_iris(return_X_y=True, as_frame=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = CombinedForestClassifier(SMALL).fit(X, names)
    assert model.score(X, names) > 0.9
    assert (model.feature_names_in_.tolist(), set(model.predict(X))) == (list(X.columns), set(names))
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1, rtol=1e-6)
    assert model.decision_function(X).shape == (150, 3)
    refuses(ValueError, "feature names should match", model.predict, X[X.columns[::-1]])


@pytest.mark.exhaustive
def test_fitted_forests():
    forest = clone(SMALL).fit(X, y)
    before, frozen = pickle.dumps(forest), FrozenEstimator(forest)
    for counts in ("train", "oob", "held_out"):
        held = (X_test, y_test) if counts == "held_out" else (X, y)
        assert CombinedForestClassifier(frozen, counts=counts).fit(*held).score(X_test, y_test) > 0.9
    mean = CombinedForestClassifier(frozen, "mean").fit()
    np.testing.assert_allclose(mean.predict_proba(X_test), forest.predict_proba(X_test), atol=1e-6)
    assert pickle.dumps(forest) == before
    search = GridSearchCV(CombinedForestClassifier(frozen), {"combiner": ["vote", "evidence"]}, cv=2)
    assert search.fit(X, y).best_estimator_.estimator_ is forest


def test_a_fitted_forest_knows_its_columns():
    frame = pd.DataFrame(X[:, :4], columns=list("abcd"))
    forest = FrozenEstimator(clone(SMALL).fit(frame, y))
    assert CombinedForestClassifier(forest, counts="train").fit(frame, y).feature_names_in_.tolist() == list("abcd")
    turned = frame[list("dcba")]
    refuses(ValueError, "feature names should match", CombinedForestClassifier(forest, counts="train").fit, turned, y)


@pytest.mark.exhaustive
def test_rules_with_a_setting_per_tree_and_leaves_that_contradict():
    weights = np.arange(8.0)
    model = CombinedForestClassifier(SMALL, ju.Weighted(ju.Mean(), weights), counts="oob").fit(X, y)
    expected = ju.bind(model.forest_, ju.Weighted(ju.Mean(), weights)).probability(X_test)
    np.testing.assert_array_equal(model.predict_proba(X_test), expected)
    trusted = CombinedForestClassifier(SMALL, "dempster", {"reliability": np.linspace(0.5, 1, 8)}).fit(X, y)
    assert trusted.score(X_test, y_test) > 0.9
    noisy = np.where(np.random.default_rng(0).random(len(y)) < 0.3, 1 - y, y)
    model = CombinedForestClassifier(SMALL, "evidence", {"smoothing": 0}, counts="oob").fit(X, noisy)
    contradicted = np.isneginf(ju.bind(model.forest_, model.combiner_)(X_test)).all(axis=1)
    assert contradicted.any()
    assert np.all(np.isfinite(model.decision_function(X_test)[contradicted]))
    np.testing.assert_array_equal(model.predict(X_test), model.classes_[np.argmax(model.predict_proba(X_test), axis=1)])


@pytest.mark.exhaustive
def test_what_is_wrong_with_rows_is_told_once():
    """Instances in every bag, which are left out; pure leaves."""
    model = CombinedForestClassifier(RandomForestClassifier(3, min_samples_leaf=5, random_state=0), counts="oob")
    with pytest.warns(UserWarning, match="are in every tree's bag") as caught:
        model.fit(X, y)
    assert [warning.filename for warning in caught] == [__file__]
    assert str(caught[0].message).endswith("leaves them out. Use more trees.")
    with pytest.warns(UserWarning, match="more trees would hardly help"):
        model.fit(X, y, groups=np.maximum(np.arange(len(y)), 12))
    model.fit(X, y)  # warnings of this kind are ignored here
    unseen = np.isnan(model.oob_decision_function_).all(axis=1)
    np.testing.assert_array_equal(unseen, ~ju.counting.oob_mask(model.estimator_, len(y)).any(axis=1))
    assert 0.8 < model.oob_score_ <= 1
    model.set_params(counts="inbag").fit(X, y)
    assert not {"oob_score_", "oob_decision_function_"} & vars(model).keys()
    grown_out = RandomForestClassifier(5, random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        CombinedForestClassifier(grown_out).fit(X, y).predict(X_test)
    assert [w.category for w in caught] == [PureLeavesWarning]
    assert "counts='oob'" in str(caught[0].message)
    for counts in ("oob", "held_out"):  # warnings are errors here
        CombinedForestClassifier(grown_out.set_params(n_estimators=20), counts=counts).fit(X, y)
    with pytest.warns(PureLeavesWarning) as caught:
        inbag = CautiousForestClassifier(grown_out, counts="inbag").fit(X, y)
    assert [warning.filename for warning in caught] == [__file__]
    outside = CautiousForestClassifier(grown_out).fit(X, y)
    own, honest = (ju.metrics.determinacy(one.predict_set(X_test)) for one in (inbag, outside))
    assert honest < own == 1, "why out-of-bag counts are the default: pure leaves hardly ever abstain"


@pytest.mark.room
def test_rules_without_probabilities():
    model = CombinedForestClassifier(SMALL, "mean", {"scorer": "linear"}, counts="oob").fit(X, y)
    assert model.score(X_test, y_test) > 0.9
    assert model.oob_score_ > 0.9
    assert not hasattr(model, "oob_decision_function_")
    for ask in (model.predict_proba, model.predict_log_proba):
        refuses(ValueError, "without a bound", ask, X_test)
    ranked = CombinedForestClassifier(SMALL, "one_vs_rest", {"rule": "mean", "scorer": "linear"}).fit(X, y)
    assert ranked.score(X_test, y_test) > 0.9


@pytest.mark.exhaustive
def test_bags_without_replacement_and_random_states():
    bagging = BaggingClassifier(DecisionTreeClassifier(min_samples_leaf=3), 7, max_samples=0.5, bootstrap=False)
    assert CombinedForestClassifier(bagging, counts="oob", random_state=0).fit(X, y).score(X_test, y_test) > 0.85
    made = (CombinedForestClassifier(bagging, counts="held_out", random_state=seed) for seed in (1, 1, 2))
    one, same, other = (model.fit(X, y).predict_proba(X_test) for model in made)
    np.testing.assert_array_equal(one, same)
    assert np.abs(one - other).max() > 0


BAGS = RandomForestClassifier(50, min_samples_leaf=2, random_state=0)


@pytest.mark.exhaustive
def test_a_default_forest_learns_as_a_fitted_one_does():
    model = CombinedForestClassifier(BAGS, random_state=0).fit(X, y)
    explicit = CombinedForestClassifier(BAGS, "learned", random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X_test), explicit.predict_proba(X_test))
    fitted = clone(BAGS).fit(X, y)
    frozen, wanted = (CombinedForestClassifier(one, "learned").fit(X, y) for one in (FrozenEstimator(fitted), BAGS))
    assert frozen.estimator_ is fitted
    np.testing.assert_allclose(frozen.predict_proba(X_test), wanted.predict_proba(X_test), atol=1e-6)
    assert isinstance(model.combiner_, ju.LearnedPool)
    assert model.combiner_.count_sets == model.forest_.count_sets == ("own", "oob")
    again = ju.bind(model.forest_, model.combiner_).probability(np.asarray(X, np.float32))
    np.testing.assert_array_equal(again, model.predict_proba(X))
    assert model.learned_.loss < model.learned_.start_loss
    loss = lambda probs: -np.mean(np.log(np.maximum(probs[np.arange(len(y_test)), y_test], 1e-15)))
    assert loss(model.predict_proba(X_test)) < loss(model.estimator_.predict_proba(X_test))
    assert model.predict_uncertainty(X_test).epistemic.shape == y_test.shape


@pytest.mark.exhaustive
def test_learning_from_other_rows():
    for estimator, counts in (
        (ExtraTreesClassifier(10, random_state=0), "inbag"),  # no bootstrap
        (RandomForestClassifier(10, random_state=0), "inbag"),  # few trees
        (BAGS, "held_out"),
    ):
        model = CombinedForestClassifier(estimator, "learned", counts=counts, random_state=0).fit(X, y)
        assert model.score(X_test, y_test) > 0.9
        assert model.forest_.n_samples == pytest.approx(len(y) * (0.8 if counts == "held_out" else 1), rel=0.02)
    for model, arguments in (
        (CombinedForestClassifier(SMALL), (X, y)),
        (CombinedForestClassifier(BAGS, counts="oob"), (X, y)),
        (CombinedForestClassifier(FrozenEstimator(clone(BAGS).fit(X, y))), ()),
    ):
        assert isinstance(model.fit(*arguments).combiner_, ju.GeneralizedMixture), "nothing can be learned"


@pytest.mark.exhaustive
def test_polling_trees_also_by_a_prior_fitted_out_of_bag():
    X, y = load_breast_cancer(return_X_y=True)
    names = np.array(["malignant", "benign"])[y]
    training, new = (X[::2], names[::2]), X[1::2]
    grown = RandomForestClassifier(100, min_samples_leaf=2, random_state=0)
    model = CombinedForestClassifier(grown, combiner="evidence").fit(*training)
    heard = model.predict_polled(new, confidence=0.99)
    assert set(heard.predicted) == set(names)
    assert heard.saved > 0.7
    assert np.mean(heard.predicted == names[1::2]) > 0.9
    certain = model.predict_polled(new, criterion="certain")
    shares = np.asarray(ju.bind(model.forest_, ju.Vote()).answer(new).class_scores)
    np.testing.assert_array_equal(certain.predicted, model.classes_[shares.argmax(axis=1)])
    out = CombinedForestClassifier(FrozenEstimator(model.estimator_), combiner="evidence", counts="oob")
    polled = out.fit(*training).predict_polled(new)
    assert np.any(polled.votes.sum(axis=1) < polled.n_trees_used), "trees whose leaf is empty out of bag abstain"
    model = CombinedForestClassifier(clone(grown).set_params(n_estimators=60), combiner=ju.Vote()).fit(*training)
    unseen = ju.counting.oob_mask(model.estimator_, len(X[::2]))
    prior = ju.voting.fit_vote_prior(ju.voting.out_of_bag_votes(model.forest_, X[::2], unseen))
    settings = {"criterion": "optimal", "disagreement": 0.02, "population": "finite"}
    found = model.predict_polled(new, prior="fitted", training=training, **settings)
    same = model.predict_polled(new, prior=prior, **settings)
    np.testing.assert_array_equal(found.n_trees_used, same.n_trees_used)
    np.testing.assert_array_equal(found.predicted, same.predicted)
    assert found.n_trees_used.mean() < 0.6 * model.predict_polled(new, prior=prior).n_trees_used.mean()
    assert np.mean(found.predicted != model.predict_polled(new, criterion="certain").predicted) < 0.04


@pytest.fixture(scope="module")
def cautious():
    """Cautious enough to be undecided about some."""
    return CautiousForestClassifier(SMALL, s=20, mass="leaf_size").fit(X, y)


@pytest.mark.room
def test_every_face_of_a_cautious_answer(cautious):
    vote = ju.bind(cautious.forest_, ju.GeneralizedVote(20, "leaf_size"))(X_test)
    sets = cautious.predict_set(X_test)
    np.testing.assert_array_equal(sets, ju.decisions.nondominated(vote))
    assert sets.dtype == bool
    assert 0 < ju.metrics.determinacy(sets) < 1
    assert ju.metrics.single_set_accuracy(sets, y_test) >= cautious.score(X_test, y_test)
    interval = cautious.predict_interval(X_test)
    for own, bound in zip(interval, ju.bind(cautious.forest_, ju.AveragedIntervals(20))(X_test), strict=True):
        np.testing.assert_array_equal(own, bound)
    probs = cautious.predict_proba(X_test)
    assert np.all((probs >= interval.lower) & (probs <= interval.upper))
    np.testing.assert_allclose(probs.sum(axis=1), 1, rtol=1e-6)
    predicted = cautious.predict(X_test)
    assert np.all(sets[np.arange(len(sets)), predicted]), "what is predicted is in the set"
    open_ones = sets.all(axis=1)
    np.testing.assert_array_equal(predicted[open_ones], np.argmax(probs[open_ones], axis=1))
    assert cautious.score(X_test, y_test) > 0.9
    why = cautious.explain(X_test)
    np.testing.assert_array_equal(why.largest_s >= 20, sets.sum(axis=1) == 1)
    np.testing.assert_allclose(why.support.sum(axis=1) + why.abstaining, 1, rtol=1e-6)
    assert why.abstaining_trees.shape == (len(X_test), 8)
    assert all(isinstance(part, np.ndarray) for part in why)
    # Of its own sample, out of bag.
    assert cautious.oob_set_.shape == cautious.oob_decision_function_.shape == (len(y), 2)
    assert 0.9 < cautious.oob_score_ < 1
    honest = ju.metrics.single_set_accuracy(cautious.oob_set_, y)
    assert honest <= ju.metrics.single_set_accuracy(cautious.predict_set(X), y), "its own labels are in the leaves"
    assert not hasattr(clone(cautious).set_params(counts="inbag").fit(X, y), "oob_set_")


fit_cautious = lambda estimator=SMALL, **settings: lambda: CautiousForestClassifier(estimator, **settings).fit(X, y)


def fit(estimator=SMALL, combiner=None, options=None, X=X, y=y, **settings):
    return lambda: CombinedForestClassifier(estimator, combiner, options, **settings).fit(X, y)


def fit_fitted(combiner="mean", forest=SMALL, **settings):
    """Of a forest that is grown already, without rows."""
    return lambda: CombinedForestClassifier(FrozenEstimator(clone(forest).fit(X, y)), combiner, **settings).fit()


voting = pytest.fixture(scope="module")(lambda: fit(combiner=ju.Vote())())
poll = lambda training=None, **settings: lambda voting: voting.predict_polled(X, training=training, **settings)


def poll_without_bags():
    whole = RandomForestClassifier(8, max_leaf_nodes=30, bootstrap=False, random_state=0)
    fit(whole, "mean")().predict_polled(X, prior="fitted", training=(X, y))


RARE = np.where(np.arange(len(y)) == 0, 2, y)
WORDS = pd.DataFrame({"a": ["x", "y"] * 20, "b": np.arange(40)})
OUT_OF_BAG = fit(combiner=ju.Vote(), counts="oob")
TWO_RULES = ju.combiners.Together(a=ju.Mean())

test_refusals = refusals(
    ("combiner", fit(combiner="evidense"), "combiner='evidense' is unknown. Did you mean 'evidence'"),
    ("option", fit(combiner="evidence", options={"smoth": 1}), "combiner 'evidence' has no option 'smoth'"),
    ("no bags", fit(ExtraTreesClassifier(3), counts="oob"), "bootstrap=False"),
    ("a tree", fit(DecisionTreeClassifier(), counts="oob"), "DecisionTreeClassifier has none"),
    ("scorer", fit(combiner="mean", options={"scorer": "m_estimate"}), "needs scorer_options with 'm', 'prior'"),
    ("held_out_size", fit(counts="held_out", held_out_size=1.5), "held_out_size=1.5 must lie"),
    ("three classes", fit(combiner="dempster", y=RARE), "OneVsRest"),
    ("trees", lambda: fit(combiner=ju.Weighted(ju.Mean(), np.ones(7)))(), "8 trees"),
    ("a class", fit(RandomForestClassifier), "no model of scikit-learn", TypeError),
    ("parts of doubt", fit(combiner=ju.UncertaintyDecomposition()), "answers with Uncertainty", TypeError),
    ("several answers", fit(combiner=TWO_RULES), "answers with dict", TypeError),
    ("a rare class", fit(counts="held_out", random_state=0, y=RARE), "leaves no instance of class 2"),
    ("words", fit(X=WORDS, y=np.arange(40) % 2), "could not convert string"),
    ("held_out without data", fit_fitted(counts="held_out"), r"counts='held_out' needs data.*fit\(X, y\)"),
    ("not fitted", lambda: CombinedForestClassifier(FrozenEstimator(SMALL)).fit(), "not fitted", NotFittedError),
    ("learned of oob", fit(BAGS, "learned", counts="oob"), "counts='oob' is none of its options"),
    ("learned with options", fit(BAGS, "learned", {"m": 1}), "has no options"),
    ("options alone", fit(BAGS, None, {"m": 1}), "need a combiner"),
    ("learned without data", fit_fitted("learned", BAGS), "learns from data"),
    ("confidence", poll(confidence=0.5), r"must lie in \(0\.5, 1\)"),
    ("polled unfitted", lambda: CombinedForestClassifier().predict_polled(X), "not fitted yet", NotFittedError),
    ("no training", poll(prior="fitted"), "none were given: pass training"),
    ("training alone", poll(X, prior="fitted"), "training is a ndarray"),
    ("training unasked", poll((X, y)), "leave training out"),
    ("other data", poll((X[::-1], y[::-1]), prior="fitted"), "not the rows that this RandomForestClassifier was gr"),
    ("votes of other counts", lambda: poll((X, y), prior="fitted")(OUT_OF_BAG()), "counts='oob' leaves count others"),
    ("polled without bags", poll_without_bags, "bootstrap=False"),
    ("s", fit_cautious(s=0), "s=0 must be a positive"),
    ("several s", fit_cautious(s=np.ones(3)), r"s has shape \(3,\)"),
    ("cautious, no bags", fit_cautious(ExtraTreesClassifier(3)), "bootstrap=False"),
    ("names none", fit(combiner="generalized_vote", options={"s": 1}), "answers with Preference", TypeError),
)
