"""Belief functions on all subsets of the classes, straight from the definitions, as float64 dictionaries."""

import itertools
import math
from functools import reduce

import numpy as np

from tests._reference import conjunctive


def commonality(masses) -> np.ndarray:
    """The mass of the sets that contain a class, and of Ω ``[... classes+1]``."""
    masses = np.asarray(masses, float)
    return np.concatenate([masses[..., 1:-1] + masses[..., -1:], masses[..., -1:]], axis=-1)


def subsets(n_classes: int) -> list[frozenset]:
    """All sets of classes."""
    return [frozenset(s) for size in range(n_classes + 1) for s in itertools.combinations(range(n_classes), size)]


def as_sets(masses) -> dict[frozenset, float]:
    """[∅, singletons, Ω] as a mass per set."""
    n_classes = len(masses) - 2
    named = [frozenset(), *(frozenset({c}) for c in range(n_classes)), frozenset(range(n_classes))]
    return {**dict.fromkeys(subsets(n_classes), 0.0), **dict(zip(named, map(float, masses), strict=True))}


def as_array(mass: dict[frozenset, float]) -> np.ndarray:
    """[∅, singletons, Ω]; the other sets must have no mass."""
    n_classes = max(map(len, mass))
    named = [frozenset(), *(frozenset({c}) for c in range(n_classes)), frozenset(range(n_classes))]
    assert all(abs(m) < 1e-12 for a, m in mass.items() if a not in named)
    return np.array([mass[a] for a in named])


def dempster(masses) -> np.ndarray:
    """The conjunctive rule over the leading axis."""
    return as_array(reduce(conjunctive, map(as_sets, masses)))


def commonalities(mass: dict[frozenset, float]) -> dict[frozenset, float]:
    """q(A) = Σ m(B) over B ⊇ A."""
    return {a: sum(m for b, m in mass.items() if b >= a) for a in mass}


def canonical_weights(mass: dict[frozenset, float]) -> dict[frozenset, float]:
    """w(A) = Π q(B)^((-1)^(\\|B\\|-\\|A\\|+1)) over B ⊇ A, for A ≠ Ω."""
    q = commonalities(mass)
    full = max(q, key=len)
    return {a: math.prod(q[b] ** (-1) ** (len(b) - len(a) + 1) for b in q if b >= a) for a in q if a != full}


def cautious(masses) -> np.ndarray:
    """The smallest weight of every set, recombined from (generalised) simple masses."""
    weights = [canonical_weights(as_sets(m)) for m in masses]
    full = frozenset(range(len(masses[0]) - 2))
    smallest = {a: min(w[a] for w in weights) for a in weights[0]}
    nothing = {**dict.fromkeys([*smallest, full], 0.0), full: 1.0}
    return as_array(reduce(conjunctive, ({**nothing, a: 1 - w, full: w} for a, w in smallest.items())))


def random_masses(rng, shape: tuple[int, ...], n_classes: int) -> np.ndarray:
    """Masses with some zeros, none of them Ω's, exact in float32 (multiples of 2⁻¹²)."""
    shares = rng.dirichlet(np.full(n_classes + 2, 0.7), size=shape) * (rng.random((*shape, n_classes + 2)) < 0.8)
    masses = np.floor(shares * 4000) / 4096
    masses[..., -1] = 1 - masses[..., :-1].sum(axis=-1)
    return masses
