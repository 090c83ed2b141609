"""Types that annotations of every room name."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from typing_extensions import TypeVar

AnswerT = TypeVar("AnswerT", covariant=True, default=Any)
"""The type of a combiner's answer: ``Combiner[AnswerT]``. It is Any for a `jaxunc.Combiner` without a type argument."""

# Type checkers do not know jaxtyping's PyTree, and would report values annotated with it as unknown.
if TYPE_CHECKING:
    PyTree: TypeAlias = Any
else:
    from jaxtyping import PyTree as PyTree


@runtime_checkable
class ReadsRawRows(Protocol):
    """The protocol of estimators of this library: they turn raw rows of data into the rows that their trees read."""

    _steps: Sequence[tuple[str, Any]]
    """(name, transformer) for each step of the pipeline before the trees; empty where the trees read raw rows."""

    def _instances(self, X: Any) -> Any:
        """Return the rows that the trees read, which the steps before the trees make of the raw rows ``X``."""
        ...


def steps_of_estimator(model: Any) -> Sequence[tuple[str, Any]]:
    """Return (name, transformer) for each step before the trees of ``model``; empty if it is another library's."""
    return model._steps if isinstance(model, ReadsRawRows) else ()
