"""States of objects with arrays of JAX: attributes for pickles and copies, a file's contents for other writers."""

import copyreg
from collections.abc import Callable
from contextvars import ContextVar
from functools import update_wrapper
from types import MethodType
from typing import TYPE_CHECKING, Any, no_type_check

import equinox as eqx
import jax

IN_FILES = "jaxunc.storage"
"""Key of a state that holds the contents of a file; no attribute has such a name."""
_NEW: Any = vars(copyreg)["__newobj__"]  # the function that makes an object of a class, in all pickles
_FOR_PICKLES = ContextVar("for pickles", default=False)  # whether a state is asked for a pickle or a copy
_STORAGE: list[Callable[[], Any]] = []  # the function of `set_storage`, once it is set


def set_storage(storage: Callable[[], Any]) -> None:
    """Set the function that returns `jaxunc.storage`, imported late, since that imports most packages, and this one."""
    _STORAGE[:] = [storage]


class Pickled:
    """Base of classes that pickle by their attributes, and give other writers a state of arrays and texts.

    Pickles and copies call ``__reduce_ex__``. Other writers, such as skops, cannot write arrays of JAX; they call
    ``__reduce__``, and then ``__getstate__``.
    """

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        token = _FOR_PICKLES.set(True)
        try:
            # By the public method: a user's subclass may add to the state.
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
        """Return the state of this object for pickles and copies: its attributes."""
        return super().__getstate__()

    def _plain_state(self) -> dict[str, Any]:
        """Return the state, of arrays and texts, for other writers; a TypeError if it cannot hold an attribute."""
        return _STORAGE[0]().state_of(self)


@jax.tree_util.register_pytree_node_class
class Method:
    """A method of a module: a pytree like equinox's methods, but hashed, compared and pickled like Python's methods.

    JAX keeps programs by their function, which it hashes and compares; arrays have no hash, and inside a program they
    cannot be compared. So a method equals only methods of the same object.
    """

    __name__: str
    __wrapped__: MethodType

    def __init__(self, bound: MethodType):
        update_wrapper(self, bound)  # name, documentation and signature

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)

    def __hash__(self) -> int:
        return hash(self.__wrapped__)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Method) and self.__wrapped__ == other.__wrapped__

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self.__wrapped__.__self__, self.__name__)

    def tree_flatten(self) -> tuple[Any, Any]:
        return (self.__wrapped__.__self__,), self.__wrapped__.__func__

    @classmethod
    def tree_unflatten(cls, function: Any, owner: Any) -> "Method":
        return cls(MethodType(function, *owner))


class PickledModule(Pickled, eqx.Module):
    """A module of equinox that is `Pickled`, and whose methods, each a `Method`, can be passed to `jax.jit`."""

    if not TYPE_CHECKING:  # so that type checkers still report names that do not exist

        @no_type_check  # run-time type checks read attributes themselves
        def __getattribute__(self, name: str) -> Any:
            # Not equinox's __getattribute__, which would wrap the method so that it is hashed by its arrays.
            value = object.__getattribute__(self, name)
            # A field may hold another object's method, and equinox leaves special methods as they are.
            is_method = type(value) is MethodType and value.__self__ is self and not name.startswith("__")
            return Method(value) if is_method else value
