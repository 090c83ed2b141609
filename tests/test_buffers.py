"""No answer reads its arguments' memory after the call: every public callable on arrays that are overwritten then.

JAX shares the memory of an array of the host that begins at a multiple of 64 bytes, and computes after it has returned.
"""

import inspect

import jax
import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

import jaxunc as ju
from tests._forests import toy_data, toy_forest
from tests.conftest import TYPED
from tests.test_every_argument import OF_OTHER_LIBRARIES, Call, arguments, public

pytestmark = pytest.mark.room

ROWS = {
    *("counts", "probability", "probs", "class_scores", "log_probs", "membership", "certainty", "correct", "score"),
    *("aleatoric", "epistemic", "vote_counts", "votes", "calibration", "labels", "predicted", "masses"),
}
"""Arrays of two rows, of which many are made: so much work that JAX leaves it to another thread."""
OF_TWO = {"crps", "interval_brier", "interval_score"}
"""Metrics whose arrays of two rows have other names as well."""
MANY = {"metrics", "scorers", "decisions", "belief"}
"""Rooms whose functions take many rows alike."""


def aligned(array: np.ndarray) -> np.ndarray:
    """A copy in memory that JAX shares, of a type that it takes as it is."""
    array = array.astype(jax.dtypes.canonicalize_dtype(array.dtype)) if array.dtype.kind in "biuf" else array
    room = np.empty(array.nbytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    shared = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    shared[...] = array
    return shared


def in_shared_memory(value, made: list):
    """The same, with all arrays of the host, inside of forests and combiners, too, in memory that JAX would share."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        made.append(aligned(value))
        return made[-1]
    if isinstance(value, dict | list | tuple | ju.Forest | ju.Combiner):
        return jax.tree.map(lambda leaf: in_shared_memory(leaf, made) if isinstance(leaf, np.ndarray) else leaf, value)
    return value


def overwrite(arrays) -> None:
    for array in arrays:
        array[...] = np.zeros((), array.dtype) if array.dtype.kind != "f" else -3


def seen(answer, X) -> list[np.ndarray]:
    """What can be seen of an answer; of what answers rows by asking it."""
    for name in ("predict_proba", "predict"):
        if hasattr(answer, name):
            return [np.array(getattr(answer, name)(X.copy()))]
    if isinstance(answer, ju.Combiner) and not isinstance(answer, ju.Stack):
        answer = [*jax.tree.leaves(answer), answer.answer(np.array([[[3, 1], [0, 2]]] * 15).reshape(1, 30, 2))]
    return [np.array(leaf) for leaf in jax.tree.leaves(answer) if hasattr(leaf, "dtype") and leaf.dtype != object]


def check_unmoved(ask, X, *values) -> None:
    """The answer is that of values that nobody writes to."""
    want = seen(ask(*(in_shared_memory(value, []) for value in values)), X)
    made: list[np.ndarray] = []
    answer = ask(*(in_shared_memory(value, made) for value in values))
    overwrite(made)
    assert made
    for one, other in zip(seen(answer, X), want, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    return arguments(tmp_path_factory.mktemp("data"))


@pytest.mark.once
@pytest.mark.skipif(TYPED, reason="arguments of types that the annotations do not name")
@pytest.mark.exhaustive(keep=16)
@pytest.mark.parametrize(("room", "name"), list(public()))
def test_no_answer_reads_what_is_written_later(room, name, valid, tmp_path, monkeypatch):
    if name in OF_OTHER_LIBRARIES:
        pytest.skip("the model is another library's")
    monkeypatch.chdir(tmp_path)
    call = Call(room, name, valid)
    given = dict(call.arguments)
    if "random_state" in call.defaults:
        given["random_state"] = 0
    if room in MANY:
        for key in given.keys() & (ROWS | {"y"}):
            if isinstance(given[key], np.ndarray) and name not in OF_TWO:
                given[key] = np.concatenate([given[key]] * 500)

    def ask(given, X, y):
        key = {"key": jax.random.clone(valid["key"])} if "key" in given else {}
        answer = call.function(**given | key)
        return answer.fit(X, y) if hasattr(answer, "fit") else list(answer) if inspect.isgenerator(answer) else answer

    try:
        check_unmoved(ask, valid["X"], given, valid["X"], valid["y"])
    except ImportError as error:
        pytest.skip(str(error))  # of an extra


X, Y = toy_data(2)
ROWS_OF_SHAPES = [np.tile(X, (6, 1)).astype(np.float32)[:n] for n in (1, 16, 64, 1024, 2048)]
FOREST = toy_forest(2)
DOORS = {
    "bound": lambda Z, mask: ju.bind(FOREST, ju.Mean()).answer(Z),
    "masked": lambda Z, mask: ju.bind(FOREST, ju.Median()).answer(Z, tree_mask=mask),
    "leaves": lambda Z, mask: ju.leaf_index(FOREST, Z),
    "counts": lambda Z, mask: ju.leaf_counts(FOREST, Z),
    "fold": lambda Z, mask: ju.inference.merge_leaves(
        FOREST, ju.inference.leaf_table(FOREST, ju.Mean()), Z, tree_mask=mask
    ),
    "votes": lambda Z, mask: ju.predict_until_settled(FOREST, Z),
    "shards": lambda Z, mask: ju.shard(ju.bind(FOREST, ju.Mean()), jax.make_mesh((1, 1), ("data", "tree"))).probability(
        Z, tree_mask=mask
    ),
    "explained": lambda Z, mask: ju.explain(FOREST, ju.Mean(), Z[:16], tree_mask=mask[:16]),
}


@pytest.mark.parametrize("n", [pytest.param(n, marks=[pytest.mark.exhaustive] * (n != 2)) for n in range(5)])
@pytest.mark.parametrize("door", DOORS)
def test_rows_that_fill_a_shape(door, n):
    # Others are padded, which copies them.
    Z = ROWS_OF_SHAPES[n]
    check_unmoved(DOORS[door], X, Z, np.random.default_rng(0).random((len(Z), FOREST.n_trees)) < 0.7)


def test_sums_and_their_stages():
    model = ju.from_any(HistGradientBoostingClassifier(max_iter=5).fit(X, Y))
    for ask in (model.predict, model.raw, model.leaf_values, lambda Z: model.staged(Z)):
        made: list[np.ndarray] = []
        answer = ask(in_shared_memory(ROWS_OF_SHAPES[3], made))
        overwrite(made)
        want = ask(ROWS_OF_SHAPES[3])
        for one, other in zip(*(list(a) if inspect.isgenerator(a) else [a] for a in (answer, want)), strict=True):
            np.testing.assert_array_equal(one, other)


def test_what_is_bound_is_kept():
    # A plan for missing values is made when they first come.
    made: list[np.ndarray] = []
    forest = in_shared_memory(jax.tree.map(np.array, FOREST), made)
    weights = in_shared_memory(np.linspace(0.5, 1.5, FOREST.n_trees), made)
    bound, want = ju.bind(forest, ju.Weighted(ju.Mean(), weights)), ju.Weighted(ju.Mean(), weights.copy())
    for Z in (X[:9], np.where(X[:9] > 1, np.nan, X[:9])):
        expected = ju.bind(FOREST, want).answer(Z)
        overwrite(made)
        for one, other in zip(jax.tree.leaves(bound.answer(Z)), jax.tree.leaves(expected), strict=True):
            np.testing.assert_array_equal(one, other)


def test_what_is_written_into_a_forest_counts_for_the_next_call():
    forest = jax.tree.map(np.array, FOREST)
    first = np.asarray(ju.leaf_index(forest, X[:9]))
    forest.trees.threshold[...] = forest.trees.threshold[::-1]  # the trees in another order
    then = np.asarray(ju.leaf_index(forest, X[:9]))
    assert np.any(first != then)
    np.testing.assert_array_equal(then, ju.leaf_index(jax.tree.map(jax.device_put, forest), X[:9]))
