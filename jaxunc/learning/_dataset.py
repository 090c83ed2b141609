"""Rows to learn from (`OobDataset`): each row's leaves as a histogram over the distinct count vectors of all leaves.

`dataset_from_counts` makes them from leaf counts, `oob_dataset` from a model and its data. A combiner's statistics are
merged from the histograms; for a combiner with numbers per tree, rows are routed again at each step.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int32, Num

from jaxunc._checks import as_weights, check_class_axis, check_collection, check_counts, check_numbers, distinct_labels
from jaxunc._numerics import (
    TwoFloat,
    distinct_rows,
    float_dtype,
    jit,
    multiple_of,
    narrowest_counts,
    padded_rows,
    power_of_two,
)
from jaxunc._types import AnswerT, PyTree
from jaxunc.combiners import (
    Calibrated,
    Combiner,
    LearnedPool,
    Mean,
    Merging,
    check_tree_fields,
    columns_of,
    has_tree_fields,
    lift_tree,
)
from jaxunc.forest import DEFAULT_COUNTS, Forest
from jaxunc.inference import BoundForest, as_mask, bind, leaf_index, leaf_table, merge_leaves
from jaxunc.scorers import declared
from jaxunc.tables import (
    Encoded,
    LabelsLike,
    MaskLike,
    NumbersLike,
    SparseRows,
    as_labels,
    class_positions,
    encode_rows,
)

CHUNK = 8192  # number of rows whose leaves are sorted at a time; smaller chunks need less memory

CLIPS = (1e-2, 1e-3, 1e-5)
"""Clips of the calibrated means in `OobDataset.default_candidates`; which is best differs between data sets."""


class Histograms(NamedTuple):
    """Histogram of the count vectors in each row's leaves; empty for padding rows."""

    count_table: Num[Array, "distinct columns"]
    """Distinct count vectors; with several count sets they stand side by side in the columns."""
    code: Int32[Array, "rows slots"]  # index in the table of each count vector of a row
    times: Float[Array, "rows slots"]  # number of the row's trees whose leaf has these counts; 0 in a free slot

    def merge(self, combiner: Combiner, n_trees: ArrayLike) -> PyTree:
        """Return the combiner's merged statistic of each row; sums are scaled from the row's trees to ``n_trees``.

        ``n_trees`` is the forest's number of trees. Raises a ValueError for a combiner that merges by "collect".
        """
        stat = jax.tree.map(jnp.asarray, lift_tree(combiner, self.count_table))
        planes, structure = jax.tree.flatten(stat)
        trees_of_row = jnp.sum(self.times, axis=1)
        ratio = jnp.asarray(n_trees) / jnp.maximum(trees_of_row, 1)
        kinds = Merging.of(combiner.merge, stat).kinds
        return jax.tree.unflatten(
            structure, [self._merge_plane(k, plane, ratio) for k, plane in zip(kinds, planes, strict=True)]
        )

    def at(self, rows: np.ndarray) -> "Histograms":
        """Return the histograms of the rows at these positions."""
        take = lambda array: jnp.asarray(np.asarray(array)[rows])
        return self._replace(code=take(self.code), times=take(self.times))

    def _merge_plane(self, kind: str, plane: Array, ratio: Float[Array, "rows"]) -> Any:
        """Return a plane of the statistic, merged by ``kind`` over each row's trees: ``[rows ...]``, or a `TwoFloat`.

        ``plane`` is ``[distinct ...]``, or a scalar that all leaves share, which "min" and "max" return unchanged. Sums
        are multiplied by ``ratio``, and those of "exact_sum" are a `TwoFloat`. A row without trees gets 0, inf ("min")
        or -inf ("max"). Raises a ValueError for "collect".
        """
        if kind == "collect":
            raise ValueError(
                "the combiner keeps what every tree says (a median, a mixture), which rows to learn from do not hold: "
                "it can be neither learned nor calibrated here. Learn one that sums: Mean(scorer) with the same "
                "scorer, whose learned settings then serve this combiner too (its scorer: fitted.combiner.scorer)."
            )
        dtype = float_dtype(plane)
        plane = plane.astype(dtype)
        times, ratio = self.times.astype(dtype), ratio.astype(dtype)
        if plane.ndim == 0:
            if kind in ("min", "max"):
                return plane
            total = plane * ratio * jnp.sum(times, axis=1)
            return TwoFloat(total, jnp.zeros_like(total)) if kind == "exact_sum" else total
        # values: [rows slots numbers]
        values, is_used = plane.reshape(len(plane), -1)[self.code], self.times[..., None] > 0
        if kind in ("min", "max"):
            neutral, extreme = (jnp.inf, jnp.min) if kind == "min" else (-jnp.inf, jnp.max)
            merged = extreme(jnp.where(is_used, values, jnp.asarray(neutral, dtype)), axis=1)
        else:  # the value of a free slot may be -inf, a veto, and -inf times 0 is NaN
            values = jnp.where(is_used, values, jnp.zeros_like(values))
            merged = jnp.einsum("rs,rsp->rp", times * ratio[:, None], values)
        merged = merged.reshape(len(self.code), *plane.shape[1:])
        return TwoFloat(merged, jnp.zeros_like(merged)) if kind == "exact_sum" else merged


class RoutedRows(NamedTuple):
    """Rows that are routed through the forest at every step, for combiners with numbers per tree."""

    forest: Forest
    X: Array
    tree_mask: Bool[Array, "rows trees"] | None  # whether a tree counts for a row; None if all do

    def merge(self, combiner: Combiner, n_trees: ArrayLike) -> PyTree:
        """Return the combiner's merged statistic of each row, scaled to ``n_trees`` as by `Histograms.merge`."""
        forest = self.forest
        X = Encoded(self.X, True)
        merged = merge_leaves(
            forest.trees, leaf_table(forest, combiner), X, merge=combiner.merge, tree_mask=self.tree_mask
        )
        if self.tree_mask is None:
            return merged
        trees_of_row = jnp.maximum(jnp.sum(self.tree_mask, axis=1), 1).astype(jnp.result_type(float))
        ratio = n_trees / trees_of_row
        scale = lambda plane: plane * ratio.astype(plane.dtype).reshape(-1, *[1] * (plane.ndim - 1))
        scale_sums = lambda kind, stat: stat if kind in ("min", "max") else jax.tree.map(scale, stat)
        return jax.tree.map(scale_sums, combiner.merge, merged)


class MergedStatistics(NamedTuple):
    """Merged statistic of each row, by a combiner whose numbers are not learned: it is the same at every step."""

    stat: PyTree

    def merge(self, combiner: Combiner, n_trees: ArrayLike) -> PyTree:
        """Return ``stat`` as it is: it was merged by this combiner, and scaled to ``n_trees``, before."""
        return self.stat

    def at(self, rows: np.ndarray) -> "MergedStatistics":
        """Return the merged statistics of the rows at these positions."""
        take = lambda plane: jnp.asarray(np.asarray(plane)[rows]) if plane.ndim else plane
        return MergedStatistics(jax.tree.map(take, self.stat))


@dataclass(frozen=True)
class OobDataset:
    """Labelled rows, with leaf counts that do not hold the row's own label; made by `oob_dataset`.

    The arrays are longer than the ``n`` rows: padding rows weigh 0, and let data sets of similar size share programs.
    """

    histograms: Histograms
    y: Int32[Array, "rows"]
    """Classes as positions in ``class_labels``."""
    weight: Float[Array, "rows"]
    """Weight of each row in a loss; 0 for padding."""
    n: int
    """Number of rows without padding."""
    n_trees: int
    """Number of trees of the forest."""
    class_labels: tuple[Any, ...]
    count_sets: tuple[str, ...]
    """Names of the count sets whose counts stand side by side in the histograms."""
    source: str
    """How the rows were made: a source of `oob_dataset`, or ``"counts"``."""
    prior: np.ndarray
    """Class frequencies of the sample that the forest was grown on."""
    learned_for: Forest | None = None
    """Forest to which learned combiners are bound, with all these count sets; None if the rows were made of counts."""
    routed: RoutedRows | None = None
    """Rows for combiners with numbers per tree; None for sparse rows, several forests or two count sets."""
    groups: np.ndarray | None = None
    """Group of each row, which folds and validation do not split; None if each row is a group."""

    @property
    def forest(self) -> Forest:
        """The forest to which learned combiners are bound; a ValueError if the rows were made of counts alone."""
        if self.learned_for is None:
            raise ValueError(
                "these rows were made of counts, and belong to no forest. Bind what was learned to a forest of yours "
                "by jaxunc.bind(forest, combiner), or call the combiner on counts: combiner.probability(counts)."
            )
        return self.learned_for

    def data_for(self, combiner: Combiner) -> Histograms | RoutedRows | MergedStatistics:
        """Return the data that a combiner learns from.

        These are histograms, or routed rows for numbers per tree, or merged statistics if only a scale and a bias above
        them are learned. Raises a ValueError for a combiner of count sets that these rows lack, or with numbers per
        tree if they cannot be routed.
        """
        if not set(combiner.count_sets) <= set(self.count_sets):
            raise ValueError(
                f"{type(combiner).__name__} reads the counts {combiner.count_sets}, these rows hold {self.count_sets}: "
                "make them by oob_dataset(..., counts='both')."
            )
        # Only scale and bias are learned: the rule's statistics are the same at every step.
        if (
            isinstance(combiner, Calibrated)
            and not any(parameters_of(combiner.rule))
            and not has_tree_fields(combiner.rule)
        ):
            return MergedStatistics(_merge(combiner.rule, self.data_for(combiner.rule), float(self.n_trees)))
        if not has_tree_fields(combiner):
            table = columns_of(self.histograms.count_table, self.count_sets, combiner.count_sets)
            return self.histograms._replace(count_table=table)
        if self.routed is None:
            raise ValueError(
                f"{type(combiner).__name__} has numbers per tree, which need rows that are routed through one forest: "
                "oob_dataset(..., source='oob' or 'held_out', counts='inbag') of dense rows (X.toarray()). "
                f"These are of source={self.source!r} with the counts {self.count_sets}."
            )
        check_tree_fields(combiner, self.n_trees)
        return self.routed

    def answer(self, combiner: Combiner[AnswerT]) -> AnswerT:
        """Return the combiner's answer for each row: arrays ``[rows ...]`` on the host."""
        answer = _answer(combiner, self.data_for(combiner), float(self.n_trees))
        return jax.tree.map(lambda part: np.asarray(part)[: self.n], answer)

    def bind(self, combiner: Combiner[AnswerT], *, threads: int | None = None) -> BoundForest[AnswerT]:
        """Bind a combiner to ``forest``, as `jaxunc.bind` does with these ``threads``."""
        return bind(self.forest, combiner, threads=threads)

    def default_candidates(self) -> dict[str, tuple[LearnedPool | Calibrated, ...]]:
        """Return candidates for `stack_combiners` and `select_combiner`: the learned pool, and calibrated means."""
        slopes = jnp.ones(len(self.prior))
        # One slope for all classes; one for each class; with more than two classes also each class against the rest.
        scales = [(slopes[0], False), (slopes, False)] + [(slopes, True)] * (len(self.prior) > 2)
        return {
            "pool": (LearnedPool(self.prior, reads=self.count_sets),),
            "calibrated mean": tuple(
                Calibrated(Mean(), scale=scale, bias=0 * slopes, clip=clip, one_vs_rest=one_vs_rest)
                for scale, one_vs_rest in scales
                for clip in CLIPS
            ),
        }

    def with_weight(self, weight: NumbersLike) -> "OobDataset":
        """Return the same rows with other weights ``[rows]``, finite and ≥ 0; 0 leaves a row out."""
        padded = padded_rows(as_weights(weight, self.n, "weight"), len(self.y))
        weight = jnp.asarray(padded, self.weight.dtype)
        return OobDataset(**{**vars(self), "weight": weight})

    def as_groups(self, values: np.ndarray) -> np.ndarray:
        """Return ``values [rows]``, such as folds, where all rows of a group get the value of the group's first row.

        Rows of weight 0 are of no group, and keep their values.
        """
        if self.groups is None:
            return values
        weighted_rows = np.flatnonzero(np.asarray(self.weight)[: self.n])
        _, first, group = np.unique(self.groups[weighted_rows], return_index=True, return_inverse=True)
        values = values.copy()
        values[weighted_rows] = values[weighted_rows][first[group]]
        return values

    def __len__(self) -> int:
        return self.n

    def __repr__(self) -> str:
        trees_of_row = np.asarray(self.histograms.times)[: self.n].sum(axis=1)
        return (
            f"OobDataset(n={self.n}, classes={len(self.class_labels)}, source={self.source!r}, "
            f"trees per row={trees_of_row.min():.0f} to {trees_of_row.max():.0f} of {self.n_trees}, "
            f"distinct count vectors={len(self.histograms.count_table)})"
        )


class Parameter(NamedTuple):
    """An array of a combiner that can be learned: its path, and where its values may lie. Hashable, static in `jit`."""

    name: str  # path of the array: names of fields, with dots between
    domain: str  # set of admissible values, as `to_free` lists them: "real", "positive", "unit", "simplex", …
    spread: float  # standard deviation of the weak prior around the start, in free numbers (`to_free`)
    nearest: float  # distance from a bound of the domain at which learning starts if the value is on the bound
    per_tree: bool  # whether the array has one value for each tree


def parameters_of(combiner: Combiner) -> tuple[Parameter | None, ...]:
    """Return the parameter of each array of a combiner, in the order of JAX's pytree leaves; None for a fixed array."""
    return tuple(_parameter(combiner, path, leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(combiner))


def _parameter(combiner: Combiner, path: tuple, leaf) -> Parameter | None:
    """Return the parameter of the combiner's array ``leaf``, at JAX's key path; None if it is fixed or holds no floats.

    The last field or keyword on the path gives the domain. The array has a value for each tree if any field on the path
    is declared with ``per_tree``.
    """
    owner: Any = combiner
    domain, spread, nearest, per_tree, names = "real", 1.0, 0.01, False, []
    for key in path:  # owner: the object in which the key is looked up
        keyword_domains = declared(owner).domains if callable(getattr(owner, "func", None)) else {}
        if isinstance(key, jax.tree_util.GetAttrKey):
            field = getattr(type(owner), "__dataclass_fields__", {}).get(key.name)
            metadata = {} if field is None else field.metadata
            domain, spread = metadata.get("domain", "real"), metadata.get("spread", 1.0)
            nearest = metadata.get("nearest", nearest)
            per_tree = per_tree or bool(metadata.get("per_tree"))
            names.append(key.name)
            owner = getattr(owner, key.name, None)
        elif isinstance(key, jax.tree_util.DictKey):
            domain = keyword_domains.get(key.key, "real")
            names.append(str(key.key))
            owner = owner[key.key] if isinstance(owner, dict) else getattr(owner, "keywords", {}).get(key.key)
        elif isinstance(key, jax.tree_util.SequenceKey):
            names.append(str(key.idx))
            owner = owner[key.idx] if isinstance(owner, (list, tuple)) else owner
    if domain == "fixed" or not jnp.issubdtype(jnp.result_type(leaf), jnp.floating):
        return None
    # A single number for the probabilities of two classes is that of class 1.
    domain = "unit" if domain == "simplex" and jnp.ndim(leaf) == 0 else domain
    return Parameter(".".join(names), domain, spread, nearest, per_tree)


@jit
def _merge(combiner: Combiner, data: Histograms | RoutedRows | MergedStatistics, n_trees) -> PyTree:
    return data.merge(combiner, n_trees)


@jit
def _answer(combiner: Combiner, data: Histograms | RoutedRows | MergedStatistics, n_trees) -> PyTree:
    return combiner.finish(data.merge(combiner, n_trees))


def dataset_from_counts(
    counts: Num[np.ndarray, "rows trees classes"],
    y: LabelsLike,
    *,
    sample_weight: NumbersLike | None = None,
    tree_mask: MaskLike | None = None,
    class_labels: Iterable[Any] | None = None,
) -> OobDataset:
    """Make rows for `fit_combiner` from leaf counts that do not hold the row's own label.

    Take it for leaves that `oob_dataset` cannot reach: those of `jaxunc.transduction.transductive_leaf_counts`, of
    another library's trees, of a leave-one-out or a cross-fitting of your own. Else take `oob_dataset`. **Only the
    arrays are checked here.** `oob_dataset` refuses counts that the trees were grown on; from such counts a combiner
    would learn that the forest is always right.

    Parameters
    ----------
    counts
        The class counts of each row's leaves, without the row's own label ``[rows trees classes]``. A transductive leaf
        may count the instance with its inserted label, which is not the row's own.
    y
        The label of each row ``[rows]``.
    sample_weight
        The weight of each row ``[rows]``, in the loss and in the prior: 2 is the same as the row twice.
    tree_mask
        Whether a tree counts for a row ``[rows trees]``, such as a tree that has the row out of bag. At least one tree
        must count for each row. Sums over trees are scaled to all trees.
    class_labels
        The label of each column of the counts. Default: the distinct labels of y, sorted.

    Returns
    -------
    OobDataset
        Rows for `fit_combiner` and the other functions here. ``prior`` holds the class shares of y. They belong to no
        forest, so that ``bind``, and combiners with numbers per tree, raise a ValueError: bind the learned combiner by
        `jaxunc.bind`, or call it on counts.

    Raises
    ------
    TypeError
        If counts, weights or mask are of the wrong kind, or the labels have no order.
    ValueError
        If the arrays do not fit each other, or counts are negative or not finite. If a class has no row, a label no
        class, or a row no tree.

    Notes
    -----
    On the host. Each combiner takes an empty leaf as it does elsewhere.

    Examples
    --------
    >>> import jaxunc as ju
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> counts = ju.transduction.transductive_leaf_counts(X[::2], y[::2])  # without the row's own label
    >>> rows = ju.learning.dataset_from_counts(counts, y[::2])
    >>> learned = ju.learning.fit_combiner(ju.LearnedPool(rows.prior), rows).combiner
    >>> new = ju.transduction.transductive_leaf_counts(X[::2], y[::2], X[1::2])
    >>> learned.probability(new).shape
    (75, 3)
    """
    check_numbers("counts", counts)
    table = np.asarray(counts)
    if table.ndim != 3 or not table.size:
        raise ValueError(f"counts has shape {table.shape}; pass class counts of leaves, [rows trees classes].")
    check_class_axis(table)
    check_counts(table)
    n_rows, n_trees, n_classes = table.shape
    labels = _labels(class_labels, y, n_classes)
    position = class_positions(labels, y)
    if len(position) != n_rows:
        raise ValueError(f"y has {len(position)} labels for {n_rows} rows of counts; pass one label per row.")
    weight = as_weights(sample_weight, n_rows)
    check_every_class(labels, position, weight)
    mask = as_mask(tree_mask, n_rows, n_trees)
    if mask is not None and not (has_tree := np.any(mask, axis=1)).all():
        raise ValueError(f"tree_mask leaves row {int(np.argmin(has_tree))} no tree; leave such rows out.")
    distinct, code = distinct_rows(table.reshape(-1, n_classes).astype(np.float64))
    code = np.asarray(code).reshape(n_rows, n_trees)
    row_histograms = make_histograms(distinct, code, None if mask is None else np.asarray(mask))
    shares = np.bincount(position, weights=weight, minlength=n_classes)
    return make_rows(
        row_histograms,
        position,
        weight,
        n_trees=n_trees,
        class_labels=labels,
        count_sets=(DEFAULT_COUNTS,),
        source="counts",
        prior=shares / shares.sum(),
    )


def _labels(class_labels, y, n_classes: int) -> tuple[Any, ...]:
    """Return ``class_labels``, or for None the sorted distinct labels of y; a ValueError unless there are n_classes."""
    if class_labels is None:
        labels, name = tuple(distinct_labels(as_labels(y))[0].tolist()), "y"
    else:
        check_collection("class_labels", class_labels, "labels, one per class")
        labels, name = tuple(class_labels), "class_labels"
    if len(labels) != n_classes:
        raise ValueError(
            f"counts have {n_classes} classes, {name} {len(labels)}: {list(labels)[:5]}. Pass class_labels, the label "
            "of each column of the counts."
        )
    return labels


def make_rows(
    row_histograms: Histograms, y: np.ndarray, weight: np.ndarray, *, routed: RoutedRows | None = None, **fields: Any
) -> OobDataset:
    """Return the data set of these histograms; y (classes) and weights are padded, ``fields`` are `OobDataset`'s."""
    n_rows = len(row_histograms.code)
    return OobDataset(
        histograms=row_histograms,
        y=jnp.asarray(padded_rows(y, n_rows), jnp.int32),
        weight=jnp.asarray(padded_rows(weight, n_rows), jnp.result_type(float)),
        n=len(y),
        routed=routed,
        **fields,
    )


def check_every_class(labels: tuple[Any, ...], position: np.ndarray, weight: np.ndarray) -> None:
    """Raise a ValueError unless every class has a row of positive weight; ``position [rows]`` has each row's class."""
    # The bias of a class without rows would drift to minus infinity.
    absent = [label for c, label in enumerate(labels) if not weight[position == c].any()]
    if absent:
        raise ValueError(f"no row is of class {absent[0]!r}: nothing can be learned of it. Pass rows of every class.")


def check_rows(rows: Any) -> None:
    """Raise a TypeError unless rows are an `OobDataset`."""
    if not isinstance(rows, OobDataset):
        raise TypeError(
            f"rows is a {type(rows).__name__}; pass jaxunc.learning.oob_dataset(model, X, y). Counts by "
            "themselves do not say whether the forest was grown on these instances, and a combiner that is learned on "
            "such counts learns that the forest is always right."
        )


def make_histograms(count_table: np.ndarray, code: np.ndarray, mask: np.ndarray | None) -> Histograms:
    """Return the histogram of each row's codes ``[rows trees]``, over the trees where the mask is True (None: all).

    A code is an index in ``count_table``, the distinct count vectors ``[distinct columns]``.
    """
    parts = [
        _count_codes(code[i : i + CHUNK], None if mask is None else mask[i : i + CHUNK])
        for i in range(0, len(code), CHUNK)
    ]
    widest = max(part[0].shape[1] for part in parts)
    # Rounded sizes (a power of two, or three quarters of it), so that folds and similar forests share programs.
    slots = power_of_two(widest, 8)
    slots = 3 * slots // 4 if widest <= 3 * slots // 4 and slots > 8 else slots
    n_rows = _round_up(len(code), 256)
    all_codes, all_times = np.zeros((n_rows, slots), np.int32), np.zeros((n_rows, slots), np.float32)
    start = 0
    for codes, times in parts:
        all_codes[start : start + len(codes), : codes.shape[1]] = codes
        all_times[start : start + len(codes), : codes.shape[1]] = times
        start += len(codes)
    table = np.zeros((_round_up(len(count_table), 1024), count_table.shape[1]))
    table[: len(count_table)] = count_table
    return Histograms(narrowest_counts(table), jnp.asarray(all_codes), jnp.asarray(all_times))


def _count_codes(code: np.ndarray, mask: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return each row's distinct codes, ascending, and how often each occurs where the mask is True.

    ``code`` and ``mask`` are ``[rows trees]``, the results ``[rows width]``. Zeros pad both: code 0, which occurs 0
    times.
    """
    # -1 marks masked trees: it sorts first, and gets no slot.
    code = np.sort(code if mask is None else np.where(mask, code, np.int32(-1)), axis=1)
    is_first = np.empty(code.shape, bool)
    is_first[:, 0], is_first[:, 1:] = True, code[:, 1:] != code[:, :-1]
    is_counted = code >= 0
    is_first &= is_counted
    slot = np.cumsum(is_first, axis=1, dtype=np.int32) - 1
    width = int(slot.max(initial=0)) + 1
    row = np.broadcast_to(np.arange(len(code), dtype=np.int32)[:, None], code.shape)
    distinct = np.zeros((len(code), width), np.int32)
    distinct[row[is_first], slot[is_first]] = code[is_first]
    times = np.bincount((row * width + slot)[is_counted], minlength=len(code) * width)
    return distinct, times.reshape(len(code), width).astype(np.float32)


def _round_up(number: int, smallest: int) -> int:
    """Return ``number`` rounded up to a multiple of p/8; p is the least power of two ≥ ``number`` and ``smallest``."""
    return multiple_of(power_of_two(number, smallest) // 8, number)


class LabelledData(NamedTuple):
    """Rows with labels and weights, checked; arrays are ``[rows]``."""

    X: Any
    y: np.ndarray
    position: np.ndarray  # position of each row's label among the forest's class labels
    weight: np.ndarray
    has_weights: bool  # whether the caller passed weights
    rows: np.ndarray  # positions of the rows to learn from
    groups: np.ndarray | None = None  # group of each row, as a number; None if each row is a group

    def all_rows(self) -> "LabelledData":
        """Return the same data with all rows as rows to learn from."""
        return self._replace(rows=np.arange(len(self.y)))

    @property
    def group_numbers(self) -> np.ndarray:
        """Number of each row's group; if ``groups`` is None, each row is a group by itself."""
        return np.arange(len(self.y)) if self.groups is None else self.groups

    @property
    def weights(self) -> np.ndarray | None:
        """Weights of the rows; None unless the caller passed some."""
        return self.weight if self.has_weights else None


def encode(forest: Forest, data: LabelledData) -> np.ndarray | SparseRows:
    """Return the rows to learn from as the forest's trees read them, ``[rows features]``."""
    values = encode_rows(data.X, forest.trees.columns).values
    return (values if isinstance(values, SparseRows) else np.asarray(values))[data.rows]


def find_leaves(forest: Forest, data: LabelledData) -> np.ndarray:
    """Return the leaf of each row to learn from in each tree, ``[rows trees]``.

    Raises a ValueError if the mode of empty leaves gives them no counts of their own.
    """
    if forest.follows_forks:
        raise ValueError(
            f"empty leaves of the mode {forest.empty_leaves!r} have no counts of their own. Pass "
            "forest.with_empty_leaves('parent') or 'zeros', and bind the combiner to the same."
        )
    return np.asarray(leaf_index(forest, Encoded(encode(forest, data), missing=True)))  # words are looked up already


def look_up_codes(forest: Forest, leaves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return distinct count vectors ``[distinct columns]``, and the index of each leaf's vector ``[rows trees]``."""
    table, code = forest.leaf_rows()
    return np.asarray(table, np.float64), np.asarray(code)[np.arange(forest.n_trees), leaves]
