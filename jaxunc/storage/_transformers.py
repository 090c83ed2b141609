"""Transformers of a pipeline in files: as skops writes them, read only where every type in them is trusted."""

import importlib
import io
import zipfile
from collections.abc import Iterable
from typing import Any

import numpy as np

from ._names import own_name

TRUSTED = (
    "numpy.dtype",
    "scipy.interpolate._bsplines.BSpline",
    "sklearn.compose._column_transformer._RemainderColsList",
    "sklearn.compose._column_transformer.make_column_selector",
)
"""Types that transformers of scikit-learn hold, beside those that skops trusts: its estimators, arrays, functions of
NumPy's numbers."""
_LEAST = (0, 13)
"""Version of skops before which files could name types that were not checked."""
KEPT = {"skops", "steps", "last", "types"}
Steps = list[tuple[str, Any]]


def written(steps: Steps, last: str) -> dict[str, Any]:
    """Return transformers as arrays and texts; a TypeError for what skops cannot write, or nobody could read again."""
    writer = _skops()
    try:
        content = writer.dumps(steps)
        types = tuple(name for name in writer.get_untrusted_types(data=content) if name not in TRUSTED)
    except Exception as error:  # whatever the transformers hold
        raise TypeError(
            f"the pipeline's steps {[name for name, _ in steps]} cannot be written by skops ({type(error).__name__}: "
            f"{str(error)[:200]}); pickle or joblib keep the whole estimator, for those who trust its file."
        ) from error
    if unnamed := [name for name in types if "<" in name]:
        raise TypeError(
            f"the pipeline holds {unnamed[0]}, which has no name by which it could be found again: define it at the "
            "top of a module. Or keep the whole estimator by pickle or joblib, for those who trust its file."
        )
    descriptions = tuple(f"{name}: {type(step).__name__}" for name, step in steps)
    return {"skops": np.frombuffer(content, np.uint8), "steps": descriptions, "last": last, "types": types}


def read(parts: Any, trusted: Iterable[Any]) -> tuple[Steps, str]:
    """Return the transformers, and the name of the last step; a ValueError for types that nobody trusts, and damage."""
    kinds: dict[str, Any] = {"skops": np.ndarray, "steps": tuple, "last": str, "types": tuple}
    if not isinstance(parts, dict) or any(not isinstance(parts.get(name), kind) for name, kind in kinds.items()):
        raise ValueError("the file's pipeline has no transformers.")
    reader, content = _skops(), parts["skops"].astype(np.uint8, casting="equiv").tobytes()
    try:
        _check_size(content)
        trusted_names = [own_name(part).replace(":", ".") for part in trusted]
        types = reader.get_untrusted_types(data=content)
        if foreign := [name for name in types if name not in (*TRUSTED, *trusted_names)]:
            names = [name.rpartition(".")[2] for name in foreign[:3]]
            raise ValueError(
                f"the file's pipeline holds types that are not scikit-learn's: {', '.join(foreign[:5])}. If you trust "
                f"them, import them and pass them: jaxunc.load(path, known=[{', '.join(names)}]), or known= of "
                "predict_files."
            )
        steps = reader.loads(content, trusted=types)
    except ValueError:
        raise
    except Exception as error:  # whatever the bytes make of the reader
        raise ValueError(f"the file's pipeline is damaged: {type(error).__name__}: {str(error)[:200]}") from error
    pairs = isinstance(steps, list) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in steps)
    if not pairs or not steps or any(type(name) is not str or not hasattr(step, "transform") for name, step in steps):
        raise ValueError("the file's pipeline holds no transformers.")
    return steps, parts["last"]


def _check_size(content: bytes) -> None:
    """Raise a ValueError for an archive that takes more memory than its own size, as hostile ones do."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = archive.infolist()
    if sum(member.file_size for member in members) > len(content) or any(member.compress_type for member in members):
        raise ValueError("the file's pipeline is damaged: its parts are larger than the file.")


def _skops() -> Any:
    try:
        package, reader = importlib.import_module("skops"), importlib.import_module("skops.io")
    except ImportError as error:
        raise TypeError(
            "a pipeline's transformers are kept in a file by skops, which is not installed: pip install 'skops>=0.13'. "
            "Or keep the whole estimator by pickle or joblib, for those who trust its file."
        ) from error
    version = tuple(int(part) for part in str(package.__version__).split(".")[:2] if part.isdigit())
    if version < _LEAST:
        raise TypeError(
            f"skops {package.__version__} reads types that were not checked; files of pipelines need 0.13 or later: "
            "pip install -U skops."
        )
    return reader
