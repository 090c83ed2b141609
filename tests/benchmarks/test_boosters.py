"""The study of boosters: codes of words, classes that a fit lacks, weights of mixtures, what enough is."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from benchmarks.cells import FoldCell
from benchmarks.pages import digits
from benchmarks.studies.boosters import losses, methods
from benchmarks.studies.boosters import run as study
from benchmarks.studies.boosters.losses import BEST, HALF, POOL, Losses
from benchmarks.studies.boosters.methods import LargeCell, Rows, Settings, fit
from benchmarks.studies.boosters.page import METHODS, MIXTURES, NOISY, against, enough
from benchmarks.studies.learning.methods import PLAIN_MEASURES
from jaxunc.learning._select import _find_weights
from tests._claims import Page

pytestmark = pytest.mark.once

SMALL = Settings(rate=0.3, depth=2, least=1, pull=0.0, columns=1.0, native=True)


@pytest.fixture
def rows(rng):
    X = np.column_stack([rng.normal(size=90), rng.integers(0, 3, 90)]).astype(np.float32)
    y = (X[:, 0] + rng.normal(0, 0.3, 90) > 0).astype(int) + (X[:, 1] > 1)
    return Rows(X, y, np.array([False, True]))


def test_words_are_codes_of_the_levels_of_the_fit():
    X_fit, X = np.array([[5.0, 2.0], [7.0, np.nan]]), np.array([[7.0, 2.0], [6.0, 3.0], [np.nan, 9.0]])
    codes, words = methods._design("histogram", X_fit, np.array([True, False]), X)
    np.testing.assert_array_equal(codes, [[1, 2], [np.nan, 3], [np.nan, 9]])
    np.testing.assert_array_equal(words, [True, False])
    frame, _ = methods._design("CatBoost", X_fit, np.array([True, False]), X)
    assert frame[0].tolist() == [1, -1, -1]
    assert X[0, 0] == 7, "the caller's table stays as it is"
    codes, words = methods._design("histogram", np.full((2, 1), np.nan), np.array([True]), X[:, :1])
    np.testing.assert_array_equal(codes, [[0], [0], [0]], err_msg="a column without values")
    assert not words.any()
    many = np.arange(300.0)[:, None]
    _, words = methods._design("histogram", many, np.array([True]), many)
    assert not words.any(), "more levels than it takes are numbers"


@pytest.mark.filterwarnings("ignore:The argument 'eval_set'")  # of LightGBM from 4.7 on; older ones know no other
@pytest.mark.parametrize("library", ["histogram", "LightGBM", "XGBoost", "CatBoost"])
def test_classes_that_a_fit_lacks_have_no_probability(library, rows):
    pytest.importorskip("sklearn" if library == "histogram" else library.lower())
    few, others = rows.at(rows.y != 1), rows.at(np.arange(90) < 40)
    model = fit(library, SMALL, few, 3, 0, validation=others)
    shares = model.answer(rows.X)
    assert shares.shape == (90, 3)
    assert 1 <= model.rounds <= 500
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_array_equal(shares[:, 1], 0)
    assert shares[rows.y == 2, 2].mean() > shares[rows.y == 0, 2].mean()


def test_each_training_row_is_answered_by_models_of_other_folds(rows, monkeypatch):
    monkeypatch.setattr("benchmarks.studies.boosters.methods.drawn_settings", lambda: [None, SMALL])
    monkeypatch.setattr("benchmarks.studies.boosters.methods.N_ASKED", 10)
    fold = np.arange(90) % methods.N_PARTS
    first = methods.tuned("histogram", rows, rows.X[:5], fold, 0)
    again = fit("histogram", first.settings, rows.at(fold != 0), 3, 0, rows.at(fold == 0)).answer(rows.X[fold == 0])
    np.testing.assert_allclose(first.own[fold == 0], again)
    assert first.new.shape == (5, 3)


def test_settings_and_weights(rng):
    assert len(set(methods.drawn_settings())) == methods.N_SETTINGS
    y, members = rng.integers(0, 3, 60), rng.dirichlet(np.ones(3), (2, 60))
    logs = np.log(members[:, np.arange(60), y])
    np.testing.assert_allclose(methods.mixing_weights(members, y), _find_weights(logs, np.ones(60)))


def test_enough_is_a_mean_and_the_end_of_an_interval():
    mean, end = enough(pd.Series(np.log([0.9, 1.0, 1.1])))
    assert mean == pytest.approx(0.99 ** (1 / 3))
    spread = np.log([0.9, 1.0, 1.1]).std(ddof=1) / 3**0.5
    assert end == pytest.approx(mean * np.exp(2.919986 * spread))  # of two degrees of freedom


@pytest.mark.filterwarnings("ignore:.*rows repeat others", "ignore:.*rows are in every tree's bag")
def test_rows_with_many_copies_are_known_as_the_data_set_knows_them():
    X = np.random.default_rng(0).normal(size=(1540, 4))
    X, y = np.concatenate([X, X[-40:], X[-40:]]), np.repeat([0, 1], [1500, 120])
    forest = RandomForestClassifier(120, random_state=0).fit(X, y)
    out_of_bag = ju.counting.oob_mask(forest, len(y), X=X, y=y).any(axis=1)
    seen = study.known_out_of_bag(forest, X, y)
    assert seen.sum() == ju.learning.oob_dataset(forest, X, y, source="oob", counts="both").n
    assert seen.sum() < out_of_bag.sum(), "trees are taken from a class whose rows have more of them"


def test_growth_is_a_ratio_of_ratios_on_the_same_sets():
    def losses_of(kind, of):
        return Losses({kind(name, fold): record(*values) for name, values in of.items() for fold in (0, 1)})

    def record(pool, best):
        values = {POOL: pool, BEST: best, HALF: 0.3, "CatBoost, P": 0.3}
        shown = {name: [value] * len(PLAIN_MEASURES) for name, value in values.items()}
        return {"methods": shown, "rows": [800, 2, 3, 0.0], "error": 0.2, "all": 1.0}

    both = {"b": (0.2, 0.4), "a": (0.3, 0.3)}
    small = losses_of(FoldCell, {"c": (0.9, 0.1), **both})
    large = losses_of(LargeCell, {"a": (0.2, 0.1), "b": (0.1, 0.4)})
    grown = losses.growth(small, large, POOL, BEST)
    np.testing.assert_allclose(np.exp(grown[["a", "b"]]), [2, 0.5])
    assert list(losses.same_sets(small, large).sets.index) == ["b", "a"]
    low, high, least = losses.interval(pd.Series(np.log([0.9, 1.0, 1.1])))
    mean, end = enough(pd.Series(np.log([0.9, 1.0, 1.1])))
    assert low * high == pytest.approx(mean**2)
    assert least * end == pytest.approx(mean**2), "one-sided ends are as far from the mean"
    assert np.log(high / mean) / np.log(end / mean) == pytest.approx(4.302653 / 2.919986)  # of two degrees of freedom
    assert "splice" in losses.unreached(large)


def test_larger_sets_are_those_that_have_them_and_cells_of_both_parts_are_kept_apart():
    assert set(methods.LARGE_SETS) < set(methods.SETS)
    found = study.kept(study.RESULTS)
    assert FoldCell("skin", 0) in found
    large = {cell: record for cell, record in found.items() if isinstance(cell, LargeCell)}
    for cell, record in large.items():
        n_train, few = record["rows"][0], found[FoldCell(cell.data, cell.fold)]["rows"]
        assert 1000 < n_train <= methods.MOST_ROWS * 4 / 5
        assert few[0] == 799
        assert record["rows"][1] == few[1]


def test_what_the_docs_say():
    found = study.kept(study.RESULTS)
    of_kind = lambda kind: Losses({cell: record for cell, record in found.items() if isinstance(cell, kind)})
    of, large = of_kind(FoldCell), of_kind(LargeCell)
    text, noisy = Page("docs/learning.md").said, of.sets["error"] >= NOISY

    def said(first: str, second: str, where=slice(None)) -> tuple[str, str]:
        logs = of.logs(first, second)[where]
        return f"{np.exp(logs.mean()):.2f}".lstrip("0"), f"{(logs < 0).sum()}:{(logs > 0).sum()}"

    pairs = [said(POOL, name) for name in ("histogram", "LightGBM", "XGBoost")]
    assert f"as they come | {', '.join(a for a, _ in pairs)} | **{', '.join(b for _, b in pairs)}** |" in text
    for first, second, where, words in (
        (POOL, "CatBoost", slice(None), "| CatBoost, as it comes | {} | {} |"),
        (POOL, BEST, slice(None), "tuned among 24 settings and calibrated | {} | {} |"),
        (POOL, BEST, noisy, "with errors of a tenth and more | {} | {} |"),
        (HALF, BEST, slice(None), "has {} of the tuned booster's loss ({})"),
        (HALF, POOL, slice(None), "{} of the pool's ({})"),
    ):
        assert words.format(*said(first, second, where)) in text
    assert f"{len(of.sets)} sets below 1000 rows" in text
    few = losses.same_sets(of, large)
    ratios = [f"{np.exp(each.logs(POOL, BEST).mean()):.2f}".lstrip("0") for each in (few, large)]
    drawn = f"on {len(large.sets)} of these sets, with up to 4000 rows drawn in place of 999, the pool's ratio"
    assert f"{drawn} to the tuned booster went from {ratios[0]} to {ratios[1]}." in text
    assert all(p >= 0.05 for _, p in losses.tested(few, large))
    assert noisy.sum() == 10
    assert digits(np.exp(of.logs(BEST, POOL)["scene"])).startswith("0.28")
    rows = against(of, [name for name in METHODS if name not in (POOL, *MIXTURES)]).splitlines()
    assert {line.split("`")[1] for line in rows if "**" in line} == {"histogram", "LightGBM", "XGBoost"}
