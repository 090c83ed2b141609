"""What an imported model answers, against what its own library does."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

import jaxunc as ju
from jaxunc.additive import AdditiveTrees
from tests.interop._rows import assert_same_leaves, program_leaves, summed, walked

ULP = float(np.finfo(np.float32).eps)


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


LARGEST_EXPONENT = 88.0
"""Exponentials of larger numbers overflow in float32."""


class Compared(NamedTuple):
    """How many leaves were compared."""

    leaves: int  # with the library's
    by_program: int  # those that `leaf_index` told


class Mismatch(Exception):
    """An answer is another one than the library's."""


def check(way: Way, model: Any, rows: Any) -> Compared:
    """Compare what a model answers; return how many leaves were.

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
    return Compared(0 if way.leaves is None else leaves.size, 0 if by_program is None else leaves.size)


def _sums(way: Way, model: AdditiveTrees, rows: Any, leaves: np.ndarray) -> np.ndarray:
    """Compare sums; return what they may be off by, for each row and output."""
    exact, size = summed(model, leaves), summed(model, leaves, np.abs)
    own = np.asarray(model.raw(rows), np.float64)
    _near("own sums", own, exact, ULP * (np.abs(exact) + ULP * size) + 1e-38)
    allowed = 0.5 * way.steps * ULP * size + 1e-38
    if way.raw is not None:
        theirs = np.asarray(way.raw, np.float64)
        if theirs.size != own.size:
            raise Mismatch(f"{own.shape} sums for {theirs.shape}")
        _near("sums", own, theirs.reshape(own.shape), allowed)
    return allowed


def _answers(way: Way, own: np.ndarray, allowed: np.ndarray, beyond: np.ndarray) -> None:
    theirs = np.asarray(way.answer, np.float64)
    if own.ndim == 2 and own.shape[1] == 2 and theirs.size == len(own):
        own = own[:, 1]  # of two classes some libraries tell the second alone
    if theirs.size != own.size:
        raise Mismatch(f"{own.shape} answers for {theirs.shape}")
    own, theirs = own.reshape(len(own), -1), theirs.reshape(len(own), -1)
    # A library's own link makes NaN of sums whose exponential overflows; sums are compared before.
    theirs = np.where(np.isnan(theirs) & beyond[:, None], own, theirs)
    # Links have slopes of their own answer at most (exp), or 1.
    slope = np.maximum(1, np.abs(theirs))
    largest = allowed.max(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", over="ignore"):
        _near("answers", own, theirs, slope * (2 * largest + 8 * ULP + way.slack))


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
