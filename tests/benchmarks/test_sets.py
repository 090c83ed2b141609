"""The study of sets: its methods against plain code and the library's estimators, and the committed page."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from benchmarks import sets as study
from benchmarks.learning import Rows
from benchmarks.sets_methods import counted, methods, plain_sets
from benchmarks.sets_page import by_need, compared, is_kept, measures, page, table
from jaxunc.estimators import CautiousForestClassifier

pytestmark = [pytest.mark.once, pytest.mark.filterwarnings("ignore::jaxunc.counting.PureLeavesWarning")]
DECISIONS = Path(study.__file__).parents[1] / "docs" / "decisions.md"


@pytest.fixture(scope="module")
def rows():
    X, y = make_classification(300, 6, n_informative=4, n_classes=3, flip_y=0.2, random_state=0)
    return Rows(X.astype(np.float32), y)


def test_the_page_is_that_of_the_committed_cells():
    found = study.kept(study.RESULTS)
    assert page(found) == (study.RESULTS / "README.md").read_text(encoding="utf-8")


def test_the_table_by_need_stands_in_the_docs():
    text = DECISIONS.read_text(encoding="utf-8")
    assert "\n".join(by_need(table(study.kept(study.RESULTS)))) in text


def test_the_page_can_be_made_of_some_sets():
    found = study.kept(study.RESULTS)
    text = page({cell: record for cell, record in found.items() if cell.data in ("sonar", "liver")})
    assert "2 data sets (2 of two classes)" in text
    assert "| adaptive" not in text


@pytest.mark.parametrize(
    ("first", "second", "measure", "won", "lost", "gain", "is_told_apart"),
    [
        ("u65, learned", "one class, learned", "u65", 28, 7, 0.012, True),
        ("u65, learned", "cautious, oob, s = 1", "u65", 28, 7, 0.007, True),
        ("u80, learned", "one class, learned", "u80", 32, 2, 0.047, True),
        ("u80, learned", "cautious, oob, s = 1", "u80", 32, 3, 0.025, True),
        ("conformal, oob", "conformal, held-out", "u65", 23, 8, 0.007, True),
    ],
)
def test_what_the_docs_say(first, second, measure, won, lost, gain, is_told_apart):
    found = compared(table(study.kept(study.RESULTS)), first, second, measure)
    assert found[:2] == (won, lost)
    assert found[2] == pytest.approx(gain, abs=0.0006)
    assert (found[3] < 0.05) == is_told_apart


def test_what_the_docs_say_of_promises():
    sums = table(study.kept(study.RESULTS)).groupby("method")[["kept", "n_classes_kept", "n_classes_told"]].sum()
    assert sums.loc["conformal, held-out", "kept"] == 33
    assert sums.loc["by class, learned, oob"].tolist()[1:] == [102, 107]
    assert sums.loc["conformal, held-out"].tolist()[1:] == [90, 107]


def test_what_the_docs_say_of_more_classes():
    frame = table(study.kept(study.RESULTS))
    more = frame[frame["n_classes"] > 2]
    assert compared(more, "cautious, oob, s = 1", "u65, learned", "u65")[:2] == (1, 11)


def test_a_cell_has_all_methods_and_all_rows(rows):
    pytest.importorskip("crepes")
    pytest.importorskip("mapie")
    found = study.run_cell(study.Cell("made", 0), rows)
    n_test = found["rows"][1]
    assert found["sets"].keys() == found["seconds"].keys()
    assert len(found["sets"]) == 25
    for one in found["sets"].values():
        assert sum(n for _, n, _ in one["sizes"]) == sum(n for n, _ in one["classes"]) == n_test
        assert sum(n for _, _, n in one["sizes"]) == sum(n for _, n in one["classes"])
    assert measures([found["sets"]["conformal, held-out"]])["coverage"] > 0.8


def test_cautious_sets_are_the_estimator_s(rows):
    X, y, X_test = rows.X[:200], rows.y[:200], rows.X[200:]
    found = methods(X, y, seed=3)
    for counts, name in (("oob", "oob"), ("inbag", "in-bag")):
        model = CautiousForestClassifier(RandomForestClassifier(100, random_state=3), s=2, counts=counts).fit(X, y)
        np.testing.assert_array_equal(found[f"cautious, {name}, s = 2"](X_test), model.predict_set(X_test))


@pytest.mark.parametrize("by_class", [False, True])
def test_conformal_sets_are_those_of_a_plain_loop(rng, by_class):
    own, predicted, y = rng.dirichlet(np.ones(3), 80), rng.dirichlet(np.ones(3), 50), rng.integers(0, 3, 80)
    names: dict = {"np": np}
    block = next(
        one for one in re.findall(r"```python\n(.*?)```", DECISIONS.read_text("utf-8"), re.DOTALL) if "def " in one
    )
    exec(block[block.index("def ") :].partition("\n\n\n")[0], names)  # as the docs have it
    shown = names["conformal_sets"](own, y, predicted, by_class=by_class)
    for shares, members in zip(predicted, shown, strict=True):
        expected = []
        for c, share in enumerate(shares):
            scores = [own[i, y[i]] for i in range(80) if not by_class or y[i] == c]
            expected.append((1 + sum(score <= share for score in scores)) / (len(scores) + 1) >= 0.1)
        assert members.tolist() == (expected if any(expected) else [c == np.argmax(shares) for c in range(3)])
    pytest.importorskip("crepes")
    np.testing.assert_array_equal(plain_sets(own, y, predicted, by_class=by_class), shown)


def test_measures_are_the_library_s(rng):
    sets, y = rng.random((200, 4)) < 0.5, rng.integers(0, 4, 200)
    sets[~sets.any(axis=1), 0] = True
    found = measures([counted(sets[:90], y[:90]), counted(sets[90:], y[90:])])
    assert found["u65"] == pytest.approx(float(ju.metrics.discounted_utility(sets, y, kind=65)), abs=1e-6)
    assert found["u80"] == pytest.approx(float(ju.metrics.discounted_utility(sets, y, kind=80)), abs=1e-6)
    assert found["size"] == pytest.approx(float(ju.metrics.set_size(sets)), abs=1e-6)
    assert found["single"] == pytest.approx(float(ju.metrics.determinacy(sets)), abs=1e-6)
    assert found["right"] == pytest.approx(float(ju.metrics.single_set_accuracy(sets, y)), abs=1e-6)
    hit = sets[np.arange(200), y]
    assert found["coverage"] == pytest.approx(hit.mean())
    assert found["worst_class"] == pytest.approx(min(hit[y == c].mean() for c in range(4)))
    assert found["worst_size"] == pytest.approx(
        min(hit[sets.sum(axis=1) == k].mean() for k in range(1, 5) if np.sum(sets.sum(axis=1) == k) >= 10)
    )


def test_a_promise_is_kept_within_binomial_error():
    # Of 100 hits with a probability of .9 each, 84 or fewer have a probability of 4.0 %, 85 or fewer one of 7.3 %.
    assert is_kept(85, 100)
    assert not is_kept(84, 100)
