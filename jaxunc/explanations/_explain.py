"""`explain`: which columns make an answer what it is; as numbers, bars and columns of files."""

import itertools
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from jaxunc._checks import check_integer, check_readable, is_concrete, outside_traces
from jaxunc._numerics import KeptWhileAlive, default_platform
from jaxunc.additive import AdditiveTrees
from jaxunc.combiners import Combiner
from jaxunc.forest import Forest, Trees, check_is_forest, have_same_arrays
from jaxunc.inference import as_mask, narrow_trees
from jaxunc.tables import (
    Encoded,
    InstancesLike,
    MaskLike,
    SparseRows,
    encode_rows,
    encode_traced,
    refuse_infinite,
    unchecked_rows,
)

from ._by_background import kernel_by_background, paths_on_device
from ._by_cover import Traversal, kernel_by_cover, leaf_numbers, make_traversal
from ._calls import Completion, Kernel, sum_of_weights, values_by
from ._models import OpenedModel, open_model
from ._paths import Unrolled, leaves_of, unroll
from ._statistic import LeafStatistic, leaf_statistic, margins_of


def axes_of(ax: Any, **figure: Any) -> Any:
    """Return the axes to draw on: ``ax``, or pyplot's current axes if they are empty, or the axes of a new figure.

    ``figure`` has settings of the new figure, as ``figsize``.
    """
    if ax is not None:
        return ax
    from matplotlib import pyplot as plt  # imported here: it chooses a backend

    if plt.get_fignums() and not plt.gca().has_data():
        return plt.gca()
    return plt.subplots(layout="constrained", **figure)[1]


class Attributions(NamedTuple):
    """Shares of each column in what is explained, which is ``values.sum(1) + base`` for each instance."""

    values: Float[Array, "instances features stat"]
    base: Float[Array, "stat"] | Float[Array, "instances stat"]
    """The answer expected for an instance of which nothing is known; with masked trees a row for each instance."""
    of: str
    """What is explained: "probability", "class scores", "pooled counts", "uncertainty", …"""
    names: tuple[Any, ...]
    """What each number of ``stat`` is about: class labels, or kinds of uncertainty."""
    features: tuple[str, ...]
    """The names of the columns."""

    def plot(self, instance: int = 0, stat: int = -1, *, most: int = 10, ax: Any = None) -> Any:
        """Draw one instance's shares as bars, the largest on top, and return the axes; needs matplotlib.

        Parameters
        ----------
        instance
            Which instance.
        stat
            Which number of ``names``; default the last.
        most
            Largest number of columns with a bar; one more bar is for all others.
        ax
            Axes of matplotlib. Default: pyplot's current axes if nothing is drawn on them, else those of a new figure.
        """
        shares, base = self._select(instance, stat)
        check_integer("most", most, 1)
        order = np.argsort(-np.abs(shares), kind="stable")
        names = [self.features[i] for i in order[:most]]
        bars = shares[order[:most]]
        if len(order) > most:
            names.append(f"{len(order) - most} others")
            bars = np.append(bars, shares[order[most:]].sum())
        ax = axes_of(ax, figsize=(6, 0.6 + 0.3 * len(names)))
        ax.barh(range(len(names)), bars, color=np.where(bars < 0, "tab:blue", "tab:red"))
        ax.set_yticks(range(len(names)), names)
        ax.invert_yaxis()
        ax.axvline(0, color="black", linewidth=0.8)
        ax.set_xlabel(f"{self.of}, {self.names[stat]}: {base + shares.sum():.3g}, of which {base:.3g} for all")
        return ax

    def for_shap(self, stat: int = -1, data: Any = None) -> Any:
        """Return one number's shares as ``shap.Explanation``, for the plots of shap; needs shap.

        Parameters
        ----------
        stat
            Which number of ``names``; default the last.
        data
            The instances, whose values colour the plots.
        """
        import shap  # pyright: ignore[reportMissingImports]

        values = np.asarray(self.values)
        base = np.broadcast_to(np.asarray(self.base)[..., stat], len(values))
        data = None if data is None else np.asarray(data)
        return shap.Explanation(values[..., stat], base, data, feature_names=list(self.features))

    def columns(self) -> dict[str, np.ndarray]:
        """Return arrays ``[instances]`` by the names that they have in files: the base, and the share of each column.

        For the probability of two classes the arrays are those of the second class alone. A name that an earlier array
        has, as that of a column called ``base`` is, gets ``_2`` or the next number that is free at its end.
        """
        values = np.asarray(self.values)
        arrays = {}

        def add(name: str, array: np.ndarray) -> None:
            """Enter ``array`` by its name, or by the first name with a number that is free."""
            numbered = (f"{name}_{k}" for k in itertools.count(2))
            free_name = next(candidate for candidate in itertools.chain([name], numbered) if candidate not in arrays)
            arrays[free_name] = array

        base = np.broadcast_to(np.asarray(self.base), (len(values), values.shape[2]))
        is_single = values.shape[2] == 1 or (values.shape[2] == 2 and self.of == "probability")
        numbers = list(enumerate(self.names))
        for s, name in numbers[-1:] if is_single else numbers:  # the first of two probabilities is 1 less the second
            start = "explanation" if is_single else f"explanation_{name}".replace(" ", "_")
            add(f"{start}_base", base[:, s])
            for i, feature in enumerate(self.features):
                add(f"{start}_{feature}", values[:, i, s])
        return arrays

    def _select(self, instance: int, stat: int) -> tuple[np.ndarray, float]:
        """Return the shares ``[features]`` in the number ``stat`` of an instance, and this number's base.

        Raises an IndexError if an index is out of range.
        """
        check_integer("instance", instance)
        check_integer("stat", stat)
        n, _, n_stats = self.values.shape
        for name, index, size in (("instance", instance, n), ("stat", stat, n_stats)):
            if not -size <= index < size:
                raise IndexError(f"{name}={index} is none of {size}.")
        base = np.asarray(self.base)
        if base.ndim > 1:  # a base for each instance
            base = base[instance]
        return np.asarray(self.values)[instance, :, stat], float(base[stat])


def explain(
    forest: Any,
    combiner: Combiner | None,
    X: InstancesLike,
    *,
    background: Forest | InstancesLike | None = None,
    tree_mask: MaskLike | None = None,
) -> Attributions:
    r"""Return the Shapley values of each column, for an answer that is a sum over leaves.

    The value v(S) of a set S of columns is the expected answer where only these columns are known. Column i of F has

    .. math:: \phi_i = \sum_{S \not\ni i} \frac{|S|!\,(F - |S| - 1)!}{F!} \big(v(S \cup \{i\}) - v(S)\big)

    For a column that is not known, ``background`` says what is expected:

    * by a forest's counts: an instance goes to both sides of the column's tests, in the shares of the rows that did;
    * by a table: each of its rows gives its values in turn, and v is the mean over the rows.

    What is explained, ``of`` in the result:

    * ``"probability"``: `Mean` of shares or of a bounded score for two classes, `Vote`, `EpistemicWeighting`,
      ``BetaAggregation("exact")``;
    * ``"class scores"``: `EvidenceAccumulation` (log odds), `DempsterRule` (log commonalities), other `Mean`;
    * ``"pooled counts"``: `Pooling`; ``"pooled shares"``: `LearnedPool`, before they are divided by their weights;
    * ``"uncertainty"``: ``UncertaintyDecomposition("plausibility")``, aleatoric and epistemic apart; of the kind
      ``"entropy"`` the aleatoric part;
    * ``"bounds of the probability"``: `AveragedIntervals`, all lower and then all upper ones;
    * ``"raw"``: the sums of an `AdditiveTrees`, before the link;
    * ``"number"``: ``mean`` and ``aleatoric`` variance of an `UncertainForestRegressor` that holds a forest; its
      epistemic variance, standard deviation and widths are not sums. For a boosted one ``mean`` (``raw`` before a link
      other than the identity) and ``log_variance``, which is log(s² - floor). Transformed targets are not transformed
      back.

    Parameters
    ----------
    forest
        A forest, or an `AdditiveTrees`. Or a fitted estimator of this library, a model of another one, or a pipeline
        that ends in one of these, on raw columns. Where steps make several columns of one, their shares are added.
    combiner
        One of the combiners above, or a `Weighted` one of them. It has to be None for an `AdditiveTrees` and for
        numbers. For a classifier of this library None is its own combiner, for other models `Mean`.
    X
        Instances ``[instances features]``, as for `bind`. A missing value is a value like others: at the tests of its
        column it goes the way of missing values. X and the mask may be traced (`jit`, `vmap`), and are then answered
        all at once. The result has all columns, also for a sparse matrix.
    background
        A table of rows; or a forest of the same trees, whose counts say which shares of rows go where. Default: the
        forest's own counts. An `AdditiveTrees` and a boosted model have none: pass rows (raw ones for a pipeline), or
        ``ju.count_leaves(model.trees, X, y)``.
    tree_mask
        Which trees count for which instance, booleans ``[instances trees]``; default all.

    Returns
    -------
    Attributions
        ``values`` ``[instances features stat]`` and ``base`` ``[stat]``, or ``[instances stat]`` with a mask. The
        answer is ``values.sum(1) + base``.

    Raises
    ------
    TypeError, ValueError
        If the combiner's answer is not a sum over leaves, or a leaf vetoes a class. If a forest follows empty leaves,
        the background is a forest of other trees or is traced, or `bind` refuses X or such a background. If a model is
        not fitted or has no forest, or a step of a pipeline mixes columns, or does not name those that it makes.

    Notes
    -----
    Exact up to rounding. A column that no test reads has the value 0. Where no counted row came to a test, each side
    has the share one half. An instance whose mask has no tree has the values 0, and the constant of the answer as its
    base. Not differentiable.

    By a forest's counts the algorithm is Quadrature TreeSHAP, in O(L D) time for each instance: L is the number of
    leaves of all trees, and D the largest number of distinct columns on a path. Against a table it is interventional
    TreeSHAP, path by path, in O(L D B) for its B rows, of which some hundred are enough. Memory is that of a block of
    instances and of the result. Forests of like size share compiled programs.

    References
    ----------
    Lundberg et al. 2020, "From local explanations to global understanding": both value functions. "Quadrature
    TreeSHAP", arXiv 2605.04497: sums over coalitions as an integral that few points make exact.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import jaxunc as ju
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 5, np.float32)
    >>> forest = ju.from_sklearn(RandomForestClassifier(10, random_state=0).fit(X, X[:, 0] > 0))
    >>> shares = ju.explain(forest, ju.Mean(), X[:1])
    >>> bool(abs(shares.values.sum(1) + shares.base - ju.bind(forest, ju.Mean()).probability(X[:1])).max() < 1e-6)
    True
    """
    if not is_concrete(forest, combiner, background):
        raise TypeError("the forest, the combiner or the background is traced: only X and tree_mask may be.")
    if (model := open_model(forest, combiner)) is not None:
        return _explain_model(model, X, background, tree_mask)
    with outside_traces():
        stat = _statistic(forest, combiner)
        covered = _background(forest, background)
    return _attributions(forest.trees, stat, covered, X, tree_mask)


def _explain_model(model: OpenedModel, X: Any, background: Any, tree_mask: Any) -> Attributions:
    """Return the shares of a model's raw columns; ``X``, ``background`` and ``tree_mask`` are as for `explain`."""
    if not is_concrete(X, tree_mask):
        raise TypeError("X or tree_mask is traced, and a model reads rows on the host: pass its forest_ instead.")
    is_rows = background is not None and not isinstance(background, Forest | AdditiveTrees | Trees)
    background = model.read(background) if is_rows else background
    covered = _background(model.forest, background)
    stat = _statistic(model.forest, model.combiner) if model.statistic is None else model.statistic
    trees = model.forest.trees
    shares = _attributions(trees, stat, covered, model.read(X), tree_mask)
    if model.sources is None:
        return shares if model.names is None else shares._replace(features=model.names)
    values = _sum_by_source(np.asarray(shares.values), model.sources, model.n_columns)
    names = model.names or tuple(map(str, range(model.n_columns)))
    return shares._replace(values=jax.device_put(values), features=names)


def _sum_by_source(values: np.ndarray, sources: np.ndarray, n_columns: int) -> np.ndarray:
    """Return the shares of ``n_columns`` raw columns: sums of the shares ``values`` of the trees' columns made of each.

    Both are ``[instances columns stat]``. ``sources`` has the raw column that each of the trees' columns is made of.
    """
    sums = np.zeros((values.shape[0], n_columns, values.shape[2]), values.dtype)
    np.add.at(sums.swapaxes(0, 1), sources, values.swapaxes(0, 1))  # a raw column may be the source of several
    return sums


def _attributions(trees: Trees, stat: LeafStatistic, covered: Forest | Encoded, X: Any, tree_mask: Any) -> Attributions:
    """Return the shares of the trees' columns in the sum of their leaves' statistic ``stat``.

    ``covered`` is the background, a forest or encoded rows. X and the mask may be traced.
    """
    is_traced = not is_concrete(X, tree_mask)
    # Traced instances are one block: the small blocks of paths of a CPU then bound the memory.
    platform = "cpu" if is_traced or default_platform() == "cpu" else "accelerator"
    encoded = _encode(X, trees, platform, is_traced=is_traced)
    # If instances or background are sparse, both become rows of the tested columns alone.
    all_trees = trees
    tested_columns = None  # None: all columns
    if any(isinstance(rows.values, SparseRows) for rows in (encoded, covered) if isinstance(rows, Encoded)):
        trees, tested_columns = narrow_trees(trees)
        encoded = _select_columns(tested_columns, trees, encoded)
        covered = _select_columns(tested_columns, trees, covered) if isinstance(covered, Encoded) else covered
    n_rows = len(encoded.values)
    n_stats = len(stat.names)
    dtype = jnp.result_type(float)
    # The base values are summed by NumPy in float64; traced ones can only be summed by JAX, in its own float type.
    xp = jnp if is_traced else np
    as_floats = partial(xp.asarray, dtype=dtype if is_traced else np.float64)
    mask = as_mask(tree_mask, n_rows, trees.n_trees)
    mask = None if mask is None else xp.asarray(mask)
    with outside_traces():
        summands = _summands(trees, stat, covered, platform, mask is not None)
        kernel = _kernel(summands, covered, trees.n_features, platform)
        by_tree = _expected_by_tree(trees, stat, covered, summands, mask is not None)
    if kernel is None or not n_rows:
        values = np.zeros((n_rows, trees.n_features, n_stats), dtype)
        if encoded.missing is None:  # unchecked so far: a program would have checked them, and none runs here
            refuse_infinite(encoded.values)
    else:
        # Where all leaves of a tree have the same sum, a column's shares sum to 0: the last follows from the others.
        values = values_by(kernel, Completion(summands.last_follows, stat.weights), encoded, mask, platform, n_stats)
    base = by_tree.sum(axis=0)
    if mask is not None:  # the sum over the trees that count for each instance
        counts, expected = as_floats(mask), as_floats(by_tree)
        base = jnp.matmul(counts, expected, precision=lax.Precision.HIGHEST) if is_traced else counts @ expected
        base = base if stat.weights is None else base / sum_of_weights(mask, stat.weights)
    if tested_columns is not None:
        values = _among_all_columns(values, tested_columns, all_trees.n_features)
    base = (as_floats(base) + as_floats(stat.constant)).astype(dtype)
    values, base = jax.device_put((values, base))
    columns = all_trees.columns
    return Attributions(values, base, stat.of, stat.names, columns.names or tuple(map(str, range(columns.number))))


def _encode(X: Any, trees: Trees, platform: str, *, is_traced: bool) -> Encoded:
    """Return the instances X as encoded rows for ``trees``; on an accelerator values are not checked yet."""
    if is_traced:
        return Encoded(encode_traced(X, trees.columns), missing=True)
    if platform == "cpu":
        return encode_rows(X, trees.columns)
    unchecked: Any = unchecked_rows(X, trees.columns)  # the program looks at the values
    return Encoded(*unchecked)


class _Summands(NamedTuple):
    """Statistics that leaves add to an answer, as the arrays that a kernel reads."""

    traversal: Traversal | None
    """The traversal of the trees; None if the background is a table of rows."""
    numbers: Any
    """The statistics of leaves on the device, as the kernel reads them; None where no tree has a test."""
    by_tree: np.ndarray
    """The expected statistic of each tree ``[trees stat]``; zeros if the background is a table of rows."""
    last_follows: bool
    """Whether the numbers of a leaf add to the same sum in all leaves of a tree: then the last number follows."""


def _summands(
    trees: Trees, stat: LeafStatistic, covered: Forest | Encoded, platform: str, is_masked: bool
) -> _Summands:
    """Return the summands of an answer, and keep them while their arrays live: models are explained repeatedly.

    ``stat`` is the leaves' statistic, ``covered`` the background, ``platform`` "cpu" or "accelerator". ``is_masked``
    says whether there is a tree mask: then statistics are not divided by the trees' weights.
    """
    dtype = jnp.result_type(float)
    counts: tuple[Any, ...] = ()
    if isinstance(covered, Forest):
        counts = covered.count_table, covered.code

    def make() -> _Summands:
        """Unroll the trees, traverse them if counts are the background, and put the leaves' numbers on the device."""
        unrolled = _UNROLLED.get(_arrays(trees), None, lambda: unroll(trees))
        has_tests = len(unrolled.nodes.edge) > 0
        path_stats = _divided_by_weights(stat.table[unrolled.tree, unrolled.leaf], stat, is_masked)
        n_stats = path_stats.shape[1]
        largest = np.abs(path_stats).max()
        last_follows = n_stats > 1 and _is_constant(unrolled.tree, path_stats.sum(axis=1), largest, dtype)
        # The kernel sums fewer numbers: `Completion` adds the last.
        kernel_stats = path_stats[:, : n_stats - last_follows]
        by_tree = np.zeros(stat.table.shape[::2])  # of [trees nodes stat]: [trees stat]
        if isinstance(covered, Encoded):
            numbers = paths_on_device(unrolled, kernel_stats, platform) if has_tests else None
            return _Summands(traversal=None, numbers=numbers, by_tree=by_tree, last_follows=last_follows)
        new_traversal = lambda: make_traversal(unrolled, _cover(*counts))
        traversal = _TRAVERSALS.get((*_arrays(trees), *counts), dtype, new_traversal)
        np.add.at(by_tree, unrolled.tree, traversal.shares[:, None] * path_stats)
        numbers = leaf_numbers(traversal, kernel_stats) if has_tests else None
        return _Summands(traversal, numbers, by_tree, last_follows)

    return _SUMMANDS.get((*_arrays(trees), *counts, stat.table), (dtype, platform, is_masked), make)


def _kernel(summands: _Summands, covered: Forest | Encoded, n_features: int, platform: str) -> Kernel | None:
    """Return the kernel that computes the shares of each instance; None where no tree has a test.

    ``summands`` are made for the background ``covered`` and ``platform``, and trees of ``n_features`` columns.
    """
    if summands.numbers is None:
        return None
    if isinstance(covered, Encoded):
        return kernel_by_background(summands.numbers, covered, n_features, platform)
    traversal: Any = summands.traversal  # it is never None where a forest's counts are the background
    return kernel_by_cover(traversal, summands.numbers, platform)


def _expected_by_tree(
    trees: Trees, stat: LeafStatistic, covered: Forest | Encoded, summands: _Summands, is_masked: bool
) -> np.ndarray:
    """Return the expected statistic of each tree ``[trees stat]``, for an instance of which no column is known.

    The arguments are as for `_summands`, which made ``summands``.
    """
    if isinstance(covered, Forest):
        return summands.by_tree
    leaf = leaves_of(trees, np.asarray(covered.values)).T[..., None]  # [trees rows 1], of the background's rows
    at_leaves = np.take_along_axis(stat.table, leaf, axis=1)  # [trees rows stat]
    return _divided_by_weights(at_leaves, stat, is_masked).mean(axis=1)


def _divided_by_weights(table: np.ndarray, stat: LeafStatistic, is_masked: bool) -> np.ndarray:
    """Return leaf statistics ``table`` divided by the sum of the trees' weights in ``stat``, if it has any.

    If ``is_masked``, they are unchanged: `Completion` divides by the weights of each instance's trees.
    """
    return table if stat.weights is None or is_masked else table / stat.weights.sum()


def _is_constant(tree: np.ndarray, value: np.ndarray, scale: float, dtype: np.dtype) -> bool:
    """Return whether within each tree all paths have one ``value [paths]``, up to rounding.

    ``tree [paths]`` has the paths' trees; ``scale`` is the size of the numbers whose sums in ``dtype`` the values are.
    """
    _, first_path = np.unique(tree, return_index=True)  # of each tree
    return bool(np.all(np.abs(value - value[first_path][tree]) <= 8 * np.finfo(dtype).eps * scale))


_UNROLLED: KeptWhileAlive[Unrolled] = KeptWhileAlive()
_TRAVERSALS: KeptWhileAlive[Traversal] = KeptWhileAlive()
"""Traversals by the arrays of the trees and of the counts that cover them."""
_STATISTICS: KeptWhileAlive[LeafStatistic] = KeptWhileAlive(4)
_SUMMANDS: KeptWhileAlive[_Summands] = KeptWhileAlive(4)
"""Statistics by the forest and its combiner, and summands by the arrays and settings that they are made of."""


def _arrays(trees: Trees) -> tuple[Array, ...]:
    """Return the arrays that define the trees; results are kept by the identity of these arrays."""
    return trees.feature, trees.threshold, trees.child, trees.missing_right


def _cover(table: Array, code: Array) -> np.ndarray:
    """Return the number of rows in each leaf, ``[trees nodes]``, from a forest's count table and codes."""
    return np.asarray(table, np.float64).sum(axis=1)[np.asarray(code)]


def _select_columns(tested_columns: np.ndarray | None, trees: Trees, rows: Encoded) -> Encoded:
    """Return encoded ``rows``, which may be traced, with ``tested_columns`` alone (None: all), which ``trees`` read."""
    if isinstance(rows.values, SparseRows):
        return Encoded(rows.values.of(tested_columns, trees.columns), rows.missing)
    if tested_columns is None:
        return rows
    values = rows.values if not is_concrete(rows.values) else np.asarray(rows.values)
    return Encoded(values[:, tested_columns], rows.missing)


def _among_all_columns(values: Any, columns: np.ndarray, n_features: int) -> Any:
    """Return ``values [instances columns stat]`` as ``[instances features stat]``: at ``columns``, with 0 elsewhere."""
    shape = len(values), n_features, values.shape[2]
    if not is_concrete(values):
        return jnp.zeros(shape, values.dtype).at[:, columns].set(values)
    all_values = np.zeros(shape, values.dtype)
    all_values[:, columns] = values
    return all_values


def _statistic(forest: Any, combiner: Any) -> LeafStatistic:
    """Return the statistic of `_choose_statistic`, with a read-only table; keep it while forest and combiner live."""
    if not (isinstance(forest, Forest | AdditiveTrees) and isinstance(combiner, Combiner | None)):
        return _choose_statistic(forest, combiner)  # refused there
    parts, structure = jax.tree.flatten(combiner)
    arrays = [part for part in parts if isinstance(part, Array | np.ndarray)]
    constants = tuple(part for part in parts if not isinstance(part, Array | np.ndarray))

    def make() -> LeafStatistic:
        stat = _choose_statistic(forest, combiner)
        table = stat.table.view()  # the caller's own array stays writable
        table.setflags(write=False)  # summands that are made of it are kept, and must not differ from it
        return stat._replace(table=table)

    settings = structure, constants, jnp.result_type(float)
    return _STATISTICS.get((forest, *jax.tree.leaves(forest), *arrays), settings, make)


def _choose_statistic(forest: Any, combiner: Any) -> LeafStatistic:
    """Return the leaf statistic whose sum over trees is the combiner's answer, or for an `AdditiveTrees` its raw sum.

    Raises a TypeError or a ValueError for combiners and forests that have no such statistic.
    """
    if isinstance(forest, AdditiveTrees):
        if combiner is not None:
            raise TypeError(
                f"combiner is a {type(combiner).__name__}, and leaves of an AdditiveTrees hold values, no counts: "
                "pass None, or explain ju.count_leaves(model.trees, X, y)."
            )
        return margins_of(forest)
    check_is_forest(forest)
    if forest.follows_forks:
        raise ValueError(
            f"empty leaves of the mode {forest.empty_leaves!r} are answered by other leaves, and say nothing "
            "themselves. Pass forest.with_empty_leaves('parent') or 'zeros'."
        )
    return leaf_statistic(forest, combiner)


def _background(forest: Any, background: Any) -> Forest | Encoded:
    """Return the background: the forest that holds its counts, or the encoded rows of a table; refuse anything else.

    ``background`` is the argument of `explain`, where None means the forest's own counts.
    """
    if background is None and not isinstance(forest, Forest):
        if forest.trees.depth == 0:  # all rows reach the same leaves
            return Encoded(np.zeros((1, forest.trees.n_features), np.float32), missing=False)
        raise ValueError(
            "an AdditiveTrees, a boosted model, or a regressor whose targets are all alike does not say how many rows "
            "reached its leaves: pass background, a table of rows or ju.count_leaves(model.trees, X, y)."
        )
    covered = forest if background is None else background
    answers = any(hasattr(type(covered), name) for name in ("predict", "answer"))  # an estimator or a bound forest
    if isinstance(covered, Trees | AdditiveTrees) or answers:
        raise TypeError(
            f"background is a {type(covered).__name__}; pass a table of rows, or a forest of the same trees, such as "
            "ju.count_leaves(forest, X, y)."
        )
    if not isinstance(covered, Forest):
        table = covered
        if isinstance(covered, Array):
            check_readable("background", covered)
            table = np.asarray(covered)
        sample = encode_rows(table, forest.trees.columns, "background")
        if not len(sample.values):
            raise ValueError("background has no rows; pass one at least.")
        return sample
    if not have_same_arrays(forest.trees, covered.trees):
        raise ValueError("background is a forest of other trees; pass a recount: ju.count_leaves(forest, X, y).")
    return covered
