"""The two-dimensional problem of Hernández-Lobato et al. 2011, section 2.2: where votes take long to settle.

The paper's circle has "radius √2", which holds the whole square; √(2/π), which halves it, is taken here.
"""

import numpy as np

from benchmarks.papers.hernandez_lobato2011_problems import Split
from benchmarks.papers.hernandez_lobato2011_votes import CHUNK, large_ensemble, tree_votes
from jaxunc import voting

N_TRAIN, N_GRID, NOISE = 300, 51, 0.05
RADIUS = (2 / np.pi) ** 0.5
AXIS = np.linspace(-1, 1, N_GRID)


def circle(repeat: int) -> Split:
    """Training instances in the square, of which a twentieth has the other class, and the grid's points."""
    rng = np.random.default_rng(repeat)
    X = rng.uniform(-1, 1, (N_TRAIN, 2))
    flipped = rng.permutation(N_TRAIN) < round(NOISE * N_TRAIN)
    vertical, horizontal = np.meshgrid(AXIS, AXIS, indexing="ij")
    grid = np.stack([horizontal.ravel(), vertical.ravel()], axis=1)
    return Split(X, (_outside(X) ^ flipped).astype(int), grid, _outside(grid).astype(int))


def _outside(X: np.ndarray) -> np.ndarray:
    return (X**2).sum(axis=1) > RADIUS**2


def trees_needed(repeat: int, n_trees: int, confidence: float) -> list[int]:
    """Bagged trees polled for each point of the grid, row by row; -1 where the vote was not settled."""
    split = circle(repeat)
    seeds = np.random.SeedSequence([repeat]).generate_state(-(-n_trees // CHUNK))
    votes = [tree_votes(forest, split.X_test) for forest in large_ensemble(split, "bagging", n_trees, seeds)]
    stopped = voting.stop_after(np.concatenate(votes, axis=1), 2, confidence=confidence)
    return np.where(np.asarray(stopped.settled), np.asarray(stopped.n_trees_used), -1).tolist()
