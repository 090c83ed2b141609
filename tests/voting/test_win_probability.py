"""The probability to win a vote: of infinitely many trees given votes, of finitely many given how a tree votes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import betainc, gammainc

from jaxunc.voting import win_probability
from jaxunc.voting._leader_probability import leader_probability
from tests._golden import column, golden
from tests._refusal import refusals

CASES = golden("infinite_ensemble")


@pytest.fixture
def close(x64):
    """Absolute error: 2e-6 in float32 for any votes to 10⁶, as promised."""
    return 1e-10 if x64 else 2e-6


@pytest.mark.exhaustive
def test_reference_values(close):
    rows = CASES["binary_posterior_win"]
    votes = np.stack([column(rows, "t1"), column(rows, "t2")], axis=1)
    for method in ("bound", "exact"):
        found = win_probability(jnp.asarray(votes), method=method)
        np.testing.assert_allclose(found, np.stack([column(rows, "p_win"), column(rows, "p_lose")], 1), atol=close)
    for case in CASES["multiclass"]:
        votes = jnp.asarray(case["t"], float)
        assert abs(float(win_probability(votes)[case["i"]]) - case["lower_bound"]) <= close
        exact = win_probability(votes, method="exact")
        assert abs(float(exact[case["i"]]) - case["exact"]) <= close
        assert abs(float(exact.sum()) - 1) <= 2 * close


@pytest.mark.exhaustive
@pytest.mark.parametrize("prior", [1.0, 0.05, (0.3, 4.0)])
def test_any_votes_to_a_million(prior, rng, close):
    n = 10 ** rng.uniform(0, 6.3, 20_000)
    ones = np.rint(np.clip(n / 2 + rng.normal(size=20_000) * np.sqrt(n), 0, np.minimum(n, 1e6)))
    votes = np.stack([np.rint(np.clip(n - ones, 0, 1e6)), ones], axis=1)
    found = win_probability(jnp.asarray(votes), prior=prior)
    a, b = np.broadcast_to(prior, 2)
    np.testing.assert_allclose(found[:, 1], betainc(votes[:, 0] + a, votes[:, 1] + b, 0.5), atol=close)


@pytest.mark.exhaustive
def test_exact_probabilities_of_many_votes(rng, close):
    totals = (10 ** rng.uniform(0, 6, 100)).astype(int)
    votes = np.array([rng.multinomial(n, p) for n, p in zip(totals, rng.dirichlet([30, 30, 20, 5], 100), strict=True)])
    found = np.asarray(win_probability(jnp.asarray(votes), method="exact"))
    expected = leader_probability(votes, votes.sum(axis=1), 0, "exact", "infinite", np.ones(4))
    np.testing.assert_allclose(found[np.arange(100), votes.argmax(axis=1)], expected, atol=close)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=4 * close)


def test_the_exact_probability_is_the_integral():
    votes = np.array([[3, 9, 1], [0, 0, 0], [40, 38, 7]])
    g = np.linspace(0, 200, 400_001)
    for row in votes:
        own = int(row.argmax())
        below = np.prod([gammainc(row[j] + 1, g) for j in range(3) if j != own], axis=0)
        cdf = gammainc(row[own] + 1, g)
        expected = np.sum(np.diff(cdf) * (below[1:] + below[:-1]) / 2)
        found = leader_probability(row[None], row.sum(keepdims=True), 0, "exact", "infinite", np.ones(3))
        np.testing.assert_allclose(found, expected, atol=1e-7)


@pytest.mark.parametrize(
    ("votes", "prior", "expected"),
    [
        ([60, 5, 0], [0.5, 0.47, 0.001], betainc(5.47, 60.5, 0.5)),
        ([60, 0, 0], 1e-6, 1.0),
        ([0, 0, 0], 0.01, 1 / 3),
        ([0, 0, 0], 1e-9, 1 / 3),
        ([0, 0, 0], [0.2, 0.1, 1e-12], betainc(0.1, 0.2, 0.5)),
    ],
)
def test_priors_near_zero(votes, prior, expected, close):
    """The integrand then is far from 0 down to exp(-1 / prior)."""
    votes = np.array([votes])
    found = win_probability(votes, method="exact", prior=prior)
    np.testing.assert_allclose(found[0, 0], expected, atol=close)
    np.testing.assert_allclose(np.sum(found), 1, atol=3 * close)
    on_host = leader_probability(votes, votes.sum(axis=1), 0, "exact", "infinite", np.broadcast_to(prior, 3))
    np.testing.assert_allclose(on_host, expected, rtol=0, atol=1e-10)


@pytest.mark.exhaustive
def test_the_bound_is_below_and_ties_are_even(rng):
    votes = rng.integers(0, 30, size=(200, 5))
    low, exact = (np.asarray(win_probability(jnp.asarray(votes), method=m)) for m in ("bound", "exact"))
    assert np.all(low <= exact + 2e-6)
    assert np.all(exact - low < 0.2)
    assert float(win_probability(jnp.array([700, 700]))[0]) == 0.5
    np.testing.assert_allclose(win_probability(jnp.zeros(4), method="exact"), 0.25, atol=2e-6)
    np.testing.assert_allclose(win_probability(jnp.zeros(4)), 0.125, atol=1e-6)


@pytest.mark.once
@pytest.mark.exhaustive
def test_traced_and_mapped():
    votes = jnp.array([[3, 4, 1], [0, 9, 2]])
    for method in ("bound", "exact"):
        eager = win_probability(votes, method=method)
        np.testing.assert_array_equal(jax.jit(lambda v, m=method: win_probability(v, method=m))(votes), eager)
        np.testing.assert_allclose(jax.vmap(lambda v, m=method: win_probability(v, method=m))(votes), eager, atol=1e-6)


def test_a_traced_prior():
    """One number stands for that number of each class, in its slope, too."""
    win = lambda prior: win_probability(np.array([3.0, 1], np.float32), prior=prior)
    same, slope = jax.jit(jax.value_and_grad(lambda prior: win(prior)[0]))(jnp.float32(2))
    np.testing.assert_allclose(same, win(2.0)[0], rtol=1e-6)
    if not jax.config.jax_enable_x64:  # whose incomplete beta function has no slope in its shapes
        np.testing.assert_allclose(slope, (win(2.05)[0] - win(1.95)[0]) / 0.1, rtol=1e-2)


TWO = np.array([1, 2])
test_refusals = refusals(
    ("one class", lambda: win_probability(np.array([1.0])), "two or more"),
    ("negative", lambda: win_probability(np.array([1.0, -1.0])), "vote_counts holds negative"),
    ("method", lambda: win_probability(TWO, method="exct"), "Did you mean 'exact'"),
    ("prior of nothing", lambda: win_probability(TWO, prior=0.0), "positive"),
    ("traced prior of three", lambda: jax.eval_shape(lambda a: win_probability(TWO, prior=a), np.ones(3)), "2 classes"),
    ("prior of three", lambda: win_probability(TWO, prior=np.ones(3)), "each of the 2 classes"),
)


@pytest.mark.parametrize("method", ["bound", "exact"])
def test_votes_in_half_precision(method):
    votes = np.array([[3.0, 1], [0, 7]])
    found, expected = (
        win_probability(jnp.asarray(votes, dtype), method=method) for dtype in (jnp.float16, jnp.float32)
    )
    np.testing.assert_array_equal(found, expected)
