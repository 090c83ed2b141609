"""Fits of a prior: reference values, the R original, edges, transformations, refusals."""

import json
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from jaxunc import smoothing
from jaxunc.smoothing import BetaPrior, PriorStatus, fit_beta_prior, fit_dirichlet_prior
from tests._golden import golden
from tests._refusal import refusals
from tests.smoothing import _reference as reference

DIFFERENT = ("weighted_mle", "moments", "marginal")
"""One of each form; the others are the same with other weights."""
METHODS = ("weighted_mle", "on_leaves", "moments", "on_leaves_moments", "marginal")
IN_FILE = ("weighted_mle", "on_leaves_mle", "weighted_moments", "on_leaves_moments", "beta_binomial_marginal")
GOLDEN_NAMES = dict(zip(METHODS, IN_FILE, strict=True))
N_LEAVES, N_TREES = 8, 8
"""Shape of all fits under a trace, padded, so that they share a program for each method."""

traced_dirichlet = jax.jit(fit_dirichlet_prior, static_argnames=("method", "clip"))


@partial(jax.jit, static_argnames="method")
def _traced(counts, method):
    def fit(counts):
        prior = fit_beta_prior(counts, method)
        loss = jnp.sum(smoothing.smooth(counts, prior)[..., 1] ** 2, axis=-1)
        return (prior.alpha, prior.beta, loss), prior.status

    (alpha, beta, _), pull, status = jax.vjp(fit, counts, has_aux=True)
    slopes = jax.vmap(lambda row: pull(tuple(jnp.full(N_TREES, x) for x in row))[0])(jnp.eye(3))
    return BetaPrior(alpha, beta, status), slopes


def traced(trees, method: str) -> tuple[list[BetaPrior], np.ndarray]:
    """Each tree's prior, and the slopes ``[3 trees leaves 2]`` of α, of β and of a loss along its counts."""
    counts = np.tile([[1.0, 2.0], [4.0, 1.0], *[[0.0, 0.0]] * (N_LEAVES - 2)], (N_TREES, 1, 1))
    for place, tree in enumerate(trees):
        counts[place] = padded(tree)
    prior, slopes = _traced(jnp.asarray(counts), method)
    return [BetaPrior(*(part[t] for part in prior)) for t in range(len(trees))], np.asarray(slopes[:, : len(trees)])


def leaves(entry) -> np.ndarray:
    """Counts ``[leaves 2]`` of a reference table."""
    n1, n = np.array(entry["n1"]), np.array(entry["n"])
    return np.stack([n - n1, n1], axis=-1).astype(float)


def padded(counts) -> jax.Array:
    """With leaves without instances, which must not count."""
    counts = np.asarray(counts, float)
    return jnp.asarray(np.pad(counts, ((0, N_LEAVES - len(counts)), (0, 0))))


@pytest.mark.parametrize(
    ("method", "is_traced"), [*((method, False) for method in METHODS), *((method, True) for method in DIFFERENT)]
)
@pytest.mark.exhaustive
def test_reference_values(method, is_traced, x64):
    rtol = 1e-10 if x64 else 1e-4 if is_traced else 2e-7
    tables = [leaves(entry) for entry in golden("empirical_bayes")]
    priors = traced(tables, method)[0] if is_traced else [fit_beta_prior(counts, method) for counts in tables]
    for entry, counts, prior in zip(golden("empirical_bayes"), tables, priors, strict=True):
        expected = entry[GOLDEN_NAMES[method]]
        if expected is None:
            all_pure = np.all(counts.min(axis=1) == 0)
            degenerate = PriorStatus.PURE if all_pure else PriorStatus.CONCENTRATED
            assert int(prior.status) == degenerate, entry
            np.testing.assert_allclose(smoothing.smooth(counts, prior)[:, 1], counts[:, 1] / counts.sum(1), rtol=1e-6)
            continue
        assert int(prior.status) == PriorStatus.FITTED
        found = np.array([prior.alpha, prior.beta], float)
        np.testing.assert_allclose(found, [expected["alpha"], expected["beta"]], rtol=rtol, err_msg=str(entry["n"]))


@pytest.mark.parametrize(("number", "fit"), [(0, fit_dirichlet_prior), (1, fit_dirichlet_prior), (0, traced_dirichlet)])
@pytest.mark.exhaustive
def test_reference_values_of_more_classes(number, fit, x64):
    entry = golden("empirical_bayes_dirichlet")[number]
    counts = padded(entry["counts"])
    rtol = 1e-10 if x64 else 2e-6
    np.testing.assert_allclose(fit(counts, method="marginal").alpha, entry["dirichlet_multinomial_mle"], rtol=rtol)
    if fit is traced_dirichlet:
        return  # The other likelihood is the same program for any number of classes.
    prior = fit(counts, method="weighted_mle")
    np.testing.assert_allclose(prior.alpha, entry["weighted_dirichlet_mle"], rtol=rtol)
    np.testing.assert_allclose(smoothing.smooth(counts, prior)[: len(entry["counts"])], entry["smoothed"], rtol=rtol)


@pytest.mark.once
@pytest.mark.parametrize("method", ["weighted_mle", "on_leaves"])
def test_the_r_original(method):
    """Its tightly converged fits within 1e-5, and its corrected leaves within 2e-5, in float32 too."""
    longest = max(len(tree["n0"]) for tree in golden("r_fits"))
    for tree in golden("r_fits"):
        fit, n_leaves = tree[{"weighted_mle": "global", "on_leaves": "onLeaves"}[method]], len(tree["n0"])
        counts = np.zeros((longest, 2), int)  # leaves without instances do not count, and one shape serves all
        counts[:n_leaves] = np.stack([tree["n0"], tree["n1"]], axis=-1)
        prior = fit_beta_prior(counts, method)
        expected = [fit["alpha_tight"], fit["beta_tight"]]
        np.testing.assert_allclose([prior.alpha, prior.beta], expected, rtol=1e-5, err_msg=tree["dataset"])
        smoothed = np.asarray(smoothing.smooth(counts, prior))[:n_leaves]
        np.testing.assert_allclose(smoothed[:, 1], fit["corrected_p1"], atol=2e-5)


@pytest.mark.once
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_search_that_knows_nothing_finds_no_better(n_classes, rng):
    counts = rng.integers(0, 9, size=(7, n_classes)) * rng.integers(0, 5, size=(7, n_classes))
    counts[2], counts[0] = 0, 3
    for method in METHODS:
        found = np.asarray(fit_dirichlet_prior(counts, method).alpha, float)
        by_size = not method.startswith("on_leaves")
        if method.endswith("moments"):
            np.testing.assert_allclose(found, reference.moments(counts, by_size=by_size), rtol=1e-5)
            continue
        objective = partial(reference.marginal, counts=counts)
        if method != "marginal":
            objective = partial(reference.likelihood, counts=counts, by_size=by_size, clip=1e-3)
        np.testing.assert_allclose(found, reference.best(objective, n_classes), rtol=2e-4, err_msg=method)


OUTWEIGHED = [[1_550_000, 450_000], [43, 77], [0, 6]]
"""The large leaf makes the likelihood rise towards α + β = ∞, but 45 nats below what α = 1.23, β = .78 have."""
OF_MORE_CLASSES = [[52920, 340733, 514778, 126787], [3, 27, 55, 22], [87, 4, 403, 212]]


@pytest.mark.exhaustive
def test_the_better_of_two_maxima(x64):
    """By a search that knows nothing, on the host and under a trace; and slopes are those of the maximum found."""
    exact = reference.best(partial(reference.marginal, counts=OUTWEIGHED), 2)
    np.testing.assert_allclose(exact, [0.78168, 1.22871], rtol=1e-4)
    (compiled,), slopes = traced([OUTWEIGHED], "marginal")
    for prior in (fit_beta_prior(np.array(OUTWEIGHED), "marginal"), compiled):
        assert int(prior.status) == PriorStatus.FITTED
        np.testing.assert_allclose([prior.beta, prior.alpha], exact, rtol=2e-4)
    if x64:
        step = np.array([[0, 0], [1e-3, 0], [0, 0]])
        ends = [fit_beta_prior(np.array(OUTWEIGHED) + sign * step, "marginal") for sign in (1, -1)]
        expected = [(a - b) / 2e-3 for a, b in zip(ends[0][:2], ends[1][:2], strict=True)]
        np.testing.assert_allclose(slopes[:2, 0, 1, 0], expected, rtol=1e-5)
    assert np.all(np.isfinite(slopes))


@pytest.mark.exhaustive
@pytest.mark.parametrize("fit", [fit_dirichlet_prior, traced_dirichlet])
def test_the_better_of_two_maxima_of_more_classes(fit):
    prior = fit(jnp.asarray(OF_MORE_CLASSES, float), method="marginal")
    assert int(prior.status) == PriorStatus.FITTED
    mean = np.sum(OF_MORE_CLASSES, axis=0) / np.sum(OF_MORE_CLASSES)
    at_infinity = np.sum(OF_MORE_CLASSES * np.log(mean))
    found = reference.marginal(np.asarray(prior.alpha, float), OF_MORE_CLASSES)
    assert found - at_infinity == pytest.approx(278.9, abs=0.2)


@pytest.mark.exhaustive
@pytest.mark.once
def test_no_start_finds_a_better_marginal_fit():
    """Against searches from many starts: hugely different leaves, leaves that differ by chance and less."""
    rng = np.random.default_rng(3)
    several = 0
    for trial in range(40):
        n_classes, n_leaves = rng.integers(2, 4), rng.integers(2, 7)
        size = np.exp(rng.uniform(0, rng.choice([3, 8, 14]), n_leaves)).astype(int) + 1
        p = np.repeat(rng.dirichlet(np.ones(n_classes))[None], n_leaves, axis=0)
        p[: trial % 4] = rng.dirichlet(np.ones(n_classes), len(p[: trial % 4]))
        counts = np.array([rng.multinomial(n, row) for n, row in zip(size, p, strict=True)])
        counts[-1] = counts[-1] + 1
        best, n_values = reference.best_of_many_marginals(counts)
        several += n_values > 1
        prior = fit_dirichlet_prior(counts, "marginal")
        assert int(prior.status) in (PriorStatus.FITTED, PriorStatus.CONCENTRATED)
        is_finite = int(prior.status) == PriorStatus.FITTED
        gain = reference.marginal_gain(np.asarray(prior.alpha, float), counts) if is_finite else 0.0
        assert gain > best - 0.02, counts.tolist()
    assert several > 5


@pytest.mark.exhaustive
def test_large_weights_keep_their_digits_and_huge_counts(x64):
    """α + β of 14 000 and more from counts that float32 sees, where a plain fit loses three digits; counts of 10⁹."""
    rng = np.random.default_rng(0)
    n = rng.integers(2_000, 60_000, N_LEAVES)
    n1 = np.rint(n * (0.3 + 0.003 * rng.normal(size=N_LEAVES))).astype(int)
    counts = np.stack([n - n1, n1], axis=-1)
    exact = reference.best(partial(reference.likelihood, counts=counts, by_size=True, clip=1e-3), 2)
    prior, ((compiled,), _) = fit_beta_prior(counts), traced([counts], "weighted_mle")
    assert 10_000 < float(prior.alpha + prior.beta) < 100_000
    np.testing.assert_allclose([prior.beta, prior.alpha], exact, rtol=1e-4)
    np.testing.assert_allclose(compiled.alpha, prior.alpha, rtol=1e-9 if x64 else 5e-5)
    trees = np.array([[[10**9, 3 * 10**8], [7 * 10**8, 10**9], [5, 2]], [[10**9, 1], [10**9, 10**9], [3, 9]]])
    for method in DIFFERENT:
        compiled, slopes = traced(trees, method)
        assert np.all(np.isfinite(slopes)), method
        for counts, prior in zip(trees, compiled, strict=True):
            expected = fit_beta_prior(counts, method)
            assert int(prior.status) == int(expected.status) == PriorStatus.FITTED
            np.testing.assert_allclose(prior[:2], expected[:2], rtol=1e-4, err_msg=method)


def test_moments_beside_a_leaf_that_outweighs_all():
    """Of shares near 0 and 1, and of a variance that one leaf's rounding would hide; their slopes by differences."""
    few, big = [[3, 2], [1, 4], [2, 2]], 10**7
    trees = [[leaf, *few] for leaf in ([10**9, 0], [10**9, 1], [4 * 10**8, 6 * 10**8])]
    trees += [[[big, 0], [0, big], [1, big], [0, 50]], [[10**6, n] for n in (1, 5, 2, 9)]]
    priors, slopes = traced(trees, "moments")
    move = np.random.default_rng(0).normal(size=(5, 4, 2)) * trees
    for prior, slope, counts, moved in zip(priors, slopes[0], np.array(trees, float), 1e-4 * move, strict=True):
        expected = reference.moments(counts, by_size=True)
        np.testing.assert_allclose([prior.beta, prior.alpha], expected, rtol=2e-6)
        ends = [reference.moments(counts + end, by_size=True)[1] for end in (-moved, moved)]
        np.testing.assert_allclose(
            np.sum(slope[:4] * moved), (ends[1] - ends[0]) / 2, rtol=1e-3, atol=1e-8 * expected[1]
        )


SAME = ([[3, 1]], [[3, 1], [6, 2]], [[0, 5], [0, 2]])
PURE = [[0, 5], [4, 0], [1, 0]]
BY_CHANCE = [[50, 51], [51, 50]]
EMPTY = [[0, 0]]


@pytest.mark.parametrize("is_traced", [False, True])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.exhaustive(keep=1)
def test_degenerate_fits(method, is_traced):
    """Their priors, and under a trace that no gradient is infinite or NaN."""
    if is_traced and method not in DIFFERENT:
        return
    cases = [*SAME, PURE, BY_CHANCE]
    if is_traced:
        (*priors, empty), slopes = traced([*cases, EMPTY], method)
        assert np.all(np.isfinite(slopes))
        assert (int(empty.status), float(empty.alpha), float(empty.beta)) == (PriorStatus.EMPTY, 0, 0)
    else:
        priors = [fit_beta_prior(padded(counts), method) for counts in cases]
    smoothed = [np.asarray(smoothing.smooth(padded(c), p))[: len(c)] for c, p in zip(cases, priors, strict=True)]
    statuses = [PriorStatus(int(prior.status)).name for prior in priors]
    for place, counts in enumerate(SAME):
        assert statuses[place] == "CONCENTRATED", counts
        raw = np.array(counts) / np.sum(counts, axis=1, keepdims=True)
        np.testing.assert_allclose(smoothed[place], raw, rtol=1e-6)
        assert float(priors[place].alpha + priors[place].beta) == pytest.approx(2.0**100)
    assert statuses[3] == ("FITTED" if method in ("weighted_mle", "on_leaves") else "PURE")
    if statuses[3] == "PURE":
        np.testing.assert_array_equal(smoothed[3], [[0, 1], [1, 0], [1, 0]])
    if method == "marginal":  # Less apart than chance makes them: all are given the mean.
        assert statuses[4] == "CONCENTRATED"
        np.testing.assert_allclose(smoothed[4], 0.5, rtol=1e-6)


@pytest.mark.exhaustive
@pytest.mark.parametrize("fit", [fit_dirichlet_prior, traced_dirichlet])
def test_a_class_that_no_leaf_has_seen(fit):
    counts = padded([[3, 0, 1], [2, 0, 5]])
    for method in ("marginal",) if fit is traced_dirichlet else METHODS:
        prior = fit(counts, method=method)
        assert int(prior.status) in (PriorStatus.FITTED, PriorStatus.CONCENTRATED)
        smoothed = np.asarray(smoothing.smooth(counts, prior))
        assert np.all(np.isfinite(smoothed))
        assert (smoothed[0, 1] > 0) == (method in ("weighted_mle", "on_leaves"))


count_tables = hnp.arrays(np.int64, (6, 2), elements=st.one_of(st.integers(0, 4), st.integers(0, 10**6)))


@pytest.mark.once
@given(count_tables, st.sampled_from(METHODS))
@pytest.mark.exhaustive
def test_any_counts(counts, method):
    """Finite, between the leaf and the prior's mean, and the classes are treated alike."""
    counts[0, 0] += 1
    prior = fit_beta_prior(counts, method)
    assert int(prior.status) not in (PriorStatus.EMPTY, PriorStatus.NOT_CONVERGED)
    smoothed = np.asarray(smoothing.smooth(counts, prior), float)
    assert np.all((smoothed >= 0) & (smoothed <= 1))
    size = counts.sum(axis=1)
    raw = (counts[:, 1] / np.maximum(size, 1))[size > 0]
    total = float(prior.alpha) + float(prior.beta)
    mean = float(prior.alpha) / total if total else 0.5
    eps = 1e-5
    between = np.minimum(raw, mean) - eps, np.maximum(raw, mean) + eps
    if total:
        assert np.all((smoothed[size > 0, 1] >= between[0]) & (smoothed[size > 0, 1] <= between[1]))
    mirrored = fit_beta_prior(counts[:, ::-1], method)
    np.testing.assert_allclose(mirrored.alpha, prior.beta, rtol=1e-6)


@pytest.mark.parametrize("method", DIFFERENT)
@pytest.mark.exhaustive
def test_trees_at_once(method, x64):
    """Leading axes, under a trace too, and one by one agree; padding does not count."""
    trees = np.random.default_rng(1).integers(0, 12, size=(4, N_LEAVES, 2))
    trees[0, 3:] = 0
    trees[1] = [[4, 1]] * N_LEAVES
    trees[2, :, 0] = 0
    together = fit_beta_prior(trees, method)
    compiled = traced(trees, method)[0]
    if method == "weighted_mle":
        mapped = jax.jit(jax.vmap(fit_beta_prior))(jnp.asarray(trees, float))
        np.testing.assert_allclose(mapped.alpha, together.alpha, rtol=1e-9 if x64 else 5e-5)
    for t, (tree, prior) in enumerate(zip(trees, compiled, strict=True)):
        assert int(prior.status) == int(together.status[t])
        np.testing.assert_allclose(prior.alpha, together.alpha[t], rtol=1e-9 if x64 else 5e-5)
        alone = fit_beta_prior(tree[tree.sum(1) > 0], method)
        np.testing.assert_allclose(alone.alpha, together.alpha[t], rtol=1e-6)


def test_status_and_names_are_plain_and_there_may_be_no_trees():
    for method in METHODS:
        assert fit_beta_prior(np.ones((0, 3, 2)), method).alpha.shape == (0,)
    prior = fit_beta_prior(np.array([[3, 2], [20, 20]]))
    assert json.loads(json.dumps(PriorStatus.FITTED)) == int(prior.status) == 0
    assert prior.alpha.dtype == jnp.result_type(float)
    assert jax.tree.structure(prior).num_leaves == 3


@pytest.mark.room(keep=1)
@pytest.mark.parametrize("method", DIFFERENT)
def test_gradients(method, x64):
    """By the implicit function theorem: against differences, in float64 of the search itself."""
    counts = np.array([[3.0, 2.0], [20.0, 22.0], [31.0, 20.0], [1.0, 4.0], [0.0, 0.0], [3.5, 0.5], [0, 0], [2, 9]])
    direction = np.random.default_rng(0).normal(size=counts.shape) * (counts > 0)
    slopes = traced([counts], method)[1][:, 0]
    assert np.all(np.isfinite(slopes))
    if x64:
        step = 1e-5
        ends = [fit_beta_prior(counts + sign * step * direction, method) for sign in (1, -1)]
        expected = [(a - b) / (2 * step) for a, b in zip(ends[0][:2], ends[1][:2], strict=True)]
        np.testing.assert_allclose((slopes[:2] * direction).sum(axis=(1, 2)), expected, rtol=1e-6)


GOOD = np.array([[3.0, 2.0], [1.0, 1.0]])
test_refusals = refusals(
    ("empty leaves", lambda: fit_beta_prior(np.zeros((3, 2))), "no leaf with instances"),
    ("two empty trees", lambda: fit_beta_prior(np.stack([GOOD, 0 * GOOD, 0 * GOOD])), "2 trees have no leaf"),
    ("negative", lambda: fit_beta_prior(-GOOD), "negative"),
    ("three", lambda: fit_beta_prior(np.ones((4, 3))), r"two classes, but counts have shape .*fit_dirichlet_prior"),
    ("one axis", lambda: fit_dirichlet_prior(np.ones(3)), r"\[... leaves classes\]"),
    ("method", lambda: fit_beta_prior(GOOD, "margnal"), "method='margnal' is unknown. Did you mean 'marginal'"),
    *((f"clip {clip}", partial(fit_beta_prior, GOOD, clip=clip), "clip=") for clip in (0.0, 0.5, -1.0, float("nan"))),
)


def test_counts_in_half_precision():
    counts = np.random.default_rng(0).integers(0, 9, (20, 2))
    found, expected = (fit_beta_prior(jnp.asarray(counts, dtype)) for dtype in (jnp.float16, jnp.float32))
    np.testing.assert_array_equal(found.alpha, expected.alpha)
