"""Import of scikit-learn's forests, and how their trees are read whatever form they are stored in."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
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
from tests._refusal import refuses

from ._rows import answers_of, counts_of, mean_shares, walked

pytestmark = pytest.mark.once


def members(model):
    return [model] if isinstance(model, DecisionTreeClassifier) else model.estimators_


def expected_counts(tree) -> np.ndarray:
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
def test_probabilities_agree(name, n_classes):
    X, y = toy_data(n_classes)
    model = MODELS[name].fit(X, y)
    forest = ju.forest.check_forest(ju.from_sklearn(model))
    np.testing.assert_allclose(mean_shares(forest, X), model.predict_proba(X), atol=1e-6)
    if name == "forest":
        probability = ju.bind(forest, ju.Mean(), threads=1).probability(X)
        np.testing.assert_allclose(probability, model.predict_proba(X), atol=1e-6)
    for own, is_leaf, member in zip(counts_of(forest), leaf_nodes(forest), members(model), strict=True):
        found = np.sort(own[is_leaf & (own.sum(axis=1) > 0)], axis=0)
        np.testing.assert_allclose(found, expected_counts(member.tree_), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("labels", [["yes", "no"], [True, False], [-1, 1], [10.0, 2.0], ["b", "a", "c"]])
def test_labels(labels):
    X, y = toy_data(len(labels))
    model = RandomForestClassifier(5, random_state=0).fit(X, np.array(labels)[y])
    forest = ju.from_sklearn(model)
    assert forest.class_labels == tuple(sorted(labels))
    np.testing.assert_allclose(mean_shares(forest, X), model.predict_proba(X), atol=1e-6)
    chosen = np.array(forest.class_labels)[np.argmax(mean_shares(forest, X), axis=1)]
    assert np.mean(chosen == model.predict(X)) > 0.97, "but for ties"


def test_bagged_trees_that_missed_a_class():
    """A tree that never saw a class counts it zero times; the others keep their places.

    A bag numbers the classes for its trees, and some versions of scikit-learn show a tree its sample alone.
    """
    X, y = toy_data(3)
    model = BaggingClassifier(DecisionTreeClassifier(min_samples_leaf=5, random_state=0), 4, random_state=0).fit(X, y)
    model.estimators_[1] = DecisionTreeClassifier(min_samples_leaf=5, random_state=0).fit(X[y != 1], y[y != 1])
    model.estimators_[2] = DecisionTreeClassifier(random_state=0).fit(X[y == 2], y[y == 2])
    forest = ju.forest.check_forest(ju.from_sklearn(model))
    np.testing.assert_allclose(mean_shares(forest, X), model.predict_proba(X), atol=1e-6)
    np.testing.assert_array_equal(counts_of(forest)[1, :, 1], 0)
    np.testing.assert_array_equal(counts_of(forest)[2, 0], [0, 0, np.sum(y == 2)])


def test_class_weights_make_counts_fractional():
    X, y = toy_data(2)
    y = (y + (X[:, 3] > 0.5) > 1).astype(int)
    model = RandomForestClassifier(8, class_weight="balanced", bootstrap=False, min_samples_leaf=4, random_state=0)
    model.fit(X, y)
    forest = ju.forest.check_forest(ju.from_sklearn(model))
    assert not np.issubdtype(forest.count_table.dtype, np.integer)
    np.testing.assert_allclose(forest.prior, [0.5, 0.5], rtol=1e-6)
    np.testing.assert_allclose(mean_shares(forest, X), model.predict_proba(X), atol=1e-6)
    shares = np.bincount(y) / len(y)
    np.testing.assert_allclose(ju.from_sklearn(model, prior=shares).prior, shares, rtol=1e-6)


def test_counts_priors_and_names():
    """scikit-learn's fractions times the size are off by rounding; the counts are whole all the same."""
    X, y = toy_data(2)
    model = RandomForestClassifier(30, bootstrap=False, min_samples_leaf=7, random_state=0)
    model.fit(pd.DataFrame(X, columns=list("abcdef")), y)
    raw = np.concatenate([t.tree_.value[:, 0] * t.tree_.weighted_n_node_samples[:, None] for t in model.estimators_])
    assert np.any(raw != np.rint(raw)), "else this test tests nothing"
    forest = ju.from_sklearn(model)
    assert np.issubdtype(forest.count_table.dtype, np.integer)
    np.testing.assert_allclose(forest.prior, np.bincount(y) / len(y), rtol=1e-6)
    assert forest.trees.columns.names == tuple("abcdef")


@pytest.mark.parametrize("whole", [True, False])
def test_sample_weights(whole, rng):
    X, y = toy_data(2)
    weight = rng.integers(1, 5, len(X)) if whole else rng.uniform(0.1, 2, len(X))
    model = DecisionTreeClassifier(min_samples_leaf=5, random_state=0).fit(X, y, sample_weight=weight)
    forest = ju.forest.check_forest(ju.from_sklearn(model))
    assert np.issubdtype(forest.count_table.dtype, np.integer) == whole
    leaf = counts_of(forest)[0, walked(forest.trees, X)[:, 0]]
    applied = model.apply(X)
    for node in np.unique(applied):
        at = applied == node
        expected = np.bincount(y[at], weight[at], minlength=2)
        np.testing.assert_allclose(leaf[at], np.tile(expected, (at.sum(), 1)), rtol=1e-6)
    np.testing.assert_allclose(forest.n_samples, weight.sum(), rtol=1e-6)


KINDS = [
    RandomForestRegressor(3), DecisionTreeRegressor(), LogisticRegression(), GradientBoostingClassifier(n_estimators=2),
    make_pipeline(StandardScaler(), RandomForestClassifier(3)), BaggingClassifier(LogisticRegression(), 3),
]  # fmt: skip


@pytest.mark.parametrize("model", KINDS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("fitted", [False, True])
def test_other_models(model, fitted):
    model = model.fit(*toy_data(2)) if fitted else model
    bag = isinstance(model, BaggingClassifier)
    refuses(ValueError if bag and not fitted else TypeError, "model", ju.from_sklearn, model)


def test_refusals():
    X, y = toy_data(2)
    trees = DecisionTreeClassifier(max_depth=6, random_state=0), RandomForestClassifier(3), ExtraTreesClassifier(3)
    weight, both = np.where(np.arange(len(y)) % 5 == 0, -0.5, 1), np.stack([y, 1 - y], axis=1)
    bag = BaggingClassifier(DecisionTreeClassifier(), 3)
    cases = [(clone(model), r"model.*not fitted") for model in (*trees[:2], bag)]
    cases += [(clone(model).fit(X, np.full(len(y), 3)), r"one class only, \[3\]") for model in trees[:2]]
    cases += [(clone(model).fit(X, both), "2 outputs") for model in trees]
    negative = trees[0].fit(X, y, sample_weight=weight)
    for model, said in [*cases, (negative, r"model's leaf counts .*negative sample weights")]:
        refuses(ValueError, said, ju.from_sklearn, model)
    for prior in ([0.5, 0.6], [1.5, -0.5]):
        refuses(ValueError, "prior", ju.from_sklearn, clone(trees[0]).fit(X, y), prior=np.array(prior))


class FutureTree:
    """A tree that stores its nodes in another form; what is public stays, but for what a test changes."""

    def __init__(self, tree, renamed=(), added=(), has_state=True, **own):
        self._tree, self._renamed, self._added, self._has_state, self._own = tree, dict(renamed), added, has_state, own

    def __getattr__(self, name):
        if name in self._own:
            raise AttributeError(name)
        return getattr(self._tree, name)

    def __getstate__(self):
        if not self._has_state:
            return {}
        state = dict(self._tree.__getstate__())
        old = state["nodes"].dtype
        fields = [(self._renamed.get(name, name), old.fields[name][0]) for name in old.names]
        added = [(name, "<u4", (8,)) for name in self._added if name not in old.names]
        state["nodes"] = np.zeros(len(state["nodes"]), [*fields, *added])
        return state


def with_trees(model, **changes):
    """The model, each of its trees seen through a stand-in: public arrays as functions of the tree, None for none."""
    shown = {name: property(lambda self, own=own: own(self._tree)) for name, own in changes.items() if callable(own)}
    kind = type("Shown", (FutureTree,), shown)  # whose public names are looked up
    for member in getattr(model, "estimators_", [model]):
        member.tree_ = kind(member.tree_, **changes)
    return model


def grown(**settings):
    X, y = toy_data(2)
    X = X.copy()
    X[::7, 0] = np.nan
    return RandomForestClassifier(5, max_depth=6, random_state=0, **settings).fit(X, y), X


def numeric(tree) -> np.ndarray:
    """What ``split_kind`` is in a tree of thresholds: 0 where there is a test, -1 in leaves."""
    return np.where(tree.children_left < 0, -1, 0).astype(np.int8)


RENAMED = {"renamed": (("threshold", "cut"), ("left_child", "left"), ("feature", "column"))}
FORMS = {
    "renamed": RENAMED,
    "with categories, as scikit-learn 1.10": {"added": ("left_cat_bitset", "split_kind"), "split_kind": numeric},
    "without state": {"has_state": False},
}


@pytest.mark.parametrize("form", FORMS)
def test_other_fields_of_the_same_meaning(form):
    """Where all nodes are as their public arrays say, the form in which they are stored does not matter."""
    model, X = grown()
    known = ju.from_sklearn(model)
    read = ju.from_sklearn(with_trees(model, **FORMS[form]))
    np.testing.assert_array_equal(walked(read.trees, X), walked(known.trees, X))
    for name in ("feature", "threshold", "child", "missing_right"):
        np.testing.assert_array_equal(getattr(read.trees, name), getattr(known.trees, name))


def test_other_fields_in_a_bag_and_in_regressors():
    X, y = toy_data(2)
    bag = BaggingClassifier(DecisionTreeClassifier(max_depth=4), 4, max_features=0.5, random_state=0).fit(X, y)
    known = np.asarray(ju.from_sklearn(bag).trees.feature)
    np.testing.assert_array_equal(ju.from_sklearn(with_trees(bag, **RENAMED)).trees.feature, known)
    forest = RandomForestRegressor(3, max_depth=3, random_state=0).fit(X, y)
    known = answers_of(ju.from_sklearn_values(forest), X)
    np.testing.assert_array_equal(answers_of(ju.from_sklearn_values(with_trees(forest, **RENAMED)), X), known)


def with_first(array, value):
    changed = array.copy()
    changed[0] = value
    return changed


BY_KIND = {**FORMS["with categories, as scikit-learn 1.10"], "split_kind": lambda tree: with_first(numeric(tree), 2)}
BY_THRESHOLD = {"added": ("left_cat_bitset",), "threshold": lambda tree: with_first(tree.threshold, -np.inf)}


@pytest.mark.parametrize(
    ("sign", "said"),
    [(BY_KIND, "by a random hash"), (BY_THRESHOLD, "which values these are")],
    ids=["kind", "threshold"],
)
def test_categories_are_refused(sign, said):
    model, _ = grown()
    feature = model.estimators_[0].tree_.feature[0]
    with pytest.raises(ValueError, match=rf"test categories of the columns \[{feature}\].*{said}.*OrdinalEncoder"):
        ju.from_sklearn(with_trees(model, **sign))


def test_categories_by_the_columns_of_the_estimator():
    """A nominal column that no node tests is no reason to refuse."""
    model, _ = grown()
    tested = np.unique(np.concatenate([m.tree_.feature[m.tree_.feature >= 0] for m in model.estimators_]))
    for member in model.estimators_:
        member.is_categorical_ = ~np.isin(np.arange(model.n_features_in_), tested)
    ju.from_sklearn(model)
    for member in model.estimators_:
        member.is_categorical_ = np.arange(model.n_features_in_) == tested[0]
    refuses(ValueError, rf"categories of the columns \[{tested[0]}\]", ju.from_sklearn, model)


def test_categories_in_a_bag_are_named_by_the_bags_columns():
    X, y = toy_data(2)
    bag = BaggingClassifier(DecisionTreeClassifier(max_depth=1), 1, max_features=0.5, random_state=0).fit(X, y)
    column = bag.estimators_features_[0][bag.estimators_[0].tree_.feature[0]]
    refuses(ValueError, rf"categories of the columns \[{column}\]", ju.from_sklearn, with_trees(bag, **BY_KIND))


def sends(differs):
    """Instances of which this is true go elsewhere, for a reason that no public array tells."""

    def apply(tree):
        leaf = lambda X: tree.apply(X)
        return lambda X: np.where(differs(tree, X, leaf(X)), leaf(X)[0], leaf(X))

    return {"renamed": (("threshold", "cut"),), "apply": apply}


def in_two_columns(tree, X, leaf):
    first, second = np.unique(tree.feature[tree.feature >= 0])[:2]
    return (X[:, first] != 0) & (X[:, second] != 0)


DOUBTFUL = {
    "unknown": ({"fuzziness": lambda tree: np.zeros(tree.node_count)}, r"does not know.*unknown: \['fuzziness'\]"),
    "absent": ({"missing_go_to_left": None}, r"does not know.*absent: \['missing_go_to_left'\]"),
    # Of two sibling leaves the right one is never reached.
    "one test": (sends(lambda tree, X, leaf: leaf == tree.node_count - 1), "elsewhere than its thresholds say"),
    "missing": (sends(lambda tree, X, leaf: np.isnan(X).any(axis=1)), "elsewhere than its thresholds say"),
    "two columns": (sends(in_two_columns), "elsewhere than its thresholds say"),
}


@pytest.mark.parametrize("what", DOUBTFUL)
def test_trees_that_are_not_understood(what):
    changes, said = DOUBTFUL[what]
    refuses(ValueError, said, ju.from_sklearn, with_trees(grown()[0], **changes))


class Intelex(RandomForestClassifier):
    __module__ = "sklearnex.ensemble._forest"


def test_accelerated_forests_that_lose_missing_values():
    """No node of theirs sends missing values left: only that is told apart, since complete instances are as exact."""
    X, y = toy_data(2)
    lost = {"missing_go_to_left": lambda tree: np.zeros(tree.node_count, np.uint8)}
    settings = {"n_estimators": 3, "max_depth": 3, "random_state": 0}
    known = walked(ju.from_sklearn(RandomForestClassifier(**settings).fit(X, y)).trees, X)
    model = Intelex(**settings).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ju.from_sklearn(model)  # which says where they go, as later versions do
        ju.from_sklearn(with_trees(Intelex(3, min_samples_leaf=len(y)).fit(X, y), **lost))  # no tests
        ju.from_sklearn(with_trees(RandomForestClassifier(**settings).fit(X, y), **lost))
    with pytest.warns(UserWarning, match="does not say where missing values go"):
        forest = ju.from_sklearn(with_trees(model, **lost))
    np.testing.assert_array_equal(walked(forest.trees, X), known)
    values = type("OfNumbers", (RandomForestRegressor,), {"__module__": Intelex.__module__})(**settings).fit(X, y)
    with pytest.warns(UserWarning, match="does not say where missing values go"):
        ju.from_sklearn_values(with_trees(values, **lost))
