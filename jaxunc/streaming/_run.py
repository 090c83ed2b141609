"""The folder of a run of `predict_files`: its manifest, its finished parts, and its lock.

A part is a file of answers. The manifest names the model, the settings, the data and the finished parts. `Run.open`
compares the manifest of an earlier run with the run that begins, keeps the parts that are still right, and removes all
others. Anyone may have written the manifest: names and numbers that no run writes are refused. A lock of the operating
system, which ends with its process, keeps other runs from writing to the folder.
"""

import hashlib
import importlib
import json
import os
import re
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as parquet

from jaxunc._checks import warn
from jaxunc._version import __version__

from ._chunks import rows_in
from ._sources import is_same_file, is_within

MANIFEST = "_manifest.json"  # name of the manifest; readers of folders pass over names that start with an underscore
LEAST_BUDGET = 2**24  # bytes that a manifest may have in any case
ENTRY_BYTES = 2**10  # further bytes that it may have for each file of the data and of the folder
_PART = re.compile(r"part-(\d{5,})-(\d{5,})\.(parquet|csv)", re.ASCII)  # a part's name: positions of file and part
LOCK = ".lock"  # name of the file that is locked; a run removes it at its end, and that of a killed run is not locked


def refuse_overlap(output: Path, source: str | Path | Sequence[str | Path], model: str | Path) -> None:
    """Raise a ValueError if ``output`` is a file, such as the ``model``'s, or is a path of ``source`` or within one."""
    if output.is_file() or is_same_file(output, model):
        raise ValueError(f"the output {output} is a file; name a folder, which holds the answers alone.")
    paths = [source] if isinstance(source, str | Path) else source
    for path in paths:
        if is_same_file(output, path):
            raise ValueError(f"the output {output} holds data that are to be scored; choose another folder.")
        if Path(path).is_dir() and is_within(output, path):
            raise ValueError(
                f"the output {output} lies within the data {path}: the next run would score it, too. Choose a folder "
                "beside it."
            )


class Run:
    """The output ``folder`` of a run of `predict_files` over the data ``files``, with its manifest and finished parts.

    ``identity`` is what `identity_of` returns for the run. Each part has ``part_rows`` rows; the last part of a data
    file may have fewer.
    """

    def __init__(self, folder: Path, identity: dict[str, Any], files: list[Path], part_rows: int):
        self.folder, self.files = folder, files
        self._part_rows, self._identity = part_rows, identity
        self._parts: list[dict[str, Any]] = []  # the manifest's entries of the finished parts
        self._first_types: dict[str, tuple[pa.DataType, Path]] = {}
        """By the name of a kept column: the type that all parts give it, and the first file that had the column."""

    def make_folder(self) -> None:
        """Make the folder; raise a ValueError if it holds data to score, or other files but no manifest."""
        if any(is_within(file, self.folder) for file in self.files):
            raise ValueError(f"the output {self.folder} holds data that are to be scored; choose another folder.")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise ValueError(f"the output {self.folder} is no folder, or lies in a file; choose a folder.") from error
        if not os.path.lexists(self.folder / MANIFEST):
            names = sorted(file.name for file in self.folder.iterdir() if not file.name.startswith("."))
            if names:
                raise ValueError(
                    f"the output {self.folder} holds other files ({names[:3]}) and no {MANIFEST}; choose an empty "
                    "folder."
                )

    def open(self) -> None:
        """Take over the finished parts that an earlier run left in the folder, and remove all other parts.

        Parts of data files that have changed are removed, and so are temporary files. Raises a ValueError for a folder
        of another run, or a damaged manifest.
        """
        path = self.folder / MANIFEST
        if os.path.lexists(path):
            try:
                manifest = read_manifest(path, len(self.files))
                changed_files = self._compare(manifest)
                parts = [
                    part for part in manifest["parts"] if part["file"] not in changed_files and self._is_there(part)
                ]
                self._parts = _without_gaps(parts)
                self._check_finished_parts()
            except DamagedError as error:
                raise ValueError(f"{path} is no manifest of jaxunc: {error}. Choose another folder.") from error
            names = {part["name"] for part in self._parts}
            for leftover in self.folder.iterdir():
                if part_of(leftover.name) is not None and leftover.name not in names:
                    leftover.unlink()
        for pattern in (".part-*", f".{MANIFEST}.*"):
            for leftover in self.folder.glob(pattern):
                leftover.unlink()
        self._write(complete=False)

    def _compare(self, manifest: dict[str, Any]) -> set[int]:
        """Compare the ``manifest`` of an earlier run with this run; return the positions of data files that changed.

        This run's data files are put in the manifest's order, new files last: parts are named by positions. Raises a
        ValueError if the manifest has parts, and is of a run of another model, other settings or data files that are
        gone.
        """
        old_inputs = manifest["inputs"]
        new_inputs = self._identity["inputs"]
        old_names = [entry["name"] for entry in old_inputs]
        new_names = [entry["name"] for entry in new_inputs]
        diffs = {key for key in ("jaxunc", "model", "settings") if manifest[key] != self._identity[key]}
        absent_names = sorted(set(old_names) - set(new_names))
        # Files in another order are matched by name, so names have to be distinct.
        has_twins = len(set(old_names)) < len(old_names) or len(set(new_names)) < len(new_names)
        if old_names != new_names and absent_names:
            diffs.add(f"inputs ({', '.join(absent_names[:3])} {'is' if len(absent_names) == 1 else 'are'} gone)")
        elif old_names != new_names and has_twins:
            diffs.add("inputs")
        if diffs:
            if not manifest["parts"]:  # a run that ended before its first part left nothing to keep
                return set()
            raise ValueError(
                f"the output {self.folder} is of another run: it differs in {', '.join(sorted(diffs))}. Choose another "
                "folder, or delete this one."
            )
        if old_names != new_names:
            position = {name: i for i, name in enumerate(new_names)}
            order = [position[name] for name in old_names]
            order += [i for i, name in enumerate(new_names) if name not in set(old_names)]
            self.files = [self.files[i] for i in order]
            new_inputs = self._identity["inputs"] = [new_inputs[i] for i in order]
        return {i for i, entry in enumerate(old_inputs) if entry != new_inputs[i]}  # in the same order by now

    def _is_there(self, part: dict[str, Any]) -> bool:
        """Return whether the file of a part, an entry of the manifest, is in the folder with the size that it had."""
        path = self.folder / part["name"]
        return is_plain_file(path) and path.stat().st_size == part["bytes"]

    def _check_finished_parts(self) -> None:
        """Raise a DamagedError unless each finished part has as many rows as the manifest says, and as a `Run` writes.

        The first part that is a Parquet file tells the types of the kept columns, for the parts that will be written.
        """
        for part in self._parts:
            path = self.folder / part["name"]
            try:
                n_rows = rows_in(path)
            except ValueError as error:
                raise DamagedError(f"its part {part['name']!r} is damaged; delete that, and it is made anew") from error
            if n_rows != part["rows"]:
                raise DamagedError(f"its part {part['name']!r} has {n_rows} rows, and not {part['rows']}")
            if path.suffix == ".parquet" and not self._first_types:
                types = types_as_written(parquet.read_schema(path))
                self._first_types = {name: (types[name], path) for name in self._identity["settings"]["keep"]}
        for file, rows_of_parts in self.done().items():
            are_full = all(n_rows == self._part_rows for n_rows in rows_of_parts[:-1])
            if not are_full or rows_of_parts[-1] > self._part_rows:
                raise DamagedError(f"its parts of file {file} are not of {self._part_rows} rows each")

    def done(self) -> dict[int, list[int]]:
        """Return {position of a data file: [number of rows of each of its finished parts, in order]}."""
        rows: dict[int, list[int]] = {}
        for part in sorted(self._parts, key=lambda part: cast(tuple[int, int], part_of(part["name"]))):
            rows.setdefault(part["file"], []).append(part["rows"])
        return rows

    @property
    def n_parts(self) -> int:
        """Number of finished parts, those of earlier runs included."""
        return len(self._parts)

    @property
    def rows(self) -> int:
        """Number of rows in all finished parts."""
        return sum(part["rows"] for part in self._parts)

    def finish(self, name: str, file: int, rows: int) -> None:
        """Add a finished part to the manifest: its ``name``, the position of its data ``file``, and its ``rows``."""
        size = (self.folder / name).stat().st_size
        self._parts = [part for part in self._parts if part["name"] != name]
        self._parts.append({"name": name, "file": file, "rows": rows, "bytes": size})
        self._write(complete=False)

    def check_input(self, position: int) -> None:
        """Raise a ValueError if the data file at ``position`` among the files has changed since the run began."""
        description = self._identity["inputs"][position]
        if {"name": description["name"], **description_of(self.files[position])} != description:
            raise ValueError(f"{self.files[position]} was changed since the run began; run again once it is whole.")

    def types_to_write(self, position: int, schema: pa.Schema) -> dict[str, pa.DataType]:
        """Return {kept column: type} of columns that must be cast, so that all parts have the first file's types.

        ``schema`` has the kept columns of the data file at ``position``, the one to write. Types of texts, bytes and
        lists may differ by the width of their offsets, 32 or 64 bits; raises a ValueError for other differences. For
        CSV, which has no types, nothing is cast.
        """
        if self._identity["settings"]["file_format"] != "parquet":
            return {}
        path = self.files[position]
        casts = {}
        for name, data_type in types_as_written(schema).items():
            first_type, first_path = self._first_types.setdefault(name, (data_type, path))
            if data_type == first_type:
                continue
            if without_widths(data_type) != without_widths(first_type):
                raise ValueError(
                    f"{path} keeps {name!r} as {data_type}, and {first_path} as {first_type}: the parts would not fit "
                    "together. Make the types of that column the same in all files, or write file_format='csv'."
                )
            casts[name] = first_type
        return casts

    def complete(self) -> dict[str, Any]:
        """Write and return the manifest of the complete run; raise an OSError if a part was removed or changed."""
        if lost_parts := [part["name"] for part in self._parts if not self._is_there(part)]:
            raise OSError(f"{lost_parts[:3]} of {self.folder} were taken away or changed meanwhile; run again.")
        return self._write(complete=True)

    def _write(self, *, complete: bool) -> dict[str, Any]:
        """Write and return the manifest, which says whether the run is ``complete``; an old one is replaced whole."""
        parts = sorted(self._parts, key=lambda part: part["name"])
        manifest = {**self._identity, "rows": self.rows, "complete": complete, "parts": parts}
        text = json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"
        temporary = self.folder / f".{MANIFEST}.{os.getpid()}"
        # Names of files may hold bytes that are not text, which JSON can hold only escaped.
        temporary.write_bytes(text.encode("utf-8", "backslashreplace"))
        os.replace(temporary, self.folder / MANIFEST)
        return manifest


def _without_gaps(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the parts in order; after a missing part of a data file all later parts of this file are left out.

    The run goes on behind the last row of a file's parts, so they must be its first ones.
    """
    first_parts = []
    next_part = Counter()  # by the position of a data file: the number of its parts so far, and of the next part
    for part in sorted(parts, key=lambda part: cast(tuple[int, int], part_of(part["name"]))):
        file = part["file"]
        if part_of(part["name"]) == (file, next_part[file]):
            next_part[file] += 1
            first_parts.append(part)
    return first_parts


def identity_of(model: str | Path, source: Any, files: list[Path], settings: dict[str, Any]) -> dict[str, Any]:
    """Return the identity of a run: {"jaxunc": version, "model": digest, "settings": settings, "inputs": data files}.

    ``model`` is the path of the model's file. The ``files`` are described by name, size and time of change; names are
    relative to ``source`` if that is a folder.
    """
    with open(model, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    root = Path(source) if isinstance(source, str | Path) else None
    inputs = []
    for path in files:
        name = str(path.relative_to(root)) if root is not None and root.is_dir() else path.name
        inputs.append({"name": name, **description_of(path)})
    return {"jaxunc": __version__, "model": digest, "settings": settings, "inputs": inputs}


def description_of(path: Path) -> dict[str, int]:
    """Return {"bytes": size, "modified": time of the last change} of a file, which differs once the file is changed."""
    status = path.stat()
    return {"bytes": status.st_size, "modified": status.st_mtime_ns}


def types_as_written(schema: pa.Schema) -> dict[str, pa.DataType]:
    """Return {column: type} as a Parquet file has them: some types of a ``schema`` change when they are written.

    Raises a ValueError for a type that Parquet cannot hold.
    """
    # The writer of parts undoes run-end encoding, which Parquet lacks. The other types are read back from a file.
    types = [field.type.value_type if pa.types.is_run_end_encoded(field.type) else field.type for field in schema]
    plain_schema = pa.schema([field.with_type(data_type) for field, data_type in zip(schema, types, strict=True)])
    sink = pa.BufferOutputStream()
    try:
        parquet.ParquetWriter(sink, plain_schema).close()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise ValueError(f"the columns that are kept cannot be written as parquet: {error}.") from error
    return {field.name: field.type for field in parquet.read_schema(pa.BufferReader(sink.getvalue()))}


def without_widths(data_type: pa.DataType) -> pa.DataType:
    """Return a type of Arrow with large and view types of texts, bytes and lists in it replaced by the usual ones."""
    types = pa.types
    if types.is_large_string(data_type) or types.is_string_view(data_type):
        return pa.string()
    if types.is_large_binary(data_type) or types.is_binary_view(data_type):
        return pa.binary()
    list_tests = types.is_list, types.is_large_list, types.is_list_view, types.is_large_list_view
    if any(is_list(data_type) for is_list in list_tests):
        return pa.list_(without_widths(data_type.value_type))
    if types.is_dictionary(data_type):
        return pa.dictionary(data_type.index_type, without_widths(data_type.value_type), data_type.ordered)
    if types.is_struct(data_type):
        return pa.struct([field.with_type(without_widths(field.type)) for field in data_type])
    return data_type


class DamagedError(ValueError):
    """A manifest is damaged, or was not written by a run; the message has no subject, and follows the path."""


def part_name(file: int, part: int) -> str:
    """Return the name, without ending, of the part at position ``part`` among those of the data file at ``file``."""
    return f"part-{file:05d}-{part:05d}"


def part_of(name: str) -> tuple[int, int] | None:
    """Return (position of the data file, position of the part) from a part's name; None for a name of no part."""
    match = _PART.fullmatch(name)
    if match is None or part_name(int(match[1]), int(match[2])) != name.rpartition(".")[0]:
        return None
    return int(match[1]), int(match[2])


def is_plain_file(path: Path) -> bool:
    """Return whether a path is a file itself: not a link, a folder or a device."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def read_manifest(path: Path, n_inputs: int) -> dict[str, Any]:
    """Return the manifest in the file ``path``; raise a DamagedError if it is too large, or not what a run writes.

    It may have `LEAST_BUDGET` bytes, and `ENTRY_BYTES` more for each of ``n_inputs`` data files and of the files in its
    folder.
    """
    if not is_plain_file(path):
        raise DamagedError("it is no file, but a link, a folder or a device")
    budget = LEAST_BUDGET + ENTRY_BYTES * (n_inputs + len(os.listdir(path.parent)))
    if (size := path.stat().st_size) > budget:
        raise DamagedError(f"it has {size} bytes, more than its files explain")
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"it is no JSON: {str(error)[:100]}") from error
    if not isinstance(manifest, dict):
        raise DamagedError(f"it is a {type(manifest).__name__}, no object")
    for name, kind in (("settings", dict), ("inputs", list), ("parts", list), ("model", str), ("jaxunc", str)):
        if not isinstance(manifest.get(name), kind):
            raise DamagedError(f"its {name!r} is {manifest.get(name)!r:.60}")
    _check_inputs(manifest["inputs"])
    _check_parts(manifest)
    return manifest


def _check_inputs(inputs: list[Any]) -> None:
    """Raise a DamagedError unless each of ``inputs``, a manifest's data files, has a name, a size and a time."""
    for entry in inputs:
        has_keys = isinstance(entry, dict) and entry.keys() == {"name", "bytes", "modified"}
        if (
            not has_keys
            or type(entry["name"]) is not str
            or type(entry["modified"]) is not int
            or not _is_count(entry["bytes"])
        ):
            raise DamagedError(f"its inputs hold {entry!r:.80}, which is no file")


def _check_parts(manifest: dict[str, Any]) -> None:
    """Raise a DamagedError unless a manifest's "parts" are different parts of its data files, named as by a run."""
    ending = f".{manifest['settings'].get('file_format')}"
    n_files = len(manifest["inputs"])
    names = set()
    for part in manifest["parts"]:
        if not isinstance(part, dict) or part.keys() != {"name", "file", "rows", "bytes"}:
            raise DamagedError(f"its parts hold {part!r:.80}, which is none")
        name, file = part["name"], part["file"]
        if not _is_name_of_part(name, file, ending):
            raise DamagedError(f"its part {name!r:.80} has no name of a part of file {file!r:.30}")
        if name in names or file >= n_files:
            raise DamagedError(f"its part {name!r} is there twice, or of a file that is not among its inputs")
        if not _is_count(part["rows"]) or not _is_count(part["bytes"]):
            raise DamagedError(f"its part {name!r} has rows={part['rows']!r:.30} and bytes={part['bytes']!r:.30}")
        names.add(name)


def _is_name_of_part(name: Any, file: Any, ending: str) -> bool:
    """Return whether ``name`` is one that a run gives a part of the data file at position ``file``, with ``ending``."""
    if not isinstance(name, str) or not name.endswith(ending):
        return False
    positions = part_of(name)
    return positions is not None and type(file) is int and positions[0] == file


def _is_count(value: Any) -> bool:
    """Return whether ``value`` is an integer that may be a number of rows or bytes: not negative, of 64 bits."""
    return type(value) is int and 0 <= value < 2**63


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Return a context in which this process holds the lock of a folder, so that no other run writes there.

    Raises an OSError if another run holds the lock; warns if the file system has no locks.
    """
    path = folder / LOCK
    handle = _acquire(path)
    try:
        yield
    finally:
        _release(handle, path)


def _acquire(path: Path) -> int:
    """Open and lock the file ``path``, and return its handle; raise an OSError if another run holds the lock.

    If the file system has no locks, warn, and return the handle of the unlocked file.
    """
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        try:
            _lock(handle)
        except BlockingIOError as error:
            os.close(handle)
            raise OSError(
                f"another run is writing to {path.parent}; wait until it has ended, or choose another folder."
            ) from error
        except OSError as error:
            warn(f"{path.parent} cannot be locked ({error.strerror}): see to it that no other run writes there.")
            return handle
        if _is_still_there(handle, path):
            return handle
        os.close(handle)  # the last holder of the lock removed the file after it was opened here


def _is_still_there(handle: int, path: Path) -> bool:
    """Return whether ``path`` still leads to the file that was opened as ``handle``."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def _lock(handle: int) -> None:
    """Lock the open file ``handle``; raise a BlockingIOError if another process holds the lock.

    Raises another OSError if the file system has no locks.
    """
    try:
        import fcntl
    except ImportError:  # on Windows
        msvcrt: Any = importlib.import_module("msvcrt")
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except PermissionError as error:
            raise BlockingIOError(error.errno, error.strerror) from error
        return
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _release(handle: int, path: Path) -> None:
    """Remove the lock file ``path`` and close its handle, which ends the lock."""
    if os.name == "posix":  # removed while it is locked, so that no other run locks a file that is removed later
        path.unlink(missing_ok=True)
        os.close(handle)
        return
    os.close(handle)  # Windows does not remove an open file
    with suppress(PermissionError):  # another run may have opened it by now
        path.unlink(missing_ok=True)
