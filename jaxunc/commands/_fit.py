"""Command ``jaxunc fit``: fit a model and save it."""

import argparse
import sys
from typing import TYPE_CHECKING, Any

from jaxunc._checks import shown

from ._arguments import add_marks, choice, integer_from, number, printed

if TYPE_CHECKING:
    from ._training import Data

DETAILS = (
    "Fit one of the library's classifiers on a CSV or Parquet file, or a regressor where the target is a number, and "
    "save it for jaxunc predict; or take over a fitted forest of scikit-learn (of numbers, also XGBoost's and "
    "LightGBM's), or of classes a pipeline that ends in one."
)
ESTIMATORS = {
    "combined": {"forest", "combiner", "counts", "trees", "leaf_size", "depth", "seed"},
    "cautious": {"forest", "counts", "s", "trees", "leaf_size", "depth", "seed"},
    "random-trees": {"combiner", "trees", "leaf_size", "depth", "seed"},
    "transductive": {"leaf_size"},
    "uncertain": {"forest", "counts", "law", "trees", "leaf_size", "depth", "seed"},
}
"""Options that each estimator takes."""
TAKEN_OVER = {"combined": {"combiner"}, "cautious": {"s"}, "uncertain": {"law"}}
"""Options that are left where the forest is fitted already; with DATA also ``counts``."""
FORESTS = ("random-forest", "extra-trees", "single-tree")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("data", nargs="?", metavar="DATA", help="CSV or Parquet file to fit on")
    add("--target", metavar="COLUMN", help="the column of DATA that holds the classes, or a number")
    add("--drop", nargs="+", default=[], metavar="COLUMN", help="columns of DATA that are left out, such as ids")
    add("--words", nargs="+", default=[], metavar="COLUMN", help="columns of texts of more than 100 values to use")
    add_marks(parser)
    add("--output", required=True, metavar="MODEL", help="the file to save to, such as model.safetensors")
    chosen = "combined; uncertain where the target holds fractions or many different numbers"
    add("--estimator", **choice(ESTIMATORS), help=f"the estimator (default: {chosen})")
    add("--forest", **choice(FORESTS), help="the forest, of combined, cautious and uncertain (default: random-forest)")
    add("--combiner", metavar="NAME", help="the combiner of combined and random-trees (default: the estimator's own)")
    add(
        "--counts",
        metavar="WHOSE",
        help="whose counts the leaves hold: inbag, train, oob, held_out; of numbers also cross_fit",
    )
    laws = "learned (the default), residuals, conformal, bins, neighbours"
    add("--law", metavar="NAME", help=f"how numbers scatter: {laws}")
    add("--s", type=number, metavar="S", help="how cautious a cautious forest is (default: 1)")
    add("--trees", type=integer_from(1), metavar="N", help="trees in the forest (default: 100)")
    add("--leaf-size", type=integer_from(1), metavar="N", help="least number of instances in a leaf (default: 1)")
    add("--depth", type=integer_from(1), metavar="N", help="depth of the trees at most (default: no limit)")
    add("--seed", type=integer_from(0), metavar="N", help="seed of the forest (default: 0)")
    add(
        "--import",
        dest="pickled",
        metavar="FILE",
        help="take over a fitted scikit-learn forest or pipeline, pickled or by joblib",
    )
    add("--trust", action="store_true", help="open the pickle of --import, which runs whatever code it holds")


def run(args: argparse.Namespace) -> None:
    from rich.console import Console

    from jaxunc.storage import describe, save
    from jaxunc.streaming import check_overwrites_nothing

    from ._training import check_output

    _check_options(args)
    check_output(args.output)
    check_overwrites_nothing(args.output, (args.data, args.pickled), "--output")
    model = _fit_new(args) if args.pickled is None else _take_over(args)
    save(args.output, model)
    if getattr(model, "_steps", None):
        _check_read(args.output, model)
    description = describe(args.output)
    kind = description.kind + (f", {description.combiner}" if description.combiner else "")
    if hasattr(model, "classes_"):
        answers = "classes " + ", ".join(map(str, model.classes_[:10]))
    else:
        leaves = model.moments_.kept
        means = leaves.table[:, 0]
        least, most = (leaves.centre + leaves.scale * float(end) for end in (means.min(), means.max()))
        answers = f"numbers from {least:.6g} to {most:.6g}"
    line = f"{args.output}: {kind}; {description.columns} columns, {answers}; {description.n_bytes / 1e6:.1f} MB"
    Console(highlight=False).print(printed(line), soft_wrap=True, markup=False)


def _check_read(path: str, model: Any) -> None:
    """Say so if ``jaxunc predict`` cannot read the file, since it names types of one's own, or texts with it."""
    from jaxunc.storage import load

    if model._raw_types is None:
        print(
            f"jaxunc: {path}: the types of the raw columns are not known, and files of text have none: jaxunc predict "
            "takes Parquet and Arrow. Add DATA --target COLUMN for text.",
            file=sys.stderr,
        )
    try:
        load(path)
    except ValueError as error:
        print(shown(f"jaxunc: {error} jaxunc predict, which knows no others, cannot read it."), file=sys.stderr)


def interrupted(args: argparse.Namespace) -> str:
    """Return what is left of a run that was interrupted, in words."""
    return "nothing was saved"


def _asked(args: argparse.Namespace) -> str | None:
    """Return the estimator that is asked for, by its name or an option of its own; None where the target says it."""
    if args.estimator is not None or args.law is not None:
        return args.estimator or "uncertain"
    return "combined" if args.combiner is not None else None


def _check_options(args: argparse.Namespace) -> None:
    """Raise a ValueError for an option that would change nothing, and for what is missing."""
    imports, estimator_named = args.pickled is not None, _asked(args)
    estimator = estimator_named or "combined"
    with_data = args.data is not None and args.target is not None
    if imports and (args.words or (not with_data and (args.data is not None or args.target is not None or args.drop))):
        raise ValueError(
            "--import takes over what is fitted: without DATA it reads no --target or --drop, with DATA it needs "
            "--target COLUMN, to learn a combiner or a law from these rows, and it never needs --words. Leave these "
            "out, or --import."
        )
    if not imports and (args.data is None or args.target is None):
        raise ValueError("fit needs DATA and --target COLUMN (or --import FILE, a fitted scikit-learn forest).")
    if args.data is None and (args.decimal is not None or args.thousands is not None):
        raise ValueError("--decimal and --thousands change nothing without DATA; leave them out.")
    if args.trust and not imports:
        raise ValueError("--trust changes nothing without --import FILE; leave it out.")
    if imports and estimator not in TAKEN_OVER:
        raise ValueError(
            f"--import takes over scikit-learn's forests, and --estimator {estimator} has none; take combined, "
            "cautious or uncertain."
        )
    if args.s is not None and estimator_named is None:
        raise ValueError(
            "--s is of --estimator cautious alone; of the others that may be taken here, combined for classes and "
            "uncertain for numbers, it would change nothing. Add --estimator cautious, or leave it out."
        )
    takes = TAKEN_OVER[estimator] if imports else ESTIMATORS[estimator]
    takes = {*takes, "counts"} if imports and with_data else takes
    options_set = [name for name in sorted(set().union(*ESTIMATORS.values())) if getattr(args, name) is not None]
    if ignored := ", ".join(_option(name) for name in options_set if name not in takes):
        words = [f"--estimator {estimator}"] if estimator_named is not None else []
        if imports:
            words.append("a forest that --import takes over")
        where, takes = " of ".join(words), takes | ({"law"} if estimator_named is None else set())
        can = ", ".join(map(_option, sorted(takes)))
        raise ValueError(f"{ignored} would change nothing with {where}, which takes {can}. Leave it out.")
    if args.forest == "single-tree" and args.trees is not None:
        raise ValueError("--trees would change nothing with --forest single-tree. Leave it out.")
    counts = args.counts or ("oob" if estimator == "cautious" and not imports else None)
    if counts == "oob" and args.forest in ("extra-trees", "single-tree"):
        raise ValueError(
            f"--counts oob{' (the default of cautious)' * (args.counts is None)} needs trees that are grown on bags of "
            f"the data, and --forest {args.forest} grows them on all of it. Take --forest random-forest, or --counts "
            "held_out."
        )


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _fit_new(args: argparse.Namespace) -> Any:
    import pandas as pd

    from jaxunc.streaming import wished_notation
    from jaxunc.tables import encode_instances, fit_columns

    from ._training import check_combiner, keep_notation, training_data, with_levels

    estimator_named = _asked(args)
    of_sklearn = estimator_named in (None, "combined", "cautious", "uncertain")
    numbers = None if estimator_named is None else estimator_named == "uncertain"
    how: dict[str, Any] = {"with_booleans": of_sklearn, "numbers": numbers}
    wish = wished_notation(args.decimal, args.thousands)
    X, y, notes, notation = training_data(args.data, args.target, args.drop, args.words, **how, wish=wish)
    args.estimator = estimator_named or ("uncertain" if y.dtype.kind == "f" else "combined")
    for line in notes:
        print(shown(f"jaxunc: {args.data}: {line}"), file=sys.stderr)
    if args.combiner is not None:
        check_combiner(args.combiner, len(set(y.tolist())), learns=args.estimator == "combined")
    columns = fit_columns(X)
    if not of_sklearn or columns.levels is None:
        model = _model(args).fit(X, y)
    else:
        # scikit-learn's trees compare the places of words in their sorted order, as those of jaxunc compare do.
        codes = pd.DataFrame(encode_instances(X, columns).values, columns=X.columns)
        model = with_levels(_model(args).fit(codes, y), columns)
    keep_notation(model, notation)
    return model


def _model(args: argparse.Namespace) -> Any:
    from jaxunc import estimators

    options: dict[str, Any] = {} if args.counts is None else {"counts": args.counts}
    leaf_size, seed, s = args.leaf_size or 1, args.seed or 0, 1.0 if args.s is None else args.s
    if args.estimator == "transductive":
        return estimators.TransductiveTreeClassifier(min_samples_leaf=leaf_size)
    if args.estimator == "random-trees":
        settings = {"combiner": args.combiner, "max_depth": args.depth, "missing": "random", "random_state": seed}
        return estimators.RandomDecisionTreesClassifier(args.trees or 100, min_samples_leaf=leaf_size, **settings)
    if args.estimator == "uncertain":
        if args.forest in ("extra-trees", "single-tree"):  # which have no bags
            options = {"counts": "held_out", **options}
        law = args.law or "learned"
        return estimators.UncertainForestRegressor(_forest(args), law=law, random_state=seed, **options)
    if args.estimator == "cautious":
        return estimators.CautiousForestClassifier(_forest(args), s=s, **options)
    return estimators.CombinedForestClassifier(_forest(args), combiner=args.combiner, **options)


def _forest(args: argparse.Namespace) -> Any:
    from sklearn import ensemble, tree

    what = "Regressor" if args.estimator == "uncertain" else "Classifier"
    options = {"min_samples_leaf": args.leaf_size or 1, "max_depth": args.depth, "random_state": args.seed or 0}
    if args.forest == "single-tree":
        return getattr(tree, f"DecisionTree{what}")(**options)
    make = "ExtraTrees" if args.forest == "extra-trees" else "RandomForest"
    return getattr(ensemble, make + what)(args.trees or 100, n_jobs=-1, **options)


def _take_over(args: argparse.Namespace) -> Any:
    from jaxunc.streaming import wished_notation

    from ._training import check_combiner, keep_notation, rows_of_a_fit, unpickled

    if not args.trust:
        raise ValueError(
            f"{args.pickled} is a pickle, and opening one runs whatever code it holds. If you made it yourself, add "
            "--trust; what is saved then holds no code."
        )
    fitted, is_number = unpickled(args.pickled)
    estimator_named = _asked(args) or ("uncertain" if is_number else "combined")
    if is_number != (estimator_named == "uncertain"):
        raise ValueError(
            f"--import={args.pickled!r} holds a {type(fitted).__name__}, which predicts "
            f"{'numbers: take --estimator uncertain' if is_number else 'classes: take combined or cautious'}."
        )
    if is_number and args.data is None:
        raise ValueError(
            f"--import={args.pickled!r} holds a {type(fitted).__name__}; how far a forest is off is learned from rows. "
            "Add DATA --target COLUMN: the rows that it was fitted on, or others."
        )
    args.estimator = estimator_named
    if args.combiner is not None:
        check_combiner(args.combiner, len(fitted.classes_), learns=args.data is not None)
    if args.data is None:
        return _of_a_forest(args, fitted)
    data = rows_of_a_fit(
        args.data,
        args.target,
        args.drop,
        fitted,
        numbers=is_number,
        wish=wished_notation(args.decimal, args.thousands),
    )
    model = _of_rows(args, fitted, data)
    keep_notation(model, data.notation)
    return model


def _of_a_forest(args: argparse.Namespace, fitted: Any) -> Any:
    from sklearn.frozen import FrozenEstimator

    from jaxunc.estimators import CautiousForestClassifier, CombinedForestClassifier

    if args.estimator == "cautious":
        model = CautiousForestClassifier(FrozenEstimator(fitted), s=1.0 if args.s is None else args.s, counts="inbag")
        return model.fit()
    return CombinedForestClassifier(FrozenEstimator(fitted), combiner=args.combiner or "mixture").fit()


def _of_rows(args: argparse.Namespace, fitted: Any, data: "Data") -> Any:
    """Return an estimator of a fitted forest that learns or counts from rows, and says from which."""
    from sklearn.frozen import FrozenEstimator

    from jaxunc.estimators import CautiousForestClassifier, CombinedForestClassifier, UncertainForestRegressor

    from ._training import counts_of_rows

    numbers = args.estimator == "uncertain"
    X, y, notes, _ = data
    counts, note = args.counts or "inbag", None
    if args.counts is None and (args.combiner in (None, "learned") or args.estimator == "cautious" or numbers):
        counts, note = counts_of_rows(fitted, X, y)
    for line in (*notes, *([note] if note else [])):
        print(shown(f"jaxunc: {args.data}: {line}"), file=sys.stderr)
    if numbers:
        law = args.law or "learned"
        return UncertainForestRegressor(FrozenEstimator(fitted), law=law, counts=counts, random_state=0).fit(X, y)
    if args.estimator == "cautious":
        s = 1.0 if args.s is None else args.s
        return CautiousForestClassifier(FrozenEstimator(fitted), s=s, counts=counts).fit(X, y)
    if args.counts is None and counts == "oob":
        counts = "inbag"  # out of bag counts are learned from beside them
    combiner = args.combiner or ("learned" if counts == "held_out" else None)
    return CombinedForestClassifier(FrozenEstimator(fitted), combiner=combiner, counts=counts).fit(X, y)
