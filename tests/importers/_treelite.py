"""treelite's models, made of other libraries' ones."""

from collections.abc import Iterator
from typing import Any

import numpy as np

import jaxunc as ju

from ._compare import Way
from ._tables import Table


def ways_of_treelite(rng: np.random.Generator, library: str, model: Any, asked: Table) -> Iterator[Way]:
    """The ways of a live model by treelite, where it is installed and takes the model."""
    try:
        import treelite
    except ImportError:
        return
    if library == "sklearn" and getattr(model, "n_iter_no_change", None):
        return  # treelite reads the trees that were planned, and ends the process
    frontend = treelite.frontend if library != "sklearn" else treelite.sklearn
    try:
        taken = getattr(frontend, {"sklearn": "import_model"}.get(library, f"from_{library}"))(model)
    except Exception:  # what treelite does not take
        return
    wide = str(taken.input_type) == "float64" and library != "sklearn"
    rows = asked.matrix(np.float64 if wide else np.float32)
    answer = treelite.gtil.predict(taken, rows, nthread=1)
    content = taken.serialize_bytes() if rng.random() < 0.5 else taken
    yield Way(
        f"treelite of {library}", lambda: ju.from_any(content), rows, answer=np.asarray(answer),
        leaves=treelite.gtil.predict_leaf(taken, rows, nthread=1), steps=4 + taken.num_tree * 2,
    )  # fmt: skip
