"""Decisions of the least expected cost, and costs by the names of classes, as tables and files hold them.

Python, ``--costs`` of every command, and streams read costs by the same two functions: `plain_costs` where the classes
are not known yet, `cost_matrix` where they are.
"""

import csv
import io
import json
import os
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Real

from jaxunc._checks import check_numbers, check_within, is_concrete, suggest
from jaxunc._numerics import copy_in, jit
from jaxunc.tables import NumbersLike

from ._costs import by_rows, checked_probability, expected_values, wide_dtype

_ULPS = 4
"""Tolerance, in units in the last place, within which sums of costs are equal: 0.9 and 1 - 0.1 round differently."""


def least_cost(
    p: Real[Array | np.ndarray, "... classes"], costs: NumbersLike | None = None, *, reject: NumbersLike | None = None
) -> Int[Array | np.ndarray, "..."]:
    r"""Return the decision of the least expected cost, or -1 where a rejection costs less than every decision.

    .. math:: d^* = \arg\min_d \sum_c p_c\, K_{cd}, \qquad
              \text{rejected} \iff \min_d \sum_c p_c\, K_{cd} > t

    Parameters
    ----------
    p
        Class probabilities ``[... classes]`` of any origin.
    costs
        K, the cost of each decision (column) where a class is the truth (row), ``[classes decisions]``, ≥ 0. Usually
        decisions are classes. Default: a wrong class costs 1, the right one nothing.
    reject
        t, the cost of a rejection in the same unit, ≥ 0: a number, or one for each row ``[...]``. Default: nothing is
        rejected. A rejection whose cost depends on the truth is a further column of ``costs``.

    Returns
    -------
    Array
        Indices of decisions ``[...]``, -1 where rejected; a NumPy array for NumPy arrays. Among equal costs the more
        probable class is taken, then the lower index; the lower index alone if there are not C decisions.

    Raises
    ------
    ValueError
        If shapes do not fit, or p has one class. Outside a trace also if a row of p is not a distribution (within
        0.001), or a cost is negative or not finite.

    Notes
    -----
    Costs that differ by rounding alone are equal; so a probability that is 1 - t decides at a cost t of rejection
    (Chow's rule). From t = 1 - 1/C on nothing is rejected at the default costs. Gains cannot be given as negative
    costs: add the gain to the costs of the other decisions for that truth, which changes no decision.

    The probabilities are taken as they are: unlike a cautious forest, the rule knows nothing of how few instances they
    rest on. Under a trace rows with NaN are rejected, or without ``reject`` decided for the first class. Gradient:
    none.

    References
    ----------
    Chow 1970, "On optimum recognition error and reject tradeoff", equation 1; Elkan 2001, "The foundations of
    cost-sensitive learning".

    Examples
    --------
    >>> import numpy as np
    >>> import jaxunc as ju
    >>> p = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]])
    >>> print(ju.decisions.least_cost(p, reject=0.25))  # an error costs 1
    [ 0 -1  1]
    >>> print(ju.decisions.least_cost(p, [[0, 1], [10, 0]]))  # to miss class 1 costs ten false alarms
    [1 1 1]
    """
    share = checked_probability("p", p)
    n_classes = share.shape[-1]
    cost_table = 1 - np.eye(n_classes) if costs is None else _checked(costs, n_classes)
    decide = partial(_least_cost_decision, copy_in(cost_table, wide_dtype(share)))
    share = share if is_concrete(costs) else copy_in(share)  # decisions by traced costs are traced, too
    if reject is None:
        return by_rows(decide, share)
    check_within("reject", reject, "[0, inf)", ": what a rejection costs", shape=None)
    if np.shape(reject) not in ((), share.shape[:-1]):
        raise ValueError(
            f"reject has shape {np.shape(reject)}, p {share.shape}; pass one number, or one for each row, shape "
            f"{share.shape[:-1]}."
        )
    shape = share.shape[:-1]
    reject_costs = jnp.broadcast_to(reject, shape) if isinstance(reject, jax.Array) else np.broadcast_to(reject, shape)
    return by_rows(decide, share, reject_costs)


def _checked(costs: Any, n_classes: int) -> Any:
    """Return ``costs`` as they are; raise an error unless they are numbers ``[classes decisions]``, ≥ 0 and finite.

    The values of traced costs are not checked.
    """
    check_numbers("costs", costs)
    shape = np.shape(costs)
    if len(shape) != 2 or shape[0] != n_classes or not shape[1]:
        raise ValueError(
            f"costs has shape {shape}; pass a row for each of the {n_classes} classes that may be the truth, and a "
            f"column for each decision, usually ({n_classes}, {n_classes})."
        )
    if is_concrete(costs):
        check_costs(np.asarray(costs, float))
    return costs


def check_costs(values: np.ndarray) -> None:
    """Raise a ValueError unless all costs, ``values [classes decisions]``, are ≥ 0 and finite in float32."""
    wrong = ~((values >= 0) & (values < np.finfo(np.float32).max))
    if wrong.any():
        index = tuple(map(int, np.argwhere(wrong)[0]))
        raise ValueError(
            f"costs[{index[0]}, {index[1]}] is {values[index]:g}; costs must be finite numbers >= 0. A gain is what "
            "the other decisions cost more."
        )


@jit
def _least_cost_decision(
    costs: Float[Array, "classes decisions"], share: Float[Array, "... classes"], reject: Any = None
) -> Array:
    """Return for each row the number of the decision of least expected cost, or -1 where a rejection costs less.

    ``share`` has the class probabilities, and ``reject [...]`` the cost of a rejection; None: nothing is rejected.
    """
    n_classes, n_decisions = costs.shape
    slack = max(_ULPS, n_classes) * float(jnp.finfo(share.dtype).eps)
    expected = expected_values(share.astype(costs.dtype), costs)
    least_expected = jnp.min(expected, axis=-1, keepdims=True)
    # Each side is rounded by ``slack`` at most. Rounding may leave the least below 0.
    is_least = expected <= least_expected + 2 * slack * jnp.abs(least_expected)
    # Among decisions of equal cost the most probable class is taken, the first one on ties.
    preference = jnp.where(is_least, share, -1.0) if n_decisions == n_classes else is_least
    decision = jnp.argmax(preference, axis=-1).astype(jnp.int32)
    if reject is None:
        return decision
    reject = reject.astype(costs.dtype)
    least_expected = least_expected[..., 0]
    is_kept = least_expected <= reject + slack * least_expected + slack * reject
    return jnp.where(is_kept, decision, jnp.int32(-1))


_FORMS = (
    '\'yes:no=5,no:yes=1\' (truth:decision=cost), JSON, {"yes": {"no": 5}}, or the name of a file of CSV (truths by '
    "decisions) or JSON"
)


def plain_costs(costs: Any) -> Any:
    """Return costs in a form that JSON holds: a dictionary ``{truth: {decision: cost}}``, or nested lists.

    ``costs`` are a text, the name of a file, a mapping or a data frame by names of classes; or numbers ``[classes
    decisions]``, which give lists. None gives None. A text of pairs in which a class has a colon is returned unchanged,
    for `cost_matrix`, which knows the classes. Raises a TypeError or a ValueError if ``costs`` hold no costs.
    """
    if costs is None:
        return None
    if isinstance(costs, str | os.PathLike):
        text = str(costs)
        content = _read_text(text)
        if isinstance(content, Mapping):
            return plain_costs(content)
        needs_classes = any(pair.count(":") > 1 for pair, _ in content)  # to find the colon between two names
        return text if needs_classes else _costs_by_name(text, content, names=None)
    if hasattr(costs, "columns") and hasattr(costs, "index"):
        decisions = [str(name) for name in costs.columns]
        truths = [str(name) for name in costs.index]
        _refuse_repeats(decisions)
        _refuse_repeats(truths)
        rows = [dict(zip(decisions, row, strict=True)) for row in np.asarray(costs)]
        costs = dict(zip(truths, rows, strict=True))
    if isinstance(costs, Mapping):
        _refuse_repeats(costs)
        return {str(truth): _row(truth, row) for truth, row in costs.items()}
    check_numbers("costs", costs)
    return np.asarray(costs, float).tolist()


def _row(truth: Any, row: Any) -> dict[str, float]:
    """Return ``row``, the costs of decisions where ``truth`` is the class, as a dictionary by decisions as strings.

    Raises a TypeError if ``row`` is no mapping, and a ValueError for a decision that comes twice or a wrong cost.
    """
    if not isinstance(row, Mapping):
        raise TypeError(f"costs[{truth!r}] is {row!r:.60}; pass the cost of each decision: {{'yes': {{'no': 5}}}}.")
    _refuse_repeats(row)
    return {str(decision): _number(f"{truth}:{decision}", cost) for decision, cost in row.items()}


def _refuse_repeats(names: Collection[Any]) -> None:
    """Raise a ValueError if two of ``names``, of classes, are equal as strings, as 1 and "1" are."""
    if len({str(name) for name in names}) < len(names):
        raise ValueError("costs names a class twice; give each truth one row, and each decision one column.")


def _read_text(text: str) -> Mapping[str, Any] | list[tuple[str, str]]:
    """Return the costs in ``text``: the name of a file, JSON, or pairs such as "yes:no=5,no:yes=1".

    A file or JSON gives a dictionary ``{truth: {decision: cost}}``. Pairs give a list of (TRUTH:DECISION, cost), both
    strings. Raises a ValueError for anything else.
    """
    if os.path.isfile(text):
        return _of_file(Path(text))
    if text.lstrip().startswith("{"):
        return _of_json(text, "costs")
    if "=" not in text:
        raise ValueError(f"costs={text!r:.60} is no file and names no costs; expected {_FORMS}.")
    pairs = []
    for part in text.split(","):
        pair, sign, cost = part.rpartition("=")
        has_two_names = ":" in pair.strip().strip(":")  # a colon with a name on either side
        if not (sign and has_two_names):
            raise ValueError(f"costs={text!r:.60} has {part.strip()!r:.40}; write TRUTH:DECISION=COST, or {_FORMS}.")
        pairs.append((pair, cost))
    return pairs


def _costs_by_name(text: str, pairs: list[tuple[str, str]], names: Sequence[str] | None) -> dict[str, dict[str, float]]:
    """Return the dictionary ``{truth: {decision: cost}}`` of ``pairs``, each (TRUTH:DECISION, cost), both strings.

    A pair is cut at the colon with one of ``names`` (the classes) on both sides, else at the first colon. Raises a
    ValueError, which quotes ``text``, if several colons could be meant, a pair comes twice, or a cost is no cost.
    """
    costs: dict[str, dict[str, float]] = {}
    for pair, cost in pairs:
        colons = [i for i, letter in enumerate(pair) if letter == ":"]
        readings = [(pair[:i].strip(), pair[i + 1 :].strip()) for i in colons]  # a pair may be cut at any of its colons
        readings_as_classes = [reading for reading in readings if set(reading) <= set(names or ())]
        if len(readings_as_classes) > 1:
            raise ValueError(
                f"costs={text!r:.60} has {pair.strip()!r:.40}, which reads as two pairs of classes; write JSON."
            )
        truth, decision = (readings_as_classes or readings)[0]
        if decision in costs.setdefault(truth, {}):
            raise ValueError(f"costs={text!r:.60} names {truth}:{decision} twice; name each pair once.")
        costs[truth][decision] = _number(f"{truth}:{decision}", cost)
    return costs


def _of_file(path: Path) -> Mapping[str, Any]:
    """Return the dictionary ``{truth: {decision: cost}}`` of a file of JSON, or of CSV with a line for each truth.

    Costs of CSV are strings. Raises a ValueError if the file cannot be read, or holds no costs.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"costs={str(path)!r} cannot be read ({error}); expected {_FORMS}.") from error
    if path.suffix.lower() == ".json":
        return _of_json(text, str(path))
    lines = [[cell.strip() for cell in line] for line in csv.reader(io.StringIO(text)) if line]
    head, *rows = lines or [[]]
    if len(head) < 2 or not rows or any(len(row) != len(head) for row in rows):
        raise ValueError(
            f"{path} holds no costs: expected a line with the names of decisions behind an empty cell, and a line for "
            "each truth, its name first, with commas between."
        )
    if len({row[0] for row in rows}) < len(rows) or len(set(head)) < len(head):
        raise ValueError(f"{path} names a class twice; give each truth one line, and each decision one column.")
    return {truth: dict(zip(head[1:], costs, strict=True)) for truth, *costs in rows}


def _of_json(text: str, where: str) -> Mapping[str, Any]:
    """Return the dictionary ``{truth: {decision: cost}}`` that a JSON ``text`` holds, with costs as they stand there.

    Raises a ValueError, which says ``where`` the text comes from, if it holds none.
    """

    def refuse_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError(f"{where} names a class twice; name each truth once, and each decision once for it.")
        return dict(pairs)

    try:
        document = json.loads(text, object_pairs_hook=refuse_repeats)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{where} holds no JSON ({error}); expected {_FORMS}.") from error
    if not (isinstance(document, dict) and all(isinstance(row, dict) for row in document.values())):
        raise ValueError(f"{where} holds JSON that says no costs; expected {_FORMS}.")
    return document


def _number(pair: str, cost: Any) -> float:
    """Return ``cost`` as a float; raise a ValueError, which names the ``pair``, unless it is ≥ 0 and finite."""
    try:
        value = float(cost)
    except (TypeError, ValueError):
        value = float("nan")
    if not 0 <= value < np.finfo(np.float32).max:
        raise ValueError(f"costs has {pair}={cost!r:.30}; costs must be finite numbers >= 0.")
    return value


def cost_matrix(costs: Any, labels: Sequence[Any]) -> np.ndarray | None:
    """Return costs as a matrix ``[classes classes]``, with truths as rows and decisions as columns; None for None.

    ``costs`` are what `plain_costs` takes, and ``labels`` the classes of the model in their order. With costs by names,
    pairs that are not named cost 1 if the decision is wrong, and 0 if it is right. Raises a ValueError for a name that
    is not a class (the nearest is suggested), and for another shape.
    """
    if (plain := plain_costs(costs)) is None:
        return None
    names = [str(label) for label in labels]
    if isinstance(plain, str):
        pairs = _read_text(plain)
        assert isinstance(pairs, list)
        plain = _costs_by_name(plain, pairs, names)
    if not isinstance(plain, dict):
        values = np.asarray(plain, float)
        if values.shape != (len(names), len(names)):
            raise ValueError(
                f"costs has shape {values.shape}; pass a row for each class that may be the truth and a column for "
                f"each class that may be decided for, in the order {names[:10]}: shape {(len(names), len(names))}."
            )
        check_costs(values)
        return values
    matrix = 1 - np.eye(len(names))
    for truth, row in plain.items():
        for name in (truth, *row):
            if name not in names:
                raise ValueError(
                    f"costs names the class {name!r:.40}, which is none.{suggest(name, names)} The classes are "
                    f"{names[:10]}."
                )
        for decision, cost in row.items():
            matrix[names.index(truth), names.index(decision)] = cost
    return matrix
