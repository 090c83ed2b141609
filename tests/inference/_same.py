"""Rules, answers that are to be the same, trees that are merged in parts, programs that stay in one thread or print."""

import json
import os
import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxunc as ju
from jaxunc.inference import cut
from jaxunc.inference._by_table import ByTable, merge_and_finish
from tests._rules import RULES

FURTHER = {
    "mixture, median": lambda prior: ju.GeneralizedMixture(reference="median"),
    "mixture, maximum": lambda prior: ju.GeneralizedMixture(ju.scorers.laplace, "maximum"),
    "mixture, one vs rest": lambda prior: ju.OneVsRest(ju.GeneralizedMixture(ju.scorers.plausibility)),
    "blend of collected": lambda prior: ju.Stack([ju.GeneralizedMixture(), ju.Median(), ju.Mean()], [0.5, 0.25, 0.25]),
    "one vs rest, a list": lambda prior: ju.OneVsRest([ju.DempsterRule(prior=p) for p in prior]),
    "median of laplace": lambda prior: ju.Median(ju.scorers.laplace),
    "uncertainty": lambda prior: ju.UncertaintyDecomposition(),
    "uncertainty, plausibility": lambda prior: ju.UncertaintyDecomposition("plausibility"),
    "uncertainty, interval": lambda prior: ju.UncertaintyDecomposition("interval", s=1.5),
    "averaged intervals": lambda prior: ju.AveragedIntervals(1.3),
    "vote of intervals": lambda prior: ju.GeneralizedVote(1.0, "leaf_size"),
    "explained vote": lambda prior: ju.ExplainedVote(1.0, "certainty"),
    "cautious report": lambda prior: ju.decisions.CautiousReport(2.0, "certainty"),
    "learned vote": lambda prior: ju.LearnedVote(1.5, 0.5, 2.0),
    "calibrated median": lambda prior: ju.Calibrated(ju.Median(), 1.3, np.linspace(0, 1, len(prior))),
    "vote of equal masses": lambda prior: ju.GeneralizedVote(1.0),
    "vote by certainty": lambda prior: ju.GeneralizedVote(1.0, "certainty"),
}
"""Rules beside those of `tests._rules`, made of a prior."""


def rule_of(name: str, n_classes: int, n_trees: int) -> ju.Combiner:
    """The rule for so many classes; a rule of more classes than `tests._rules.make` knows has a prior of its own."""
    prior = np.arange(1, n_classes + 1) / (n_classes * (n_classes + 1) / 2)
    return FURTHER[name](prior) if name in FURTHER else RULES[name].make(prior, np.arange(n_trees))


def assert_equal(found: Any, expected: Any) -> None:
    jax.tree.map(np.testing.assert_array_equal, found, expected)


def assert_same_bits(found: Any, expected: Any) -> None:
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert np.asarray(a).dtype == np.asarray(b).dtype
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@jax.jit
def merged(packed: Any, X: Any, *mask: Any) -> Any:
    return packed.merge(X, *mask)


@jax.jit
def _in_halves(packed: Any, X: Any) -> Any:
    """The first two trees, and then the others."""
    carry = packed.of_trees(0, 2).advance(packed.start(len(X)), X)
    return packed.result(packed.of_trees(2, packed.n_trees).advance(carry, X))


@jax.jit
def _padded(packed: Any, X: Any, mask: Any) -> Any:
    return packed.padded(2).merge(X, mask)


@jax.jit
def _joined(packed: Any, X: Any) -> Any:
    """As the halves of shards."""
    halves = packed.of_trees(0, 2), packed.of_trees(2, packed.n_trees)
    return packed.result(packed.join(*(half.advance(half.start(len(X)), X) for half in halves)))


def printed_by(name: str) -> Any:
    """What a program of this folder prints that compiles for an accelerator: on the CPU platform it asks for none."""
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "0", "TPU_SKIP_MDS_QUERY": "1"}
    command = [sys.executable, Path(__file__).with_name(name)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    return json.loads(run.stdout)


def check_parts(packed: Any, other: Any, X: Any, mask: Any, walk: str = "blocks") -> None:
    """Under a mask, from a pickle, with padding trees and one half behind the other packed trees merge to the bits of
    the others; halves that are joined, and all halves of trees that are walked by levels, round once more."""
    whole, masked = merged(other, X), merged(other, X, mask)
    assert_same_bits(merged(packed, X, mask), masked)
    assert_same_bits(merged(pickle.loads(pickle.dumps(packed)), X), whole)
    more = np.pad(mask, ((0, 0), (0, 2)), constant_values=True)
    for longer, part in zip(jax.tree.leaves(_padded(packed, X, more)), jax.tree.leaves(masked), strict=True):
        if part.ndim > 1:  # others count trees; what is collected is longer
            assert_same_bits(longer[tuple(map(slice, part.shape))], part)
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    jax.tree.map(close, _joined(packed, X), whole)
    (assert_same_bits if walk == "blocks" else partial(jax.tree.map, close))(_in_halves(packed, X), whole)


def check_stays_in_thread(bound: Any, n: int, missing: bool) -> Any:
    """XLA on a CPU hands over a program that counts 1000 operations, and one of an operation on more than 512 KB.

    Returns the call of so few instances, which is neither.
    """
    engine = bound._engine(missing)
    assert isinstance(engine, ByTable)
    call = engine.call()
    chunk = cut(n, call.shapes, 1)[0]
    x = jax.ShapeDtypeStruct((chunk.chunk.rows, bound.forest.n_features), jnp.float32)
    given = bound.combiner, "probability", call.arrays, x, None, chunk.number
    program = merge_and_finish.jitted.lower(call.spec, chunk.chunk.block, *given).compile()
    assert 0 < program.cost_analysis()["flops"] < 1000
    assert "outer_dimension_partitions" not in program.as_text()
    return call
