"""No answer reads its arguments' memory after the call: every public callable on arrays that are overwritten then.

JAX shares the memory of an array of the host that begins at a multiple of 64 bytes, and computes after it has returned.
"""

import inspect

import jax
import numpy as np
import pytest

import jaxunc as ju
from tests.test_every_argument import OF_OTHER_LIBRARIES, Call, arguments, public

pytestmark = pytest.mark.once

ROWS = {
    *("counts", "probability", "probs", "class_scores", "log_probs", "membership", "certainty", "correct", "score"),
    *("aleatoric", "epistemic", "vote_counts", "votes", "p", "values", "calibration", "labels", "predicted"),
}
"""Arrays of two rows, of which many are made: calls that take long enough to be left to another thread."""


def aligned(array: np.ndarray) -> np.ndarray:
    room = np.empty(array.nbytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    shared = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    shared[...] = array
    return shared


def moved(value, made: list):
    """The same, with arrays of the host in memory that JAX would share."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        made.append(aligned(value))
        return made[-1]
    if isinstance(value, dict | list | tuple) and type(value) in (dict, list, tuple):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        new = {key: moved(one, made) for key, one in items}
        return new if isinstance(value, dict) else type(value)(new.values())
    return value


def overwrite(arrays) -> None:
    for array in arrays:
        array[...] = np.zeros((), array.dtype) if array.dtype.kind != "f" else -3


def seen(answer, X) -> list:
    """What can be seen of an answer, of one that answers rows by asking it."""
    for name in ("predict_proba", "predict"):
        if hasattr(answer, name):
            return [np.array(getattr(answer, name)(X.copy()))]
    if isinstance(answer, ju.Combiner):
        counts = np.array([[[3, 1], [0, 2]]] * 15).reshape(1, 30, 2)
        answer = [*jax.tree.leaves(answer), answer.answer(counts)]
    if inspect.isgenerator(answer):
        answer = list(answer)
    return [np.array(leaf) for leaf in jax.tree.leaves(answer) if hasattr(leaf, "dtype") and leaf.dtype != object]


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    return arguments(tmp_path_factory.mktemp("data"))


@pytest.mark.parametrize(("room", "name"), list(public()))
def test_no_answer_reads_what_is_written_later(room, name, valid, tmp_path, monkeypatch):
    if name in OF_OTHER_LIBRARIES:
        pytest.skip("the model is another library's")
    monkeypatch.chdir(tmp_path)
    call = Call(room, name, valid)
    X, y = valid["X"], valid["y"]

    def answer(arguments, X, y):
        key = {"key": jax.random.clone(valid["key"])} if "key" in arguments else {}
        found = call.function(**arguments | key)
        return found.fit(X, y) if hasattr(found, "fit") else list(found) if inspect.isgenerator(found) else found

    try:
        want = seen(answer(call.arguments, X, y), X)
    except ImportError as error:
        pytest.skip(str(error))  # of an extra
    made: list = []
    given = moved(call.arguments, made), moved(X, made), moved(y, made)
    late = answer(*given)
    overwrite(made)
    for one, other in zip(seen(late, X), want, strict=True):
        np.testing.assert_array_equal(one, other)
