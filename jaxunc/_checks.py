"""Checks of arguments on the host, with messages that say what to pass instead.

Traced values are unknown: checks of values let them pass, and only shapes are checked.
"""

import difflib
import functools
import inspect
import operator
import os
import re
import sys
import threading
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import jax
import jax.core
import jax.monitoring
import jax.numpy as jnp
import jaxlib
import numpy as np
from jax.extend.core import get_opaque_trace_state

_INNER_PACKAGES = {"jaxunc", "beartype", "equinox", "functools", "jax", "jaxtyping", "sklearn"}
"""Packages whose lines a warning never points at: jaxunc, and those that may call jaxunc for a user's code."""

FunctionT = TypeVar("FunctionT", bound=Callable)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that points at the user's line: the innermost caller that is not in `_INNER_PACKAGES`."""
    # until python 3.12: skip_file_prefixes skips packages in the same way, by their folders
    frame = sys._getframe(1)
    level = 2  # of the caller, counted from `warnings.warn`
    while frame.f_back is not None and _package_of(frame) in _INNER_PACKAGES:
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)


def _package_of(frame: FrameType) -> str:
    """Return the name of the package whose code runs in a frame of the stack."""
    return str(frame.f_globals.get("__name__")).partition(".")[0]


class WrongJaxWarning(UserWarning):
    """The installed version of JAX is known to compute wrong numbers."""


def warn_of_wrong_jax() -> None:
    """Warn if the installed jaxlib is the version that computes wrong numbers, which pyproject excludes."""
    # until jaxlib 0.10.3: jax-ml/jax#39103
    if jaxlib.__version__ == "0.10.2":  # pyright: ignore[reportPrivateImportUsage]
        warn(
            "jaxlib 0.10.2 computes wrong sums of squares of matrix products on CPUs, without an error (jax-ml/jax "
            "issue 39103), and so may this library. Install another: pip install --upgrade 'jax!=0.10.2'.",
            WrongJaxWarning,
        )


class FractionsWarning(UserWarning):
    """Each row of class counts adds to 1: they seem to be frequencies, which do not tell the number of instances."""


class _Process:
    """State of this process: once JAX has begun to work in it, processes forked from it cannot compute."""

    has_begun = False
    """Whether JAX has compiled programs or started threads in this process, or in one that it was forked from."""


def _note_begin(event: str, *_: Any, **__: Any) -> None:
    """Set `_Process.has_begun` if ``event`` is a compilation; JAX's monitoring calls this with each event's name."""
    _Process.has_begun = _Process.has_begun or event.startswith("/jax/core/compile")


def _before_fork() -> None:
    """Set `_Process.has_begun` if a thread of JAX runs, even if nothing was compiled; Python calls it before a fork."""
    if _Process.has_begun:
        return
    # The names of this process's threads, on Linux: those of XLA begin with "tf_xla".
    for thread_name in Path("/proc/self/task").glob("*/comm"):
        try:
            _Process.has_begun |= thread_name.read_bytes().lower().startswith(b"tf_xla")
        except OSError:
            continue  # the thread has ended


def _refuse(event: str, *_: Any, **__: Any) -> None:
    """Raise a RuntimeError if ``event`` is a compilation that this package asked for.

    JAX's monitoring calls this with each event's name, in forked processes, where the program would hang.
    """
    if not event.startswith("/jax/core/compile"):
        return
    frame = sys._getframe(1)
    while frame is not None:
        if _package_of(frame) == "jaxunc":  # a caller: the package asked
            raise RuntimeError(
                "this process was forked from one in which JAX had begun to compute. JAX's threads stayed there, and a "
                "program here would wait for them without end. Start workers by multiprocessing.get_context('spawn') "
                "or 'forkserver', or with joblib's backend 'loky'; or fork before a forest is made, loaded or bound."
            )
        frame = frame.f_back


def _after_fork() -> None:
    """Make every program of this package raise an error if JAX had begun to work before Python forked this process."""
    if _Process.has_begun:
        jax.clear_caches()  # so that each call compiles its program again, and `_refuse` is called
        jax.monitoring.register_event_duration_secs_listener(_refuse)


jax.monitoring.register_event_duration_secs_listener(_note_begin)
# The second hook runs in the child alone, before any of its code.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork)


def is_concrete(*arrays) -> bool:
    """Return whether none of the arrays, or pytrees of arrays, is traced, so that their values can be read."""
    for array in arrays:  # quickly, for a service's calls: a generator takes 2 µs
        if array is not None and type(array) is not np.ndarray:
            break
    else:
        return True
    try:
        leaves = jax.tree.leaves(arrays)
    except ValueError:  # a dictionary whose keys have no order: columns with names of several kinds
        leaves = jax.tree.leaves([list(item.values()) if isinstance(item, dict) else item for item in arrays])
    return not any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)


def outside_traces() -> AbstractContextManager[None]:
    """Return a context in which operations on concrete values are computed at once, even while a program is traced."""
    # Outside of traces the context would make JAX compile programs, and their constants, a second time.
    return nullcontext() if nothing_is_traced() else jax.ensure_compile_time_eval()


def nothing_is_traced() -> bool:
    """Return whether no program is being traced in this thread."""
    return get_opaque_trace_state() == _no_trace()


@functools.cache
def _no_trace() -> object:
    """Return JAX's trace state outside of any trace; it is read in a new thread, in which nothing is traced."""
    states: list[object] = []
    thread = threading.Thread(target=lambda: states.append(get_opaque_trace_state()))
    thread.start()
    thread.join()
    return states[0]


_INVISIBLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Invisible characters on which terminals act: control characters other than tab and newline, line separators, and
marks of the direction of text."""


def escape_invisible(text: str) -> str:
    r"""Return a text for a terminal or a page, with invisible characters (`_INVISIBLE`) as escapes such as ``\x1b``."""
    return _INVISIBLE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def suggest(name, names: Iterable, cutoff: float = 0.6) -> str:
    """Return the question " Did you mean …?" with the closest of ``names`` to ``name``; "" if no name is close.

    Upper and lower case count as equal. ``cutoff`` is the least similarity of `difflib.get_close_matches`, 0 to 1.
    """
    name_by_lower_case = {str(candidate).lower(): candidate for candidate in names}
    close_names = difflib.get_close_matches(str(name).lower(), list(name_by_lower_case), n=1, cutoff=cutoff)
    return f" Did you mean {name_by_lower_case[close_names[0]]!r}?" if close_names else ""


def join_names(names: Sequence[str], most: int = 5) -> str:
    """Return names as one text, quoted and separated by commas: the first ``most``, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more


def check_numbers(name: str, value) -> None:
    """Raise a TypeError, which calls ``value`` by ``name``, unless it is a real number, or an array or list of such."""
    check_readable(name, value)
    if not _holds_numbers(value):
        words = text if len(text := repr(value)) < 200 else f"a {type(value).__name__}"
        raise TypeError(f"{name}={words} is no number and no array of numbers; pass numbers, in rows of one length.")


def check_readable(name: str, value) -> None:
    """Raise an error, which calls ``value`` by ``name``, if its numbers cannot be read.

    It is a TypeError for a masked array of NumPy with masked values, a ValueError for a deleted array of JAX.
    """
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise TypeError(f"{name} is a masked array with masked values; fill them ({name}.filled(…)) or leave them out.")
    if isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer) and value.is_deleted():
        raise ValueError(f"{name} was deleted, as an array is that was donated to a program; pass a copy.")


def as_native(array: np.ndarray) -> np.ndarray:
    """Return an array in a form that JAX takes: in this machine's byte order, and with floats of at most 64 bits."""
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        return array.astype(np.float64)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _holds_numbers(value) -> bool:
    """Return whether ``value`` is a real number, or an array or list of real numbers; it may be traced."""
    if isinstance(value, jax.Array) or not is_concrete(value):
        return not jnp.issubdtype(getattr(value, "dtype", float), jnp.complexfloating)
    try:
        return np.asarray(value).dtype.kind in "biufV"  # V: types that NumPy lacks, as bfloat16
    except ValueError:  # rows of several lengths
        return False


def check_kind(name: str, value, kinds, expected: str) -> None:
    """Raise a TypeError, which calls ``value`` by ``name`` and asks for ``expected``, unless it is one of ``kinds``."""
    if not isinstance(value, kinds):
        raise TypeError(f"{name}={value!r:.60} is a {type(value).__name__}; pass {expected}.")


def check_collection(name: str, value, expected: str) -> None:
    """Raise a TypeError unless ``value`` is a collection, and no text; the other arguments are as for `check_kind`."""
    if isinstance(value, str) or not isinstance(value, Collection):
        raise TypeError(f"{name}={value!r:.60} is a {type(value).__name__}; pass {expected}.")


def check_progress(progress) -> None:
    """Raise a TypeError unless ``progress`` is callable or None."""
    if progress is not None and not callable(progress):
        raise TypeError(
            f"progress={progress!r:.60} must be a function of one object (with done, total, seconds), or None."
        )


def check_bool(name: str, value) -> None:
    """Raise a TypeError unless ``value`` is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name}={value!r:.60} must be a bool; pass True or False.")


def check_integer(name: str, value, minimum: int | None = None, why: str = "") -> None:
    """Raise a TypeError unless ``value`` is an integer, and a ValueError if it is below ``minimum``.

    None is no bound. The message calls the value ``name`` and ends with ``why``.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        bound = "" if minimum is None else f", at least {minimum}"
        raise TypeError(f"{name}={value!r:.60} must be an integer{bound}{why}.")
    if minimum is not None and value < minimum:
        raise ValueError(f"{name}={value} must be at least {minimum}{why}.")


def check_within(name: str, value, within: str, why: str = "", *, shape: tuple[int, ...] | None = ()) -> None:
    """Raise a TypeError unless ``value`` is numeric, a ValueError unless it has ``shape`` and lies in ``within``.

    ``within`` is an interval, such as ``"[0, 1)"``; ``"(0, inf)"`` holds the finite numbers above 0. All numbers of an
    array must lie in it. ``shape`` is ``()`` for one number, or None for any shape. Of a traced value only the shape is
    checked. The message calls the value ``name`` and ends with ``why``.
    """
    above, low, below, high = _interval(within)
    is_bool = isinstance(value, bool)  # Python takes a bool for an integer, too
    is_number = isinstance(value, float | int) and not is_bool and shape in ((), None)
    if is_number and above(value, low) and below(value, high):
        return  # most calls end here, without an array
    check_readable(name, value)
    if is_bool or not _holds_numbers(value):
        raise TypeError(_outside(name, value, within, why).replace(" must ", " is no number; it must ", 1))
    if shape is not None and np.shape(value) != shape:
        expected = f"numbers of shape {shape}" if shape else "one number"
        raise ValueError(f"{name} has shape {np.shape(value)}; pass {expected}{why}.")
    if is_concrete(value):
        values = np.asarray(value, float)
        if not np.all(above(values, low) & below(values, high)):
            raise ValueError(_outside(name, value, within, why))


def check_is_one(name: str, value) -> None:
    """Raise a ValueError, which calls ``value`` by ``name``, unless it has exactly one entry, in any shape."""
    if np.size(value) != 1:
        raise ValueError(f"{name} has shape {np.shape(value)}; pass one number for all classes and leaves.")


def check_confidence(confidence) -> None:
    """Raise a TypeError or a ValueError unless ``confidence``, with which votes are settled, is a number in (.5, 1)."""
    why = ": at .5 any lead would do, and no finite number of votes makes sure of an infinite one"
    check_within("confidence", confidence, "(0.5, 1)", why)


@functools.cache
def _interval(within: str):
    """Return (test of the lower end, lower end, test of the upper end, upper end) of an interval such as "[0, 1)".

    A test takes a value and the end, and returns whether the value is on the inner side.
    """
    low, high = (float(end) for end in within[1:-1].split(","))
    above = operator.gt if within[0] == "(" else operator.ge
    below = operator.lt if within[-1] == ")" else operator.le
    return above, low, below, high


def _outside(name: str, value, within: str, why: str) -> str:
    """Return the error message of `check_within` for a ``value`` outside of the interval ``within``."""
    _, low, _, high = _interval(within)
    expected = f"lie in {within}"
    if high == np.inf:  # such an interval reads better as a bound
        expected = "be finite numbers" if np.ndim(value) else "be a finite number"
        if low > -np.inf:
            sign = ">" if within[0] == "(" else ">="
            expected += f" {sign} {low:g}"
    shown_value = np.asarray(value).tolist() if hasattr(value, "dtype") else value
    return f"{name}={shown_value!r:.60} must {expected}{why}."


def check_key(key) -> None:
    """Raise a TypeError unless ``key`` is one typed random key of JAX, not an array of several keys."""
    if not (isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key) and key.shape == ()):
        raise TypeError(f"key is {key!r:.60}; pass one typed key, jax.random.key(seed).")


def checked_key(key) -> jax.Array:
    """Return ``key``, or ``jax.random.key(0)`` for None; raises the TypeError of `check_key`."""
    if key is None:
        return jax.random.key(0)
    check_key(key)
    return key


def check_seed(random_state) -> None:
    """Raise a ValueError unless ``random_state`` is None, a seed in [0, 2³²), `numpy.random` or a RandomState."""
    is_integer = isinstance(random_state, int | np.integer) and not isinstance(random_state, bool)
    if (is_integer and 0 <= random_state < 2**32) or random_state is None or random_state is np.random:
        return
    if not isinstance(random_state, np.random.RandomState):
        raise ValueError(
            f"random_state={random_state!r:.60} must be None, an integer in [0, 2**32) or NumPy's RandomState; pass 0."
        )


def show_settings(settings: type, defaults: Mapping[str, Any]) -> Callable[[FunctionT], FunctionT]:
    """Return a decorator that puts the keywords of a function's ``**`` parameter into its signature.

    ``settings`` is a `TypedDict` of the keywords' names and types, and ``defaults`` is {name: default}. A keyword
    without a default there is shown with None.
    """

    def decorate(function: FunctionT) -> FunctionT:
        signature = inspect.signature(function)
        *named_parameters, _ = signature.parameters.values()
        shown_settings = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults.get(name), annotation=annotation)
            for name, annotation in settings.__annotations__.items()
        ]
        kinds = [parameter.kind for parameter in named_parameters]
        first_keyword = kinds.index(inspect.Parameter.KEYWORD_ONLY)
        # The settings take the place of ``**``, and stand before the function's own keywords.
        vars(function)["__signature__"] = signature.replace(
            parameters=[*named_parameters[:first_keyword], *shown_settings, *named_parameters[first_keyword:]]
        )
        return function

    return decorate


def check_settings(passed: Mapping[str, Any], settings: type, function: str) -> None:
    """Raise a TypeError, which suggests the nearest name, if a keyword in ``passed`` is not a name in ``settings``.

    ``settings`` is a `TypedDict`. The message calls the function ``function``.
    """
    names = settings.__annotations__
    if unknown := [name for name in passed if name not in names]:
        raise TypeError(
            f"{function} got an unexpected keyword argument {unknown[0]!r}.{suggest(unknown[0], names)} Its "
            f"settings are {', '.join(names)}."
        )


def check_one_of(name: str, value, allowed: Iterable) -> None:
    """Raise a ValueError unless ``value`` equals one of the ``allowed`` values, and has the type of that one.

    The message calls the value ``name``, and suggests the nearest of the allowed ones.
    """
    if not any(isinstance(value, type(choice)) and value == choice for choice in allowed):
        choices = ", ".join(map(repr, allowed))
        raise ValueError(f"{name}={value!r} is unknown.{suggest(value, allowed)} Choose one of {choices}.")


def check_counts(counts, name: str = "counts") -> None:
    """Raise a ValueError, which calls ``counts`` by ``name``, unless every count is a finite number >= 0.

    Raises a TypeError unless they are numbers. Traced counts are not checked.
    """
    if not is_concrete(counts):
        return
    check_readable(name, counts)
    values = np.asarray(counts)
    if values.dtype.kind not in "biuf":  # texts, complex numbers; or bfloat16, which passes
        check_numbers(name, counts)
    if not np.all(np.isfinite(values)):
        raise ValueError(f"{name} holds NaN or infinite values; class counts must be finite numbers >= 0.")
    if values.size and values.min() < 0:
        raise ValueError(
            f"{name} holds negative values (smallest {values.min()}); class counts must be >= 0. "
            "Check for negative sample weights."
        )


def warn_of_fractions(counts) -> None:
    """Warn if every row of ``counts [... classes]`` adds to 1 or to 0, and some count is not an integer.

    Such counts seem to be frequencies. Traced counts are not looked at.
    """
    if not is_concrete(counts):
        return
    values = np.asarray(counts)
    if values.dtype.kind in "biu":
        return
    sizes = values.sum(axis=-1, dtype=float)
    if np.any(sizes > 0) and np.all((np.abs(sizes - 1) < 1e-4) | (sizes == 0)) and np.any(values != np.rint(values)):
        warn(
            "every row of the counts adds to 1: these look like class frequencies, and every leaf then counts as one "
            "instance. scikit-learn's tree_.value holds frequencies since version 1.4; multiply them by "
            "tree_.weighted_n_node_samples, or use jaxunc.from_sklearn(model), which does.",
            FractionsWarning,
        )


def check_class_axis(counts, name: str = "counts") -> None:
    """Raise a ValueError, which calls ``counts`` by ``name``, unless their last axis, of classes, has two or more."""
    shape = np.shape(counts)
    if not shape or shape[-1] < 2:
        raise ValueError(
            f"{name} has shape {shape}; its last axis must hold the classes, two or more. "
            "Pass class counts such as [negatives, positives]."
        )


def check_two_classes(counts, scorer: str) -> None:
    """Raise a ValueError, which names the scorer, unless the last axis of ``counts`` holds exactly two classes."""
    check_class_axis(counts)
    if (n_classes := np.shape(counts)[-1]) != 2:
        raise ValueError(
            f"{scorer} compares two classes, but counts have {n_classes} (shape {np.shape(counts)}). "
            "Pass [..., 2] counts, or each class against the rest: OneVsRest does that."
        )


def rounded_to(dtype, values) -> np.ndarray:
    """Return values as compiled programs of a dtype take them: rounded to it, and subnormal numbers as 0."""
    rounded = np.asarray(values, dtype)
    return np.where(np.abs(rounded) < jnp.finfo(dtype).tiny, 0, rounded)  # XLA flushes subnormal numbers


def check_probability_vector(prior, n_classes: int, name: str = "prior") -> None:
    """Raise a ValueError unless ``prior [classes]`` has ``n_classes`` positive entries that add to 1, within 1e-4.

    Entries must be positive when they are rounded to the prior's dtype (`rounded_to`). Of a traced prior only the shape
    is checked. The message calls the prior ``name``.
    """
    shape = np.shape(prior)
    if shape != (n_classes,):
        raise ValueError(
            f"{name} has shape {shape}, but the counts have {n_classes} classes; "
            f"pass one probability per class, shape ({n_classes},)."
        )
    if not is_concrete(prior):
        return
    check_readable(name, prior)
    values = np.asarray(prior, dtype=np.float64)
    if not np.all(rounded_to(prior.dtype, prior) > 0):
        held = f", as {prior.dtype} holds it" if np.all(values > 0) else ""
        raise ValueError(
            f"{name}={values.tolist()} has an entry that is not positive{held}: evidence against a class that "
            "cannot occur is undefined. Drop the class, or give it a small positive probability."
        )
    if not abs(values.sum() - 1) < 1e-4:
        raise ValueError(f"{name}={values.tolist()} adds to {values.sum():.6g}; class probabilities must add to 1.")


def as_weights(sample_weight, n: int, name: str = "sample_weight") -> np.ndarray:
    """Return the weights of ``n`` instances as float64 ``[n]``; if ``sample_weight`` is None, all weights are 1.

    Raises a TypeError unless they are numbers, a ValueError unless they have the shape ``[n]`` and are finite and >= 0.
    The message calls them ``name``.
    """
    if sample_weight is not None:
        check_numbers(name, sample_weight)
    weights = np.ones(n) if sample_weight is None else np.asarray(sample_weight, np.float64)
    if weights.shape != (n,):
        raise ValueError(f"{name} has shape {weights.shape}; pass one number per instance, shape ({n},).")
    if not np.all(is_valid := np.isfinite(weights) & (weights >= 0)):
        raise ValueError(f"{name} holds {weights[~is_valid][0]}; pass finite numbers >= 0. 0 leaves an instance out.")
    return weights


def distinct_labels(y, name: str = "y") -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct labels in ``y [instances]``, sorted, and for each instance its label's position among them.

    Raises a TypeError, which calls the labels ``name``, if they have no order, as texts and numbers together.
    """
    labels = np.asarray(y)
    try:
        return np.unique(labels, return_inverse=True)
    except TypeError as error:
        kinds = sorted({type(label).__name__ for label in labels.tolist()})
        raise TypeError(
            f"{name} holds labels of the types {', '.join(kinds)}, which have no order; make them all texts or all "
            "numbers, and leave out instances without a label."
        ) from error
