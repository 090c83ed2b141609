"""Which versions of other libraries' formats importers were tested with, and the warning of newer ones."""

import re

from jaxunc._checks import warn

TESTED = {
    "CatBoost": (1, 2),
    "LightGBM": (4,),
    "ONNX (ai.onnx.ml)": (5,),
    "XGBoost": (3, 4),
    "YDF": (0, 16),
    "treelite": (4, 8),
}
"""The newest versions that were tested, to the digit from which on nothing about trees is expected to change."""


class UntestedVersionWarning(UserWarning):
    """A model says that a newer library made it than the newest that its importer was tested with."""


def warn_if_newer(library: str, version: tuple[int, ...]) -> None:
    """Warn if a model was made by a newer version than was tested; what is not known is the empty tuple."""
    tested = TESTED[library]
    if version[: len(tested)] > tested:
        warn(
            f"the model was made by {library} {_dotted(version)}; jaxunc was tested "
            f"up to {_dotted(tested)}. Compare its predictions on some rows before you rely on them.",
            UntestedVersionWarning,
        )


def version_in(text: str) -> tuple[int, ...]:
    """Return the first version that a text names, of a few digits each; empty if there is none."""
    found = re.search(r"\d{1,6}(?:\.\d{1,6}){0,3}", text)
    return () if found is None else tuple(map(int, found[0].split(".")))


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
