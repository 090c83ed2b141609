"""Calls of an accelerator, in its form on a CPU: one program for a batch, which says what is wrong with the data."""

from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import jaxunc as ju
from jaxunc.inference import _bind, _device_calls, _walk
from jaxunc.inference._device_calls import device_parts, padded_size
from tests._compilations import compilations
from tests._profiles import Calls, profiled
from tests._refusal import refusals, refuses

N_COLUMNS = 5
X = np.random.default_rng(0).normal(size=(3000, N_COLUMNS)).astype(np.float32)
MISSING = np.where(np.random.default_rng(1).random(X.shape) < 0.1, np.nan, X).astype(np.float32)


def grown(n_classes: int = 3) -> ju.Forest:
    y = np.digitize(X[:300, 0] + X[:300, 1], [-0.5, 0.5][: n_classes - 1])
    return ju.from_sklearn(RandomForestClassifier(7, max_depth=3, random_state=0).fit(X[:300], y))


@pytest.fixture(scope="module")
def forest() -> ju.Forest:
    return grown()


@pytest.fixture(scope="module")
def bound(forest) -> ju.inference.BoundForest:
    return ju.bind(forest, ju.Mean(), walk="levels")


def rows(n: int) -> np.ndarray:
    return np.resize(X, (n, N_COLUMNS))


@pytest.mark.once
@pytest.mark.parametrize("n", [1, 1000, pytest.param(10**6, marks=pytest.mark.exhaustive)])
def test_a_call_is_one_program(forest, bound, n):
    """What is fetched of rows on the device is the mark alone; answers for the host's are trimmed there."""
    given, vote = rows(n), ju.voting.bind_vote(forest, walk="levels")
    on_device = jax.device_put(given)
    assert profiled(lambda: bound.probability(given)) == Calls(programs=1, sent=2, fetched=2)
    assert profiled(lambda: bound.probability(on_device)) == Calls(programs=1, sent=0, fetched=1)
    assert profiled(lambda: vote(given)) == Calls(programs=1, sent=1, fetched=5)
    assert profiled(lambda: vote(on_device)) == Calls(programs=1, sent=0, fetched=5)


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
    whole = bound(X[:99])  # by the program for missing values, which has the same bits
    np.testing.assert_array_equal(whole, ju.bind(forest, ju.Mean(), walk="levels")(X[:99]))


def test_another_rule_keeps_the_walk(forest):
    for walk in ("levels", "blocks"):
        assert ju.bind(forest, ju.Mean(), walk=walk).with_rule(ju.Median()).engine.walk == walk


def masked(forest) -> np.ndarray:
    return np.random.default_rng(2).random((len(X), forest.n_trees)) < 0.7


def asked(bound, given, mask) -> list[np.ndarray]:
    answers = [bound.answer(given), bound.answer(given, tree_mask=mask), bound.answer(jnp.asarray(given))]
    answers.append(bound.answer(jnp.asarray(given), tree_mask=jnp.asarray(mask)))
    return [np.asarray(part) for part in jax.tree.leaves(answers)]


RULES = {"mean": ju.Mean(), "report": ju.decisions.CautiousReport(1.0), "median": ju.combiners.Median()}


@pytest.mark.once
@pytest.mark.parametrize(
    "name", ["report", *[pytest.param(k, marks=pytest.mark.exhaustive) for k in ("mean", "median")]]
)
@pytest.mark.parametrize("given", [X, MISSING], ids=["all", "missing"])
def test_blocks_and_parts_change_no_bit(forest, name, given, monkeypatch):
    mask = masked(forest)
    whole = asked(ju.bind(forest, RULES[name], walk="levels"), given, mask)
    monkeypatch.setattr(_walk, "DEVICE_BYTES", 1000 * (12 * forest.n_trees + 8 * N_COLUMNS))
    monkeypatch.setattr(_device_calls, "TRANSFER_BYTES", 2000 * 4 * 2 * N_COLUMNS)
    bound = ju.bind(forest, RULES[name], walk="levels")
    assert bound._call(False).block == 1000
    assert len(device_parts(given, 8 * N_COLUMNS)) > 1
    for one, other in zip(asked(bound, given, mask), whole, strict=True):
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
    given = (X[:50] > 0).astype(dtype)
    expected = bound(given.astype(np.float32))
    np.testing.assert_array_equal(bound(given), expected)
    np.testing.assert_array_equal(bound(jnp.asarray(given)), expected)


def test_doubles_on_the_device(bound):
    """Compared as float32, whose largest number they may exceed."""
    given = X[:50].astype(np.float64)
    np.testing.assert_array_equal(bound(jnp.asarray(given)), bound(X[:50]))
    given[7, 3] = 1e39 if jax.config.jax_enable_x64 else np.inf
    refuses(ValueError, r"X\[7, 3\] is infinite", bound, jnp.asarray(given))


@pytest.mark.once
def test_ten_threads_at_once(forest):
    bound = ju.bind(forest, ju.Mean(), walk="levels")
    batches = [given[: 100 * k] for k in range(1, 6) for given in (X, MISSING)]
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(bound.probability, batches))
    for answer, batch in zip(answers, batches, strict=True):
        np.testing.assert_array_equal(answer, bound.probability(batch))


@pytest.mark.once
def test_what_is_answered_may_be_donated(bound):
    expected, given = bound(X[:64]), jnp.asarray(X[:64]) + 0  # which has memory of its own
    answer = bound(given)
    jax.jit(lambda x: x + 1, donate_argnums=0)(given)
    np.testing.assert_array_equal(answer, expected)
    assert given.is_deleted()
    refuses(ValueError, "X was deleted", bound, given)


@pytest.mark.once
def test_the_caller_may_write_to_what_was_answered(bound):
    given, expected = X[:1024].copy(), bound(X[:1024].copy())
    answer = bound(given)
    given[:] = 0
    np.testing.assert_array_equal(answer, expected)


@pytest.mark.once
def test_known_rows_within_a_program_that_is_traced(bound):
    known = bound(X[:9])
    np.testing.assert_array_equal(jax.jit(lambda x: x + bound(X[:9]))(0.0), known)


def with_value(value: float, *, row: int = 70, more: float = 0.0, dtype=np.float32) -> np.ndarray:
    given = X[:100].astype(dtype)
    given[row, 2], given[3, 1] = value, more
    return given


def small_parts(monkeypatch) -> None:
    monkeypatch.setattr(_device_calls, "TRANSFER_BYTES", 32 * 8 * N_COLUMNS)


WORDS = r"X\[70, 2\] is infinite or too large"
test_refusals = pytest.mark.once(
    refusals(
        ("host", lambda bound: bound(with_value(np.inf)), WORDS),
        ("device", lambda bound: bound(jnp.asarray(with_value(-np.inf))), WORDS),
        ("missing before", lambda bound: bound(with_value(np.inf, more=np.nan)), WORDS),
        ("too large", lambda bound: bound(with_value(1e39, dtype=np.float64)), WORDS),
        ("votes", lambda forest: ju.voting.bind_vote(forest, walk="levels")(with_value(np.inf)), WORDS),
        ("part", lambda bound, monkeypatch: (small_parts(monkeypatch), bound(with_value(np.inf, more=np.nan))), WORDS),
        ("columns", lambda bound: bound(jnp.zeros((3, 4))), "has 4 features"),
        ("text", lambda bound: bound(np.array([["a"] * N_COLUMNS])), "pass numbers", TypeError),
        ("one row", lambda bound: bound(jnp.zeros(N_COLUMNS)), r"Pass X\[None\]"),
    )
)
