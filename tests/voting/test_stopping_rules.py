"""Tables of the votes that settle."""

from fractions import Fraction
from functools import partial
from itertools import pairwise
from math import comb

import numpy as np
import pytest
from scipy.special import betainc
from scipy.special import comb as choose

from jaxunc.voting import critical_final_votes, critical_votes
from jaxunc.voting._stopping_rules import make_rule
from tests._golden import golden
from tests._refusal import refusals

pytestmark = pytest.mark.once


def test_reference_tables():
    for confidence, table in golden("infinite_ensemble")["t_star"].items():
        expected = [-1] + [-1 if table[str(t)] is None else table[str(t)] for t in range(1, 102)]
        np.testing.assert_array_equal(critical_votes(101, float(confidence)), expected)


@pytest.mark.parametrize("confidence", [0.51, 0.75, 0.875, 0.9, 0.99, 0.9999999])
def test_the_definition_in_fractions(confidence):
    found = critical_votes(60, confidence)
    for t in range(1, 61):
        wins = lambda own, t=t: Fraction(sum(comb(t + 1, k) for k in range(own + 1)), 2 ** (t + 1))
        able = [own for own in range(-(-t // 2), t + 1) if wins(own) > Fraction(confidence)]
        assert found[t] == (able[0] if able else -1)


def test_large_tables_grow_by_steps():
    table = critical_votes(20_000, 0.99)[6:]
    assert all(b - a in (0, 1) for a, b in pairwise(table))
    t = 20_000
    assert betainc(t - table[-1] + 1, table[-1] + 1, 0.5) > 0.99 >= betainc(t - table[-1] + 2, table[-1], 0.5)


def test_priors():
    both = critical_votes(40, 0.95, prior=(0.5, 3.0))
    assert both.shape == (2, 41)
    for c in (0, 1):
        own, other = (0.5, 3.0) if c == 0 else (3.0, 0.5)
        for t in range(1, 41):
            able = [k for k in range(t // 2 + 1, t + 1) if betainc(t - k + other, k + own, 0.5) > 0.95]
            assert both[c, t] == (able[0] if able else -1)
    np.testing.assert_array_equal(critical_votes(40, 0.95, prior=np.ones(2))[0], critical_votes(40, 0.95))


@pytest.mark.parametrize(("n_trees", "confidence"), [(13, 0.9), (8, 0.9), (8, 0.6)])
def test_finite_populations(n_trees, confidence):
    tables = critical_final_votes(n_trees, confidence)
    for t in range(1, n_trees + 1):
        rest = n_trees - t
        for c in (0, 1):
            for own in range((t + 1 + c) // 2, t + 1):  # class 0 leads in a tie
                later = np.arange(rest + 1)
                ways = choose(own + later, later) * choose(t - own + rest - later, rest - later)
                total = own + later
                stays = 2 * total >= n_trees if c == 0 else 2 * total > n_trees
                settled = ways[stays].sum() / ways.sum() > confidence
                assert settled == (0 <= tables[c, t] <= own)
    assert tables[:, n_trees].tolist() == [(n_trees + 1) // 2, n_trees // 2 + 1]


def test_a_confidence_next_to_1_settles():
    rule = make_rule(3, 200, 1 - 2**-52, "bound", "infinite", 1.0)
    # Against n votes each of two rivals without one wins with 2⁻ⁿ⁻¹: of 52 that is 2⁻⁵², which rounding leaves open.
    assert int(rule.first) == 53


test_refusals = refusals(
    ("many classes", lambda: make_rule(32_768, 9, 0.9, "bound", "infinite", 1.0), "32767 classes at most"),
    *((f"confidence {c}", partial(critical_votes, 10, c), r"must lie in \(0.5, 1\)") for c in (0.5, 1.0, 0.0)),
    ("no tree", lambda: critical_votes(0, 0.9), "max_trees=0 must be at least 1"),
)
