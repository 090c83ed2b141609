"""Closeness as the specification asks for it (its appendix A.2)."""

from typing import NamedTuple

import numpy as np


class Tolerance(NamedTuple):
    """Relative errors that are allowed in one precision."""

    closed: float
    """Of closed forms."""
    pi: float
    """Of what rests on the degrees of support, which are roots."""
    least_scale: float
    """Errors are relative to the value or to this, whichever is larger."""

    @classmethod
    def of(cls, x64: bool) -> "Tolerance":
        """float64: 1e-12 and 1e-10, relative. float32: 1e-5 relative to max(1, |value|)."""
        return cls(1e-12, 1e-10, 0.0) if x64 else cls(1e-5, 1e-5, 1.0)

    def check(self, actual, expected, *, kind: str = "closed", scale: float = 0.0, what: str = "") -> None:
        """Assert closeness; infinities must be met exactly. ``scale`` raises the least scale (1 for logarithms)."""
        actual, expected = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
        assert actual.shape == expected.shape, f"{what}: shape {actual.shape}, expected {expected.shape}"
        finite = np.isfinite(expected)
        np.testing.assert_array_equal(actual[~finite], expected[~finite], err_msg=what)
        unit = np.maximum(np.abs(expected[finite]), max(scale, self.least_scale))
        # The last term: results below the smallest normal number flush to zero.
        allowed = getattr(self, kind) * unit + (1e-300 if self.least_scale == 0 else 1e-37)
        error = np.abs(actual[finite] - expected[finite])
        worst = np.argmax(np.where(np.isnan(error), np.inf, error / allowed)) if error.size else 0
        assert np.all(error <= allowed), (
            f"{what}: {actual[finite].ravel()[worst]!r} instead of {expected[finite].ravel()[worst]!r} "
            f"({np.sum(~(error <= allowed))} of {error.size} are off)"
        )
