"""Types of arguments that people may pass, for type checkers.

When the program runs they are `typing.Any`: arguments are checked where they are read, with messages that say what to
pass instead.
"""

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import jax
    import numpy as np
    from numpy.typing import ArrayLike

    from ._encode import Encoded

    class OfFrame(Protocol):
        """Members of a pandas frame that are read."""

        @property
        def columns(self) -> Any:
            """The names of the columns."""
            ...

        @property
        def iloc(self) -> Any:
            """Columns and rows by their places."""
            ...

        @property
        def shape(self) -> tuple[int, int]:
            """How many rows and columns there are."""
            ...

        def __len__(self) -> int: ...

    class SparseMatrix(Protocol):
        """Members of a sparse matrix of SciPy that are read."""

        @property
        def shape(self) -> Any:
            """How many rows and columns there are."""
            ...

        @property
        def dtype(self) -> Any:
            """Type of the values."""
            ...

        def tocsr(self) -> Any:
            """Return the matrix by rows."""
            ...

    class Column(Protocol):
        """Members of a column of pandas, Polars or Arrow that are read."""

        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray: ...

        def __len__(self) -> int: ...

    class OfArrow(Protocol):
        """What frames of Polars, Arrow and others hand their data on by."""

        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
            """Return the data as a stream of Arrow."""
            ...

    InstancesLike: TypeAlias = (
        np.ndarray
        | jax.Array
        | OfFrame
        | OfArrow
        | Mapping[str, Any]
        | SparseMatrix
        | Sequence[Sequence[Any]]
        | Encoded
    )
    """Data ``[instances features]``: NumPy, JAX, frames, columns by name, a sparse matrix of SciPy, a list of rows."""
    LabelsLike: TypeAlias = np.ndarray | jax.Array | Column | Sequence[Any]
    """A label per instance: NumPy, JAX, a column of a frame, or a list."""
    NumbersLike: TypeAlias = ArrayLike
    """A number, or an array or list of numbers: weights, priors, settings."""
    NominalLike: TypeAlias = np.ndarray | Sequence[bool] | Sequence[int] | Sequence[str] | str
    """Which columns are nominal: booleans, positions, names, or ``"auto"``."""
    MaskLike: TypeAlias = np.ndarray | jax.Array | Sequence[Sequence[bool]]
    """Booleans ``[instances trees]``."""
else:
    InstancesLike = LabelsLike = NumbersLike = NominalLike = MaskLike = Any

ArrowTable: TypeAlias = Any
"""An Arrow table (pyarrow says nothing of its types)."""
