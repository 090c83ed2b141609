"""Models in files, of this library or another: loaded to answer, and described."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jaxunc.additive import AdditiveTrees
from jaxunc.interop import is_model_file, read_model_file
from jaxunc.storage import Description, describe, load_answering


def load_model(path: str | Path, *, known: Sequence[Any] = ()) -> Any:
    """Return what answers: of a file of `jaxunc.save`, or of a library that `jaxunc.from_any` knows.

    Raises what `jaxunc.load` and `jaxunc.from_any` do; a ValueError for regressors, whose answers are no classes.
    """
    if not is_model_file(path):
        return load_answering(path, known=known)
    model = read_model_file(path).model
    if isinstance(model, AdditiveTrees) and model.class_labels is None:
        raise ValueError(
            f"{path} holds a model that predicts numbers, and files are scored by models of classes: ask "
            "jaxunc.from_any(path).predict(X)."
        )
    return model


def describe_model(path: str | Path) -> Description:
    """Return what a file holds: of `jaxunc.save` as its header claims it, of other libraries as it is read.

    ``version`` is empty for other libraries, ``kind`` names them.
    """
    if not is_model_file(path):
        return describe(path)
    library, model = read_model_file(path)
    columns, trees = model.trees.columns, model.trees
    values = {"outputs": model.n_outputs, "link": model.link} if isinstance(model, AdditiveTrees) else {}
    boosted = isinstance(model, AdditiveTrees) and not model.is_forest
    return Description(
        kind=f"{type(model).__name__}, from {library}",
        version="",
        combiner=None,
        n_trees=trees.n_trees,
        n_nodes=trees.n_nodes,
        columns=columns.number,
        column_names=columns.names,
        class_labels=model.class_labels,
        arrays={},
        n_bytes=Path(path).stat().st_size,
        parameters={**values, "trees": "boosted" if boosted else "a forest"},
    )
