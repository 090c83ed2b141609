"""Methods of rules that can be used as functions: under `jax.jit`, `jax.checkpoint` and the like."""

import copyreg
from types import MethodType
from typing import Any, no_type_check

import equinox as eqx


class _Module(eqx.Module):
    def method(self):
        """A method, for the sake of its type."""


# A subclass of equinox's own class keeps what equinox knows of it (a pytree whose leaves are the rule's arrays); the
# class has no public name, so it is taken from an instance.
_ModuleMethod: Any = type(_Module().method)


def _by_name(method: Any) -> tuple[Any, ...]:
    """A method for pickles, by its object and name: equinox would write the function's annotations, types of JAX's."""
    return getattr, (method.__self__, method.__func__.__name__)


copyreg.pickle(_ModuleMethod, _by_name)


class Method(_ModuleMethod):
    """A method of a rule: a pytree, as methods of all modules, but equal to itself alone, as methods of all objects.

    JAX keeps programs by the function that they are of, which it hashes and compares. Arrays have no hash, and to
    compare them inside a program is no comparison.
    """

    # By identity, not by the arrays: two rules with equal numbers are compiled twice, which is only slower. Comparing
    # arrays would be an error inside a trace, and hashing them an error everywhere.
    def __hash__(self) -> int:
        return hash((self.__func__, id(self.__self__)))

    def __reduce__(self) -> tuple[Any, ...]:
        return _by_name(self)

    def __eq__(self, other) -> bool:
        return isinstance(other, Method) and self.__func__ is other.__func__ and self.__self__ is other.__self__


@no_type_check  # checks read attributes themselves
def attribute(rule: eqx.Module, name: str) -> Any:
    """Return a rule's attribute of that name; methods (but Python's own) as `Method` instead of equinox's wrapper."""
    # Past equinox's ``__getattribute__``, which would already have wrapped the method.
    found = object.__getattribute__(rule, name)
    # Only methods bound to this very rule: class methods are bound to the class, and a field may hold another object's
    # method. Special methods stay as they are, which equinox does not wrap either.
    if type(found) is MethodType and found.__self__ is rule and not name.startswith("__"):
        return Method(found.__func__, rule)
    return found
