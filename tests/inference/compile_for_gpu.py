"""Compile the program of a batch for an NVIDIA H200 without one, and print its kernels (run by test_gpu_compile.py)."""

import json
import re
import sys
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import topologies

import jaxunc as ju
from jaxunc.explanations import _explain
from jaxunc.explanations._calls import _values_and_mark
from jaxunc.explanations._statistic import leaf_statistic
from jaxunc.inference import known_plan, shapes_of
from jaxunc.inference._bind import answer_and_mark
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


def compiled_chunk(platform: str, device, case: tuple, rows: int | None = None):
    """The program of a batch compiled for a device that need not be there, and its number of instances."""
    _, depth, rule, missing, mask, readout = case
    sharding = jax.sharding.SingleDeviceSharding(device)
    forest = shapes_of_forest(N_TREES, 2 ** (depth + 1), N_COLUMNS, depth)
    engine = ju.bind(forest, rule, walk="levels").engine
    engine = engine.for_missing() if missing else engine
    block = engine.call().block
    rows = rows or block
    placed = lambda shape, dtype: jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)
    rule, arrays = jax.tree.map(lambda a: placed(a.shape, a.dtype), (rule, engine.packed.arrays))
    x, in_mask = placed((rows, N_COLUMNS), jnp.float32), placed((rows, N_TREES), bool) if mask else None

    def program(rule, *given):
        with jax.enable_x64(False):
            return answer_and_mark.function(engine.packed.spec, block, rule, readout, *given)

    with jax.enable_x64(True):  # shapes of 64 bits, which nodes have, are taken in this mode alone
        traced = jax.jit(program).trace(rule, arrays, x, in_mask)
    return traced.lower(lowering_platforms=(platform,)).compile(), rows


def compiled_vote(device):
    """The program of a vote until it is settled."""
    vote = ju.voting.bind_vote(shapes_of_forest(N_TREES, 2**9, N_COLUMNS, 8), walk="levels")
    plan, classes = vote._plan(vote.forest.trees, False)
    how = {"max_trees": N_TREES, "missing": False, "depth": 8, "block": VOTES}

    def program(*given):
        with jax.enable_x64(False):
            return poll_by_levels.function(*given, **how)

    sharding = jax.sharding.SingleDeviceSharding(device)
    placed = lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding)
    x = jax.ShapeDtypeStruct((VOTES, N_COLUMNS), jnp.float32, sharding=sharding)
    with jax.enable_x64(True):
        traced = jax.jit(program).trace(*jax.tree.map(placed, (plan, classes, vote.rule)), x)
    return traced.lower(lowering_platforms=("cuda",)).compile()


def compiled_mesh(devices, several: int):
    """The program of a batch on four devices, two along 'data' and two along 'tree', in ``several`` blocks on each."""
    mesh = jax.sharding.Mesh(np.reshape(devices, (2, 2)), AXES, axis_types=(jax.sharding.AxisType.Auto,) * 2)
    grid, forest = Grid(mesh, ((0, 0), (0, 0)), 0), shapes_of_forest(N_TREES, 2**9, N_COLUMNS, 8)
    packed = ju.bind(forest, ju.Mean(), walk="levels").engine.packed
    block = shapes_of(packed.spec, N_TREES // 2, N_COLUMNS).large.block
    whole = Program(grid, packed.spec, N_TREES, block)

    def program(*given):
        with jax.enable_x64(False):
            return answer_on_mesh.__wrapped__(whole, ju.Mean(), "class_scores", *given, None)

    def placed(tree, *axes):
        sharding = grid.sharding(*axes)
        return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding), tree)

    x = jax.ShapeDtypeStruct((2 * several * block, N_COLUMNS), jnp.float32)
    shared = placed((packed.totals, packed.rows, packed.sets))
    with jax.enable_x64(True):
        traced = jax.jit(program).trace(placed(packed.arrays[:3], "tree"), shared, placed(x, "data"))
    return traced.lower(lowering_platforms=("cuda",)).compile(), block


def compiled_neighbours(device, n_rows: int, several: int):
    """The program that finds the neighbours of queries among so many rows, in ``several`` blocks."""
    trees, block = shapes_of_forest(N_TREES, 2**9, N_COLUMNS, 8).trees, DEVICE_SUMS // n_rows
    sharding = jax.sharding.SingleDeviceSharding(device)
    placed = lambda shape, dtype: jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)
    plan = jax.tree.map(lambda a: placed(a.shape, a.dtype), known_plan(trees))
    rows = [placed((N_TREES, n_rows), dtype) for dtype in (jnp.int32, jnp.float32)]
    length, x = placed((N_TREES * 2**9,), jnp.uint32), placed((several * block, N_COLUMNS), jnp.float32)

    def program(plan, *rows_and_queries):
        with jax.enable_x64(False):
            how = {"k": 10, "block": block, "depth": 8, "kind": "prediction"}
            *rows_by_tree, x = rows_and_queries
            return _largest_of_all.__wrapped__(plan, rows_by_tree, x, None, **how)

    with jax.enable_x64(True):
        traced = jax.jit(program).trace(plan, *rows, length, x)
    return traced.lower(lowering_platforms=("cuda",)).compile()


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
    placed = lambda a: jax.ShapeDtypeStruct(np.shape(a), a.dtype, sharding=sharding)
    x = jax.ShapeDtypeStruct((n_rows, N_COLUMNS), jnp.float32, sharding=sharding)
    program = jax.jit(lambda arrays, x: _values_and_mark.function(True, static, arrays, None, x, None))
    return program.trace(jax.tree.map(placed, kernel.arrays), x).lower(lowering_platforms=("cuda",)).compile()


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


def main() -> None:
    topology = topologies.get_topology_desc(platform="cuda", topology="1x1x4", target_config=H200)
    found = []
    for case in cases():
        compiled, rows = compiled_chunk("cuda", topology.devices[0], case)
        names = dict(zip(("rule", "depth"), case, strict=False))
        # What `block_size` counts on: 12 bytes a tree, and 4 for each key.
        promised = rows * (12 * N_TREES + 4 * N_COLUMNS * (1 + case[3]))
        memory = {"bytes": compiled.memory_analysis().temp_size_in_bytes, "promised": promised}
        found.append({**names, "rows": rows, "kernels": launches(compiled), **memory})
    # A batch of several blocks, and a vote.
    several = 3 * found[0]["rows"]
    compiled, rows = compiled_chunk("cuda", topology.devices[0], next(cases()), several)
    memory = compiled.memory_analysis()
    blocks = {"rows": rows, "kernels": launches(compiled), "bytes": memory.temp_size_in_bytes}
    vote = compiled_vote(topology.devices[0])
    memory = vote.memory_analysis()
    votes = {"rows": VOTES, "kernels": launches(vote), "bytes": memory.temp_size_in_bytes}
    compiled, rows = compiled_mesh(topology.devices, 3)
    memory = compiled.memory_analysis()
    collectives = re.findall(r" (all-to-all|all-gather|all-reduce|collective-permute)(?:-start)?\(", compiled.as_text())
    mesh = {"rows": rows, "collectives": collectives, "bytes": memory.temp_size_in_bytes}
    compiled = compiled_neighbours(topology.devices[0], 10_000, 3)
    near = {"kernels": launches(compiled), "bytes": compiled.memory_analysis().temp_size_in_bytes}
    printed = {"cases": found, "blocks": blocks, "vote": votes, "mesh": mesh, "neighbours": near}
    by_name = {
        "explain by cover": compiled_explanation(topology.devices[0], False, 200_000),
        "explain against rows": compiled_explanation(topology.devices[0], True, 10_000),
        "transduction": compiled_transduction(topology.devices[0], 8192, 64),
    }
    for name, compiled in by_name.items():
        size = compiled.memory_analysis().temp_size_in_bytes
        printed[name] = {"kernels": launches(compiled), "loops": loops(compiled), "bytes": size}
    json.dump(printed, sys.stdout)


if __name__ == "__main__":
    main()
