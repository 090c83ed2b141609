"""Trees, forests, combiners, bound forests and fitted estimators in files that hold data and no code.

A file is in the format safetensors. Every array has a name that says where it belongs (``forest.trees.child``). The
header has a JSON document, under ``__metadata__`` → ``jaxunc``:

    {"form": 1, "version": "0.2.0", "object": NODE}

A NODE is a number, a string, true, false or null, or a JSON object whose keys say what it describes:

    {"array": NAME}                            an array of the file; {"array": NAME, "on": "host"} for NumPy's
    {"float": "nan" | "inf" | "-inf"}          a number that JSON lacks
    {"tuple" | "list": [NODE, …]}              {"dict": {KEY: NODE, …}}
    {"map": [{"tuple": [KEY, NODE]}, …]}       a dict whose keys are not all strings
    {"json": NAME}                             a long tuple of strings and numbers, as JSON in an array of bytes
    {"labels": NODE, "dtype": TEXT}            a NumPy array of strings or objects
    {"class": NAME, "fields": {FIELD: NODE}}   trees, forests, columns, combiners, laws of numbers, or "module:Name"
    {"scorer": NAME, "args": …, "settings": …} a scorer with settings, of `jaxunc.scorers` or "module:name"
    {"scorer": NAME}                           a function of `jaxunc.scorers` without settings
    {"bound": NODE, "combiner": NODE}          what `bind` returns; {"vote": NODE, "settings": NODE} for `bind_vote`
    {"estimator": NAME, "params": {…}, "fitted": {…}}     with "transformers" of a pipeline: an archive of skops

The arrays alone can be read without jaxunc: ``safetensors.numpy.load_file(path)``.
"""

from ._decode import StoredEstimator
from ._file import Description, describe
from ._storage import load, load_answering, save, set_state, state_of

__all__ = ["describe", "load", "save"]
