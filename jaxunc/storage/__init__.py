"""Trees, forests, combiners, bound forests and fitted estimators in files that hold data and no code.

A file is one of safetensors: every array under a name that says where it belongs (``forest.trees.child``), and in the
header, under ``__metadata__`` → ``jaxunc``, a JSON document:

    {"form": 1, "version": "0.2.0", "object": NODE}

A NODE is a number, a string, true, false or null as it is. Any other is an object with one key that says what it is:

    {"array": NAME}                            an array of the file; {"array": NAME, "on": "host"} for NumPy's
    {"float": "nan" | "inf" | "-inf"}          a number that JSON has not
    {"tuple" | "list": [NODE, …]}              {"dict": {KEY: NODE, …}}
    {"json": NAME}                             a long tuple of strings and numbers, as JSON in an array of bytes
    {"labels": NODE, "dtype": TEXT}            a NumPy array of strings or objects
    {"class": NAME, "fields": {FIELD: NODE}}   trees, forests, columns, combiners, moments, bins and laws of numbers;
                                               an own class as "module:Name"
    {"scorer": NAME, "args": …, "settings": …} a function of `jaxunc.scorers`, or an own one; {"scorer": NAME} as it is
    {"bound": NODE, "combiner": NODE}          what `bind` returns; {"vote": NODE, "settings": NODE} of `bind_vote`
    {"estimator": NAME, "params": {…}, "fitted": {…}}     with "transformers" of a pipeline: an archive of skops

Whoever reads arrays alone needs nothing of jaxunc: ``safetensors.numpy.load_file(path)``.
"""

from ._decode import StoredClassifier
from ._file import Description, describe
from ._storage import load, load_answering, save, set_state, state_of

__all__ = ["describe", "load", "save"]
