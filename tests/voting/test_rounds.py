"""Votes counted in rounds, or by many trees at once: those of the sequential rule, whatever is walked together."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxunc import voting
from jaxunc.inference import _walk
from jaxunc.voting import _rounds, _until_settled
from jaxunc.voting._rounds import FEW, TOGETHER
from tests.voting._votes import drawn_votes, forest_of_votes, grown_forest, rows_of, same

pytestmark = pytest.mark.room

N_TREES = 150
SETTINGS = ({}, {"criterion": "certain"}, {"criterion": "exact"}, {"population": "finite"})


@pytest.fixture(scope="module", params=[(2, 0.0), (2, 0.2), (4, 0.2)], ids=str)
def voted(request):
    """A forest of more trees than are walked at once, whose votes are known."""
    n_classes, abstaining = request.param
    votes = drawn_votes(np.random.default_rng(n_classes), 700, N_TREES, n_classes, abstaining)
    votes[:3] = votes[[-1, 20, 30]]
    votes[3] = np.arange(N_TREES) < 70  # two classes: settled for one, but for a tie nearly at the end
    return *forest_of_votes(votes, n_classes), votes, n_classes


@pytest.mark.parametrize("walk", ["blocks", "levels"])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.exhaustive(keep=4)
def test_equal_to_the_sequential_rule(voted, settings, walk):
    forest, X, votes, n_classes = voted
    if {"exact", "finite"} & {*settings.values()}:  # of which the host has much to compute
        votes = votes[: 9 if n_classes > 2 and "population" in settings else 65]
    bound = voting.bind_vote(forest, confidence=0.95, walk=walk, **settings)
    expected = voting.stop_after(votes, n_classes, confidence=0.95, **settings)
    for rows in (*map(slice, (0, 1, 3, 8, 9, 64, 65)), slice(5, 300), slice(len(votes))):
        same(bound(X[: len(votes)][rows]), rows_of(expected, rows))
    assert np.any(expected.n_trees_used < 5 * TOGETHER)
    assert np.any(expected.n_trees_used > TOGETHER)


@pytest.mark.exhaustive(keep=1)
def test_as_many_trees_as_are_asked_for(voted):
    forest, X, votes, n_classes = voted
    for most in (1, TOGETHER - 1, TOGETHER, TOGETHER + 1):
        polled = np.where(np.arange(N_TREES) < most, votes[:FEW], -1)  # trees that abstain, of one shape
        expected = voting.stop_after(polled, n_classes, confidence=0.99)
        expected = expected._replace(n_trees_used=np.minimum(expected.n_trees_used, most))
        same(voting.bind_vote(forest, confidence=0.99, max_trees=most)(X[:FEW]), expected)


@pytest.mark.parametrize("settings", [{}, {"criterion": "exact"}], ids=str)
def test_threads_copies_and_pickles(settings):
    forest, X = grown_forest()
    bound = voting.bind_vote(forest, **settings)
    parts = [X[start : start + 5] for start in range(0, 80, 5)]
    with ThreadPoolExecutor(8) as pool:
        by_thread = list(pool.map(bound, parts))
    expected = bound(X[:80])
    for i, answer in enumerate(by_thread):
        same(answer, rows_of(expected, slice(5 * i, 5 * i + 5)))
    for other in (copy.copy(bound), copy.deepcopy(bound), pickle.loads(pickle.dumps(bound))):
        same(other(X[:80]), expected, "probability")


@pytest.mark.once
@pytest.mark.exhaustive
@pytest.mark.parametrize("limits", [(256, 256, 8, 128, 1), (1024, 128, 1, 3, 7), (512, 64, 50, 60, 1000)])
def test_whatever_blocks_rounds_threads_and_trees_at_once_are(voted, limits, monkeypatch):
    forest, X, votes, n_classes = voted
    expected = voting.stop_after(votes, n_classes, confidence=0.99)
    of_rounds = {"SHORTEST": limits[2], "LONGEST": limits[3], "LENGTHS": limits[2:4], "TOGETHER": limits[4]}
    monkeypatch.setattr(_walk, "BLOCKS", limits[:1])
    monkeypatch.setattr(_until_settled, "SMALL_BLOCKS", limits[1:2])
    for name, value in of_rounds.items():
        monkeypatch.setattr(_rounds, name, value)
    jax.clear_caches()
    for threads in (1, 2, 3):
        same(voting.bind_vote(forest, threads=threads)(X), expected)
    same(voting.bind_vote(forest, walk="levels")(X), expected)
    same(voting.bind_vote(forest)(X[:5]), rows_of(expected, slice(5)))


@pytest.mark.parametrize(("rows", "n_features", "missing"), [(1, 5, False), (FEW, 5, True), (FEW, 300, True)])
def test_few_instances_stay_in_the_thread_that_calls(rows, n_features, missing):
    """XLA on CPU hands a program of 1000 operations to another thread, and splits what touches half a MiB."""
    bound, x = voting.bind_vote(grown_forest()[0]), np.zeros((rows, n_features), np.float32)
    plan, classes = bound._plan(bound.forest.trees, missing)
    more = lambda array: jnp.concatenate([array] * 80)
    with jax.enable_x64(True):
        plan, classes = jax.tree.map(more, (plan, classes))
    assert plan.nodes.nbytes > 2**20 < 2 * classes.nbytes
    arrays = plan, classes, bound.rule, x, np.int32(1), np.int32(80)
    program = _rounds.poll_part.jitted.lower(*arrays, missing=missing, blocks=()).compile()
    assert program.cost_analysis()["flops"] < 1000
    assert "outer_dimension_partitions" not in program.as_text()


@pytest.mark.once
@pytest.mark.parametrize("n_features", [5, 60, 200])
@pytest.mark.exhaustive
def test_no_level_is_split_over_threads(n_features):
    """XLA on CPU splits what touches half a MiB over its threads, at a loss; only a block's keys may be so large."""
    bound, x = voting.bind_vote(grown_forest()[0]), np.zeros((4096, n_features), np.float32)
    blocks = (_walk.block_size("blocks", 80, n_features), *_until_settled.SMALL_BLOCKS)
    numbers = np.int32(9), np.int32(80)
    arrays = *bound._plan(bound.forest.trees, False), bound.rule, x
    text = _rounds.poll_part.jitted.lower(*arrays, *numbers, missing=False, blocks=blocks).compile().as_text()
    split = [line for line in text.splitlines() if "outer_dimension_partitions" in line]
    assert all(f"s32[{n_features}," in line for line in split), split
