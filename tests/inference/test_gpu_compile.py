"""The form for accelerators, compiled for a GPU without one."""

import importlib.util

import pytest

from tests.inference._same import printed_by

pytestmark = pytest.mark.once

# Beside the levels: starts of trees, keys, merge, finish, and two for the mark of the rows. Pooling's exact arithmetic
# finishes in two kernels; a median sorts; a report has masses, an interval and sets.
KERNELS = {"pooling": 7, "median": 8, "report": 18}
PLUGINS = ("jax_cuda12_plugin", "jax_cuda13_plugin")


@pytest.mark.skipif(
    not any(importlib.util.find_spec(name) for name in PLUGINS),
    reason="compiling for a GPU needs JAX's CUDA plugin: pip install jax-cuda12-plugin jax-cuda12-pjrt",
)
def test_one_kernel_per_level_and_a_gigabyte():
    printed = printed_by("compile_for_gpu.py")
    found = printed["cases"]
    assert len(found) == 14
    for case in found:
        assert len(case["kernels"]) <= case["depth"] + KERNELS.get(case["rule"], 6), case
        assert case["bytes"] <= min(case["promised"] + 10_000, 1_000_000_000), case
        assert case["rows"] >= 500_000, case
    by_rule = {(case["rule"], case["depth"]): case["bytes"] for case in found}
    # Levels take turns in the same memory.
    assert all(by_rule[rule, 16] == size for (rule, depth), size in by_rule.items() if (rule, 16) in by_rule), by_rule
    # Blocks of a batch take turns, too. A vote is counted for all trees at once: no loop launches kernels tree by tree.
    assert printed["blocks"]["bytes"] <= 1_000_000_000, printed["blocks"]
    assert printed["blocks"]["kernels"].count("while") == 1
    assert printed["vote"]["bytes"] <= 1600 * printed["vote"]["rows"], printed["vote"]
    assert len(printed["vote"]["kernels"]) <= 8 + 14, printed["vote"]
    assert "while" not in printed["vote"]["kernels"]
    # Tree shards exchange what they merged, and the answers, block by block: the program has each once, in the loop.
    assert printed["mesh"]["collectives"] == ["all-to-all", "all-gather"]
    assert printed["mesh"]["bytes"] <= 1_000_000_000, printed["mesh"]
    # Sums of a block's queries for all rows, once and sorted, and no more for more queries.
    assert printed["neighbours"]["bytes"] <= 300_000_000, printed["neighbours"]
    assert printed["neighbours"]["kernels"].count("while") == 1
    # Explanations and pairs go block by block in one program. A step launches some kernels, however many rows there
    # are: to enter a node, to leave it, or between them; rows of the background, or paths; a test of all pairs.
    for name, steps, size in (
        ("explain by cover", [4, 5, 11], 150_000_000),
        ("explain against rows", [8, 10, 15], 300_000_000),
        ("transduction", [9], 50_000_000),
    ):
        program = printed[name]
        assert program["kernels"].count("while") == 1, (name, program)
        assert len(program["kernels"]) <= 16, (name, program)
        assert all(map(int.__le__, program["loops"][:3], steps)), (name, program)
        assert program["bytes"] <= size, (name, program)
