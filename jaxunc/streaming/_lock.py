"""One writer of a folder at a time, by a lock of the operating system, which ends with the process that holds it."""

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from jaxunc._checks import warn

LOCK = ".lock"
"""The file that is locked. It is taken away at the end; one that a killed run left is locked by nobody."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder; raises an OSError if another run does.

    Warns where the file system has no locks: the folder is then written without one.
    """
    path = folder / LOCK
    handle = _acquired(path)
    try:
        yield
    finally:
        _release(handle, path)


def _acquired(path: Path) -> int:
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        try:
            _lock(handle)
        except BlockingIOError as error:
            os.close(handle)
            raise OSError(
                f"another run is writing to {path.parent}; wait until it has ended, or choose another folder."
            ) from error
        except OSError as error:
            warn(f"{path.parent} cannot be locked ({error.strerror}): see to it that no other run writes there.")
            return handle
        if _is_still_there(handle, path):
            return handle
        os.close(handle)  # its last holder took it away after it was opened here


def _is_still_there(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def _lock(handle: int) -> None:
    """Raise a BlockingIOError if another holds the lock, another OSError if there are none."""
    try:
        import fcntl
    except ImportError:
        msvcrt: Any = importlib.import_module("msvcrt")  # Windows
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except PermissionError as error:
            raise BlockingIOError(error.errno, error.strerror) from error
        return
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _release(handle: int, path: Path) -> None:
    if os.name == "posix":  # the name goes first: nobody locks a file that is about to go
        path.unlink(missing_ok=True)
        os.close(handle)
        return
    os.close(handle)  # Windows removes no file that is open
    with suppress(PermissionError):  # another run has it now
        path.unlink(missing_ok=True)
