"""``jaxunc fit``."""

import argparse
import sys
from typing import Any

from ._arguments import integer, number, positive

ABOUT = "fit a forest and a rule on a table of data, and save them"
DETAILS = (
    "Fit one of the library's classifiers on a CSV or Parquet file and save it for jaxunc predict; or take over a "
    "fitted scikit-learn forest."
)
ESTIMATORS = ("combined", "cautious", "random-trees", "transductive")
FORESTS = ("random-forest", "extra-trees", "single-tree")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    add = parser.add_argument
    add("data", nargs="?", metavar="DATA", help="CSV or Parquet file to fit on")
    add("--target", metavar="COLUMN", help="the column of DATA that holds the classes")
    add("--drop", nargs="+", default=[], metavar="COLUMN", help="columns of DATA that are left out, such as ids")
    add("--output", required=True, metavar="MODEL", help="the file to save to, such as model.safetensors")
    add("--estimator", choices=ESTIMATORS, default="combined", help="the classifier (default: combined)")
    add("--forest", choices=FORESTS, default="random-forest", help="the forest of combined and cautious")
    add("--combiner", metavar="RULE", help="the rule of combined and random-trees (default: the estimator's own)")
    add("--counts", metavar="WHOSE", help="whose counts the leaves hold: inbag, train, oob, calibration")
    add("--s", type=number, metavar="S", help="how cautious a cautious forest is (default: 1)")
    add("--trees", type=positive, default=100, metavar="N", help="trees in the forest (default: 100)")
    add("--leaf-size", type=positive, default=1, metavar="N", help="least number of instances in a leaf (default: 1)")
    add("--depth", type=integer, metavar="N", help="depth of the trees at most (default: no limit)")
    add("--seed", type=integer, default=0, metavar="N", help="seed of the forest (default: 0)")
    add("--import", dest="pickled", metavar="FILE", help="take over a fitted scikit-learn forest, pickled or by joblib")
    add("--trust", action="store_true", help="open the pickle of --import, which runs whatever code it holds")


def run(args: argparse.Namespace) -> None:
    """Fit and save."""
    from rich.console import Console

    import jaxunc as ju
    from jaxunc.files import check_overwrites_nothing
    from jaxunc.storage import describe

    check_overwrites_nothing(args.output, (args.data, args.pickled), "--output")
    model = _taken_over(args) if args.pickled is not None else _fitted(args)
    ju.save(args.output, model)
    found = describe(args.output)
    rule = f", {found.combiner}" if found.combiner else ""
    Console(highlight=False).print(
        f"{args.output}: {found.kind}{rule}; {found.columns} columns, classes "
        f"{', '.join(map(str, model.classes_[:10]))}; {found.n_bytes / 1e6:.1f} MB",
        soft_wrap=True,
        markup=False,
    )


def interrupted(args: argparse.Namespace) -> str:
    """What is left of a run that was interrupted."""
    return "nothing was saved"


def _fitted(args: argparse.Namespace) -> Any:
    if args.data is None or args.target is None:
        raise ValueError("fit needs DATA and --target COLUMN (or --import FILE, a fitted scikit-learn forest).")
    from jaxunc.files import as_frame, data_file, known_rows, read_table

    table = read_table(data_file(args.data))
    for name in (args.target, *args.drop):
        if name not in table.schema.names:
            raise ValueError(f"{args.data} has no column {name!r}; it has {table.schema.names[:20]}.")
    if args.target in args.drop:
        raise ValueError(f"--drop names the target {args.target!r}, which is what is learned; leave it out of --drop.")
    table, said = known_rows(table, args.target)
    if said:
        print(f"jaxunc: {args.data}: {said}", file=sys.stderr)
    frame = as_frame(table.select([name for name in table.schema.names if name not in args.drop]))
    X, y = frame.drop(columns=args.target), frame[args.target].to_numpy()
    times = [name for name in X.columns if X[name].dtype.kind in "mM"]
    if times:
        raise ValueError(
            f"the columns {times[:5]} of {args.data} hold dates or times, which no classifier here takes: write them "
            "as numbers, for instance days since the first one, or leave them out with --drop."
        )
    X = _as_floats(X, with_booleans=args.estimator in ("combined", "cautious"))
    words = [name for name in X.columns if X[name].dtype.kind not in "iufb"]
    if words and args.estimator in ("combined", "cautious"):
        raise ValueError(
            f"the columns {words[:5]} of {args.data} hold no numbers, which scikit-learn's forests do not take: encode "
            "them, leave them out with --drop, or take --estimator random-trees."
        )
    return _model(args).fit(X, y)


def _as_floats(X: Any, *, with_booleans: bool) -> Any:
    """Integers as floats, as files are scored; for scikit-learn booleans with gaps, too, which are objects."""
    from pandas.api.types import infer_dtype

    for name in X.columns:
        column = X[name]
        has_gaps = with_booleans and column.dtype == object and infer_dtype(column, skipna=True) == "boolean"
        if column.dtype.kind in "iu" or has_gaps:
            X[name] = column.astype(float)
    return X


def _model(args: argparse.Namespace) -> Any:
    from jaxunc import estimators

    options: dict[str, Any] = {} if args.counts is None else {"counts": args.counts}
    if args.estimator == "transductive":
        return estimators.TransductiveTreeClassifier(min_leaf=args.leaf_size)
    if args.estimator == "random-trees":
        return estimators.RandomDecisionTreesClassifier(
            args.trees,
            combiner=args.combiner,
            min_samples_leaf=args.leaf_size,
            max_depth=args.depth,
            missing="random",
            random_state=args.seed,
        )
    if args.estimator == "cautious":
        return estimators.CautiousForestClassifier(_forest(args), s=1.0 if args.s is None else args.s, **options)
    return estimators.CombinedForestClassifier(_forest(args), combiner=args.combiner, **options)


def _forest(args: argparse.Namespace) -> Any:
    from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
    from sklearn.tree import DecisionTreeClassifier

    options = {"min_samples_leaf": args.leaf_size, "max_depth": args.depth, "random_state": args.seed}
    if args.forest == "single-tree":
        return DecisionTreeClassifier(**options)
    make = RandomForestClassifier if args.forest == "random-forest" else ExtraTreesClassifier
    return make(args.trees, n_jobs=-1, **options)


def _taken_over(args: argparse.Namespace) -> Any:
    if not args.trust:
        raise ValueError(
            f"{args.pickled} is a pickle, and opening one runs whatever code it holds. If you made it yourself, add "
            "--trust; what is saved then holds no code."
        )
    import joblib
    from sklearn.frozen import FrozenEstimator

    from jaxunc.estimators import CautiousForestClassifier, CombinedForestClassifier

    fitted = FrozenEstimator(joblib.load(args.pickled))
    if args.estimator == "cautious":
        return CautiousForestClassifier(fitted, s=1.0 if args.s is None else args.s, counts="inbag").fit()
    return CombinedForestClassifier(fitted, combiner=args.combiner or "mixture").fit()
