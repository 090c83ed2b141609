"""The command line's commands, one file each. Its only reader is ``jaxunc.__main__``."""

from importlib import import_module
from typing import Any

from ._arguments import add_marks, in_options, integer, printed, unknown

COMMANDS = {
    "fit": "fit a forest and a combiner on a table of data, and save them",
    "predict": "score files of any size with a saved model",
    "inspect": "say what a saved file holds",
    "compare": "compare combiners, or laws of numbers, on a table of data",
}
"""A line on each command, by its name."""
_APPLICATIONS = {"compare": "jaxunc.compare._command"}


def command_module(name: str) -> Any:
    """Return a module with ``DETAILS``, ``add_arguments(parser)``, ``run(args)`` and ``interrupted(args)``."""
    # Read only now: applications lie above this room, and need more packages.
    return import_module(_APPLICATIONS.get(name, f"{__name__}._{name}"))


__all__: list[str] = []
