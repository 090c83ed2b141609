"""``jaxunc fit``, ``predict`` and ``inspect``, as one types them; and columns of texts, which ``fit`` reads."""

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import BaggingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV

import jaxunc as ju
from jaxunc.estimators import UncertainForestRegressor
from tests._exhaustive import a_few_of

from ._lines import answers, refusal, run

pytestmark = [
    pytest.mark.once,
    pytest.mark.filterwarnings("ignore:.*every tree's bag"),
    pytest.mark.filterwarnings("ignore:every leaf of this forest"),
]


@pytest.fixture(scope="module")
def iris(tmp_path_factory):
    """The table of irises, a number in nine of it missing."""
    X, y = load_iris(as_frame=True, return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])
    path = tmp_path_factory.mktemp("iris") / "iris.csv"
    X.iloc[::9, 2] = np.nan
    X.assign(species=names[y], id=range(150)).to_csv(path, index=False)
    return path


FITTED = {
    "evidence": ["--combiner", "evidence", "--leaf-size", "3"],
    "cautious": ["--estimator", "cautious", "--forest", "random-forest", "--s", "2"],
    "random-trees": ["--estimator", "random-trees", "--depth", "6"],
    "single-tree": ["--forest", "single-tree", "--leaf-size", "3", "--combiner", "mean"],
    "transductive": ["--estimator", "transductive", "--leaf-size", "2"],
}


@pytest.mark.parametrize("name", a_few_of(FITTED, ["evidence", "cautious", "random-trees", "transductive"]))
@pytest.mark.room(keep=1)
def test_fit_predict_inspect(name, iris, tmp_path, capsys):
    model = tmp_path / "model.safetensors"
    trees = [] if name in {"single-tree", "transductive"} else ["--trees", 20]
    run("fit", iris, "--target", "species", "--drop", "id", "--output", model, *trees, *FITTED[name])
    found = answers(model, iris, tmp_path / "out", "--keep", "id", "species", "--quiet")
    run("inspect", model, "--arrays")
    printed = capsys.readouterr().out
    for said in ("150 rows in 1 files", "whole and well-formed", "classes setosa, versicolor, virginica"):
        assert said in printed
    assert list(found["id"]) == [str(i) for i in range(150)], "of text files the text is carried along"
    assert np.mean(found["class"] == found["species"]) > 0.85
    loaded = ju.load(model)
    np.testing.assert_array_equal(found["class"], loaded.predict(pd.read_csv(iris)[list(loaded.feature_names_in_)]))


def test_forests_of_scikit_learn(iris, tmp_path):
    data = pd.read_csv(iris)
    fitted = RandomForestClassifier(5, min_samples_leaf=3, random_state=0).fit(data.iloc[:, :4], data.species)
    joblib.dump(fitted, tmp_path / "forest.joblib")
    run("fit", "--import", tmp_path / "forest.joblib", "--trust", "--output", tmp_path / "m", "--combiner", "mean")
    np.testing.assert_allclose(
        ju.load(tmp_path / "m").predict_proba(data.iloc[:, :4]), fitted.predict_proba(data.iloc[:, :4]), atol=1e-6
    )


TAKEN = {
    "forest": (RandomForestRegressor(12, random_state=0), "each is read", "oob"),
    "search": (GridSearchCV(RandomForestRegressor(12, random_state=0), {"max_depth": [3]}, cv=2), "each is", "oob"),
    "bag": (BaggingRegressor(n_estimators=12, random_state=0), "the 40 rows count as held out", "held_out"),
    "xgboost": ("XGBRFRegressor", "are taken as held out", "held_out"),
    "lightgbm": ("LGBMRegressor", "are taken as held out", "held_out"),
}


@pytest.mark.room
@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.exhaustive(keep=1)
def test_forests_that_predict_numbers(name, tmp_path, capsys):
    """Of scikit-learn with their names, of others without: the law is that of the estimator in Python."""
    model, said, counts = TAKEN[name]
    settings = {"LGBMRegressor": {"boosting_type": "rf", "subsample": 0.6, "subsample_freq": 1, "verbose": -1}}
    of_sklearn = not isinstance(model, str)
    if not of_sklearn:
        model = getattr(pytest.importorskip(name), model)(n_estimators=12, **settings.get(model, {}))
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(160, 3)).astype(np.float32), columns=list("abc"))
    frame["y"] = frame.a + rng.normal(size=160)
    grown, rows = frame[:120], frame[:120] if counts == "oob" else frame[120:]
    model.fit(*(part if of_sklearn else part.to_numpy() for part in (grown[["a", "b", "c"]], grown.y)))
    joblib.dump(model, tmp_path / "model")
    rows.to_parquet(tmp_path / "rows.parquet")
    taken = ["--import", tmp_path / "model", "--trust", "--law", "residuals"]
    run("fit", tmp_path / "rows.parquet", "--target", "y", *taken, "--output", tmp_path / "m")
    told = capsys.readouterr()
    assert said in told.err
    assert "UncertainForestRegressor; 3 columns, numbers from" in told.out
    X = rows[["a", "b", "c"]] if of_sklearn else rows[["a", "b", "c"]].to_numpy()
    expected = UncertainForestRegressor(FrozenEstimator(model), law="residuals", counts=counts, random_state=0)
    expected.fit(X, rows.y)
    new = frame[["a", "b", "c"]] if of_sklearn else frame[["a", "b", "c"]].to_numpy()
    np.testing.assert_allclose(ju.load(tmp_path / "m").predict_interval(new), expected.predict_interval(new))


@pytest.mark.parametrize("link", ["symlink_to", "hardlink_to"])
def test_a_link_to_the_data_is_not_overwritten(link, iris, tmp_path, capsys):
    before = iris.read_bytes()
    output = tmp_path / "model"
    getattr(output, link)(iris)
    assert "which is read" in refusal(capsys, "fit", iris, "--target", "species", "--output", output)
    assert iris.read_bytes() == before


ROWS = pd.DataFrame(
    {"size": np.arange(40.0), "flag": [True, None, False, True] * 10, "y": [0, 1, 1, None, 1, 0, 0, None] * 5}
)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.exhaustive(keep=1)
def test_rows_without_a_class_are_left_out_and_counted(kind, tmp_path, capsys):
    """Integers with a gap are integers; booleans with one are numbers to scikit-learn's trees."""
    path, model = tmp_path / f"t.{kind}", tmp_path / "model"
    ROWS.to_csv(path, index=False) if kind == "csv" else ROWS.to_parquet(path)
    options = ["--forest", "single-tree", "--combiner", "mean", "--leaf-size", "8"]
    run("fit", path, "--target", "y", "--output", model, *options)
    printed = capsys.readouterr()
    assert "10 of 40 rows have no 'y' (first in row 4 of the data) and are left out" in printed.err
    assert "classes 0, 1;" in printed.out
    found = answers(model, path, tmp_path / "out", "--keep", "y")
    assert not capsys.readouterr().err, "no progress goes into a log"
    frame = pd.DataFrame({"size": ROWS["size"], "flag": ROWS.flag.astype(float)})
    np.testing.assert_array_equal(found["class"], ju.load(model).predict(frame))
    assert found["class"].dtype == np.int64


def test_bools_with_gaps_are_read_again_beside_words(tmp_path, capsys):
    frame = ROWS.dropna(subset=["y"]).assign(word=lambda rows: np.where(rows["size"] % 3 > 1, "up", "down"))
    frame.to_csv(path := tmp_path / "t.csv", index=False)
    single_tree = ["--forest", "single-tree", "--combiner", "mean", "--counts", "train"]
    run("fit", path, "--target", "y", "--output", tmp_path / "model", *single_tree)
    assert len(answers(tmp_path / "model", path, tmp_path / "out")) == len(frame)


@pytest.mark.room
def test_s_is_taken_where_it_counts(tmp_path, capsys):
    X = np.random.default_rng(0).normal(size=(60, 2))
    forest = ju.from_sklearn(RandomForestClassifier(5, min_samples_leaf=5, random_state=0).fit(X, X[:, 0] > 0))
    pd.DataFrame(X, columns=["a", "b"]).to_csv(tmp_path / "x.csv", index=False)
    ju.save(tmp_path / "vote", ju.voting.bind_vote(forest))
    ju.save(tmp_path / "mean", ju.bind(forest, ju.Mean()))
    asked = [tmp_path / "x.csv", "--output", tmp_path / "out", "--outputs", "class", "set", "--s", 3, "--quiet"]
    run("predict", tmp_path / "vote", *asked)
    assert "60 rows" in capsys.readouterr().out
    assert "--s would change nothing" in refusal(capsys, "predict", tmp_path / "mean", *asked)


N = 240


@pytest.fixture
def path(tmp_path):
    rng = np.random.default_rng(0)
    colour = rng.choice(["red", "green", "blue", None], N)
    frame = pd.DataFrame({"colour": colour, "x": rng.normal(size=N).round(3), "is_old": rng.random(N) < 0.5})
    frame["amount"] = [f"{i % 50},5 €" for i in range(N)]
    frame["kind"] = np.where(frame.colour.isin(["red", "blue"]), "up", "down")
    frame.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


@pytest.mark.parametrize(
    "options", [["--combiner", "evidence"], ["--estimator", "cautious"], ["--estimator", "random-trees"]]
)
@pytest.mark.exhaustive(keep=1)
def test_words_are_read_alike_by_all(options, path, tmp_path, capsys):
    run("fit", path, "--target", "kind", "--trees", 30, "--leaf-size", 3, "--output", tmp_path / "m", *options)
    assert "('amount') holds numbers or dates but for values such as '0,5 €'" in capsys.readouterr().err
    found = answers(tmp_path / "m", path, tmp_path / "o", "--quiet")["class"]
    frame = pd.read_csv(path)
    assert (found == frame.kind).mean() > 0.9
    loaded = ju.load(tmp_path / "m")
    own = frame[["colour", "x", "is_old", "amount"]]
    np.testing.assert_array_equal(found, loaded.predict(own))
    turned = loaded.predict(own.assign(colour=np.roll(frame.colour, 1)))
    assert (turned == np.roll(frame.kind, 1)).mean() > 0.9, "the words are read"


def test_texts_of_many_values_are_named(path, tmp_path, capsys):
    frame = pd.read_csv(path)
    frame["id"] = [f"n{i}" for i in range(N)]
    frame.to_csv(path, index=False)
    fit = ["fit", path, "--target", "kind", "--trees", 3, "--leaf-size", 9, "--output", tmp_path / "m"]
    assert "240 different ones in 'id'" in refusal(capsys, *fit)
    for option in ("--words", "--drop"):
        run(*fit, option, "id")
        assert ("id" in ju.load(tmp_path / "m").feature_names_in_) == (option == "--words")


@pytest.fixture(scope="module")
def prices(tmp_path_factory):
    rng = np.random.default_rng(0)
    area, town = rng.uniform(30, 200, 200).round(), rng.choice(["Bath", "Ely", "Ripon"], 200)
    price = 1000.5 * area + 30000 * (town == "Bath") + rng.normal(size=200) * area * 100
    path = tmp_path_factory.mktemp("prices") / "prices.csv"
    age = rng.integers(0, 60, 200)
    pd.DataFrame({"area": area, "town": town, "price": price.round(2), "age": age}).to_csv(path, index=False)
    return path


@pytest.mark.room
@pytest.mark.parametrize(
    "options",
    [
        ["--trees", "20"],
        ["--trees", "20", "--law", "conformal", "--forest", "extra-trees"],
        ["--trees", "20", "--law", "neighbours"],
        ["--estimator", "uncertain", "--forest", "single-tree"],
    ],
    ids=["default", "conformal", "neighbours", "single-tree"],
)
@pytest.mark.exhaustive(keep=1)
def test_numbers(options, prices, tmp_path, capsys):
    """A target of fractions is a number; words are looked up by all."""
    model, out = tmp_path / "model.safetensors", tmp_path / "out"
    run("fit", prices, "--target", "price", "--drop", "age", "--output", model, *options)
    told = capsys.readouterr()
    assert "UncertainForestRegressor; 2 columns, numbers from" in told.out
    assert ("'price' is a number of 200 different values, so a regressor is fitted" in told.err) == (len(options) == 2)
    more = "--quantiles 0.5 0.9 --coverage .8 --keep price --format csv --quiet"
    run(*f"predict {model} {prices} --output {out} --limit 100 --limit 200 {more}".split())
    found = pd.concat(pd.read_csv(part) for part in out.glob("*.csv"))
    assert list(found)[:3] == ["price", "mean", "std"]
    assert list(found)[-6:] == ["lower", "upper", "quantile_0.5", "quantile_0.9", "exceeds_100", "exceeds_200"]
    assert ((found["lower"] <= found["price"]) & (found["price"] <= found["upper"])).mean() > 0.7
    loaded, rows = ju.load(model), pd.read_csv(prices)[["area", "town"]]
    np.testing.assert_allclose(found[["lower", "upper"]], loaded.predict_interval(rows, 0.8), rtol=1e-9)
    np.testing.assert_allclose(found["mean"], loaded.predict(rows), rtol=1e-9)
    np.testing.assert_array_equal(loaded.predict_interval(rows[3:4]), loaded.predict_interval(rows)[3:4])
    run("inspect", model)
    told = capsys.readouterr().out
    assert all(said in told for said in ("UncertainForestRegressor", "area, town", "whole and well-formed"))
    assert "classes" not in told


@pytest.mark.room
@pytest.mark.parametrize(
    ("column", "options"), [("half", ["--law", "learned"]), ("five", ["--estimator", "uncertain"])]
)
@pytest.mark.exhaustive(keep=1)
def test_a_constant_number_is_fitted_where_a_number_is_asked_for(column, options, prices, tmp_path):
    """As in Python: all that is said of it is the number."""
    frame = pd.read_csv(prices)[["area", "age"]].assign(half=5.5, five=5)
    frame.drop(columns={"half", "five"} - {column}).to_csv(tmp_path / "t.csv", index=False)
    path, model = tmp_path / "t.csv", tmp_path / "m"
    run("fit", path, "--target", column, "--output", model, "--trees", 9, "--leaf-size", 9, *options)
    found = answers(model, path, tmp_path / "o", "--quiet")
    number = frame[column][0]
    assert (found[["mean", "lower", "upper"]] == number).all(axis=None)
    assert (found[["std", "aleatoric", "epistemic"]] == 0).all(axis=None)


@pytest.mark.parametrize(
    ("options", "support"),
    [("--support 0 none --step 1", (0, np.inf)), ("--step 1", (-np.inf, np.inf))],
    ids=["from 0 on", "anywhere"],
)
def test_targets_of_whole_numbers_have_whole_ends(options, support, prices, tmp_path):
    """Quantiles too, of a file that is read again; the option alone makes the target a number."""
    fit = ["fit", prices, "--target", "age", "--drop", "price", "--trees", 9, "--leaf-size", 9]
    run(*fit, "--output", tmp_path / "m", *options.split())
    law = ju.load(tmp_path / "m").law_
    assert (law.support, law.step) == (support, 1)
    found = answers(tmp_path / "m", prices, tmp_path / "o", "--quantiles", ".5", "--quiet")
    ends = found[["lower", "quantile_0.5", "upper"]]
    assert (ends == ends.round()).all(axis=None)
    assert (ends >= support[0]).all(axis=None)


@pytest.mark.exhaustive
def test_integers_are_classes_or_numbers(prices, tmp_path, capsys):
    """Those of few values, and of many that repeat, are classes, as for `jaxunc compare`."""
    frame = pd.read_csv(prices)
    age = np.arange(200) % 30
    for name, target, said, told in [
        ("few", age % 5, "CombinedForestClassifier", ""),
        ("some", age, "CombinedForestClassifier", "'few' holds 30 different integers, which are taken for classes"),
        ("many", np.arange(200) % 50, "UncertainForestRegressor", "'few' is a number of 50 different values"),
        ("all", np.arange(200), "UncertainForestRegressor", "'few' is a number of 200 different values"),
    ]:
        frame[["area", "town"]].assign(few=target).to_csv(tmp_path / f"{name}.csv", index=False)
        more = ["--trees", 10, "--leaf-size", 3, "--output", tmp_path / "m"]
        run("fit", tmp_path / f"{name}.csv", "--target", "few", *more)
        printed = capsys.readouterr()
        assert said in printed.out
        assert told in printed.err
