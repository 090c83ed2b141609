"""Maps of targets: a model is fitted to transformed targets, and answers come back by the inverse."""

import importlib
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

INVERSES = {"log": "exp", "log1p": "expm1", "log2": "exp2", "log10": "exp10", "sqrt": "square", "arcsinh": "sinh"}
INVERSES |= {inverse: name for name, inverse in INVERSES.items()} | {"logit": "expit", "expit": "logit"}
INVERSES |= {name: name for name in ("negative", "reciprocal")}
"""Functions of NumPy or SciPy that files may name, and their inverses."""
WITH_NUMBERS = {"affine": 2, "box-cox": 1, "yeo-johnson": 1}
"""Further steps that files may name, and how many numbers each has."""
Steps = tuple[tuple[str | float, ...], ...]
GRID = 257
"""Number of transformed targets at which the inverse is checked."""
TOLERANCE = 1e-6
"""Share of the targets' range by which a target may be off after the map and its inverse."""
FARTHEST = 10.0
"""Number of ranges of the targets by which answers may lie beyond the targets: inverses may have poles."""
_MOST_STEPS = 80
"""Number of steps toward an end of a map. They double, and then halve: after some 50 of these they are in a float64's
last bit."""
MOST_LOST = 0.01
"""Largest share of targets that may come back changed: those beyond what a transformer of ranks was fitted to."""


class TargetMap(NamedTuple):
    """A rising or falling map from targets to the numbers that a model is fitted to, and its inverse."""

    steps: Steps | None
    """Names of functions, each with its numbers, in the order in which targets go through them; None without names."""
    low: float
    """Least transformed target that inverse and map return to itself; `inverse` clips to ``low`` and ``high``."""
    high: float
    rises: bool
    functions: Any = None
    """The function and its inverse; None after the fit, if ``steps`` name them."""

    @property
    def named(self) -> "TargetMap":
        """The map without ``functions`` if it has ``steps``, which files can keep; else the map itself."""
        return self if self.steps is None else self._replace(functions=None)

    def forward(self, y: Any) -> np.ndarray:
        """Return the transformed targets of ``y``, in its shape; NaN stays NaN.

        Raises a ValueError if a target becomes no finite number.
        """
        y = np.asarray(y, np.float64)
        t = self._through(0, y)
        if len(wrong := y[~np.isfinite(t) & ~np.isnan(y)]):
            raise ValueError(
                f"y holds {wrong[0]:g}, which the transform of the TransformedTargetRegressor makes no finite number; "
                "leave such rows out, or take another transform (np.log1p takes 0)."
            )
        return t

    def inverse(self, t: Any) -> np.ndarray:
        """Return the targets of transformed targets t, which are first clipped to ``low`` and ``high``; NaN is kept."""
        return self._through(1, np.clip(np.asarray(t, np.float64), self.low, self.high))

    def levels(self, levels: Any) -> np.ndarray:
        """Return the levels of the same quantiles among transformed targets: 1 - ``levels`` for a falling map."""
        return np.asarray(levels) if self.rises else 1 - np.asarray(levels)

    def _through(self, direction: int, x: np.ndarray) -> np.ndarray:
        """Return the numbers ``x`` mapped forward (``direction`` 0) or back (1), without clipping.

        They go through ``functions`` if there are any, else through ``steps``.
        """
        with np.errstate(all="ignore"):
            if self.functions is not None:
                return _on_numbers(self.functions[direction], x)
            steps = self.steps or ()
            if direction:
                steps = steps[::-1]
            for name, *settings in steps:
                x = _STEPS[name][direction](x, *settings) if name in _STEPS else _function(direction, str(name))(x)
        return x


def target_map(steps: Steps | None, functions: tuple[Callable, Callable], y: np.ndarray) -> TargetMap:
    """Return the map by two ``functions``, the transform and its inverse, after a check on the targets ``y``.

    ``steps`` are the functions' names for files, or None. Raises a ValueError if y shows that the map has no inverse.
    The map's ``low`` and ``high`` lie beyond the transformed targets, as far as the two functions undo each other, up
    to `FARTHEST` ranges of y.
    """
    map_ = TargetMap(steps, low=-math.inf, high=math.inf, rises=True, functions=functions)
    y = np.unique(y)
    t = map_.forward(y)
    span = float(np.ptp(t))
    rises = bool(t[-1] >= t[0])
    _check_order(y, t, rises, "makes {} of {}")
    is_lost = np.abs(map_.inverse(t) - y) > TOLERANCE * max(np.ptp(y), abs(y).max())
    if is_lost.mean() > MOST_LOST or (span == 0 and len(y) > 1):
        lost = int(np.argmax(is_lost))
        raise ValueError(
            f"the target transform makes {t[lost]:g} of {y[lost]:g}, and its inverse {map_.inverse(t[lost]):g} of "
            "that; pass a func and an inverse_func that undo each other. A QuantileTransformer of many rows needs "
            "subsample=None."
        )
    map_ = map_.named  # scikit-learn's functions warn of what lies far off
    grid = np.linspace(t.min(), t.max(), GRID)
    _check_order(grid, map_.inverse(grid), rises, "makes {} of {} on the way back")
    first_step = span or 1.0
    farthest = FARTHEST * (np.ptp(y) or 1.0)
    sign = 1 if rises else -1
    low = _reach(map_, t.min(), -first_step, -sign * farthest)
    high = _reach(map_, t.max(), first_step, sign * farthest)
    return map_._replace(low=low, high=high, rises=rises, functions=functions)


def check_target_map(map_: TargetMap) -> None:
    """Raise a ValueError unless the map has steps that files may name, no functions, and its ends in order."""
    for name, *numbers in map_.steps or ():
        size = 0 if name in INVERSES else WITH_NUMBERS.get(str(name))
        fits = len(numbers) == size and all(isinstance(n, float | int) and math.isfinite(n) for n in numbers)
        if not fits or (name == "affine" and not numbers[0]):
            raise ValueError(f"a map of targets has the step {name!r:.40} with {numbers[:4]}, which is none.")
    if map_.steps is None or map_.functions is not None or not map_.low <= map_.high:
        raise ValueError("a map of targets has no steps, functions, or ends that are not in their order.")


def _check_order(x: np.ndarray, values: np.ndarray, rises: bool, clause: str) -> None:
    """Raise a ValueError unless ``values`` rise as ``x`` ascends, or fall if not ``rises``, up to rounding.

    ``clause`` is a part of the message, with a ``{}`` for some of the values and a second one for their x.
    """
    steps = np.diff(values) * (1 if rises else -1)
    if (turns := ~(steps >= -1e-12 * np.ptp(values))).any():
        turn = int(np.argmax(turns))
        examples = sorted({0, turn, turn + 1, len(x) - 1})
        values_text, x_text = (", ".join(f"{number:g}" for number in array[examples]) for array in (values, x))
        raise ValueError(
            f"the target transform {clause.format(values_text, x_text)}: it neither rises nor falls throughout, so "
            "intervals cannot come back. Pass a func and an inverse_func that do."
        )


def _reach(map_: TargetMap, end: float, step: float, farthest: float) -> float:
    """Return the farthest transformed target found beyond ``end`` that the inverse and then the map return to itself.

    ``step`` is the first step away from ``end``; steps double while they succeed, and then halve. ``farthest`` bounds
    how far the target may lie from that of ``end``; its sign is that of the difference.
    """
    grows = True
    unit = abs(step)
    end_target = map_.inverse([end])[0]
    for _ in range(_MOST_STEPS):
        t = np.array([end + step])
        y = map_.inverse(t)
        t_again = map_._through(0, y)  # 0: from targets to transformed targets
        is_near = 0 <= (y[0] - end_target) / farthest <= 1  # on the right side, too
        if is_near and abs(t_again[0] - t[0]) <= TOLERANCE * (unit + abs(t[0])):
            end = float(t[0])
        else:
            grows = False
        step = 2 * step if grows else step / 2
    return float(end)


def _on_numbers(function: Callable, x: np.ndarray) -> np.ndarray:
    """Return the values of ``function`` at ``x``, in the shape of x; NaN where x is not finite.

    ``function`` is that of a transformer, which takes and returns one column.
    """
    values = np.full(x.shape, np.nan)
    is_number = np.isfinite(x)
    if is_number.any():
        values[is_number] = np.asarray(function(x[is_number].reshape(-1, 1)), np.float64).reshape(-1)
    return values


def _function(direction: int, name: str) -> Callable:
    """Return NumPy's or SciPy's function called ``name`` (``direction`` 0), or its inverse in `INVERSES` (1)."""
    name = INVERSES[name] if direction else name
    return getattr(np, name, None) or _special(name)


def _special(name: str) -> Callable:
    """Return SciPy's special function called ``name``."""
    return getattr(importlib.import_module("scipy.special"), name)  # slow to import, and rarely needed


def _extend_by_sign(name: str) -> Callable:
    """Return SciPy's function ``name`` of numbers and a power, extended to negative numbers as by Yeo and Johnson."""

    def evaluate(x: np.ndarray, power: float) -> np.ndarray:
        f = _special(name)
        return np.where(x < 0, -f(np.maximum(-x, 0), 2 - power), f(np.maximum(x, 0), power))

    return evaluate


_STEPS: dict[Any, tuple[Callable, Callable]] = {
    "affine": (lambda y, scale, shift: (y - shift) / scale, lambda t, scale, shift: t * scale + shift),
    "box-cox": (lambda y, power: _special("boxcox")(y, power), lambda t, power: _special("inv_boxcox")(t, power)),
    "yeo-johnson": (_extend_by_sign("boxcox1p"), _extend_by_sign("inv_boxcox1p")),
}


def steps_of_transformer(transformer: Any, y: np.ndarray) -> Steps | None:
    """Return the steps of a transformer of scikit-learn that was fitted to targets y; None if files cannot name it."""
    kind = type(transformer).__name__ if type(transformer).__module__.startswith("sklearn.") else ""
    if kind == "Pipeline":
        all_steps: Steps = ()
        for _, step in transformer.steps:
            if step in (None, "passthrough"):
                continue
            steps = steps_of_transformer(step, y)
            if steps is None:
                return None
            all_steps += steps
            y = _on_numbers(step.transform, y)  # what the next step was fitted to
        return all_steps
    if kind == "FunctionTransformer":
        return _steps_of_functions(transformer.func, transformer.inverse_func)
    is_affine = kind in ("StandardScaler", "RobustScaler", "MaxAbsScaler") or (
        kind == "MinMaxScaler" and not transformer.clip
    )
    power_step: Steps = ()
    if kind == "PowerTransformer":
        power_step = ((transformer.method, float(transformer.lambdas_[0])),)
        if not transformer.standardize:
            return power_step
    elif not is_affine:
        return None
    ends = np.array([y.min(), y.max()])  # two points determine what is affine behind the power
    x = TargetMap(power_step, -math.inf, math.inf, True).forward(ends)
    t = _on_numbers(transformer.transform, ends)
    if not t[0] < t[1]:  # all targets are the same number
        return None
    scale = float((x[1] - x[0]) / (t[1] - t[0]))
    return (*power_step, ("affine", scale, float(x[0] - t[0] * scale)))


def _steps_of_functions(func: Any, inverse: Any) -> Steps | None:
    """Return the steps of a function and its ``inverse``; () if both are None, and None if files cannot name them."""
    if func is None and inverse is None:
        return ()
    owner = getattr(func, "__self__", None)
    if isinstance(owner, TargetMap) and getattr(inverse, "__self__", None) is not None:  # an estimator out of a file
        return owner.steps
    name = getattr(func, "__name__", "")
    is_known = isinstance(func, np.ufunc) and name in INVERSES and _function(0, name) is func
    return ((name,),) if is_known and _function(1, name) is inverse else None
