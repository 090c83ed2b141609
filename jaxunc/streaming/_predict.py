"""From files to a folder of files: atomic parts and a manifest, so that a run that was killed goes on where it was."""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as parquet

from jaxunc._checks import check_one_of
from jaxunc._version import __version__
from jaxunc.storage import load
from jaxunc.tables import Encoded

from ._outputs import Outputs
from ._source import PARQUET, Wanted, data_files, file_tables
from ._stream import CHUNK_ROWS, ahead, answered, behind, checked_wanted, encoded_rows
from ._write import FORMATS, PartWriter

PART_CHUNKS = 8
"""Chunks in a part."""
MANIFEST = "_manifest.json"
"""Readers of folders pass over names that start so."""


class Progress(NamedTuple):
    """How far a run is."""

    rows: int
    """Scored so far, those of an earlier run that was cut short among them."""
    total: int | None
    """Of all files; None if that is not known before they are read."""
    seconds: float
    """Since the run began."""
    rows_per_second: float
    """Of this run."""


class _Piece(NamedTuple):
    """Rows of one part, read and encoded; none at the end of a file."""

    file: int
    part: int
    table: pa.Table | None
    rows: Encoded | None


def predict_files(
    model: str | Path,
    source: str | Path | Sequence[str | Path],
    output: str | Path,
    *,
    outputs: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
    keep: Sequence[str] = (),
    s: float = 1.0,
    confidence: float = 0.99,
    file_format: str = "parquet",
    known: Sequence[Any] = (),
    progress: Callable[[Progress], None] | None = None,
    chunk_rows: int = CHUNK_ROWS,
) -> dict[str, Any]:
    """Score files with a saved model into a folder of files: reading, encoding, scoring and writing side by side.

    Parameters
    ----------
    model
        A file of `jaxunc.save`.
    source
        A file, a folder, or a list of files: see `stream`.
    output
        The folder. It holds ``part-FILE-PART`` for every 8 chunks of every file, and ``_manifest.json``, which says
        what was scored by what into which part. Where it is the folder of the same run, cut short, that goes on.
    outputs, features, keep, s, confidence, chunk_rows
        As for `stream`.
    file_format
        ``"parquet"`` or ``"csv"`` (sets as ``a|b``).
    known
        As for `jaxunc.load`.
    progress
        Called after every chunk.

    Returns
    -------
    dict
        The manifest.

    Raises
    ------
    TypeError, ValueError
        As `jaxunc.load` and `stream`; if the folder holds something else, or was made from other data, by another model
        or other settings, or lies within the data's.
    OSError
        If the folder cannot be written, or the disk is full.

    Notes
    -----
    Memory does not grow with the data. A part is there as a whole or not at all; a run that was killed, however often,
    ends with the same bytes as one that was not.
    """
    check_one_of("file_format", file_format, tuple(FORMATS))
    loaded, files = load(model, known=known), data_files(source)
    asked = Outputs(loaded, outputs, s=s, confidence=confidence)
    wanted = checked_wanted(asked, features, keep)
    settings = {
        "outputs": None if outputs is None else list(outputs),
        "features": None if features is None else list(features),
        "keep": list(keep),
        "s": s,
        "confidence": confidence,
        "file_format": file_format,
        "chunk_rows": chunk_rows,
    }
    run = _Run(Path(output), _identity(model, source, files, settings))
    run.open(files)
    write, started = PartWriter(run.folder, file_format, run.finish), time.perf_counter()
    total, before = _rows_of(files), run.rows
    rows = before
    with behind(write) as writer:
        for piece in ahead(_pieces(asked, wanted, files, run, chunk_rows)):
            name = f"part-{piece.file:05d}-{piece.part:05d}"
            if piece.table is None or piece.rows is None:
                writer(name, piece.file, None)
                continue
            writer(name, piece.file, _answers(asked, wanted, piece.table, piece.rows))
            rows += piece.table.num_rows
            if progress is not None:
                seconds = time.perf_counter() - started
                progress(Progress(rows, total, seconds, (rows - before) / max(seconds, 1e-9)))
    return run.complete()


def _answers(asked: Outputs, wanted: Wanted, table: pa.Table, rows: Encoded) -> Callable[[], pa.Table]:
    """Scored now; made into columns by the thread that writes them."""
    answers = asked.ask(rows)
    return lambda: answered(table, wanted, asked.columns(answers))


def _pieces(asked: Outputs, wanted: Wanted, files: list[Path], run: "_Run", chunk_rows: int) -> Iterator[_Piece]:
    most = PART_CHUNKS * chunk_rows
    for i, file in enumerate(files):
        done = run.done(i)
        if done and done[-1] < most:
            continue
        part, number, is_open = len(done), 0, False
        for table in file_tables(file, wanted, chunk_rows, sum(done)):
            yield _Piece(i, part, table, encoded_rows(asked, wanted, table, str(file)))
            number, is_open = number + table.num_rows, True
            if number == most:
                yield _Piece(i, part, None, None)
                part, number, is_open = part + 1, 0, False
        if is_open:
            yield _Piece(i, part, None, None)


class _Run:
    """The folder of a run: what it is made of, and which parts are finished."""

    def __init__(self, folder: Path, identity: dict[str, Any]):
        self.folder, self._identity = folder, identity
        self._parts: list[dict[str, Any]] = []

    def open(self, files: list[Path]) -> None:
        """Make the folder, or find what is finished in it."""
        inside = self.folder.resolve()
        if any(inside in file.resolve().parents for file in files):
            raise ValueError(f"the output {self.folder} holds data that are to be scored; choose another folder.")
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / MANIFEST
        if path.exists():
            self._parts = [part for part in self._checked(path)["parts"] if self._is_there(part)]
        elif found := sorted(file.name for file in self.folder.iterdir() if not file.name.startswith(".")):
            raise ValueError(
                f"the output {self.folder} holds other files ({found[:3]}) and no {MANIFEST}; choose an empty folder."
            )
        for left in self.folder.glob(".part-*"):
            left.unlink()
        self._write(False)

    def _checked(self, path: Path) -> dict[str, Any]:
        try:
            manifest = json.loads(path.read_text(encoding="utf-8"))
            other = sorted(key for key in self._identity if manifest.get(key) != self._identity[key])
            list(manifest["parts"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} is no manifest of jaxunc ({error}); choose another folder.") from error
        if other:
            raise ValueError(
                f"the output {self.folder} is of another run: it differs in {', '.join(other)}. Choose another folder, "
                "or delete this one."
            )
        return manifest

    def _is_there(self, part: dict[str, Any]) -> bool:
        path = self.folder / part["name"]
        return path.exists() and path.stat().st_size == part["bytes"]

    def done(self, file: int) -> list[int]:
        """The rows of the first parts of a file that are finished without a gap."""
        parts = {part["name"]: part["rows"] for part in self._parts if part["file"] == file}
        rows = []
        for name in sorted(parts):
            if not name.startswith(f"part-{file:05d}-{len(rows):05d}."):
                break
            rows.append(parts[name])
        return rows

    @property
    def rows(self) -> int:
        """Rows of all parts that are finished."""
        return sum(part["rows"] for part in self._parts)

    def finish(self, name: str, file: int, rows: int) -> None:
        """A part is in its place."""
        size = (self.folder / name).stat().st_size
        self._parts = [part for part in self._parts if part["name"] != name]
        self._parts.append({"name": name, "file": file, "rows": rows, "bytes": size})
        self._write(False)

    def complete(self) -> dict[str, Any]:
        """All parts are in their places."""
        return self._write(True)

    def _write(self, complete: bool) -> dict[str, Any]:
        parts = sorted(self._parts, key=lambda part: part["name"])
        manifest = {**self._identity, "rows": self.rows, "complete": complete, "parts": parts}
        text = json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"
        temporary = self.folder / f".{MANIFEST}.{os.getpid()}"
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, self.folder / MANIFEST)
        return manifest


def _identity(model: str | Path, source: Any, files: list[Path], settings: dict[str, Any]) -> dict[str, Any]:
    with open(model, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    root = Path(source) if isinstance(source, str | Path) else None
    inputs = []
    for path in files:
        status = path.stat()
        name = str(path.relative_to(root)) if root is not None and root.is_dir() else path.name
        inputs.append({"name": name, "bytes": status.st_size, "modified": status.st_mtime_ns})
    return {"jaxunc": __version__, "model": digest, "settings": settings, "inputs": inputs}


def _rows_of(files: list[Path]) -> int | None:
    if not all(file.name.lower().endswith(PARQUET) for file in files):
        return None
    try:
        return sum(parquet.read_metadata(file).num_rows for file in files)
    except (pa.ArrowInvalid, OSError):
        return None  # which one cannot be read is said when it is its turn
