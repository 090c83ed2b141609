"""What holds of every study's cells: a run that was killed goes on where it stopped, and ends with the same bytes."""

import gzip
from collections.abc import Callable
from pathlib import Path

from benchmarks.cells import PACKED, RUNNING


def ends_with_the_same_bytes(
    run: Callable[[Path], object], ran: list, folder: Path, damage: Callable[[bytes], bytes] = lambda line: b"{}\n"
) -> object:
    """Run into a folder; then go on from parts of it. Returns what the whole run returns.

    ``ran`` takes in every cell that is run, and ``damage`` makes a line one that its study does not accept.
    """
    ran.clear()
    whole = run(folder / "whole")
    n_cells, packed = len(ran), (folder / "whole" / PACKED).read_bytes()
    assert not (folder / "whole" / RUNNING).exists()
    first, second, third, *_ = gzip.decompress(packed).splitlines(keepends=True)
    damaged = damage(second)
    assert damaged != second
    begun = {
        b"": 0, first: 1, first + second[:-7]: 1, first + third: 2, first + b"\xff\n" + third: 2,
        first + damaged + third: 2, first + damaged + second: 2,
    }  # fmt: skip
    for number, (content, n_whole) in enumerate(begun.items()):
        part = folder / f"part {number}"
        part.mkdir()
        (part / RUNNING).write_bytes(content)
        ran.clear()
        assert run(part) == whole
        assert len(ran) == n_cells - n_whole, "what is missing or damaged is run again, and nothing else"
        assert (part / PACKED).read_bytes() == packed
    ran.clear()
    assert run(folder / "whole") == whole
    assert not ran
    assert (folder / "whole" / PACKED).read_bytes() == packed
    return whole
