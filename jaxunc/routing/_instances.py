"""Data from the host: checked, as C-contiguous float32."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxunc._checks import is_concrete
from jaxunc.forest import Forest


def check_columns(x, n_features: int, name: str) -> None:
    """Raise a ValueError unless ``x`` has two axes and as many columns as the forest knows."""
    shape = np.shape(x)
    if len(shape) != 2:
        hint = f" One instance? Pass {name}[None]." if len(shape) == 1 else ""
        raise ValueError(f"{name} has shape {shape}; expected (instances, features).{hint}")
    if shape[1] != n_features:
        raise ValueError(
            f"{name} has {shape[1]} features, but the forest was grown on {n_features}. "
            "Pass the same columns in the same order."
        )


def as_mask(mask, n_instances: int, n_trees: int):
    """A tree mask as an array; raises unless it is absent or boolean ``[instances trees]``."""
    if mask is None:
        return None
    mask = mask if hasattr(mask, "dtype") else np.asarray(mask)
    if mask.dtype != bool:
        raise TypeError(f"tree_mask has dtype {mask.dtype}; pass booleans, True where the tree counts.")
    if mask.shape != (n_instances, n_trees):
        raise ValueError(f"tree_mask has shape {mask.shape}; expected {(n_instances, n_trees)} (instances, trees).")
    return mask


def as_routable(data, forest: Forest) -> jax.Array:
    """X for functions that may be traced, as float32: checked as `as_instances` does, or of a traced X the shape alone.

    Infinite values are compared like any other.
    """
    if is_concrete(data):
        data, _ = as_instances(data, forest, infinite=True)
    check_columns(data, forest.n_features, "X")
    return jnp.asarray(data, jnp.float32)


def as_instances(
    data, forest: Forest, name: str = "X", *, infinite: bool = False
) -> tuple[np.ndarray | jax.Array, bool]:
    """NumPy, JAX or pandas data as float32, as scikit-learn's forests see it, and whether values are missing.

    Data on an accelerator stay there.

    Raises
    ------
    TypeError
        If the data are sparse, or columns hold no numbers (they are named).
    ValueError
        If the number, names or order of the columns differ from what the forest was grown on, or values are
        infinite or too large for float32 (unless ``infinite``). NaN is a missing value and is accepted.
    """
    if hasattr(data, "tocsr"):
        raise TypeError(f"{name} is a sparse matrix; pass {name}.toarray(), in parts if it is large.")
    if hasattr(data, "columns") and hasattr(data, "dtypes"):
        _check_names(list(map(str, data.columns)), forest, name)
        data = frame_values(data, name)
    on_device = isinstance(data, jax.Array) and jax.default_backend() != "cpu"
    values = data if on_device else np.asarray(data)
    if values.dtype.kind not in "fiub":
        raise TypeError(f"{name} has dtype {values.dtype}; pass numbers; encode text columns as in training.")
    check_columns(values, forest.n_features, name)
    numpy = jnp if on_device else np
    with np.errstate(over="ignore", invalid="ignore"):
        values = values.astype(np.float32) if on_device else np.ascontiguousarray(values, dtype=np.float32)
        # A sum is finite only if its terms are: one cheap pass, and further ones only in doubt.
        if np.isfinite(values.sum()):
            return values, False
    beyond = numpy.isinf(values)
    if not infinite and beyond.any():
        row, column = map(int, np.argwhere(beyond)[0])
        raise ValueError(
            f"{name}[{row}, {column}] is infinite or too large for float32 (largest 3.4e38), which scikit-learn "
            "refuses too. Clip it, or make it NaN if it stands for a missing value."
        )
    return values, bool(numpy.isnan(values).any())


def _check_names(columns: list[str], forest: Forest, name: str) -> None:
    known = forest.feature_names
    if known is None or columns == list(known):
        return
    absent, unknown = [c for c in known if c not in columns], [c for c in columns if c not in known]
    if absent or unknown:
        raise ValueError(
            f"{name}'s columns are not those that the forest was grown on: missing {absent[:5]}, unexpected "
            f"{unknown[:5]} ({len(absent)} and {len(unknown)} in all)."
        )
    raise ValueError(
        f"{name}'s columns are in another order than the forest's; pass {name}[list(forest.feature_names)]."
    )


def frame_values(frame, name: str) -> np.ndarray:
    """A frame of numbers as float64, NaN where they are missing; raises a TypeError that names other columns."""
    text = [
        str(c)
        for c, dtype in zip(frame.columns, frame.dtypes, strict=True)
        if getattr(dtype, "kind", "O") not in "fiub"
    ]
    if text:
        raise TypeError(
            f"{name}'s columns {text[:5]} ({len(text)} in all) hold no numbers; encode them as the forest's data were "
            "(for instance with OrdinalEncoder)."
        )
    return frame.to_numpy(dtype=np.float64, na_value=np.nan)
