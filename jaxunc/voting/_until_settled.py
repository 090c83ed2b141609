"""`predict_until_settled`: the classes of instances, by as many trees of a forest as each of them needs.

`bind_vote` makes the stopping rule, and `BoundVote` packs the trees. On a CPU it cuts the instances into parts, each of
which goes through one compiled program, or through rounds that the host drives (`_rounds.py`). On an accelerator one
program takes all instances.
"""

from functools import cached_property
from typing import Any, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int32

from jaxunc._checks import check_integer, check_one_of, is_concrete
from jaxunc._numerics import KeptWhileAlive, Pickled, ceil_div, cores
from jaxunc.combiners import Combiner
from jaxunc.forest import Forest, Trees
from jaxunc.inference import (
    BoundForest,
    OfForest,
    Plan,
    Walk,
    answer_on_device,
    bind,
    block_size,
    default_walk,
    encode_for,
    make_plan,
    on_tested,
    room_for,
    tall_top,
    thread_map,
    unrolled_depth,
)
from jaxunc.tables import NumbersLike, SparseRows, unchecked_rows

from ._leader_probability import Criterion, Population, checked_weights, is_final_weights, leader_probability
from ._rounds import FEW, RoundsWalk, poll_by_levels, poll_by_rounds, poll_part
from ._stop_after import StoppingResult, make_probability_rule
from ._stopping_rules import StoppingRule, checked_promise, make_rule
from ._vote_prior import check_votes, checked_prior, leaf_votes

SIZES = (1024, 4096, 16384, 65536)
"""Numbers of instances in a compiled call; calls of one instance and of `FEW` have sizes of their own."""

MOST_VALUES = 2**21  # largest number of values (instances times columns) in a compiled call

SMALL_BLOCKS = (512, 64)  # numbers of instances that are walked at a time where few are left

ONE_THREAD = 512  # number of instances up to which one thread works alone


class VoteResult(NamedTuple):
    """The vote on each instance, by the trees that were used."""

    predicted: Int32[np.ndarray, "instances"]
    """The class with most votes (its index in ``forest.class_labels``), the first of several; class 0 where every tree
    abstained."""
    n_trees_used: Int32[np.ndarray, "instances"]
    """Number of trees used, abstaining ones included."""
    settled: Bool[np.ndarray, "instances"]
    """Whether the vote was settled; else ``max_trees`` were used."""
    probability: Float[np.ndarray, "instances"]
    """Probability that the class wins, given the votes, settled or not; in [0, 1].

    * Infinite population: exact for two classes and by "exact", else a lower bound.
    * Finite population, or "certain": the probability that the class wins the vote of all trees. It is exact for two
      classes, else a lower bound: 1 less a sum over rivals, 0 at least.
    * NaN where the prior has weights of final counts that exclude the votes."""
    votes: Int32[np.ndarray, "instances classes"]
    """Votes of the trees used."""
    n_trees: int
    """Largest number of trees that could be used."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of outputs that `columns` takes."""
        return ("class", "trees_polled")

    def columns(self, output: str) -> dict[str, np.ndarray]:
        """Return the arrays of ``output``, one of `outputs`, by name; "settled" comes with "trees_polled"."""
        return {output: self.predicted} if output == "class" else {output: self.n_trees_used, "settled": self.settled}

    @property
    def saved(self) -> float:
        """Share of the trees that were not used; NaN without instances."""
        return 1 - float(np.mean(self.n_trees_used)) / self.n_trees if len(self.n_trees_used) else float("nan")


def predict_until_settled(
    forest: Forest,
    X: Any,
    *,
    confidence: float | None = None,
    disagreement: float | None = None,
    max_trees: int | None = None,
    criterion: Criterion = "bound",
    population: Population = "infinite",
    prior: NumbersLike = 1.0,
) -> VoteResult:
    r"""Let the trees of a forest vote on each instance until the winner is settled, and walk no tree after that.

    A vote is settled once :math:`L(y^*|t) > \pi` for the class in the lead. The answer is that of `stop_after` on the
    trees' votes, bit for bit, whatever the number of instances. The error of the vote then differs from that of an
    infinite ensemble by 1 - π at most, if the prior is right. With two classes the criterion ``"optimal"`` takes fewer
    trees for a ``disagreement`` that holds in the mean.

    Parameters
    ----------
    forest
        Trees grown independently of each other given the sample: bagging, random forests, extra-trees, random decision
        trees. A leaf votes for its largest class. If k classes are tied, a leaf of tree number t (from 0) votes for the
        one at position t mod k among them. It abstains if all classes are tied, or it is empty.
    X
        Instances, as for `bind`.
    confidence, disagreement
        See `stop_after`; by default a confidence of .99, and a disagreement of .01.
    max_trees
        Largest number of trees used; by default all. With fewer, the promise is about settled answers alone.
    criterion, population, prior
        See `stop_after`. The finite population, and ``"certain"``, mean the vote of all trees of the forest, also if
        ``max_trees`` is less.

    Returns
    -------
    VoteResult
        Class, trees used, whether settled, probability, votes; ``.saved`` is the work saved.

    Raises
    ------
    TypeError
        If ``forest`` is not a `Forest`. The trees of boosted models correct each other and do not vote.
    ValueError
        As `stop_after` and `bind`. If ``max_trees`` exceeds the forest's number of trees, or empty leaves are followed.

    Notes
    -----
    ``criterion="certain"`` gives the winner of all trees. scikit-learn's ``predict`` may give another class: that of
    the largest mean probability. With two classes the winner of all trees is that of the combiner `Vote`, in which tied
    classes share a tree's vote. With more classes they differ where such a share is decisive, but not in an infinite
    ensemble: over the trees each tied class gets the same number of votes.

    A tree that abstains counts as used, and has no vote; see `stop_after`.

    On an accelerator all trees are walked, and votes are counted up to the tree that settles each instance. Not
    traceable. `jaxunc.voting.bind_vote` prepares a forest once for many calls. The votes of leaves are kept while the
    forest lives, the packed trees of the last two forests that voted.

    References
    ----------
    Hernández-Lobato, Martínez-Muñoz and Suárez 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import jaxunc as ju
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = ju.from_sklearn(RandomForestClassifier(200, random_state=0).fit(X[::2], y[::2]))
    >>> result = predict_until_settled(forest, X[1::2], confidence=0.99)
    >>> bool(result.settled.mean() > 0.95), bool(result.saved > 0.8)
    (True, True)
    """
    settings: dict[str, Any] = {"confidence": confidence, "disagreement": disagreement, "max_trees": max_trees}
    return bind_vote(forest, **settings, criterion=criterion, population=population, prior=prior)(X)


class VoteSettings(NamedTuple):
    """Settings of `predict_until_settled`; None stands for the criterion's default, and for all trees."""

    confidence: float | None = None
    disagreement: float | None = None
    max_trees: int | None = None
    criterion: Criterion = "bound"
    population: Population = "infinite"
    prior: NumbersLike = 1.0


def bind_vote(forest: Forest, *, threads: int | None = None, walk: Walk | None = None, **settings: Any) -> "BoundVote":
    """Return a forest prepared for many votes: its stopping rule and leaf votes are made once.

    ``settings`` are those of `predict_until_settled` (fields of `VoteSettings`). ``threads`` and ``walk`` are those of
    `bind`; None for one thread per core, and for the walk of the platform. Errors are those of `predict_until_settled`.
    """
    confidence, disagreement, max_trees, criterion, population, prior = VoteSettings(**settings)
    check_votes(forest)
    if threads is not None:
        check_integer("threads", threads, 1, " (or None for one per core)")
    if walk is not None:
        check_one_of("walk", walk, get_args(Walk))
    max_trees = forest.n_trees if max_trees is None else max_trees
    check_integer("max_trees", max_trees, 1)
    max_trees = int(max_trees)
    if max_trees > forest.n_trees:
        raise ValueError(f"max_trees={max_trees}, but the forest has {forest.n_trees} trees.")
    promise = checked_promise(criterion, confidence, disagreement)
    votes = leaf_votes(forest)
    abstaining = bool(np.any(votes == forest.n_classes))
    rule_settings = (forest.n_classes, max_trees, promise, criterion, population, prior)
    # The winner of a finite population is that of the whole forest, also where only ``max_trees`` may be used.
    rule = make_rule(*rule_settings, n_trees=forest.n_trees, abstaining=abstaining)
    if rule is None:  # there is no table for these settings
        rule = make_probability_rule(*rule_settings, n_trees=forest.n_trees)
    checked_settings = {
        "disagreement" if criterion == "optimal" else "confidence": promise,
        "max_trees": max_trees,
        "criterion": criterion,
        "population": population,
        "prior": prior,
    }
    return BoundVote(forest, votes, rule, checked_settings, threads, walk or default_walk())


class BoundVote(Pickled, OfForest):
    """A forest prepared for votes, as `bind_vote` returns it: call it on instances."""

    combiner: None = None  # None: a vote counts the leaves' classes, without a combiner
    _missing_guess: bool = False
    """Whether the last batch had missing values: an accelerator begins the next one as if it had, too."""

    def __init__(
        self, forest: Forest, votes: Any, rule: Any, settings: dict[str, Any], threads: int | None, walk: Walk
    ):
        self.forest: Forest = forest
        self.rule: Any = rule
        self.settings: dict[str, Any] = settings
        self.max_trees: int = settings["max_trees"]
        self.threads: int = threads or cores()
        self.walk: Walk = walk
        criterion, population, prior = settings["criterion"], settings["population"], settings["prior"]
        has_weights = criterion == "optimal" and is_final_weights(prior, population, forest.n_trees)
        prior = checked_weights(prior) if has_weights else checked_prior(prior, forest.n_classes)
        self._asked = criterion, population, prior  # last arguments of `leader_probability`
        self._votes_of_nodes = votes
        self._plans = {}  # results of `_plan`

    def __call__(self, X: Any) -> VoteResult:
        """Return the vote on each instance of ``X [instances features]``, as `predict_until_settled` does."""
        if not is_concrete(X):
            raise TypeError("votes are dropped as they settle, on the host: call this outside of jit, or stop_after.")
        trees, n_trees = self.forest.trees, self.forest.n_trees
        by_levels = self.walk == "levels" and isinstance(self.rule, StoppingRule)
        if by_levels and trees.columns.cuts is None:
            values, missing = unchecked_rows(X, trees.columns)
        else:
            trees, (values, missing) = encode_for(trees, X)
        trees, values = on_tested(trees, values)
        if by_levels:
            result = self._poll_on_device(trees, values, missing)
        else:
            result = self._poll(trees, values if isinstance(values, SparseRows) else np.asarray(values), bool(missing))
        polled, predicted, settled, votes = map(np.asarray, result)
        probability = np.ones(len(polled), np.float32)
        # By "certain" a settled winner has the probability 1: only the others are computed.
        certain = self._asked[0] == "certain"
        rows = ~settled if certain else slice(None)
        if not (certain and settled.all()):
            probability[rows] = leader_probability(votes[rows], polled[rows], n_trees, *self._asked)
        return VoteResult(predicted, polled, settled, probability, votes, self.max_trees)

    answer = __call__

    def blank_answer(self) -> VoteResult:
        """Return an answer of zeros for one instance, with the shapes and types of `answer`."""
        zero = np.zeros(1, np.int32)
        votes = np.zeros((1, self.forest.n_classes), np.int32)
        return VoteResult(zero, zero, zero > 0, np.zeros(1, np.float32), votes, self.max_trees)

    def with_rule(self, combiner: Combiner[Any]) -> BoundForest[Any]:
        """Return the same forest bound to ``combiner``, in place of the vote."""
        return bind(self.forest, combiner, threads=self.threads, walk=self.walk)

    def _poll_on_device(self, trees: Trees, x: Any, missing: bool | None) -> StoppingResult:
        """Return the votes for the rows ``x [instances columns]``, by one program on the accelerator.

        ``x`` may lie on the host or on the accelerator. ``missing`` says whether values are missing. None: it is
        guessed from the last batch, and the program checks the guess.
        """
        n_columns = x.shape[1]
        n_classes = self.forest.n_classes
        # Counting holds three numbers for each tree and row of votes (`StoppingRule.n_rows`).
        block = block_size("levels", self.max_trees, 2 * n_columns + 3 * self.max_trees * self.rule.n_rows)

        def program(missing: bool, rows: Any, _: Any) -> Any:
            options = {"max_trees": self.max_trees, "depth": unrolled_depth("levels", trees), "block": block}
            return poll_by_levels(*self._plan(trees, missing), self._rule_on_device, rows, missing=missing, **options)

        row_bytes = 4 * (n_columns + n_classes + len(StoppingResult._fields))  # a row and its result, of 4-byte numbers
        result, self._missing_guess = answer_on_device(
            program, x, mask=None, row_bytes=row_bytes, missing=missing, guess=self._missing_guess
        )
        return jax.device_get(result)

    @cached_property
    def _rule_on_device(self) -> StoppingRule:
        """The stopping rule, whose tables are sent once."""
        return jax.device_put(self.rule)

    def _poll(self, trees: Trees, x: np.ndarray | SparseRows, missing: bool) -> StoppingResult:
        """Return the votes for the rows ``x [instances columns]``, which lie on the host.

        A rule with a table is followed by one program for each part of the rows, another rule in rounds
        (`poll_by_rounds`). ``missing`` says whether values may be missing.
        """
        plan, classes = self._plan(trees, missing)
        if not isinstance(self.rule, StoppingRule):
            walk = RoundsWalk(missing, self.walk, unrolled_depth(self.walk, trees))
            return self._poll_in_rounds(plan, classes, x, walk)
        # From here on one compiled program for each part: a rule with a table can be traced.
        columns = x.shape[1] * (1 + missing)  # of the instances' keys: with missing values all columns come twice
        largest_block = block_size("blocks", self.max_trees, columns)
        parts = _parts(len(x), columns, self.threads)

        def poll_rows(rows_of_part: slice) -> tuple:
            """Return the fields of `Polled` for the rows of a part, without padding."""
            rows = x[rows_of_part]
            rows = rows.dense() if isinstance(rows, SparseRows) else rows
            # Few sizes, so that batches of any length share a few programs; ``n`` tells padding from rows.
            size = next(size for size in (1, FEW, *SIZES) if size >= len(rows))
            padded = rows
            if len(rows) < size:  # what lies behind the rows is walked with them, and never read
                padded = room_for((size, rows.shape[1]), rows.dtype)
                padded[: len(rows)] = rows
            block_sizes = (min(block, largest_block, size) for block in (largest_block, *SMALL_BLOCKS))
            distinct_sizes = tuple(dict.fromkeys(block_sizes))
            n, max_trees = np.int32(len(rows)), np.int32(self.max_trees)
            results = poll_part(plan, classes, self.rule, padded, n, max_trees, missing=missing, blocks=distinct_sizes)
            return tuple(np.asarray(array)[..., : len(rows)] for array in results)

        results = list(thread_map(self.threads if len(parts) > 1 else 1)(poll_rows, parts))
        polled, settled, votes = (np.concatenate(arrays, axis=-1) for arrays in zip(*results, strict=True))
        # With two classes and no tree that abstains only votes for class 1 are counted; class 0 has the rest.
        votes = np.stack([polled - votes[0], votes[0]], axis=1) if len(votes) == 1 else votes.T
        # The first of the largest; of two classes a comparison, which takes a tenth of the time.
        predicted = votes[:, 1] > votes[:, 0] if votes.shape[1] == 2 else votes.argmax(axis=1)
        return StoppingResult(polled, predicted.astype(np.int32), settled, votes)

    def _poll_in_rounds(
        self, plan: Plan, classes: Array, x: np.ndarray | SparseRows, way: RoundsWalk
    ) -> StoppingResult:
        """Return the votes for the rows ``x [instances columns]`` by a rule without a table (`poll_by_rounds`)."""
        arguments = plan, classes, self.forest.n_classes, self.rule
        if not isinstance(x, SparseRows):
            return poll_by_rounds(*arguments, x, self.max_trees, way=way)
        parts = _parts(len(x), x.shape[1], threads=1)
        results = [poll_by_rounds(*arguments, x[part].dense(), self.max_trees, way=way) for part in parts]
        return StoppingResult(*map(np.concatenate, zip(*results, strict=True)))

    def _plan(self, trees: Trees, missing: bool) -> tuple[Plan, Array]:
        """Return (plan of ``trees``, class that each place votes for), which are kept for later calls.

        ``missing`` says whether the plan takes missing values.
        """
        key = missing, trees.columns
        if key not in self._plans:
            arrays = trees.feature, trees.threshold, trees.child, trees.missing_right, trees.tree_depth
            votes = self._votes_of_nodes
            self._plans[key] = _PACKED.get((*arrays, votes), missing, lambda: _packed(trees, votes, missing))
        return self._plans[key]

    def _attributes(self) -> dict[str, Any]:
        """Return the attributes that copies and pickles hold: all but those that are made anew."""
        return {name: value for name, value in vars(self).items() if name not in ("_missing_guess", "_rule_on_device")}

    def __repr__(self) -> str:
        return f"BoundVote({self.forest!r}, max_trees={self.max_trees}, criterion={self._asked[0]!r})"


_PACKED: KeptWhileAlive[tuple[Plan, Array]] = KeptWhileAlive(most=2)
"""Packed trees of the last forests, for calls that bind a forest each time: 9 bytes for each place."""


def _packed(trees: Trees, votes: np.ndarray, missing: bool) -> tuple[Plan, Array]:
    """Return (plan of ``trees``, class ``[trees places]`` that each place votes for).

    ``votes [trees nodes]`` is the class that each node votes for (`leaf_votes`); ``missing`` says whether the plan
    takes missing values.
    """
    plan = make_plan(trees, missing=missing, top=tall_top(trees))
    return plan, plan.by_place(jnp.asarray(votes))


def _parts(n: int, columns: int, threads: int) -> list[slice]:
    """Return slices that cut ``n`` rows into parts of about equal size: one or more for each of ``threads``.

    ``columns`` is the number of columns. Up to `ONE_THREAD` rows are one part for one thread.
    """
    # A part fits the largest compiled size of bounded memory; few rows are not worth a second thread.
    largest_part = max((part_size for part_size in SIZES if part_size * columns <= MOST_VALUES), default=SIZES[0])
    n_parts = 1 if n <= ONE_THREAD else threads
    n_parts *= max(1, ceil_div(n, n_parts * largest_part))
    part_size = max(1, ceil_div(n, n_parts))
    return [slice(start, min(start + part_size, n)) for start in range(0, max(n, 1), part_size)]
