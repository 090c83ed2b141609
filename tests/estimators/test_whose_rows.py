"""What was fitted stays, whatever parameters and the given forest are now; whose rows may speak, on pure noise."""

import inspect
import pickle
import warnings
import zlib
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import get_tags

import jaxunc as ju
from jaxunc import estimators
from jaxunc.estimators import CautiousForestClassifier, CombinedForestClassifier, RandomDecisionTreesClassifier
from tests._refusal import refuses

pytestmark = pytest.mark.once

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 4)).astype(np.float32)
Y = (X[:, 0] + RNG.normal(size=200) > 0).astype(int)


def forest(**settings) -> RandomForestClassifier:
    return RandomForestClassifier(50, min_samples_leaf=5, random_state=0, **settings)


def polled(model) -> np.ndarray:
    return model.predict_polled(X[:30], confidence=0.9, prior="fitted", training=(X, Y)).n_trees_used


@pytest.mark.exhaustive
def test_the_prior_of_votes_belongs_to_the_fit(tmp_path):
    given = forest().fit(X, Y)
    model = CombinedForestClassifier(FrozenEstimator(given), "mean").fit(X, Y)
    before = polled(model)
    model.set_params(counts="oob", combiner="vote")
    np.testing.assert_array_equal(polled(model), before)
    np.testing.assert_array_equal(polled(pickle.loads(pickle.dumps(model))), before)
    model.set_params(estimator=RandomForestClassifier(3), counts="inbag")
    np.testing.assert_array_equal(polled(model), before)
    ju.save(tmp_path / "model.safetensors", model.set_params(estimator=None))
    refuses(ValueError, "came from a file, which keeps none", lambda: polled(ju.load(tmp_path / "model.safetensors")))
    given.set_params(random_state=1).fit(X, Y)
    refuses(ValueError, "was fitted again since", polled, model)


@pytest.mark.room
def test_the_prior_of_votes_is_fitted_by_the_groups_of_the_fit():
    groups = np.repeat(np.arange(100), 2)
    model = CombinedForestClassifier(forest(), "mean").fit(X, Y, groups=groups)
    mask = ju.counting.oob_mask(model.estimator_, len(Y), groups=groups)
    prior = ju.voting.fit_vote_prior(ju.voting.out_of_bag_votes(model.forest_, X, mask))
    expected = model.predict_polled(X[:30], confidence=0.9, prior=prior).n_trees_used
    np.testing.assert_array_equal(polled(model), expected)
    alone = CombinedForestClassifier(forest(), "mean").fit(X, Y, groups=range(200))
    assert not np.array_equal(polled(alone), expected)


@pytest.mark.room
def test_sparse_training_rows():
    thin: Any = scipy.sparse.csr_matrix(np.where(np.abs(X) < 0.5, 0, X))
    model, dense = CombinedForestClassifier(forest(), "mean").fit(thin, Y), thin.toarray()
    expected = model.predict_polled(dense, confidence=0.9, prior="fitted", training=(dense, Y))
    assert expected.n_trees_used.max() <= 50
    for asked, trained in ((dense, thin), (thin, dense), (thin.tocsc(), thin.tocoo())):
        found = model.predict_polled(asked, confidence=0.9, prior="fitted", training=(trained, Y))
        np.testing.assert_array_equal(found.predicted, expected.predicted)
        np.testing.assert_array_equal(found.n_trees_used, expected.n_trees_used)


@pytest.mark.room
def test_missing_values_are_those_of_the_fit():
    holes = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
    for before, after in (("random", "error"), ("error", "random")):
        model = RandomDecisionTreesClassifier(3, missing=before, random_state=0).fit(X, Y).set_params(missing=after)
        assert get_tags(model).input_tags.allow_nan == (before == "random")
        if before == "error":
            refuses(ValueError, "is NaN", model.predict, holes)
        else:
            assert len(model.predict(holes)) == 200


@pytest.mark.exhaustive
def test_weights_of_one_are_no_weights_and_others_are_repeats_for_what_is_learned():
    frozen, sets = FrozenEstimator(forest().fit(X, Y)), []
    for weight in (None, np.ones(200), np.full(200, 2.0)):
        model = CautiousForestClassifier(frozen).fit(X, Y, sample_weight=weight)
        sets.append(model.predict_set(X))
        np.testing.assert_array_equal(model.forest_.counts, np.rint(model.forest_.counts))
    np.testing.assert_array_equal(sets[1:], [sets[0]] * 2)
    default = CombinedForestClassifier(frozen)
    learned = [default.fit(X, Y, sample_weight=weight).predict_proba(X) for weight in (None, np.ones(200))]
    np.testing.assert_array_equal(learned[0], learned[1])

    rows = ju.learning.oob_dataset(forest().fit(X[:100], Y[:100]), X[100:], Y[100:], source="held_out")
    counts = np.asarray(rows.histograms.count_table)[np.asarray(rows.histograms.code)[:100, :1]]
    once = ju.learning.dataset_from_counts(counts, Y[100:], sample_weight=np.full(100, 3))
    often = ju.learning.dataset_from_counts(np.repeat(counts, 3, 0), np.repeat(Y[100:], 3))
    learned = [ju.learning.fit_combiner(ju.LearnedPool(one.prior), one) for one in (once, often)]
    found = [np.asarray(one.combiner.probability(counts)) for one in learned]
    np.testing.assert_allclose(found[0], found[1], atol=2e-3)


@pytest.mark.room
def test_rows_of_a_class_that_is_in_every_bag():
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(600, 4)).astype(np.float32)
    rare = (rows[:, 0] + rng.normal(size=600) > 2.4).astype(int)
    balanced = forest(class_weight="balanced")
    with pytest.warns(UserWarning, match=r"rows of class 1 are out of .* of 50 bags .*the combiner is 'mixture'"):
        model = CombinedForestClassifier(balanced).fit(rows, rare)
    mixture = CombinedForestClassifier(balanced, "mixture").fit(rows, rare)
    np.testing.assert_array_equal(model.predict_proba(rows), mixture.predict_proba(rows))
    for refused in (CombinedForestClassifier(balanced, "learned"), CautiousForestClassifier(balanced)):
        refuses(ValueError, "class_weight='balanced_subsample'", refused.fit, rows, rare)


ESTIMATORS = [
    RandomDecisionTreesClassifier(2),
    CombinedForestClassifier(RandomForestClassifier(2)),
    CautiousForestClassifier(RandomForestClassifier(2)),
    estimators.TransductiveClassifier(RandomForestClassifier(2)),
    estimators.TransductiveTreeClassifier(),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: type(one).__name__)
def test_what_is_masked_or_absent_is_refused(estimator):
    X, masked = np.arange(24.0).reshape(12, 2), np.arange(12) < 3
    y, weight = np.arange(12) % 2, np.ma.array(np.where(masked, 1e6, 1.0), mask=masked)
    for name in {"sample_weight", "groups"} & {*inspect.signature(estimator.fit).parameters}:
        refuses(TypeError, f"{name} is a masked array", estimator.fit, X, y, **{name: weight})
    labels = np.ma.array(y, mask=masked)
    for odd in (labels, labels[:, None]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            refuses(ValueError, "NaN", estimator.fit, X, odd)
    for data in (X, pd.DataFrame(X), {"a": X[:, 0]}):
        refuses(ValueError, "requires y to be passed, but the target y is None", estimator.fit, data, None)


@pytest.mark.exhaustive
def test_groups_of_the_fit():
    groups = np.repeat(np.arange(100), 2)
    fit = CombinedForestClassifier(forest(), "mean", counts="oob").fit
    shares, alone, plain = (fit(X, Y, groups=one).oob_decision_function_ for one in (groups, range(200), None))
    np.testing.assert_array_equal(alone, plain)
    assert not np.array_equal(shares, plain)
    learned = CombinedForestClassifier(forest(), "learned").fit(X, Y, groups=groups)
    rows = ju.learning.oob_dataset(learned.estimator_, X, Y, counts="both", groups=groups)
    again = ju.learning.fit_combiner(ju.LearnedPool(rows.prior, reads=rows.count_sets), rows)
    np.testing.assert_array_equal(rows.bind(again.combiner).probability(X), learned.predict_proba(X))
    CautiousForestClassifier(forest(), counts="held_out", random_state=0).fit(X, Y, groups=groups)


# On noise, whatever is wrong with the rows, an answer is honest, warned of, or refused: one table of estimators,
# counts, forests, weights and faults of the rows.

N, LEAF, TREES, RARE = 400, 10, 50, 0.15
CLOSE = 0.02
"""Log loss above that of the classes' shares, or of the forest itself, that is honest."""
SIZE: dict[str, Any] = {"n_estimators": TREES, "random_state": 0}
GROWN = SIZE | {"min_samples_leaf": LEAF}
FORESTS: dict[str, Any] = {
    "random forest": RandomForestClassifier(**GROWN),
    "random forest of half samples": RandomForestClassifier(max_samples=0.5, **GROWN),
    "random forest, balanced": RandomForestClassifier(class_weight="balanced", **GROWN),
    "random forest, balanced_subsample": RandomForestClassifier(class_weight="balanced_subsample", **GROWN),
    "random forest, weighted classes": RandomForestClassifier(class_weight={0: 1.0, 1: 3.0}, **GROWN),
    "random forest, classes weighted alike": RandomForestClassifier(class_weight={0: 1.0, 1: 1.0}, **GROWN),
    "extra trees": ExtraTreesClassifier(**GROWN),
    "extra trees with bags": ExtraTreesClassifier(bootstrap=True, **GROWN),
    "bag of trees": BaggingClassifier(DecisionTreeClassifier(min_samples_leaf=LEAF), **SIZE),
}
WEIGHTS: dict[str, Any] = {
    "none": lambda y, rng: None,
    "ones": lambda y, rng: np.ones(len(y)),
    "twos": lambda y, rng: np.full(len(y), 2.0),
    "some": lambda y, rng: rng.uniform(0.5, 1.5, len(y)),
    "by class": lambda y, rng: np.where(y == 1, 8.0, 1.0),
}
COPIES: dict[str, Any] = {
    "each twice": lambda y, rng: np.tile(np.arange(N), 2),
    "each three times": lambda y, rng: np.repeat(np.arange(N), 3),
    "oversampled, rare": lambda y, rng: np.r_[:N, rng.choice(np.flatnonzero(y), N - 2 * np.sum(y))],
    "joined": lambda y, rng: np.repeat(np.arange(N), rng.integers(1, 4, N)),
    "some copied": lambda y, rng: np.r_[:N, rng.integers(0, N, N // 3)],
}
"""Rows that a forest is fitted to, of a sample."""
HELD_OUT: dict[str, Any] = {
    "others": lambda rng: np.arange(N, 2 * N),
    "the sample": lambda rng: np.arange(N),
    "the sample, shuffled": lambda rng: rng.permutation(N),
    "the sample, each twice": lambda rng: np.repeat(np.arange(N), 2),
    "the sample, twice, shuffled": lambda rng: rng.permutation(np.tile(np.arange(N), 2)),
    "half of the sample": lambda rng: rng.permutation(N)[: N // 2],
    "the sample, with others": lambda rng: rng.permutation(2 * N),
}
"""Rows that are given as held out: of the sample, and of as many others."""
RIGHT = ("nothing", "nothing, rare", "others")
FAULTS = ("nothing", "nothing, rare", *COPIES, *HELD_OUT)
UNSEEN = {("extra trees with bags", fault) for fault in ("half of the sample", "the sample, shuffled")}
"""What cannot always be seen, as `oob_dataset` says: where tests are random, and trees have bags."""

NAMED = ("repeat others", "in every tree's bag", "rows of class", "Pass rows that were held out", "not the rows")
"""Words of which a refusal or a warning has some that names what is wrong with the rows."""
IMPOSSIBLE = ("needs a forest with bags", "bootstrap=False")
"""Words that refuse counts that no such forest has."""

CELLS = [
    (forest, weights, fault)
    for forest, weights, fault in product(FORESTS, WEIGHTS, FAULTS)
    if weights == "none" or fault not in HELD_OUT
]


class Ended(NamedTuple):
    how: str
    said: str


FITTED = [("default", "inbag"), ("learned", "inbag"), ("mean", "inbag"), ("mean", "train"), ("mean", "oob")]
FITTED += [("cautious", "train"), ("cautious", "oob")]
APART = ("learned", "mean", "cautious")


def made(name: str, forest: Any, counts: str) -> Any:
    if name == "cautious":
        return CautiousForestClassifier(forest, counts=counts, random_state=0)
    return CombinedForestClassifier(forest, None if name == "default" else name, counts=counts, random_state=0)


def loss(shares: Any, probs: np.ndarray) -> float:
    return float(-(np.asarray(shares) * np.log(np.clip(probs, 1e-12, 1))).sum(axis=-1).mean())


def ended(classifier: Any, data: tuple, weight: Any, fresh: np.ndarray, own: np.ndarray) -> Ended:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            fitted = classifier.fit(*data, sample_weight=weight)
        except (ValueError, TypeError) as error:
            if any(words in str(error) for words in IMPOSSIBLE):
                return Ended("impossible", str(error))
            return Ended("refused" if any(words in str(error) for words in NAMED) else "wrong", str(error))
    said = " ".join(str(one.message) for one in caught)
    if any(words in said for words in NAMED):
        return Ended("warned", said)
    probs, y = fitted.predict_proba(fresh), data[1]
    # A rule answers for the classes' shares among the rows, as they are, or as rows and classes are weighed.
    shares = [np.bincount(y, one, 2) for one in (None, weight, np.where(y == 1, 3.0, 1.0))]
    shares += [np.ones(2), np.array([1.0, 3.0])]  # of balanced classes, and of those that weights weigh once more
    shares = [one / one.sum() for one in shares]
    above = min(loss(one, probs) - max(loss(one, one), loss(one, own)) for one in shares)
    return Ended("honest" if above <= CLOSE else "wrong", f"log loss {above:.3f} above; {said}")


def cell(forest: str, weights: str, fault: str, rng: np.random.Generator) -> dict[str, Ended]:
    """All estimators and counts of a forest, weights and a fault."""
    X = rng.normal(size=(2 * N, 5)).astype(np.float32)
    y = (rng.random(2 * N) < (RARE if "rare" in fault else 0.5)).astype(int)
    rows = COPIES[fault](y[:N], rng) if fault in COPIES else np.arange(N)
    weight, fresh = WEIGHTS[weights](y[rows], rng), rng.normal(size=(500, 5)).astype(np.float32)
    model = clone(FORESTS[forest]).fit(X[rows], y[rows], sample_weight=weight)
    own, known = model.predict_proba(fresh), FrozenEstimator(model)
    if fault in HELD_OUT:
        given = HELD_OUT[fault](rng)
        data = X[given], y[given]
        return {name: ended(made(name, known, "held_out"), data, None, fresh, own) for name in APART}
    asked = [(name, counts, known) for name, counts in FITTED]
    asked += [(name, "held_out", FORESTS[forest]) for name in APART]
    return {
        f"{name}, {counts}": ended(made(name, grown, counts), (X[rows], y[rows]), weight, fresh, own)
        for name, counts, grown in asked
    }


@pytest.mark.room
@pytest.mark.exhaustive
@pytest.mark.parametrize(("forest", "weights", "fault"), CELLS)
def test_rows_of_noise(forest, weights, fault):
    # The same noise whenever a cell is tried. With few rows of a class a loss is beyond its bound by chance in one of
    # some hundred draws; what has seen its own rows is so in all.
    seed = zlib.crc32(f"{forest}, {weights}, {fault}".encode())
    for draw in range(3):
        found = cell(forest, weights, fault, np.random.default_rng(seed + draw))
        wrong = {name: end for name, end in found.items() if end.how == "wrong" and (forest, fault) not in UNSEEN}
        if not wrong:
            break
    assert not wrong, f"{forest}, {weights}, {fault}: {wrong}"
    # Bags that are drawn by the weights of classes are a fault of the rows, too.
    if fault in RIGHT and not (fault == "nothing, rare" or "class" in weights or "balanced" in forest):
        told = {name: end for name, end in found.items() if end.how in ("refused", "warned")}
        assert not told, f"{forest}, {weights}, {fault}: nothing is wrong with these rows: {told}"
