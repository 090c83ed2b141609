"""Calls of an accelerator: a batch of any size is answered by one program, which also looks for missing values.

    rows of the host      --parts, sent ahead-->  program  --fetched, trimmed, joined-->  answers
    rows on the device    --------------------->  program  --------------------------->  answers

The program goes block by block (`in_blocks`), so that its memory does not grow with the batch. It returns the answers
and a *mark*: the largest mark of its values (finite, missing or infinite). The host neither reads the data before, nor
slices or joins them on the device. For rows on the device a program is compiled for their number. Rows of the host are
padded to one of few sizes, about a quarter apart (`padded_size`).
"""

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, PyTree, Shaped

from jaxunc._checks import outside_traces
from jaxunc._numerics import ceil_div, multiple_of, power_of_two
from jaxunc.tables import SparseRows, refuse_infinite

from ._drive import MOST_DENSE, Chunk, Part, join_parts, trim
from ._walk import over_blocks

TRANSFER_BYTES = 2**28
"""Most bytes of a part: its rows, their masks and their answers. Two parts are on the device at a time."""

LEAST_ROWS = 1024
"""Fewest rows of a program for rows of the host, padding included: fewer take as long."""

FINITE, MISSING, BEYOND = 0, 1, 2
"""Marks of rows: all values are finite, some are NaN, some are infinite. The mark is the largest that a value has."""

Program: TypeAlias = Callable[[bool, Any, Any], tuple[PyTree, Array]]
"""Function (whether missing values are told apart, rows, tree mask or None) → (answers, mark). On a mesh the mark is
an array: one for the rows of each position along 'data'."""


def in_blocks(
    answer_block: Callable[..., PyTree], block: int, x: Shaped[Array, "instances features"], *beside: Any
) -> tuple[PyTree, Array]:
    """Return (answers of ``answer_block`` for the rows ``x``, mark of the rows), at most ``block`` rows at a time.

    ``answer_block`` takes float32 rows, and behind them the same rows of each array ``beside``, such as a tree mask;
    None is passed on as it is. A number among its answers stands for all rows. ``x`` has at least one row.
    """
    n = len(x)
    n_blocks = ceil_div(n, block)
    size = ceil_div(n, n_blocks)  # blocks of equal size, as few as possible

    def answer(x, *beside):
        x = x.astype(jnp.float32)
        marks = jnp.where(jnp.isinf(x), BEYOND, jnp.isnan(x).astype(np.int32))
        # A reduction that starts at the least mark: `jnp.max` would take another kernel to compare with it.
        return answer_block(x, *beside), lax.reduce(marks, np.int32(FINITE), lax.max, (0, 1))

    if size == n:
        return answer(x, *beside)

    def answer_at(start):
        rows_of = lambda array: None if array is None else lax.dynamic_slice_in_dim(array, start, size)
        return answer(rows_of(x), *map(rows_of, beside))

    def write_block(carry, start, _):
        """Return (answers of all rows, largest mark so far) with the block at ``start`` written and counted."""
        all_answers, largest_mark = carry
        answers, mark = answer_at(start)

        def write(whole, block_rows):
            if block_rows.ndim == 0:
                return block_rows
            return lax.dynamic_update_slice_in_dim(whole, block_rows, start, 0)

        return jax.tree.map(write, all_answers, answers), jnp.maximum(largest_mark, mark)

    def blank(block_rows):
        return jnp.zeros((n, *block_rows.shape[1:]) if block_rows.ndim else (), block_rows.dtype)

    first_carry = jax.tree.map(blank, jax.eval_shape(answer_at, 0))  # (answers, mark): a mark of 0 is `FINITE`
    return over_blocks(write_block, first_carry, n, size)


def answer_on_device(
    program: Program,
    values: Any,
    mask: Any,
    row_bytes: int,
    *,
    missing: bool | None,
    guess: bool = False,
    n_devices: int = 1,
    least: int = LEAST_ROWS,
) -> tuple[PyTree, bool]:
    """Return (answers, whether any value is missing) for rows of the host or of a device.

    Answers for rows of the host are NumPy arrays, unless a single part without padding holds all rows. The program is
    called once if the caller has looked at the values; else the mark of its first answers decides:

    | ``missing`` | ``guess`` | missing values told apart | finite | missing | infinite |
    |---|---|---|---|---|---|
    | True, False | | if ``missing`` | answers | answers | answers |
    | None | True | yes | answers | answers | error |
    | None | False | no | answers | a second call, as if by the row above | error |

    Parameters
    ----------
    program
        The program that answers: its first argument says whether missing values are told apart.
    values
        The rows, dense or `SparseRows`.
    mask
        Which trees count for which instance, or None.
    row_bytes
        Bytes of a row, its mask and its answer.
    missing
        Whether values are missing; None if no value was looked at.
    guess
        Whether values are probably missing, for ``missing=None``.
    n_devices
        Number of devices that run the program. Rows on exactly so many devices stay there; others go through the host.
    least
        Number of rows of the smallest program for rows of the host.

    Raises
    ------
    ValueError
        If values are infinite or too large for float32; only for ``missing=None``.
    """
    cut_in_parts = partial(device_parts, row_bytes=row_bytes, least=least)

    def answer(*, tells_missing: bool, refused: int) -> tuple[PyTree, int]:
        """Return (answers, mark) of the program; with a mark of ``refused`` or more answers may be None."""
        return _answer(partial(program, tells_missing), values, mask, cut_in_parts, refused, n_devices)

    with outside_traces():
        if missing is not None:
            answers, _ = answer(tells_missing=missing, refused=BEYOND + 1)  # no mark is refused
            return answers, missing
        answers, mark = answer(tells_missing=guess, refused=BEYOND if guess else MISSING)
        if mark == MISSING and not guess:
            answers, mark = answer(tells_missing=True, refused=BEYOND)
        if mark == BEYOND:
            refuse_infinite(values)
        return answers, mark == MISSING


def _answer(
    run: Callable, values: Any, mask: Any, cut_in_parts: Callable, refused: int, n_devices: int
) -> tuple[PyTree, int]:
    """Return (answers, mark) of all rows ``values``; if the mark is ``refused`` or more, the answers may be None.

    ``run(rows, mask)`` is a `Program` without its first argument. Rows on exactly ``n_devices`` devices are answered by
    one call, others in the parts that ``cut_in_parts(rows)`` returns.
    """
    if isinstance(values, jax.Array) and len(values) and len(values.devices()) == n_devices:
        # JAX refuses a mask on another device than the rows'.
        is_beside = isinstance(mask, jax.Array) and mask.devices() == values.devices()
        answer, mark = run(values, mask if mask is None or is_beside else np.asarray(mask))
        return answer, _largest_mark(mark)
    values = values if isinstance(values, SparseRows) else np.asarray(values)
    mask = None if mask is None else np.asarray(mask)
    parts = cut_in_parts(values)
    largest_mark = FINITE
    answers = []
    for part, (answer, mark) in _one_ahead(lambda part: run(part.of(values), part.of(mask)), parts):
        if len(parts) == 1 and part.is_full:  # nothing to trim or to join: the answer stays on the device
            return answer, _largest_mark(mark)
        answer, mark = jax.device_get((answer, mark))
        largest_mark = max(largest_mark, _largest_mark(mark))
        if largest_mark >= refused:
            return None, largest_mark
        answers.append(trim(answer, part))
    return answers[0] if len(answers) == 1 else jax.tree.map(join_parts, *answers), largest_mark


def _largest_mark(mark: Any) -> int:
    """Return a program's ``mark`` as an integer: the largest one, if a mesh has returned an array of marks."""
    return int(np.asarray(mark).max() if mark.ndim else mark)


def _one_ahead(score: Callable[[Part], Any], parts: list[Part]) -> Iterator[tuple[Part, Any]]:
    """Yield (part, ``score(part)``) for each of ``parts``, in order; ``score`` is called one part ahead."""
    # So the device computes the next part while the caller fetches a result.
    queue: deque[tuple[Part, Any]] = deque()
    for part in parts:
        queue.append((part, score(part)))
        if len(queue) > 1:
            yield queue.popleft()
    yield from queue


def device_parts(values: np.ndarray | SparseRows, row_bytes: int, least: int = LEAST_ROWS) -> list[Part]:
    """Return the parts in which the rows ``values`` of the host are sent to a device.

    All but the last have as many rows, a power of two, as `TRANSFER_BYTES` allow (for sparse rows also `MOST_DENSE`). A
    row, its mask and its answer take ``row_bytes``. The last part is padded to `padded_size`, ``least`` or more.
    """
    most_rows = max(TRANSFER_BYTES // row_bytes, 1)
    if isinstance(values, SparseRows):
        most_rows = min(most_rows, max(MOST_DENSE // max(values.shape[1], 1), 1))
    most_rows = power_of_two(most_rows + 1) // 2  # rounded down to a power of two
    parts = []
    for start in range(0, max(len(values), 1), most_rows):
        stop = min(start + most_rows, len(values))
        size = min(padded_size(stop - start, least), most_rows)
        # A chunk is one block, since the program itself goes block by block.
        parts.append(Part(start, stop, Chunk(rows=size, block=size)))
    return parts


def padded_size(n: int, least: int = LEAST_ROWS) -> int:
    """Return the number of rows to which ``n`` rows are padded, at least ``least``."""
    # Four sizes from a power of two to the next, so that few programs are compiled.
    step = max(power_of_two(n) // 8, 1)
    return max(least, multiple_of(step, n))
