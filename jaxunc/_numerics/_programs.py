"""Compiled programs of the library's own, which no debugging setting of a user's reaches."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any

import jax


@contextmanager
def own_settings() -> Iterator[None]:
    """A context for what the library computes: settings that look for mistakes are a user's, for his own code.

    Infinity and NaN are values here, axes are added as in NumPy, and packed bits are no numbers.
    """
    with (
        jax.debug_nans(False),
        jax.debug_infs(False),
        jax.check_tracer_leaks(False),
        jax.disable_jit(False),
        jax.numpy_rank_promotion("allow"),
    ):
        yield


def jit(function: Any = None, **options: Any) -> Any:
    """`jax.jit` under `own_settings`; a decorator, with the same options.

    What concerns tracing is set while the function is traced, and what concerns results only where a user looks at
    them: a call costs no more than reading a setting.
    """
    if function is None:
        return partial(jit, **options)

    @wraps(function)
    def traced(*args: Any, **settings: Any) -> Any:
        if _settings.jax_disable_jit:  # JAX calls the function itself, whose intermediate arrays may not fit
            with own_settings():
                return jitted(*args, **settings)
        with own_settings():
            return function(*args, **settings)

    jitted: Any = jax.jit(traced, **options)

    @wraps(function)
    def program(*args: Any, **settings: Any) -> Any:
        if _debug_infs.value or _debug_nans.value or _check_tracer_leaks.value:
            with own_settings():
                return jitted(*args, **settings)
        return jitted(*args, **settings)

    for name in ("lower", "trace", "eval_shape", "clear_cache", "_cache_size"):
        setattr(program, name, getattr(jitted, name))
    return program


# JAX's settings are objects, whose value is read in a thirtieth of the time that a context takes.
_settings: Any = jax.config  # its names are made when it is read
_debug_infs: Any = jax.debug_infs
_debug_nans: Any = jax.debug_nans
_check_tracer_leaks: Any = jax.check_tracer_leaks
