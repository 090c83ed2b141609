"""The form for accelerators, lowered for a TPU; and compiled for one where its compiler is installed."""

import importlib.util
import re
from collections import Counter

import jax
import jax.numpy as jnp
import pytest
from jax import export

import jaxunc as ju
from jaxunc.inference._by_table import answer_and_mark
from jaxunc.voting._rounds import RoundsWalk, _votes
from tests.inference._same import printed_by

from .compile_for_gpu import shapes_of_forest

pytestmark = pytest.mark.once

DEPTH, N_TREES, N_COLUMNS, ROWS = 8, 100, 32, 1024
RULES = {
    "mean": ju.Mean(),
    "vote": ju.Vote(),
    "evidence": ju.EvidenceAccumulation(jnp.array([0.4, 0.6])),
    "dempster": ju.DempsterRule(),
    "report": ju.decisions.CautiousReport(2.0, mass="certainty"),
}
MOVED = {"constant", "broadcast_in_dim", "reshape", "dynamic_slice", "gather", "optimization_barrier"}
CUT = {"shift_right_logical", "convert"}
BARRIERS = DEPTH + 2
"""At least: one before the first level, one for the second copy of the nodes, one after each level."""


@pytest.fixture(scope="module")
def forest():
    return shapes_of_forest(N_TREES, 2 ** (DEPTH + 1), N_COLUMNS, DEPTH)


placed = lambda dtype, *shape: jax.ShapeDtypeStruct(shape, dtype)


def check(text: str, *, tables: int) -> None:
    """A level is three gathers and a barrier; nothing else walks, and nothing is for one backend."""
    operations = Counter(re.findall(r"stablehlo\.(\w+)\"?[ (]", text))
    assert not {name for name in operations if "custom_call" in name or name in ("while", "sort", "case")}, operations
    assert 3 * DEPTH < operations["gather"] <= 3 * DEPTH + tables, operations
    assert operations["optimization_barrier"] >= BARRIERS, operations
    types = set(re.findall(r"tensor<([^>]*>?)>", text))
    assert types
    assert not {kind for kind in types if "f64" in kind}, types
    # Nodes and pairs of planes are elements of 64 bits: looked up and cut in two, never computed with.
    wide = set(re.findall(r"stablehlo\.(\w+)[^\n]*i64>", text))
    assert wide <= MOVED | CUT, wide
    # Leaves are looked up and reduced; there is no tensor of all trees' statistics.
    assert f"{ROWS}x{N_TREES}x2x" not in text


def exported(forest, rule, *, missing=False, mask=False, walk="levels") -> str:
    engine = ju.bind(forest, rule, walk=walk).engine
    engine = engine.for_missing() if missing else engine
    in_mask = placed(bool, ROWS, N_TREES) if mask else None
    program = export.export(answer_and_mark.jitted, platforms=["tpu"])
    x = placed(jnp.float32, ROWS, N_COLUMNS)
    return program(engine.packed.spec, ROWS, rule, None, engine.packed.arrays, x, in_mask).mlir_module()


@pytest.mark.room(keep=1)
@pytest.mark.parametrize("missing_and_mask", [False, True])
@pytest.mark.parametrize("name", RULES)
def test_lowers(forest, name, missing_and_mask):
    text = exported(forest, RULES[name], missing=missing_and_mask, mask=missing_and_mask)
    check(text, tables=3 if name == "report" else 1)


def test_settled_votes_lower(forest):
    vote = ju.voting.bind_vote(forest, walk="levels")
    way = RoundsWalk(missing=True, walk="levels", depth=DEPTH)
    x, start = placed(jnp.float32, ROWS, N_COLUMNS), placed(jnp.int32)
    program = export.export(_votes, platforms=["tpu"])
    check(program(*vote._plan(forest.trees, True), x, start, length=16, way=way).mlir_module(), tables=1)


def test_the_walk_of_a_cpu_is_told_apart(forest):
    with pytest.raises(AssertionError, match="while"):
        check(exported(forest, ju.Mean(), walk="blocks"), tables=1)


@pytest.mark.skipif(not importlib.util.find_spec("libtpu"), reason="compiling for a TPU needs its compiler: libtpu")
def test_compiles():
    found = printed_by("compile_for_tpu.py")
    assert len(found) == 2
    for case in found:
        # The two words of a node are gathered one by one there.
        assert case["gathers"] <= 4 * 4 + 1, case
        assert not set(case["targets"]) - {"AssumeGatherIndicesInBound", "ConcatBitcast", "X64SplitHigh", "X64SplitLow"}
        # Rows of 100 trees and of the keys are padded to 128 lanes.
        assert case["bytes_per_row"] <= 12 * 128 + 4 * 128, case
