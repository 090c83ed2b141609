"""Sentences about a study: its data and settings, what its numbers support, and what they do not."""

from typing import Any

from ._evaluate import MOST_CLASSES
from ._settings import MODEL, Settings, chosen_combiners
from ._store import Results
from ._summary import has_sets

_PERFECT = 0.9999  # mean accuracy from which a copy of the target is suspected among the features
_FEW = 10  # largest number of rows in a leaf that are called few
_MOST_CLASSES_NAMED = 6  # largest number of classes that a line names


def count(number: int, noun: str) -> str:
    """Return a number and its noun, in the plural unless the number is 1, as text: "3 trees"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def data_line(results: Results) -> str:
    """Return a line on a study's data: name, sizes, classes, and what numbers in the target are taken for."""
    data = results.about["data"]
    sizes = f"{data['name']}: {count(data['n_instances'], 'instance')}, {count(data['n_features'], 'feature')}"
    how_taken = f"; {data['taken']}" if "taken" in data else ""
    if results.settings.numbers:
        return sizes + how_taken
    classes = [f"{label} {size}" for label, size in data["classes"].items()]
    n_more = len(classes) - _MOST_CLASSES_NAMED
    more = f" and {n_more} more" if n_more > 0 else ""
    return f"{sizes}, {len(classes)} classes ({', '.join(classes[:_MOST_CLASSES_NAMED])}{more}){how_taken}"


def data_notes(results: Results) -> list[str]:
    """Return notes on a study: warnings on the data, what was done to the data, which combiners were left out."""
    data = results.about["data"]
    notes = [f"Warning: {warning}" for warning in data["warnings"]] + list(data["notes"])
    if results.settings.numbers:
        return notes
    omitted = [name for name in chosen_combiners(results.settings) if name not in results.about["combiners"]]
    if omitted:
        is_one = len(omitted) == 1
        listed = omitted[0] if is_one else f"{', '.join(omitted[:-1])} and {omitted[-1]}"
        verb = "compares" if is_one else "compare"
        notes.append(f"Left out: {listed}, which {verb} two classes (here {len(data['classes'])}).")
    if not has_sets(results):
        notes.append(
            f"Sets of classes and intervals are left out: they compare all pairs, of {MOST_CLASSES} classes at most."
        )
    return notes


def model_line(results: Results) -> str | None:
    """Return sentences on a study's given model and what is compared with it; None if the study has no model."""
    model = results.about.get("model")
    if model is None:
        return None
    kind = "boosted tree" if model["boosted"] else "tree"
    model_text = f"{model['name']} ({count(model['n_trees'], kind)})"
    if "steps" in model:  # it is fitted anew
        steps = ", then ".join(model["steps"])
        return (
            f"Compared: combiners on the leaves of {model_text}, {steps}, fitted anew to each training part with all "
            "its steps. The fitted one itself is not compared: on rows that it was fitted to its answers say nothing."
        )
    return (
        f"Compared: what {model_text} answers itself, in the row `{MODEL}`; that calibrated on other rows, in "
        "`model-platt`; and combiners that read these rows counted in its leaves."
    )


def run_line(results: Results) -> str:
    """Return sentences on how a study was run: its forests, leaf sizes, cross-validation, counts and seed."""
    settings = results.settings
    if settings.is_given:
        return (
            f"Run: the leaves of {results.about['model']['name']} were counted anew {settings.n_forests} times, on the "
            f"training parts of {count(settings.n_repeats, 'repetition')} of {settings.n_folds}-fold cross-validation "
            f"(seed {settings.seed}); the trees stayed. Learned combiners learn from these parts, each row without its "
            "own label. All combiners read the same leaves."
        )
    clauses = [" and ".join(settings.forests)]
    if not settings.has_model:
        noun = "leaf sizes" if len(settings.leaf_sizes) > 1 else "leaf size"
        clauses.append(f"{noun} {', '.join(map(str, settings.leaf_sizes))}")
    clauses.append(f"{count(settings.n_repeats, 'repetition')} of {settings.n_folds}-fold cross-validation")
    counts_clause = f"counts: {settings.counts}"
    if settings.counts == "oob" and "extra-trees" in settings.forests:
        counts_clause += ", for which extra-trees are grown on bags as well"
    clauses += [counts_clause, f"seed {settings.seed}"]
    return (
        f"Run: {count(settings.n_forests, 'forest')} of {_sizes(settings)} ({'; '.join(clauses)}). "
        f"All {'laws' if settings.numbers else 'combiners'} read the same leaves."
    )


def doubt(row: dict[str, Any]) -> str:
    """Return a clause on why a row of `Outcome.doubtful` is doubtful: mixed leaves, or trees that disagree.

    Leaves are mixed if the aleatoric uncertainty is at least the epistemic one.
    """
    leaf_rows = row["leaf_rows"]  # None if it is not known
    median = "" if leaf_rows is None else f" (median {leaf_rows:.3g} rows)"
    if row["aleatoric"] >= row["epistemic"]:
        return f"mixed leaves{median}: rows like it are of several classes; more of them would not help"
    if leaf_rows is not None and leaf_rows <= _FEW:
        return f"few rows behind its leaves{median}, trees disagree: more rows like it would help"
    return f"trees disagree, each sure of itself{median}: more rows like it would help"


def unsupported(results: Results, records: Any) -> list[str]:
    """Return sentences on what the numbers of a study do not support; ``records`` is the frame of `Results.records`."""
    settings = results.settings
    sentences = _on_given_model(results)
    nouns = "laws" if settings.numbers else "combiners"
    if settings.numbers:
        sentences.append(
            "Coverage is a share of all rows. None of these laws promises it for a row at hand or a group of rows; out "
            "of bag none is proved for all rows, either. For a proof, hold rows out: "
            "`UncertainForestRegressor(law='conformal', counts='held_out')`."
        )
    elif records.groupby(["forest", "leaf_size", "combiner"])["accuracy"].mean().max() >= _PERFECT:
        sentences.append(
            "A score is perfect. That is rare but where a copy of the target is among the features: look for one "
            "before you believe it."
        )
    sentences.append(
        f"This is one data set. Which of these {nouns} leads elsewhere is another question; the tests here are about "
        "new samples of these data alone."
    )
    n_combiners = len(results.about["combiners"])
    if n_combiners > 2:
        sentences.append(
            f"The leader was chosen among {n_combiners} {nouns} by the same numbers that praise it, so its lead is "
            "flattered; to be sure, try it and the runner-up on data that were not used here."
        )
    n_parts = settings.n_repeats * settings.n_folds
    sentences.append(
        f"The {n_parts} test parts share training data. The tests correct their variance for it, and with so few parts "
        f"find large differences only: {nouns} that are not told apart may still differ."
    )
    if settings.leaf_sizes[0] == 1 and settings.counts in ("inbag", "train"):
        sentences.append(
            "At leaf size 1 nearly all leaves hold one class, by construction of the trees: there their size says "
            "something, the share of their classes nothing. `--counts oob` and `--counts held_out` count instances "
            "that did not grow the tree."
        )
    return sentences


def _on_given_model(results: Results) -> list[str]:
    """Return sentences of caution for a study of a given model; an empty list if the study has none."""
    model = results.about.get("model")
    if model is None:
        return []
    sentences = [
        f"The model came fitted. If it was fitted to rows of these data, `{MODEL}` and all combiners are flattered: "
        "its trees know the labels. Compare on rows that it has not seen."
    ]
    if model["boosted"]:
        sentences.append(
            "Boosted trees correct each other, and late ones say little by themselves. Combiners that take each tree "
            "for independent evidence, such as `evidence` and `dempster`, are then surer than they should be."
        )
    return sentences


def _sizes(settings: Settings) -> str:
    """Return the number of trees in each forest of these settings, as text: "100 trees", or "a single tree"."""
    trees = count(settings.n_trees, "tree")
    if "single-tree" not in settings.forests:
        return trees
    return "a single tree" if len(settings.forests) == 1 else f"{trees} (single-tree: one)"
