"""Synthetic classification problems whose Bayes error is known: instances drawn from a key, never the same file twice.

A function per problem draws from it; `GENERATORS` has, under the same names, what is known of each.
"""

from ._generator import Generator
from ._led import LED, led
from ._ringnorm import RINGNORM, ringnorm
from ._threenorm import THREENORM, threenorm
from ._twonorm import TWONORM, twonorm
from ._waveform import WAVEFORM, waveform

GENERATORS: dict[str, Generator] = {
    generator.name: generator for generator in (TWONORM, THREENORM, RINGNORM, WAVEFORM, LED)
}
"""All generators, by their names."""

__all__ = ["GENERATORS", "Generator", "led", "ringnorm", "threenorm", "twonorm", "waveform"]
