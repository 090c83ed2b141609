"""The declaration of a scorer, and scores that are arithmetic of the counts, such as relative frequencies.

`scorer` declares how far values reach, which settings choose a program, and whether a scorer reads sizes. `as_partial`
makes a scorer with settings a pytree, whose leaves are the settings that can be traced and learned.

The scores are quotients of exact differences of counts (`excess`, `lead`), taken before anything is rounded: 10⁹ + 1
against 10⁹ is no tie in float32.
"""

import functools
import math
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.tree_util import Partial
from jaxtyping import Array, Bool, Float, Num, Shaped

from jaxunc._checks import check_is_one, check_numbers, check_within, is_concrete, warn_of_fractions
from jaxunc._numerics import as_counts, checked_counts, copy_in, float_dtype, safe_divide, shares_of, sum_in_order
from jaxunc.tables import NumbersLike

Function = TypeVar("Function", bound=Callable)


class Declaration(NamedTuple):
    """The declaration of a scorer: the arguments of the decorator `scorer`."""

    width: float | Callable[..., float] = 1.0  # length of the interval around 0 that the values span
    static: frozenset[str] | None = None
    """Names of the settings that choose the program; None if the scorer is not declared."""
    reads_sizes: bool = False
    domains: Mapping[str, str] = MappingProxyType({})


def scorer(
    *,
    width: float | Callable[..., float] = 1.0,
    static: Iterable[str] = (),
    reads_sizes: bool = False,
    domains: Mapping[str, str] = MappingProxyType({}),
) -> Callable[[Function], Function]:
    """Declare what a combiner has to know of a scorer; the function itself stays as it is.

    Parameters
    ----------
    width
        The length of the interval around 0 that its values span (two classes): a score s reads as the probability
        1/2 + s/width of class 1. ``inf``: its values have no bound, and no such reading. A function may be passed where
        the width depends on the settings. It is called with the settings that a ``Partial`` fixes, as keywords; it has
        defaults for the others. Settings that are leaves it gets as traced arrays: of them it makes a finite width.
    static
        Names of the settings that choose its program, such as methods, bools and sizes. Each value must have a hash,
        and has a program of its own. All other settings, except strings and None, are leaves, which can be traced and
        learned.
    reads_sizes
        Whether its values change where a leaf's counts are all multiplied by a number. If so, combiners warn of counts
        that look like frequencies.
    domains
        Where settings may be learned, by their names: see `jaxunc.combiners.learned_field`. Others are real numbers.

    Returns
    -------
    Callable
        A decorator that returns the function as it was given.

    Raises
    ------
    TypeError
        If ``static`` is a string instead of a collection of strings.

    Notes
    -----
    Without a declaration a scorer has width 1 and is taken to read no sizes. Settings that are strings, bools, ints (of
    Python or NumPy) or None are then static. Annotations are not read.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from jax.tree_util import Partial
    >>> import jaxunc as ju
    >>> @ju.scorers.scorer(width=2.0, static=("power",))
    ... def odd_power(counts, *, power):
    ...     share = 2 * ju.scorers.probability(counts)
    ...     return jnp.prod(jnp.stack([share] * power), axis=0)
    >>> print(ju.Mean(Partial(odd_power, power=3)).score(jnp.array([[1, 3], [0, 4]])))
    0.5625
    """
    if isinstance(static, str):
        raise TypeError(f"static={static!r} is a word; pass a collection of names, such as ({static!r},).")
    declaration = Declaration(width, frozenset(static), reads_sizes, MappingProxyType(dict(domains)))

    def declare(function: Function) -> Function:
        function.declaration = declaration
        return function

    return declare


def declared(function: Callable[..., Any]) -> Declaration:
    """Return the `Declaration` of a function, or of that within a ``Partial``; the default one if it has none."""
    inner_function, _ = _within(function)
    return getattr(inner_function, "declaration", Declaration())


def score_width(scorer: Callable[..., Any]) -> Any:
    """Return the length of the interval around 0 that a scorer's values span, as declared; 1 if nothing is declared.

    ``scorer`` may be a ``Partial``, whose settings the length may depend on. The length is infinite for scores without
    a bound, and a traced array, taken for finite, if it depends on traced settings.
    """
    function, settings = _within(scorer)
    width: Any = declared(function).width
    if callable(width):
        width = width(**settings)
    if not is_concrete(width):
        return width
    return float(width) if width > 0 else math.inf


def score_bound(scorer: Callable[..., Any], n_classes: int) -> float:
    """Return the largest absolute value that scores of ``n_classes`` classes may have as declared, 1 if nothing is."""
    if declared(scorer) == Declaration():
        return 1.0
    return score_width(scorer) * max(0.5, 1 - 1 / n_classes)  # a probability differs from 1/C by 1 - 1/C at most


def reads_sizes(scorer: Callable[..., Any]) -> bool:
    """Return whether a scorer, or the function within a ``Partial``, is declared to depend on leaf sizes."""
    return declared(scorer).reads_sizes


def _within(function: Any) -> tuple[Any, dict[str, Any]]:
    """Return the innermost function of nested partials, if any, and the settings that they fix; outer ones win."""
    settings: dict = {}
    while not hasattr(function, "declaration") and hasattr(function, "func"):
        settings = {**getattr(function, "keywords", {}), **settings}
        function = function.func
    return function, settings


class ChosenScorer(NamedTuple):
    """A scorer with fixed values of the settings that choose its program; equal if function and values are."""

    func: Callable[..., Any]
    choices: tuple[tuple[str, Any], ...]

    @property
    def keywords(self) -> dict[str, Any]:
        """The settings that are fixed, by their names; `functools.partial` has an attribute of this name, too."""
        return dict(self.choices)

    def __call__(self, counts, **settings):
        return self.func(counts, **self.keywords, **settings)


def as_partial(scorer: Callable[..., Any]) -> Partial:
    """Return a scorer as one ``Partial``, a pytree whose leaves are the settings that can be traced and learned.

    Settings that choose the program (`_chooses`) become structure of the pytree. A ``functools.partial`` with
    positional arguments stays whole, unless these are arrays and floats. Raises a TypeError if the scorer is not a
    function, or a setting that becomes structure has no hash.
    """
    if not callable(scorer):
        raise TypeError(f"scorer={scorer!r} is not a function; pass one of jaxunc.scorers, or counts[..., 2] → [...].")
    function, args, settings = _taken_apart(scorer)
    if not isinstance(scorer, Partial) and any(isinstance(arg, int) or not _is_number(arg) for arg in args):
        return Partial(scorer)
    declaration = declared(function)
    # Structure must be hashable: JAX compares it to find a program that was compiled before.
    choices = {name: value for name, value in settings.items() if _chooses(name, value, declaration.static)}
    for name, value in choices.items():
        try:
            hash(value)
        except TypeError as error:
            raise TypeError(
                f"{name}={value!r} is a static setting of the scorer, but has no hash; pass a number, a word or a "
                "tuple, or declare it as a leaf: leave it out of static."
            ) from error
    numbers = {name: value for name, value in settings.items() if name not in choices}
    for name, value in numbers.items():
        if name in declaration.domains and type(value) is int:  # a float can be learned
            numbers[name] = float(value)
    # The owner of a NumPy array may write to it later.
    args, numbers = jax.tree.map(lambda leaf: copy_in(leaf) if isinstance(leaf, np.ndarray) else leaf, (args, numbers))
    if choices:
        function = ChosenScorer(function, tuple(sorted(choices.items())))
    return Partial(function, *args, **numbers)


def _taken_apart(scorer: Any) -> tuple[Callable, tuple, dict[str, Any]]:
    """Return the innermost function of a scorer made of nested partials, their positional arguments and settings."""
    args, settings = (), {}
    while True:
        made_of = getattr(scorer, "fun", None)  # a Partial keeps the partial that it was made of
        if isinstance(made_of, functools.partial):
            scorer = made_of
        if isinstance(scorer, functools.partial):
            args = (*scorer.args, *args)
        elif not isinstance(scorer, ChosenScorer):  # which fixes settings, too
            return scorer, args, settings
        settings = {**scorer.keywords, **settings}  # where several fix one setting, the outermost wins
        scorer = scorer.func


def _chooses(name: str, value: Any, static: frozenset[str] | None) -> bool:
    """Return whether a scorer's setting ``name`` chooses the compiled program, and so is not traced.

    It does if its ``value`` is no number, or its name is in ``static``, which is None if the scorer declares nothing.
    """
    if value is None or not all(map(_is_number, jax.tree.leaves(value))):
        return True
    if static is None:  # an integer may be a size, and it has no gradient to lose
        return isinstance(value, bool | int | np.bool_ | np.integer)
    return name in static


def _is_number(value: Any) -> bool:
    """Return whether ``value`` is a number (or bool), or an array of them."""
    if isinstance(value, np.ndarray | np.generic):
        return value.dtype.kind in "biufc"
    return isinstance(value, bool | int | float | complex | jax.Array)


@scorer(width=1.0)
def probability(counts: Shaped[Array | np.ndarray, "... classes"]) -> Array:
    r"""Relative frequency, centred (score p_prob).

    .. math:: p_{prob} = \frac{w^+}{w^+ + w^-} - \frac12 = \frac{w^+ - w^-}{2N},
              \qquad C > 2:\; \frac{w_c}{N} - \frac1C

    Parameters
    ----------
    counts
        Class counts of leaves, ≥ 0, with the sum N. Last axis: w⁻ of class 0 and w⁺ of class 1, or w_c of each class.

    Returns
    -------
    Array
        Binary: scores ``[...]`` in [-1/2, 1/2], positive for class 1. More classes: ``[... classes]``.

    Raises
    ------
    ValueError
        If counts are negative or not finite, or the last axis holds fewer than two classes.

    Notes
    -----
    Empty leaf: 0. The difference of integer counts is taken before rounding, so (10⁹ + 1, 10⁹) is no tie in
    float32. Gradient: ∂/∂w⁺ = w⁻/N², ∂/∂w⁻ = -w⁺/N²; 0 at an empty leaf.

    References
    ----------
    Busch et al. 2021, section 3.1.1.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(probability(jnp.array([[1.0, 3.0], [0.0, 0.0]])))
    [0.25 0.  ]
    """
    counts = checked_counts(counts)
    dtype = float_dtype(counts)
    if counts.shape[-1] == 2:
        return safe_divide(lead(counts), 2 * sum_in_order(counts.astype(dtype)))
    return shares_of(counts.astype(dtype)) - 1 / counts.shape[-1]


@scorer(width=1.0, reads_sizes=True)
def laplace(counts: Shaped[Array | np.ndarray, "... classes"]) -> Array:
    r"""Laplace's correction of the relative frequency, centred (score p_lap).

    .. math:: p_{lap} = \frac{w^+ + 1}{N + 2} - \frac12 = \frac{w^+ - w^-}{2 (N + 2)},
              \qquad C > 2:\; \frac{w_c + 1}{N + C} - \frac1C

    Parameters
    ----------
    counts
        Class counts of leaves, ≥ 0, with the sum N. Last axis: w⁻ of class 0 and w⁺ of class 1, or w_c of each class.

    Returns
    -------
    Array
        Binary: scores ``[...]`` in (-1/2, 1/2), positive for class 1. More classes: ``[... classes]``.

    Raises
    ------
    ValueError
        If counts are negative or not finite, or the last axis holds fewer than two classes.

    Notes
    -----
    Empty leaf: 0. It is the m-estimate with m = C and the uniform prior, and the mean of Beta(w⁺+1, w⁻+1). Differences
    of integer counts are exact. Gradient (binary): ∂/∂w⁺ = (w⁻+1)/(N+2)², ∂/∂w⁻ = -(w⁺+1)/(N+2)², everywhere.

    References
    ----------
    Busch et al. 2021, section 3.1.1.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(laplace(jnp.array([[0.0, 2.0], [0.0, 0.0]])))
    [0.25 0.  ]
    """
    counts = checked_counts(counts)
    warn_of_fractions(counts)
    n_classes = counts.shape[-1]
    total = sum_in_order(counts.astype(float_dtype(counts)), keepdims=True)
    score = excess(counts) / (n_classes * (total + n_classes))
    return score[..., 1] if n_classes == 2 else score


@scorer(width=1.0, reads_sizes=True, domains={"m": "positive", "prior": "simplex"})
def m_estimate(
    counts: Shaped[Array | np.ndarray, "... classes"],
    *,
    m: float | Float[Array, ""],
    prior: float | Float[Array, " *classes"],
) -> Array:
    r"""Relative frequency with m instances of the prior π added, centred.

    .. math:: p_m(c) = \frac{w_c + m\, \pi_c}{N + m}; \qquad \text{binary score } p_m(+) - \tfrac12,
              \qquad C > 2:\; p_m(c) - \tfrac1C

    Parameters
    ----------
    counts
        Class counts of leaves, ≥ 0, with the sum N. Last axis: w⁻ of class 0 and w⁺ of class 1, or w_c of each class.
    m
        The prior's weight in instances, ≥ 0. 0: the relative frequency; C with a uniform prior: `laplace`.
    prior
        Probabilities of the classes ``[classes]``; for two classes also a number, the probability of class 1.

    Returns
    -------
    Array
        Binary: scores ``[...]`` in [-1/2, 1/2], positive where class 1 is the more probable. More classes:
        ``[... classes]``.

    Raises
    ------
    ValueError
        If counts are negative or not finite, the last axis holds fewer than two classes, or m is not one number, ≥ 0.
        If the prior has the wrong shape, an entry outside [0, 1] or a sum other than 1. Values are checked outside of
        `jax.jit` only.

    Notes
    -----
    N + m = 0: the prior, centred. Differences of integer counts are exact. Both settings may be arrays with gradients:
    ``jax.tree_util.Partial(m_estimate, m=2.0, prior=0.3)`` is a scorer whose settings can be learned. Gradient:
    ∂p_m(c)/∂w_c = (1 - p_m(c))/(N+m), ∂/∂m = (π_c - p_m(c))/(N+m), ∂/∂π_c = m/(N+m); at N + m = 0 it is 0 but for
    ∂/∂π_c = 1.

    References
    ----------
    Cestnik 1990, Estimating probabilities: a crucial task in machine learning; Busch et al. 2021, section 3.1.1.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(m_estimate(jnp.array([[1.0, 3.0], [0.0, 0.0]]), m=4.0, prior=0.25))
    [ 0.   -0.25]
    """
    counts = checked_counts(counts)
    warn_of_fractions(counts)
    n_classes = counts.shape[-1]
    dtype = float_dtype(counts)
    check_within("m", m, "[0, inf)", ": the prior's weight, a number of instances", shape=None)
    check_is_one("m", m)
    share = _class_prior(prior, n_classes).astype(dtype)
    weight = copy_in(m, dtype)
    total = sum_in_order(counts.astype(dtype), keepdims=True) + weight
    excess_counts = excess(counts) + weight * (n_classes * share - 1)
    score = safe_divide(excess_counts, n_classes * total, share - 1 / n_classes)
    return score[..., 1] if n_classes == 2 else score


def _class_prior(prior, n_classes: int) -> Array:
    """Return ``prior``, a distribution over the classes (of two also the probability of class 1), as ``[classes]``."""
    check_numbers("prior", prior)
    prior = copy_in(prior, float_dtype(prior))
    if prior.ndim == 0 and n_classes == 2:
        prior = jnp.stack([1 - prior, prior])
    if prior.shape != (n_classes,):
        alternative = ", or one number for class 1" if n_classes == 2 else ""
        raise ValueError(
            f"prior has shape {prior.shape}, but the counts have {n_classes} classes; "
            f"pass one probability per class, shape ({n_classes},){alternative}."
        )
    if is_concrete(prior):
        values = np.asarray(prior, np.float64)
        if not (np.all(values >= 0) and abs(values.sum() - 1) < 1e-4):
            raise ValueError(f"prior={values.tolist()} must hold probabilities: numbers in [0, 1] that add to 1.")
    return prior


@scorer(width=float("inf"), reads_sizes=True)
def linear(counts: Shaped[Array | np.ndarray, "... classes"]) -> Array:
    r"""The lead of a class in instances, by which large leaves count more than small ones.

    .. math:: w^+ - w^-, \qquad C > 2:\; \frac{C w_c - N}{C - 1}

    Parameters
    ----------
    counts
        Class counts of leaves, ≥ 0, with the sum N. Last axis: w⁻ of class 0 and w⁺ of class 1, or w_c of each class.

    Returns
    -------
    Array
        Binary: scores ``[...]`` in [-N, N], positive for class 1. More classes: ``[... classes]``, adding to 0.

    Raises
    ------
    ValueError
        If counts are negative or not finite, or the last axis holds fewer than two classes.

    Notes
    -----
    Empty leaf: 0. Exact for integer counts up to 2²⁴ apart (float32). Gradient: ±1; C/(C-1) δ_cc' - 1/(C-1). Without a
    bound the score has no reading as a probability. Average it to rank or decide. For probabilities take those of the
    pooled counts (`Pooling`), whose decision for equal priors is the same.

    References
    ----------
    Published code of Busch et al. 2021.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(linear(jnp.array([[1, 4], [0, 0]])))
    [3. 0.]
    """
    counts = checked_counts(counts)
    warn_of_fractions(counts)
    n_classes = counts.shape[-1]
    excess_counts = excess(counts)
    return excess_counts[..., 1] if n_classes == 2 else excess_counts / (n_classes - 1)


@scorer(width=float("inf"), reads_sizes=True, domains={"n_samples": "fixed"})
def ucb(counts: Shaped[Array | np.ndarray, "... classes"], *, n_samples: NumbersLike) -> Array:
    r"""The relative frequency in units of an upper confidence bound.

    It is the α for which the bounds of both classes meet, p̂ - α √(ln n/N) = (1 - p̂) + α √(ln n/N), with p̂ = w⁺/N:

    .. math:: \left(\hat p - \tfrac12\right) \sqrt{\frac{N}{\ln n}}, \qquad
              C > 2:\; \left(\frac{w_c}{N} - \frac1C\right) \sqrt{\frac{N}{\ln n}}

    Parameters
    ----------
    counts
        Class counts of leaves, ≥ 0, with the sum N. Last axis: w⁻ of class 0 and w⁺ of class 1, or w_c of each class.
    n_samples
        n, the number of instances that the tree was grown on, at least 2.

    Returns
    -------
    Array
        Binary: scores ``[...]``, \|score\| ≤ ½ √(N/ln n), positive for class 1. More classes: ``[... classes]``.

    Raises
    ------
    ValueError
        If counts are negative or not finite, or the last axis holds fewer than two classes. If n_samples is not one
        number, ≥ 2. Values are checked outside of `jax.jit` only.

    Notes
    -----
    Empty leaf: 0, with gradient 0. Differences of integer counts are exact. Gradient (binary, with q = √(N ln n)):
    ∂/∂w⁺ = (1 - (w⁺-w⁻)/(2N))/(2q), ∂/∂w⁻ = -(1 + (w⁺-w⁻)/(2N))/(2q). No reading as a probability: see `linear`.

    References
    ----------
    Published code of Busch et al. 2021; Auer, Cesa-Bianchi and Fischer 2002 for the bound.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(ucb(jnp.array([[1.0, 3.0], [0.0, 0.0]]), n_samples=100).round(4))
    [0.233 0.   ]
    """
    counts = checked_counts(counts)
    warn_of_fractions(counts)
    hint = ": the number of instances that the tree was grown on (Forest.n_samples), whose logarithm scales the bound"
    check_within("n_samples", n_samples, "[2, inf)", hint, shape=None)
    check_is_one("n_samples", n_samples)
    dtype = float_dtype(counts)
    n_classes = counts.shape[-1]
    total = sum_in_order(counts.astype(dtype), keepdims=True)
    safe_total = jnp.where(total > 0, total, 1)
    scale = n_classes * jnp.sqrt(safe_total) * jnp.sqrt(jnp.log(copy_in(n_samples, dtype)))
    score = jnp.where(total > 0, excess(counts) / scale, 0.0)
    return score[..., 1] if n_classes == 2 else score


def excess(counts: Num[Array, "... classes"]) -> Float[Array, "... classes"]:
    """Return how far each class's count is above an even share, times C: C w_c - N, for C counts w_c with sum N."""
    counts = as_counts(counts)
    # The smallest count, which cancels, is subtracted before counts are rounded, and so that unsigned ones do not wrap.
    above_least = (counts - lax.stop_gradient(jnp.min(counts, axis=-1, keepdims=True))).astype(float_dtype(counts))
    return counts.shape[-1] * above_least - sum_in_order(above_least, keepdims=True)


def lead(counts: Num[Array, "... 2"]) -> Float[Array, "..."]:
    """Return the count of class 1 less that of class 0 as a float; integer counts are subtracted before rounding."""
    return excess(counts)[..., 1]


def has_odd_total(counts: Num[Array, "... classes"]) -> Bool[Array, "..."]:
    """Return whether the sum of a leaf's counts is an odd integer; False where the sum is no integer."""
    remainder = jnp.sum(counts % 2, axis=-1)  # the total of the counts themselves might overflow or round
    return remainder % 2 == 1
