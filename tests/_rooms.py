"""The rooms, from the one list of them that all others are compared with: the layers in ``pyproject.toml``."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent

_CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]

LAYERS = tuple(
    name.strip().removeprefix("jaxunc.")
    for floor in reversed(_CONTRACTS[0]["layers"])
    for name in reversed(floor.split("|"))
)
"""Modules and rooms from the ground up; those of one floor do not import each other."""

ROOMS = tuple(layer for layer in LAYERS if not layer.startswith("_"))
"""The rooms alone, in that order."""

INNER = ("commands",)
"""Rooms that are no attributes of ``jaxunc``: the command line and what it reads and writes."""

AT_ONCE = ("tables", "belief", "forest", "scorers", "combiners", "inference", "counting")
"""Rooms that ``import jaxunc`` reads; the others are read when they are first used."""
