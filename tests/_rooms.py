"""The rooms, from the one list of them that all others are compared with: the layers in ``pyproject.toml``."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent

_CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]

LAYERS = tuple(layer.removeprefix("jaxunc.") for layer in reversed(_CONTRACTS[0]["layers"]))
"""Modules and rooms, each of which imports only from those before it."""

ROOMS = tuple(layer for layer in LAYERS if not layer.startswith("_"))
"""The rooms alone, in that order."""

INNER = ("commands",)
"""Rooms that are no attributes of ``jaxunc``: the command line and what it reads and writes."""

AT_ONCE = ROOMS[: ROOMS.index("counting") + 1]
"""Rooms down to the last that ``import jaxunc`` reads; `INNER` ones among them are read when they are first used."""
