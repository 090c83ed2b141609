"""Compile the chunk program for a TPU v5e without one, and print what it holds (run by test_tpu.py)."""

import json
import re
import sys
from pathlib import Path

from jax.experimental import topologies

sys.path.insert(0, str(Path(__file__).parent))
from compile_for_gpu import cases, compiled_chunk

ROWS = 1024


def main() -> None:
    device = topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x2").devices[0]
    # A tree of four levels: larger programs take minutes.
    found = []
    for name, _, *how in [case for case in cases() if case[0] in ("mean", "missing values") and case[1] == 8]:
        compiled, rows = compiled_chunk("tpu", device, (name, 4, *how), ROWS)
        text = compiled.as_text()
        targets = sorted(set(re.findall(r'custom_call_target="(\w+)"', text)))
        memory = compiled.memory_analysis().temp_size_in_bytes
        gathers = len(re.findall(r" gather\(", text))
        found.append({"rule": name, "gathers": gathers, "targets": targets, "bytes_per_row": memory / rows})
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
