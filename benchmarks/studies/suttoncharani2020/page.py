"""Tables and figures of the study of Sutton-Charani 2020, beside the paper's numbers, and what they say of it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from jaxunc.compare import ComplexityDisplay

TREES = ("0", "0.001", "0.005", "0.01", "0.05", "pruned")
MEASURES = ("log_loss", "brier", "auc")
TITLES = {"log_loss": "log loss", "brier": "Brier score", "auc": "AUC"}
DISPLAYED = {"banknote-eb": "banknote-damaged", "banknote": "banknote-right"}
WAYS = {"eb": "empirical Bayes", "laplace": "Laplace", "moments": "moments", "marginal": "beta-binomial"}
PAPER_SETS = ("banana", "bankLoan", "banknote", "mammo", "pima", "ticTacToe")
PAPER = {
    ("log_loss", "raw"): (
        (0.410, 0.351, 0.355, 0.419, 0.425, 0.359),
        (1, 0.665, 0.568, 0.571, 0.571, 0.566),
        (0.330, 0.329, 0.322, 0.331, 0.347, 0.329),
        (0.444, 0.437, 0.414, 0.409, 0.450, 0.416),
        (0.886, 0.884, 0.742, 0.655, 0.565, 0.630),
        (0.221, 0.221, 0.213, 0.210, 0.549, 0.214),
    ),
    ("log_loss", "eb"): (
        (0.287, 0.300, 0.334, 0.418, 0.424, 0.358),
        (0.640, 0.582, 0.568, 0.571, 0.571, 0.566),
        (0.173, 0.174, 0.180, 0.225, 0.346, 0.328),
        (0.419, 0.419, 0.410, 0.406, 0.450, 0.416),
        (0.557, 0.557, 0.545, 0.541, 0.564, 0.630),
        (0.188, 0.188, 0.188, 0.191, 0.550, 0.214),
    ),
    ("brier", "raw"): (
        (0.084, 0.086, 0.097, 0.129, 0.131, 0.086),
        (0.229, 0.204, 0.190, 0.192, 0.192, 0.189),
        (0.040, 0.040, 0.043, 0.057, 0.098, 0.041),
        (0.130, 0.130, 0.125, 0.123, 0.140, 0.126),
        (0.188, 0.188, 0.184, 0.183, 0.189, 0.186),
        (0.061, 0.061, 0.061, 0.062, 0.187, 0.062),
    ),
    ("brier", "eb"): (
        (0.083, 0.086, 0.097, 0.129, 0.131, 0.086),
        (0.219, 0.198, 0.190, 0.192, 0.192, 0.189),
        (0.040, 0.040, 0.042, 0.057, 0.098, 0.041),
        (0.129, 0.129, 0.125, 0.123, 0.140, 0.126),
        (0.183, 0.183, 0.179, 0.179, 0.188, 0.186),
        (0.060, 0.060, 0.060, 0.062, 0.187, 0.061),
    ),
    ("auc", "raw"): (
        (0.946, 0.936, 0.920, 0.872, 0.867, 0.937),
        (0.778, 0.772, 0.747, 0.722, 0.720, 0.755),
        (0.843, 0.838, 0.821, 0.799, 0.777, 0.827),
        (0.852, 0.848, 0.835, 0.819, 0.789, 0.839),
        (0.839, 0.836, 0.826, 0.812, 0.771, 0.821),
        (0.861, 0.858, 0.850, 0.838, 0.758, 0.846),
    ),
    ("auc", "eb"): (
        (0.948, 0.937, 0.920, 0.872, 0.867, 0.937),
        (0.781, 0.773, 0.747, 0.722, 0.720, 0.755),
        (0.845, 0.840, 0.822, 0.799, 0.777, 0.827),
        (0.854, 0.850, 0.836, 0.819, 0.789, 0.838),
        (0.842, 0.839, 0.828, 0.813, 0.771, 0.821),
        (0.864, 0.860, 0.851, 0.839, 0.758, 0.845),
    ),
}
"""Tables 3 to 8: ``[sets trees]``."""
TABLES = {
    ("log_loss", "raw"): "Table 3: log loss before smoothing",
    ("log_loss", "eb"): "Table 4: log loss after smoothing",
    ("brier", "raw"): "Table 5: Brier score before smoothing",
    ("brier", "eb"): "Table 6: Brier score after smoothing",
    ("auc", "raw"): "Table 7: AUC before smoothing",
    ("auc", "eb"): "Table 8: AUC after smoothing",
}
READING = """
* **The tables are reproduced.** Our trees are rpart's in all but a few leaves; over the six sets and the five values
  of cp the Brier scores before smoothing differ from the paper's by .001 in the median and .010 at most, the log
  losses by .005 and .068 (bankLoan at cp = .001 and diabetes at .01 are the furthest; there the trees differ).
* **Smoothing lowers the log loss of large trees: holds.** At cp = 0 on every set, by .03 to .35, and by less the
  smaller the tree. At cp = .05 nothing is left to gain.
* **Brier score and AUC gain less: holds.** At cp = 0 on every set; by .003 each in the mean.
* **"Very limited for pruned trees": does not hold.** The published code stores the pruned trees as they are and
  smooths others. Smoothed, pruned trees gain by log loss, .06 in the mean over the sets (.17 on banknote-damaged, less
  than .001 on bankLoan); on the banana set they reach .300, where the paper prints .358. Whether smoothing replaces
  pruning: by log loss the smoothed tree of cp = 0 is better than the pruned one before smoothing on five of the six
  sets (not on bankLoan), and better than the pruned one *after* smoothing on banana, banknote-damaged and tic-tac-toe
  only.
* **Tables 7 and 8 hold running means.** The AUCs that the paper prints for a set are the means over the sets *down
  to* it. Undone (`paper, undone`) they agree with ours within .007, and with the Brier scores, which they contradict
  as printed: an AUC of .86 does not go with a Brier score of .06 on tic-tac-toe. bankLoan has .61, not .78.
* **"No significant differences" to Laplace: holds.** In the means over the six sets, at cp = 0 and pruned, by each
  measure, its gains are those of empirical Bayes within {laplace}; those of the beta-binomial likelihood, which needs
  no clip, within {marginal}; those of the moments within {moments}, always on the side of less.
* **Evaluations leave their own bounds: holds, and must.** A smoothed probability lies outside of the correction
  interval unless nothing moved (the interval is centred at the frequency, its half-width half of the correction). So
  the smoothed tree's log loss lies outside of its range in {outside} of the cases. It says nothing about convexity, as
  the paper has it.
* **The published interval AUC is none.** The areas of all lower and of all upper ends lie within .01 of each other;
  the exact bounds are .01 to .13 apart at cp = 0. In small trees they are very wide (.16 to .99 on bankLoan with two
  leaves): instances of one leaf, tied before, may choose different probabilities. That is the published reading,
  instance by instance; with a leaf's instances coupled there is no closed form for the AUC.
* **The damaged banknote file matters.** All else here is about the six sets of the paper, `banknote-damaged` among
  them. On the right one large trees have half the Brier score (.019 for .040).
"""


def without_running_mean(table) -> np.ndarray:
    """The values whose running means over the rows a table holds."""
    sums = np.asarray(table, float) * np.arange(1, len(table) + 1)[:, None]
    return np.diff(sums, axis=0, prepend=0)


def means(records: Sequence[Mapping], estimate: str, measure: str) -> np.ndarray:
    """``[trees]`` of a set: the mean over repetitions and folds."""
    place = MEASURES.index(measure)
    return np.mean([[record["trees"][tree][estimate][place] for tree in TREES] for record in records], axis=0)


def ranges(records: Sequence[Mapping], metric: str) -> np.ndarray:
    """``[trees 2]`` of a set: mean ends of the range of a metric."""
    return np.mean([[record["trees"][tree]["intervals"][metric] for tree in TREES] for record in records], axis=0)


def study_page(
    finished: Mapping[str, Sequence[Mapping]],
    names: Mapping[str, str | None],
    out: Path,
    further: Sequence[str] = (),
) -> str:
    """The page; its figures are written to ``out``. ``further``: sections of what the paper left open."""
    of_paper = {name: records for name, records in finished.items() if names[name] is not None}
    n_repeats = len(next(iter(finished.values()))) // 10
    parts = [
        "# Smoothing trees: the study of Sutton-Charani 2020",
        f"Made by `python -m benchmarks suttoncharani2020` in nine minutes on one of two shared cores: "
        f"ten-fold cross-validation, {n_repeats} times (the paper has 150, its code 20). Trees are grown and pruned as "
        "R's rpart does it (`benchmarks/studies/suttoncharani2020/trees.py`; on the four trees of which R's leaves are "
        "known the numbers of leaves are the same, and 85 of 90 leaves too). Log loss is clipped at 1e-15 as in the "
        "published code, the Brier score is that of one class.",
        "The columns are trees. `0` to `0.05` are values of cp, rpart's complexity parameter: a split is kept only "
        "while it saves more than cp times the errors of the root for each leaf that it adds. So cp = 0 keeps all "
        "that saves an error (of nodes with 20 instances at least, and 7 in a leaf), and larger values leave smaller "
        "trees; `pruned` has the cp that cross-validation chose. Rows are the six sets of the paper, among them the "
        "damaged file of `banknote` that it used (`banknote-damaged`, in the cells `banknote-eb`); the right file "
        "(`banknote-right`) stands below them, and is in no mean.",
    ]
    if of_paper:
        parts += ["## What holds", _reading(of_paper)]
    for figure, (name, measure) in {"Figure 2": ("banana", "log_loss"), "Figure 3": ("bankLoan", "brier")}.items():
        if name in finished:
            file = f"{figure.lower().replace(' ', '-')}.svg"
            draw(finished[name], measure, out / file)
            parts += [
                f"## {figure}: {TITLES[measure]}, {name}",
                f"![{TITLES[measure]} of {name} before and after smoothing, and its range, from large "
                f"trees to small ones]({file})",
            ]
    for (measure, estimate), title in TABLES.items():
        parts += [f"## {title}", _beside_the_paper(finished, names, measure, estimate)]
    if of_paper:
        parts += ["## Smoothed in other ways", _others(of_paper)]
    parts += ["## Ranges", _ranges(finished, of_paper)]
    parts += ["## Leaves and priors", _priors(finished)]
    return "\n\n".join([*parts, *further]) + "\n"


def draw(records: Sequence[Mapping], measure: str, path: Path) -> None:
    """Values before and after smoothing and the range of the interval predictions, against complexity."""
    import matplotlib
    from matplotlib.figure import Figure

    values = {name: means(records, key, measure).tolist() for name, key in {"before": "raw", "after": "eb"}.items()}
    lower, upper = ranges(records, measure).T.tolist()
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    with matplotlib.rc_context({"svg.hashsalt": "jaxunc"}):
        ComplexityDisplay(TREES, values, lower, upper, measure=TITLES[measure]).plot(figure.add_subplot())
        figure.axes[0].legend(frameon=False)
        figure.savefig(path, metadata={"Date": None})


def _beside_the_paper(finished, names, measure: str, estimate: str) -> str:
    printed = np.array(PAPER[measure, estimate])
    undone = without_running_mean(printed) if measure == "auc" else None
    lines = []
    for name, records in finished.items():
        lines.append([_displayed(name), "ours", *_numbers(means(records, estimate, measure))])
        if (paper := names[name]) is not None:
            row = PAPER_SETS.index(paper)
            lines.append(["", "paper", *_numbers(printed[row])])
            if undone is not None:
                lines.append(["", "paper, undone", *_numbers(undone[row])])
    return _table(["set", "", *TREES], lines)


def gains(finished: Mapping[str, Sequence[Mapping]], estimate: str, measure: str) -> np.ndarray:
    """``[sets trees]``: what a way of smoothing gains over relative frequencies."""
    sign = 1 if measure == "auc" else -1
    apart = [means(records, estimate, measure) - means(records, "raw", measure) for records in finished.values()]
    return sign * np.array(apart)


def outside(finished: Mapping[str, Sequence[Mapping]], measure: str) -> float:
    """The share of trees and folds where the smoothed tree lies outside of its own range."""
    place = MEASURES.index(measure)
    trees = [record["trees"][tree] for records in finished.values() for record in records for tree in TREES]
    ends = np.array([tree["intervals"][measure] for tree in trees])
    smoothed = np.array([tree["eb"][place] for tree in trees])
    return float(np.mean((smoothed < ends[:, 0] - 1e-9) | (smoothed > ends[:, 1] + 1e-9)))


def _reading(of_paper) -> str:
    """What holds, with the numbers of the sets of the paper."""
    places = [TREES.index("0"), TREES.index("pruned")]
    mean = {way: np.array([gains(of_paper, way, m).mean(axis=0)[places] for m in MEASURES]) for way in WAYS}
    most = {way: f"{np.abs(mean[way] - mean['eb']).max():.4f}".lstrip("0") for way in WAYS if way != "eb"}
    return READING.strip().format(**most, outside=f"{outside(of_paper, 'log_loss'):.0%}")


def _others(of_paper) -> str:
    """Mean over the sets of what each way of smoothing gains."""
    lines = []
    for estimate, way in WAYS.items():
        for tree in ("0", "pruned"):
            found = [gains(of_paper, estimate, measure)[:, TREES.index(tree)] for measure in MEASURES]
            lines.append([way, tree, *(f"{of.mean():+.4f} ({(of > 0).sum()}/{len(of)})" for of in found)])
    return (
        f"Gain over relative frequencies: mean over the {len(of_paper)} sets of the paper, and on how many of them "
        "there is one. Empirical Bayes: the paper's weighted likelihood; moments: the prior fitted by mean and "
        "variance; beta-binomial: by the likelihood of the counts; Laplace: one instance of each class added.\n\n"
        + _table(["smoothing", "trees", *TITLES.values()], lines)
    )


def _ranges(finished, of_paper) -> str:
    lines = []
    for name, records in finished.items():
        for metric, title in {**TITLES, "auc_published": "AUC, published"}.items():
            ends = ranges(records, metric)
            lines.append([_displayed(name), title, *(f"{low:.3f} to {high:.3f}" for low, high in ends)])
    text = ", ".join(f"{outside(of_paper, measure):.0%} by {title}" for measure, title in TITLES.items())
    told = f" The smoothed tree lies outside of its own range in {text}, of all trees and folds of the paper's sets."
    return (
        "Mean lower and upper bounds of the metrics over the prediction intervals; *AUC, published* is what the "
        f"published code calls an interval.{told if of_paper else ''}\n\n" + _table(["set", "metric", *TREES], lines)
    )


def _priors(finished) -> str:
    lines = []
    for name, records in finished.items():
        leaves = np.mean([[record["trees"][tree]["leaves"] for tree in TREES] for record in records], axis=0)
        prior = np.array([[record["trees"][tree]["prior"][:2] for tree in TREES] for record in records])
        weight = np.median(prior.sum(axis=-1), axis=0)
        texts = [f"{n:.1f}, {w:.2g}" if w < 1e6 else f"{n:.1f}, ∞" for n, w in zip(leaves, weight, strict=True)]
        lines.append([_displayed(name), *texts])
    return "Mean number of leaves, median α + β of the weighted likelihood.\n\n" + _table(["set", *TREES], lines)


def _displayed(name: str) -> str:
    return DISPLAYED.get(name, name)


def _numbers(values) -> list[str]:
    return [f"{value:.3f}" for value in values]


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
