"""A forest and a rule bound together: the fast way to score data."""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from jaxunc._checks import is_concrete
from jaxunc.combiners import Fold, lift_forest, read_answer
from jaxunc.forest import Forest

from ._empty_leaves import follows_siblings, sums_siblings
from ._fold import fold
from ._following import answer_following
from ._instances import as_instances, as_mask
from ._plan import Plan, make_plan
from ._planes import assemble, cut, pack
from ._stream import Spec, merge_scalars, stream
from ._walk import block_size, default_form, unrolled_depth

CHUNKS = (256, 2048, 8192)
"""Instances per compiled call on CPU: a batch of any size is cut into these, the last part padded up to one of them."""


LARGEST_LEAF_TABLE = 2**30
"""Bytes of what a rule lifts from the leaves of a forest."""


def bind(forest: Forest, combiner: Fold, *, threads: int | None = None) -> "BoundForest":
    """Prepare a forest for scoring by one rule (or several, as `Together`).

    Lifts the leaves' counts once and packs the trees for walking; each call then routes and merges.

    Parameters
    ----------
    forest
        The forest.
    combiner
        The rule.
    threads
        Host threads that drive compiled chunks on CPU; default one per core that this process may use.

    Raises
    ------
    TypeError
        If ``combiner`` is no `Fold`.
    ValueError
        If the rule does not suit the forest (its number of classes, of trees), or threads < 1.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import jaxunc as ju
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = ju.from_sklearn(RandomForestClassifier(10, random_state=0).fit(X, y))
    >>> bound = ju.bind(forest, ju.EvidenceAccumulation(forest.prior))
    >>> bound.probability(X[:5]).shape
    (5, 3)
    """
    if not isinstance(combiner, Fold):
        raise TypeError(f"combiner is {combiner!r}; pass a rule that streams (a Fold), such as jaxunc.Mean().")
    if threads is not None and threads < 1:
        raise ValueError(f"threads={threads} must be at least 1 (or None for one per core).")
    return BoundForest(forest, combiner, threads or _cores())


class BoundForest:
    """What `bind` returns: call it, or its read-outs, on NumPy, JAX or pandas data ``[instances features]``.

    The answer for an instance does not depend on the others, on the size of the batch, or on the number of threads:
    class scores bit for bit, probabilities but for the last bit of an exponential.
    Under a trace it is the pure `fold`, differentiable in the rule and the forest's counts.
    """

    def __init__(self, forest: Forest, combiner: Fold, threads: int):
        self.forest, self.combiner, self.threads = forest, combiner, threads
        self._by_rows = sums_siblings(forest) or (forest.siblings is None and _is_large(combiner, forest))
        if self._by_rows:
            jax.eval_shape(lift_forest, combiner, forest)  # what does not suit the forest is refused here
        else:
            planes, self._scalars, self._layout = cut(self.leaf_table, combiner.merge, forest.n_trees, forest.n_nodes)
            self._packed = pack(planes, self._layout)
            self._totals = merge_scalars(self._layout, self._scalars)

    @cached_property
    def leaf_table(self) -> PyTree:
        """What the rule lifts from the leaves: arrays ``[trees nodes ...]``, or ``[trees]``."""
        return lift_forest(self.combiner, self.forest)

    def __call__(self, X, *, tree_mask=None) -> PyTree:
        """What the rule's call returns: class scores ``[instances classes]`` for nearly all."""
        return self._run(X, tree_mask, "class_scores")

    def score(self, X, *, tree_mask=None) -> PyTree:
        """The published binary score ``[instances]``, positive for class 1."""
        return self._run(X, tree_mask, "score")

    def probability(self, X, *, tree_mask=None) -> PyTree:
        """Class probabilities ``[instances classes]``."""
        return self._run(X, tree_mask, "probability")

    def log_probability(self, X, *, tree_mask=None) -> PyTree:
        """Logarithms of the class probabilities ``[instances classes]``."""
        return self._run(X, tree_mask, "log_probability")

    def answer(self, X, *, tree_mask=None) -> PyTree:
        """All read-outs together."""
        return self._run(X, tree_mask, None)

    def _run(self, X, tree_mask, readout: str | None) -> PyTree:
        if not is_concrete(X, self.forest, self.combiner, tree_mask):
            stat = fold(self.forest, self.leaf_table, X, merge=self.combiner.merge, tree_mask=tree_mask)
            return read_answer(self.combiner.finish(stat), readout)
        values, missing = as_instances(X, self.forest)
        mask = as_mask(tree_mask, len(values), self.forest.n_trees)
        mask = None if mask is None else np.asarray(mask)
        if self._by_rows or follows_siblings(self.forest):
            return self._run_following(values, mask, readout)
        form = default_form()
        spec = Spec(self._layout, missing, form, unrolled_depth(form, self.forest))
        plan = self._plan_with_missing if missing else self._plan

        def score(part: tuple[int, int, int]) -> PyTree:
            start, stop, _ = part
            x, in_mask = _padded(values, *part), None if mask is None else _padded(mask, *part)
            run = _run_on_host if on_host else _run_chunk
            arguments = (plan, self._packed, self._scalars, self._totals, self.combiner, x, in_mask)
            answer = run(spec, readout, *arguments)
            # On the host trimming and joining compile nothing. A number may stand for all instances.
            return jax.tree.map(lambda a: (np.asarray(a) if on_host else a)[: stop - start] if a.ndim else a, answer)

        on_host = form == "blocks"
        parts = _chunks(len(values), self._sizes(form), self.threads)
        parallel = on_host and self.threads > 1 and len(parts) > 1
        answers = list(_pool(self.threads).map(score, parts) if parallel else map(score, parts))
        join = np.concatenate if on_host else jnp.concatenate
        return jax.tree.map(lambda *a: jnp.asarray(a[0] if len(a) == 1 or not a[0].ndim else join(a)), *answers)

    def _run_following(self, values, mask, readout: str | None) -> PyTree:
        parallel = default_form() == "blocks" and self.threads > 1
        run = _pool(self.threads).map if parallel else map
        table = None if self._by_rows else self.leaf_table
        plan = self._plan_with_missing
        return answer_following(self.forest, self.combiner, table, plan, np.asarray(values), mask, readout, run)

    def _sizes(self, form: str) -> tuple[int, ...]:
        if form == "blocks":
            # Collected planes have a value per instance and tree: smaller chunks bound their memory.
            collects = "collect" in self._layout.merges
            return tuple(s for s in CHUNKS if not collects or s * self.forest.n_trees <= 2**22) or CHUNKS[:1]
        largest = block_size(form, self.forest.n_trees, 2 * self.forest.n_features)
        return tuple(sorted({min(1024, largest), min(32768, largest), largest}))

    @cached_property
    def _plan(self) -> Plan:
        return make_plan(self.forest, missing=False)

    @cached_property
    def _plan_with_missing(self) -> Plan:
        return make_plan(self.forest, missing=True)

    def __repr__(self) -> str:
        return f"BoundForest({self.forest!r}, {type(self.combiner).__name__}, threads={self.threads})"


@partial(jax.jit, static_argnames=("spec", "readout"))
def _run_chunk(spec: Spec, readout: str | None, plan: Plan, packed, scalars, totals, combiner: Fold, x, mask) -> PyTree:
    """As one program, for accelerators, where each kernel counts."""
    return _finish_chunk(combiner, readout, _merge_chunk(spec, plan, packed, scalars, totals, x, mask))


def _run_on_host(spec: Spec, readout: str | None, plan: Plan, packed, scalars, totals, combiner: Fold, x, mask):
    """As two programs: finishing does not depend on the size of the forest, and many rules take long to compile."""
    return _finish_chunk(combiner, readout, _merge_chunk(spec, plan, packed, scalars, totals, x, mask))


@partial(jax.jit, static_argnames="spec")
def _merge_chunk(spec: Spec, plan: Plan, packed, scalars, totals, x, mask) -> PyTree:
    return assemble(spec.layout, *stream(spec, plan, packed, scalars, totals, x, mask))


@partial(jax.jit, static_argnames="readout")
def _finish_chunk(combiner: Fold, readout: str | None, merged: PyTree) -> PyTree:
    return read_answer(combiner.finish(merged), readout)


def _is_large(combiner: Fold, forest: Forest) -> bool:
    """Whether a leaf table on the host would take more memory than it saves time: distinct counts are lifted then."""
    if default_form() != "blocks" or not is_concrete(forest, combiner):
        return False
    parts = jax.tree.leaves(jax.eval_shape(lift_forest, combiner, forest))
    return sum(part.size * part.dtype.itemsize for part in parts) > LARGEST_LEAF_TABLE


def _chunks(n: int, sizes: tuple[int, ...], threads: int) -> list[tuple[int, int, int]]:
    """(start, stop, padded size) of each part: large ones while every thread gets several, then smaller ones."""
    full = [size for size in sizes[1:] if n >= 2 * size * threads] or list(sizes[:2])[-1:]
    parts, start = [], 0
    for size in sorted({*full, sizes[min(1, len(sizes) - 1)]}, reverse=True):
        for begin in range(start, n - size + 1, size):
            parts.append((begin, begin + size, size))
            start = begin + size
    if start < n or not parts:
        parts.append((start, n, next(size for size in sizes if size >= n - start)))
    return parts


def _padded(array, start: int, stop: int, size: int):
    part = array[start:stop]
    if size == stop - start:
        return part
    return (np if isinstance(part, np.ndarray) else jnp).pad(part, ((0, size - (stop - start)), (0, 0)))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@lru_cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="jaxunc")
