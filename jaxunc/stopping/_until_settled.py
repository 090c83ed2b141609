"""Classes of instances by as many trees of a forest as each of them needs."""

from typing import Any, NamedTuple, get_args

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int32

from jaxunc._checks import check_one_of, is_concrete, refuse_after_fork
from jaxunc.combiners import Combiner
from jaxunc.forest import Forest
from jaxunc.forest._given import check_is_forest
from jaxunc.routing import BoundForest, bind
from jaxunc.routing._drive import cores, spread
from jaxunc.routing._plan import Plan, make_plan
from jaxunc.routing._walk import Walk, block_size, default_walk, unrolled_depth
from jaxunc.tables import Columns
from jaxunc.tables._instances import as_instances

from ._by_rounds import hear_by_rounds
from ._critical_votes import check_max_trees
from ._judge import make_judge
from ._leader import Criterion, Population, leader_probability
from ._leaf_votes import leaf_votes
from ._prior import checked_prior
from ._rounds import hear_part
from ._rules import Rule, make_rule
from ._stop_after import StoppingResult

SIZES = (1024, 4096, 16384, 65536)
"""Instances of a compiled call."""

MOST_VALUES = 2**21
"""Values (instances times columns) of a compiled call."""

SMALL_BLOCKS = (256, 64)
"""Instances that are walked at a time where few are left."""
FEW = 512
"""Instances that one thread hears alone."""


class VoteResult(NamedTuple):
    """The vote for each instance, as far as it was heard."""

    predicted: Int32[np.ndarray, "instances"]
    """The class with most votes (its place in ``forest.class_labels``), the first of several; the first class of all
    where every tree abstained."""
    n_polled: Int32[np.ndarray, "instances"]
    """Trees heard, those that abstained among them."""
    settled: Bool[np.ndarray, "instances"]
    """Whether the vote was settled; else ``max_trees`` were heard."""
    probability: Float[np.ndarray, "instances"]
    """Of the class to win, by the criterion, given the votes heard, whether settled or not; in [0, 1].

    Of an infinite population "bound" is a lower bound, exact for two classes. Of a finite one, and by "certain", it is
    the probability that the class is that of all trees: exact for two classes, else 1 less a sum over rivals, or 0
    where that is more than 1. So it is 1 where nothing can change any more, and where all trees were heard."""
    votes: Int32[np.ndarray, "instances classes"]
    """The votes heard."""
    n_trees: int
    """Trees that might have been heard."""

    outputs = ("class", "trees_polled")
    """What `columns` knows."""

    def columns(self, output: str) -> dict[str, np.ndarray]:
        """The class; or how many trees were polled, and whether that settled the vote."""
        return {output: self.predicted} if output == "class" else {output: self.n_polled, "settled": self.settled}

    @property
    def saved(self) -> float:
        """The share of the trees that were not heard; NaN without instances."""
        return 1 - float(np.mean(self.n_polled)) / self.n_trees if len(self.n_polled) else float("nan")


def predict_until_settled(
    forest: Forest,
    X: Any,
    *,
    confidence: float = 0.99,
    max_trees: int | None = None,
    criterion: Criterion = "bound",
    population: Population = "infinite",
    prior=1.0,
) -> VoteResult:
    r"""Let the trees of a forest vote on each instance until the winner is settled, and walk no tree after that.

    A vote is settled once :math:`L(y^*|t) > \pi` for the class in the lead, as `stop_after` says it; the answer is that
    of `stop_after` on the trees' votes, bit for bit, whatever the number of instances. The error of the vote then
    differs from that of an ensemble without end by 1 - π at most, if the prior is right.

    Parameters
    ----------
    forest
        Trees grown independently of each other given the sample: bagging, random forests, extra-trees, random decision
        trees. A leaf votes for its largest class. In tree number t (from 0) a leaf in which k classes are tied votes
        for the one at place t mod k among these, and abstains if that are all classes, or it is empty.
    X
        Instances, as for `bind`.
    confidence, criterion, population, prior
        As for `stop_after`. The finite population, and ``"certain"``, are about the vote of all trees of the forest,
        also if fewer are heard.
    max_trees
        Trees that are heard at most; by default all.

    Returns
    -------
    VoteResult
        Class, trees heard, whether settled, probability, votes; ``.saved`` is the work saved.

    Raises
    ------
    TypeError
        If ``forest`` is no `Forest`; boosted models are refused, since their trees correct each other and do not vote.
    ValueError
        As `stop_after` and `bind`; if ``max_trees`` exceeds the forest's, or empty leaves are followed.

    Notes
    -----
    All trees' vote is that of ``criterion="certain"``. It is not the forest's own ``predict``, which of scikit-learn's
    is the largest mean of probabilities. With two classes it is the class of the rule `Vote` exactly, in which tied
    classes share a tree's vote. With more both differ where that share is decisive, and have the same winner in an
    ensemble without end: over the trees each tied class has the same number of votes, whatever the order of rows.

    A tree that abstains is heard, and says nothing of who wins; see `stop_after`.

    On CPU the votes are heard, the rule asked and settled instances dropped in one compiled program; on accelerators,
    and for the criteria that `stop_after` judges on the host, in rounds. Not traceable. `bind_vote` prepares a forest
    once for many calls.

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
    >>> heard = predict_until_settled(forest, X[1::2], confidence=0.99)
    >>> bool(heard.settled.mean() > 0.95), bool(heard.saved > 0.8)
    (True, True)
    """
    settings = {"confidence": confidence, "max_trees": max_trees, "criterion": criterion}
    return bind_vote(forest, **settings, population=population, prior=prior)(X)


def bind_vote(
    forest: Forest,
    *,
    confidence: float = 0.99,
    max_trees: int | None = None,
    criterion: Criterion = "bound",
    population: Population = "infinite",
    prior=1.0,
    threads: int | None = None,
    walk: Walk | None = None,
) -> "BoundVote":
    """Prepare a forest for `predict_until_settled`: tables made, trees packed. ``threads``, ``walk``: as for `bind`."""
    refuse_after_fork()
    _check_forest(forest)
    if threads is not None and threads < 1:
        raise ValueError(f"threads={threads} must be at least 1 (or None for one per core).")
    if walk is not None:
        check_one_of("walk", walk, get_args(Walk))
    max_trees = forest.n_trees if max_trees is None else max_trees
    check_max_trees(max_trees)
    if max_trees > forest.n_trees:
        raise ValueError(f"max_trees={max_trees}, but the forest has {forest.n_trees} trees.")
    whole = population == "finite" or criterion == "certain"
    n_trees = forest.n_trees if whole else int(max_trees)
    settings = (forest.n_classes, n_trees, confidence, criterion, population, prior)
    votes = leaf_votes(forest)
    rule = make_rule(*settings, abstaining=bool(np.any(votes == forest.n_classes)))
    kept = {"confidence": confidence, "max_trees": int(max_trees), "criterion": criterion, "population": population}
    rule = rule or make_judge(*settings)
    return BoundVote(forest, votes, rule, kept | {"prior": prior}, threads, walk or default_walk())


class BoundVote:
    """What `bind_vote` returns: call it on instances."""

    combiner = None
    """No rule of counts: the leaves' classes are counted as they are polled."""

    def __init__(self, forest: Forest, votes, rule, settings: dict[str, Any], threads: int | None, walk: Walk):
        self.forest, self.rule, self.settings = forest, rule, settings
        self.max_trees: int = settings["max_trees"]
        self.threads = threads or cores()
        self.walk: Walk = walk
        self._asked = settings["criterion"], settings["population"], checked_prior(settings["prior"], forest.n_classes)
        self._votes_of_nodes, self._plans = votes, {}

    def __call__(self, X: Any) -> VoteResult:
        """The votes for instances; X as for `predict_until_settled`."""
        if not is_concrete(X):
            raise TypeError("votes are dropped as they settle, on the host: call this outside of jit, or stop_after.")
        refuse_after_fork()
        values, missing = as_instances(X, self.forest.trees.columns)
        n_trees = self.forest.n_trees
        polled, predicted, settled, votes = map(np.asarray, self._hear(np.asarray(values), missing))
        probability = np.ones(len(polled), np.float32)
        rows = ~settled if self._asked[0] == "certain" else slice(None)
        probability[rows] = leader_probability(votes[rows], polled[rows], n_trees, *self._asked)
        return VoteResult(predicted, polled, settled, probability, votes, self.max_trees)

    answer = __call__

    @property
    def columns(self) -> Columns:
        """The columns of data."""
        return self.forest.trees.columns

    @property
    def class_labels(self) -> tuple:
        """The labels of the classes, in the order of votes."""
        return self.forest.class_labels

    def blank_answer(self) -> VoteResult:
        """An answer for one instance that says nothing: zeros of the right shapes and types."""
        zero = np.zeros(1, np.int32)
        votes = np.zeros((1, self.forest.n_classes), np.int32)
        return VoteResult(zero, zero, zero > 0, np.zeros(1, np.float32), votes, self.max_trees)

    def with_rule(self, combiner: Combiner) -> BoundForest:
        """The same forest bound to a rule."""
        return bind(self.forest, combiner, threads=self.threads, walk=self.walk)

    def _hear(self, x: np.ndarray, missing: bool) -> StoppingResult:
        plan, classes = self._plan(missing)
        if self.walk == "levels" or not isinstance(self.rule, Rule):
            depth = unrolled_depth(self.walk, self.forest.trees)
            how = {"missing": missing, "walk": self.walk, "depth": depth}
            return hear_by_rounds(plan, classes, self.forest.n_classes, self.rule, x, self.max_trees, **how)
        columns = x.shape[1] * (1 + missing)
        blocks = block_size("blocks", self.max_trees, columns)
        parts = _parts(len(x), columns, self.threads)

        def hear(part: slice) -> tuple:
            rows = x[part]
            size = next(size for size in SIZES if size >= len(rows))
            padded = np.pad(rows, ((0, size - len(rows)), (0, 0)))
            how = {"missing": missing, "blocks": tuple(b for b in (blocks, *SMALL_BLOCKS) if b <= min(size, blocks))}
            limits = np.int32(len(rows)), np.int32(self.max_trees)
            found = hear_part(plan, classes, self.rule, padded, *limits, **how)
            polled, settled, votes = (np.asarray(array)[..., : len(rows)] for array in found)
            return polled, settled, votes

        found = list(spread(self.threads if len(parts) > 1 else 1)(hear, parts))
        polled, settled, votes = (np.concatenate(arrays, axis=-1) for arrays in zip(*found, strict=True))
        votes = np.stack([polled - votes[0], votes[0]], axis=1) if len(votes) == 1 else votes.T
        return StoppingResult(polled, votes.argmax(axis=1).astype(np.int32), settled, votes)

    def _plan(self, missing: bool) -> tuple[Plan, Array]:
        """The packed trees, and the classes that places vote for."""
        if missing not in self._plans:
            plan = make_plan(self.forest.trees, missing=missing)
            self._plans[missing] = plan, plan.by_place(jnp.asarray(self._votes_of_nodes))
        return self._plans[missing]

    def __repr__(self) -> str:
        return f"BoundVote({self.forest!r}, max_trees={self.max_trees}, criterion={self._asked[0]!r})"


def _parts(n: int, columns: int, threads: int) -> list[slice]:
    """Equal parts, several for each thread if they would be too large."""
    largest = max((size for size in SIZES if size * columns <= MOST_VALUES), default=SIZES[0])
    number = 1 if n <= FEW else threads
    number *= max(1, -(-n // (number * largest)))
    size = max(1, -(-n // number))
    return [slice(start, min(start + size, n)) for start in range(0, max(n, 1), size)]


def _check_forest(forest) -> None:
    if not isinstance(forest, Forest):
        name = type(forest).__name__
        if any(word in name for word in ("Boost", "XGB", "LGBM", "Booster")):
            raise TypeError(
                f"forest is a {name}. The trees of a boosted model correct each other: they are not exchangeable and "
                "do not vote, so no number of them settles the answer of the rest."
            )
        check_is_forest(forest)
    if not is_concrete(forest):
        raise TypeError("the forest is traced; votes are dropped on the host: call this outside of jit.")
    if forest.follows_forks:
        raise ValueError(
            f"empty leaves of the mode {forest.empty_leaves!r} lead to several leaves, which have no one vote; choose "
            "forest.with_empty_leaves('parent') or 'zeros'."
        )
