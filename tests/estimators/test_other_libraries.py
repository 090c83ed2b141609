"""Classifiers of forests that other libraries grew: counted on rows that these were not grown on."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags

import jaxunc as ju
from jaxunc.estimators import CautiousForestClassifier, CombinedForestClassifier, UncertainForestRegressor
from jaxunc.estimators._models import n_trees_of
from tests._model_files import FOLDER, N_TRAIN, NUMBERS, table
from tests._refusal import refusals, refuses

pytestmark = [pytest.mark.once, pytest.mark.room]
N_TREES = 6
"""As those of two of the files have, so that programs of their shape are compiled once."""
FILES = ("xgboost_forest.json", "lightgbm_forest.txt", "treelite_forest.bin")


def held_out(name):
    """Rows that the model was not grown on, as it reads them: those to count, their labels, and those to answer."""
    frame, y = table()
    X = frame[NUMBERS].fillna(-1).to_numpy(np.float32) if name.startswith("treelite") else frame
    rows = lambda start, end: X[start:end]
    return rows(N_TRAIN, 450), y[N_TRAIN:450], rows(450, None)


@pytest.mark.parametrize("name", FILES)
def test_forests_of_files(name, tmp_path):
    model = ju.from_any(FOLDER / name)
    X, y, new = held_out(name)
    made = CombinedForestClassifier(FrozenEstimator(model), combiner="mean", counts="held_out").fit(X, y)
    again = ju.bind(ju.count_leaves(model.trees, X, y), ju.Mean())
    np.testing.assert_array_equal(made.predict_proba(new), again.probability(new))
    assert made.classes_.tolist() == [0, 1]
    assert made.n_features_in_ == model.n_features
    assert (made.predict(new) == table()[1][450:]).mean() > 0.9
    assert clone(made).estimator.estimator is model
    cautious = CautiousForestClassifier(FrozenEstimator(model), counts="held_out", s=2).fit(X, y)
    assert cautious.predict_set(new).any(axis=1).all()
    assert cautious.explain(new).largest_s.shape == (len(new),)
    learned = CombinedForestClassifier(FrozenEstimator(model), combiner="learned", counts="held_out").fit(X, y)
    assert learned.combiner_.count_sets == ("own",)
    assert learned.learned_.loss <= learned.learned_.start_loss
    # Where leaves hold no counts of their own, the rows are counted, and each is answered without itself.
    assert np.asarray(learned.forest_.n_samples) == (N_TRAIN if isinstance(model, ju.Forest) else len(y))
    assert (learned.predict(new) == table()[1][450:]).mean() > 0.9
    for one in (made, cautious):
        ju.save(tmp_path / "saved", one)
        loaded = ju.load(tmp_path / "saved")
        assert loaded.estimator is None
        np.testing.assert_array_equal(loaded.predict_proba(new), one.predict_proba(new))
        assert get_tags(loaded).input_tags.allow_nan


def test_weights_are_counted():
    X, y, new = held_out("xgboost_forest.json")
    frozen = FrozenEstimator(ju.from_any(FOLDER / "xgboost_forest.json"))
    weights = np.arange(len(y)) % 3
    whole = CombinedForestClassifier(frozen, counts="held_out").fit(X, y, weights)
    part = CombinedForestClassifier(frozen, counts="held_out").fit(X[weights > 0], y[weights > 0], weights[weights > 0])
    np.testing.assert_array_equal(whole.predict_proba(new), part.predict_proba(new))
    assert np.asarray(whole.forest_.n_samples) == weights.sum()


@pytest.mark.parametrize(("name", "is_counted"), [("treelite_forest.bin", False), ("xgboost.json", True)])
def test_own_counts(name, is_counted):
    """treelite keeps those of scikit-learn's forests; a Forest has its own, of boosted trees where one says so."""
    X, y, new = held_out(name)
    model = ju.from_any(FOLDER / name)
    forest = ju.count_leaves(model.trees, X, y) if is_counted else model
    made = CombinedForestClassifier(FrozenEstimator(forest), combiner="mean").fit()
    np.testing.assert_array_equal(made.predict_proba(new), ju.bind(forest, ju.Mean()).probability(new))


def test_rows_that_a_forest_was_grown_on_are_seen_by_its_thresholds():
    X, y = make_classification(400, 4, n_informative=4, n_redundant=0, random_state=0)
    X, grower = X.astype(np.float32), RandomForestClassifier(N_TREES, max_leaf_nodes=30, random_state=0)
    forest = ju.from_sklearn(grower.fit(X[:300], y[:300]))
    made = CombinedForestClassifier(FrozenEstimator(forest), counts="held_out")
    made.fit(X[300:], y[300:])
    refuses(ValueError, "grown on, .*Pass rows that were held out", made.fit, X[:300], y[:300])


SMALL = (np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32), np.arange(60) % 2)


def fit(model, rows=None, labels=(0, 1), **settings):
    """A classifier of a frozen model, a file's or what a function makes, on rows of as many columns as it has."""

    def call():
        frozen = ju.from_any(FOLDER / model) if isinstance(model, str) else model()
        X, y = rows or (SMALL[0][:, : getattr(frozen, "n_features", 5)], SMALL[1])
        CombinedForestClassifier(FrozenEstimator(frozen), **settings).fit(X, np.array(labels)[y])

    return call


bare = lambda name: lambda: CombinedForestClassifier(ju.from_any(FOLDER / name)).fit(*SMALL)
HELD, ROWS = {"counts": "held_out"}, held_out("xgboost.json")[:2]
BARE = r"a Forest or an AdditiveTrees comes in scikit-learn's FrozenEstimator.*jaxunc.bind"
STAGES = r"4 stages of trees correct each other, .*the same question.*count_leaves\(trees, X, y\)"

test_refusals = refusals(
    ("values", fit("xgboost_forest.json"), "those of AdditiveTrees hold values. Take"),
    ("oob", fit("xgboost_forest.json", counts="oob"), "AdditiveTrees has none"),
    ("boosted", fit("lightgbm.txt", **HELD), "correct each other"),
    ("stages", fit("xgboost.json", rows=ROWS, **HELD), STAGES),
    ("learned", fit("treelite_forest.bin", combiner="learned"), "a Forest allows neither. Take counts='held_out'"),
    ("labels", fit("xgboost_forest.json", rows=ROWS, labels=("no", "yes"), **HELD), "'yes'"),
    ("2 stages", fit(lambda: GradientBoostingClassifier(n_estimators=2).fit(*SMALL), **HELD), "2 stages"),
    ("numbers", fit(lambda: RandomForestRegressor(2).fit(*SMALL), **HELD), "predicts numbers", TypeError),
    ("a combiner", fit(ju.Mean), "FrozenEstimator", TypeError),
    ("a path", fit(lambda: FOLDER / "xgboost_forest.json"), "is no model of scikit-learn", TypeError),
    ("a bare forest", bare("treelite_forest.bin"), BARE, TypeError),
    ("a bare ensemble", bare("xgboost_forest.json"), BARE, TypeError),
)


BAGS = {"boosting_type": "rf", "subsample": 0.6, "subsample_freq": 1, "n_estimators": N_TREES, "verbose": -1}
GROWN = {
    "xgboost": ("XGBClassifier", {"n_estimators": 1, "num_parallel_tree": N_TREES, "max_depth": 4, "subsample": 0.8}),
    "lightgbm": ("LGBMClassifier", BAGS),
}


@pytest.mark.parametrize("library", GROWN)
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_forests_that_are_grown_here(library):
    kind, settings = GROWN[library]
    model = getattr(pytest.importorskip(library), kind)(random_state=0, n_jobs=1, **settings)
    frame, y = table()
    X, labels = frame[NUMBERS].fillna(-1), y if library == "xgboost" else np.array(["no", "yes"])[y]
    combined, learned = (CombinedForestClassifier(model, rule, counts="held_out") for rule in (None, "learned"))
    for estimator in (combined, learned, CautiousForestClassifier(model, counts="held_out")):
        made = estimator.set_params(random_state=0).fit(X[:450], labels[:450])
        assert made.classes_.tolist() == sorted(set(labels.tolist()))
        assert (made.predict(X[450:]) == labels[450:]).mean() > 0.85
        assert list(made.feature_names_in_) == NUMBERS
    with refuses(ValueError, f"those of {type(model).__name__} hold values. Take counts='held_out'"):
        CombinedForestClassifier(model).fit(X, labels)
    refuses(ValueError, "needs a forest with bags", CautiousForestClassifier(model).fit, X, labels)
    assert n_trees_of(model) == combined.forest_.n_trees
    other_name = {"xgboost": "num_parallel_tree", "lightgbm": "num_trees"}[library]
    assert n_trees_of(clone(model).set_params(**{other_name: 9})) == 9
    fitted = clone(model).fit(X[:300], y[:300])
    frozen = CombinedForestClassifier(FrozenEstimator(fitted), counts="held_out").fit(X[300:450], y[300:450])
    assert (frozen.predict(X[450:]) == y[450:]).mean() > 0.9
    CombinedForestClassifier(FrozenEstimator(fitted), counts="train").fit(X[:300], y[:300])


@pytest.mark.parametrize("library", GROWN)
def test_number_of_trees_for_three_classes(library):
    """One for each class and round, but where leaves hold vectors."""
    kind, settings = GROWN[library]
    model = getattr(pytest.importorskip(library), kind)(random_state=0, n_jobs=1, **settings)
    X, y = np.arange(90.0)[:, None], np.arange(90) // 30
    for more in ({}, {"multi_strategy": "multi_output_tree"})[: 1 + (library == "xgboost")]:
        made = clone(model).set_params(**more)
        assert n_trees_of(made, 3) == ju.from_any(made.fit(X, y)).n_trees
    # A wrong combiner is refused before the forest is grown, which this depth would not let it be.
    few = ju.Weighted(ju.Mean(), np.ones(N_TREES))
    estimator = CombinedForestClassifier(model.set_params(max_depth="deep"), few, counts="held_out")
    refuses(ValueError, f"there are {3 * N_TREES} trees", estimator.fit, X, y)


def test_forests_of_ydf():
    ydf = pytest.importorskip("ydf")
    frame, y = table()
    words = np.array(["no", "yes"])[y]
    learner = ydf.RandomForestLearner(label="kind", num_trees=N_TREES, max_depth=5, winner_take_all=False)
    model = learner.train(frame[:300].assign(kind=words[:300]), verbose=0)
    for rule in (None, "learned", "evidence"):
        made = CombinedForestClassifier(FrozenEstimator(model), rule, counts="held_out")
        assert (made.fit(frame[300:450], words[300:450]).predict(frame[450:]) == words[450:]).mean() > 0.9
    own = CombinedForestClassifier(FrozenEstimator(model), combiner="mean").fit()
    theirs = np.asarray(model.predict(frame[450:]))
    np.testing.assert_allclose(own.predict_proba(frame[450:])[:, 1], theirs, atol=1e-5)


def test_catboosts_base_class_predicts_means_too():
    """Its own `predict` gives logarithms of them."""
    catboost = pytest.importorskip("catboost")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)).astype(np.float32)
    y = rng.poisson(np.exp(3 + X[:, 0] / 2)).astype(float)
    settings = {
        "iterations": 20,
        "depth": 3,
        "verbose": False,
        "allow_writing_files": False,
        "loss_function": "Poisson",
    }
    answers = []
    for grown in (catboost.CatBoostRegressor(**settings), catboost.CatBoost(settings)):
        model = UncertainForestRegressor(FrozenEstimator(grown.fit(X[:150], y[:150]))).fit(X[150:], y[150:])
        answers.append(model.predict(X))
    np.testing.assert_allclose(*answers)
