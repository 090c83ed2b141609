"""Import of scikit-learn's forests, and how their trees are read whatever form they are stored in."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier

import jaxunc as ju
from tests._forests import leaf_nodes, toy_data

pytestmark = pytest.mark.once


def members(model):
    return [model] if isinstance(model, DecisionTreeClassifier) else model.estimators_


def expected_counts(tree) -> np.ndarray:
    """Weighted counts of a tree's leaves, sorted: fractions times size."""
    leaf = tree.children_left < 0
    return np.sort((tree.value[:, 0] * tree.weighted_n_node_samples[:, None])[leaf], axis=0)


MODELS = {
    "tree": DecisionTreeClassifier(min_samples_leaf=4, random_state=0),
    "random tree": ExtraTreeClassifier(min_samples_leaf=4, random_state=0),
    "forest": RandomForestClassifier(20, min_samples_leaf=3, random_state=0),
    "extra trees": ExtraTreesClassifier(20, min_samples_leaf=3, random_state=0),
    "entropy, few leaves": RandomForestClassifier(20, criterion="entropy", max_leaf_nodes=12, random_state=0),
    "no bootstrap": RandomForestClassifier(20, bootstrap=False, max_features=1, min_samples_leaf=5, random_state=0),
    "bagging": BaggingClassifier(DecisionTreeClassifier(min_samples_leaf=3), 20, random_state=0),
    "bagging, columns": BaggingClassifier(
        DecisionTreeClassifier(min_samples_leaf=3), 20, max_features=0.5, bootstrap_features=True, random_state=0
    ),
    "pruned": RandomForestClassifier(20, ccp_alpha=0.005, random_state=0),
}


@pytest.mark.parametrize(("name", "n_classes"), [(name, 2 + 2 * (i % 2)) for i, name in enumerate(MODELS)])
@pytest.mark.exhaustive(keep=2)
def test_probabilities_agree(name, n_classes):
    X, y = toy_data(n_classes)
    model = MODELS[name].fit(X, y)
    forest = ju.forest.check_forest(ju.from_sklearn(model))
    probability = ju.bind(forest, ju.Mean(), threads=1).probability(X)
    np.testing.assert_allclose(probability, model.predict_proba(X), atol=1e-6)
    for t, member in enumerate(members(model)):
        reached = leaf_nodes(forest)[t] & (np.asarray(forest.counts)[t].sum(-1) > 0)
        np.testing.assert_allclose(
            np.sort(np.asarray(forest.counts)[t][reached], axis=0), expected_counts(member.tree_), rtol=1e-6, atol=1e-6
        )


@pytest.mark.parametrize("labels", [["yes", "no"], [True, False], [-1, 1], [10.0, 2.0], ["b", "a", "c"]])
@pytest.mark.exhaustive(keep=1)
def test_labels(labels):
    X, y = toy_data(len(labels))
    model = RandomForestClassifier(5, random_state=0).fit(X, np.array(labels)[y])
    forest = ju.from_sklearn(model)
    assert forest.class_labels == tuple(sorted(labels))
    np.testing.assert_allclose(ju.bind(forest, ju.Mean()).probability(X), model.predict_proba(X), atol=1e-6)
    chosen = np.array(forest.class_labels)[np.argmax(ju.bind(forest, ju.Mean()).probability(X), axis=1)]
    assert np.mean(chosen == model.predict(X)) > 0.97, "but for ties"


@pytest.mark.exhaustive
def test_bagged_trees_that_missed_a_class():
    """A tree that never saw a class counts it zero times; the others keep their places.

    A bag numbers the classes for its trees, and some versions of scikit-learn show a tree its sample alone.
    """
    X, y = toy_data(3)
    model = BaggingClassifier(DecisionTreeClassifier(min_samples_leaf=5, random_state=0), 4, random_state=0).fit(X, y)
    model.estimators_[1] = DecisionTreeClassifier(min_samples_leaf=5, random_state=0).fit(X[y != 1], y[y != 1])
    model.estimators_[2] = DecisionTreeClassifier(random_state=0).fit(X[y == 2], y[y == 2])
    forest = ju.forest.check_forest(ju.from_sklearn(model))
    np.testing.assert_allclose(ju.bind(forest, ju.Mean()).probability(X), model.predict_proba(X), atol=1e-6)
    np.testing.assert_array_equal(np.asarray(forest.counts)[1, :, 1], 0)
    np.testing.assert_array_equal(np.asarray(forest.counts)[2, 0], [0, 0, np.sum(y == 2)])


@pytest.mark.exhaustive
def test_class_weights_make_counts_fractional():
    X, y = toy_data(2)
    y = (y + (X[:, 3] > 0.5) > 1).astype(int)
    model = RandomForestClassifier(8, class_weight="balanced", bootstrap=False, min_samples_leaf=4, random_state=0)
    model.fit(X, y)
    forest = ju.forest.check_forest(ju.from_sklearn(model))
    assert not np.issubdtype(forest.count_table.dtype, np.integer)
    np.testing.assert_allclose(forest.prior, [0.5, 0.5], rtol=1e-6)
    np.testing.assert_allclose(ju.bind(forest, ju.Mean()).probability(X), model.predict_proba(X), atol=1e-6)
    shares = np.bincount(y) / len(y)
    np.testing.assert_allclose(ju.from_sklearn(model, prior=shares).prior, shares, rtol=1e-6)


@pytest.mark.parametrize("whole", [True, False])
def test_sample_weights(whole, rng):
    X, y = toy_data(2)
    weight = rng.integers(1, 5, len(X)) if whole else rng.uniform(0.1, 2, len(X))
    model = DecisionTreeClassifier(min_samples_leaf=5, random_state=0).fit(X, y, sample_weight=weight)
    forest = ju.forest.check_forest(ju.from_sklearn(model))
    assert np.issubdtype(forest.count_table.dtype, np.integer) == whole
    leaf = np.asarray(ju.leaf_counts(forest, jnp.asarray(X)))[:, 0]
    applied = model.apply(X)
    for node in np.unique(applied):
        at = applied == node
        expected = np.bincount(y[at], weight[at], minlength=2)
        np.testing.assert_allclose(leaf[at], np.tile(expected, (at.sum(), 1)), rtol=1e-6)
    np.testing.assert_allclose(forest.n_samples, weight.sum(), rtol=1e-6)


def test_counts_are_snapped_to_integers():
    """scikit-learn's fractions times the size are off by rounding; the counts are whole all the same."""
    X, y = toy_data(2)
    model = RandomForestClassifier(30, min_samples_leaf=7, random_state=0).fit(X, y)
    raw = np.concatenate([t.tree_.value[:, 0] * t.tree_.weighted_n_node_samples[:, None] for t in model.estimators_])
    assert np.any(raw != np.rint(raw)), "else this test tests nothing"
    forest = ju.from_sklearn(model)
    assert np.issubdtype(forest.count_table.dtype, np.integer)


def test_prior_is_the_class_frequency_of_the_samples():
    X, y = toy_data(2)
    forest = ju.from_sklearn(RandomForestClassifier(10, bootstrap=False, random_state=0).fit(X, y))
    np.testing.assert_allclose(forest.prior, np.bincount(y) / len(y), rtol=1e-6)


def test_feature_names():
    import pandas

    X, y = toy_data(2)
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    forest = ju.from_sklearn(RandomForestClassifier(3, random_state=0).fit(frame, y))
    assert forest.trees.columns.names == tuple("abcdef")


# What is refused


@pytest.mark.parametrize(
    "model",
    [RandomForestClassifier(3), DecisionTreeClassifier(), BaggingClassifier(DecisionTreeClassifier(), 3)],
    ids=lambda m: type(m).__name__,
)
def test_unfitted(model):
    with pytest.raises(ValueError, match=r"model.*not fitted"):
        ju.from_sklearn(model)


@pytest.mark.parametrize(
    "model",
    [
        RandomForestRegressor(3),
        DecisionTreeRegressor(),
        LogisticRegression(),
        GradientBoostingClassifier(n_estimators=2),
        make_pipeline(StandardScaler(), RandomForestClassifier(3)),
        BaggingClassifier(LogisticRegression(), 3),
    ],
    ids=lambda m: type(m).__name__,
)
@pytest.mark.parametrize("fitted", [False, True])
def test_other_models(model, fitted):
    X, y = toy_data(2)
    if fitted:
        model = model.fit(X, y)
    bag = isinstance(model, BaggingClassifier)
    with pytest.raises(ValueError if bag and not fitted else TypeError, match="model"):
        ju.from_sklearn(model)


@pytest.mark.parametrize("model", [None, "forest.joblib", 3])
def test_no_model_at_all(model):
    with pytest.raises(TypeError, match="model is a"):
        ju.from_sklearn(model)


def test_negative_weights():
    X, y = toy_data(2)
    weight = np.where(np.arange(len(y)) % 5 == 0, -0.5, 1)
    with pytest.raises(ValueError, match=r"model's leaf counts .*negative sample weights"):
        ju.from_sklearn(DecisionTreeClassifier(max_depth=6, random_state=0).fit(X, y, sample_weight=weight))


@pytest.mark.parametrize("model", [DecisionTreeClassifier(), RandomForestClassifier(2)], ids=lambda m: type(m).__name__)
def test_a_single_class(model):
    X, y = toy_data(2)
    with pytest.raises(ValueError, match=r"one class only, \[3\]"):
        ju.from_sklearn(model.fit(X, np.full(len(y), 3)))


def test_several_outputs():
    X, y = toy_data(2)
    for model in (RandomForestClassifier(3), DecisionTreeClassifier(), ExtraTreesClassifier(3)):
        with pytest.raises(ValueError, match="2 outputs"):
            ju.from_sklearn(model.fit(X, np.stack([y, 1 - y], axis=1)))


@pytest.mark.parametrize("prior", [[0.5, 0.6], [0.2, 0.3, 0.5], [1.5, -0.5]])
@pytest.mark.exhaustive
def test_priors_that_are_refused(prior):
    X, y = toy_data(2)
    with pytest.raises(ValueError, match="prior"):
        ju.from_sklearn(DecisionTreeClassifier(max_depth=2).fit(X, y), prior=np.array(prior))


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
