"""The command line's commands, one file each. Its only reader is ``jaxunc.__main__``."""

from ._arguments import add_marks, in_options, integer, printed, unknown

COMMANDS = {
    "fit": "fit a forest and a combiner on a table of data, and save them",
    "predict": "score files of any size with a saved model",
    "inspect": "say what a saved file holds",
    "compare": "compare combiners, or laws of numbers, on a table of data",
}
"""A line on each command, by its name."""

__all__: list[str] = []
