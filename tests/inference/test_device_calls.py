"""Calls of an accelerator, in its form on a CPU: one program for a batch, which says what is wrong with the data."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import jaxunc as ju
from jaxunc.inference import _bind, _device_calls, _walk
from jaxunc.inference._device_calls import device_parts, padded_size
from tests._compilations import compilations
from tests._exhaustive import a_few_of
from tests._profiles import Calls, agree_at_once, profiled
from tests._refusal import refusals, refuses

N_COLUMNS = 5
X = np.random.default_rng(0).normal(size=(3000, N_COLUMNS)).astype(np.float32)
MISSING = np.where(np.random.default_rng(1).random(X.shape) < 0.1, np.nan, X).astype(np.float32)


@pytest.fixture(scope="module")
def forest() -> ju.Forest:
    y = np.digitize(X[:300, 0] + X[:300, 1], [-0.5, 0.5])
    return ju.from_sklearn(RandomForestClassifier(7, max_depth=3, random_state=0).fit(X[:300], y))


@pytest.fixture(scope="module")
def bound(forest) -> ju.inference.BoundForest:
    return ju.bind(forest, ju.Mean(), walk="levels")


@pytest.mark.once
@pytest.mark.parametrize("n", [1, 1000, pytest.param(10**6, marks=pytest.mark.exhaustive)])
def test_a_call_is_one_program(forest, bound, n):
    """What is fetched of rows on the device is the mark alone; answers for the host's are trimmed there."""
    given, vote = np.resize(X, (n, N_COLUMNS)), ju.voting.bind_vote(forest, walk="levels")
    for there, of_bound, of_vote in ((given, (2, 2), (1, 5)), (jax.device_put(given), (0, 1), (0, 5))):
        assert profiled(lambda there=there: bound.probability(there)) == Calls(1, *of_bound)
        assert profiled(lambda there=there: vote(there)) == Calls(1, *of_vote)


@pytest.mark.once
def test_moments_of_numbers_are_one_program(monkeypatch):
    monkeypatch.setattr(_bind, "default_walk", lambda: "levels")
    model = RandomForestRegressor(5, max_depth=3, random_state=0).fit(X[:300], X[:300, 0])
    moments, given = ju.regression.LeafMoments(model), jax.device_put(X[:70])
    assert profiled(lambda: moments.answer(given)).programs == 1
    np.testing.assert_allclose(moments.answer(given).mean, model.predict(X[:70]), rtol=1e-5)


def test_missing_values_are_guessed_to_be_missing_again(forest):
    bound = ju.bind(forest, ju.Mean(), walk="levels")
    given = jax.device_put(MISSING[:99])
    assert profiled(lambda: bound(given)).programs == 1
    np.testing.assert_allclose(bound(given), ju.bind(forest, ju.Mean())(MISSING[:99]), rtol=1e-6)
    assert bound.with_rule(ju.Median()).engine.walk == "levels"
    whole = bound(X[:99])  # by the program for missing values, which has the same bits
    np.testing.assert_array_equal(whole, ju.bind(forest, ju.Mean(), walk="levels")(X[:99]))


def asked(bound, given) -> list[np.ndarray]:
    """For rows of the host and of the device; of missing values under a mask."""
    mask = np.random.default_rng(2).random((len(X), bound.forest.n_trees)) < 0.7 if given is MISSING else None
    on_device = jax.tree.map(jnp.asarray, (given, mask))
    answers = bound.answer(given, tree_mask=mask), bound.answer(on_device[0], tree_mask=on_device[1])
    return [np.asarray(part) for part in jax.tree.leaves(answers)]


RULES = {"mean": ju.Mean(), "report": ju.decisions.CautiousReport(1.0), "median": ju.combiners.Median()}


@pytest.mark.once
@pytest.mark.parametrize("name", a_few_of(RULES, ["report"]))
@pytest.mark.parametrize("given", [X, MISSING], ids=["all", "missing"])
def test_blocks_and_parts_change_no_bit(forest, name, given, monkeypatch):
    plain, whole = (asked(ju.bind(forest, RULES[name], walk=walk), given) for walk in ("blocks", "levels"))
    for one, other in zip(whole, plain, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    monkeypatch.setattr(_walk, "DEVICE_BYTES", 1000 * (12 * forest.n_trees + 8 * N_COLUMNS))
    monkeypatch.setattr(_device_calls, "TRANSFER_BYTES", 2000 * 4 * 2 * N_COLUMNS)
    bound = ju.bind(forest, RULES[name], walk="levels")
    assert bound._call(False).block == 1000
    assert len(device_parts(given, 8 * N_COLUMNS)) > 1
    for one, other in zip(asked(bound, given), whole, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.once
def test_a_few_sizes_serve_all_batches():
    sizes = [padded_size(n) for n in range(1, 70_000)]
    assert all(n <= size <= max(1.25 * n, 1024) for n, size in enumerate(sizes, 1))
    assert len(set(sizes)) == 26
    for n in (0, 1, 1023, 1024, 2**16, 2**16 + 1, 300_000):
        parts = device_parts(np.empty((n, 1), np.float32), _device_calls.TRANSFER_BYTES // 2**16)
        assert [0, *[part.stop for part in parts]] == [*[part.start for part in parts], n]
        assert all(part.stop - part.start <= part.chunk.rows <= 2**16 for part in parts)


@pytest.mark.once
def test_batches_of_the_host_share_programs(bound):
    bound(X[:10])
    with compilations() as names:
        for n in (0, 1, 3, 500, 999, 1024):
            assert bound(X[:n]).shape == (n, 3)
    assert names == []


@pytest.mark.parametrize("dtype", [np.float64, np.int32, bool])
def test_numbers_of_other_types(bound, dtype):
    """Compared as float32, whose largest number doubles may exceed."""
    given = (X[:50] if dtype == np.float64 else X[:50] > 0).astype(dtype)
    expected = bound(given.astype(np.float32))
    np.testing.assert_array_equal(bound(given), expected)
    np.testing.assert_array_equal(bound(jnp.asarray(given)), expected)
    if dtype == np.float64:
        given[7, 3] = 1e39 if jax.config.jax_enable_x64 else np.inf
        refuses(ValueError, r"X\[7, 3\] is infinite", bound, jnp.asarray(given))


@pytest.mark.once
def test_ten_threads_at_once(forest):
    batches = [given[: 100 * k] for k in range(1, 6) for given in (X, MISSING)]
    agree_at_once(ju.bind(forest, ju.Mean(), walk="levels").probability, batches)


@pytest.mark.once
def test_the_caller_may_donate_what_was_answered_and_write_to_it(bound):
    given, of_host = jnp.asarray(X[:1024]) + 0, X[:1024].copy()  # each with memory of its own, which nothing pads
    expected = bound(X[:1024])
    answers = bound(given), bound(of_host)
    jax.jit(lambda x: x + 1, donate_argnums=0)(given)
    of_host[:] = 0
    for answer in answers:
        np.testing.assert_array_equal(answer, expected)
    assert given.is_deleted()
    refuses(ValueError, "X was deleted", bound, given)


def with_value(value: float, *, row: int = 70, more: float = 0.0, dtype=np.float32) -> np.ndarray:
    given = X[:100].astype(dtype)
    given[row, 2], given[3, 1] = value, more
    return given


def in_parts(bound, monkeypatch) -> None:
    monkeypatch.setattr(_device_calls, "TRANSFER_BYTES", 32 * 8 * N_COLUMNS)
    bound(with_value(np.inf, more=np.nan))


WORDS = r"X\[70, 2\] is infinite or too large"
test_refusals = pytest.mark.once(
    refusals(
        ("host", lambda bound: bound(with_value(np.inf)), WORDS),
        ("device", lambda bound: bound(jnp.asarray(with_value(-np.inf))), WORDS),
        ("missing before", lambda bound: bound(with_value(np.inf, more=np.nan)), WORDS),
        ("too large", lambda bound: bound(with_value(1e39, dtype=np.float64)), WORDS),
        ("votes", lambda forest: ju.voting.bind_vote(forest, walk="levels")(with_value(np.inf)), WORDS),
        ("part", in_parts, WORDS),
        ("columns", lambda bound: bound(jnp.zeros((3, 4))), "has 4 features"),
        ("text", lambda bound: bound(np.array([["a"] * N_COLUMNS])), "pass numbers", TypeError),
        ("one row", lambda bound: bound(jnp.zeros(N_COLUMNS)), r"Pass X\[None\]"),
    )
)
