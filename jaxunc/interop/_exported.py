"""What every exporter asks of a model, and says about it."""

from typing import Any

from jaxunc._checks import is_concrete
from jaxunc.additive import AdditiveTrees
from jaxunc.inference import ReadOuts
from jaxunc.tables import Columns


def asked_model(model: Any) -> ReadOuts | AdditiveTrees:
    """Return the bound forest of a model, or the ensemble that it is.

    Raises a TypeError for others and for traced ones, a ValueError where empty leaves are followed.
    """
    model = getattr(model, "bound_", model)
    if not isinstance(model, ReadOuts | AdditiveTrees):
        raise TypeError(
            f"model is a {type(model).__name__}; pass a bound forest (ju.bind(forest, rule)), a fitted estimator of "
            "jaxunc.estimators, or a AdditiveTrees."
        )
    if not is_concrete(model if isinstance(model, AdditiveTrees) else (model.forest, model.combiner)):
        raise TypeError("model is traced: its values are not known. Export it outside of jit and vmap.")
    if isinstance(model, ReadOuts) and model.forest.follows_forks:
        raise ValueError(
            f"empty leaves of the mode {model.forest.empty_leaves!r} are followed by the host, which other libraries "
            "do not. Bind forest.with_empty_leaves('parent') or 'zeros'."
        )
    return model


def about(columns: Columns, class_labels: tuple[Any, ...] | None) -> dict[str, Any]:
    """Return what is known of columns and classes, for JSON; levels by the number of their column."""
    found: dict[str, Any] = {"feature_names": columns.names, "class_labels": class_labels}
    if columns.levels is not None:
        found["levels"] = {
            str(j): {"values": own.values, "missing_is_last": own.has_missing}
            for j, own in enumerate(columns.levels)
            if own is not None
        }
    return {name: own for name, own in found.items() if own is not None}
