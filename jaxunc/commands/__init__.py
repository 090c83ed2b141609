"""The command line's commands, one file each: arguments and action. Its only reader is ``jaxunc.__main__``."""

from . import _compare, _fit, _inspect, _predict
from ._arguments import in_options

COMMANDS = {"fit": _fit, "predict": _predict, "inspect": _inspect, "compare": _compare}
"""Commands by name: modules with ``ABOUT``, ``DETAILS``, ``add_arguments(parser)`` and ``run(args)``."""

__all__: list[str] = []
