"""What an imported model answers, against what its own library does; ways in that several libraries have."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

import jaxunc as ju
from jaxunc.additive import AdditiveTrees
from tests.interop._rows import assert_same_leaves, program_leaves, summed, walked

from ._tables import Table

ULP = float(np.finfo(np.float32).eps)
LARGEST_EXPONENT = 88.0  # exponentials of larger numbers overflow in float32


class Way(NamedTuple):
    """One way in, and what the library itself answers there."""

    name: str  # the kind of way, by which answers are counted
    load: Callable[[], Any]
    rows: Any  # what both are asked about
    raw: np.ndarray | None = None  # the library's sums before the link
    answer: np.ndarray | None = None  # its probabilities, or what its regressor predicts
    leaves: np.ndarray | None = None  # its leaves ``[rows trees]``, whatever their numbers
    labels: list | None = None
    steps: float = 4  # float32 roundings of its sum, each of at most half an ulp of the sum of the leaves' sizes
    slack: float = 0.0  # what its arithmetic of the answer (not of sums) may be off by beyond a few ulps


def way_of_file(name: str, file: str, save: Callable[[Path], Any], rows: Any, **own: Any) -> Iterator[Way]:
    """The way of a file, which is there while the way is tried."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, file)
        save(path)
        yield Way(name, lambda: ju.from_any(path), rows, **own)


def ways_of_treelite(rng: np.random.Generator, library: str, model: Any, asked: Table) -> Iterator[Way]:
    """The ways of a live model by treelite, where it is installed and takes the model."""
    try:
        import treelite
    except ImportError:
        return
    if library == "sklearn" and getattr(model, "n_iter_no_change", None):
        return  # treelite reads the trees that were planned, and ends the process
    frontend = treelite.frontend if library != "sklearn" else treelite.sklearn
    try:
        taken = getattr(frontend, {"sklearn": "import_model"}.get(library, f"from_{library}"))(model)
    except Exception:  # what treelite does not take
        return
    wide = str(taken.input_type) == "float64" and library != "sklearn"
    rows = asked.matrix(np.float64 if wide else np.float32)
    answer, leaves = treelite.gtil.predict(taken, rows, nthread=1), treelite.gtil.predict_leaf(taken, rows, nthread=1)
    given, steps = taken.serialize_bytes() if rng.random() < 0.5 else taken, 4 + taken.num_tree * 2
    yield Way(f"treelite of {library}", lambda: ju.from_any(given), rows, None, answer, leaves, steps=steps)


class Mismatch(Exception):
    """An answer is another one than the library's."""


def check(way: Way, model: Any, rows: Any) -> tuple[int, int]:
    """Compare what a model answers; return how many leaves were, with the library's and with those of `leaf_index`.

    Leaves come from a loop in NumPy, but of sparse rows: that sums are of the same leaves is compared, too. Of models
    that fit in the one shape that has a program, `leaf_index` must tell the same leaves.
    """
    if issparse(rows):
        leaves = by_program = np.asarray(ju.leaf_index(model.trees, rows))
    else:
        leaves, by_program = walked(model.trees, rows), program_leaves(model.trees, rows)
    if by_program is not None and not np.array_equal(by_program, leaves):
        row, tree = map(int, np.argwhere(by_program != leaves)[0])
        raise Mismatch(f"leaf_index: {by_program[row, tree]} for {leaves[row, tree]}, row {row} in tree {tree}")
    if way.leaves is not None:
        try:
            assert_same_leaves(leaves, way.leaves)
        except AssertionError as error:
            raise Mismatch(f"other leaves: {error}") from error
    additive = isinstance(model, AdditiveTrees)
    allowed = _sums(way, model, rows, leaves) if additive else np.zeros((len(leaves), 1))
    if way.labels is not None and list(model.class_labels or ()) != way.labels:
        raise Mismatch(f"class labels {model.class_labels} for {way.labels}")
    if way.answer is not None:
        answer = model.predict(rows) if additive else ju.bind(model, ju.Mean()).probability(rows)
        beyond = np.any(np.abs(model.raw(rows)) > LARGEST_EXPONENT, axis=1) if additive else np.zeros(len(leaves), bool)
        _answers(way, np.asarray(answer, np.float64), allowed, beyond)
    return 0 if way.leaves is None else leaves.size, 0 if by_program is None else leaves.size


def _sums(way: Way, model: AdditiveTrees, rows: Any, leaves: np.ndarray) -> np.ndarray:
    """Compare sums; return what they may be off by, for each row and output."""
    exact, size = summed(model, leaves), summed(model, leaves, np.abs)
    own = np.asarray(model.raw(rows), np.float64)
    _near("own sums", own, exact, ULP * (np.abs(exact) + ULP * size) + 1e-38)
    allowed = 0.5 * way.steps * ULP * size + 1e-38
    if way.raw is not None:
        _near("sums", own, _shaped("sums", way.raw, own), allowed)
    return allowed


def _answers(way: Way, own: np.ndarray, allowed: np.ndarray, beyond: np.ndarray) -> None:
    theirs = np.asarray(way.answer, np.float64)
    if own.ndim == 2 and own.shape[1] == 2 and theirs.size == len(own):
        own = own[:, 1]  # of two classes some libraries tell the second alone
    own, theirs = own.reshape(len(own), -1), _shaped("answers", theirs, own).reshape(len(own), -1)
    # A library's own link makes NaN of sums whose exponential overflows; sums are compared before.
    theirs = np.where(np.isnan(theirs) & beyond[:, None], own, theirs)
    # Links have slopes of their own answer at most (exp), or 1.
    slope, largest = np.maximum(1, np.abs(theirs)), allowed.max(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", over="ignore"):
        _near("answers", own, theirs, slope * (2 * largest + 8 * ULP + way.slack))


def _shaped(what: str, theirs: Any, own: np.ndarray) -> np.ndarray:
    theirs = np.asarray(theirs, np.float64)
    if theirs.size != own.size:
        raise Mismatch(f"{own.shape} {what} for {theirs.shape}")
    return theirs.reshape(own.shape)


def _near(what: str, own: np.ndarray, theirs: np.ndarray, allowed: np.ndarray) -> None:
    with np.errstate(invalid="ignore"):
        same = (own == theirs) | (np.isnan(own) & np.isnan(theirs)) | (np.abs(own - theirs) <= allowed)
    if not same.all():
        row, place = map(int, np.argwhere(~same)[0])
        most = np.broadcast_to(allowed, own.shape)[row, place]
        raise Mismatch(
            f"{what}: {np.count_nonzero(~same.all(axis=1))} of {len(own)} rows, such as row {row}: "
            f"{own[row, place]} for {theirs[row, place]} (allowed {most:.2g})"
        )
