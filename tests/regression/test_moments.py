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
from tests._refusal import refuses
from tests.conftest import X64

TOL = {"rtol": 1e-9, "atol": 1e-12} if X64 else {"rtol": 3e-5, "atol": 1e-6}
X, Y = make_friedman1(400, noise=1.0, random_state=0)
X = X.astype(np.float32)
X_NEW = make_friedman1(150, noise=1.0, random_state=1)[0].astype(np.float32)
GROWN = {
    "forest": RandomForestRegressor(12, random_state=0),
    "large leaves": RandomForestRegressor(12, min_samples_leaf=5, max_features=1 / 3, random_state=1),
    "extra": ExtraTreesRegressor(9, min_samples_leaf=3, random_state=0),
    "bag": BaggingRegressor(DecisionTreeRegressor(min_samples_leaf=4), 8, max_features=0.6, random_state=0),
    "one tree": DecisionTreeRegressor(max_depth=4, random_state=0),
    "a stump's root": RandomForestRegressor(4, min_samples_leaf=300, random_state=0),
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


@pytest.mark.parametrize("name", GROWN)
@pytest.mark.exhaustive(keep=3)
def test_own_moments_against_loops(name):
    model = fitted(GROWN[name])
    moments = LeafMoments(model)
    members, features = members_of(model)
    found = moments.answer(X_NEW)
    for part, expected in zip(found, by_loops(members, features, X_NEW), strict=True):
        assert part.dtype == np.float64
        np.testing.assert_allclose(part, expected, **TOL)
    np.testing.assert_allclose(found.mean, model.predict(X_NEW), **TOL)
    np.testing.assert_allclose(found.std**2, found.aleatoric + found.epistemic)
    mask = np.random.default_rng(0).random((len(X_NEW), len(members))) < 0.4
    mask[:, 0] |= ~mask.any(axis=1)
    expected = by_loops(members, features, X_NEW, mask)
    for part, value in zip(moments.answer(X_NEW, tree_mask=mask), expected, strict=True):
        np.testing.assert_allclose(part, value, **TOL)


def test_rows_without_a_tree_are_nan_and_others_stay():
    moments = LeafMoments(fitted(GROWN["forest"]))
    mask = np.ones((len(X_NEW), 12), bool)
    mask[3] = False
    found, whole = moments.answer(X_NEW, tree_mask=mask), moments.answer(X_NEW)
    for part, all_ in zip(found, whole, strict=True):
        assert np.isnan(part[3])
        np.testing.assert_array_equal(np.delete(part, 3), np.delete(all_, 3))


def test_the_answer_of_a_row_does_not_depend_on_others():
    moments = LeafMoments(fitted(GROWN["forest"]))
    whole = moments.answer(X_NEW)
    for rows in (slice(0, 1), slice(5, 23)):
        for part, all_ in zip(moments.answer(X_NEW[rows]), whole, strict=True):
            np.testing.assert_array_equal(part, all_[rows])
    assert all(part.shape == (0,) for part in moments.answer(X_NEW[:0]))
    for part, again in zip(whole, pickle.loads(pickle.dumps(moments)).answer(X_NEW), strict=True):
        np.testing.assert_array_equal(part, again)


def test_sample_weights_and_multiplicities_are_as_grown():
    weight = np.random.default_rng(0).integers(0, 4, len(X)).astype(float)
    model = fitted(RandomForestRegressor(6, min_samples_leaf=4, random_state=0), sample_weight=weight)
    times = np.stack([np.bincount(bag, minlength=len(X)) for bag in model.estimators_samples_], axis=1)
    # scikit-learn draws bags by weight since 1.9, and weighs drawn rows before.
    by_weight = model.estimators_[0].tree_.weighted_n_node_samples[0] == times[:, 0].sum()
    counted = times if by_weight else times * weight[:, None]
    recounted = LeafMoments(model, X, Y, weight=counted).answer(X_NEW)
    for part, own in zip(recounted, LeafMoments(model).answer(X_NEW), strict=True):
        np.testing.assert_allclose(part, own, rtol=1e-5, atol=1e-6)


def test_targets_of_1e8_are_recounted_exactly():
    y = 1e8 + np.sign(Y - np.median(Y)) + 0.01 * Y
    model = fitted(RandomForestRegressor(6, min_samples_leaf=3, random_state=0), y)
    refuses(ValueError, "lost their digits", LeafMoments, model)
    times = np.stack([np.bincount(bag, minlength=len(X)) for bag in model.estimators_samples_], axis=1)
    found = LeafMoments(model, X, y, weight=times).answer(X_NEW)
    variance_of = variances_of_rows(model, y - 1e8, times)
    mean, aleatoric, epistemic = by_loops(*members_of(model), X_NEW, variance_of=variance_of)
    np.testing.assert_allclose(found.mean - 1e8, mean - 1e8, atol=1e-6)
    np.testing.assert_allclose(found.aleatoric, aleatoric, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(found.epistemic, epistemic, rtol=1e-5, atol=1e-7)


@pytest.mark.exhaustive
def test_trees_that_differ_far_from_the_centre():
    """Targets near 0 and near 1e8: one float of an offset would round what trees differ by."""
    y = np.where(X[:, 0] > 0.5, 1e8, 0.0) + Y
    model = fitted(RandomForestRegressor(12, min_samples_leaf=5, random_state=0), y)
    moments = LeafMoments(model, X, y)
    assert moments.bound.forest.count_table.shape[1] == 3
    mean, _, epistemic = by_loops(*members_of(model), X_NEW)
    alike = epistemic < 1e3  # rows of which all trees say the same cluster
    assert alike.mean() > 0.5
    found = moments.answer(X_NEW)
    np.testing.assert_allclose(found.epistemic[alike], epistemic[alike], rtol=1e-4)
    np.testing.assert_allclose(found.mean[alike], mean[alike], rtol=0, atol=1e-5)
    assert LeafMoments(fitted(GROWN["forest"])).bound.forest.count_table.shape[1] == 4


@pytest.mark.parametrize("scale", [1.0, 1e30, 1e-30])
@pytest.mark.parametrize("constant", [0.0, 0.1, -1e8])
@pytest.mark.exhaustive(keep=2)
def test_constant_targets_have_no_doubt(constant, scale):
    model = fitted(RandomForestRegressor(5, random_state=0), np.full(len(X), constant * scale))
    found = LeafMoments(model).answer(X_NEW)
    np.testing.assert_allclose(found.mean, constant * scale, rtol=1e-12)
    assert (found.aleatoric == 0).all()
    assert (found.epistemic <= (1e-14 * abs(constant * scale)) ** 2).all()


@pytest.mark.parametrize("scale", [2.0**100, 2.0**-18])
@pytest.mark.exhaustive
def test_units_do_not_matter(scale):
    model = fitted(RandomForestRegressor(5, min_samples_leaf=2, random_state=0), Y * scale)
    found = LeafMoments(model, X, Y * scale).answer(X_NEW)
    own = LeafMoments(fitted(RandomForestRegressor(5, min_samples_leaf=2, random_state=0)), X, Y).answer(X_NEW)
    for part, expected, power in zip(found, own, (1, 2, 2), strict=True):
        np.testing.assert_allclose(part / scale**power, expected, rtol=1e-4, atol=1e-6)


def test_shrinkage():
    model = fitted(GROWN["forest"])
    assert LeafMoments(model).answer(X_NEW).aleatoric.max() < 1e-6  # leaves of one
    parts = [(tree.tree_, tree.tree_.children_left < 0) for tree in model.estimators_]
    size = np.concatenate([tree.weighted_n_node_samples[leaf] for tree, leaf in parts])
    variance = np.concatenate([tree.impurity[leaf] for tree, leaf in parts])
    typical = np.average(variance, weights=size)

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


def test_other_criteria_are_recounted():
    model = fitted(RandomForestRegressor(4, criterion="absolute_error", min_samples_leaf=8, random_state=0))
    refuses(ValueError, "absolute_error", LeafMoments, model)
    variance_of = variances_of_rows(model, Y, np.ones((len(X), 4)))
    expected = by_loops(*members_of(model), X_NEW, variance_of=variance_of)
    for part, value in zip(LeafMoments(model, X, Y).answer(X_NEW), expected, strict=True):
        np.testing.assert_allclose(part, value, **TOL)


def test_additive_forests_are_recounted():
    model = fitted(GROWN["large leaves"])
    additive = ju.from_sklearn_values(model)
    refuses(ValueError, "hold no variances", LeafMoments, additive)
    ours, own = (LeafMoments(one, X, Y).answer(X_NEW) for one in (additive, model))
    for part, expected in zip(ours, own, strict=True):
        np.testing.assert_allclose(part, expected, rtol=1e-4, atol=1e-5)


def test_missing_values():
    holed = X.copy()
    holed[::3, 3] = np.nan
    model = RandomForestRegressor(8, min_samples_leaf=3, random_state=0).fit(holed, Y)
    new = X_NEW.copy()
    new[::4, 3] = np.nan
    np.testing.assert_allclose(LeafMoments(model).answer(new).mean, model.predict(new), **TOL)


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: LeafMoments(RandomForestRegressor()), ValueError, "not fitted"),
        (lambda: jax.jit(LeafMoments(fitted(GROWN["forest"])).answer)(X), TypeError, "traced"),
        (lambda: LeafMoments(fitted(GROWN["forest"]), X, 1e200 * Y), ValueError, "whose squares are none"),
        (lambda: LeafMoments(RandomForestClassifier(2).fit(X, Y > 14)), TypeError, "classes|numbers"),
        (lambda: LeafMoments(KNeighborsRegressor().fit(X, Y)), TypeError, "KNeighborsRegressor"),
        (lambda: LeafMoments(GradientBoostingRegressor(n_estimators=3).fit(X, Y)), ValueError, "correct each other"),
        (lambda: LeafMoments(HistGradientBoostingRegressor(max_iter=3).fit(X, Y)), ValueError, "RandomForestRegressor"),
        (lambda: LeafMoments(RandomForestRegressor(2).fit(X, np.c_[Y, Y])), ValueError, "2 numbers"),
        (lambda: LeafMoments(fitted(GROWN["forest"]), X), ValueError, "together"),
        (lambda: LeafMoments(fitted(GROWN["forest"]), X, Y[:5]), ValueError, "5 numbers for 400"),
        (lambda: LeafMoments(fitted(GROWN["forest"]), X, np.c_[Y, Y]), ValueError, "one model a target"),
        (lambda: LeafMoments(fitted(GROWN["forest"]), X, np.r_[np.nan, Y[1:]]), ValueError, "nan at position 0"),
        (lambda: LeafMoments(fitted(GROWN["forest"]), X, np.array(["a"] * 400)), TypeError, "no numbers"),
        (lambda: LeafMoments(fitted(GROWN["forest"]), X, Y, weight=-Y), ValueError, "weight"),
        (lambda: LeafMoments(fitted(GROWN["forest"]), X, Y, weight=0 * Y), ValueError, "nothing to count"),
        (lambda: LeafMoments(fitted(GROWN["forest"]), shrinkage=-1), ValueError, "shrinkage"),
    ],
)
def test_refusals(make, error, said):
    refuses(error, said, make)


@pytest.mark.once
@pytest.mark.parametrize("bootstrap", [False, True])
def test_variances_that_trees_of_one_leaf_have_lost_are_refused(bootstrap):
    target = 1e8 + 0.3 * np.random.default_rng(0).normal(size=len(X))
    model = ExtraTreesRegressor(5, min_samples_leaf=len(X) // 2, bootstrap=bootstrap, random_state=0).fit(X, target)
    refuses(ValueError, "Pass the rows X and y", LeafMoments, model)
