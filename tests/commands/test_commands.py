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
from jaxunc.__main__ import main
from jaxunc.estimators import UncertainForestRegressor
from tests._exhaustive import a_few_of
from tests._refusal import refuses

pytestmark = [
    pytest.mark.once,
    pytest.mark.filterwarnings("ignore:.*every tree's bag"),
    pytest.mark.filterwarnings("ignore:every leaf of this forest"),
]


@pytest.fixture(scope="module")
def iris(tmp_path_factory):
    X, y = load_iris(as_frame=True, return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])
    path = tmp_path_factory.mktemp("iris") / "iris.csv"
    X.assign(species=names[y], id=range(150)).to_csv(path, index=False)
    return path


def fit(iris, model, *more):
    trees = [] if {"single-tree", "transductive"} & set(more) else ["--trees", "20"]
    main(["fit", str(iris), "--target", "species", "--drop", "id", "--output", str(model), *trees, *more])


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
    fit(iris, model, *FITTED[name])
    main(["predict", str(model), str(iris), "--output", str(tmp_path / "out"), "--keep", "id", "species", "--quiet"])
    main(["inspect", str(model), "--arrays"])
    printed = capsys.readouterr().out
    assert "150 rows in 1 files" in printed
    assert "whole and well-formed" in printed
    assert "classes setosa, versicolor, virginica" in printed
    found = pd.read_parquet(tmp_path / "out")
    assert list(found["id"]) == [str(i) for i in range(150)], "of text files the text is carried along"
    assert np.mean(found["class"] == found["species"]) > 0.85
    loaded = ju.load(model)
    np.testing.assert_array_equal(found["class"], loaded.predict(pd.read_csv(iris)[list(loaded.feature_names_in_)]))


@pytest.mark.exhaustive
def test_what_the_usual_combiner_explains(iris, tmp_path):
    """The learned pool of a random forest: the share of each column in what it divides."""
    model, out = tmp_path / "model.safetensors", tmp_path / "out"
    fit(iris, model, "--forest", "random-forest", "--trees", "50")
    main(["predict", str(model), str(iris), "--output", str(out), "--outputs", "explanation", "--quiet"])
    found, loaded = pd.read_parquet(out), ju.load(model)
    bound, X = loaded.bound_, pd.read_csv(iris)[list(loaded.feature_names_in_)]
    assert isinstance(bound.combiner, ju.LearnedPool)
    expected = ju.explain(bound.forest, bound.combiner, X)
    assert (expected.of, len(found.columns)) == ("pooled shares", 3 * 5)
    for s, label in enumerate(expected.names):
        assert (found[f"explanation_{label}_base"] == found[f"explanation_{label}_base"][0]).all()
        for i, column in enumerate(X):
            np.testing.assert_allclose(found[f"explanation_{label}_{column}"], expected.values[:, i, s], atol=1e-4)


def test_forests_of_scikit_learn(iris, tmp_path, capsys):
    data = pd.read_csv(iris)
    fitted = RandomForestClassifier(5, min_samples_leaf=3, random_state=0).fit(data.iloc[:, :4], data.species)
    joblib.dump(fitted, tmp_path / "forest.joblib")
    taken = ["fit", "--import", str(tmp_path / "forest.joblib"), "--output", str(tmp_path / "m"), "--combiner", "mean"]
    refuses(SystemExit, "2", main, taken)
    assert "runs whatever code it holds" in capsys.readouterr().err
    main([*taken, "--trust"])
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
    main(["fit", str(tmp_path / "rows.parquet"), "--target", "y", "--import", str(tmp_path / "model"), "--trust",
          "--output", str(tmp_path / "m"), "--law", "residuals"])  # fmt: skip
    told = capsys.readouterr()
    assert said in told.err
    assert "UncertainForestRegressor; 3 columns, numbers from" in told.out
    X = rows[["a", "b", "c"]] if of_sklearn else rows[["a", "b", "c"]].to_numpy()
    expected = UncertainForestRegressor(FrozenEstimator(model), law="residuals", counts=counts, random_state=0)
    expected.fit(X, rows.y)
    new = frame[["a", "b", "c"]] if of_sklearn else frame[["a", "b", "c"]].to_numpy()
    np.testing.assert_allclose(ju.load(tmp_path / "m").predict_interval(new), expected.predict_interval(new))


@pytest.mark.room
def test_random_trees_take_missing_numbers(tmp_path, capsys):
    number = np.where(np.arange(40) % 7, np.arange(40.0), np.nan)
    pd.DataFrame({"n": number, "word": ["a", "b"] * 20, "y": np.arange(40) // 20}).to_csv(tmp_path / "t.csv")
    options = ["--estimator", "random-trees", "--trees", "3", "--output", str(tmp_path / "m")]
    main(["fit", str(tmp_path / "t.csv"), "--target", "y", *options])
    assert "classes 0, 1" in capsys.readouterr().out


@pytest.mark.parametrize("link", ["symlink_to", "hardlink_to"])
def test_a_link_to_the_data_is_not_overwritten(link, iris, tmp_path, capsys):
    before = iris.read_bytes()
    output = tmp_path / "model"
    getattr(output, link)(iris)
    refuses(SystemExit, "2", fit, iris, output)
    assert "which is read" in capsys.readouterr().err
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
    main(["fit", str(path), "--target", "y", "--output", str(model), *options])
    printed = capsys.readouterr()
    assert "10 of 40 rows have no 'y' (first in row 4 of the data) and are left out" in printed.err
    assert "classes 0, 1;" in printed.out
    main(["predict", str(model), str(path), "--output", str(tmp_path / "out"), "--keep", "y"])
    assert not capsys.readouterr().err, "no progress goes into a log"
    frame = pd.DataFrame({"size": ROWS["size"], "flag": ROWS.flag.astype(float)})
    found = pd.read_parquet(tmp_path / "out")
    np.testing.assert_array_equal(found["class"], ju.load(model).predict(frame))
    assert found["class"].dtype == np.int64


@pytest.mark.room
def test_s_is_taken_where_it_counts(tmp_path, capsys):
    X = np.random.default_rng(0).normal(size=(60, 2))
    forest = ju.from_sklearn(RandomForestClassifier(5, min_samples_leaf=5, random_state=0).fit(X, X[:, 0] > 0))
    pd.DataFrame(X, columns=["a", "b"]).to_csv(tmp_path / "x.csv", index=False)
    ju.save(tmp_path / "vote", ju.voting.bind_vote(forest))
    ju.save(tmp_path / "mean", ju.bind(forest, ju.Mean()))
    asked = [str(tmp_path / "x.csv"), "--output", str(tmp_path / "out")]
    asked += ["--outputs", "class", "set", "--s", "3", "--quiet"]
    main(["predict", str(tmp_path / "vote"), *asked])
    assert "60 rows" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["predict", str(tmp_path / "mean"), *asked])
    assert "--s would change nothing" in capsys.readouterr().err


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
    fit = ["fit", str(path), "--target", "kind", "--trees", "30", "--leaf-size", "3", "--output", str(tmp_path / "m")]
    main([*fit, *options])
    assert "('amount') holds numbers or dates but for values such as '0,5 €'" in capsys.readouterr().err
    main(["predict", str(tmp_path / "m"), str(path), "--output", str(tmp_path / "o"), "--quiet"])
    found = pd.read_parquet(tmp_path / "o")["class"]
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
    fit = ["fit", str(path), "--target", "kind", "--trees", "3", "--leaf-size", "9", "--output", str(tmp_path / "m")]
    refuses(SystemExit, "2", main, fit)
    assert "240 different ones in 'id'" in capsys.readouterr().err
    main([*fit, "--words", "id"])
    assert "id" in ju.load(tmp_path / "m").feature_names_in_
    main([*fit, "--drop", "id"])
    assert "id" not in ju.load(tmp_path / "m").feature_names_in_


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
        [],
        pytest.param(["--law", "conformal", "--forest", "extra-trees"], marks=pytest.mark.exhaustive),
        pytest.param(["--law", "neighbours"], marks=pytest.mark.exhaustive),
        pytest.param(["--estimator", "uncertain", "--forest", "single-tree"], marks=pytest.mark.exhaustive),
    ],
    ids=["default", "conformal", "neighbours", "single-tree"],
)
def test_numbers(options, prices, tmp_path, capsys):
    """A target of fractions is a number; words are looked up by all."""
    model, out = tmp_path / "model.safetensors", tmp_path / "out"
    trees = [] if "single-tree" in options else ["--trees", "20"]
    main(["fit", str(prices), "--target", "price", "--drop", "age", "--output", str(model), *trees, *options])
    told = capsys.readouterr()
    assert "UncertainForestRegressor; 2 columns, numbers from" in told.out
    assert ("'price' is a number of 200 different values, so a regressor is fitted" in told.err) == (options == [])
    more = "--quantiles 0.5 0.9 --coverage .8 --keep price --format csv --quiet"
    main(f"predict {model} {prices} --output {out} --limit 100 --limit 200 {more}".split())
    found = pd.concat(pd.read_csv(part) for part in out.glob("*.csv"))
    assert list(found)[:3] == ["price", "mean", "std"]
    assert list(found)[-6:] == ["lower", "upper", "quantile_0.5", "quantile_0.9", "exceeds_100", "exceeds_200"]
    assert ((found["lower"] <= found["price"]) & (found["price"] <= found["upper"])).mean() > 0.7
    loaded, rows = ju.load(model), pd.read_csv(prices)[["area", "town"]]
    np.testing.assert_allclose(found[["lower", "upper"]], loaded.predict_interval(rows, 0.8), rtol=1e-9)
    np.testing.assert_allclose(found["mean"], loaded.predict(rows), rtol=1e-9)
    np.testing.assert_array_equal(loaded.predict_interval(rows[3:4]), loaded.predict_interval(rows)[3:4])
    main(["inspect", str(model)])
    told = capsys.readouterr().out
    assert "UncertainForestRegressor" in told
    assert "area, town" in told
    assert "classes" not in told
    assert "whole and well-formed" in told


@pytest.mark.room
@pytest.mark.parametrize(
    ("column", "options"), [("half", ["--law", "learned"]), ("five", ["--estimator", "uncertain"])]
)
@pytest.mark.exhaustive(keep=1)
def test_a_constant_number_is_fitted_where_a_number_is_asked_for(column, options, prices, tmp_path):
    """As in Python: all that is said of it is the number."""
    frame = pd.read_csv(prices)[["area", "age"]].assign(half=5.5, five=5)
    frame.drop(columns={"half", "five"} - {column}).to_csv(tmp_path / "t.csv", index=False)
    path, model = str(tmp_path / "t.csv"), str(tmp_path / "m")
    main(["fit", path, "--target", column, "--output", model, "--trees", "9", "--leaf-size", "9", *options])
    main(["predict", model, path, "--output", str(tmp_path / "o"), "--quiet"])
    found = pd.read_parquet(tmp_path / "o")
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
    fit = ["fit", str(prices), "--target", "age", "--drop", "price", "--trees", "9", "--leaf-size", "9"]
    main([*fit, "--output", str(tmp_path / "m"), *options.split()])
    law = ju.load(tmp_path / "m").law_
    assert (law.support, law.step) == (support, 1)
    predict = ["predict", str(tmp_path / "m"), str(prices), "--quantiles", ".5"]
    main([*predict, "--output", str(tmp_path / "o"), "--quiet"])
    ends = pd.read_parquet(tmp_path / "o")[["lower", "quantile_0.5", "upper"]]
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
        more = ["--trees", "10", "--leaf-size", "3", "--output", str(tmp_path / "m")]
        main(["fit", str(tmp_path / f"{name}.csv"), "--target", "few", *more])
        printed = capsys.readouterr()
        assert said in printed.out
        assert told in printed.err
