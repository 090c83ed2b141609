"""The study of doubt: its doubts are the library's, its measures scikit-learn's, its problems those of the rules."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

import jaxunc as ju
from benchmarks.studies.doubt import jobs
from benchmarks.studies.doubt import run as study
from benchmarks.studies.doubt.doubts import STRENGTH, Fitted, as_numbers, beside_labels, kinds, of_labels
from benchmarks.studies.doubt.page import EXPECTED, FURTHER, SEEN, compared, duel_of, said, table, wide
from jaxunc.counting import oob_mask
from tests._claims import Page
from tests.benchmarks._small import classified

pytestmark = pytest.mark.once


def rows(n_classes=3, n=120):
    X, y = classified(n, n_classes, flip_y=0.2)
    X[:, 0] = np.round(X[:, 0])
    return jobs.Rows(X, y, np.arange(6) == 0)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_doubts_are_those_of_the_library(n_classes):
    X, y, _ = rows(n_classes)
    fitted = Fitted(X, y, 5, 0)
    forest, mask = ju.from_sklearn(fitted.model), oob_mask(fitted.model, len(y), X=X, y=y)
    forests = {"in-bag": forest, "train": ju.count_leaves(forest, X, y)}
    forests["oob"] = ju.count_leaves(forest, X, y, tree_mask=mask)
    rules = {"mean": ju.Mean(), "entropy": ju.UncertaintyDecomposition(), "bounds": ju.AveragedIntervals(STRENGTH)}
    if n_classes == 2:
        rules["plausibility"] = ju.UncertaintyDecomposition("plausibility")
    for counts, each in forests.items():
        for trees in (None, mask) if counts == "in-bag" else (None,):
            answer = ju.bind(each, rules).answer(X, tree_mask=trees)
            p, found = kinds(fitted.reached(counts, fitted.bags.leaves), trees)
            told = {"aleatoric": answer["entropy"].aleatoric, "epistemic": answer["entropy"].epistemic}
            told["credal width"] = (answer["bounds"].upper - answer["bounds"].lower)[:, 0]
            if n_classes == 2:
                told |= {
                    f"plausibility, {kind}": getattr(answer["plausibility"], kind) for kind in told if kind[-1] == "c"
                }
            else:
                told["entropy"] = answer["entropy"].total
            np.testing.assert_allclose(p, answer["mean"].probability, atol=1e-5)
            assert found.keys() == told.keys()
            for name, values in told.items():
                np.testing.assert_allclose(found[name], values, atol=1e-5, err_msg=f"{name}, {counts}")


def test_measures_with_ties(rng):
    doubt, positive = rng.integers(0, 5, 200) / 4, rng.random(200) < 0.3
    found = dict(zip(jobs.MEASURES, jobs.measures(doubt, positive), strict=True))
    assert found["AUROC"] == pytest.approx(roc_auc_score(positive, doubt), abs=1e-4)
    assert found["average precision"] == pytest.approx(average_precision_score(positive, doubt), abs=1e-4)
    mean = np.mean([positive[np.lexsort((rng.random(200), -doubt))[:20]].sum() for _ in range(2000)]) / positive.sum()
    assert found["gain at 10%"] == pytest.approx(mean, abs=0.005)
    assert found["share"] == pytest.approx(positive.mean(), abs=1e-4)
    assert jobs.measures(positive.astype(float), positive)[:2] == [1, 1]


def test_problems_with_too_few_rows_are_left_out():
    found, doubts = {}, {"any": np.arange(20.0)}
    jobs.add(found, {"few": jobs.Problem(np.arange(20), np.arange(20) > 15)}, doubts)
    jobs.add(found, {"enough": jobs.Problem(np.arange(10, 20), np.arange(10) > 4)}, doubts)
    assert list(found) == ["enough"]
    assert found["enough"]["any"][0] == 1


def test_rows_unlike_the_training_rows(rng):
    data = rows(n=200)
    X, y, nominal = data
    asked, problems = jobs.with_unlike(jobs.Rows(X[:100], y[:100], nominal), X[100:], np.arange(6), rng)
    assert len(asked) == 160
    for name, (positions, unlike) in problems.items():
        assert (unlike == (positions >= 100)).all()
        assert 15 <= unlike.sum() <= 20
        bases = np.array([np.argmin(np.abs(X[:100] - row).sum(axis=1)) for row in asked[positions[unlike]]])
        if name == "a column":
            assert not set(bases) & set(positions[~unlike])
            np.testing.assert_array_equal(asked[positions[unlike]][:, :5], X[bases][:, :5])
    np.testing.assert_array_equal(asked[:100], X[:100])
    assert np.isin(asked[120:140], X[:100]).all()
    assert np.abs(asked[140:, 1:]).mean() > 2 * np.abs(X[:, 1:]).mean()
    assert np.isin(asked[140:, 0], X[:, 0]).all()


def test_wrong_labels(rng):
    y = np.repeat([2, 0, 1, 3], [40, 30, 20, 10])
    given = jobs.of_any_class(y, 0.1, rng)
    assert (given != y).sum() == 10
    assert 0 <= given.min() <= given.max() <= 3
    given = jobs.of_the_next_class(y, 0.1, rng)
    assert (given != y).sum() == 10
    assert set(zip(y[given != y], given[given != y], strict=True)) <= {(2, 0), (1, 3)}


def test_what_is_beside():
    X = np.array([[0, 1.0], [1, 3.0], [2, np.nan]])
    numbers = as_numbers(X, X, np.array([True, False]))
    np.testing.assert_allclose(numbers[:, :3], np.eye(3) / 2**0.5)
    np.testing.assert_allclose(numbers[:, 3], [-1, 1, 0])
    data = rows(2, 200)
    found = beside_labels(data.X, data.y, data.nominal, 0)["labels of the nearest//"]
    assert 0 <= found.min() <= found.mean() < 0.5


def test_self_confidence_is_the_doubt_of_a_target():
    X, y, _ = rows()
    fitted = Fitted(X, y, 1, 0)
    found = of_labels(fitted, learns=False)
    doubt = ju.proximity.target_doubt(fitted.model, y, rows=X)
    np.testing.assert_allclose(found["self-confidence//1"], doubt, atol=1e-5)
    assert jobs.measures(found["aleatoric//1"], y == 0)[0] == 0.5, "leaves of one row are pure"


def test_duels():
    of = duel_of(np.array([[0.8, 0.7], [0.6, 0.65], [0.9, 0.7], [0.5, 0.5], [0.7, 0.6], [0.8, 0.5], [0.9, 0.6]]))
    assert (of.wins, of.losses) == (5, 1)
    assert of.median == pytest.approx(0.1)
    assert 0 < of.correlation < 1
    assert said(of) == "5:1, +0.100"


def test_cells_have_all_problems():
    found = study.run_cell(study.Cell("made", "rows", 0), rows())["problems"]
    assert list(found) == ["answers", "a column", "all columns", "far out", "a class"]
    n_doubts = {problem: len(doubts) for problem, doubts in found.items()}
    assert n_doubts == dict.fromkeys(found, 3 * (3 * 6 + 2) + 3) | {"a class": 3 * (3 * 6 + 2) + 2}


TOLD = (
    ("wrong answers | learned probability #, else `1 - p` # | epistemic #, credal width #",
     "answers", "learned p//1", "1 - p/in-bag/1", "epistemic/train/1", "credal width/in-bag/1"),
    ("distance of the nearest rows #, `outside_share` # | learned probability #",
     "far out", "distance//", "outside share//1", "learned p//1"),
    ("columns exchanged | `outside_share` #, distance #, epistemic # | learned probability #",
     "all columns", "outside share//1", "distance//", "epistemic/train/1", "learned p//1"),
    ("a class left out | `outside_share` #, distance #; no test tells them from `1 - p` # | credal width #",
     "a class", "outside share//1", "distance//", "1 - p/in-bag/1", "credal width/in-bag/1"),
    ("probability of the label #; or `target_doubt` #, in leaves of five # | epistemic #",
     "uniform, 10%", "learned p of the label//1", "self-confidence//1", "self-confidence//5", "epistemic//1"),
    ("random rows # or margin #: no test tells them apart | epistemic #, credal width #",
     "next", "random//", "margin//", "epistemic/train/", "credal width/in-bag/"),
    ("KS by column with Holm #, domain classifier # | mean `outside_share` #, mean `1 - p` #",
     "mix, a column", "KS with Holm//", "domain classifier//", "mean outside share//", "mean 1 - p//"),
    ("with its labels: error rate #, coverage of sets # | domain classifier #",
     "relation, a region", "error rate//", "coverage//", "domain classifier, with labels//"),
)  # fmt: skip


def test_what_the_docs_say():
    cells = study.kept(study.RESULTS)
    assert len(cells) == 4 * len(study.SETS) + 20 * len(study.LATER_SETS)
    frame = table(cells)
    is_seen = frame["set"].isin(SEEN)
    fresh, seen, page = frame[~is_seen], frame[is_seen], Page("docs/how_to/which_doubt.md")
    assert page.claimed("on # data sets") == [fresh["set"].nunique()]
    for words, problem, *doubts in TOLD:
        page.says(words, wide(fresh, problem)[doubts].mean(), 3)
    told = {tuple(pair): row[-2] for pair, row in zip(EXPECTED, compared(EXPECTED, fresh, seen), strict=True)}
    open_still = {pair[:2] for pair, verdict in told.items() if verdict == "not told apart"}
    of_a_class = {("a class", "epistemic/train/1"), ("a class", "distance//")}
    assert open_still == of_a_class | {("far out", "distance//"), ("by class, 10%", "learned p of the label//1")}
    assert set(told.values()) == {"**yes**", "not told apart"}
    assert page.claimed("windows of 100 rows, on # sets") == [len(study.LATER_SETS)]
    assert [row[-2] for row in compared(FURTHER, fresh, seen)].count("**yes**") == 1
