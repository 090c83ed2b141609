"""What a writer that knows no arrays of JAX is told, where pickles are written as ever."""

import copyreg
from typing import Any

import jax

_NEW: Any = vars(copyreg)["__newobj__"]


def pickled(self: Any, protocol: Any) -> tuple[Any, ...]:
    """Return the state for pickles and copies, as Python does by itself (``__reduce_ex__``)."""
    return _NEW, (type(self),), self.__getstate__()


def refused_without_pickle(self: Any) -> tuple[Any, ...]:
    """Refuse writers that ask for a state without pickles (``__reduce__``): they would lose the arrays in silence."""
    if any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(self)):
        raise TypeError(
            f"a {type(self).__name__} holds arrays of JAX, which skops and its like cannot write. jaxunc.save writes "
            "models to files that hold no code, and jaxunc.load reads them; pickle and joblib write everything."
        )
    return pickled(self, 2)
