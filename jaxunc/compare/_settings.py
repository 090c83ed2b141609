"""Settings of a study, checked before hours are spent on it: which combiners are compared, on which forests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier

from jaxunc.combiners import Combiner, check_name, combiner_by_name
from jaxunc.counting import COUNTS
from jaxunc.estimators import RandomDecisionTreesClassifier
from jaxunc.forest import Forest


class ComparedCombiner(NamedTuple):
    """A row in the tables of a study: a combiner, a learned combiner, or a given model."""

    name: str  # name in tables and files, which `combiner_by_name` knows unless the row ``learns`` or ``is_model``
    meaning: str  # meaning in a few words, for tables
    binary_only: bool = False  # whether the row is for two classes only
    learns: bool = False  # whether the combiner is learned from training instances
    is_model: bool = False  # whether the row is a given model, as it answers or calibrated

    def make(self, forest: Forest) -> Combiner:
        """Return the combiner for a forest, whose prior it may use.

        Raises a ValueError if the row's combiner learns, or the row is a given model.
        """
        return combiner_by_name(self.name, prior=forest.prior, n_samples=forest.n_samples)


MODEL, MODEL_CALIBRATED = "model", "model-platt"
"""Names of the rows of a given model: as it answers, and calibrated on the rows that its leaves count."""
_OFFERED = (
    ComparedCombiner("probability", "mean class frequency"),
    ComparedCombiner("laplace", "mean Laplace frequency"),
    ComparedCombiner("m-estimate", "mean m-estimate at prior"),
    ComparedCombiner("plausibility", "mean plausibility score", binary_only=True),
    ComparedCombiner("plausibility-p", "plausibility against prior", binary_only=True),
    ComparedCombiner("confidence", "mean confidence score", binary_only=True),
    ComparedCombiner("vote", "majority vote"),
    ComparedCombiner("median", "median frequency"),
    ComparedCombiner("median-pls", "median plausibility", binary_only=True),
    ComparedCombiner("maximum", "most extreme frequency"),
    ComparedCombiner("maximum-pls", "most extreme plausibility", binary_only=True),
    ComparedCombiner("mixture", "generalised mixture"),
    ComparedCombiner("epistemic", "certain plausibility", binary_only=True),
    ComparedCombiner("beta", "mean beta density", binary_only=True),
    ComparedCombiner("pooling", "sum of the counts"),
    ComparedCombiner("evidence", "evidence accumulation"),
    ComparedCombiner("dempster", "Dempster's rule", binary_only=True),
    ComparedCombiner("dempster-p", "Dempster, against prior", binary_only=True),
    ComparedCombiner("cautious", "cautious rule", binary_only=True),
    ComparedCombiner("cautious-p", "cautious, against prior", binary_only=True),
    ComparedCombiner("learned", "learned pool", learns=True),
    ComparedCombiner("calibrated", "mean, calibrated", learns=True),
    ComparedCombiner("isotonic", "mean, isotonic", learns=True),
    ComparedCombiner("model", "the model itself", is_model=True),
    ComparedCombiner("model-platt", "the model, calibrated", is_model=True),
)

_SYNONYMS = {"mean": "probability"}  # {name that other commands use: name in the tables}
COMPARED_COMBINERS = {row.name: row for row in _OFFERED}
"""{name in tables and files: row}, of all rows that a study of classes can have."""
FORESTS: dict[str, Callable[[int, int, int, bool], Any]] = {
    "random-forest": lambda n, leaf, seed, bags: RandomForestClassifier(n, min_samples_leaf=leaf, random_state=seed),
    "extra-trees": lambda n, leaf, seed, bags: ExtraTreesClassifier(
        n, min_samples_leaf=leaf, random_state=seed, bootstrap=bags
    ),
    "single-tree": lambda n, leaf, seed, bags: DecisionTreeClassifier(min_samples_leaf=leaf, random_state=seed),
    "random-trees": lambda n, leaf, seed, bags: RandomDecisionTreesClassifier(
        n, min_samples_leaf=leaf, missing="random", random_state=seed
    ),
}
"""{kind of forest in tables and files: a function from (trees, leaf size, seed, bags needed) to an estimator}."""

BASE_RATES = "base rates"
"""Name of the row that reads no columns: it answers with the classes' shares, or with quantiles of the targets."""
PLAIN, TREES = "plain", "trees"
"""Names of two simple laws for comparison: residuals of one width, and a normal law of the spread between trees."""
COMPARED_LAWS = {
    "learned": "residuals and leaves, blended as learned",
    "residuals": "residuals by each row's spread",
    "conformal": "the same, by conformal ranks",
    "bins": "the leaves' own targets",
    "neighbours": "residuals of the rows in the leaves",
    PLAIN: "residuals, one width for all rows",
    TREES: "normal law of the spread between trees",
}
"""{law that a study can have: its meaning}. The first five laws are those of `UncertainForestRegressor`."""
USUAL_LAWS = tuple(name for name in COMPARED_LAWS if name != "neighbours")
"""The laws of a study that names none: each further law makes differences harder to tell, so one is left out."""
FORESTS_OF_NUMBERS: dict[str, Callable[[int, int, int], Any]] = {
    "random-forest": lambda n, leaf, seed: RandomForestRegressor(n, min_samples_leaf=leaf, random_state=seed),
    "extra-trees": lambda n, leaf, seed: ExtraTreesRegressor(
        n, min_samples_leaf=leaf, random_state=seed, bootstrap=True
    ),
}
"""{kind of forest that predicts a number: a function from (trees, leaf size, seed) to an estimator with bags}."""

GIVEN, REFITTED = "given model", "refitted model"
"""The kind of forest of a given model that stays as fitted, and of one that is fitted anew to each split's rows."""


@dataclass(frozen=True)
class Settings:
    """Settings of a study, which makes a forest for each kind, leaf size, repetition and fold.

    Parameters
    ----------
    forests
        Kinds, of ``"random-forest"``, ``"extra-trees"``, ``"single-tree"`` and ``"random-trees"``. `for_model` makes
        settings for a given model instead.
    combiners
        Names of combiners, as in the tables of `jaxunc compare`, or of laws. By default all combiners that suit the
        data, or all laws but ``"neighbours"``.
    leaf_sizes
        Least numbers of instances in a leaf (``min_samples_leaf``).
    n_trees, n_repeats, n_folds
        Trees in a forest; repetitions and folds of stratified cross-validation.
    counts
        Whose counts the leaves hold: a mode of `jaxunc.counting.COUNTS`. For numbers always ``"oob"``.
    seed
        Decides the folds and the forests.
    positive
        The class to be found, of two; None for the rarer.
    costs
        Costs ``[truth decision]``, in the order of the table's classes; None if no costs are compared.
    numbers
        Whether the target is a number, so that laws are compared.

    Raises
    ------
    ValueError
        If a name is unknown, forests or leaf sizes are missing, or a number is out of range. Also if trees without bags
        are to have out-of-bag counts, or learned combiners counts that are not in-bag. Also if costs are not a square
        of numbers ≥ 0 or make no difference, or counts, costs or a positive class are set for numbers.
    """

    forests: Sequence[str] = ("random-forest", "extra-trees")
    combiners: Sequence[str] = ()
    leaf_sizes: Sequence[int] = (1, 4, 16)
    n_trees: int = 100
    n_repeats: int = 2
    n_folds: int = 5
    counts: str = "inbag"
    seed: int = 0
    positive: str | None = None
    costs: Any = None
    numbers: bool = False

    def __post_init__(self):
        """Check the settings, and set fields to tuples without repetitions in a fixed order."""
        # `object.__setattr__` sets fields though the class is frozen.
        for name in ("forests", "combiners", "leaf_sizes"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.numbers:
            self._check_for_numbers()
        else:
            object.__setattr__(self, "combiners", tuple(_SYNONYMS.get(name, name) for name in self.combiners))
        self._check_names()
        self._check_ranges()
        self._check_learning()
        if self.costs is not None:
            object.__setattr__(self, "costs", checked_costs(self.costs))
        object.__setattr__(self, "forests", tuple(dict.fromkeys(self.forests)))
        in_order = COMPARED_LAWS if self.numbers else COMPARED_COMBINERS
        object.__setattr__(self, "combiners", tuple(name for name in in_order if name in self.combiners))
        object.__setattr__(self, "leaf_sizes", tuple(sorted(set(self.leaf_sizes))))

    def _check_for_numbers(self) -> None:
        """Set counts to "oob", and raise a ValueError for settings that are for classes."""
        # "inbag" is the field's default, so it is taken for not set.
        object.__setattr__(self, "counts", "oob" if self.counts == "inbag" else self.counts)
        if self.counts != "oob" or self.costs is not None or self.positive is not None:
            raise ValueError(
                "--counts, --costs and --positive are for classes, and the target is a number, whose laws are "
                "fitted out of bag; leave them out."
            )

    def _check_names(self) -> None:
        """Raise a ValueError for unknown names, no forests or leaf sizes, or out-of-bag counts without bags."""
        if not self.has_model:  # a given model's kind of forest is not an option of the command
            for name in self.forests:
                check_name("--forests", name, FORESTS_OF_NUMBERS if self.numbers else FORESTS)
        if self.numbers:
            for name in self.combiners:
                check_name("--laws", name, list(COMPARED_LAWS))
        else:
            # Rows that ask the given model itself (`is_model`) need it to stay as fitted.
            rows = [name for name, row in COMPARED_COMBINERS.items() if self.is_given or not row.is_model]
            for name in self.combiners:
                check_name("--combiners", name, rows)
        check_name("--counts", self.counts, COUNTS)
        if not self.forests or not self.leaf_sizes:
            raise ValueError("--forests and --leaf-sizes need at least one value each.")
        for name in ("single-tree", "random-trees"):
            if self.counts == "oob" and name in self.forests:
                raise ValueError(
                    f"--counts='oob' needs trees that are grown on bags of the data, and {name} grows on all of it. "
                    f"Leave {name} out, or take --counts held_out."
                )

    def _check_ranges(self) -> None:
        """Set fields of integers to Python's; raise a ValueError if one is no integer in its range."""
        if not self.has_model:  # a given model's leaf size is 0
            meaning = "the least number of instances in a leaf"
            leaf_sizes = tuple(_integer(size, "--leaf-sizes", 1, meaning) for size in self.leaf_sizes)
            object.__setattr__(self, "leaf_sizes", leaf_sizes)
        for name, option, least, meaning in _NUMBERS:
            object.__setattr__(self, name, _integer(getattr(self, name), option, least, meaning))

    def _check_learning(self) -> None:
        """Raise a ValueError if combiners that learn are named together with counts that are not in-bag."""
        # Beside a given model's trees, which stay as fitted, combiners may learn.
        if self.counts == "inbag" or self.is_given or self.numbers:
            return
        learning = [name for name in self.combiners if COMPARED_COMBINERS[name].learns]
        if learning:
            raise ValueError(
                f"--combiners={', '.join(learning)} learn from in-bag counts and choose others themselves; leave out "
                f"--counts {self.counts}."
            )

    @classmethod
    def for_model(cls, n_trees: int, *, refitted: bool = False, **chosen: Any) -> "Settings":
        """Return settings of a study of one given model with ``n_trees`` trees; ``chosen`` are further fields.

        On each training part its leaves are counted anew, or if ``refitted`` it is fitted anew.
        """
        kind, counts = (REFITTED, "inbag") if refitted else (GIVEN, "held_out")
        return cls(forests=(kind,), leaf_sizes=(0,), n_trees=n_trees, counts=counts, **chosen)

    @property
    def has_model(self) -> bool:
        """Whether the study is of one given model, which stays as fitted or is refitted."""
        return tuple(self.forests) in ((GIVEN,), (REFITTED,)) and tuple(self.leaf_sizes) == (0,)

    @property
    def is_given(self) -> bool:
        """Whether the study is of one given model whose trees stay as fitted."""
        return self.has_model and tuple(self.forests) == (GIVEN,)

    @property
    def n_forests(self) -> int:
        """Number of forests that the study grows, or counts anew."""
        return len(self.forests) * len(self.leaf_sizes) * self.n_repeats * self.n_folds

    def combiners_for(self, n_classes: int) -> tuple[str, ...]:
        """Return the names of the chosen combiners that suit ``n_classes`` classes; for numbers, of the chosen laws.

        Raises a ValueError if none of the combiners suits so many classes.
        """
        if self.numbers:
            return tuple(self.combiners or USUAL_LAWS)
        names = list(chosen_combiners(self))
        if self.is_given:  # the model's own rows are always compared
            names += [row.name for row in _OFFERED if row.is_model and row.name not in self.combiners]
        suited = tuple(name for name in names if n_classes == 2 or not COMPARED_COMBINERS[name].binary_only)
        if not suited:
            raise ValueError(
                f"--combiners={', '.join(names)}: none of them suits {n_classes} classes; for more than two there are "
                f"{', '.join(name for name, combiner in COMPARED_COMBINERS.items() if not combiner.binary_only)}."
            )
        return suited


def chosen_combiners(settings: Settings) -> tuple[str, ...]:
    """Return the names of the combiners to compare: those in the settings or, if there are none, all that are allowed.

    Allowed are the combiners in `_OFFERED`, of which those that learn need in-bag counts or a given model's trees. The
    entries for a given model itself (``is_model``) are no combiners.
    """
    if settings.combiners:
        return tuple(settings.combiners)
    can_learn = settings.counts == "inbag" or settings.is_given
    return tuple(row.name for row in _OFFERED if not row.is_model and (can_learn or not row.learns))


def checked_costs(costs: Any) -> tuple[tuple[float, ...], ...]:
    """Return costs ``[truth decision]`` as tuples of floats.

    Raises a ValueError unless they are a square of finite numbers ≥ 0, and for some truth differ between decisions.
    """
    try:
        values: Any = np.asarray(costs, float)
    except (TypeError, ValueError):
        values = np.empty(0)  # no square, and so refused below
    if values.ndim != 2 or values.shape[0] != values.shape[1]:
        raise ValueError("--costs is no square of numbers; expected a row for each true class, a column per decision.")
    if not np.all(np.isfinite(values) & (values >= 0)):
        raise ValueError(f"--costs holds {values.min():g}; expected finite numbers, 0 or more: a gain is a lower cost.")
    if np.all(values == values[:, :1]):
        raise ValueError("--costs: every decision costs the same, so there is nothing to decide. Raise that of errors.")
    return tuple(tuple(float(cost) for cost in row) for row in values)


_NUMBERS = (
    ("n_trees", "--trees", 1, "the number of trees in a forest"),
    ("n_repeats", "--repeats", 1, "the number of repetitions of the cross-validation"),
    ("n_folds", "--folds", 2, "the number of parts of which each is the test set once"),
    ("seed", "--seed", 0, "the seed of folds and forests"),
)
"""Fields of `Settings` that are integers: (field, option, least value, meaning)."""


def _integer(value: Any, option: str, least: int, meaning: str) -> int:
    """Return an integer as Python's, which JSON can hold; raise a ValueError unless it is one from ``least`` on."""
    if not isinstance(value, int | np.integer) or not least <= value < 2**31:
        raise ValueError(f"{option}={value} ({meaning}) is out of range; expected an integer from {least} to 2^31 - 1.")
    return int(value)


class Cell(NamedTuple):
    """The key of a forest in a study: its kind and leaf size, and the repetition and fold that it is tested on."""

    forest: str
    leaf_size: int
    repeat: int
    fold: int


def cells(settings: Settings) -> list[Cell]:
    """Return the cells of all forests of a study with these settings, in order: the fold changes fastest."""
    axes = (settings.forests, settings.leaf_sizes, range(settings.n_repeats), range(settings.n_folds))
    return [Cell(*values) for values in product(*axes)]
