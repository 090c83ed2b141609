"""Command ``jaxunc fit``: fit a model to a file of data, or take over a fitted forest, and save it."""

import argparse
import math
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxunc._checks import escape_invisible
from jaxunc._types import steps_of_estimator

from ._arguments import add_marks, choice, end_of_range, integer_from, number, printed

if TYPE_CHECKING:
    from ._training import Data

DETAILS = (
    "Fit one of the library's classifiers on a CSV or Parquet file, or a regressor where the target is a number, and "
    "save it for jaxunc predict; or take over a fitted forest of scikit-learn, or a pipeline that ends in one (of "
    "numbers, also XGBoost's and LightGBM's)."
)
FORESTS = ("random-forest", "extra-trees", "single-tree")
MOST_VALUES = 10  # most values of the column of ``--coverage-by`` whose coverage is printed
GROWN_ON_ALL = ("extra-trees", "single-tree")  # forests without bags, whose trees are grown on all of the data


class Option(NamedTuple):
    """An option that only some estimators read."""

    keyword: str  # the keyword of estimators and forests that the option sets; empty for ``--forest``, which sets none
    default: Any  # the keyword's value if the option is absent; None leaves the keyword out
    help: str
    argument: dict[str, Any]  # further keywords of ``add_argument``


_NAME = {"metavar": "NAME"}
_WHOLE = {"type": integer_from(1), "metavar": "N"}
_WHOSE = "whose counts the leaves hold: inbag, train, oob, held_out; of numbers also cross_fit"
_FOREST = "the forest, of combined, cautious and uncertain (default: random-forest)"
_COMBINER = "the combiner of combined and random-trees (default: the estimator's own)"
_BY = "a column whose values are groups: intervals are to hold in each, with --law conformal by ranks of its own"
_RANGE = "the least and the largest number that there can be, none for no limit"
_STEP = "what numbers lie apart, from LOW or 0 on: 1 for whole numbers (default: any number)"
_SCATTER = "how numbers scatter: learned (the default), residuals, conformal, bins, neighbours"
OPTIONS = {
    "forest": Option("", None, _FOREST, choice(FORESTS)),
    "combiner": Option("combiner", None, _COMBINER, _NAME),
    "counts": Option("counts", None, _WHOSE, {"metavar": "WHOSE"}),
    "law": Option("law", "learned", _SCATTER, _NAME),
    "coverage_by": Option("coverage_by", None, _BY, {"metavar": "COLUMN"}),
    "support": Option("support", None, _RANGE, {"nargs": 2, "type": end_of_range, "metavar": ("LOW", "HIGH")}),
    "step": Option("step", None, _STEP, _WHOLE),
    "s": Option("s", 1.0, "how cautious a cautious forest is (default: 1)", {"type": number, "metavar": "S"}),
    "trees": Option("n_estimators", 100, "trees in the forest (default: 100)", _WHOLE),
    "leaf_size": Option("min_samples_leaf", 1, "least number of instances in a leaf (default: 1)", _WHOLE),
    "depth": Option("max_depth", None, "depth of the trees at most (default: no limit)", _WHOLE),
    "seed": Option("random_state", 0, "seed of the forest (default: 0)", {**_WHOLE, "type": integer_from(0)}),
}


OF_NUMBERS = ("law", "coverage_by", "support", "step")  # options that choose the estimator of numbers, for any target


class Estimator(NamedTuple):
    """An estimator that the command fits."""

    kind: str  # name of its class in `jaxunc.estimators`
    options: tuple[str, ...]  # options that set keywords of this class
    forest: str = ""  # ending of the names of scikit-learn's forests that it wraps; empty if it grows its own trees
    fixed: Mapping[str, Any] = {}  # further keywords, which no option sets

    def readable(self, *, imports: bool, with_data: bool) -> set[str]:
        """Return the names of the options that the estimator reads.

        With ``imports`` it takes over a fitted forest, for which options of growing change nothing; ``with_data`` says
        whether there are rows.
        """
        names = set(self.options)
        if not imports:
            return names | {"forest", *GROWING} if self.forest else names
        names.discard("seed")
        if not with_data:
            names.discard("counts")
        return names


GROWING = ("trees", "leaf_size", "depth", "seed")  # options that set how a forest is grown
ESTIMATORS = {
    "combined": Estimator("CombinedForestClassifier", ("combiner", "counts"), "Classifier"),
    "cautious": Estimator("CautiousForestClassifier", ("s", "counts"), "Classifier"),
    "random-trees": Estimator("RandomDecisionTreesClassifier", ("combiner", *GROWING), fixed={"missing": "random"}),
    "transductive": Estimator("TransductiveTreeClassifier", ("leaf_size",)),
    "uncertain": Estimator("UncertainForestRegressor", (*OF_NUMBERS, "counts", "seed"), "Regressor"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``jaxunc fit`` to its parser."""
    add = parser.add_argument
    add("data", nargs="?", metavar="DATA", help="CSV or Parquet file to fit on")
    add("--target", metavar="COLUMN", help="the column of DATA that holds the classes, or a number")
    add("--drop", nargs="+", default=[], metavar="COLUMN", help="columns of DATA that are left out, such as ids")
    add("--words", nargs="+", default=[], metavar="COLUMN", help="columns of texts of more than 100 values to use")
    add_marks(parser)
    add("--output", required=True, metavar="MODEL", help="the file to save to, such as model.safetensors")
    chosen = "combined; uncertain where the target holds fractions or many different numbers"
    add("--estimator", **choice(ESTIMATORS), help=f"the estimator (default: {chosen})")
    for name, option in OPTIONS.items():
        add(_flag(name), help=option.help, **option.argument)
    pickled = "take over a fitted scikit-learn forest or pipeline, pickled or by joblib"
    add("--import", dest="pickled", metavar="FILE", help=pickled)
    add("--trust", action="store_true", help="open the pickle of --import, which runs whatever code it holds")


def run(args: argparse.Namespace) -> None:
    """Fit or take over a model, save it, and print what was saved.

    Raises a ValueError for wrong arguments or data, and an OSError if a file cannot be read or written.
    """
    from rich.console import Console

    from jaxunc.storage import describe, save
    from jaxunc.streaming import is_same_file

    from ._training import check_output

    _check_options(args)
    check_output(args.output)
    for path in (args.data, args.pickled):
        if path is not None and is_same_file(args.output, path):
            raise ValueError(f"--output={str(args.output)!r} is the file {path}, which is read; name another file.")
    model = _fit_new(args) if args.pickled is None else _take_over(args)
    save(args.output, model)
    _print_coverage(args, model)
    if steps_of_estimator(model):
        _check_read(args.output, model)
    description = describe(args.output)
    kind = description.kind + (f", {description.combiner}" if description.combiner else "")
    answers = _describe_answers(model)
    line = f"{args.output}: {kind}; {description.columns} columns, {answers}; {description.n_bytes / 1e6:.1f} MB"
    Console(highlight=False).print(printed(line), soft_wrap=True, markup=False)


def _describe_answers(model: Any) -> str:
    """Return what a fitted estimator predicts, as text: its first ten classes, or the range of its numbers."""
    from jaxunc.regression import LeafMoments

    if hasattr(model, "classes_"):
        return "classes " + ", ".join(map(str, model.classes_[:10]))
    if isinstance(model.moments_, LeafMoments):
        leaves = model.moments_.kept
        means = leaves.table[:, 0]  # of the leaves, in units of the scale
        low = leaves.centre + leaves.scale * float(means.min())
        high = leaves.centre + leaves.scale * float(means.max())
    else:
        quantiles = model.bins_.table  # of each bin, in rising order as the bins are
        low, high = quantiles[0, 0], quantiles[-1, -1]
    return f"numbers from {low:.6g} to {high:.6g}"


def _print_coverage(args: argparse.Namespace, model: Any) -> None:
    """Print how often the model's intervals hold, for each value of the column of ``--coverage-by``, the least first.

    At most `MOST_VALUES` values are printed, and nothing without that column.
    """
    shares = getattr(model, "coverage_by_value_", None) or {}
    for value, (rows, share) in sorted(shares.items(), key=lambda item: item[1].share)[:MOST_VALUES]:
        trial = f"hold {100 * share:.0f}% of {rows} rows" if rows else "were tried on no row"
        line = f"jaxunc: {args.data}: 90% intervals {trial} with {args.coverage_by} {value}"
        print(escape_invisible(line), file=sys.stderr)


def _check_read(path: str, model: Any) -> None:
    """Print a note if ``jaxunc predict`` cannot read ``model``, saved at ``path``, or with it no text files."""
    from jaxunc.storage import load

    if model._raw_types is None:
        print(
            f"jaxunc: {path}: the types of the raw columns are not known, and files of text have none: jaxunc predict "
            "takes Parquet and Arrow. Add DATA --target COLUMN for text.",
            file=sys.stderr,
        )
    try:
        load(path)  # as `jaxunc predict` does it: no types of others (``known``) are allowed in the pipeline
    except ValueError as error:
        print(
            escape_invisible(f"jaxunc: {error} jaxunc predict, which knows no others, cannot read it."), file=sys.stderr
        )


def interrupted(args: argparse.Namespace) -> str:
    """Return what to tell a user who interrupted the run: what remains of it."""
    return "nothing was saved"


def _estimator_of_options(args: argparse.Namespace) -> str | None:
    """Return the name in `ESTIMATORS` that the options choose.

    None if the target decides: then it is "combined" for classes, "uncertain" for numbers.
    """
    if args.estimator is not None:
        return args.estimator
    if any(getattr(args, name) is not None for name in OF_NUMBERS):
        return "uncertain"
    return "combined" if args.combiner is not None else None


def _check_options(args: argparse.Namespace) -> None:
    """Raise a ValueError for options that are missing, contradict each other or would change nothing."""
    for is_refused, message in (*_input_faults(args), *_option_faults(args)):
        if is_refused:
            raise ValueError(message)


def _input_faults(args: argparse.Namespace) -> tuple[tuple[bool, str], ...]:
    """Return possible faults of the options that name files, each as (whether ``args`` have it, message)."""
    imports = args.pickled is not None
    has_data = args.data is not None
    has_target = args.target is not None
    estimator = _estimator_of_options(args) or "combined"
    return (
        (
            imports and (bool(args.words) or has_data != has_target or bool(args.drop and not has_data)),
            "--import takes over what is fitted: without DATA it reads no --target or --drop, with DATA it needs "
            "--target COLUMN, to learn a combiner or a law from these rows, and it never needs --words. Leave these "
            "out, or --import.",
        ),
        (
            not imports and not (has_data and has_target),
            "fit needs DATA and --target COLUMN (or --import FILE, a fitted scikit-learn forest).",
        ),
        (
            not has_data and (args.decimal is not None or args.thousands is not None),
            "--decimal and --thousands change nothing without DATA; leave them out.",
        ),
        (args.trust and not imports, "--trust changes nothing without --import FILE; leave it out."),
        (
            imports and not ESTIMATORS[estimator].forest,
            f"--import takes over scikit-learn's forests, and --estimator {estimator} has none; take combined, "
            "cautious or uncertain.",
        ),
    )


def _option_faults(args: argparse.Namespace) -> tuple[tuple[bool, str], ...]:
    """Return possible faults of options that choose and grow the model, each as (whether ``args`` have it, message)."""
    is_oob_by_default = args.counts is None and args.estimator == "cautious" and args.pickled is None
    note = " (the default of cautious)" if is_oob_by_default else ""
    return (
        (
            args.s is not None and _estimator_of_options(args) is None,
            "--s is of --estimator cautious alone; of the others that may be taken here, combined for classes and "
            "uncertain for numbers, it would change nothing. Add --estimator cautious, or leave it out.",
        ),
        _unread_fault(args),
        (
            args.forest == "single-tree" and args.trees is not None,
            "--trees would change nothing with --forest single-tree. Leave it out.",
        ),
        (
            (is_oob_by_default or args.counts == "oob") and args.forest in GROWN_ON_ALL,
            f"--counts oob{note} needs trees that are grown on bags of the data, and --forest {args.forest} grows them "
            "on all of it. Take --forest random-forest, or --counts held_out.",
        ),
    )


def _unread_fault(args: argparse.Namespace) -> tuple[bool, str]:
    """Return whether an option is set that the estimator does not read, and a message that names all such options."""
    estimator = _estimator_of_options(args)
    imports = args.pickled is not None
    readable = ESTIMATORS[estimator or "combined"].readable(imports=imports, with_data=args.data is not None)
    unread = [name for name in sorted(OPTIONS) if getattr(args, name) is not None and name not in readable]
    reader_words = []
    if estimator is None:
        readable |= set(OF_NUMBERS)  # each of these would choose the estimator that reads it
    else:
        reader_words.append(f"--estimator {estimator}")
    if imports:
        reader_words.append("a forest that --import takes over")
    return bool(unread), (
        f"{', '.join(map(_flag, unread))} would change nothing with {' of '.join(reader_words)}, which takes "
        f"{', '.join(map(_flag, sorted(readable)))}. Leave it out."
    )


def _flag(name: str) -> str:
    """Return the option as it is written in the command line: "--leaf-size" for the name "leaf_size"."""
    return "--" + name.replace("_", "-")


def _fit_new(args: argparse.Namespace) -> Any:
    """Return an estimator fitted to the rows of DATA; print notes on them, and set ``args.estimator`` to its name."""
    import pandas as pd

    from jaxunc.streaming import wished_notation
    from jaxunc.tables import encode_instances, fit_columns

    from ._training import check_combiner, keep_notation, training_data, with_levels

    estimator = _estimator_of_options(args)  # None: the target decides between combined and uncertain
    has_sklearn_trees = estimator in (None, "combined", "cautious", "uncertain")
    X, y, notes, notation = training_data(
        args.data,
        args.target,
        args.drop,
        args.words,
        with_booleans=has_sklearn_trees,
        numbers=None if estimator is None else estimator == "uncertain",
        wish=wished_notation(args.decimal, args.thousands),
    )
    args.estimator = estimator or ("uncertain" if y.dtype.kind == "f" else "combined")
    for line in notes:
        print(escape_invisible(f"jaxunc: {args.data}: {line}"), file=sys.stderr)
    if args.combiner is not None:
        check_combiner(args.combiner, len(set(y.tolist())), learns=args.estimator == "combined")
    columns = fit_columns(X)
    if not has_sklearn_trees or columns.levels is None:
        model = _model(args).fit(X, y)
    else:
        # scikit-learn's trees take numbers alone: the positions of words in their sorted order, as in jaxunc compare.
        codes = pd.DataFrame(encode_instances(X, columns).values, columns=X.columns)
        by = args.coverage_by
        if by in X.columns and X[by].dtype.kind in "iuf":
            codes[by] = X[by]  # strata are looked up by the column's values, which float32 would round
        model = with_levels(_model(args).fit(codes, y), columns)
    keep_notation(model, notation)
    return model


def _model(args: argparse.Namespace, forest: Any = None, **settings: Any) -> Any:
    """Return the estimator that the options describe, not fitted.

    It wraps ``forest``, by default one that the options describe, too. Its keywords ``settings`` prevail over options.
    """
    from jaxunc import estimators

    estimator = ESTIMATORS[args.estimator]
    keywords = {**estimator.fixed, **_keywords(args, estimator.options), **settings}
    ends = keywords.pop("support", None)
    step = keywords.pop("step", None)
    if ends or step:
        low, high = ends or (None, None)  # None: no limit
        limits = (-math.inf if low is None else low, math.inf if high is None else high)
        keywords["support"] = limits if step is None else (*limits, step)
    if not estimator.forest:
        return getattr(estimators, estimator.kind)(**keywords)
    if args.estimator == "uncertain" and args.forest in GROWN_ON_ALL:
        keywords.setdefault("counts", "held_out")  # there are no bags
    return getattr(estimators, estimator.kind)(forest or _forest(args, estimator.forest), **keywords)


def _forest(args: argparse.Namespace, ending: str) -> Any:
    """Return the unfitted forest or tree of the options; its class has the ``ending`` "Classifier" or "Regressor"."""
    from sklearn import ensemble, tree

    if args.forest == "single-tree":
        return getattr(tree, f"DecisionTree{ending}")(**_keywords(args, GROWING[1:]))  # without the number of trees
    family = "ExtraTrees" if args.forest == "extra-trees" else "RandomForest"
    return getattr(ensemble, family + ending)(n_jobs=-1, **_keywords(args, GROWING))


def _keywords(args: argparse.Namespace, names: tuple[str, ...]) -> dict[str, Any]:
    """Return {keyword: value} of the options with these names; an absent option has its default, or is left out."""
    keywords = {}
    for name in names:
        option = OPTIONS[name]
        value = getattr(args, name)
        if value is None:
            value = option.default
        if value is not None:
            keywords[option.keyword] = value
    return keywords


def _take_over(args: argparse.Namespace) -> Any:
    """Return an estimator around the fitted model of ``--import``, fitted to the rows of DATA if there are any.

    Sets ``args.estimator`` to its name. Raises a ValueError without ``--trust``, or if model, data and options do not
    go together.
    """
    from jaxunc.streaming import wished_notation

    from ._training import check_combiner, keep_notation, rows_of_a_fit, unpickle

    if not args.trust:
        raise ValueError(
            f"{args.pickled} is a pickle, and opening one runs whatever code it holds. If you made it yourself, add "
            "--trust; what is saved then holds no code."
        )
    fitted, is_number = unpickle(args.pickled)
    estimator = _estimator_of_options(args) or ("uncertain" if is_number else "combined")
    if is_number != (estimator == "uncertain"):
        raise ValueError(
            f"--import={args.pickled!r} holds a {type(fitted).__name__}, which predicts "
            f"{'numbers: take --estimator uncertain' if is_number else 'classes: take combined or cautious'}."
        )
    if is_number and args.data is None:
        raise ValueError(
            f"--import={args.pickled!r} holds a {type(fitted).__name__}; how far a forest is off is learned from rows. "
            "Add DATA --target COLUMN: the rows that it was fitted on, or others."
        )
    args.estimator = estimator
    if args.combiner is not None:
        check_combiner(args.combiner, len(fitted.classes_), learns=args.data is not None)
    if args.data is None:
        return _fit_without_rows(args, fitted)
    wish = wished_notation(args.decimal, args.thousands)
    data = rows_of_a_fit(args.data, args.target, args.drop, fitted, numbers=is_number, wish=wish)
    model = _fit_to_rows(args, fitted, data)
    keep_notation(model, data.notation)
    return model


def _fit_without_rows(args: argparse.Namespace, fitted: Any) -> Any:
    """Return an estimator around a fitted forest, whose leaves keep the counts of the forest's own fit."""
    from sklearn.frozen import FrozenEstimator

    # Without rows there are only the counts of the forest's own fit, and nothing to learn from.
    setting = {"counts": "inbag"} if args.estimator == "cautious" else {"combiner": args.combiner or "mixture"}
    return _model(args, FrozenEstimator(fitted), **setting).fit()


def _fit_to_rows(args: argparse.Namespace, fitted: Any, data: "Data") -> Any:
    """Return an estimator around a fitted forest, fitted to rows: it learns from them, or counts them in leaves.

    Notes on the rows are printed.
    """
    from sklearn.frozen import FrozenEstimator

    from ._training import counts_of_rows

    X, y = data.X, data.y
    notes = list(data.notes)
    counts = args.counts or "inbag"
    # Other combiners, which do not learn, keep the counts of the forest's own fit.
    reads_rows = args.combiner in (None, "learned") or args.estimator in ("cautious", "uncertain")
    if args.counts is None and reads_rows:  # which counts are right depends on whether the forest has seen the rows
        counts, note = counts_of_rows(fitted, X, y)
        notes.append(note)
    for note in notes:
        print(escape_invisible(f"jaxunc: {args.data}: {note}"), file=sys.stderr)
    frozen = FrozenEstimator(fitted)
    if args.estimator != "combined":
        return _model(args, frozen, counts=counts).fit(X, y)
    if args.counts is None and counts == "oob":
        counts = "inbag"  # what a learned combiner asks for; it reads out-of-bag counts beside these
    # Without a name the estimator learns from in-bag counts alone; to learn from held-out rows it must be told.
    combiner = args.combiner or ("learned" if counts == "held_out" else None)
    return _model(args, frozen, combiner=combiner, counts=counts).fit(X, y)
