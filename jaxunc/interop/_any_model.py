"""`from_any`, which passes a live model or a file of any library to the importer of that library."""

import json
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from jaxunc.additive import AdditiveTrees
from jaxunc.forest import Forest

from ._catboost import OWN_FORMAT, from_catboost, from_catboost_document
from ._documents import BINARY_XGBOOST, BYTE_ORDER_MARK, GIVEN, content_of, is_binary_xgboost, read_document
from ._lightgbm import from_lightgbm
from ._treelite import from_treelite
from ._xgboost import from_xgboost, from_xgboost_document
from ._ydf import from_ydf
from .onnx import from_onnx

TAKEN = (
    "fitted forests and boosted trees of scikit-learn, models of XGBoost, LightGBM, CatBoost, YDF, treelite and ONNX, "
    "and files: XGBoost's .json and .ubj, LightGBM's .txt, CatBoost's .json and .cbm, treelite's serialize, .onnx"
)
"""What `from_any` takes, for messages."""
_HEAD = 64  # the number of bytes at the beginning of a file by which its format is recognised
_OTHER_FILES = {
    b"\x80": "a pickle, which runs whatever code it holds; pass the model itself, or a file that its library writes",
    b"PK\x03\x04": "an archive; pass the model's own file",
    b"\x1f\x8b": "compressed by gzip; decompress it first",
    b"\xff\xfe": "text in UTF-16; write it as UTF-8, or by the save_model of its library",
}
"""What files are that are not read, for messages, by their first bytes."""
_DUMP = "a dump of LightGBM; write the model by booster.save_model('model.txt')"


class ModelFile(NamedTuple):
    """A model that was read from a file of another library, and that library."""

    library: str  # the name of the library whose format the file has, such as "XGBoost"
    model: Forest | AdditiveTrees


def class_weight_of(model: Any) -> Any:
    """Return the class weights with which XGBoost or LightGBM fitted a live ``model`` of two classes.

    They are {0: 1, 1: ``scale_pos_weight``}, or ``"balanced"`` for LightGBM's ``is_unbalance``; else None.
    """
    library = library_of(model)
    if library == "xgboost":
        booster = model.get_booster() if hasattr(model, "get_booster") else model
        objective = json.loads(booster.save_config())["learner"]["objective"]
        scale = float(objective.get("reg_loss_param", {}).get("scale_pos_weight", 1))
    elif library == "lightgbm":
        text = getattr(model, "booster_", model).model_to_string(num_iteration=1)
        if "[is_unbalance: 1]" in text:
            return "balanced"
        # Parameters of training are lines "[name: value]".
        written_scale = text.partition("[scale_pos_weight: ")[2].partition("]")[0]
        scale = float(written_scale or 1)
    else:
        return None
    return None if scale == 1 else {0: 1.0, 1: scale}


def from_any(model: Any) -> Forest | AdditiveTrees:
    """Import a model of any library that has an importer, exactly, live or from a file.

    Live models are recognised by the module of their class, files by their content, not their name.

    Parameters
    ----------
    model
        A fitted model of scikit-learn, XGBoost, LightGBM, CatBoost, YDF, treelite or ONNX. Or the path or the bytes of
        a file of XGBoost (JSON, UBJSON), LightGBM (text), CatBoost (JSON, .cbm), treelite or ONNX. A text that begins
        as JSON or LightGBM's models do is the model itself, any other a path. A `Forest` or an `AdditiveTrees` is
        returned as it is.

    Returns
    -------
    Forest or AdditiveTrees
        What the library's own importer returns: see `from_sklearn`, `from_sklearn_values`, `from_xgboost`,
        `from_lightgbm`, `from_catboost`, `from_ydf`, `from_treelite`, `from_onnx`. Some of these have options.

    Raises
    ------
    TypeError
        If the model is of a library that has no importer, or of a kind that its importer does not take.
    ValueError
        If a file has none of these formats, and where the importer of its library raises one.
    FileNotFoundError, IsADirectoryError
        If no file is at the path, or a folder is.

    Warns
    -----
    UntestedVersionWarning
        If a newer library made the model than was tested.
    """
    if isinstance(model, Forest | AdditiveTrees):
        return model
    if isinstance(model, GIVEN):
        name = str(model) if isinstance(model, str | PathLike) else "what was given"
        return _from_content(content_of(model), name).model
    if isinstance(model, type):
        raise TypeError(f"model is the class {model.__name__}; pass a fitted model.")
    library = library_of(model)
    if library is None and hasattr(model, "read"):
        raise TypeError(f"model is a {type(model).__name__}, an open file; pass its path, or what its read() returns.")
    if library is None:
        raise TypeError(f"model is a {type(model).__name__}, which has no importer. Taken are {TAKEN}.")
    return _IMPORTERS[library](model)


def library_of(model: Any) -> str | None:
    """Return the package of a live model's class or base class, such as "xgboost"; None if it has no importer."""
    modules = (kind.__module__.partition(".")[0] for kind in type(model).__mro__)
    return next((name for name in modules if name in _IMPORTERS), None)


def read_model_file(path: str | PathLike[str]) -> ModelFile:
    """Return the model in the file at ``path``, and its library; errors and warnings are those of `from_any`."""
    return _from_content(content_of(Path(path)), str(path))


def is_model_file(path: str | PathLike[str]) -> bool:
    """Return whether the file at ``path`` begins as a model of another library; False if there is no file.

    Also True for formats that `from_any` refuses, such as pickles. False for files of `jaxunc.save`.
    """
    if not Path(path).is_file():
        return False
    with open(path, "rb") as file:
        head = file.read(_HEAD)
    return not _is_ours(head) and (_reader(head) is not None or _other(head) is not None)


def _is_ours(head: bytes) -> bool:
    """Return whether a file that begins with ``head`` is one of `jaxunc.save`."""
    return head[5:9] == b"\0\0\0{"  # the end of a document's length, in 8 bytes, and its opening brace


def _from_content(content: bytes, name: str) -> ModelFile:
    """Return the model in a file's ``content``, called ``name`` in messages; a ValueError if no importer reads it."""
    if _is_ours(content[:_HEAD]) and b"jaxunc" in content[:10_000]:  # the document at the beginning names jaxunc
        raise ValueError(f"{name} is a file of jaxunc.save; jaxunc.load reads it.")
    reader = _reader(content[:_HEAD])
    if reader is not None:
        return reader(content)
    raise ValueError(f"{name} is {_other(content) or 'no model that is known'}. Taken are {TAKEN}.")


def _other(head: bytes) -> str | None:
    """Return, for messages, what a file that begins with ``head`` is, if its format is refused; None for others."""
    if is_binary_xgboost(head):
        return BINARY_XGBOOST
    return next((message for start, message in _OTHER_FILES.items() if head.startswith(start)), None)


def _reader(head: bytes) -> Callable[[bytes], ModelFile] | None:
    """Return a function of a file's content that reads files that begin with ``head``; None for unknown formats."""
    head = head.removeprefix(BYTE_ORDER_MARK)
    if head.startswith((b"tree\n", b"tree\r\n")):
        return lambda content: ModelFile("LightGBM", from_lightgbm(content))
    if head.lstrip().startswith(b"{"):
        return _from_document
    if head.startswith(OWN_FORMAT):
        return lambda content: ModelFile("CatBoost", from_catboost(content))
    # treelite's version, three integers of 32 bits, the lowest byte first: 4, then a number below 256.
    if head.startswith(b"\x04\0\0\0") and head[5:8] == b"\0\0\0":
        return lambda content: ModelFile("treelite", from_treelite(content))
    # ONNX begins with field 1 of a protocol buffer (b"\x08"), the small version of its format; text mostly follows.
    # Files of jaxunc may begin so, too: with a length in 8 bytes, lowest first, of which the last two are always 0.
    if head.startswith(b"\x08") and b"\0" < head[1:2] < b"\x20" and head[6:8] != b"\0\0":
        return lambda content: ModelFile("ONNX", from_onnx(content))
    return None


def _from_document(content: bytes) -> ModelFile:
    """Return the model in ``content``, JSON or UBJSON of XGBoost or CatBoost; a ValueError for other documents."""
    document = read_document(content, "given")
    if "learner" in document:
        return ModelFile("XGBoost", from_xgboost_document(document))
    if "model_info" in document or "features_info" in document:
        return ModelFile("CatBoost", from_catboost_document(document))
    if "tree_info" in document:
        raise ValueError(f"the file is {_DUMP}.")
    names = ", ".join(map(repr, list(document)[:5])) or "nothing"
    raise ValueError(
        f"the file is a document with {names:.100} at its top, and no model of XGBoost or CatBoost. Taken are {TAKEN}."
    )


def _from_sklearn(model: Any) -> Forest | AdditiveTrees:
    """Return a fitted ``model`` of scikit-learn, imported by `from_sklearn` or `from_sklearn_values`."""
    # Imported when used, since these modules import scikit-learn, which is slow.
    from ._sklearn import from_sklearn
    from ._sklearn_values import ALL_VALUE_MODELS, from_sklearn_values

    importer = from_sklearn_values if isinstance(model, ALL_VALUE_MODELS) else from_sklearn
    return importer(model)


_IMPORTERS: dict[str, Callable[[Any], Forest | AdditiveTrees]] = {
    "sklearn": _from_sklearn,
    "xgboost": from_xgboost,
    "lightgbm": from_lightgbm,
    "catboost": from_catboost,
    "ydf": from_ydf,
    "treelite": from_treelite,
    "onnx": from_onnx,
}
"""Importers of live models, by the names of their packages."""
