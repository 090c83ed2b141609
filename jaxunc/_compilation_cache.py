"""Compiled programs that outlive their process."""

import os
import sys
from pathlib import Path
from typing import Any

import jax

from jaxunc._checks import check_kind


def use_compilation_cache(folder: str | Path | None = None) -> Path | None:
    """Keep compiled programs in a folder, so that later processes load what this one has compiled.

    This is JAX's persistent compilation cache, with the settings that suit programs of this library: small ones are
    kept, too. It holds for all programs of the process that are compiled after the call. The command line uses it.

    Parameters
    ----------
    folder
        Where programs are kept. Default: ``jaxunc`` in the user's folder of caches (``$XDG_CACHE_HOME``, or
        ``~/.cache``; ``~/Library/Caches`` on macOS, ``%LOCALAPPDATA%`` on Windows). It may be deleted at any time.

    Returns
    -------
    Path or None
        The folder in use. That of JAX's own setting ``jax_compilation_cache_dir`` where that is set and ``folder`` is
        None. None where JAX's cache is off (``JAX_ENABLE_COMPILATION_CACHE=false`` in the environment, the setting
        ``jax_enable_compilation_cache``), or where the default folder cannot be made.

    Raises
    ------
    TypeError
        If ``folder`` is no path.
    OSError
        If a folder that was given cannot be made.

    Notes
    -----
    Programs are kept for one version of JAX, one kind of processor and one shape of forest and data; answers are the
    same to the last bit. A program takes 5 to 50 kB, and no entry is ever removed. Who can write to the folder decides
    what is run: make it yours alone, as the default one is. On some processors of Intel nothing is ever found again
    (jax-ml/jax#38445): programs are then compiled as without it.

    On others, such as AMD's with AVX-512, XLA prints two lines to standard error for each program that it finds, with
    "prefer-no-gather" and "SIGILL" in them. They tell of preferences that XLA gave itself, no instruction is missing,
    and the program runs. The command line silences them; in programs of your own
    ``jax.config.update("jax_logging_level", "CRITICAL")`` does, with all else that JAX and XLA would log, or
    ``TF_CPP_MIN_LOG_LEVEL=3`` in the environment before JAX is imported.

    Examples
    --------
    >>> import tempfile
    >>> import jaxunc as ju
    >>> folder = ju.use_compilation_cache(tempfile.mkdtemp())  # before anything is computed
    """
    if folder is not None:
        check_kind("folder", folder, str | Path, "the path of a folder")
    settings: Any = jax.config  # whose attributes are dynamic
    if not settings.jax_enable_compilation_cache:
        return None
    if folder is None and settings.jax_compilation_cache_dir:
        return Path(settings.jax_compilation_cache_dir)
    if folder is None:
        try:
            cache = _make_folder(_cache_folder() / "jaxunc")
        except (OSError, RuntimeError):  # no home, or one that cannot be written
            return None
    else:
        cache = _make_folder(Path(folder))
    settings.update("jax_compilation_cache_dir", str(cache))
    settings.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    settings.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return cache


def _make_folder(folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _cache_folder() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
