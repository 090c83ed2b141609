"""The commands of the command line, one file each. Only ``jaxunc.__main__`` imports this package."""

from ._arguments import add_marks, in_options, integer, printed, unknown

COMMANDS = {
    "fit": "fit a forest and a combiner on a table of data, and save them",
    "predict": "score files of any size with a saved model",
    "inspect": "say what a saved file holds",
    "compare": "compare combiners, or laws of numbers, on a table of data",
}
"""A line of help on each command, by the command's name."""

__all__: list[str] = []
