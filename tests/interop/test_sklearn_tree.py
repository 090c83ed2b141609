"""Trees of a scikit-learn to come, and of scikit-learn-intelex: read by what is public, or refused."""

import warnings

import numpy as np
import pytest
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier

import jaxunc as ju
from tests._forests import toy_data

pytestmark = pytest.mark.once


class FutureTree:
    """A tree that stores its nodes in another form; what is public stays, but for what a test changes."""

    renamed: tuple[tuple[str, str], ...] = ()
    added: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()

    def __init__(self, tree):
        self._tree = tree

    def __getattr__(self, name):
        if name in type(self).absent:
            raise AttributeError(name)
        return getattr(self._tree, name)

    def __getstate__(self):
        state = dict(self._tree.__getstate__())
        old = state["nodes"].dtype
        fields = [(dict(self.renamed).get(name, name), old.fields[name][0]) for name in old.names]
        state["nodes"] = np.zeros(len(state["nodes"]), [*fields, *((name, "<u4", (8,)) for name in self.added)])
        return state


def with_trees(kind, model):
    """The model, each of its trees seen through a stand-in."""
    for member in getattr(model, "estimators_", [model]):
        member.tree_ = kind(member.tree_)
    return model


def grown(**settings):
    X, y = toy_data(2)
    X = X.copy()
    X[::7, 0] = np.nan
    return RandomForestClassifier(5, max_depth=6, random_state=0, **settings).fit(X, y), X


def numeric(tree) -> np.ndarray:
    """What ``split_kind`` is in a tree of thresholds: 0 where there is a test, -1 in leaves."""
    return np.where(tree.children_left < 0, -1, 0).astype(np.int8)


class Renamed(FutureTree):
    renamed = (("threshold", "cut"), ("left_child", "left"), ("feature", "column"))


class WithCategories(FutureTree):
    """The form of scikit-learn 1.10's nodes, without a test of categories."""

    added = ("left_cat_bitset", "split_kind")

    @property
    def split_kind(self):
        return numeric(self._tree)


class WithoutState(FutureTree):
    def __getstate__(self):
        return {}


@pytest.mark.parametrize("kind", [Renamed, WithCategories, WithoutState])
def test_other_fields_of_the_same_meaning(kind):
    """Where all nodes are as their public arrays say, the form in which they are stored does not matter."""
    model, X = grown()
    known = ju.from_sklearn(model)
    read = ju.from_sklearn(with_trees(kind, model))
    np.testing.assert_array_equal(ju.leaf_index(read, X), ju.leaf_index(known, X))
    for name in ("feature", "threshold", "child", "missing_right"):
        np.testing.assert_array_equal(getattr(read.trees, name), getattr(known.trees, name))


def test_other_fields_in_a_bag_and_in_regressors():
    X, y = toy_data(2)
    bag = BaggingClassifier(DecisionTreeClassifier(max_depth=4), 4, max_features=0.5, random_state=0).fit(X, y)
    known = np.asarray(ju.from_sklearn(bag).trees.feature)
    np.testing.assert_array_equal(ju.from_sklearn(with_trees(Renamed, bag)).trees.feature, known)
    forest = RandomForestRegressor(3, max_depth=3, random_state=0).fit(X, y)
    known = np.asarray(ju.from_sklearn_values(forest).predict(X))
    np.testing.assert_array_equal(ju.from_sklearn_values(with_trees(Renamed, forest)).predict(X), known)


class BySplitKind(WithCategories):
    @property
    def split_kind(self):
        kinds = numeric(self._tree)
        kinds[0] = 2
        return kinds


class ByThreshold(FutureTree):
    added = ("left_cat_bitset",)

    @property
    def threshold(self):
        threshold = self._tree.threshold.copy()
        threshold[0] = -np.inf
        return threshold


@pytest.mark.parametrize("kind", [BySplitKind, ByThreshold])
def test_categories_are_refused(kind):
    model, _ = grown()
    feature = model.estimators_[0].tree_.feature[0]
    with pytest.raises(ValueError, match=rf"test categories of the columns \[{feature}\].*OrdinalEncoder"):
        ju.from_sklearn(with_trees(kind, model))


def test_categories_by_the_columns_of_the_estimator():
    """A nominal column that no node tests is no reason to refuse."""
    model, _ = grown()
    tested = np.unique(np.concatenate([m.tree_.feature[m.tree_.feature >= 0] for m in model.estimators_]))
    for member in model.estimators_:
        member.is_categorical_ = ~np.isin(np.arange(model.n_features_in_), tested)
    ju.from_sklearn(model)
    for member in model.estimators_:
        member.is_categorical_ = np.arange(model.n_features_in_) == tested[0]
    with pytest.raises(ValueError, match=rf"categories of the columns \[{tested[0]}\]"):
        ju.from_sklearn(model)


def test_categories_in_a_bag_are_named_by_the_bags_columns():
    X, y = toy_data(2)
    bag = BaggingClassifier(DecisionTreeClassifier(max_depth=1), 1, max_features=0.5, random_state=0).fit(X, y)
    column = bag.estimators_features_[0][bag.estimators_[0].tree_.feature[0]]
    with pytest.raises(ValueError, match=rf"categories of the columns \[{column}\]"):
        ju.from_sklearn(with_trees(BySplitKind, bag))


class Unknown(FutureTree):
    @property
    def fuzziness(self):
        return np.zeros(self._tree.node_count)


class Absent(FutureTree):
    absent = ("missing_go_to_left",)


@pytest.mark.parametrize(
    ("kind", "named"), [(Unknown, r"unknown: \['fuzziness'\]"), (Absent, r"absent: \['missing_go_to_left'\]")]
)
def test_unknown_and_absent_arrays(kind, named):
    with pytest.raises(ValueError, match=rf"arrays by node that this version of jaxunc does not know.*{named}"):
        ju.from_sklearn(with_trees(kind, grown()[0]))


class Elsewhere(FutureTree):
    """At one test instances go elsewhere, for a reason that no public array tells."""

    renamed = (("threshold", "cut"),)

    def differs(self, X, leaf):
        raise NotImplementedError

    def apply(self, X):
        leaf = self._tree.apply(X)
        return np.where(self.differs(X, leaf), leaf[0], leaf)


class OneTest(Elsewhere):
    """Of two sibling leaves the right one is never reached."""

    def differs(self, X, leaf):
        return leaf == self._tree.node_count - 1


class MissingElsewhere(Elsewhere):
    def differs(self, X, leaf):
        return np.isnan(X).any(axis=1)


class ByTwoColumns(Elsewhere):
    def differs(self, X, leaf):
        first, second = np.unique(self._tree.feature[self._tree.feature >= 0])[:2]
        return (X[:, first] != 0) & (X[:, second] != 0)


@pytest.mark.parametrize("kind", [OneTest, MissingElsewhere, ByTwoColumns])
def test_nodes_that_send_instances_elsewhere(kind):
    with pytest.raises(ValueError, match="elsewhere than its thresholds say"):
        ju.from_sklearn(with_trees(kind, grown()[0]))


class Intelex(RandomForestClassifier):
    __module__ = "sklearnex.ensemble._forest"


class IntelexRegressor(RandomForestRegressor):
    __module__ = "sklearnex.ensemble._forest"


class NothingGoesLeft(FutureTree):
    @property
    def missing_go_to_left(self):
        return np.zeros(self._tree.node_count, np.uint8)


def test_accelerated_forests_that_lose_missing_values():
    """No node of theirs sends missing values left: only that is told apart, since complete instances are as exact."""
    X, y = toy_data(2)
    settings = {"n_estimators": 3, "max_depth": 3, "random_state": 0}
    known = ju.leaf_index(ju.from_sklearn(RandomForestClassifier(**settings).fit(X, y)), X)
    model = Intelex(**settings).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ju.from_sklearn(model)  # which says where they go, as later versions do
        ju.from_sklearn(with_trees(NothingGoesLeft, Intelex(3, min_samples_leaf=len(y)).fit(X, y)))  # no tests
        ju.from_sklearn(with_trees(NothingGoesLeft, RandomForestClassifier(**settings).fit(X, y)))
    with pytest.warns(UserWarning, match="does not say where missing values go"):
        forest = ju.from_sklearn(with_trees(NothingGoesLeft, model))
    np.testing.assert_array_equal(ju.leaf_index(forest, X), known)
    values = IntelexRegressor(**settings).fit(X, y)
    with pytest.warns(UserWarning, match="does not say where missing values go"):
        ju.from_sklearn_values(with_trees(NothingGoesLeft, values))
