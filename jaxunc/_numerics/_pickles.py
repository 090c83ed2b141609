"""States of objects that hold arrays of JAX: attributes for pickles and copies, a file's contents for other writers."""

import copyreg
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

IN_FILES = "jaxunc.storage"
"""Key of a state that holds the contents of a file; no attribute has such a name."""

_NEW: Any = vars(copyreg)["__newobj__"]
_FOR_PICKLES = ContextVar("for pickles", default=False)
_STORAGE: list[Callable[[], Any]] = []


def states_by(storage: Callable[[], Any]) -> None:
    """Set how the room is found that makes and takes states of arrays and texts: it lies above most rooms."""
    _STORAGE[:] = [storage]


class Pickled:
    """A base of classes that pickle by their attributes, and have a state of arrays and texts for writers as skops.

    Pickles and copies call ``__reduce_ex__``. Writers without pickles call ``__reduce__``, which holds no arguments of
    the class here, and then ``__getstate__``. They know no arrays of JAX.
    """

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        token = _FOR_PICKLES.set(True)
        try:
            # By its name: a class of one's own may add to the state.
            return _NEW, (type(self),), self.__getstate__()
        finally:
            _FOR_PICKLES.reset(token)

    def __reduce__(self) -> tuple[Any, ...]:
        return self.__reduce_ex__(2)

    def __getstate__(self) -> Any:
        return self._attributes() if _FOR_PICKLES.get() else self._plain_state()

    def __setstate__(self, state: Any) -> None:
        if isinstance(state, dict) and IN_FILES in state:
            _STORAGE[0]().set_state(self, state)
        elif (set_state := getattr(super(), "__setstate__", None)) is not None:
            set_state(state)
        else:
            vars(self).update(state)

    def _attributes(self) -> Any:
        """Return the state for pickles and copies."""
        return super().__getstate__()

    def _plain_state(self) -> dict[str, Any]:
        """Return the state of arrays and texts; raises a TypeError if something has no place there."""
        return _STORAGE[0]().state_of(self)
