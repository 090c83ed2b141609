"""The vote of cautious forests, averaged intervals, and what explains them."""

import itertools
import warnings
from fractions import Fraction
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import jaxunc as ju
from jaxunc.combiners import combiner_by_name, warn_if_sizes_are_lost
from jaxunc.decisions import CautiousReport, interval_dominance, nondominated
from jaxunc.scorers import FractionsWarning
from tests._forests import forest_of_leaves, positive_counts, random_counts
from tests._golden import golden
from tests._refusal import refusals, refuses

MASSES = ("equal", "leaf_size", "certainty")
EXACT = ("equal", "leaf_size")
GOLDEN = {"equal": "equal", "leaf_size": "leaf_size", "certainty": "interval_uncertainty"}


def mass_of(leaf, s, mass) -> Fraction:
    """In rational arithmetic."""
    size = Fraction(int(leaf.sum()))
    return {"equal": Fraction(1), "leaf_size": size, "certainty": size / (size + Fraction(s))}[mass]


def vote_of(leaves, s, mass):
    """(mass of each class over each other, total) of one instance ``[trees classes]``, in rational arithmetic."""
    n_classes = leaves.shape[1]
    masses = [mass_of(leaf, s, mass) for leaf in leaves]
    preferred = [[Fraction(0)] * n_classes for _ in range(n_classes)]
    for a, b in itertools.permutations(range(n_classes), 2):
        preferred[a][b] = sum(
            (m for m, leaf in zip(masses, leaves, strict=True) if Fraction(int(leaf[a]) - int(leaf[b])) >= Fraction(s)),
            Fraction(0),
        )
    return preferred, sum(masses, Fraction(0))


def decision_of(leaves, s, mass) -> list[bool]:
    """As the slides have it for two classes, pair by pair for more."""
    preferred, total = vote_of(leaves, s, mass)
    n_classes, half = leaves.shape[1], total / 2
    if total == 0:
        return [True] * n_classes
    if n_classes == 2:
        bel, pl = preferred[1][0], total - preferred[0][1]
        return [True, False] if pl < half else [False, True] if bel >= half else [True, True]
    kept = [not any(preferred[a][b] >= half for a in range(n_classes) if a != b) for b in range(n_classes)]
    return kept if any(kept) else [True] * n_classes


@lru_cache
def golden_leaves(section: str) -> list[tuple]:
    """(entries, forest, X, mask) of the entries of each number of classes, their leaves padded to one number."""
    by_classes: dict[int, list] = {}
    for entry in golden("idm")[section]:
        if section == "binary":
            positive = np.array(entry["n_pos"])
            leaves = np.stack([np.array(entry["N"]) - positive, positive], axis=1)
        else:
            leaves = np.array(entry["counts"])
        by_classes.setdefault(leaves.shape[1], []).append((entry, leaves))
    found = []
    for n_classes, pairs in by_classes.items():
        trees = max(len(leaves) for _, leaves in pairs)
        counts, mask = np.full((len(pairs), trees, n_classes), 7), np.zeros((len(pairs), trees), bool)
        for i, (_, leaves) in enumerate(pairs):
            counts[i, : len(leaves)], mask[i, : len(leaves)] = leaves, True
        found.append(([entry for entry, _ in pairs], *forest_of_leaves(counts), mask))
    return found


def answers_of(section: str, make):
    """Every entry with what the rule made for its s answers."""
    for entries, forest, X, mask in golden_leaves(section):
        for s in sorted({entry["s"] for entry in entries}):
            answer = jax.tree.map(np.asarray, ju.bind(forest, make(s))(X, tree_mask=mask))
            for i, entry in enumerate(entries):
                if entry["s"] == s:
                    yield entry, jax.tree.map(lambda part, i=i: part[i], answer)


@pytest.mark.parametrize("mass", MASSES)
@pytest.mark.exhaustive
def test_golden_votes(mass, tolerance):
    for entry, report in answers_of("binary", lambda s: CautiousReport(s, mass)):
        expected, preference = entry[GOLDEN[mass]], report.preference
        total = max(preference.total, 1e-30)
        tolerance.check(preference.mass[1, 0] / total, expected["bel"], scale=1.0)
        tolerance.check(1 - preference.mass[0, 1] / total, expected["pl"], scale=1.0)
        assert np.flatnonzero(report.membership).tolist() == expected["decision"], entry


@pytest.mark.parametrize("section", ["binary", "multiclass"])
@pytest.mark.exhaustive
def test_golden_averages_and_pairs(section, tolerance):
    for entry, report in answers_of(section, CautiousReport):
        lower, upper = report.interval
        dominant = np.flatnonzero(interval_dominance(report.interval)).tolist()
        if section == "binary":
            expected = entry["averaging_baseline"]
            tolerance.check([lower[1], upper[1]], [expected["bel"], expected["pl"]], scale=1.0)
            assert dominant == expected["decision"], entry
            continue
        tolerance.check(lower, entry["averaged_lower"], scale=1.0)
        tolerance.check(upper, entry["averaged_upper"], scale=1.0)
        assert dominant == entry["averaged_interval_dominance"]
        preference = report.preference
        tolerance.check(preference.mass / preference.total, entry["pairwise_belief_equal_mass"], scale=1.0)
        assert np.flatnonzero(report.membership).tolist() == entry["nondominated"]


@pytest.mark.room
def test_belief_plausibility_intervals_and_fractional_counts(rng, tolerance):
    """Leaf sizes of weighted instances, in eighths, are exact in floats."""
    _, belief, plausibility = readings(ju.GeneralizedVote(1.0, "leaf_size"), [[[0, 4], [1, 2], [2, 2], [3, 0]]])
    np.testing.assert_allclose(belief, [0.5], rtol=1e-6)
    np.testing.assert_allclose(plausibility, [11 / 14], rtol=1e-6)
    counts = random_counts(rng, (200, 7), 2, largest=3)
    lower, upper = map(np.asarray, ju.AveragedIntervals(1e-3)(jnp.asarray(counts)))
    assert np.all((lower >= 0) & (lower <= upper) & (upper <= 1))
    np.testing.assert_allclose(lower[:, 0] + upper[:, 1], 1, atol=2e-7)
    tied = ju.AveragedIntervals(1.0)(np.tile(np.array([[0, 1]]), (41, 1)))
    assert np.asarray(tied.lower)[1] == 0.5, "a mean of halves is a half"
    np.testing.assert_array_equal(interval_dominance(tied), [False, True])
    counts = leaves_with_ties(rng, 2)
    for mass in EXACT:
        (excess, belief, _), (of_whole, expected, _) = (
            readings(ju.GeneralizedVote(s, mass), of) for s, of in ((0.25, counts / 8.0), (2.0, counts))
        )
        np.testing.assert_array_equal(np.sign(excess), np.sign(of_whole))
        tolerance.check(belief, expected)


def readings(rule, counts) -> tuple:
    """Excess, belief and plausibility, by one program."""

    @jax.jit
    def read(counts):
        preference = rule(counts)
        return preference.excess, preference.belief, preference.plausibility

    return jax.tree.map(np.asarray, read(np.asarray(counts)))


def leaves_with_ties(rng, n_classes, n=100, trees=6) -> np.ndarray:
    """Small counts, so that halves are hit often."""
    counts = rng.integers(0, 5, size=(n, trees, n_classes)).astype(np.int32)
    counts[rng.random((n, trees)) < 0.2] = 0
    counts[-1] = 0
    # Three sizes of 2 against two of 6: with s = 2, certainties of 3 · 1/2 and 2 · 3/4.
    counts[0] = 0
    counts[0, :3, 1], counts[0, 3:5, 0] = 2, 6
    return counts


@pytest.mark.room(keep=1)
@pytest.mark.once
@pytest.mark.parametrize(("n_classes", "mass"), [*((2, mass) for mass in MASSES), (3, "certainty"), (3, "leaf_size")])
@pytest.mark.exhaustive(keep=3)  # each mass once
def test_votes_and_decisions_are_those_of_rational_arithmetic(mass, n_classes, rng, tolerance):
    counts = leaves_with_ties(rng, n_classes)
    forest, X = forest_of_leaves(counts)
    rule = ju.GeneralizedVote(2.0, mass)
    exact = [vote_of(leaves, 2, mass) for leaves in counts]
    decisions = [decision_of(leaves, 2, mass) for leaves in counts]
    ties = sum(any(2 * m == total > 0 for row in preferred for m in row) for preferred, total in exact)
    assert ties >= (1 if mass == "certainty" else 3), "or the test says little"
    streamed = [ju.bind(forest, rule)(X)] if n_classes == 2 else []
    for preference in (rule(jnp.asarray(counts)), *streamed):
        tolerance.check(preference.mass, [[[float(m) for m in row] for row in p] for p, _ in exact], scale=1.0)
        tolerance.check(preference.total, [float(total) for _, total in exact], scale=1.0)
        excess = np.array([[[float(2 * m - total) for m in row] for row in p] for p, total in exact])
        np.testing.assert_array_equal(np.sign(preference.excess), np.sign(excess))
        np.testing.assert_array_equal(nondominated(preference), decisions)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.exhaustive
def test_half_of_ten_trillion_instances(n_classes):
    """Ten thousand trees with leaves of a billion: a single instance more or less decides."""
    big, trees = 10**9, 10_000
    counts = np.zeros((5, trees, n_classes), np.int32)
    counts[:, : trees // 2, 1] = big
    counts[:, trees // 2 :, 0] = big
    counts[1, 0, 1] += 1
    counts[2, -1, 0] += 1
    counts[3, 0] = 0
    counts[3, 0, :2] = big // 2  # one tree of the first half abstains
    counts[4, -1] = 0
    counts[4, -1, :2] = big // 2
    preference = ju.GeneralizedVote(1.0, "leaf_size")(jnp.asarray(counts))
    signs = np.sign(preference.excess)
    np.testing.assert_array_equal(signs[:, 1, 0], [0, 1, -1, -1, 0])
    np.testing.assert_array_equal(signs[:, 0, 1], [0, -1, 1, 0, -1])
    kept = np.asarray(nondominated(preference))[:, :2]
    first, second, both = [True, False], [False, True], [True, True]
    # More classes reject symmetrically: an exact tie of two rejects both, and the third one.
    expected = [second, second, first, both, second] if n_classes == 2 else [both, second, first, first, second]
    np.testing.assert_array_equal(kept, expected)
    equal = ju.GeneralizedVote(1.0)(jnp.asarray(counts))
    np.testing.assert_array_equal(np.sign(equal.excess)[:, 1, 0], [0, 0, 0, -1, 0])


@pytest.mark.exhaustive
def test_sizes_of_many_classes_of_wide_and_of_unsigned_counts_do_not_overflow():
    rule, counts = ju.GeneralizedVote(1.0, "leaf_size"), np.full((2, 3, 5), 10**9, np.int32)
    counts[0, 0, 4] += 1
    preference = rule(jnp.asarray(counts))
    np.testing.assert_allclose(preference.total, 15e9, rtol=1e-6)
    np.testing.assert_allclose(preference.mass[0, 4, :4], 5e9, rtol=1e-6)
    explanation = ju.ExplainedVote(1.0, "leaf_size")(jnp.asarray(counts))
    np.testing.assert_allclose(explanation.support[0], [0, 0, 0, 0, 1 / 3], rtol=1e-6)
    np.testing.assert_allclose(rule(np.array([[5 * 10**9, 10**9]] * 2)).total, 12e9, rtol=1e-6)
    np.testing.assert_allclose(rule(jnp.array([[3 * 10**9] * 2], jnp.uint32)).total, 6e9, rtol=1e-6)
    assert rule(jnp.array([[1, 2, 4], [0, 0, 255]], jnp.uint8)).total == 262


@pytest.mark.exhaustive
@pytest.mark.once
@pytest.mark.parametrize("mass", ["leaf_size", "certainty"])
def test_all_leaves_empty_and_no_tree(mass):
    """There is no preference; nothing is decided."""
    rules = all_rules(1.0, mass)
    answers = [rules(jnp.zeros((2, 3, 2), jnp.int32))]
    if mass == "leaf_size":
        forest, X = forest_of_leaves(np.array([[[0, 0]] * 3, [[0, 9]] * 3], np.int32))
        answers.append(ju.bind(forest, rules)(X, tree_mask=np.array([[True] * 3, [False] * 3])))
    for answer in answers:
        vote, interval, why = answer["vote"], answer["interval"], answer["why"]
        assert np.all(nondominated(vote))
        for nothing in (vote.belief, interval.lower, why.support):
            np.testing.assert_array_equal(nothing, 0)
        for everything in (vote.plausibility, interval.upper, why.abstaining):
            np.testing.assert_array_equal(everything, 1)
        np.testing.assert_array_equal(why.largest_s, 0 if mass != "certainty" else np.nan)
    np.testing.assert_array_equal(ju.AveragedIntervals(1.0)(jnp.zeros((2, 3))).upper, 1)


def all_rules(s=1.5, mass="leaf_size"):
    """All of them over one routing."""
    return ju.combiners.Together(
        vote=ju.GeneralizedVote(s, mass), why=ju.ExplainedVote(s, mass), interval=ju.AveragedIntervals(s)
    )


def vote_and_interval(s, mass="leaf_size"):
    return ju.combiners.Together(vote=ju.GeneralizedVote(s, mass), interval=ju.AveragedIntervals(s))


def check_close(tolerance, answer, expected):
    assert jax.tree.structure(answer) == jax.tree.structure(expected)
    for (path, a), b in zip(jax.tree_util.tree_leaves_with_path(answer), jax.tree.leaves(expected), strict=True):
        assert a.dtype == b.dtype
        # An excess is a difference of masses of this size.
        tolerance.check(np.nan_to_num(a), np.nan_to_num(b), scale=100.0, what=jax.tree_util.keystr(path))


@pytest.mark.exhaustive
@pytest.mark.parametrize("n_classes", [2, pytest.param(3, marks=pytest.mark.once)])
def test_streaming_masks_blocks_and_transformations(n_classes, rng, tolerance):
    counts = random_counts(rng, (70, 9), n_classes)
    counts[:, 4] = counts[:, 5]
    forest, X = forest_of_leaves(counts)
    rules = all_rules() if n_classes == 2 else vote_and_interval(1.5, "equal")
    bound, whole = ju.bind(forest, rules), rules(jnp.asarray(counts))
    streamed = bound(X)
    check_close(tolerance, streamed, whole)
    check_close(tolerance, bound(X[:3]), jax.tree.map(lambda a: a[:3], streamed))
    if n_classes == 3:
        return
    swept = jax.jit(jax.vmap(lambda c: rules.rules["why"].answer(c)))(jnp.asarray(counts))
    check_close(tolerance, swept, whole["why"])
    mask = np.ones((70, 9), bool)
    mask[:, 6:] = False
    masked, fewer = bound(X, tree_mask=mask), rules(jnp.asarray(counts[:, :6]))
    for name, one in fewer.items():
        if name.startswith("why"):
            assert not np.any(masked[name].abstaining_trees[:, 6:])
            masked[name] = masked[name]._replace(abstaining_trees=masked[name].abstaining_trees[:, :6])
        check_close(tolerance, masked[name], one)


@pytest.mark.exhaustive
@pytest.mark.once
def test_inside_a_program_and_weights(rng, tolerance):
    """The pure fold under `jax.jit`, and a sweep over s by vmap without compiling anew. A tree of weight two is two
    trees; of weight 0 none."""
    counts = random_counts(rng, (30, 5), 2)
    forest, X = forest_of_leaves(counts)

    @jax.jit
    def score(s):
        rule = vote_and_interval(s)
        stat = ju.inference.merge_leaves(
            forest, ju.inference.leaf_table(forest, rule), jnp.asarray(X), merge=rule.merge
        )
        return rule.finish(stat)

    for s in (1.0, 3.0):
        check_close(tolerance, score(s), vote_and_interval(s)(jnp.asarray(counts)))
    swept = jax.vmap(lambda s: ju.GeneralizedVote(s)(jnp.asarray(counts)).mass)(jnp.array([1.0, 3.0]))
    np.testing.assert_array_equal(swept[1], ju.GeneralizedVote(3.0)(jnp.asarray(counts)).mass)
    counts = random_counts(rng, (40, 4), 3)
    weights = np.array([2.0, 0.0, 1.0, 1.0])
    repeated = np.repeat(counts, weights.astype(int), axis=1)
    forest, X = forest_of_leaves(counts)
    rule = vote_and_interval(1.0)
    expected = rule(jnp.asarray(repeated))
    check_close(tolerance, ju.Weighted(rule, weights)(jnp.asarray(counts)), expected)
    check_close(tolerance, ju.bind(forest, ju.Weighted(rule, weights))(X), expected)
    refuses(ValueError, "ExplainedVote merges by", ju.Weighted, ju.ExplainedVote(1.0), weights)


@pytest.mark.exhaustive
@pytest.mark.once
def test_gradients(rng, x64):
    counts = jnp.asarray(positive_counts(rng, (3, 4), 2))
    tight = {"atol": 1e-6, "rtol": 1e-6} if x64 else {"atol": 1e-2, "rtol": 1e-2}
    check_grads(
        lambda c, s: ju.AveragedIntervals(s)(jnp.asarray(c)), (counts, jnp.asarray(1.5)), 1, ["rev"], eps=1e-3, **tight
    )
    slope = jax.grad(lambda s: jnp.sum(jnp.subtract(*ju.AveragedIntervals(s)(counts)[::-1])))(1.5)
    assert slope > 0, "the more instances are imagined, the less is known"
    certainty = jax.grad(lambda s: ju.GeneralizedVote(s, "certainty")(counts).total.sum())(1.5)
    np.testing.assert_allclose(certainty, -np.sum(np.sum(counts, -1) / (np.sum(counts, -1) + 1.5) ** 2), rtol=1e-5)


def largest_s_of(leaves, mass) -> float:
    """By trying every lead, and what lies between them."""
    leads = sorted({abs(int(a) - int(b)) for leaf in leaves for a, b in itertools.combinations(leaf, 2)} - {0})
    steps = sorted({*leads, *(lead - 0.5 for lead in leads)})
    single = [s for s in steps if sum(decision_of(leaves, s, mass)) == 1]
    return max(single, default=0)


@pytest.mark.parametrize(
    ("n_classes", "mass"),
    [(2, "leaf_size"), *(pytest.param(*of, marks=pytest.mark.once) for of in ((2, "equal"), (3, "leaf_size")))],
)
@pytest.mark.exhaustive
def test_the_largest_s(mass, n_classes, rng):
    counts = leaves_with_ties(rng, n_classes)
    forest, X = forest_of_leaves(counts)
    expected = [largest_s_of(leaves, mass) for leaves in counts]
    assert 0 < np.mean(np.array(expected) == 0) < 1
    rule = ju.ExplainedVote(2.0, mass)
    streamed = [ju.bind(forest, rule)(X)] if mass == "equal" else []
    for explanation in (rule(jnp.asarray(counts)), *streamed):
        np.testing.assert_array_equal(explanation.largest_s, expected)
    if n_classes == 2 and mass == "leaf_size":
        fractional = ju.ExplainedVote(2.0, mass)(jnp.asarray(counts / 8.0)).largest_s
        np.testing.assert_array_equal(fractional, np.array(expected) / 8)


@pytest.mark.exhaustive
@pytest.mark.parametrize("mass", EXACT)
def test_the_largest_s_of_ten_thousand_trees(mass):
    """A half of ten trillion instances, to one."""
    counts = np.zeros((3, 10_000, 2), np.int32)
    counts[:, :5000] = [0, 10**9]
    counts[:, 5000:] = [10**9, 0]
    counts[1, 0, 1] -= 1
    counts[2, 0, 1] += 1
    largest = ju.ExplainedVote(1.0, mass)(jnp.asarray(counts)).largest_s
    # Class 1 needs a half: one instance short, class 0 has more than half of the leaf sizes, all trees equally not.
    np.testing.assert_allclose(largest, [1e9, 1e9 - (mass == "equal"), 1e9], rtol=0 if mass == "leaf_size" else 1e-7)


@pytest.mark.exhaustive(keep=1)
@pytest.mark.parametrize("mass", ["certainty", pytest.param("leaf_size", marks=pytest.mark.once)])
def test_support_and_abstention(mass, rng, tolerance):
    counts = leaves_with_ties(rng, 3)
    explanation = jax.tree.map(np.asarray, ju.ExplainedVote(2.0, mass)(jnp.asarray(counts)))
    for i, leaves in enumerate(counts):
        masses = [mass_of(leaf, 2, mass) for leaf in leaves]
        sure = [
            next((c for c in range(3) if all(leaf[c] - leaf[d] >= 2 for d in range(3) if d != c)), None)
            for leaf in leaves
        ]
        total = sum(masses)
        share = lambda c, masses=masses, sure=sure, total=total: (
            float(sum(m for m, own in zip(masses, sure, strict=True) if own == c) / total)
            if total
            else float(c is None)
        )
        tolerance.check(explanation.support[i], [share(c) for c in range(3)], scale=1.0)
        tolerance.check(explanation.abstaining[i], share(None), scale=1.0)
        np.testing.assert_array_equal(explanation.abstaining_trees[i], [c is None for c in sure])
    if mass == "certainty":
        assert np.all(np.isnan(explanation.largest_s))


@pytest.mark.once
def test_names():
    rule = combiner_by_name("generalized_vote", {"s": 2, "mass": "leaf_size"}, prior=[0.5, 0.5])
    assert (type(rule), rule.mass) == (ju.GeneralizedVote, "leaf_size")
    assert isinstance(combiner_by_name("averaged_intervals", {"s": 2}, prior=[0.5, 0.5]), ju.AveragedIntervals)


MAKERS = (ju.GeneralizedVote, ju.AveragedIntervals, ju.ExplainedVote)
ODD_COUNTS = (
    *((np.array([[1.0, -1.0]]), "negative"), (np.array([[np.nan, 1.0]]), "NaN")),
    *((np.ones(2), "tree axis"), (np.ones((3, 1)), "last axis")),
)


def _refused(make):
    """Rows of one of them."""
    call = lambda *settings: lambda: make(*settings)
    of_counts = lambda counts: lambda: make(1)(counts)
    strengths = [(f"s={s}", call(s), "s=.* must be a positive, finite number") for s in (0, -1, np.nan, np.inf)]
    counts = [(f"{words} of counts", of_counts(counts), words) for counts, words in ODD_COUNTS]
    probability = ("probability", lambda: make(1).probability(np.ones((4, 3, 2))), "no probability")
    mass = ("mass", call(1.0, "leafsize"), "'leafsize' is unknown. Did you mean 'leaf_size'.*'equal', .*'certainty'")
    rows = [*strengths, *counts, probability, *([] if make is ju.AveragedIntervals else [mass])]
    return [(f"{make.__name__}, {what}", ask, words) for what, ask, words in rows]


three = lambda: ju.GeneralizedVote(1.0)(np.ones((4, 3)))
test_refusals = pytest.mark.once(
    refusals(
        *(row for make in MAKERS for row in _refused(make)),
        ("belief of three", lambda: three().belief, "those of two classes"),
        ("plausibility of three", lambda: three().plausibility, "those of two classes"),
        (
            "no s",
            lambda: combiner_by_name("generalized_vote", prior=[0.5, 0.5]),
            "combiner 'generalized_vote' needs the option 's'",
        ),
    )
)


@pytest.mark.once
@pytest.mark.exhaustive
def test_frequencies_are_warned_of_where_they_enter(rng):
    counts = np.array([[[0.25, 0.75], [0.5, 0.5]], [[1.0, 0.0], [0.0, 0.0]]])
    forest, _ = forest_of_leaves(counts)
    rule = ju.Weighted(ju.combiners.Together(interval=ju.AveragedIntervals(1.0)), np.ones(2))
    for call in (
        *(lambda make=make: warn_if_sizes_are_lost(make(1.0), jnp.asarray(counts)) for make in MAKERS),
        lambda: warn_if_sizes_are_lost(rule, jnp.asarray(counts)),
        lambda: rule(jnp.asarray(counts)),
        lambda: ju.bind(forest, rule),
    ):
        with pytest.warns(FractionsWarning, match="look like class frequencies"):
            call()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ju.bind(forest, ju.Mean())
        ju.bind(forest.with_counts(forest.counts * 2), rule)
