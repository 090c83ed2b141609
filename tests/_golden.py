"""Reference values, computed with 60 digits from the definitions (`tests/data/golden.json`, `smoothing.json`,
`stopping.json`, `transduction.json`), and how close to them a value has to be.

`smoothing.json` also holds ``r_fits``: trees that R's rpart grew, and what the published R code makes of their leaves.
"""

import json
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

DATA = Path(__file__).parent / "data"


@lru_cache
def _sections() -> dict:
    files = ("golden.json", "smoothing.json", "stopping.json", "transduction.json")
    return {name: part for file in files for name, part in json.loads((DATA / file).read_text()).items()}


def golden(section: str):
    """One section. Infinities are the strings "inf" and "-inf", which ``float`` reads."""
    return _sections()[section]


def column(entries: list[dict], *path) -> np.ndarray:
    """One number of every entry, as float64."""
    values = []
    for entry in entries:
        for name in path:
            entry = entry[name]
        values.append(float(entry))
    return np.array(values)


@lru_cache
def sonar() -> dict[str, np.ndarray]:
    """Leaf counts ``[trees instances classes]`` of a published run on the sonar data, and its published scores."""
    with np.load(DATA / "rdt_sonar_counts.npz") as file:
        return dict(file)


class Tolerance(NamedTuple):
    """Relative errors that are allowed in one precision, as the specification asks (its appendix A.2)."""

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
