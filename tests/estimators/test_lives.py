"""What all classifiers keep to: scikit-learn's checks, frozen fitted state, no rows and one, columns, copies, files."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import jaxunc as ju
from jaxunc import estimators
from jaxunc.estimators import CautiousForestClassifier, CombinedForestClassifier, UncertainForestRegressor
from tests._refusal import refuses
from tests.estimators._models import MODELS, OTHERS, answers, sample
from tests.storage._mutations import joined, split

pytestmark = [pytest.mark.once, pytest.mark.filterwarnings("ignore::jaxunc.estimators.PureLeavesWarning")]

X, Y = sample()
ROWS = X[:12]

# As for scikit-learn's own forest: weights are no repetitions where bootstraps or trees are drawn at random.
BOOTSTRAPS = {f"check_sample_weight_equivalence_on_{kind}_data": "bootstraps differ" for kind in ("dense", "sparse")}
REPEATED = {
    f"check_sample_weights_{kind}": "rows repeat others: all bags hold some" for kind in ("shape", "not_overwritten")
}
DRAWN = {"check_sample_weight_equivalence_on_dense_data": "trees are drawn from instances, not from weights"}
EXPECTED = {
    CautiousForestClassifier: BOOTSTRAPS | REPEATED,
    estimators.TransductiveTreeClassifier: {},
    estimators.TransductiveClassifier: {},
    estimators.RandomDecisionTreesClassifier: DRAWN,
}
# Of so few leaves that most forests have one shape, which is compiled once.
FOREST, EXTRA = RandomForestClassifier(5, max_leaf_nodes=8, random_state=0), ExtraTreesRegressor(5, max_leaf_nodes=8)


def expected_failures(model):
    return {} if getattr(model, "counts", "") == "cross_fit" else EXPECTED.get(type(model), BOOTSTRAPS)


@pytest.mark.room(keep=7)
@pytest.mark.filterwarnings("ignore:.*(in every tree's bag|rows repeat others|no residual is known|law is fitted to)")
@parametrize_with_checks(
    [
        CautiousForestClassifier(RandomForestClassifier(10, max_depth=3, random_state=0)),
        CombinedForestClassifier(FOREST),
        CombinedForestClassifier(make_pipeline(StandardScaler(with_mean=False), FOREST)),
        estimators.RandomDecisionTreesClassifier(5),
        estimators.TransductiveTreeClassifier(),
        estimators.TransductiveClassifier(DecisionTreeClassifier()),
        UncertainForestRegressor(RandomForestRegressor(10, max_leaf_nodes=8)),
        UncertainForestRegressor(EXTRA, law="neighbours", counts="cross_fit"),
        UncertainForestRegressor(EXTRA, law="conformal", counts="held_out", held_out_size=0.5),
    ],
    expected_failed_checks=expected_failures,
)
@pytest.mark.exhaustive(keep=24)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module", params=MODELS)
def name(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def fitted(name):
    model = MODELS[name]().fit(X, Y)
    return model, answers(model, ROWS)


def assert_same(found, expected) -> None:
    assert found.keys() == expected.keys()
    for read_out, parts in expected.items():
        for own, other in zip(found[read_out], parts, strict=True):
            np.testing.assert_array_equal(own, other, err_msg=read_out)


@pytest.mark.room
def test_parameters_set_after_fit_change_no_answer(name, fitted):
    model, expected = pickle.loads(pickle.dumps(fitted))
    own = model.get_params(deep=False)
    assert_same(answers(model.set_params(**OTHERS[name]), ROWS), expected)
    model.set_params(**own)
    for read_out, parts in answers(model, X[:0]).items():
        for none, other in zip(parts, expected[read_out], strict=True):
            assert none.shape == ((0, *other.shape[1:]) if other.ndim else ()), read_out


@pytest.mark.room(keep=1)
def test_files_and_clones_keep_what_was_fitted(name, fitted, tmp_path):
    model, expected = pickle.loads(pickle.dumps(fitted))
    changed = {key: value for key, value in OTHERS[name].items() if value not in (0, {"no": 1}) or key == "s"}
    ju.save(tmp_path / "x", model.set_params(**changed))
    assert_same(answers(ju.load(tmp_path / "x"), ROWS), expected)
    new = clone(fitted[0])
    assert not hasattr(new, "classes_")
    assert_same(answers(new.fit(X, Y), ROWS), expected)


@pytest.mark.room(keep=1)
def test_frames_without_rows_and_one_column(name):
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = MODELS[name]().fit(frame, Y)
    assert (model.predict_proba(frame[:0]).shape, model.predict(frame[:1]).shape) == ((0, 2), (1,))
    refuses(ValueError, "feature names", model.predict, frame[["b", "a", "c"]])
    refuses(ValueError, "at least one|0 sample", MODELS[name]().fit, frame[:0], Y[:0])
    np.testing.assert_allclose(MODELS[name]().fit(X[:, :1], Y).predict_proba(X[:, :1]).sum(axis=1), 1, rtol=1e-5)


def test_a_fit_that_breaks_off_leaves_what_was_there(fitted):
    model = fitted[0]
    before = dict(vars(model))
    refuses(ValueError, "1 class", model.fit, X[:, :2], 0 * X[:, 0])
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[key] is value for key, value in before.items())


def test_what_no_classifier_is_fitted_to(name):
    fit = MODELS[name]().fit
    for rows, labels, words in ((X[:0], Y[:0], "0 sample"), (X[:1], Y[:1], "1 class"), (X, 0 * X[:, 0], "1 class")):
        refuses(ValueError, words, fit, rows, labels)
    if name != "transduction":
        weight = np.where(np.arange(len(X)) == 3, -1.0, 1.0)
        refuses(ValueError, "sample_weight holds .*finite numbers >= 0", fit, X, Y, sample_weight=weight)


TAMPERED = {
    "combined": [
        {"estimator": "x"}, {"combiner": "means"}, {"combiner": 3}, {"counts": 1}, {"combiner_options": [1]},
        {"held_out_size": "x"}, {"random_state": "x"},
    ],
    "cautious": [{"s": "x"}, {"s": -1}, {"mass": "x"}, {"counts": None}, {"estimator": 5}],
    "random trees": [
        {"n_estimators": 0}, {"n_estimators": "x"}, {"missing": 1}, {"empty_leaves": "x"}, {"max_depth": -1},
        {"min_samples_leaf": True}, {"nominal": 1.5}, {"combiner": "x"}, {"random_state": -3},
    ],
    "transduction": [
        {"block_size": "x"}, {"min_samples_leaf": None}, {"candidates": 1}, {"algorithm": "x"}, {"progress": 3},
        {"nominal": {"dict": {}}}, {"combiner": 1}, {"combiner": "meen"}, {"block_size": -5},
    ],
}  # fmt: skip
"""Parameters that no estimator takes, or that a file cannot hold."""


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, bytes]:
    found = {}
    for kind, make in MODELS.items():
        path = tmp_path_factory.mktemp("files") / "x"
        ju.save(path, make().fit(X, Y))
        found[kind] = path.read_bytes()
    return found


@pytest.mark.parametrize("place", ["params", "chosen"])
@pytest.mark.parametrize(("kind", "part"), [(kind, part) for kind, parts in TAMPERED.items() for part in parts])
@pytest.mark.exhaustive(keep=8)
def test_files_with_parameters_that_are_none(kind, part, place, files, tmp_path):
    header, arrays = split(files[kind])
    document = json.loads(header["__metadata__"]["jaxunc"])
    fitted, params = document["object"]["fitted"], document["object"]["params"]
    chosen = fitted["chosen"]["dict"]
    if place == "chosen" and not set(part) <= set(chosen):
        part = dict.fromkeys(chosen, "x")
    (params if place == "params" else chosen).update(part)
    header["__metadata__"]["jaxunc"] = json.dumps(document)
    (tmp_path / "x").write_bytes(joined(header, arrays))
    refuses(ValueError, "cannot be loaded", ju.load, tmp_path / "x")


def test_parameters_that_are_refused_late(tmp_path):
    """Of the forest within, by fit; of what was fitted, when it is written, as no file could have them."""
    refuses(ValueError, "n_estimators=0", CautiousForestClassifier(RandomForestClassifier(0)).fit, X, Y)
    model = MODELS["transduction"]().fit(X, Y).set_params(block_size=0)
    refuses(ValueError, "block_size", ju.save, tmp_path / "x", model)
