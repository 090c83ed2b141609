"""Compile the program of a batch for an NVIDIA H200 without one, and print its kernels (run by test_gpu_compile.py)."""

import json
import re
import sys
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import topologies

import jaxunc as ju
from jaxunc.explanations import _explain
from jaxunc.explanations._calls import _values_and_mark
from jaxunc.explanations._statistic import leaf_statistic
from jaxunc.inference import known_plan, shapes_of
from jaxunc.inference._by_table import answer_and_mark
from jaxunc.parallel._device_programs import Program, answer_on_mesh
from jaxunc.parallel._mesh import AXES, Grid
from jaxunc.proximity._neighbours import DEVICE_SUMS, _largest_of_all
from jaxunc.tables import Columns, Encoded
from jaxunc.transduction import _dense
from jaxunc.voting._rounds import poll_by_levels

H200 = """
gpu_device_info {
  threads_per_block_limit: 1024  threads_per_warp: 32  shared_memory_per_block: 49152
  shared_memory_per_core: 233472  threads_per_core_limit: 2048  core_count: 132  fpus_per_core: 128
  block_dim_limit_x: 2147483647  block_dim_limit_y: 65535  block_dim_limit_z: 65535
  memory_bandwidth: 4800000000000  l2_cache_size: 52428800  clock_rate_ghz: 1.98
  device_memory_size: 151397597184  shared_memory_per_block_optin: 232448
  cuda_compute_capability { major: 9 }  registers_per_core_limit: 65536  registers_per_block_limit: 65536
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 10 patch: 0 }
runtime_version { major: 12 minor: 8 patch: 0 }
device_description_str: "NVIDIA H200 141GB HBM3e"
"""
N_TREES, N_COLUMNS, VOTES = 100, 32, 2**17
FREE = {"parameter", "constant", "bitcast", "get-tuple-element", "tuple"}


def launches(compiled, computation: str = "ENTRY ") -> list[str]:
    """Operations of an optimised computation that launch a kernel; by default of the entry."""
    body = re.search(rf"^{computation}[^\n]*\{{\n(.*?)^\}}", compiled.as_text(), re.S | re.M).group(1)
    operations = []
    for line in body.splitlines():
        match = re.match(r"\s*(?:ROOT )?%?([\w.-]+) = (?:\(.*?\)|\S+) ([a-z][\w-]*)\(", line)
        if match and match.group(2) not in FREE:
            operations.append(match.group(2))
    return operations


def shapes_of_forest(n_trees: int, n_nodes: int, n_features: int, depth: int) -> ju.Forest:
    """A forest of the given shape whose values do not matter: only shapes are compiled."""
    nodes = jnp.zeros((n_trees, n_nodes), jnp.int32)
    depths = jnp.full(n_trees, depth, jnp.int32)
    trees = ju.forest.Trees(nodes, nodes, nodes, nodes.astype(bool), depths, Columns(n_features))
    table, prior = jnp.ones((1024, 2), jnp.int32), jnp.array([0.4, 0.6])
    return ju.Forest(trees, table, nodes, prior, jnp.array(100.0), class_labels=(0, 1))


def cases():
    """(name, depth, rule, with missing values, with a mask, read-out): the usual rules by depth, others by form."""
    evidence = ju.EvidenceAccumulation(jnp.array([0.4, 0.6]))
    rules = {"mean": ju.Mean(), "vote": ju.Vote(), "pooling": ju.Pooling()}
    rules |= {"evidence": evidence, "dempster": ju.DempsterRule()}
    for depth in (8, 16):
        for name, rule in rules.items():
            yield name, depth, rule, False, False, "class_scores"
    yield "missing values", 8, ju.Mean(), True, False, "class_scores"
    yield "mask", 8, ju.Mean(), False, True, "class_scores"
    yield "median", 8, ju.Median(), False, False, "class_scores"
    yield "report", 8, ju.decisions.CautiousReport(2.0, mass="certainty"), False, False, None


def described(tree, sharding):
    """The shapes of arrays, or of their shapes, where they are to lie."""
    return jax.tree.map(lambda a: jax.ShapeDtypeStruct(np.shape(a), a.dtype, sharding=sharding), tree)


def described_rows(number: int, sharding) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((number, N_COLUMNS), jnp.float32, sharding=sharding)


def compile_call(call, *shapes, platform: str = "cuda"):
    """A call compiled for a device that need not be there, in the 32-bit mode.

    Shapes of 64 bits, which nodes have, are taken in the other mode alone.
    """

    def program(*given):
        with jax.enable_x64(False):
            return call(*given)

    with jax.enable_x64(True):
        traced = jax.jit(program).trace(*shapes)
    return traced.lower(lowering_platforms=(platform,)).compile()


def compiled_chunk(platform: str, device, case: tuple, rows: int | None = None):
    """The program of a batch, and its number of instances."""
    _, depth, rule, missing, mask, readout = case
    sharding = jax.sharding.SingleDeviceSharding(device)
    forest = shapes_of_forest(N_TREES, 2 ** (depth + 1), N_COLUMNS, depth)
    engine = ju.bind(forest, rule, walk="levels").engine
    engine = engine.for_missing() if missing else engine
    block = engine.call().block
    rows = rows or block
    in_mask = jax.ShapeDtypeStruct((rows, N_TREES), bool, sharding=sharding) if mask else None
    call = lambda rule, *given: answer_and_mark.function(engine.packed.spec, block, rule, readout, *given)
    shapes = *described((rule, engine.packed.arrays), sharding), described_rows(rows, sharding), in_mask
    return compile_call(call, *shapes, platform=platform), rows


def compiled_vote(device):
    """The program of a vote until it is settled."""
    vote = ju.voting.bind_vote(shapes_of_forest(N_TREES, 2**9, N_COLUMNS, 8), walk="levels")
    how = {"max_trees": N_TREES, "missing": False, "depth": 8, "block": VOTES}
    sharding = jax.sharding.SingleDeviceSharding(device)
    shapes = described((*vote._plan(vote.forest.trees, False), vote.rule), sharding)
    return compile_call(partial(poll_by_levels.function, **how), *shapes, described_rows(VOTES, sharding))


def compiled_mesh(devices, several: int):
    """The program of a batch on four devices, two along 'data' and two along 'tree', in ``several`` blocks on each."""
    mesh = jax.sharding.Mesh(np.reshape(devices, (2, 2)), AXES, axis_types=(jax.sharding.AxisType.Auto,) * 2)
    grid, forest = Grid(mesh, ((0, 0), (0, 0)), 0), shapes_of_forest(N_TREES, 2**9, N_COLUMNS, 8)
    packed = ju.bind(forest, ju.Mean(), walk="levels").engine.packed
    block = shapes_of(packed.spec, N_TREES // 2, N_COLUMNS).large.block
    whole = Program(grid, packed.spec, N_TREES, block)
    call = lambda *given: answer_on_mesh.__wrapped__(whole, ju.Mean(), "class_scores", *given, None)
    trees = described(packed.arrays[:3], grid.sharding("tree"))
    shared = described((packed.totals, packed.rows, packed.sets), grid.sharding())
    return compile_call(call, trees, shared, described_rows(2 * several * block, grid.sharding("data")))


def compiled_neighbours(device, n_rows: int, several: int):
    """The program that finds the neighbours of queries among so many rows, in ``several`` blocks."""
    trees, block = shapes_of_forest(N_TREES, 2**9, N_COLUMNS, 8).trees, DEVICE_SUMS // n_rows
    sharding = jax.sharding.SingleDeviceSharding(device)
    placed = lambda dtype, *shape: jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)
    rows = [placed(dtype, N_TREES, n_rows) for dtype in (jnp.int32, jnp.float32)]
    rows.append(placed(jnp.uint32, N_TREES * 2**9))
    how = {"k": 10, "block": block, "depth": 8, "kind": "prediction"}
    call = lambda plan, rows, x: _largest_of_all.__wrapped__(plan, rows, x, None, **how)
    return compile_call(call, described(known_plan(trees), sharding), rows, described_rows(several * block, sharding))


def compiled_explanation(device, background: bool, n_rows: int):
    """The program that explains a forest of 100 trees of depth 8, by cover or against 100 rows."""
    rng, shape = np.random.default_rng(0), shapes_of_forest(N_TREES, 2**9, N_COLUMNS, 8)
    heap = np.arange(2**9 - 1)
    child = np.append(np.where(heap < 2**8 - 1, 2 * heap + 1, heap), 2**9 - 1)
    arrays = {"child": np.tile(child, (N_TREES, 1)), "feature": rng.integers(0, N_COLUMNS, (N_TREES, 2**9))}
    arrays |= {"threshold": rng.integers(0, 2**30, (N_TREES, 2**9))}
    forest = replace(shape, trees=replace(shape.trees, **{k: jnp.asarray(a, jnp.int32) for k, a in arrays.items()}))
    covered = Encoded(np.zeros((100, N_COLUMNS), np.float32), False) if background else forest
    statistic = leaf_statistic(forest, ju.Mean())
    summands = _explain._summands(forest.trees, statistic, covered, "accelerator", False)
    kernel = _explain._kernel(summands, covered, N_COLUMNS, "accelerator")
    static = kernel.program.function, kernel.setting, kernel.shapes.single.rows, summands.last_follows
    sharding = jax.sharding.SingleDeviceSharding(device)
    call = lambda arrays, x: _values_and_mark.function(True, static, arrays, None, x, None)
    return compile_call(call, described(kernel.arrays, sharding), described_rows(n_rows, sharding))


def compiled_transduction(device, n: int, n_tests: int):
    """The program that follows the pairs of 1000 queries and two labels in a training set of n instances."""
    sharding = jax.sharding.SingleDeviceSharding(device)
    placed = lambda shape, dtype: jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)
    few = _dense.DEVICE_BLOCK // max(n, 2 * n_tests)
    with jax.enable_x64(True):
        dense = placed((n_tests, n), bool), placed((n, 2 + 2 * n_tests), jnp.float32), placed((n + 2,), jnp.int64)
        numbers = placed((-(-2000 // few), few), jnp.int32), placed((), jnp.int64), placed((), jnp.int64)
        how = {"n_labels": 2, "leaves_out": False, "boundaries": True}
        program = jax.jit(lambda dense, *given: _dense._leaves.__wrapped__(_dense.Dense(*dense), *given, **how))
        traced = program.trace(dense, placed((1024, n_tests), bool), *numbers)
        return traced.lower(lowering_platforms=("cuda",)).compile()


def loops(compiled) -> list[int]:
    """Numbers of kernels in the bodies of all loops, ascending."""
    text = compiled.as_text()
    named = set(re.findall(r"while\(.*?body=%?([\w.-]+)", text))
    return sorted(len(launches(compiled, rf"%?{re.escape(name)} ")) for name in named)


def told(compiled, **more) -> dict:
    """What is printed of a program, beside what is known of it."""
    return {"kernels": launches(compiled), "bytes": compiled.memory_analysis().temp_size_in_bytes, **more}


def main() -> None:
    devices = topologies.get_topology_desc(platform="cuda", topology="1x1x4", target_config=H200).devices
    device, found = devices[0], []
    for case in cases():
        compiled, rows = compiled_chunk("cuda", device, case)
        # What `block_size` counts on: 12 bytes a tree, and 4 for each key.
        promised = rows * (12 * N_TREES + 4 * N_COLUMNS * (1 + case[3]))
        found.append(told(compiled, rule=case[0], depth=case[1], rows=rows, promised=promised))
    several, mesh = 3 * found[0]["rows"], compiled_mesh(devices, 3)
    collectives = re.findall(r" (all-to-all|all-gather|all-reduce|collective-permute)(?:-start)?\(", mesh.as_text())
    printed = {
        "cases": found,
        "blocks": told(compiled_chunk("cuda", device, next(cases()), several)[0]),
        "vote": told(compiled_vote(device), rows=VOTES),
        "mesh": told(mesh, collectives=collectives),
        "neighbours": told(compiled_neighbours(device, 10_000, 3)),
    }
    of_loops = {
        "explain by cover": compiled_explanation(device, False, 200_000),
        "explain against rows": compiled_explanation(device, True, 10_000),
        "transduction": compiled_transduction(device, 8192, 64),
    }
    printed |= {name: told(compiled, loops=loops(compiled)) for name, compiled in of_loops.items()}
    json.dump(printed, sys.stdout)


if __name__ == "__main__":
    main()
