"""LightGBM's model files: lines of names and texts, tree after tree; and the columns that they describe.

Files list pandas' categories, but not which columns had them. These are inferred if a single choice of columns fits.
"""

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from jaxunc._checks import check_collection
from jaxunc.tables import FALSE_WORDS, MISSING_WORDS, TRUE_WORDS, Columns, Levels

from ._documents import content_of

_ENDS = (b"end of trees", b"feature importances:", b"feature_importances:")
"""How the lines behind the trees begin: from LightGBM 2.2 on with the first of these, before with another."""
_NOT_WORDS = {*MISSING_WORDS, *TRUE_WORDS, *FALSE_WORDS}  # words that numeric columns take


class ModelText(NamedTuple):
    """What a model file says, as far as predictions rest on it."""

    header: dict[str, str]  # the lines before the trees: their texts by their names
    trees: list[dict[str, str]]  # likewise the lines of each tree
    parameters: dict[str, str]  # parameters of training, where the file has them
    pandas_categorical: list[Any]  # lists of categories, one for each category column of the frame, in their order


def read_model_text(source: Any) -> ModelText:
    """Return what a model file says, given its path, bytes or text; a ValueError if it is none, or not whole."""
    content = content_of(source).replace(b"\r\n", b"\n")
    if not content.startswith(b"tree\n"):
        raise ValueError(f"the LightGBM model begins with {content[:20]!r}; expected a text file of save_model.")
    offset = content.find(b"\nTree=0\n") + 1
    if offset == 0:
        raise ValueError("the LightGBM model has no trees.")
    header = _pairs(content[:offset])
    blocks, ending = _blocks(header, content[offset:])
    if not ending.startswith(_ENDS):
        raise ValueError("the LightGBM model goes on after the trees that it counts; is the file whole?")
    _check_end(header, ending)
    return ModelText(header, [_pairs(block) for block in blocks], _parameters(ending), _pandas_categorical(ending))


def _blocks(header: dict[str, str], content: bytes) -> tuple[list[bytes], bytes]:
    """Return ([the lines of each tree], all lines behind the last tree) of ``content``, a file behind its ``header``.

    A ValueError if the trees are not where the header says.
    """
    if "tree_sizes" not in header:  # which only the first files of v2 lack
        trees, *last = re.split(rb"\n(?=end of trees|feature.importances:)", content, maxsplit=1)
        return re.split(rb"\n(?=Tree=)", trees), b"".join(last)
    blocks, offset = [], 0
    for t, size in enumerate(row(header, "tree_sizes", np.int64).tolist()):
        blocks.append(content[offset : offset + max(size, 0)])
        if not blocks[-1].startswith(b"Tree=%d\n" % t) or size > len(blocks[-1]):
            raise ValueError(f"the LightGBM model's tree_sizes do not lead to tree {t}; is the file whole?")
        offset += size
    return blocks, content[offset:].lstrip()


def row(lines: dict[str, str], name: str, dtype: Any, number: int | None = None) -> np.ndarray:
    """Return the numbers in the line ``name`` as an array of ``dtype``; ``lines`` are {name: text}.

    A ValueError if there is no such line, or it does not hold ``number`` numbers (None: any number of them).
    """
    words = text(lines, name).split()
    if number is not None and len(words) != number:
        raise ValueError(f"the LightGBM model has {len(words)} numbers as {name}; expected {number}.")
    try:
        return np.array(words, dtype)
    except (ValueError, OverflowError):
        raise ValueError(f"the LightGBM model's {name} is {lines[name]!r:.60}; expected numbers.") from None


def integer(lines: dict[str, str], name: str) -> int:
    """Return the one integer in the line ``name``; arguments and errors are those of `row`."""
    return int(row(lines, name, np.int64, 1)[0])


def text(lines: dict[str, str], name: str) -> str:
    """Return the text of the line ``name``; a ValueError if there is no such line."""
    if name not in lines:
        raise ValueError(f"the LightGBM model has no {name}; is the file whole?")
    return lines[name]


def _pairs(block: bytes) -> dict[str, str]:
    """Return the lines of ``block``, each ``name=text``, as {name: text}; a ValueError if they are not UTF-8."""
    try:
        lines = block.decode().split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"the LightGBM model holds bytes that are no text: {error}.") from error
    return {name: value for name, _, value in (line.partition("=") for line in lines if line)}


def _check_end(header: dict[str, str], ending: bytes) -> None:
    """Raise a ValueError if ``ending``, the lines behind the trees, is cut off; ``header`` has those before them."""
    _, end_mark, tail = ending.partition(b"\nend of parameters")
    # Before LightGBM 2.2 files had no parameters: they end with pandas' categories.
    is_old = not end_mark and not ending.startswith(_ENDS[0])
    has_end = bool(end_mark) or (is_old and b"\npandas_categorical:" in ending)
    # Columns with lists of categories may be pandas', whose categories are in the last line.
    has_lists = any(info != "none" and not info.startswith("[") for info in header.get("feature_infos", "").split())
    has_parameters = b"\nparameters:" in ending
    # Behind the parameters stand at most the settings of a parser, and pandas' categories.
    tail = re.sub(rb"\nparser:\n.*\nend of parser\n", b"\n", tail, flags=re.DOTALL).strip()
    has_other_tail = tail and not tail.startswith(b"pandas_categorical:")
    if (not has_end and (has_parameters or has_lists)) or has_other_tail:
        raise ValueError(
            "the LightGBM model's last lines, behind its trees, are missing or cut off; is the file whole?"
        )


def _parameters(ending: bytes) -> dict[str, str]:
    """Return the parameters of training as {name: value}: lines ``[name: value]`` of ``ending``, behind the trees."""
    start = ending.find(b"\nparameters:\n")
    end = ending.find(b"\nend of parameters")
    if not 0 <= start < end:
        return {}
    parameters = {}
    for line in ending[start:end].decode(errors="replace").split("\n"):
        name, _, value = line.strip("[]").partition(": ")
        parameters[name] = value
    return parameters


def _pandas_categorical(ending: bytes) -> list[Any]:
    """Return a list of categories for each column of pandas' category type in training, from the last line of a file.

    [] if there are none. A ValueError if that line of ``ending``, the lines behind the trees, is damaged.
    """
    last_line = ending.rstrip().rpartition(b"\n")[2]
    name, _, document = last_line.partition(b":")
    if name != b"pandas_categorical":
        return []
    try:
        categories = json.loads(document) or []
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the LightGBM model's pandas_categorical is no JSON: {error}.") from error
    if not isinstance(categories, list) or not all(isinstance(values, list) for values in categories):
        raise ValueError(
            f"the LightGBM model's pandas_categorical is {categories!r:.60}; expected lists of categories."
        )
    return categories


def columns_of(model: ModelText, category_columns: Sequence[int | str] | None) -> Columns:
    """Return the columns of a ``model``'s data; a ValueError if the file does not tell them.

    ``category_columns`` are names or positions of the columns that had pandas' category type; None to infer them.
    """
    category_columns = _check_list(category_columns)
    names = tuple(text(model.header, "feature_names").split(" "))
    n_features = integer(model.header, "max_feature_idx") + 1
    if len(names) != n_features:
        raise ValueError(f"the model has {len(names)} feature_names for {n_features} columns.")
    is_default = all(name == f"Column_{j}" for j, name in enumerate(names))
    ranges = text(model.header, "feature_infos").split(" ")
    if len(ranges) != n_features:
        raise ValueError(f"the model has {len(ranges)} feature_infos for {n_features} columns.")
    listed_columns = _nominal_columns(model, ranges)
    levels: list[Levels | None] = [None] * n_features
    if model.pandas_categorical:
        facts = _Facts(names, ranges, sorted(listed_columns), _find_tested(model, n_features), model.pandas_categorical)
        positions = _infer_columns(facts) if category_columns is None else _locate_columns(facts, category_columns)
        for j, values in zip(positions, model.pandas_categorical, strict=True):
            levels[j] = Levels(tuple(values), has_missing=False)
    elif category_columns:
        raise ValueError(
            f"category_columns={category_columns!r:.60}, but the model was not fitted to a frame with categories."
        )
    nominal = tuple(j in listed_columns or levels[j] is not None for j in range(n_features))
    # (): compared as float64, and `tree_nodes` fills in the thresholds. None: codes of levels, exact as float32.
    cuts = tuple(() if values is None else None for values in levels)
    column_levels = None if all(values is None for values in levels) else tuple(levels)
    column_names = None if is_default else names
    return Columns(n_features, column_names, nominal, column_levels, cuts=cuts, spaces_are_underlines=not is_default)


def _nominal_columns(model: ModelText, ranges: list[str]) -> set[int]:
    """Return the indices of categorical features: those that training named, and those with lists of categories.

    ``ranges`` has the entry of each feature in ``feature_infos``, a line of the ``model``'s header.
    """
    # "[…]" is a range of numbers, "none" a column without use, anything else a list of categories.
    listed_in_ranges = {j for j, info in enumerate(ranges) if info != "none" and not info.startswith("[")}
    words = model.parameters.get("categorical_feature", "").split(",")
    named_in_training = {int(word) for word in words if word.isdecimal() and int(word) < len(ranges)}
    return named_in_training | listed_in_ranges


def _check_list(names: Any) -> list[int | str] | None:
    """Return ``names``, the user's argument ``category_columns``, as a list; None if it is None.

    A ValueError for a single name, a TypeError for anything else than names and positions.
    """
    if names is None:
        return None
    if isinstance(names, str):
        raise ValueError(f"category_columns=({names!r:.60}) must be a list; pass [{names!r:.60}].")
    check_collection("category_columns", names, "names or positions of columns in a list")
    if odd := [entry for entry in names if isinstance(entry, bool) or not isinstance(entry, str | int | np.integer)]:
        raise TypeError(
            f"category_columns={names!r:.60} holds {odd[0]!r:.60}, a {type(odd[0]).__name__}; pass names or positions "
            "of columns."
        )
    return list(names)


class _Facts(NamedTuple):
    """What a file says about the columns of the data frame that the model was fitted to."""

    names: tuple[str, ...]
    ranges: list[str]  # the file's ``feature_infos``: which values each column had in training
    listed: list[int]  # categorical features: by default the category columns without an order, else the user's choice
    tested: Bool[np.ndarray, " features"]  # whether a tree tests each feature
    categories: list[list[Any]]  # a list for each column of pandas' category type, in the order of columns


def _find_tested(model: ModelText, n_features: int) -> Bool[np.ndarray, " features"]:
    """Return for each of ``n_features`` whether a tree of ``model`` tests it."""
    tested = np.zeros(n_features, bool)
    for tree in model.trees:
        if integer(tree, "num_leaves") > 1:
            features = row(tree, "split_feature", np.int64)
            tested[features[(features >= 0) & (features < n_features)]] = True
    return tested


def _locate_columns(facts: _Facts, columns: Sequence[int | str]) -> list[int]:
    """Return the positions, rising, of ``columns``: names or positions of those that had pandas' category type.

    A ValueError if there are no such columns, or they do not fit the file's ``facts``.
    """
    names = facts.names
    n_expected = len(facts.categories)

    def position_of(column: int | str) -> int | None:
        """Return the position of a column; None if there is none of this name or position."""
        if isinstance(column, str):
            name = column if column in names else column.replace(" ", "_")  # LightGBM writes underlines for spaces
            return names.index(name) if name in names else None
        return int(column) if 0 <= column < len(names) else None

    all_positions = [position_of(column) for column in columns]
    positions = sorted({position for position in all_positions if position is not None})
    if None in all_positions or not len(columns) == len(positions) == n_expected:
        raise ValueError(
            f"category_columns={columns!r:.60} must be the names or positions of the {n_expected} columns that had "
            "pandas' category type."
        )
    for j, values in zip(positions, facts.categories, strict=True):
        if not _fits(facts.ranges[j], len(values)):
            raise ValueError(
                f"column {names[j]!r:.60} has categories beyond the {len(values)} that pandas knew; pass the columns "
                "of pandas' category type as category_columns."
            )
    return positions


def _infer_columns(facts: _Facts) -> list[int]:
    """Return the positions of the columns that had pandas' category type; a ValueError unless ``facts`` tell them."""
    # Whether each list of categories fits each feature, [lists features]: lists of one length fit the same ones.
    fits_of_length = {}
    for values in facts.categories:
        if len(values) not in fits_of_length:
            fits_of_length[len(values)] = np.array([_fits(info, len(values)) for info in facts.ranges], bool)
    fits = np.stack([fits_of_length[len(values)] for values in facts.categories])
    listed_columns = np.array(facts.listed, np.int64)
    if len(listed_columns) == len(fits) and fits[np.arange(len(listed_columns)), listed_columns].all():
        # A list of words is tried on listed columns alone. If its column were another, which is taken for numbers,
        # words in data would be refused there, not misread.
        holds_words = np.array([_are_words(values) for values in facts.categories])
        is_listed = np.isin(np.arange(len(facts.names)), listed_columns)
        fits = fits & (is_listed | ~holds_words[:, None])
        positions = listed_columns
    else:
        positions = _first_positions(fits)
    if positions is None or _has_other(fits, positions, facts.tested):
        listed_names = [facts.names[j] for j in facts.listed]
        raise ValueError(
            f"the model's frame had {len(fits)} columns of pandas' category type, and its file does not tell which: "
            f"{len(listed_names)} features are categorical, {listed_names[:5]}, which may be others. Pass the former: "
            "jaxunc.from_lightgbm(model, category_columns=[...])."
        )
    return positions.tolist()


def _fits(info: str, n_categories: int) -> bool:
    """Return whether a column may have held codes of categories: integers below ``n_categories``, or -1 (missing).

    ``info`` is its entry in ``feature_infos``, of its values in training; a column without use ("none") may hold any.
    """
    if info == "none":
        return True
    try:
        values = [float(word) for word in info.strip("[]").split(":")]
    except ValueError:
        return False
    return all(value.is_integer() and -1 <= value < n_categories for value in values)


def _are_words(values: list) -> bool:
    """Return whether all categories in ``values`` are words that a column of numbers refuses."""
    return all(isinstance(value, str) and value not in _NOT_WORDS and not _is_number(value) for value in values)


def _is_number(word: str) -> bool:
    """Return whether ``word`` is the text of a number other than NaN."""
    try:
        return float(word) == float(word)
    except ValueError:
        return False


def _first_positions(fits: Bool[np.ndarray, "lists features"]) -> Int[np.ndarray, " lists"] | None:
    """Return a column for each list of categories: the first that it fits, behind the column of the list before.

    ``fits`` says which list fits which column. None if a list is left without a column.
    """
    positions = []
    start = 0
    for fits_list in fits:
        candidates = np.flatnonzero(fits_list[start:])
        if not len(candidates):
            return None
        positions.append(start + int(candidates[0]))
        start = positions[-1] + 1
    return np.array(positions)


def _has_other(fits: np.ndarray, positions: Int[np.ndarray, " lists"], tested: Bool[np.ndarray, " features"]) -> bool:
    """Return whether lists of categories fit other columns, too, so that a ``tested`` column has another list, or none.

    ``positions`` are the columns of the lists, which may move to others in the same order where ``fits`` allows that.
    """
    n_lists, n_features = fits.shape
    first_columns = _first_positions(fits)
    mirrored = _first_positions(fits[::-1, ::-1])
    if first_columns is None or mirrored is None:  # never, since they fit where they are
        return True
    # With lists and columns mirrored the first columns that fit are the last ones.
    last_columns = n_features - 1 - mirrored[::-1]
    # A list may have any column that it fits behind the first possible one of the list before it, and before the last
    # possible one of the list behind it.
    begin = np.append(-1, first_columns[:-1])
    end = np.append(last_columns[1:], n_features)
    column = np.arange(n_features)
    alternatives = fits & (column > begin[:, None]) & (column < end[:, None])
    alternatives[np.arange(n_lists), positions] = False
    # A tested column gets a list, or loses its own.
    return bool(np.any(alternatives & (tested | tested[positions][:, None])))
