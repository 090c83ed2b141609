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
"""Function (whether missing values are told apart, rows, tree mask or None) → (answers, mark). On a mesh it returns
several marks, one for the rows of each position along 'data'."""


def in_blocks(
    answer_block: Callable[..., PyTree], block: int, x: Shaped[Array, "instances features"], *beside: Any
) -> tuple[PyTree, Array]:
    """Return (answers of ``answer_block`` for the rows ``x``, made for at most ``block`` at a time, mark of the rows).

    ``answer_block`` takes float32 rows, and the same rows of each array in ``beside``, such as a tree mask, or None for
    None. A number among its answers stands for all rows. ``x`` has a row at least: batches without rows are padded
    before (`device_parts`).
    """
    n = len(x)
    size = ceil_div(n, ceil_div(n, block))  # blocks of equal size, as few as possible

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

    def write(carry, start, _):
        update = lambda whole, part: lax.dynamic_update_slice_in_dim(whole, part, start, 0) if part.ndim else part
        answers, mark = answer_at(start)
        return jax.tree.map(update, carry[0], answers), jnp.maximum(carry[1], mark)

    blank = lambda part: jnp.zeros((n, *part.shape[1:]) if part.ndim else (), part.dtype)
    return over_blocks(write, jax.tree.map(blank, jax.eval_shape(answer_at, 0)), n, size)


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

    Answers for rows of the host are NumPy arrays, unless there is one part without padding. If the caller has looked at
    the values, the program's first answers are returned; else their mark decides:

    | ``missing`` | ``guess`` | missing values told apart | finite | missing | infinite |
    |---|---|---|---|---|---|
    | True, False | | if ``missing`` | answers | answers | answers |
    | None | True | yes | answers | answers | error |
    | None | False | no | answers | a second call, as if by the row above | error |

    Parameters
    ----------
    program
        The program.
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
        Number of devices that run the program. Rows that lie on exactly so many devices are answered there; others go
        through the host.
    least
        Number of rows of the smallest program for rows of the host.

    Raises
    ------
    ValueError
        If values are infinite or too large for float32; only for ``missing=None``.
    """
    cut_in_parts = partial(device_parts, row_bytes=row_bytes, least=least)

    def answer(tells_missing: bool, refused: int) -> tuple[PyTree, int]:
        """Return (answers, mark) of the program; with a mark of ``refused`` or more answers may be None."""
        return _answer(partial(program, tells_missing), values, mask, cut_in_parts, refused, n_devices)

    with outside_traces():
        if missing is not None:
            return answer(missing, BEYOND + 1)[0], missing
        answers, mark = answer(guess, BEYOND if guess else MISSING)
        if mark == MISSING and not guess:
            answers, mark = answer(True, BEYOND)
        if mark == BEYOND:
            refuse_infinite(values)
        return answers, mark == MISSING


def _answer(
    run: Callable, values: Any, mask: Any, cut_in_parts: Callable, refused: int, n_devices: int
) -> tuple[PyTree, int]:
    """Return (answers, mark) of all rows ``values``; if the mark is ``refused`` or more the answers may be None.

    ``run(rows, mask)`` is a `Program` without its first argument. One call of it answers rows that lie on ``n_devices``
    devices. Other rows are answered in the parts that ``cut_in_parts(rows)`` returns.
    """
    if isinstance(values, jax.Array) and len(values) and len(values.devices()) == n_devices:
        # JAX refuses a mask on another device than the rows'.
        is_beside = isinstance(mask, jax.Array) and mask.devices() == values.devices()
        answer, mark = run(values, mask if mask is None or is_beside else np.asarray(mask))
        return answer, _largest_mark(mark)
    values = values if isinstance(values, SparseRows) else np.asarray(values)
    mask, parts = None if mask is None else np.asarray(mask), cut_in_parts(values)
    largest_mark, answers = FINITE, []
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
    """Return the mark of all rows as an integer: the largest, if a mesh returned several marks."""
    return int(np.asarray(mark).max() if mark.ndim else mark)


def _one_ahead(score: Callable[[Part], Any], parts: list[Part]) -> Iterator[tuple[Part, Any]]:
    """Yield (part, ``score(part)``) for each part; the call for the next part is made before a result is yielded.

    So the device computes the next part while the caller fetches the result.
    """
    queue: deque[tuple[Part, Any]] = deque()
    for part in parts:
        queue.append((part, score(part)))
        if len(queue) > 1:
            yield queue.popleft()
    yield from queue


def device_parts(values: np.ndarray | SparseRows, row_bytes: int, least: int = LEAST_ROWS) -> list[Part]:
    """Return the parts in which rows of the host are sent, each of as many rows as `TRANSFER_BYTES` allow.

    All but the last have a power of two rows; the last is padded to a `padded_size`, ``least`` rows or more. A row, its
    mask and its answer take ``row_bytes``.
    """
    most_rows = max(TRANSFER_BYTES // row_bytes, 1)
    if isinstance(values, SparseRows):
        most_rows = min(most_rows, max(MOST_DENSE // max(values.shape[1], 1), 1))
    most_rows = power_of_two(most_rows + 1) // 2  # rounded down to a power of two
    bounds = [(start, min(start + most_rows, len(values))) for start in range(0, max(len(values), 1), most_rows)]
    # A chunk is one block, since the program itself goes block by block.
    return [Part(start, stop, Chunk(*[min(padded_size(stop - start, least), most_rows)] * 2)) for start, stop in bounds]


def padded_size(n: int, least: int = LEAST_ROWS) -> int:
    """Return the number of rows, ``least`` or more, that ``n`` rows are padded to; four sizes to each power of two."""
    return max(least, multiple_of(max(power_of_two(n) // 8, 1), n))
