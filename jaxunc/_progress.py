"""Progress of long calls, told while they run."""

from typing import Protocol


class Progress(Protocol):
    """How far a call is: what a function that was passed as ``progress`` is called with."""

    @property
    def done(self) -> int:
        """How much is finished: rows, pairs of an instance and a label, or steps."""
        ...

    @property
    def total(self) -> int | None:
        """How much there is; None if that is not known beforehand. Steps may end before."""
        ...

    @property
    def seconds(self) -> float:
        """Seconds since the call began."""
        ...


def check_progress(progress) -> None:
    """Raise a TypeError unless it can be called, or is None."""
    if progress is not None and not callable(progress):
        raise TypeError(
            f"progress={progress!r:.60} must be a function of one `Progress` (done, total, seconds), or None."
        )
