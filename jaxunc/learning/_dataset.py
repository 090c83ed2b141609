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
    """For each row, the distinct count vectors of its leaves, and how many of its trees have each.

    A padding row has no trees.
    """

    count_table: Num[Array, "distinct columns"]
    """Distinct count vectors; with several count sets they stand side by side in the columns."""
    code: Int32[Array, "rows slots"]  # index in the table of each count vector of a row
    times: Float[Array, "rows slots"]  # number of the row's trees whose leaf has these counts; 0 in a free slot

    def merge(self, combiner: Combiner, n_trees: ArrayLike) -> PyTree:
        """Return the combiner's statistic of each row, merged over the row's trees.

        Sums are scaled from the number of the row's trees to ``n_trees``, that of all trees. Raises a ValueError for a
        combiner that merges by "collect".
        """
        stat = jax.tree.map(jnp.asarray, lift_tree(combiner, self.count_table))
        planes, structure = jax.tree.flatten(stat)
        trees_of_row = jnp.sum(self.times, axis=1)
        ratio = jnp.asarray(n_trees) / jnp.maximum(trees_of_row, 1)  # padding rows have no trees
        kinds = Merging.of(combiner.merge, stat).kinds
        merged = [self._merge_plane(kind, plane, ratio) for kind, plane in zip(kinds, planes, strict=True)]
        return jax.tree.unflatten(structure, merged)

    def at(self, rows: np.ndarray) -> "Histograms":
        """Return the histograms of the rows at the positions ``rows``."""
        take = lambda array: jnp.asarray(np.asarray(array)[rows])
        return self._replace(code=take(self.code), times=take(self.times))

    def _merge_plane(self, kind: str, plane: Array, ratio: Float[Array, "rows"]) -> Any:
        """Return an array of a combiner's statistic, merged over each row's trees: ``[rows ...]``, or a `TwoFloat`.

        ``plane [distinct ...]`` has the array's values for the distinct count vectors; a scalar is the value of all.
        ``kind`` is the name of a merge, as in `Combiner.merge`. Sums are multiplied by ``ratio``, and "exact_sum" makes
        a `TwoFloat` whose ``low`` is 0. A row without trees gets 0, inf ("min") or -inf ("max"). A scalar stays a
        scalar for "min" and "max". Raises a ValueError for "collect".
        """
        if kind == "collect":
            raise ValueError(
                "the combiner keeps what every tree says (a median, a mixture), which rows to learn from do not hold: "
                "it can be neither learned nor calibrated here. Learn one that sums: Mean(scorer) with the same "
                "scorer, whose learned settings then serve this combiner too (its scorer: fitted.combiner.scorer)."
            )
        dtype = float_dtype(plane)
        plane = plane.astype(dtype)
        times = self.times.astype(dtype)
        ratio = ratio.astype(dtype)
        if plane.ndim == 0:
            if kind in ("min", "max"):
                return plane
            total = plane * ratio * jnp.sum(times, axis=1)
            return TwoFloat(total, jnp.zeros_like(total)) if kind == "exact_sum" else total
        values = plane.reshape(len(plane), -1)[self.code]  # [rows slots numbers]
        is_used = self.times[..., None] > 0
        if kind == "min":
            merged = jnp.min(jnp.where(is_used, values, jnp.asarray(jnp.inf, dtype)), axis=1)
        elif kind == "max":
            merged = jnp.max(jnp.where(is_used, values, jnp.asarray(-jnp.inf, dtype)), axis=1)
        else:  # the value of a free slot may be -inf, a veto, and -inf times 0 is NaN
            values = jnp.where(is_used, values, jnp.zeros_like(values))
            merged = jnp.einsum("rs,rsp->rp", times * ratio[:, None], values)
        merged = merged.reshape(len(self.code), *plane.shape[1:])
        return TwoFloat(merged, jnp.zeros_like(merged)) if kind == "exact_sum" else merged


class RoutedRows(NamedTuple):
    """Rows that are routed through a forest at every step of learning, for combiners with numbers per tree."""

    forest: Forest
    X: Array  # encoded features of the rows, ``[rows features]``
    tree_mask: Bool[Array, "rows trees"] | None  # whether a tree counts for a row; None if all do

    def merge(self, combiner: Combiner, n_trees: ArrayLike) -> PyTree:
        """Return the combiner's statistic of each row, merged over the row's trees, with sums scaled to ``n_trees``."""
        table = leaf_table(self.forest, combiner)
        rows = Encoded(self.X, missing=True)
        merged = merge_leaves(self.forest.trees, table, rows, merge=combiner.merge, tree_mask=self.tree_mask)
        if self.tree_mask is None:
            return merged
        trees_of_row = jnp.maximum(jnp.sum(self.tree_mask, axis=1), 1).astype(jnp.result_type(float))
        ratio = n_trees / trees_of_row

        def scale(plane: Array) -> Array:
            further_axes = [1] * (plane.ndim - 1)  # behind that of the rows
            return plane * ratio.astype(plane.dtype).reshape(-1, *further_axes)

        def scale_sums(kind: str, stat: PyTree) -> PyTree:
            return stat if kind in ("min", "max") else jax.tree.map(scale, stat)

        # ``merge`` may name one kind for several arrays, or for the two parts of a `TwoFloat`.
        return jax.tree.map(scale_sums, combiner.merge, merged)


class MergedStatistics(NamedTuple):
    """The statistic of each row, merged by a combiner whose numbers are not learned: the same at every step."""

    stat: PyTree  # arrays ``[rows ...]``, or scalars that all rows share

    def merge(self, combiner: Combiner, n_trees: ArrayLike) -> PyTree:
        """Return ``stat`` as it is: this combiner merged it, and it was scaled to ``n_trees``, before."""
        return self.stat

    def at(self, rows: np.ndarray) -> "MergedStatistics":
        """Return the merged statistics of the rows at the positions ``rows``."""
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
        """Return the data that ``combiner`` learns from, which can ``merge`` its statistics of these rows.

        They are routed rows for a combiner with numbers per tree, merged statistics of the rule for a `Calibrated`
        whose rule has nothing to learn, else histograms. Raises a ValueError if the combiner reads count sets that
        these rows lack, or has numbers per tree and these rows cannot be routed.
        """
        if not set(combiner.count_sets) <= set(self.count_sets):
            raise ValueError(
                f"{type(combiner).__name__} reads the counts {combiner.count_sets}, these rows hold {self.count_sets}: "
                "make them by oob_dataset(..., counts='both')."
            )
        if isinstance(combiner, Calibrated):
            rule = combiner.rule
            # Only scale and bias are learned: the rule's statistics are the same at every step.
            if not any(parameters_of(rule)) and not has_tree_fields(rule):
                return MergedStatistics(_merge(rule, self.data_for(rule), float(self.n_trees)))
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
        """Bind a combiner to the `forest` of these rows, as `jaxunc.bind` does with these ``threads``."""
        return bind(self.forest, combiner, threads=threads)

    def default_candidates(self) -> dict[str, tuple[LearnedPool | Calibrated, ...]]:
        """Return candidates by name for `stack_combiners` and `select_combiner`: the learned pool, calibrated means."""
        slopes = jnp.ones(len(self.prior))
        bias = 0 * slopes
        means = []
        for clip in CLIPS:  # one slope for all classes
            means.append(Calibrated(Mean(), scale=slopes[0], bias=bias, clip=clip, one_vs_rest=False))
        for clip in CLIPS:  # a slope for each class
            means.append(Calibrated(Mean(), scale=slopes, bias=bias, clip=clip, one_vs_rest=False))
        if len(slopes) > 2:  # each class against the rest
            for clip in CLIPS:
                means.append(Calibrated(Mean(), scale=slopes, bias=bias, clip=clip, one_vs_rest=True))
        return {"pool": (LearnedPool(self.prior, reads=self.count_sets),), "calibrated mean": tuple(means)}

    def with_weight(self, weight: NumbersLike) -> "OobDataset":
        """Return the same rows with other weights ``[rows]``, finite and ≥ 0; 0 leaves a row out."""
        padded = padded_rows(as_weights(weight, self.n, "weight"), len(self.y))
        weight = jnp.asarray(padded, self.weight.dtype)
        return OobDataset(**{**vars(self), "weight": weight})

    def as_groups(self, values: np.ndarray) -> np.ndarray:
        """Return a copy of ``values [rows]``, such as numbers of folds, with equal values for all rows of a group.

        The value is that of the group's first row. Rows of weight 0 are of no group, and keep their values.
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
    """What learning needs to know of an array of a combiner: its path, and where its values may lie.

    It is hashable, so that it can be static in `jit`.
    """

    name: str  # path of the array: names of fields, with dots between
    domain: str  # set of admissible values, as `to_free` lists them: "real", "positive", "unit", "simplex", …
    spread: float  # standard deviation of the weak prior around the start, in free numbers (`to_free`)
    nearest: float  # distance from a bound of the domain at which learning starts if the value is on the bound
    per_tree: bool  # whether the array has one value for each tree


def parameters_of(combiner: Combiner) -> tuple[Parameter | None, ...]:
    """Return the `Parameter` of each array of a combiner, in the order of JAX's pytrees; None for a fixed array."""
    return tuple(_parameter(combiner, path, leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(combiner))


def _parameter(combiner: Combiner, path: tuple, leaf) -> Parameter | None:
    """Return the `Parameter` of a combiner's array ``leaf``; None if the array is fixed or holds no floats.

    ``path`` is the array's key path in JAX's pytree. The last field or keyword on it declares the domain, and any field
    on it with ``per_tree`` gives the array a value for each tree.
    """
    domain = "real"
    spread = 1.0
    nearest = 0.01
    per_tree = False
    names = []
    owner: Any = combiner  # the object in which the next key is looked up
    for key in path:
        keyword_domains = declared(owner).domains if callable(getattr(owner, "func", None)) else {}
        if isinstance(key, jax.tree_util.GetAttrKey):  # a field of a dataclass
            field = getattr(type(owner), "__dataclass_fields__", {}).get(key.name)
            metadata = {} if field is None else field.metadata
            domain = metadata.get("domain", "real")
            spread = metadata.get("spread", 1.0)
            nearest = metadata.get("nearest", nearest)  # of the outer field if this one declares none
            per_tree = per_tree or bool(metadata.get("per_tree"))
            names.append(key.name)
            owner = getattr(owner, key.name, None)
        elif isinstance(key, jax.tree_util.DictKey):  # an entry of a dict, or a keyword of a partial function
            domain = keyword_domains.get(key.key, "real")  # all else is that of the field which holds the function
            names.append(str(key.key))
            owner = owner[key.key] if isinstance(owner, dict) else getattr(owner, "keywords", {}).get(key.key)
        elif isinstance(key, jax.tree_util.SequenceKey):  # an element of a list or tuple
            names.append(str(key.idx))
            owner = owner[key.idx] if isinstance(owner, (list, tuple)) else owner
    if domain == "fixed" or not jnp.issubdtype(jnp.result_type(leaf), jnp.floating):
        return None
    # A single number for the probabilities of two classes is that of class 1.
    domain = "unit" if domain == "simplex" and jnp.ndim(leaf) == 0 else domain
    return Parameter(".".join(names), domain, spread, nearest, per_tree)


@jit
def _merge(combiner: Combiner, data: Histograms | RoutedRows | MergedStatistics, n_trees) -> PyTree:
    """Return the combiner's merged statistic of each row of the data, with sums scaled to ``n_trees``."""
    return data.merge(combiner, n_trees)


@jit
def _answer(combiner: Combiner, data: Histograms | RoutedRows | MergedStatistics, n_trees) -> PyTree:
    """Return the combiner's answer for each row of the data, with sums scaled to ``n_trees``."""
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
        Rows for `fit_combiner` and the other functions here. ``prior`` holds the class shares of y. Rows belong to no
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
    """Return ``class_labels``, or for None y's distinct ones, as a tuple; raise a ValueError unless ``n_classes``."""
    if class_labels is None:
        labels = tuple(distinct_labels(as_labels(y))[0].tolist())
    else:
        check_collection("class_labels", class_labels, "labels, one per class")
        labels = tuple(class_labels)
    if len(labels) != n_classes:
        name = "y" if class_labels is None else "class_labels"
        raise ValueError(
            f"counts have {n_classes} classes, {name} {len(labels)}: {list(labels)[:5]}. Pass class_labels, the label "
            "of each column of the counts."
        )
    return labels


def make_rows(
    row_histograms: Histograms, y: np.ndarray, weight: np.ndarray, *, routed: RoutedRows | None = None, **fields: Any
) -> OobDataset:
    """Return the data set of rows with these histograms, which are padded already, classes and weights.

    ``y [rows]``, positions of classes, and ``weight [rows]`` are padded here to as many rows. ``routed`` and ``fields``
    are further fields of `OobDataset`.
    """
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
    """Return the histogram of each row's count vectors, over the trees where the mask is True.

    Arrays are padded, so that data sets of similar size have one shape, and share programs. ``count_table [distinct
    columns]`` has the distinct count vectors, and ``code [rows trees]`` the index in it of each row's vector in each
    tree. ``mask`` is ``[rows trees]``; None: True everywhere.
    """
    chunks = []  # (codes, times) of `CHUNK` rows each
    for start in range(0, len(code), CHUNK):
        chunk_mask = None if mask is None else mask[start : start + CHUNK]
        chunks.append(_count_codes(code[start : start + CHUNK], chunk_mask))
    widest = max(codes.shape[1] for codes, _ in chunks)
    # All sizes are rounded up; that of slots to a power of two from 8 on, or three quarters of it if these suffice.
    slots = power_of_two(widest, 8)
    slots = 3 * slots // 4 if widest <= 3 * slots // 4 and slots > 8 else slots
    n_rows = _round_up(len(code), 256)
    all_codes = np.zeros((n_rows, slots), np.int32)
    all_times = np.zeros((n_rows, slots), np.float32)
    start = 0
    for codes, times in chunks:
        all_codes[start : start + len(codes), : codes.shape[1]] = codes
        all_times[start : start + len(codes), : codes.shape[1]] = times
        start += len(codes)
    table = np.zeros((_round_up(len(count_table), 1024), count_table.shape[1]))
    table[: len(count_table)] = count_table
    return Histograms(narrowest_counts(table), jnp.asarray(all_codes), jnp.asarray(all_times))


def _count_codes(code: np.ndarray, mask: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return two arrays ``[rows width]``: each row's distinct codes, ascending, and how often each code occurs.

    ``code [rows trees]`` is counted where ``mask [rows trees]`` is True (None: everywhere). A row of fewer codes is
    padded by code 0, which occurs 0 times.
    """
    if mask is not None:
        code = np.where(mask, code, np.int32(-1))  # -1 sorts first, and gets no slot
    code = np.sort(code, axis=1)
    is_first = np.empty(code.shape, bool)
    is_first[:, 0] = True
    is_first[:, 1:] = code[:, 1:] != code[:, :-1]
    is_counted = code >= 0
    is_first &= is_counted
    slot = np.cumsum(is_first, axis=1, dtype=np.int32) - 1  # equal codes, which are neighbours now, share a slot
    width = int(slot.max(initial=0)) + 1
    row = np.broadcast_to(np.arange(len(code), dtype=np.int32)[:, None], code.shape)
    distinct = np.zeros((len(code), width), np.int32)
    distinct[row[is_first], slot[is_first]] = code[is_first]
    times = np.bincount((row * width + slot)[is_counted], minlength=len(code) * width)
    return distinct, times.reshape(len(code), width).astype(np.float32)


def _round_up(number: int, smallest: int) -> int:
    """Return ``number`` rounded up to a multiple of p/8, p the least power of two ≥ ``number`` and ≥ ``smallest``."""
    return multiple_of(power_of_two(number, smallest) // 8, number)


class LabelledData(NamedTuple):
    """Rows with labels and weights, checked, and which of these rows to learn from; arrays are ``[rows]``."""

    X: Any  # all rows, as a table of any kind
    y: np.ndarray  # labels of all rows
    position: np.ndarray  # position of each row's label among the forest's class labels
    weight: np.ndarray  # weight of each row
    has_weights: bool  # whether the caller passed weights
    rows: np.ndarray  # positions of the rows to learn from
    groups: np.ndarray | None = None  # group of each row, as a number; None if each row is a group

    def all_rows(self) -> "LabelledData":
        """Return the same data with all rows as rows to learn from."""
        return self._replace(rows=np.arange(len(self.y)))

    @property
    def group_numbers(self) -> np.ndarray:
        """Number of each row's group ``[rows]``, also if ``groups`` is None, so that each row is a group by itself."""
        return np.arange(len(self.y)) if self.groups is None else self.groups

    @property
    def weights(self) -> np.ndarray | None:
        """Weights of all rows ``[rows]``; None unless the caller passed weights."""
        return self.weight if self.has_weights else None


def encode(forest: Forest, data: LabelledData) -> np.ndarray | SparseRows:
    """Return ``data.rows``, the rows to learn from, as the forest's trees read them, ``[rows features]``."""
    values = encode_rows(data.X, forest.trees.columns).values
    return (values if isinstance(values, SparseRows) else np.asarray(values))[data.rows]


def find_leaves(forest: Forest, data: LabelledData) -> np.ndarray:
    """Return the leaf that each of ``data.rows``, the rows to learn from, reaches in each tree, ``[rows trees]``.

    Raises a ValueError if empty leaves of the forest, by its mode for them, have no counts of their own.
    """
    if forest.follows_forks:
        raise ValueError(
            f"empty leaves of the mode {forest.empty_leaves!r} have no counts of their own. Pass "
            "forest.with_empty_leaves('parent') or 'zeros', and bind the combiner to the same."
        )
    # `Encoded`, so that values, which are codes already, are not looked up again; ``missing``: they may be NaN.
    return np.asarray(leaf_index(forest, Encoded(encode(forest, data), missing=True)))


def look_up_codes(forest: Forest, leaves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct count vectors ``[distinct columns]``, and the index of each leaf's vector ``[rows trees]``.

    ``leaves [rows trees]`` are nodes of the forest's trees.
    """
    table, code = forest.leaf_rows()
    return np.asarray(table, np.float64), np.asarray(code)[np.arange(forest.n_trees), leaves]
