"""Entropies as integers, so that gains which are equal are equal on every machine."""

from functools import lru_cache

import numpy as np
from jaxtyping import Int64

from jaxunc._numerics import power_of_two

MOST_BITS = 40
"""Number of binary places of a logarithm; 2¹⁷ instances have room for them in 64 bits."""

MOST_INSTANCES = 2**26
"""Largest number of instances: beyond it, too few places would be left to tell gains apart."""


def entropy_table(n: int) -> Int64[np.ndarray, " counts"]:
    r"""Return the integers :math:`F(i)\approx 2^b\, i\log_2 i` for i = 0 … n, with logarithms that add up exactly.

    .. math:: F(i) = i\sum_p v_p(i)\,\mathrm{round}(2^b\log_2 p)

    over the primes p, v_p(i) being how often p divides i. So log(ab) = log a + log b holds to the last bit. Two tests
    have the same sum of F exactly where their gains are the same number, as long as primes are independent.

    Parameters
    ----------
    n
        The largest count. b is 40 up to 2¹⁷, and less beyond: F(n) stays below 2⁶², so that no difference of sums of F
        overflows.

    Raises
    ------
    ValueError
        If n exceeds 2²⁶.

    Examples
    --------
    >>> table = entropy_table(12)
    >>> int(table[8]) == 8 * 3 * 2**40, int(table[12] // 12) == int(table[3] // 3 + table[4] // 4)
    (True, True)
    """
    if n > MOST_INSTANCES:
        raise ValueError(f"{n} instances are more than exact gains are made for (2**26); draw a sample of them.")
    # Tables by powers of two, so that few are kept; the places follow the size, as all counts of a set share one table.
    return _table(power_of_two(int(n), 64))[: n + 1]


def binary_places(n: int) -> int:
    """Return b for a table of n: as many places as leave F(n) below 2⁶²."""
    return int(min(MOST_BITS, np.floor(62 - np.log2(n) - np.log2(np.log2(n)))))


@lru_cache(maxsize=4)
def _table(size: int) -> np.ndarray:
    places = binary_places(size)
    logs = np.zeros(size + 1, np.int64)
    composite = np.zeros(size + 1, bool)
    for p in range(2, int(size**0.5) + 1):
        if not composite[p]:
            composite[p * p :: p] = True
    for p in np.flatnonzero(~composite[2:]) + 2:
        # Only primes have rounded logarithms. Those of other numbers are sums of them, p once for each power that
        # divides.
        log, power = int(np.rint(np.log2(float(p)) * 2.0**places)), int(p)
        while power <= size:
            logs[power::power] += log
            power *= int(p)
    table = logs * np.arange(size + 1)
    table.flags.writeable = False
    return table
