"""Does reliable classification help evidence accumulation? Rules that weight a leaf by its doubts, beside known ones.

    python -m benchmarks reliable_evidence [--data FOLDER] [--sets NAME ...] [--parts main classes oob random-trees]

The rules of `methods` on the sets of `benchmarks.studies.rules`, forests of 100 trees, three leaf sizes, folds of a
five-fold cross-validation: all five of the sets of two classes with in-bag counts (``main``), two of those of more
(``classes``), of all sets by out-of-bag counts (``oob``) and with random decision trees (``random-trees``).

More than two classes are compared as `jaxunc.OneVsRest` does. Rules are lifted by the library, once per distinct pair
of counts; the sums over trees are NumPy's. A cell (`benchmarks.cells`) is a forest on a fold of a set.
"""

from collections import namedtuple
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import log_softmax
from scipy.stats import rankdata
from sklearn.model_selection import RepeatedStratifiedKFold

import jaxunc as ju
from benchmarks.cells import Part, Study, make_part
from benchmarks.data import by_size, load
from benchmarks.studies.reliable_evidence.methods import NAMES, rules_of
from benchmarks.studies.reliable_evidence.page import MEASURES, NATIVE, page
from benchmarks.studies.rules.run import SETS, table
from jaxunc import compare
from jaxunc.compare import FORESTS

MORE_CLASSES = (
    "autos", "balance-scale", "car", "cmc", "dermatology", "glass", "libras", "vehicle-statlog", "vowel",
    "waveform-5000", "wine", "yeast",
)  # fmt: skip
# The smallest first.
TWO_CLASSES = (
    "hepatitis", "sonar", "spect", "breast-cancer-ljubljana", "heart-h", "heart-c", "vertebral-2c", "liver",
    "ionosphere", "climate", "cylinder-bands", "wdbc", "breast-w", "diabetes", "mammo", "tic-tac-toe", "credit-g",
    "biodeg", "banknote", "kr-vs-kp", "sick", "spambase", "banana",
)  # fmt: skip
KINDS = {
    "main": ("random-forest", "extra-trees"),
    "classes": ("random-forest", "extra-trees"),
    "oob": ("random-forest",),
    "random-trees": ("random-trees",),
}
LEAF_SIZES, N_FOLDS, N_RUN, N_TREES, SMOOTHING = (1, 4, 16), 5, 2, 100, 0.1
TAKES = "35 data sets, 1254 forests"
RESULTS = Path(__file__).parent
Cell = namedtuple("Cell", "data forest leaf_size fold")


class Answers(NamedTuple):
    """What a rule says of every row: ``[rows classes]`` each."""

    scores: np.ndarray
    """The largest decides; each ranks the rows for its class."""
    probability: np.ndarray


def sets_of(part: str) -> tuple[str, ...]:
    """The sets of a part, the smallest first."""
    return TWO_CLASSES if part == "main" else by_size(MORE_CLASSES if part == "classes" else SETS)


def run_cell(cell: Cell, data: compare.Table, part: str) -> dict:
    """{"rules": {rule: `MEASURES`}}."""
    folds = RepeatedStratifiedKFold(n_splits=N_FOLDS, n_repeats=1, random_state=0).split(data.X, data.y)
    train, test = list(folds)[cell.fold]
    model = FORESTS[cell.forest](N_TREES, cell.leaf_size, cell.fold, part == "oob")
    model.fit(data.X[train], data.y[train])
    X, y, n_classes = data.X[test], data.y[test], len(data.class_labels)
    if part == "random-trees":
        counts, prior = np.asarray(ju.leaf_counts(model.forest_, X)), np.asarray(model.forest_.prior, float)
    else:
        counts = leaf_counts(model, data.X[train], data.y[train], X, n_classes, is_oob=part == "oob")
        # In-bag the prior is that of the bags, as `jaxunc.from_sklearn` has it.
        own = [np.bincount(data.y[train], minlength=n_classes) / len(train)]
        prior = np.mean(own if part == "oob" else [tree.tree_.value[0, 0] for tree in model.estimators_], axis=0)
    answers, doubts = answered(counts, prior)
    return {"rules": {name: measured(answer, doubts, y) for name, answer in answers.items()}}


def leaf_counts(model: Any, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, n_classes: int, *, is_oob: bool):
    """``[rows trees classes]``: whole numbers, of the bag that grew each tree or of the rows outside of it."""
    trees = [tree.tree_ for tree in model.estimators_]
    if is_oob:
        codes, outside = model.apply(X) * n_classes + y[:, None], ju.counting.oob_mask(model, len(y))
        counts = [
            np.bincount(codes[outside[:, t], t], minlength=nodes.node_count * n_classes).reshape(-1, n_classes)
            for t, nodes in enumerate(trees)
        ]
    else:
        counts = [np.rint(nodes.value[:, 0] * nodes.weighted_n_node_samples[:, None]) for nodes in trees]
    return np.stack([of[leaves] for of, leaves in zip(counts, model.apply(X_test).T, strict=True)], axis=1)


def answered(counts: np.ndarray, prior: np.ndarray) -> tuple[dict[str, Answers], np.ndarray]:
    """Of all rules; and doubts ``[classes rows 2]``, each class against the rest: means of u_e and of u_a."""
    own, total = counts.astype(np.int64), counts.sum(axis=-1).astype(np.int64)
    n_classes = len(prior)
    asked = [1] if n_classes == 2 else range(n_classes)
    most = total.max() + 1
    codes = np.stack([total * most + own[:, :, c] for c in asked])
    distinct, at = np.unique(codes, return_inverse=True)
    at = at.reshape(codes.shape)
    n, w = np.divmod(distinct, most)
    pairs = jnp.asarray(_padded(np.stack([n - w, w], axis=-1)), float)
    rules = [rules_of(jnp.asarray([1 - prior[c], prior[c]])) for c in asked]
    answers = {name: _against_rest([one[name] for one in rules], pairs, at) for name in NAMES}
    if n_classes > 2:  # as the library has it for any number of classes
        answers[NATIVE] = _native(own, total, prior)
    split = ju.UncertaintyDecomposition("plausibility")
    doubts = [_answer(split, pairs, places) for places in at]
    return answers, np.stack([np.stack([one.epistemic, one.aleatoric], axis=-1) for one in doubts])


def _padded(part: np.ndarray) -> np.ndarray:
    """Zeros behind, so that programs are of few shapes."""
    size = max(256, 1 << (len(part) - 1).bit_length())
    return np.concatenate([part, np.zeros((size - len(part), *part.shape[1:]), part.dtype)])


_lift = jax.jit(lambda rule, pairs: rule.lift(pairs))
_finish = jax.jit(lambda rule, merged: rule.finish(merged))


def _answer(rule: Any, pairs: jax.Array, at: np.ndarray) -> Any:
    """A rule's answer to leaves ``at [rows trees]`` of a table of pairs: all of these rules add."""
    lifted = jax.tree.map(partial(np.asarray, dtype=float), _lift(rule, pairs))
    merge = lambda part: _padded(part[at].sum(axis=1)) if part.ndim else part * at.shape[1]
    found = _finish(rule, jax.tree.map(lambda part: jnp.asarray(merge(part), float), lifted))
    return jax.tree.map(lambda part: np.asarray(part)[: len(at)], found)


def _against_rest(rules: list[ju.Combiner], pairs: jax.Array, at: np.ndarray) -> Answers:
    found = [_answer(rule, pairs, places) for rule, places in zip(rules, at, strict=True)]
    if len(found) == 1:
        return Answers(np.asarray(found[0].class_scores), np.asarray(found[0].probability, float))
    scores = np.stack([one.class_scores[:, 1] - one.class_scores[:, 0] for one in found], axis=-1)
    logs = log_softmax(np.stack([one.log_probability[:, 1] for one in found], axis=-1).astype(float), axis=1)
    return Answers(scores, np.exp(logs))


def _native(own: np.ndarray, total: np.ndarray, prior: np.ndarray) -> Answers:
    shares = (own + SMOOTHING) / (total[..., None] + len(prior) * SMOOTHING)
    scores = np.log(prior) + np.sum(np.log(shares) - np.log(prior), axis=1)
    return Answers(scores, np.exp(log_softmax(scores, axis=1)))


def measured(answer: Answers, doubts: np.ndarray, y: np.ndarray) -> list[float]:
    """`MEASURES`; rejected by the lead of the largest score, or by the doubts of its class against the rest."""
    scores, n_classes = answer.scores, answer.scores.shape[1]
    chosen = np.argmax(scores, axis=1)
    right, ranked = chosen == y, np.sort(scores, axis=1)
    doubt = doubts[0] if n_classes == 2 else doubts[chosen, np.arange(len(y))]
    keys = scores[:, 1:] - scores[:, :1] if n_classes == 2 else scores
    shares = answer.probability / answer.probability.sum(axis=1, keepdims=True)
    off = np.sum((shares - np.eye(n_classes)[y]) ** 2, axis=1)
    certainties = (ranked[:, -1] - ranked[:, -2], -doubt[:, 0], -doubt[:, 1], -doubt.sum(axis=1))
    found = [
        np.mean([auc(key, y == n_classes - keys.shape[1] + c) for c, key in enumerate(keys.T)]),
        np.mean(right),
        np.mean(off) / (2 if n_classes == 2 else 1),
        *(accuracy_rejection(certainty, right) for certainty in certainties),
    ]
    return [round(float(value), 6) for value in found]


def auc(key: np.ndarray, is_positive: np.ndarray) -> float:
    """The share of pairs in order, ties counting one half."""
    n_positive = is_positive.sum()
    ranks = rankdata(key)[is_positive].sum()
    return (ranks - n_positive * (n_positive + 1) / 2) / (n_positive * (len(key) - n_positive))


def accuracy_rejection(certainty: np.ndarray, right: np.ndarray) -> float:
    """The mean accuracy over all numbers of rows kept; equally certain rows are kept in any order."""
    order = np.argsort(-certainty, kind="stable")
    _, group = np.unique(-certainty[order], return_inverse=True)
    share = np.bincount(group, right[order]) / np.bincount(group)
    return float(np.mean(np.cumsum(share[group]) / np.arange(1, len(right) + 1)))


def _is_sound(record: dict, cell: Cell) -> bool:
    wanted = {*NAMES, NATIVE} if cell.data in MORE_CLASSES else {*NAMES}
    return set(record["rules"]) == wanted and all(len(v) == len(MEASURES) for v in record["rules"].values())


def _part(name: str) -> Part:
    keys = [*product(KINDS[name], LEAF_SIZES, range(N_FOLDS if name == "main" else N_RUN))]
    cells, load_table = lambda of: [Cell(of, *key) for key in keys], lambda of, folder: table(load(of, folder))
    return make_part(sets_of(name), cells, _is_sound, partial(run_cell, part=name), load_table, name)


STUDY = Study(str(__doc__), RESULTS, {name: _part(name) for name in KINDS})
options, run = STUDY.options, STUDY.run


def kept(out: Path, part: str = "main") -> dict[Cell, dict]:
    """All cells of a part, of the sets that have been run to the end."""
    sets = STUDY.parts[part].kept(out, whole=True)
    return {cell: record for found in sets.values() for cell, record in found.items()}


def write_page(out: Path) -> None:
    """The page of all sets that have been run to the end."""
    main, *further = KINDS
    text = page(kept(out, main), {part: kept(out, part) for part in further})
    (out / "README.md").write_text(text, encoding="utf-8")
