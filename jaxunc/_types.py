"""Types that annotations of every room name."""

from typing import TYPE_CHECKING, Any, TypeAlias

from typing_extensions import TypeVar

AnswerT = TypeVar("AnswerT", covariant=True, default=Any)
"""What a rule answers. A `jaxunc.Combiner` that does not say what it answers may answer anything."""

# Type checkers do not know jaxtyping's PyTree, and would call what is annotated with it unknown.
if TYPE_CHECKING:
    PyTree: TypeAlias = Any
else:
    from jaxtyping import PyTree as PyTree
