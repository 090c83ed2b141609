"""Programs for the host, compiled for the widest vectors that its cores have."""

from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

import jax

from jaxunc._numerics import jit

OPTIONS = {"xla_cpu_prefer_vector_width": "512"}
"""Walking takes a sixth less time; cores with shorter vectors split them. Values are the same."""


class HostProgram:
    """A jitted function of known values, which no other program calls."""

    def __init__(self, function: Callable[..., Any], **static: Any):
        self.function, self.static = function, static

    def __call__(self, *args: Any, **settings: Any) -> Any:
        """Run it."""
        return self.jitted(*args, **settings)

    @cached_property
    def jitted(self) -> Any:
        """The function jitted, with the compiler's options where the backend is a CPU and its version knows them."""
        return jit(self.function, compiler_options=OPTIONS if _are_known() else None, **self.static)


@cache
def _are_known() -> bool:
    if jax.default_backend() != "cpu":
        return False
    try:
        jax.jit(lambda x: x, compiler_options=OPTIONS).lower(0.0).compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True
