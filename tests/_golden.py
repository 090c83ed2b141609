"""Reference values, computed with 60 digits from the definitions (`tests/data/golden.json`, `smoothing.json`,
`stopping.json`, `transduction.json`).

`smoothing.json` also holds ``r_fits``: trees that R's rpart grew, and what the published R code makes of their leaves.
"""

import json
from functools import lru_cache
from pathlib import Path

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
