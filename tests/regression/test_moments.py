"""Means and variances of leaves, against loops over scikit-learn's own trees."""

import pickle

import jax
import numpy as np
import pytest
from sklearn.datasets import make_friedman1
from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor

import jaxunc as ju
from jaxunc.regression import LeafMoments
from tests._exhaustive import a_few_of
from tests._refusal import refusals, refuses
from tests.conftest import X64

TOL = {"rtol": 1e-9, "atol": 1e-12} if X64 else {"rtol": 3e-5, "atol": 1e-6}
# Few rows and six trees: every forest has 64 slots for nodes, and meets the same programs.
X, Y = make_friedman1(40, noise=1.0, random_state=0)
X = X.astype(np.float32)
X_NEW = make_friedman1(150, noise=1.0, random_state=1)[0].astype(np.float32)
GROWN = {
    "forest": RandomForestRegressor(6, random_state=0),
    "large leaves": RandomForestRegressor(6, min_samples_leaf=5, max_features=1 / 3, random_state=1),
    "extra": ExtraTreesRegressor(6, min_samples_leaf=2, random_state=0),
    "bag": BaggingRegressor(DecisionTreeRegressor(min_samples_leaf=4), 6, max_features=0.6, random_state=0),
    "one tree": DecisionTreeRegressor(max_depth=4, random_state=0),
    "a stump's root": RandomForestRegressor(6, min_samples_leaf=40, random_state=0),
}


def by_loops(members, features, X, mask=None, variance_of=None):
    """Mean, mean variance and variance of the means, in float64, tree by tree; a tree's own variances by default."""
    found = []
    for i, row in enumerate(X):
        means, variances = [], []
        for t, (member, kept) in enumerate(zip(members, features, strict=True)):
            if mask is None or mask[i, t]:
                leaf = member.tree_.apply(row[kept][None].astype(np.float32))[0]
                means.append(member.tree_.value[leaf, 0, 0])
                variances.append(member.tree_.impurity[leaf] if variance_of is None else variance_of(t, leaf))
        means = np.array(means)
        found.append((means.mean(), np.mean(variances), ((means - means.mean()) ** 2).mean()))
    return np.array(found).T


def alike(found, expected, **tolerance) -> None:
    """Assert that moments are these."""
    for part, value in zip(found, expected, strict=True):
        np.testing.assert_allclose(part, value, **tolerance or TOL)


def members_of(model):
    members = list(getattr(model, "estimators_", [model]))
    return members, getattr(model, "estimators_features_", [slice(None)] * len(members))


def fitted(model, y=Y, **how):
    return model.fit(X, y, **how)


def variances_of_rows(model, y, weight):
    """The variance in each leaf of rows that count so often in each tree, by loops."""
    leaves, kept = model.apply(X), {}
    for t in range(leaves.shape[1]):
        for leaf in np.unique(leaves[:, t]):
            own = (leaves[:, t] == leaf) & (weight[:, t] > 0)
            if own.any():
                middle = np.average(y[own], weights=weight[own, t])
                kept[t, leaf] = np.average((y[own] - middle) ** 2, weights=weight[own, t])
    return lambda t, leaf: kept[t, leaf]


@pytest.mark.room(keep=1)
@pytest.mark.parametrize("name", a_few_of(GROWN, ["forest", "extra", "bag", "a stump's root"]))
def test_own_moments_against_loops(name):
    model = fitted(GROWN[name])
    moments = LeafMoments(model)
    members, features = members_of(model)
    found = moments.answer(X_NEW)
    assert all(part.dtype == np.float64 for part in found)
    alike(found, by_loops(members, features, X_NEW))
    np.testing.assert_allclose(found.mean, model.predict(X_NEW), **TOL)
    np.testing.assert_allclose(found.std**2, found.aleatoric + found.epistemic)
    mask = np.random.default_rng(0).random((len(X_NEW), len(members))) < 0.4
    mask[:, 0] |= ~mask.any(axis=1)
    alike(moments.answer(X_NEW, tree_mask=mask), by_loops(members, features, X_NEW, mask))


def test_the_answer_of_a_row_does_not_depend_on_others():
    """Nor on pickles; a row without a tree is NaN."""
    moments = LeafMoments(fitted(GROWN["forest"]))
    whole, mask = np.array(moments.answer(X_NEW)), np.ones((len(X_NEW), 6), bool)
    for rows in (slice(0, 1), slice(5, 23)):
        np.testing.assert_array_equal(moments.answer(X_NEW[rows]), whole[:, rows])
    assert all(part.shape == (0,) for part in moments.answer(X_NEW[:0]))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(moments)).answer(X_NEW), whole)
    mask[3], whole[:, 3] = False, np.nan
    np.testing.assert_array_equal(moments.answer(X_NEW, tree_mask=mask), whole)


def test_sample_weights_and_multiplicities_are_as_grown():
    weight = np.random.default_rng(0).integers(0, 4, len(X)).astype(float)
    model = fitted(RandomForestRegressor(6, min_samples_leaf=4, random_state=0), sample_weight=weight)
    times = np.stack([np.bincount(bag, minlength=len(X)) for bag in model.estimators_samples_], axis=1)
    # scikit-learn draws bags by weight since 1.9, and weighs drawn rows before.
    by_weight = model.estimators_[0].tree_.weighted_n_node_samples[0] == times[:, 0].sum()
    counted = times if by_weight else times * weight[:, None]
    recounted = LeafMoments(model, X, Y, weight=counted).answer(X_NEW)
    alike(recounted, LeafMoments(model).answer(X_NEW), rtol=1e-5, atol=1e-6)


def test_targets_of_1e8_are_recounted_exactly():
    y = 1e8 + np.sign(Y - np.median(Y)) + 0.01 * Y
    model = fitted(RandomForestRegressor(6, min_samples_leaf=3, random_state=0), y)
    refuses(ValueError, "lost their digits", LeafMoments, model)
    times = np.stack([np.bincount(bag, minlength=len(X)) for bag in model.estimators_samples_], axis=1)
    found = LeafMoments(model, X, y, weight=times).answer(X_NEW)
    variance_of = variances_of_rows(model, y - 1e8, times)
    mean, aleatoric, epistemic = by_loops(*members_of(model), X_NEW, variance_of=variance_of)
    np.testing.assert_allclose(found.mean - 1e8, mean - 1e8, atol=1e-6)
    alike(found[1:], (aleatoric, epistemic), rtol=1e-5, atol=1e-7)


@pytest.mark.exhaustive
def test_trees_that_differ_far_from_the_centre():
    """Targets near 0 and near 1e8: one float of an offset would round what trees differ by."""
    y = np.where(X[:, 0] > 0.5, 1e8, 0.0) + Y
    model = fitted(RandomForestRegressor(6, min_samples_leaf=5, random_state=0), y)
    moments = LeafMoments(model, X, y)
    assert moments.bound.forest.count_table.shape[1] == 3
    mean, _, epistemic = by_loops(*members_of(model), X_NEW)
    near = epistemic < 1e3  # rows of which all trees say the same cluster
    assert near.mean() > 0.5
    found = moments.answer(X_NEW)
    np.testing.assert_allclose(found.epistemic[near], epistemic[near], rtol=1e-4)
    np.testing.assert_allclose(found.mean[near], mean[near], rtol=0, atol=1e-5)
    assert LeafMoments(fitted(GROWN["forest"])).bound.forest.count_table.shape[1] == 4


@pytest.mark.parametrize("scale", [1.0, 1e30, 1e-30])
@pytest.mark.parametrize("constant", [0.0, 0.1, -1e8])
@pytest.mark.exhaustive(keep=2)
def test_constant_targets_have_no_doubt(constant, scale):
    model = fitted(RandomForestRegressor(6, random_state=0), np.full(len(X), constant * scale))
    found = LeafMoments(model).answer(X_NEW)
    np.testing.assert_allclose(found.mean, constant * scale, rtol=1e-12)
    assert (found.aleatoric == 0).all()
    assert (found.epistemic <= (1e-14 * abs(constant * scale)) ** 2).all()


@pytest.mark.parametrize("scale", [2.0**100, 2.0**-18])
@pytest.mark.exhaustive
def test_units_do_not_matter(scale):
    model = fitted(RandomForestRegressor(6, min_samples_leaf=2, random_state=0), Y * scale)
    found = LeafMoments(model, X, Y * scale).answer(X_NEW)
    own = LeafMoments(fitted(RandomForestRegressor(6, min_samples_leaf=2, random_state=0)), X, Y).answer(X_NEW)
    units = scale ** np.array([[1], [2], [2]])
    np.testing.assert_allclose(np.array(found) / units, own, rtol=1e-4, atol=1e-6)


def test_shrinkage():
    model = fitted(GROWN["forest"])
    assert LeafMoments(model).answer(X_NEW).aleatoric.max() < 1e-6  # leaves of one

    def shrunk(t, leaf):
        tree = model.estimators_[t].tree_
        n = tree.weighted_n_node_samples[leaf]
        return (n * tree.impurity[leaf] + 3 * typical) / (n + 3)

    model = fitted(GROWN["large leaves"])
    parts = [(tree.tree_, tree.tree_.children_left < 0) for tree in model.estimators_]
    size = np.concatenate([tree.weighted_n_node_samples[leaf] for tree, leaf in parts])
    typical = np.average(np.concatenate([tree.impurity[leaf] for tree, leaf in parts]), weights=size)
    found = LeafMoments(model, shrinkage=3.0).answer(X_NEW)
    expected = by_loops(*members_of(model), X_NEW, variance_of=shrunk)
    np.testing.assert_allclose(found.aleatoric, expected[1], **TOL)


def test_other_criteria_and_additive_forests_are_recounted():
    model = fitted(RandomForestRegressor(6, criterion="absolute_error", min_samples_leaf=8, random_state=0))
    refuses(ValueError, "absolute_error", LeafMoments, model)
    variance_of = variances_of_rows(model, Y, np.ones((len(X), 6)))
    expected = by_loops(*members_of(model), X_NEW, variance_of=variance_of)
    alike(LeafMoments(model, X, Y).answer(X_NEW), expected)
    additive = ju.from_sklearn_values(model)
    refuses(ValueError, "hold no variances", LeafMoments, additive)
    alike(LeafMoments(additive, X, Y).answer(X_NEW), expected, rtol=1e-4, atol=1e-5)


def test_missing_values():
    holed = X.copy()
    holed[::3, 3] = np.nan
    model = RandomForestRegressor(6, min_samples_leaf=3, random_state=0).fit(holed, Y)
    new = X_NEW.copy()
    new[::4, 3] = np.nan
    np.testing.assert_allclose(LeafMoments(model).answer(new).mean, model.predict(new), **TOL)


def of_one_leaf(bootstrap):
    target = 1e8 + 0.3 * np.random.default_rng(0).normal(size=len(X))
    return ExtraTreesRegressor(5, min_samples_leaf=len(X) // 2, bootstrap=bootstrap, random_state=0).fit(X, target)


grown = lambda: fitted(GROWN["forest"])
test_refusals = refusals(
    ("not fitted", lambda: LeafMoments(RandomForestRegressor()), "not fitted"),
    ("traced", lambda: jax.jit(LeafMoments(grown()).answer)(X), "traced", TypeError),
    ("squares", lambda: LeafMoments(grown(), X, 1e200 * Y), "whose squares are none"),
    ("classes", lambda: LeafMoments(RandomForestClassifier(2).fit(X, Y > 14)), "classes|numbers", TypeError),
    ("no trees", lambda: LeafMoments(KNeighborsRegressor().fit(X, Y)), "KNeighborsRegressor", TypeError),
    ("boosted", lambda: LeafMoments(GradientBoostingRegressor(n_estimators=3).fit(X, Y)), "correct each other"),
    ("bins", lambda: LeafMoments(HistGradientBoostingRegressor(max_iter=3).fit(X, Y)), "RandomForestRegressor"),
    ("two targets", lambda: LeafMoments(RandomForestRegressor(2).fit(X, np.c_[Y, Y])), "2 numbers"),
    ("no target", lambda: LeafMoments(grown(), X), "together"),
    ("short target", lambda: LeafMoments(grown(), X, Y[:5]), "5 numbers for 40"),
    ("wide target", lambda: LeafMoments(grown(), X, np.c_[Y, Y]), "one model a target"),
    ("nan target", lambda: LeafMoments(grown(), X, np.r_[np.nan, Y[1:]]), "nan at position 0"),
    ("words", lambda: LeafMoments(grown(), X, np.array(["a"] * 40)), "no numbers", TypeError),
    ("weight", lambda: LeafMoments(grown(), X, Y, weight=-Y), "weight"),
    ("no weight", lambda: LeafMoments(grown(), X, Y, weight=0 * Y), "nothing to count"),
    ("lost variances", lambda: LeafMoments(of_one_leaf(False)), "Pass the rows X and y"),
    ("lost variances of bags", lambda: LeafMoments(of_one_leaf(True)), "Pass the rows X and y"),
)
