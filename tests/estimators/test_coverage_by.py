"""Coverage by the values of a column: ranks of its own for each, by every door, and reports of other laws."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline

import jaxunc as ju
from jaxunc.__main__ import main
from jaxunc.estimators import CombinedForestClassifier, PureLeavesWarning, UncertainForestRegressor
from jaxunc.regression import check_law
from jaxunc.streaming import predict_files
from tests._refusal import refusals, refuses

pytestmark = pytest.mark.once

N = 240
RNG = np.random.default_rng(0)
SITE = RNG.choice(["north", "south"], N)
ROWS = pd.DataFrame(RNG.normal(size=(N, 2)), columns=["a", "b"])
Y = ROWS.a.to_numpy() + np.where(SITE == "south", 3, 0.3) * RNG.normal(size=N)
CODED = ROWS.assign(site=(SITE == "south").astype(float))
RAW = ROWS.assign(site=SITE)
FOREST = RandomForestRegressor(20, max_leaf_nodes=12, random_state=0)
DROPPED = make_pipeline(make_column_transformer(("passthrough", ["a", "b"])), FOREST)
TRAIN, NEW = slice(0, 180), slice(180, N)


def fit(model=FOREST, rows=CODED, y=Y, weight=None, **settings):
    settings = {"law": "conformal", "coverage_by": "site", "random_state": 0, **settings}
    return UncertainForestRegressor(model, **settings).fit(rows[TRAIN], y[TRAIN], weight)


def fit_frozen(rows):
    """Fit to columns in another order than those of ``rows``, to which the pipeline was fitted."""
    return fit(FrozenEstimator(clone(DROPPED).fit(rows[TRAIN], Y[TRAIN])), RAW[["site", "b", "a"]])


coded = pytest.fixture(scope="module")(lambda: fit())
raw = pytest.fixture(scope="module")(lambda: fit(DROPPED, RAW))
reordered = pytest.fixture(scope="module")(lambda: fit_frozen(RAW))
without_site = pytest.fixture(scope="module")(lambda: fit_frozen(ROWS))


def test_ranks_are_those_of_each_value_alone(coded):
    """A law of one site's residuals, where the site is a row's."""
    law = coded.law_
    strata, moments = law.strata, coded.moments_.answer(CODED[NEW])
    levels, found = np.array([0.05, 0.95]), coded.predict_interval(CODED[NEW])
    for k, site in enumerate(strata.values):
        of = CODED.site[NEW].to_numpy() == site
        z = np.sort(law.residuals[strata.number == k])
        ranks = [z[int(np.floor((len(z) + 1) * 0.05)) - 1], z[int(np.ceil((len(z) + 1) * 0.95)) - 1]]
        expected = moments.mean[of, None] + law.deviation(moments)[of, None] * ranks
        np.testing.assert_allclose(found[of], expected, rtol=1e-6)
        held = coded.coverage_by_value_[site]
        assert (held.rows, held.share >= 0.9) == (len(z), True)
    width, south = found[:, 1] - found[:, 0], SITE[NEW] == "south"
    assert 3 * width[~south].mean() < width[south].mean()
    np.testing.assert_array_equal(coded.predict(CODED[NEW], quantiles=levels), found)
    assert coded.bound_.answer(CODED[NEW]).interval.shape == (60, 2)


@pytest.mark.parametrize("counts", ["cross_fit", "held_out"])
def test_each_residual_has_the_value_of_its_row(counts):
    """Of a boosted model, whose residuals come in folds: those of the noisy site are large."""
    model = fit(HistGradientBoostingRegressor(max_iter=5, max_leaf_nodes=4), counts=counts, held_out_size=0.5)
    strata = model.law_.strata
    size = [np.abs(model.law_.residuals[strata.number == k]).mean() for k in range(2)]
    # The learned scale evens out a part of the tenfold noise.
    assert size[1] > 1.3 * size[0]
    rows = 180 if counts == "cross_fit" else 90
    assert sum(held.rows for held in model.coverage_by_value_.values()) == rows


def test_all_of_a_law_is_by_value(coded):
    distribution = coded.predict_distribution(CODED[NEW])
    low, high = distribution.interval(0.8).T
    np.testing.assert_allclose(distribution.cdf(high + 1e-4) - distribution.cdf(low - 1e-4), 0.8, atol=0.06)
    draws = distribution.sample(0, 400)
    np.testing.assert_allclose(draws.std(axis=1), distribution.std, rtol=0.2)
    np.testing.assert_allclose(draws.mean(axis=1), distribution.mean, atol=0.2 * distribution.std.max())
    one = coded.predict_distribution(CODED[NEW][:1])
    np.testing.assert_array_equal(one.crps(Y[NEW][:1]), distribution.crps(Y[NEW])[:1])
    assert coded.predict_distribution(CODED[:0]).quantile([0.05, 0.95]).shape == (0, 2)
    assert coded.oob_distribution_.interval(0.9).shape == (180, 2)


@pytest.mark.parametrize("law", ["learned", "residuals", "bins", "neighbours"])
def test_other_laws_report(law):
    """One width for both sites holds too many rows of one, and too few of the other."""
    model = fit(law=law)
    assert model.law_.strata is None
    north, south = model.coverage_by_value_.values()
    assert north.rows + south.rows == 180
    assert north.share > south.share
    held_out = fit(law=law, counts="held_out")
    assert (held_out.coverage_by_value_ is None) == (law == "neighbours")


def test_whole_targets_are_held_where_ends_are_rounded():
    """Of a frozen boosted model of one width: the rows of the fit are answered as new ones are."""
    y = np.rint(np.abs(Y))
    frozen = FrozenEstimator(HistGradientBoostingRegressor(max_iter=5, max_leaf_nodes=4).fit(CODED[NEW], y[NEW]))
    model = fit(frozen, y=y, law="residuals", support=(0, np.inf, 1))
    low, high = model.predict_interval(CODED[TRAIN]).T
    held = (low <= y[TRAIN]) & (y[TRAIN] <= high)
    expected = [held[CODED.site[TRAIN] == site].mean() for site in (0, 1)]
    assert [value.share for value in model.coverage_by_value_.values()] == pytest.approx(expected)


@pytest.mark.parametrize("name", ["coded", "raw", "reordered", "without_site"])
def test_files_and_streams(name, request, tmp_path):
    """A pipeline's column may be one that its steps drop, or that it was fitted without."""
    model, data = request.getfixturevalue(name), CODED if name == "coded" else RAW
    assert model.feature_names_in_.tolist() == ["a", "b", "site"]
    expected = model.predict_interval(data[NEW])
    ju.save(tmp_path / "model", model)
    loaded = ju.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_interval(data[NEW]), expected)
    assert loaded.coverage_by_value_ is None
    parts = [table.to_pandas() for table in ju.stream(model, data[NEW], outputs=["interval"], chunk_rows=33)]
    np.testing.assert_allclose(pd.concat(parts).to_numpy(), expected, rtol=1e-6)
    data[NEW].to_csv(tmp_path / "new.csv", index=False)
    predict_files(tmp_path / "model", tmp_path / "new.csv", tmp_path / "out", outputs=["interval"])
    np.testing.assert_allclose(pd.read_parquet(tmp_path / "out").to_numpy(), expected, rtol=1e-5)
    unknown = data[NEW].assign(site=7.0 if name == "coded" else "west")
    refuses(ValueError, r"row 0 of .* has (west|7\.0) in column 'site'", lambda: list(ju.stream(model, unknown)))


def test_positions_and_bools_and_missing_values(coded):
    values = CODED.to_numpy()
    by_position = fit(rows=values, coverage_by=2).predict_interval(values[NEW])
    np.testing.assert_array_equal(by_position, coded.predict_interval(CODED[NEW]))
    flagged = RAW.assign(site=SITE == "south")
    model = fit(rows=flagged)
    assert model.law_.strata.values == (0.0, 1.0)
    table = next(iter(ju.stream(model, flagged[NEW], outputs=["interval"]))).to_pandas()
    np.testing.assert_allclose(table.to_numpy(), model.predict_interval(flagged[NEW]), rtol=1e-6)
    holed = RAW.assign(site=np.where(np.arange(N) % 4 == 0, None, SITE))
    model = fit(DROPPED, holed)
    assert model.law_.strata.values == ("north", "south", None)
    assert np.isfinite(model.predict_interval(holed[NEW])).all()


def damaged(change):
    law = lambda coded: coded.law_._replace(strata=coded.law_.strata._replace(**change(coded.law_.strata)))
    return lambda coded: check_law(law(coded))


without_levels = lambda strata: {"column": dataclasses.replace(strata.column, levels=None)}
MORE = r"of the rows with 0\.0 in column 'site': a conformal quantile .* needs 1999 calibration rows"
HEAVY, HALF = np.where(np.arange(180) % 20, 0.1, 1), {"counts": "held_out", "held_out_size": 0.5}
few = CODED.assign(site=np.r_[np.full(5, 9.0), CODED.site[5:]])
test_refusals = refusals(
    ("no name", lambda: fit(coverage_by="place"), "coverage_by='place' is no column of X, which has a, b, site"),
    ("no position", lambda: fit(coverage_by=3), "coverage_by=3 is no column of X, which has 3"),
    ("a negative one", lambda: fit(coverage_by=-1), "coverage_by=-1 is no column"),
    ("a bool", lambda: fit(coverage_by=True), "is no column; pass its name", TypeError),
    ("a name of an array", lambda: fit(rows=CODED.to_numpy()), "has no names: pass a position"),
    ("few rows", lambda: fit(rows=few), r"coverage_by='site': 5 rows have 9\.0, and ranks of their own need 19"),
    ("few that are ranked", lambda: fit(counts="held_out", held_out_size=0.2), r"site': \d+ rows that are ranked have"),
    ("little weight", lambda: fit(weight=HEAVY, **HALF), r"\d\d rows that are ranked have .*, which weigh \d\."),
    ("more coverage", lambda coded: coded.predict_interval(CODED[NEW], 0.999), MORE),
    ("another value", lambda coded: coded.predict_interval(CODED.assign(site=7)), r"row 0 of X has 7.* knows 0\.0"),
    ("no column", lambda raw: raw.predict_interval(ROWS[NEW]), "site"),
    ("no column, bound", lambda raw: raw.bound_.answer(ROWS[NEW].to_numpy()), "which these rows do not show"),
    ("onnx", lambda coded: pytest.importorskip("onnx") and ju.to_onnx(coded), "such a program cannot look up"),
    ("damaged, length", damaged(lambda strata: {"number": strata.number[1:]}), "expected"),
    ("damaged, less", damaged(lambda strata: {"number": strata.number - 1}), "residuals of none of its values"),
    ("damaged, more", damaged(lambda strata: {"number": strata.number + 1}), "residuals of none of its values"),
    ("damaged, one", damaged(lambda strata: {"number": 0 * strata.number}), "or none of some"),
    ("damaged, position", damaged(lambda strata: {"position": -1}), "no column with levels"),
    ("damaged, levels", damaged(without_levels), "no column with levels"),
    ("damaged, ranks", lambda coded: check_law(coded.law_._replace(is_by_rank=False)), "has strata, and no ranks"),
)


def test_doubt_that_cannot_be_taken_apart_says_so():
    model = UncertainForestRegressor(RandomForestRegressor(5, random_state=0)).fit(ROWS[:60], Y[:60])
    for ask in (
        model.predict_uncertainty,
        lambda X: ju.explain(model, None, X),
        lambda X: list(ju.stream(model, X, outputs=["uncertainty"])),
    ):
        with pytest.warns(PureLeavesWarning, match=r"every leaf of this forest holds one number .*min_samples_leaf=5"):
            ask(ROWS[:3])
    list(ju.stream(model, ROWS[:3]))  # where nobody asked for doubt
    # What the warning names changes it: larger leaves, and counts of all rows where trees have bags.
    label, forest = np.where(Y > 0, "yes", "no"), RandomForestClassifier(5, random_state=0)
    with pytest.warns(PureLeavesWarning):
        pure = CombinedForestClassifier(forest, combiner="mean", counts="inbag").fit(CODED, label)
    for kind in ("entropy", "plausibility"):
        with pytest.warns(PureLeavesWarning, match="all doubt is epistemic.*min_samples_leaf=5"):
            assert not pure.predict_uncertainty(CODED[:9], kind).aleatoric.any()
    assert pure.predict_uncertainty(CODED[:9], "interval").aleatoric.any()
    for settings in ({"min_samples_leaf": 5}, {}):
        counts = "inbag" if settings else "train"
        other = CombinedForestClassifier(clone(forest).set_params(**settings), combiner="mean", counts=counts)
        assert other.fit(CODED, label).predict_uncertainty(CODED[:9]).aleatoric.any()


def test_the_command_line(tmp_path, capsys):
    RAW.assign(y=np.abs(Y)).to_csv(tmp_path / "t.csv", index=False)
    model = tmp_path / "model"
    options = ["--coverage-by", "site", "--law", "conformal", "--support", "0", "none", "--trees", "20"]
    main(["fit", str(tmp_path / "t.csv"), "--target", "y", "--output", str(model), "--leaf-size", "5", *options])
    said, loaded = capsys.readouterr().err, ju.load(model)
    assert "90% intervals hold" in said
    assert "rows with site north" in said
    assert (loaded.law_.strata.values, loaded.law_.support) == (("north", "south"), (0, np.inf))
    ends = loaded.predict_interval(RAW)
    assert ends.min() >= 0
    main(["predict", str(model), str(tmp_path / "t.csv"), "--output", str(tmp_path / "out"), "--quiet"])
    np.testing.assert_allclose(pd.read_parquet(tmp_path / "out")[["lower", "upper"]], ends, rtol=1e-6)
