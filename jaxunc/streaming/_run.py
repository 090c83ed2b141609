"""The folder of a run: its manifest, which parts are finished, and what may stand in it."""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jaxunc._version import __version__
from jaxunc.files import is_same_file, is_within

MANIFEST = "_manifest.json"
"""Readers of folders pass over names that start so."""


def refuse_overlap(output: Path, source: str | Path | Sequence[str | Path], model: str | Path) -> None:
    """Raise a ValueError if the output is a file that is read, or lies within a folder that is."""
    if output.is_file() or is_same_file(output, model):
        raise ValueError(f"the output {output} is a file; name a folder, which holds the answers alone.")
    for path in [source] if isinstance(source, str | Path) else source:
        if is_same_file(output, path):
            raise ValueError(f"the output {output} holds data that are to be scored; choose another folder.")
        if Path(path).is_dir() and is_within(output, path):
            raise ValueError(
                f"the output {output} lies within the data {path}: the next run would score it, too. Choose a folder "
                "beside it."
            )


class Run:
    """The folder of a run: what it is made of, and which parts are finished."""

    def __init__(self, folder: Path, identity: dict[str, Any]):
        self.folder, self._identity = folder, identity
        self._parts: list[dict[str, Any]] = []

    def make_folder(self, files: list[Path]) -> None:
        """Make the folder, if it may be one of a run."""
        if any(is_within(file, self.folder) for file in files):
            raise ValueError(f"the output {self.folder} holds data that are to be scored; choose another folder.")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise ValueError(f"the output {self.folder} is no folder, or lies in a file; choose a folder.") from error
        if not (self.folder / MANIFEST).exists():
            found = sorted(file.name for file in self.folder.iterdir() if not file.name.startswith("."))
            if found:
                raise ValueError(
                    f"the output {self.folder} holds other files ({found[:3]}) and no {MANIFEST}; choose an empty "
                    "folder."
                )

    def open(self) -> None:
        """Find what is finished; take away what a run that was cut short has left, and parts of other data."""
        path = self.folder / MANIFEST
        if path.exists():
            manifest, changed = self._checked(path)
            for part in manifest["parts"]:
                if part["file"] in changed:
                    (self.folder / part["name"]).unlink(missing_ok=True)
                elif self._is_there(part):
                    self._parts.append(part)
        for left in self.folder.glob(".part-*"):
            left.unlink()
        self._write(False)

    def _checked(self, path: Path) -> tuple[dict[str, Any], set[int]]:
        """The manifest, and the files of the data that are not what they were."""
        try:
            manifest = json.loads(path.read_text(encoding="utf-8"))
            other = {key for key in self._identity if manifest.get(key) != self._identity[key]}
            list(manifest["parts"])
            then, now = manifest["inputs"], self._identity["inputs"]
            changed: set[int] = set()
            if [file["name"] for file in then] == [file["name"] for file in now]:
                other.discard("inputs")
                changed = {i for i in range(len(now)) if then[i] != now[i]}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} is no manifest of jaxunc ({error}); choose another folder.") from error
        if other and manifest["parts"]:  # a run that ended before its first part left nothing to keep
            raise ValueError(
                f"the output {self.folder} is of another run: it differs in {', '.join(sorted(other))}. Choose another "
                "folder, or delete this one."
            )
        return manifest, changed

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
    def n_parts(self) -> int:
        """How many parts are finished."""
        return len(self._parts)

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


def identity_of(model: str | Path, source: Any, files: list[Path], settings: dict[str, Any]) -> dict[str, Any]:
    """Return the description of a run: parts belong to another run if any of it differs."""
    with open(model, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    root = Path(source) if isinstance(source, str | Path) else None
    inputs = []
    for path in files:
        status = path.stat()
        name = str(path.relative_to(root)) if root is not None and root.is_dir() else path.name
        inputs.append({"name": name, "bytes": status.st_size, "modified": status.st_mtime_ns})
    return {"jaxunc": __version__, "model": digest, "settings": settings, "inputs": inputs}
