"""The studies of sets: their methods against each other, plain code and the library's estimators; committed pages."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import softmax, xlogy
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from benchmarks.cells import FoldCell
from benchmarks.studies.conformal_sets import run as conformal
from benchmarks.studies.learning.run import Rows
from benchmarks.studies.sets import run as study
from benchmarks.studies.sets import vote as votes
from benchmarks.studies.sets.further import steps_section, vote_section
from benchmarks.studies.sets.intervals import decalibrate, dirichlet_lower, dominating, profile_lower
from benchmarks.studies.sets.likelihood import NAMES, as_arrays, bounds, chosen, members_of, most_probable_of
from benchmarks.studies.sets.methods import compared, counted, duel, is_kept, measures, methods, plain_sets, table
from benchmarks.studies.sets.page import by_need, page
from jaxunc.estimators import CautiousForestClassifier
from tests._claims import Page
from tests.benchmarks._small import classified

pytestmark = [pytest.mark.once, pytest.mark.filterwarnings("ignore::jaxunc.counting.PureLeavesWarning")]


@pytest.fixture(scope="module")
def rows():
    return Rows(*classified(300, 3, flip_y=0.2))


@pytest.fixture(scope="module")
def fitted(rows):
    """Some of the rows, a forest of them, its arrays, and what its trees say of rows that they have not seen."""
    X, y = rows.X[:200], rows.y[:200]
    model = RandomForestClassifier(100, random_state=0).fit(X, y)
    return X, y, model, as_arrays(model, X, y), ju.learning.oob_dataset(model, X, y, source="oob", counts="both")


def test_the_page_can_be_made_of_some_sets():
    found = study.kept(study.RESULTS)
    text = page({cell: record for cell, record in found.items() if cell.data in ("sonar", "liver")})
    assert "2 data sets (2 of two classes)" in text
    assert "| adaptive" not in text


def test_what_the_docs_say():
    frame = table(study.kept(study.RESULTS))
    assert by_need(frame) in Page("docs/decisions.md").text
    for first, second, measure, told in (
        ("u65, learned", "one class, learned", "u65", "**28:7 +0.012**"),
        ("u65, learned", "cautious, oob, s = 1", "u65", "**28:7 +0.007**"),
        ("u80, learned", "one class, learned", "u80", "**32:2 +0.047**"),
        ("u80, learned", "cautious, oob, s = 1", "u80", "**32:3 +0.025**"),
        ("conformal, oob", "conformal, held-out", "u65", "**23:8 +0.007**"),
    ):
        assert duel(frame, first, second, measure) == told, (first, second, measure)
    sums = frame.groupby("method")[["kept", "n_classes_kept", "n_classes_told"]].sum()
    assert sums.loc["conformal, held-out", "kept"] == 33
    assert sums.loc["by class, learned, oob"].tolist()[1:] == [102, 107]
    assert sums.loc["conformal, held-out"].tolist()[1:] == [90, 107]
    assert compared(frame[frame["n_classes"] > 2], "cautious, oob, s = 1", "u65, learned", "u65")[:2] == (1, 11)


def test_a_cell_has_all_methods_and_all_rows(rows):
    pytest.importorskip("crepes")
    pytest.importorskip("mapie")
    found = study.run_cell(FoldCell("made", 0), rows)
    n_test = found["rows"][1]
    assert found["sets"].keys() == found["seconds"].keys()
    assert len(found["sets"]) == 25
    for one in found["sets"].values():
        assert sum(n for _, n, _ in one["sizes"]) == sum(n for n, _ in one["classes"]) == n_test
        assert sum(n for _, _, n in one["sizes"]) == sum(n for _, n in one["classes"])
    assert measures([found["sets"]["conformal, held-out"]])["coverage"] > 0.8


def test_a_cell_of_conformal_sets_has_all_methods(rows):
    pytest.importorskip("crepes")
    pytest.importorskip("mapie")
    found = conformal.run_cell(FoldCell("made", 0), rows)["sets"]
    assert found["MAPIE"] == found["crepes, unsmoothed"]
    assert measures([found["mean, held-out"]])["size"] <= measures([found["MAPIE, completed"]])["size"]
    assert measures([found["mean, held-out"]])["empty"] == 0
    assert len(found) == 14


def test_cautious_sets_are_the_estimator_s(rows):
    X, y, X_test = rows.X[:200], rows.y[:200], rows.X[200:]
    found = methods(X, y, seed=3)
    for counts, name in (("oob", "oob"), ("inbag", "in-bag")):
        model = CautiousForestClassifier(RandomForestClassifier(100, random_state=3), s=2, counts=counts).fit(X, y)
        np.testing.assert_array_equal(found[f"cautious, {name}, s = 2"](X_test), model.predict_set(X_test))


@pytest.mark.parametrize("by_class", [False, True])
def test_conformal_sets_of_the_library_are_within_these(rng, by_class):
    """The library ranks the most probable class with the others; here it is added to the empty sets of crepes."""
    pytest.importorskip("crepes")
    own, predicted, y = rng.dirichlet(np.ones(3), 80), rng.dirichlet(np.ones(3), 50), rng.integers(0, 3, 80)
    most_probable = np.eye(3, dtype=bool)[predicted.argmax(axis=1)]
    theirs = plain_sets(own, y, predicted, by_class=by_class)
    found = ju.decisions.conformal_sets(predicted, own, y, coverage=0.9, by_class=by_class)
    assert np.all(found <= theirs | most_probable)
    never = np.where(own.argmax(axis=1) == y, (y + 1) % 3, y)  # where no row's class leads, ranks are the same
    theirs = plain_sets(own, never, predicted, by_class=by_class)
    found = ju.decisions.conformal_sets(predicted, own, never, coverage=0.9, by_class=by_class)
    np.testing.assert_array_equal(found, theirs | most_probable)


def test_measures_are_the_library_s(rng):
    sets, y = rng.random((200, 4)) < 0.5, rng.integers(0, 4, 200)
    sets[~sets.any(axis=1), 0] = True
    found = measures([counted(sets[:90], y[:90]), counted(sets[90:], y[90:])])
    assert found["u65"] == pytest.approx(float(ju.metrics.discounted_utility(sets, y, kind=65)), abs=1e-6)
    assert found["u80"] == pytest.approx(float(ju.metrics.discounted_utility(sets, y, kind=80)), abs=1e-6)
    assert found["size"] == pytest.approx(float(ju.metrics.set_size(sets)), abs=1e-6)
    assert found["single"] == pytest.approx(float(ju.metrics.determinacy(sets)), abs=1e-6)
    assert found["right"] == pytest.approx(float(ju.metrics.single_set_accuracy(sets, y)), abs=1e-6)
    hit, sizes = sets[np.arange(200), y], sets.sum(axis=1)
    assert found["coverage"] == pytest.approx(hit.mean())
    assert found["worst_class"] == pytest.approx(min(hit[y == c].mean() for c in range(4)))
    of_size = [hit[sizes == k].mean() for k in range(1, 5) if np.sum(sizes == k) >= 10]
    assert found["worst_size"] == pytest.approx(min(of_size))


def test_measures_of_sets_that_may_be_empty():
    sets = np.array([[0, 0], [1, 0], [1, 1], [0, 1]] * 10, bool)
    y = np.array([0, 0, 1, 0] * 10)
    found = measures([counted(sets[:20], y[:20]), counted(sets[20:], y[20:])])
    expected = {"coverage": 0.5, "worst_class": 1 / 3, "worst_size": 0.5, "size": 1.0, "single": 0.5, "empty": 0.25}
    assert {name: found[name] for name in (*expected, "n_classes")} == pytest.approx(expected | {"n_classes": 2})
    few = measures([{"sizes": [[0, 20, 0], [1, 9, 0], [2, 30, 24], [3, 10, 9]], "classes": [[69, 33]]}])
    assert few["worst_size"] == 0.8  # nine rows are too few, and empty sets do not count


def test_a_promise_is_kept_within_binomial_error():
    # Of 100 hits with a probability of .9 each, 84 or fewer have a probability of 4.0 %, 85 or fewer one of 7.3 %.
    assert is_kept(85, 100)
    assert not is_kept(84, 100)


def test_both_parts_of_a_cell_are_of_the_same_forest():
    found = [record for record in study.kept(study.RESULTS).values() if "numbers" in record]
    assert found
    same = [name for name in ("in-bag", "oob") for cell in found if cell["numbers"][f"intervals, {name}, by u65"] == 1]
    assert same
    for record in found:
        for counts in ("in-bag", "oob"):
            for how in ("by u65", "by u80", "by class"):
                name = f"intervals, {counts}, {how}"
                if record["numbers"][name] in (1, 5):
                    known = record["sets"][f"intervals, {counts}, s = {record['numbers'][name]:.0f}"]
                    assert record["sets"][name] == known


@pytest.mark.parametrize(("own", "rest"), [(3, 5), (1, 1), (40, 2), (0, 4), (7, 0), (0, 0)])
@pytest.mark.parametrize("alpha", [0.95, 0.15])
def test_profile_likelihood_is_a_root(own, rest, alpha):
    loss = lambda p: xlogy(own, p) + xlogy(rest, 1 - p)
    gap = lambda p: loss(p) - loss(own / (own + rest)) - np.log(alpha)
    expected = brentq(gap, 1e-12, own / (own + rest)) if own else 0
    assert float(profile_lower(np.array(own), np.array(rest), alpha)) == pytest.approx(expected, abs=1e-9 if own else 0)


def test_leaves_of_three_classes_are_those_of_the_whole_simplex():
    counts, alpha, n = np.array([5.0, 3.0, 2.0]), 0.3, 200
    a, b = np.meshgrid(np.arange(1, n), np.arange(1, n))
    p = np.stack([a, b, n - a - b], axis=-1)[a + b < n] / n
    kept = p[np.sum(counts * np.log(p), axis=1) >= np.sum(counts * np.log(counts / 10)) + np.log(alpha)]
    lower, upper = bounds(counts[None], profile_lower, alpha)
    np.testing.assert_allclose(lower[0], kept.min(axis=0), atol=1.5 / n)
    np.testing.assert_allclose(upper[0], kept.max(axis=0), atol=1.5 / n)


def test_dirichlet_bounds_and_dominance_are_the_library_s(rng):
    for n_classes in (2, 3):
        counts = rng.integers(0, 4, (50, 7, n_classes)).astype(float)
        lower, upper = (bound.mean(axis=1) for bound in bounds(counts, dirichlet_lower, 1.0))
        interval = ju.AveragedIntervals(1.0)(counts)
        np.testing.assert_allclose(lower, interval.lower, atol=1e-6)
        np.testing.assert_allclose(upper, interval.upper, atol=1e-6)
        # On a grid, so that there are ties.
        low, high = np.sort(rng.integers(0, 5, (2, 200, n_classes)) / 4, axis=0)
        if n_classes == 2:
            low, high = low, 1 - low[:, ::-1]
            low, high = np.minimum(low, high), np.maximum(low, high)
        expected = ju.decisions.interval_dominance(ju.scorers.Interval(low, high))
        np.testing.assert_array_equal(dominating(low, high), expected)


def test_decalibration_falls_by_what_it_says(rng):
    p, nats = rng.dirichlet(np.ones(3), 300), (0.0, 2.0, 30.0)
    y = np.array([rng.choice(3, p=one) for one in p])
    found = decalibrate(p, y, nats)
    logits = found.scale * np.log(np.clip(p, 1e-3, 1)) + found.bias
    loss = lambda z: float(np.sum(np.log(softmax(z, axis=1)[np.arange(300), y])))
    for move in (0.05, -0.05):  # the best of its family
        assert loss(logits) >= loss(logits * (1 + move)) - 1e-6
    for at, fall in enumerate(nats):
        lower, upper = found(p, at)
        for c in range(3):
            assert loss(logits) >= loss(logits + 0.05 * np.eye(3)[c]) - 1e-6
            for end, bound in zip(range(2), (lower, upper), strict=True):
                moved = logits + found.shifts[at, c, end] * np.eye(3)[c]
                assert loss(logits) - loss(moved) == pytest.approx(fall, abs=2e-3)
                np.testing.assert_allclose(bound[:, c], softmax(moved, axis=1)[:, c])
    assert np.all(found(p, 2)[0] <= found(p, 1)[0] + 1e-12)


def test_rows_do_not_know_their_labels(fitted):
    X, y, model, grown, known = fitted
    shares = grown.own["in-bag"] / grown.own["in-bag"].sum(axis=-1, keepdims=True)
    mean = np.einsum("rtc,rt->rc", shares, grown.unseen / grown.unseen.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(mean, known.answer(ju.Mean()).probability, atol=1e-5)
    of_rows = ju.count_leaves(ju.from_sklearn(model), X, y, tree_mask=ju.counting.oob_mask(model, 200))
    counts = np.asarray(ju.leaf_counts(of_rows, X))
    expected = np.where(grown.unseen[..., None], counts - np.eye(3)[y][:, None], 0)
    np.testing.assert_array_equal(np.where(grown.unseen[..., None], grown.own["oob"], 0), expected)
    np.testing.assert_array_equal(grown.counts["oob"][grown.at(X[:5])], counts[:5])


def test_numbers_are_chosen_by_what_they_say():
    y = np.array([0, 0, 1, 1])
    one = np.array([[1, 0], [1, 0], [1, 0], [0, 1]], bool)  # three of four right
    some = one | np.array([[0, 0], [0, 0], [0, 1], [1, 0]], bool)  # all right, two of them alone
    both = np.ones((4, 2), bool)
    worth = [np.mean([1, 1, 0, 1]), np.mean([1, 1, 0.65, 0.65]), 0.65]
    assert chosen([one, some, both], y, "by u65") == int(np.argmax(worth)) == 1
    assert (chosen([one, both], y, "by u65"), chosen([one, some, both], y, "by class")) == (0, 1)
    assert chosen([one, one], y, "by class") == 1  # none covers: the widest


def test_plausible_models_name_their_classes(rng):
    shares = rng.dirichlet(np.ones(3), (8, 20))
    members = members_of(shares)
    assert members.shape == (11, 8, 3)
    np.testing.assert_allclose(members[3], shares[:, 6:8].mean(axis=1))
    np.testing.assert_allclose(members[-1], shares.mean(axis=1))
    for row, named in enumerate(most_probable_of(members)):
        assert set(np.flatnonzero(named)) == {int(np.argmax(one[row])) for one in members}
    mask = np.ones((8, 20), bool)
    mask[0, :2] = False  # no tree of the first part has not seen the row
    np.testing.assert_allclose(members_of(shares, mask)[0, 0], shares[0, 2:].mean(axis=0))


def test_votes_learn_from_rows_that_do_not_know_their_labels(fitted):
    _, y, _, grown, both = fitted
    for counts, name in zip(("in-bag", "oob"), both.count_sets, strict=True):
        of_votes = votes.reading(both, name)
        own, sets = grown.own[counts], {}
        for s in votes.STRENGTHS:
            beats = (own[..., :, None] - own[..., None, :] >= s) & grown.unseen[..., None, None]
            share = beats.sum(axis=1) / grown.unseen.sum(axis=1)[:, None, None]
            np.testing.assert_allclose(
                of_votes.answer(ju.GeneralizedVote(s)).mass / both.n_trees, share * ~np.eye(3, dtype=bool), atol=1e-5
            )
            rejected = np.any(share >= 0.5, axis=1)
            sets[s] = np.where(rejected.all(axis=1, keepdims=True), True, ~rejected)
        for utility in votes.UTILITIES:
            worth = [float(ju.metrics.discounted_utility(one, y, kind=utility)) for one in sets.values()]
            assert votes.chosen_s(of_votes, utility) == votes.STRENGTHS[int(np.argmax(np.round(worth, 6)))]
            loss, s = ju.learning.UtilityLoss.of(3, utility), votes.chosen_s(of_votes, utility)
            vote = votes.learned(of_votes, s, utility)
            start = ju.LearnedVote(s - 0.5, half_size=1.0)
            assert ju.learning.loss_on(vote, of_votes, loss=loss) < ju.learning.loss_on(start, of_votes, loss=loss)


def test_chosen_cautious_forests_are_those_of_the_first_part():
    found = [record for record in study.kept(study.RESULTS).values() if "learned_vote" in record]
    assert found
    n_same = 0
    for record in found:
        vote = record["learned_vote"]
        for name in votes.VOTE_NAMES:
            kind, counts, _ = name.split(", ")
            s = vote["numbers"][name][0]
            if kind == "cautious" and s in (1, 2, 5):
                n_same += 1
                assert vote["sets"][name] == record["sets"][f"cautious, {counts}, s = {s:.0f}"]
    assert n_same > 20


def test_steps_hold_masses_equal_and_learn_s(fitted):
    *_, both = fitted
    of_votes, loss = votes.reading(both, both.count_sets[0]), ju.learning.UtilityLoss.of(3, 65)
    start, rule = votes.sloped(2), votes.learned(of_votes, 2, 65, freeze=votes.MASSES)
    assert (float(rule.size_power), float(rule.half_size), float(rule.softness)) == (0, 0, 0.5)
    assert float(rule.s) != float(start.s) == 1.5
    assert ju.learning.loss_on(rule, of_votes, loss=loss) < ju.learning.loss_on(start, of_votes, loss=loss)
    # With exact comparisons the first step is the cautious forest itself.
    exact, cautious = of_votes.answer(start.hardened()), of_votes.answer(ju.GeneralizedVote(2))
    np.testing.assert_allclose(exact.mass, cautious.mass, rtol=1e-5, atol=1e-5)


def test_steps_start_from_the_chosen_cautious_forests():
    found = [record for record in study.kept(study.RESULTS).values() if "vote_steps" in record]
    assert found
    for record in found:
        for name, (s, *masses) in record["vote_steps"]["numbers"].items():
            kind, where = name.split(", ", 1)
            assert masses == [0, 0]
            if kind == "slope":
                assert s + 0.5 == record["learned_vote"]["numbers"][f"cautious, {where}"][0]


@pytest.mark.parametrize(
    ("run", "names", "further"),
    [
        (study.run_likelihood, NAMES, ()),
        (study.run_vote, votes.VOTE_NAMES, ("learning",)),
        (study.run_steps, votes.STEP_NAMES, ()),
    ],
)
def test_further_cells_have_all_methods_and_all_rows(run, names, further, rows):
    found = run(FoldCell("made", 0), rows)
    assert {tuple(found[key]) for key in ("sets", "seconds", "numbers", *further)} == {tuple(names)}
    for one in found["sets"].values():
        assert sum(n for _, n, _ in one["sizes"]) == sum(n for n, _ in one["classes"]) == found["rows"][1]
        assert all(size >= 1 for size, _, _ in one["sizes"])  # never empty
    if names is NAMES:
        assert measures([found["sets"]["likelihood, oob, by class"]])["worst_class"] > 0.7


def test_without_votes_and_steps_there_are_no_sections_of_them():
    assert vote_section({FoldCell("made", 0): {"sets": {}, "seconds": {}}}) == ""
    assert steps_section({FoldCell("made", 0): {"sets": {}, "seconds": {}, "numbers": {}}}) == ""
