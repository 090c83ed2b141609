"""Classifiers of pipelines that end in a forest: on raw columns they answer as the forest does on what comes to it."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context, ensemble, impute, model_selection, multiclass
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, StandardScaler

import jaxunc as ju
from jaxunc.estimators import CautiousForestClassifier, CombinedForestClassifier
from tests._refusal import refusals, refuses

PURE = "ignore::jaxunc.estimators.PureLeavesWarning"
pytestmark = [pytest.mark.once, pytest.mark.filterwarnings(PURE), pytest.mark.room]
RNG = np.random.default_rng(1)
N = 240


def raw_table(n: int) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": np.where(np.arange(n) % 7, rng.normal(40, 10, n), np.nan)})
    frame["job"] = rng.choice(["clerk", "cook", "nurse", None], n)
    frame = frame.assign(when=pd.date_range("2020", periods=n), n=rng.integers(0, 9, n), debt=rng.normal(size=n))
    return frame, np.where((frame.age.fillna(40) > 40) ^ (rng.random(n) < 0.2), "yes", "no")


RAW, Y = raw_table(N)
NUMBERS, WORDS = ["age", "n", "debt"], ["job"]


def forest(n=60, **settings):
    """Of so few leaves that as many trees have one shape, which is compiled once."""
    return ensemble.RandomForestClassifier(n, min_samples_leaf=3, max_leaf_nodes=30, random_state=0, **settings)


def columns(words=None, numbers=None, **settings):
    words = OneHotEncoder(handle_unknown="ignore") if words is None else words
    parts = [("numbers", impute.SimpleImputer() if numbers is None else numbers, NUMBERS), ("words", words, WORDS)]
    return ColumnTransformer(parts, **settings)


def pipeline(last=None, **settings):
    return Pipeline([("prep", columns()), ("forest", forest() if last is None else last)], **settings)


class OwnColumns(BaseEstimator, TransformerMixin):
    """Someone's own step, without anything that it learns."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X.assign(ratio=X["debt"] / (1 + X["n"]))


class DropsRows(OwnColumns):
    def transform(self, X):
        return X[~X["age"].isna()]


class Seen(BaseEstimator, TransformerMixin):
    def fit(self, X, y=None):
        self.rows_ = np.asarray(X["debt"])
        return self

    def transform(self, X):
        return np.asarray(X[NUMBERS].fillna(0))


class OtherWhenFitted(Seen):
    """Makes other rows of those that it is fitted on than of the same ones later, as `TargetEncoder` does."""

    def fit_transform(self, X, y=None):
        return self.fit(X).transform(X) + np.arange(len(X))[:, None] % 2


def frames_inside(library):
    dense = OneHotEncoder(sparse_output=False, handle_unknown="ignore")
    return make_pipeline(columns(dense).set_output(transform=library), forest())


EXTRA = ensemble.ExtraTreesClassifier(60, bootstrap=True, min_samples_leaf=3, random_state=0)
SELECTED = ColumnTransformer([("x", impute.SimpleImputer(), make_column_selector(dtype_include="number"))])
PIPELINES = {
    "dense": lambda: pipeline(),
    "sparse": lambda: make_pipeline(columns(sparse_threshold=1.0), forest()),
    "pandas inside": lambda: frames_inside("pandas"),
    "polars inside": lambda: frames_inside("polars"),
    "NaN to the forest": lambda: make_pipeline(columns(OrdinalEncoder(), "passthrough"), forest()),
    "nested": lambda: Pipeline([("own", OwnColumns()), ("rest", pipeline())]),
    "passed through": lambda: Pipeline([("a", "passthrough"), ("b", columns()), ("c", "passthrough"), ("d", forest())]),
    "selected": lambda: make_pipeline(clone(SELECTED), StandardScaler(), forest()),
    "other when fitted": lambda: make_pipeline(OtherWhenFitted(), forest()),
    "extra trees": lambda: pipeline(clone(EXTRA)),
    "a frozen step": lambda: make_pipeline(FrozenEstimator(columns().fit(RAW, Y)), forest()),
}


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.exhaustive(keep=4)
def test_answers_are_those_of_the_pipeline(name):
    own = PIPELINES[name]().fit(RAW, Y)
    for estimator in (PIPELINES[name](), FrozenEstimator(own)):
        made = CombinedForestClassifier(estimator, combiner="probability").fit(RAW, Y)
        for rows in (RAW, RAW[:1], RAW[::-1]):
            np.testing.assert_allclose(made.predict_proba(rows), own.predict_proba(rows), atol=1e-6)
        assert made.predict_proba(RAW[:0]).shape == (0, 2)
        assert (made.n_features_in_, made.feature_names_in_.tolist()) == (5, RAW.columns.tolist())
        np.testing.assert_array_equal(made.estimator_.predict_proba(RAW), own.predict_proba(RAW))
        assert made.forest_.n_features == made.estimator_[:-1].transform(RAW).shape[1] if name != "nested" else True


@pytest.mark.parametrize("name", ["dense", "sparse", "pandas inside", "other when fitted", "nested"])
@pytest.mark.exhaustive
def test_counts_and_learning_are_those_of_the_rows_that_come_to_the_forest(name):
    whole = PIPELINES[name]()
    whole = Pipeline([*whole[:-1].steps, *whole[-1].steps]) if name == "nested" else whole
    before, last = whole[:-1], whole[-1]
    rows = before.fit_transform(RAW, Y)
    for make in (CombinedForestClassifier, lambda one: CombinedForestClassifier(one, combiner="mean", counts="oob")):
        raw, plain = make(whole).fit(RAW, Y), make(last).fit(rows, Y)
        np.testing.assert_allclose(raw.predict_proba(RAW), plain.predict_proba(before.transform(RAW)), atol=1e-6)
        if hasattr(plain, "oob_score_"):
            assert raw.oob_score_ == plain.oob_score_
    raw, plain = CautiousForestClassifier(whole).fit(RAW, Y), CautiousForestClassifier(last).fit(rows, Y)
    np.testing.assert_array_equal(raw.predict_set(RAW), plain.predict_set(before.transform(RAW)))
    np.testing.assert_array_equal(raw.oob_set_, plain.oob_set_)


@pytest.mark.exhaustive
def test_every_answer_takes_raw_columns(tmp_path):
    made = CombinedForestClassifier(pipeline()).fit(RAW, Y)
    rows = made.estimator_[:-1].transform(RAW)
    bound = ju.bind(made.forest_, made.combiner_)
    np.testing.assert_allclose(made.predict_proba(RAW), bound.probability(rows), atol=1e-6)
    assert made.decision_function(RAW).shape == (N,)
    assert made.predict_uncertainty(RAW).total.shape == (N,)
    fit = lambda memory: CombinedForestClassifier(pipeline(memory=memory), combiner="mean").fit(RAW, Y)
    votes, *kept = map(fit, (None, str(tmp_path), str(tmp_path)))
    for one in kept:
        np.testing.assert_array_equal(one.predict_proba(RAW), votes.predict_proba(RAW))
    polled = votes.predict_polled(RAW, confidence=0.95, prior="fitted", training=(RAW, Y))
    assert polled.n_trees_used.max() <= 60
    assert not hasattr(clone(made), "classes_")
    for again in (pickle.loads(pickle.dumps(made)), clone(made).fit(RAW, Y)):
        np.testing.assert_array_equal(again.predict_proba(RAW), made.predict_proba(RAW))
    assert "OneHotEncoder" in made._repr_html_()
    assert CautiousForestClassifier(pipeline()).fit(RAW, Y).explain(RAW[:3]).largest_s.shape == (3,)


@pytest.mark.parametrize("groups", [None, np.arange(N) // 4])
@pytest.mark.exhaustive(keep=1)
def test_transformers_never_see_rows_that_are_held_out(groups):
    made = CombinedForestClassifier(make_pipeline(Seen(), forest()), counts="held_out", random_state=0)
    made.fit(RAW, Y, groups=groups)
    seen = made.estimator_[0].rows_
    assert len(seen) + np.asarray(made.forest_.n_samples) == N
    assert set(seen) < set(RAW["debt"])
    if groups is not None:
        inside = np.isin(RAW["debt"], seen)
        assert all(inside[groups == one].all() or not inside[groups == one].any() for one in groups)


@pytest.mark.exhaustive
def test_copies_are_those_that_come_to_the_forest_and_weights_go_to_steps_that_request_them():
    raw, y = pd.concat([RAW, RAW[:60]], ignore_index=True), np.r_[Y, Y[:60]]
    for counts in ("oob", "held_out"):
        with pytest.warns(UserWarning, match="60 of 300 rows repeat others"):
            CombinedForestClassifier(pipeline(), combiner="mean", counts=counts, random_state=0).fit(raw, y)
    weight = RNG.uniform(0.5, 2, N)
    made = CombinedForestClassifier(pipeline(), combiner="probability").fit(RAW, Y, weight)
    own = pipeline().fit(RAW, Y, forest__sample_weight=weight)
    np.testing.assert_allclose(made.predict_proba(RAW), own.predict_proba(RAW), atol=1e-6)
    with config_context(enable_metadata_routing=True):
        scaled = make_pipeline(columns(), StandardScaler().set_fit_request(sample_weight=True), forest(5))
        made = CombinedForestClassifier(scaled, combiner="mean").fit(RAW, Y, weight)
        expected = StandardScaler().fit(columns().fit_transform(RAW), sample_weight=weight)
        np.testing.assert_allclose(made.estimator_[1].mean_, expected.mean_)


@pytest.mark.exhaustive
def test_validation_searches_and_routing():
    made = CombinedForestClassifier(pipeline(forest(50)))
    assert model_selection.cross_val_score(made, RAW, Y, cv=2).min() > 0.6
    grid = {"estimator__prep__numbers__strategy": ["mean", "median"], "estimator__forest__max_depth": [2]}
    made = CombinedForestClassifier(pipeline(forest(5)), combiner="mean", counts="train")
    search = model_selection.GridSearchCV(made, grid, cv=2).fit(RAW, Y)
    assert search.best_estimator_.estimator_["forest"].max_depth == 2
    with config_context(enable_metadata_routing=True):
        routed = made.set_fit_request(sample_weight=True, groups=True).set_score_request(sample_weight=False)
        params = {"sample_weight": np.ones(N) + (np.arange(N) % 2), "groups": np.arange(N) // 5}
        asked = {"cv": model_selection.GroupKFold(2), "params": params, "return_estimator": True}
        found = model_selection.cross_validate(routed, RAW, Y, **asked)["estimator"]
        assert np.isclose(sum(float(one.forest_.n_samples) for one in found), params["sample_weight"].sum())


@pytest.fixture(scope="module")
def small():
    return CombinedForestClassifier(pipeline(forest(5)), combiner="mean").fit(RAW, Y)


def test_other_frames_and_arrays(small):
    by_name = {name: RAW[name].to_numpy() for name in RAW}
    masked = np.ma.array(RAW.drop(columns="when").to_records(index=False))
    for rows in (RAW[RAW.columns[::-1]], RAW.assign(more=1), by_name, RAW.drop(columns="when"), masked):
        np.testing.assert_array_equal(small.predict_proba(rows), small.predict_proba(RAW))
    one = small.predict_proba(RAW.assign(age=None, job=np.nan))  # all missing, of any type
    np.testing.assert_array_equal(one, small.predict_proba(RAW.assign(age=np.nan, job=RAW["job"].where(RAW["n"] < 0))))
    polars = pytest.importorskip("polars").from_pandas(RAW)
    words = OneHotEncoder(handle_unknown="ignore")
    of_polars = make_pipeline(columns(words, make_pipeline(FunctionTransformer(), impute.SimpleImputer())), forest(5))
    made = CombinedForestClassifier(of_polars, combiner="probability").fit(polars, Y)
    own = clone(of_polars).fit(polars, Y)
    np.testing.assert_allclose(made.predict_proba(polars), own.predict_proba(polars), atol=1e-6)
    array = RAW[["n", "debt"]].to_numpy()
    made = CombinedForestClassifier(make_pipeline(StandardScaler(), forest(5)), combiner="mean").fit(array, Y)
    assert made.predict_proba(array[:1]).shape == (1, 2)
    refuses(ValueError, "1 features", made.predict, array[:, :1])


predict = lambda make: lambda small: small.predict(make())


def test_series_in_a_dictionary_are_columns_by_position():
    """As for forests and streams: pandas would align them by their indices."""
    frame = pd.DataFrame({"a": np.arange(40.0) % 2, "b": 0.0})
    pipeline = make_pipeline(StandardScaler(), ensemble.RandomForestClassifier(5, min_samples_leaf=3, random_state=0))
    model = CombinedForestClassifier(pipeline, combiner="mean").fit(frame, frame["a"] == 1)
    columns = {"a": pd.Series([1.0, 0.0], index=[1, 0]), "b": pd.Series([0.0, 0.0], index=[7, 8])}
    expected = model.predict_proba(pd.DataFrame({"a": [1.0, 0.0], "b": 0.0}))
    np.testing.assert_array_equal(model.predict_proba(columns), expected)


@pytest.mark.parametrize("encoder", [OneHotEncoder(handle_unknown="ignore"), OrdinalEncoder()])
def test_missing_words_are_those_that_encoders_know(encoder):
    """They are NaN in some frames and None in others, which encoders take for different categories."""
    words = ["cook", "nurse", None] * 40
    frames = [
        pytest.importorskip("polars").DataFrame({"word": words}),
        pd.DataFrame({"word": words}, dtype=object),
        pd.DataFrame({"word": words}, dtype=object).fillna(np.nan),
    ]
    for frame in frames:
        columns = ColumnTransformer([("words", encoder, ["word"])])
        forest = ensemble.RandomForestClassifier(5, min_samples_leaf=3, random_state=0)
        model = CombinedForestClassifier(make_pipeline(columns, forest), combiner="mean")
        model.fit(frame, [word is None for word in words])
        for other in frames:
            np.testing.assert_array_equal(model.predict_proba(other), model.predict_proba(frame))


@pytest.mark.exhaustive
def test_a_pipeline_whose_rows_are_counted_elsewhere():
    own = pipeline().fit(RAW[:160], Y[:160])
    made = CombinedForestClassifier(FrozenEstimator(own), counts="held_out").fit(RAW[160:], Y[160:])
    rows = own[:-1].transform(RAW)
    expected = CombinedForestClassifier(FrozenEstimator(own[-1]), counts="held_out").fit(rows[160:], Y[160:])
    np.testing.assert_allclose(made.predict_proba(RAW), expected.predict_proba(rows), atol=1e-6)
    for start, said in ((80, "not the rows that this RandomForestClassifier"), (160, "fitted on 160 .*'held_out' for")):
        refuses(ValueError, said, CombinedForestClassifier(FrozenEstimator(own)).fit, RAW[start:], Y[start:])
    unread = CombinedForestClassifier(FrozenEstimator(own), combiner="probability").fit()
    np.testing.assert_allclose(unread.predict_proba(RAW), own.predict_proba(RAW), atol=1e-6)
    assert unread.feature_names_in_.tolist() == RAW.columns.tolist()


def searched_inside(whole):
    search = model_selection.GridSearchCV(whole["forest"], {"max_depth": [3]}, cv=2)
    return Pipeline([("prep", whole["prep"]), ("search", search)]).fit(RAW, Y)


FITTED = {
    "a search": lambda one: model_selection.GridSearchCV(one, {"forest__max_depth": [3]}, cv=2).fit(RAW, Y),
    "a search inside": searched_inside,
    "a fixed threshold": lambda one: model_selection.FixedThresholdClassifier(one, threshold=0.1).fit(RAW, Y),
    "a tuned threshold": lambda one: model_selection.TunedThresholdClassifierCV(one, cv=2).fit(RAW, Y),
    "frozen twice": lambda one: FrozenEstimator(one.fit(RAW, Y)),
    "its last step": lambda one: make_pipeline(one.fit(RAW, Y)[:-1], FrozenEstimator(one[-1])),
}


@pytest.mark.parametrize("name", FITTED)
@pytest.mark.filterwarnings("ignore:the threshold of")
@pytest.mark.exhaustive(keep=2)
def test_fitted_wrappers_are_opened(name):
    model = FITTED[name](pipeline(forest(5)))
    made = CombinedForestClassifier(model if name == "its last step" else FrozenEstimator(model)).fit(RAW, Y)
    assert made.forest_.n_trees == 5
    if name != "its last step":
        mean = clone(made).set_params(combiner="probability").fit()
        np.testing.assert_allclose(mean.predict_proba(RAW), model.predict_proba(RAW), atol=1e-6)


REFUSED = [
    (lambda: Pipeline([]), "last step is None; make the last step a forest"),
    (lambda: pipeline(CombinedForestClassifier()), "it ends a pipeline itself"),
    (lambda: Pipeline([("prep", columns()), ("last", "passthrough")]), "last step is 'passthrough'; make .* a forest"),
    (lambda: pipeline(LogisticRegression()), "its last step is a LogisticRegression; from_sklearn imports no such"),
    (lambda: pipeline(ensemble.GradientBoostingClassifier()), "last step is a GradientBoostingClassifier, a boosted"),
    (lambda: ensemble.HistGradientBoostingClassifier(), r"boosted model, .* jaxunc.from_any\(model\)"),
    (lambda: ensemble.AdaBoostClassifier(), "Its trees correct each other: take a random forest"),
    (lambda: ensemble.RandomForestRegressor(), "RandomForestRegressor that predicts numbers"),
    (lambda: model_selection.GridSearchCV(forest(), {}), r"search around the estimator of jaxunc: GridSearchCV\("),
    (lambda: CalibratedClassifierCV(forest()), "Pass the model that it calibrates"),
    (lambda: model_selection.FixedThresholdClassifier(forest()), "Pass the model whose threshold it sets"),
    (lambda: ensemble.VotingClassifier([("a", forest())]), "mixes several models: pass one of its estimators_"),
    (lambda: ensemble.StackingClassifier([("a", forest())]), "mixes several models: pass one of its estimators_"),
    (lambda: ensemble.BaggingClassifier(forest()), r"a forest is one already: RandomForestClassifier\("),
    (lambda: multiclass.OneVsRestClassifier(forest()), "a forest, which tells several classes apart by itself"),
    (lambda: FrozenEstimator(CalibratedClassifierCV(forest(5), cv=2).fit(RAW[["debt"]], Y)), "Pass the model that it"),
]


@pytest.mark.parametrize(("estimator", "said"), REFUSED)
def test_refusals_come_before_the_fit(estimator, said, monkeypatch):
    estimator, models = estimator(), ("RandomForest", "HistGradientBoosting", "GradientBoosting")
    for kind in (ColumnTransformer, *(getattr(ensemble, f"{model}Classifier") for model in models)):
        monkeypatch.setattr(kind, "fit", lambda *_, **__: pytest.fail("it was fitted"))
    refuses(TypeError, said, CombinedForestClassifier(estimator).fit, RAW, Y)


def test_texts_have_no_columns(tmp_path):
    words = [" ".join(RNG.choice(["one", "two", "three", "four"], 4)) for _ in range(N)]
    y = np.array(["no", "yes"])[[("one" in text) * 1 for text in words]]
    made = CombinedForestClassifier(make_pipeline(TfidfVectorizer(), forest(5)), combiner="mean").fit(words, y)
    assert made.score(pd.Series(words), y) > 0.95
    ju.save(tmp_path / "m", made)
    np.testing.assert_array_equal(ju.load(tmp_path / "m").predict_proba(words), made.predict_proba(words))
    refuses(ValueError, "takes texts or the like, without columns", lambda: list(ju.stream(made, RAW)))


def test_a_pipeline_that_is_fitted_again_changes_no_answer_and_a_threshold_is_left_with_a_warning():
    own = pipeline(forest(5)).fit(RAW, Y)
    made = CombinedForestClassifier(FrozenEstimator(own), combiner="mean").fit(RAW, Y)
    before = made.predict_proba(RAW)
    own.fit(RAW.assign(age=3 * RAW["age"] + 7, debt=1.0), Y)
    np.testing.assert_array_equal(made.predict_proba(RAW), before)
    model = model_selection.FixedThresholdClassifier(FrozenEstimator(own), threshold=0.1, pos_label="yes").fit(RAW, Y)
    with pytest.warns(UserWarning, match="the threshold of FixedThresholdClassifier is left"):
        CombinedForestClassifier(FrozenEstimator(model), combiner="mean").fit()


@pytest.mark.exhaustive
def test_categories_of_numbers_are_numbers(small):
    coded = RAW.assign(n=RAW["n"].astype("category"), job=RAW["job"].astype("category"))
    made = clone(small).fit(coded, Y)
    for rows in (RAW, coded):
        np.testing.assert_array_equal(made.predict_proba(rows), small.predict_proba(rows))


fit = lambda estimator, combiner=None: lambda: CombinedForestClassifier(estimator(), combiner=combiner).fit(RAW, Y)
frozen = lambda *steps: lambda: FrozenEstimator(make_pipeline(*steps).fit(RAW, Y))


def made_frozen():
    return CombinedForestClassifier(FrozenEstimator(pipeline(forest(5)).fit(RAW, Y)), combiner="mean").fit(RAW, Y)


WORDS_HELD = r"X's column 'job' holds numbers, and held words .*astype\('str'\)"
HALF_FITTED = r"a step of \['columntransformer'\] is not fitted, .*Freeze the whole fitted pipeline"
UNTOLD = "'owncolumns', does not tell on which columns it was fitted; pass rows"
WORDS_LEFT = r"steps \['columntransformer'\] leave words for the forest: .*Encode them"
ROWS_LEFT = r"\['dropsrows', .* made 205 rows of 240, .*Drop or add rows before fit"
EXPORT = "of a pipeline, and only its forest can be exported: pass model.bound_"
WHOLE = r"taken whole by CombinedForestClassifier\(FrozenEstimator\(pipeline\)\) .*pipeline\[-1\]"

test_refusals = refusals(
    ("a column gone", predict(lambda: RAW.drop(columns="job")), "columns are missing: .*job"),
    ("a column gone, no rows", predict(lambda: RAW.drop(columns="age")[:0]), "columns are missing: .*age"),
    ("numbers for words", predict(lambda: RAW.assign(job=3)), WORDS_HELD, TypeError),
    ("numbers for words, frozen", lambda: made_frozen().predict(RAW.assign(job=3)), WORDS_HELD, TypeError),
    ("words", predict(lambda: RAW.assign(age="x")), r"X's column 'age' holds words, and held numbers", TypeError),
    ("dates", predict(lambda: RAW.assign(debt=RAW["when"])), "'debt' holds dates, and held numbers", TypeError),
    ("nothing", predict(lambda: None), "X is a NoneType; pass the raw columns", TypeError),
    ("onnx", lambda small: ju.interop.to_onnx(small), EXPORT, TypeError),
    ("half fitted", fit(lambda: make_pipeline(columns(), FrozenEstimator(forest(5).fit(RAW[["n"]], Y)))), HALF_FITTED),
    ("words for the forest", fit(lambda: make_pipeline(columns("passthrough"), forest(5))), WORDS_LEFT),
    ("rows dropped", fit(lambda: make_pipeline(DropsRows(), columns(), forest(5))), ROWS_LEFT),
    ("not fitted", fit(lambda: FrozenEstimator(pipeline())), "not fitted"),
    ("no rows", lambda: CombinedForestClassifier(frozen(OwnColumns(), columns(), forest(5))()).fit(), UNTOLD),
    ("any model", lambda: ju.from_any(pipeline(forest(5)).fit(RAW, Y)), WHOLE, TypeError),
    ("a forest's importer", lambda: ju.from_sklearn(pipeline(forest(5)).fit(RAW, Y)), WHOLE, TypeError),
)


@pytest.mark.exhaustive
def test_forests_of_other_libraries_at_the_end():
    xgboost, lightgbm = pytest.importorskip("xgboost"), pytest.importorskip("lightgbm")
    y = (Y == "yes").astype(int)
    rf = {"boosting_type": "rf", "subsample": 0.6, "subsample_freq": 1, "verbose": -1, "n_estimators": 10}
    for last in (xgboost.XGBRFClassifier(n_estimators=10, random_state=0), lightgbm.LGBMClassifier(**rf)):
        made = CombinedForestClassifier(pipeline(last), counts="held_out", random_state=0).fit(RAW, y)
        assert made.score(RAW, y) > 0.7
    for last in (xgboost.XGBClassifier(), lightgbm.LGBMClassifier()):
        refuses(TypeError, "a boosted model", CombinedForestClassifier(pipeline(last), counts="held_out").fit, RAW, y)
    boosted = pytest.importorskip("catboost").CatBoostClassifier()
    refuses(TypeError, "CatBoostClassifier, a boosted model", CombinedForestClassifier(boosted).fit, RAW, y)


@pytest.mark.exhaustive
def test_pipelines_of_imbalanced_learn():
    imblearn = pytest.importorskip("imblearn.pipeline")
    sampling = pytest.importorskip("imblearn.under_sampling")
    of_it = imblearn.make_pipeline(columns(), sampling.RandomUnderSampler(random_state=0), forest(5))
    for estimator in (of_it, FrozenEstimator(clone(of_it).fit(RAW, Y))):
        with refuses(TypeError, "step 'randomundersampler' makes or drops rows"):
            CombinedForestClassifier(estimator).fit(RAW, Y)
    made = CombinedForestClassifier(imblearn.make_pipeline(columns(), forest(5)), combiner="mean").fit(RAW, Y)
    assert made.predict(RAW).shape == (N,)
    balanced = pytest.importorskip("imblearn.ensemble").BalancedRandomForestClassifier(5, random_state=0)
    made = CombinedForestClassifier(pipeline(balanced), combiner="mean", counts="held_out", random_state=0).fit(RAW, Y)
    assert made.score(RAW, Y) > 0.6


def test_classifiers_without_a_forest_end_a_pipeline():
    for last in (ju.estimators.RandomDecisionTreesClassifier(5), ju.estimators.TransductiveTreeClassifier()):
        pipeline = make_pipeline(columns(OrdinalEncoder(encoded_missing_value=-1)), last).fit(RAW[:60], Y[:60])
        assert pipeline.predict(RAW[60:70]).shape == (10,)
