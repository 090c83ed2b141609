"""What is computed on the accelerator and again on the CPU, by a process that has no other backend.

Integers have to be the same: leaves, merged votes and counts, trees polled, trees grown. Floats
are merged in another order, divisions and functions differ in their last bits: they have to be close. On one backend an
answer must not depend on the size of the batch, which is asked of every rule to the last bit.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import jax
import numpy as np

import jaxunc as ju

from .algorithms import problem
from .forests import make_forest, make_rows
from .rules import CONFIDENCE, rules_of, size
from .timing import WALK, Cases

CLOSE = 1e-5
"""Largest difference of floats, relative to the value or to 1, whichever is larger: as in the tests."""

CPU_SECONDS = 90
"""For all answers of the CPU."""

MOST_ROWS = 33_000
"""A call of 32 768, and a padded one for the rest."""

FEW_ROWS = 700
"""Rows that are asked by themselves, too: another program."""


def sources(quick: bool, walk: str | None) -> tuple[dict[str, Callable[[], np.ndarray]], dict[str, Callable]]:
    """Return what has to be equal to the last bit, and what has to be close, as functions by name.

    ``walk`` None: what suits the backend.
    """
    depth, n_trees, n = size(quick)
    forest, _ = make_forest(depth, n_trees)
    rng = np.random.default_rng(0)  # not by JAX: rows are made on the host for both
    X = rng.random((min(n, MOST_ROWS), forest.n_features), np.float32)
    holed = np.where(rng.random(X.shape) < 0.1, np.float32("nan"), X)
    exact = {
        "leaves": lambda: np.asarray(ju.leaf_index(forest, X, walk=walk)),
        "leaves, missing values": lambda: np.asarray(ju.leaf_index(forest, holed, walk=walk)),
        "merged votes": partial(_merged, forest, ju.Vote("literal"), X, walk),
        "merged counts": partial(_merged, forest, ju.Pooling(), X, walk),
        "settled votes": lambda: _votes(forest, X, walk),
        "grown trees": _grown,
    }
    close = {
        "mean, missing values": partial(_scores, forest, ju.Mean(), holed, walk),
        "cautious report": lambda: _report(forest, X, walk),
    }
    if quick:  # whose compilation takes longest
        names = "leaves", "leaves, missing values", "merged votes"
        exact, close = {name: exact[name] for name in names}, {}
    for name, rule in rules_of(forest, quick).items():
        close[name] = partial(_scores, forest, rule, X, walk)
    return exact, close


def _scores(forest: ju.Forest, rule: ju.Combiner, X: np.ndarray, walk) -> np.ndarray:
    scores = ju.bind(forest, rule, walk=walk)(X)
    return np.asarray(scores) if hasattr(scores, "ndim") else np.stack(jax.tree.leaves(scores), axis=-1)


def _merged(forest: ju.Forest, rule: ju.Combiner, X: np.ndarray, walk) -> np.ndarray:
    """The statistic of all trees, before the rule divides: whole numbers, and halves for ties of two classes."""
    table = ju.inference.leaf_table(forest, rule)
    merged = ju.inference.merge_leaves(forest, table, X, merge=rule.merge, missing=False, walk=walk)
    return np.concatenate([np.ravel(array) for array in jax.tree.leaves(merged)])


def _votes(forest: ju.Forest, X: np.ndarray, walk) -> np.ndarray:
    heard = ju.voting.bind_vote(forest, confidence=CONFIDENCE, walk=walk)(X)
    return np.column_stack([heard.predicted, heard.n_trees_used, heard.settled, heard.votes])


def _grown() -> np.ndarray:
    X, y = problem(5000, 30)
    forest = ju.grow_random_trees(jax.random.key(0), X, y, n_trees=20)
    arrays = forest.trees.feature, forest.trees.threshold, forest.trees.child, forest.code
    return np.stack(list(map(np.asarray, arrays)))


def _report(forest: ju.Forest, X: np.ndarray, walk) -> np.ndarray:
    interval = ju.bind(forest, ju.decisions.CautiousReport(2.0), walk=walk).answer(X).interval
    return np.stack([np.asarray(interval.lower), np.asarray(interval.upper)])


def correctness(quick: bool) -> Cases:
    """Everything against the CPU; then every rule on few rows against the same rows among all."""
    try:
        reference = _on_cpu(quick)
    except subprocess.SubprocessError as error:  # what needs no reference is still asked
        reference, failure = {}, type(error).__name__
        yield {"answer": "all of the CPU"}, lambda: {"failed": failure}
    exact, close = sources(quick, WALK)
    for name, answer in exact.items():
        yield {"answer": name, "to": "the last bit"}, lambda name=name, answer=answer: _same(answer(), reference[name])
    for name, answer in close.items():
        yield {"answer": name, "to": CLOSE}, lambda name=name, answer=answer: _close(answer(), reference[name])
    depth, n_trees, n = size(quick)
    forest, _ = make_forest(depth, n_trees)
    X = np.asarray(make_rows(min(n, MOST_ROWS)))
    for name, rule in rules_of(forest, quick).items():
        whole = partial(_scores, forest, rule, X, WALK)
        few = partial(_scores, forest, rule, X[:FEW_ROWS], WALK)
        labels = {"answer": f"{name}, by itself and among others", "to": "the last bit"}
        yield labels, lambda whole=whole, few=few: _same(few(), whole()[:FEW_ROWS])


def _same(found: np.ndarray, expected: np.ndarray) -> dict:
    if found.shape != expected.shape:
        return {"holds": False, "differ": f"shape {found.shape} instead of {expected.shape}"}
    differ = ~((found == expected) | (np.isnan(found) & np.isnan(expected)))
    return {"holds": not differ.any(), "differ": int(differ.sum()), "of": found.size, "most": _most(found, expected)}


def _close(found: np.ndarray, expected: np.ndarray) -> dict:
    most = _most(found, expected)
    return {"holds": most <= CLOSE, "differ": int((found != expected).sum()), "of": found.size, "most": most}


def _most(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference, relative to the value or 1; 2 where one is not finite and the other is something else."""
    found, expected = found.astype(np.float64), expected.astype(np.float64)
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    with np.errstate(invalid="ignore"):
        off = np.abs(found - expected) / np.maximum(1, np.abs(expected))
    return float(np.where(same, 0, np.where(np.isfinite(off), off, 2)).max(initial=0))


def _on_cpu(quick: bool) -> dict[str, np.ndarray]:
    """Return the answers of a process whose backend is the CPU; of what failed there none."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answers.npz"
        command = [sys.executable, "-m", "benchmarks.speed.accelerator.answers", str(path), *["--quick"] * quick]
        environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, timeout=CPU_SECONDS)
        with np.load(path) as found:
            return dict(found)


def main() -> None:
    """Write the answers of this process's backend."""
    parser = argparse.ArgumentParser()
    parser.add_argument("path", type=Path)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    exact, close = sources(options.quick, None)
    found = {}
    for name, answer in (exact | close).items():
        try:
            found[name] = answer()
        except Exception as error:  # the others are compared
            print(f"{name} on the CPU: {error}", file=sys.stderr)
    np.savez(options.path, **found)


if __name__ == "__main__":
    main()
