"""How long a test waits before it calls something hung. Nothing else in the tests reads a clock: none judges by one."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

LEAST = 60.0
"""Seconds that are waited at least."""
TIMES = 20
"""How many times longer than on an idle machine is waited."""


class HangError(BaseException):
    """Something did not end."""


def patience(idle: float) -> float:
    """Return seconds after which what takes so many on an idle machine hangs."""
    return max(LEAST, TIMES * idle)


class Deadline:
    """The end of waiting for what takes so many seconds on an idle machine."""

    def __init__(self, idle: float):
        self._end = time.monotonic() + patience(idle)

    def left(self) -> float:
        """Return the seconds that are left, 1 at least; raises a HangError if there are none."""
        if (left := self._end - time.monotonic()) <= 0:
            raise HangError("it did not end")
        return max(1.0, left)


@contextmanager
def ends(idle: float) -> Iterator[None]:
    """Raise a HangError in a block that takes far more than so many seconds of this process; where there are alarms."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_) -> None:
        raise HangError(f"it did not end in {patience(idle):g} s of this process")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, patience(idle))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
