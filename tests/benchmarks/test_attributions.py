"""The study of planted causes of doubt: what is drawn, its methods, its rules, and what the docs say of it."""

import re

import numpy as np
import pytest

import jaxunc as ju
from benchmarks.studies.attributions import methods
from benchmarks.studies.attributions import run as study
from benchmarks.studies.attributions.page import is_trusted, page, table, told
from tests._claims import Page, page_of

pytestmark = pytest.mark.once


@pytest.mark.parametrize("design", methods.DESIGNS)
@pytest.mark.parametrize("copies", [False, True])
def test_tables_have_the_causes_that_are_planted(design, copies, rng):
    own = methods.DESIGNS[design]._replace(copies=copies)
    X, y = methods.rows(rng, 4000, own, hole=True)
    assert X.shape == (4000, own.n_columns) == (4000, 10 if copies else 8)
    assert not ((X[:, 3] > 0) & (X[:, 3] < 0.5)).any()
    summed = X[:, [0, 1, 3] if own.used else [0, 1]].sum(axis=1)
    quiet = (X[:, 2] <= 0.4) & (np.abs(summed) > 1e-6)
    np.testing.assert_array_equal(y[quiet], summed[quiet] > 0)
    assert np.mean(y[X[:, 2] > 0.4] == (summed[X[:, 2] > 0.4] > 0)) == pytest.approx(0.5, abs=0.06)
    whole, _ = methods.rows(rng, 4000, own, hole=False)
    assert np.mean((whole[:, 3] > 0) & (whole[:, 3] < 0.5)) == pytest.approx(0.25, abs=0.03)
    asked = methods.asked(rng, own)
    noisy, hole = (asked[:, 2] > 0.4), (asked[:, 3] > 0) & (asked[:, 3] < 0.5)
    np.testing.assert_array_equal(np.stack([noisy, hole]), np.repeat(np.eye(2), methods.N_ASKED, axis=1))
    if copies:
        np.testing.assert_allclose(np.std(X[:, 8:] - X[:, 2:4], axis=0), 0.1, rtol=0.1)


def test_seeds_that_are_explained_together_are_those_of_each_alone(monkeypatch):
    monkeypatch.setattr(methods, "N_ASKED", 4)
    monkeypatch.setattr(methods, "N_TREES", 3)
    for learner in methods.LEARNERS:
        cases = [methods.case(methods.DESIGNS["other, used"], learner, 5, 200, seed) for seed in range(2)]
        together = methods._by_cover(cases)
        for seed, one in enumerate(cases):
            forest = ju.count_leaves(ju.from_sklearn(one.model), one.X, one.y)
            for found, rule in zip(together, (methods.DOUBT, ju.Mean()), strict=True):
                alone = ju.explain(forest, rule, one.asked).values
                np.testing.assert_allclose(found[8 * seed : 8 * (seed + 1)], alone, atol=2e-6)


def test_permutation_names_what_an_answer_reads(rng):
    answer = lambda X: ju.combiners.Uncertainty(X[:, 1], X[:, 1] > 0.5, X[:, 0] > 0.5)
    X = rng.uniform(size=(500, 3))
    asked = np.array([[0.9, 0.9, 0.9]] * 40)
    found = methods.permutation(answer, X, asked, rng)
    assert found.shape == (40, 3, 2)
    np.testing.assert_allclose(found.mean(axis=0), [[0, 0.5], [0.5, 0], [0, 0]], atol=0.1)


def test_when_an_answer_is_trusted_and_a_method_told_better():
    assert [is_trusted(np.array(of)) for of in ([0.75, 1, 1], [0.74, 1, 1], [0.89, 0.9, 0.9])] == [True, False, False]
    record = {cause: {name: [[0.5]] * 10 for name in methods.METHODS} for cause in ("aleatoric", "epistemic")}
    record["aleatoric"]["permutation"] = [[0.4]] * 9 + [[0.6]]
    record["epistemic"]["permutation"] = [[0.4]] * 8 + [[0.6]] * 2
    frame = table({study.Cell("own, idle", "forest", 5, 100, 0): record})
    assert told(frame, "aleatoric", "explain, by cover", "permutation") == (1, 0)
    assert told(frame, "aleatoric", "permutation", "explain, by cover") == (0, 1)
    assert told(frame, "epistemic", "explain, by cover", "permutation") == (0, 0)


def test_what_the_docs_and_the_page_say():
    said = re.findall(r"\.\d\d to 1?\.\d\d", Page("docs/how_to/explain.md").said)
    assert len(said) == 5
    text, frame = page_of("attributions"), table(study.kept(study.RESULTS))
    for one in said:
        assert "0" + one.replace(" .", " 0.") in text, one
    share = frame[frame["method"] == "explain, by cover"].set_index(["cause", "data", "learner", "leaf"])["share"]
    assert share["aleatoric", "own, idle", "extra trees", 1].max() == 0
    assert share["epistemic"].loc[["own, idle", "own, used", "other, idle"]].max() < 0.9
    by_cover, permuted = (
        frame[frame["method"] == name].groupby("cause")["share"].mean() for name in ("explain, by cover", "permutation")
    )
    assert (by_cover > permuted).all()


def test_a_page_of_a_part_of_the_settings():
    found = study.kept(study.RESULTS)
    assert "not run" in page({cell: found[cell] for cell in [*found][:2]})
