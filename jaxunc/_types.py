"""Types that annotations of every room name."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from typing_extensions import TypeVar

AnswerT = TypeVar("AnswerT", covariant=True, default=Any)
"""What a rule answers. A `jaxunc.Combiner` that does not say what it answers may answer anything."""

# Type checkers do not know jaxtyping's PyTree, and would call what is annotated with it unknown.
if TYPE_CHECKING:
    PyTree: TypeAlias = Any
else:
    from jaxtyping import PyTree as PyTree


@runtime_checkable
class ReadsRawRows(Protocol):
    """An estimator of this library, as other rooms ask it: it turns raw rows into those that its trees read."""

    _steps: Sequence[tuple[str, Any]]
    """Transformers of its pipeline before the trees, by their names; none where the trees read raw rows."""

    def _instances(self, X: Any) -> Any:
        """Return the rows that the trees read."""
        ...


def steps_of_estimator(model: Any) -> Sequence[tuple[str, Any]]:
    """Return the transformers that an estimator of this library has before its trees; none of other models."""
    return model._steps if isinstance(model, ReadsRawRows) else ()
