"""Decisions at costs and sets of the highest utility, in exact fractions; costs by the names of classes."""

from fractions import Fraction
from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import jaxunc as ju
from jaxunc.decisions import cost_matrix, expected_utility_set, least_cost, plain_costs
from tests._refusal import refusals

LABELS = ["no", "yes"]


@pytest.mark.parametrize(("n_classes", "n_decisions"), [(2, 2), (3, 3), (3, 5), (4, 2)])
@pytest.mark.exhaustive(keep=2)
def test_no_decision_costs_less(n_classes, n_decisions, rng):
    """Sixteenths, so that sums are exact and ties are ties."""
    p = rng.multinomial(16, np.ones(n_classes) / n_classes, 60) / 16
    for costs, reject in zip(rng.integers(0, 8, (4, n_classes, n_decisions)) / 4, (0, 0.5, 1, 9), strict=True):
        found, kept = least_cost(p, costs), least_cost(p, costs, reject=reject)
        for row, (one, or_none) in zip(p, zip(found, kept, strict=True), strict=True):
            share = [Fraction(float(x)) for x in row]
            worth = [sum(q * Fraction(float(k)) for q, k in zip(share, column, strict=True)) for column in costs.T]
            best = [d for d in range(n_decisions) if worth[d] == min(worth)]
            if n_classes == n_decisions:
                best = [d for d in best if share[d] == max(share[d] for d in best)]
            assert one == best[0]
            assert or_none == (best[0] if min(worth) <= reject else -1)


def test_rejection_is_chows_rule(rng):
    """1 - t is the least probability to decide with, however both are rounded."""
    p = jnp.array([[0.5, 0.25, 0.25], [0.75, 0.125, 0.125], [0.25, 0.375, 0.375], [0.0, 0.0, 1.0]])
    for cost, expected in ((0.25, [-1, 0, -1, 2]), (0.5, [0, 0, -1, 2]), (0, [-1, -1, -1, 2]), (1, [0, 0, 1, 2])):
        np.testing.assert_array_equal(least_cost(p, reject=cost), expected)
    np.testing.assert_array_equal(least_cost(p, reject=jnp.array([0.5, 0.0, 1.0, 0.0])), [0, -1, 1, 2])
    np.testing.assert_array_equal(least_cost(np.asarray(p), reject=np.array([0.5, 0.0, 1.0, 0.0])), [0, -1, 1, 2])
    percent = np.arange(1, 50) / 100
    sharp = np.stack([1 - percent, percent], axis=1)
    assert np.all(least_cost(sharp, reject=percent) == 0)
    assert np.all(least_cost(sharp - [1e-5, -1e-5], reject=percent) == -1)
    for n in range(2, 60):  # in one shape, compiled once: the other classes have no share
        share = np.where(np.arange(60) < n, 1 / n, 0.0)
        assert least_cost(share, reject=1 - 1 / n) == 0, n
    p, cost = rng.dirichlet(np.ones(3), size=500), 0.3
    loss = lambda decided: np.where(decided < 0, cost, 1 - p.max(axis=1)).mean()
    assert loss(least_cost(p, reject=cost)) <= min(loss(least_cost(p, reject=t)) for t in np.linspace(0, 1, 51)) + 1e-12


def test_ties_and_what_cancels():
    """.1 + .2 and .3 round apart, and are equal. Of equal costs the more probable class decides."""
    p = np.array([[0.1, 0.2, 0.7]])
    costs = np.array([[3.0, 0, 0], [3.0, 0, 0], [0, 9 / 7, 0]])  # .9, .9 and 0; then all the same
    assert least_cost(p, costs) == 2
    assert least_cost(p, np.array([[3.0, 0, 3], [3.0, 0, 3], [0, 9 / 7, 0]])) == 2
    assert least_cost(p[:, [1, 0, 2]], np.array([[3.0, 0, 9], [3.0, 0, 9], [0, 9 / 7, 9]])) == 0
    assert least_cost(np.array([0.5, 0.5])) == 0
    assert least_cost(np.array([-6e-8, 1 + 6e-8])) == 1  # what rounding left below 0
    assert least_cost(np.array([0.9, 0.1]), [[0, 1], [9, 0]]) == 0
    assert least_cost(np.array([0.9, 0.1]), [[0, 1], [9.001, 0]]) == 1


@pytest.mark.room(keep=1)
@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (0,)])
def test_shapes_and_kinds(shape, rng):
    p, costs = rng.dirichlet(np.ones(3), shape), rng.random((3, 3))
    host, device = least_cost(p, costs, reject=0.3), least_cost(jnp.asarray(p), costs, reject=0.3)
    assert isinstance(host, np.ndarray)
    assert isinstance(device, jax.Array)
    assert host.shape == shape
    np.testing.assert_array_equal(host, device)
    traced = jax.jit(lambda p, costs, t: least_cost(p, costs, reject=t))(jnp.asarray(p), jnp.asarray(costs), 0.3)
    np.testing.assert_array_equal(traced, device)
    if len(shape) == 1 and shape[0]:
        np.testing.assert_array_equal(jax.vmap(lambda p: least_cost(p, costs, reject=0.3))(jnp.asarray(p)), device)
    nothing = jax.jit(lambda p: least_cost(p, reject=0.5))(jnp.full((2,), jnp.nan))
    assert nothing == -1


EVEN = np.full((2, 2), 0.5)
test_refusals = refusals(
    ("sum", lambda: least_cost([[0.5, 0.6]]), "rows that do not add to 1"),
    ("negative", lambda: least_cost(np.array([[1.5, -0.5]])), "p holds negative"),
    ("one class", lambda: least_cost(np.ones((3, 1))), "last axis"),
    ("shape", lambda: least_cost(EVEN, np.ones((3, 2))), r"costs has shape \(3, 2\); pass a row for each of the 2 "),
    ("a row", lambda: least_cost(EVEN, [0, 1]), r"costs has shape \(2,\)"),
    ("gain", lambda: least_cost(EVEN, [[0, -1], [1, 0]]), r"costs\[0, 1\] is -1; costs must be finite numbers >= 0"),
    ("no cost", lambda: least_cost(EVEN, [[0, np.nan], [1, 0]]), r"costs\[0, 1\] is nan"),
    ("reject", lambda: least_cost(EVEN, reject=-0.1), "reject=-0.1 must be a finite number >= 0: what a rejection"),
    ("rows", lambda: least_cost(EVEN, reject=[0.1, 0.2, 0.3]), r"reject has shape \(3,\).*one for each row"),
    ("text", lambda: cost_matrix("yes:no,no:yes=1", LABELS), "has 'yes:no'; write TRUTH:DECISION=COST"),
    ("twice", lambda: cost_matrix("yes:no=5,yes:no=1", LABELS), "names yes:no twice"),
    ("text of a gain", lambda: cost_matrix("yes:no=-5", LABELS), "yes:no='-5'; costs must be finite"),
    ("no number", lambda: cost_matrix("yes:no=a", LABELS), "yes:no='a'; costs must be"),
    ("gain of names", lambda: cost_matrix([[0, -1], [1, 0]], LABELS), "costs must be finite numbers >= 0"),
    ("class", lambda: cost_matrix("yse:no=5", LABELS), "the class 'yse', which is none. Did you mean 'yes'"),
    ("decision", lambda: cost_matrix({"yes": {"noo": 5}}, LABELS), "the class 'noo'.*Did you mean 'no'"),
    ("size", lambda: cost_matrix(np.ones((3, 3)), LABELS), r"shape \(3, 3\).*in the order \['no', 'yes'\]"),
    ("a number", lambda: cost_matrix({"yes": 5}, LABELS), "pass the cost of each decision", TypeError),
)


@pytest.mark.once
def test_costs_by_names_mean_the_same_as_text_json_and_files(tmp_path):
    """A missed yes costs 5; what is not named costs 1. A table is read by its names, whatever their order."""
    expected = [[0, 1], [5, 0]]
    table = pd.DataFrame([[0, 5], [1, 0]], index=["yes", "no"], columns=["yes", "no"])
    for costs in ("yes:no=5", " yes : no = 5 , no:yes=1", {"yes": {"no": 5}}, table, np.array(expected)):
        np.testing.assert_array_equal(cost_matrix(costs, LABELS), expected)
    np.testing.assert_array_equal(cost_matrix("1:0=2.5,0:0=.5", [0, 1]), [[0.5, 1], [2.5, 0]])
    assert cost_matrix(None, LABELS) is None
    # Names may hold colons; before the classes are known such a text stays one.
    for text, labels in (("a:b:c=5", ("a:b", "c")), ("a:b : c=5,c:a:b=1", ("a:b", "c")), ("x=1:2=5", ("2", "x=1"))):
        given = plain_costs(text)
        np.testing.assert_array_equal(cost_matrix(given, sorted(labels)), cost_matrix(text, sorted(labels)))
        assert cost_matrix(text, labels).max() == 5
    assert plain_costs("a:b:c=5") == "a:b:c=5"
    assert plain_costs("yes:no=5") == plain_costs('{"yes": {"no": 5}}') == {"yes": {"no": 5.0}}
    costs = pd.DataFrame([[0, 1, 2], [3, 0, 4], [5, 6, 0]], list("xyz"), list("xyz"))
    costs.loc[list("zxy"), list("yzx")].to_csv(tmp_path / "c.csv")
    (tmp_path / "c.json").write_text(costs.T.to_json())
    for costs_of in (tmp_path / "c.csv", str(tmp_path / "c.json"), costs.T.to_json()):
        np.testing.assert_array_equal(cost_matrix(costs_of, list("xyz")), costs)


def of_file(name: str, text: str):
    def read(tmp_path):
        (tmp_path / name).write_text(text)
        return plain_costs(str(tmp_path / name))

    return read


test_costs_refused = refusals(
    ("no costs", lambda: plain_costs("yes"), "costs='yes' is no file and names no costs; expected 'yes:no=5"),
    ("two cuts", lambda: cost_matrix("a:b:c=5", ["a", "b:c", "a:b", "c"]), "'a:b:c', which reads as two pairs"),
    ("json", lambda: plain_costs('{"yes": '), "costs holds no JSON .*; expected 'yes:no=5"),
    ("json of numbers", lambda: plain_costs('{"yes": 5}'), "costs holds JSON that says no costs"),
    ("table, twice", lambda: plain_costs(pd.DataFrame([[0, 1]], ["a"], ["b", "b"])), "costs names a class twice"),
    ("alike", lambda: plain_costs({1: {0: 5}, "1": {0: 7}}), "costs names a class twice"),
    ("alike, decisions", lambda: plain_costs({1: {0: 5, "0": 7}}), "costs names a class twice"),
    ("json, twice", lambda: plain_costs('{"a": {"b": 1}, "a": {"b": 2}}'), "costs names a class twice"),
    ("file of nothing", of_file("c.csv", ""), "c.csv holds no costs: expected a line with the names of decisions"),
    ("file, twice", of_file("c.csv", ",a,b\na,0,1\na,0,1\n"), "c.csv names a class twice"),
    ("file of bytes", of_file("c.json", "["), "c.json holds no JSON"),
    ("file with a gap", of_file("c.csv", ",a,b\na,0,\nb,1,0\n"), "costs has a:b=''; costs must be finite"),
)


def test_costs_beyond_half_a_float():
    """Half floats of probabilities round them, and nothing else."""
    p = np.array([[0, 1], [1, 0], [0.5, 0.5], [0.5, 0.5]], np.float16)
    costs, reject = [[0, 1e5], [1e-9, 0]], np.array([0, 2e5, 1e-8, 1e-10])
    np.testing.assert_array_equal(least_cost(p, costs, reject=reject), [1, 0, 0, -1])
    np.testing.assert_array_equal(least_cost(p, np.full((2, 2), 3e38), reject=2e38), -1)
    assert least_cost(np.array([0.7, 0.3], np.float16), reject=0.3) == 0  # 0.3 is rounded up
    utility = np.array([[0, -1e5], [1, 1], [2, -1e6]])
    np.testing.assert_array_equal(in_a_program(p[:3], utility), [[False, True], [True, True], [False, True]])


def in_a_program(probs, utility, **options) -> np.ndarray:
    """What eager calls, of many programs for each shape, would answer."""
    return np.asarray(jax.jit(lambda probs: expected_utility_set(probs, utility, **options))(probs))


def utility(size: int, kind: int) -> float:
    """Of a set of that size which holds the truth."""
    return {50: 1 / size, 65: 1.6 / size - 0.6 / size**2, 80: 2.2 / size - 1.2 / size**2}[kind]


@pytest.mark.parametrize("kind", [50, 65, 80])
def test_a_matrix_of_the_same_utilities_says_the_same(kind, rng):
    probs = rng.dirichlet(np.ones(4), 50)
    sets = (np.arange(1, 16)[:, None] >> np.arange(4)) & 1 == 1
    matrix = np.where(sets, [[utility(s.sum(), kind)] for s in sets], 0.0)
    np.testing.assert_array_equal(in_a_program(probs, matrix), in_a_program(probs, kind))


@pytest.mark.room(keep=1)
@pytest.mark.parametrize("n_classes", [2, 3, 4])
@pytest.mark.parametrize("signs", ["costs", "gains and costs", "few values"])
def test_no_set_is_better_whatever_the_signs(n_classes, signs, rng):
    """Sixteenths, so that sums are exact and ties are ties; costs have the least probable classes named."""
    low, high = {"costs": (-16, 0), "gains and costs": (-16, 17), "few values": (-1, 2)}[signs]
    probs = rng.multinomial(16, np.ones(n_classes) / n_classes, 50) / 16
    sets = [s for k in range(1, n_classes + 1) for s in combinations(range(n_classes), k)]
    listed = (np.arange(1, 2**n_classes)[:, None] >> np.arange(n_classes)) & 1 == 1
    for _ in range(5):
        gains, matrix = (rng.integers(low, high, shape) / 16 for shape in (n_classes, listed.shape))
        answers = (np.asarray(expected_utility_set(probs, u)) for u in (gains, matrix))
        for p, by_size, of_all in zip(probs, *answers, strict=True):
            share = [Fraction(float(one)) for one in p]
            worth = {s: Fraction(float(gains[len(s) - 1])) * sum(share[c] for c in s) for s in sets}
            best = max(worth.values())
            found = tuple(np.flatnonzero(by_size).tolist())
            assert worth[found] == best, (p, gains)
            assert len(found) == min(len(s) for s in sets if worth[s] == best), (p, gains)
            worths = [sum(q * Fraction(float(u)) for q, u in zip(share, row, strict=True)) for row in matrix]
            np.testing.assert_array_equal(of_all, listed[worths.index(max(worths))])


@pytest.mark.room
def test_ties_and_what_the_metric_measures(rng):
    """.1 + .2 - .3 is nothing, whatever rounding makes of it: of equal sets the first is taken. Half and half: both."""
    probs, sets = np.array([[0.1, 0.2, 0.7]], np.float32), np.eye(3, dtype=bool)
    matrix = np.array([[0, 0, 0], [3e4, 3e4, -9e4 / 7], [-1, -1, -1]])
    np.testing.assert_array_equal(in_a_program(probs, matrix, sets=sets), [[True, False, False]])
    probs = jnp.array([[0.5, 0.5], [0.66, 0.34], [1.0, 0.0]])
    np.testing.assert_array_equal(expected_utility_set(probs), [[True, True], [True, False], [True, False]])
    np.testing.assert_array_equal(expected_utility_set(probs, np.array(50))[0], [True, False])
    assert isinstance(expected_utility_set(probs), jax.Array)
    for kind in (50, 65, 80):
        host = expected_utility_set(np.asarray(probs), kind)
        assert isinstance(host, np.ndarray)
        np.testing.assert_array_equal(host, in_a_program(probs, f"u{kind}"))
    np.testing.assert_array_equal(in_a_program(probs, "u65"), expected_utility_set(probs))
    probs = rng.dirichlet(np.ones(3), 4000)
    y = np.array([rng.choice(3, p=p) for p in probs])
    reached = [float(ju.metrics.discounted_utility(in_a_program(probs, k), y, kind=65)) for k in (50, 65, 80)]
    assert np.argmax(reached) == 1


def choose(utility="u65", probs=(1 / 3, 1 / 3, 1 / 3), **options):
    return lambda: expected_utility_set(np.array([probs]), utility, **options)


test_utilities_refused = refusals(
    ("a number", choose(70), "utility=70 is unknown"),
    ("no number", choose({}), "utility={} is unknown"),
    ("a name", choose("u66"), "utility='u66' is unknown. Did you mean 'u65'"),
    ("sizes", choose(np.ones(2)), "a finite number for each size"),
    ("huge", choose(np.array([1, 1e39, 1])), "a finite number for each size"),
    ("rows", choose(np.ones((3, 3))), "for each of 7 sets"),
    ("huge, of a set", choose(np.full((7, 3), 1e39)), "pass a finite number for each of 7 sets"),
    ("sets of a kind", choose(65, sets=np.eye(3, dtype=bool)), "belong to a matrix"),
    ("an empty set", choose(np.ones((1, 3)), sets=np.zeros((1, 3), bool)), "a class at least"),
    ("negative", choose(probs=(-0.5, 1.5)), "negative"),
)


def test_traced_costs_and_probabilities_of_numpy():
    p, costs = np.array([[0.9, 0.1], [0.4, 0.6]], np.float32), jnp.array([[[0.0, 1], [1, 0]], [[0, 1], [20, 0]]])
    np.testing.assert_array_equal(jax.vmap(lambda table: least_cost(p, table))(costs), [[0, 1], [1, 1]])
