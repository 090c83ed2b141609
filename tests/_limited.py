"""Damaged files of a format, read in a process whose memory is limited: answered, or refused in words.

``python -m tests._limited FORMAT,… SEED NUMBER FOLDER`` prints in JSON what became of them; a file at fault is kept.
"""

import json
import resource
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import jaxunc as ju
from jaxunc.additive import AdditiveTrees
from tests._model_files import FOLDER
from tests._patience import ends
from tests.interop import _mutations, _structural
from tests.storage import _mutations as stored
from tests.storage._objects import small_objects

ROOM = 1_500_000_000
"""Bytes of memory beyond what the process has once it has read sound files."""
ANSWERED = 25
"""Of so many models that are read one is asked, which compiles a program."""
FORMATS: dict[str, tuple[Callable[[Any], Any], tuple]] = {
    "xgboost.json": (ju.from_any, (*_mutations.JSON, *[_structural.other_document] * 6)),
    "xgboost.ubj": (ju.from_any, (*_mutations.BINARY, *[_structural.other_typed_array] * 4)),
    "xgboost_forest.json": (ju.from_any, (_structural.other_document,)),
    "lightgbm.txt": (ju.from_any, (*_mutations.LINES, *[_structural.other_values] * 6)),
    "lightgbm_forest.txt": (ju.from_any, (_structural.other_values,)),
    "catboost.json": (ju.from_any, (*_mutations.JSON, *[_structural.other_document] * 6)),
    "treelite.bin": (ju.from_treelite, (*_mutations.BINARY, *[_structural.other_sizes] * 4)),
    "treelite_forest.bin": (ju.from_treelite, (*_mutations.BINARY, *[_structural.other_sizes] * 4)),
    "trees.onnx": (ju.from_onnx, (*_mutations.BINARY, *[_structural.other_attributes] * 6)),
    "saved": (ju.load, (*stored.MUTATIONS, *[stored.other_structure] * 6)),
    "manifest": (ju.load, (*_mutations.JSON, *[_structural.other_document] * 6)),
}
"""By format, what reads it, and how files are damaged."""


class Tried:
    def __init__(self, name: str, folder: Path):
        self._name, self._folder = name, folder
        self._read, self._mutations = FORMATS[name]
        self._path = folder / f"current-{name}"
        self.whole = self._contents()
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []

    def _contents(self) -> list[bytes]:
        if self._name == "manifest":
            parts = [{"name": f"part-00000-0000{i}.csv", "file": 0, "rows": 8, "bytes": 99} for i in range(3)]
            inputs = [{"name": f"{i}.csv", "bytes": 999, "modified": 10**18} for i in range(3)]
            settings = {"file_format": "csv", "keep": ["id"], "s": 1.0, "outputs": None}
            whole = {"jaxunc": "1", "model": "f" * 64, "settings": settings, "inputs": inputs, "parts": parts}
            return [json.dumps(whole | {"rows": 24, "complete": False}).encode()]
        if self._name != "saved":
            return [(FOLDER / self._name).read_bytes()]
        contents = []
        for value in small_objects().values():
            ju.save(self._path, value)
            contents.append(self._path.read_bytes())
        return contents

    def read(self, content: bytes) -> Any:
        self._path.write_bytes(content)  # what ends the process is found there
        if self._name == "manifest":
            from jaxunc.streaming._run import read_manifest

            return read_manifest(self._path, 3)
        return self._read(self._path if self._name == "saved" else content)

    def one(self, rng: np.random.Generator) -> None:
        mutate = self._mutations[rng.integers(len(self._mutations))]
        content = mutate(self.whole[rng.integers(len(self.whole))], rng)
        try:
            with ends(1):
                model = self.read(content)
                self.counts["read"] += 1
                if self.counts["read"] % ANSWERED == 0:
                    _answer(model)
        except (ValueError, TypeError, RuntimeError) as error:
            self.counts["refused"] += 1
            if isinstance(error, RecursionError) or not 10 < len(str(error)) < 2000:
                self._fault(mutate, content, error)
        except BaseException as error:
            self._fault(mutate, content, error)

    def _fault(self, mutate: Callable, content: bytes, error: BaseException) -> None:
        kept = self._folder / f"{len(self.faults)}-{self._name}"
        kept.write_bytes(content)
        self.faults.append(f"{mutate.__name__}: {type(error).__name__} {str(error)[:200]} ({kept})")


def _answer(model: Any) -> None:
    """Ask what was read, if it is a model of few columns."""
    if not isinstance(model, ju.Forest | AdditiveTrees) or model.trees.n_features >= 100:
        return
    X = np.zeros((3, model.trees.n_features), object if model.trees.columns.looks_up else float)
    for j, own in enumerate(model.trees.columns.levels or ()):
        if own is not None:
            X[:, j] = own.values[0]
    if isinstance(model, AdditiveTrees):
        model.predict(X)
    else:
        ju.bind(model, ju.Mean())(X)


def main(names: list[str], seed: int, number: int, folder: Path) -> None:
    warnings.simplefilter("ignore")
    all_tried = [Tried(name, folder) for name in names]
    for tried in all_tried:
        for content in tried.whole:
            _answer(tried.read(content))
    own = 1024 * int(Path("/proc/self/status").read_text().split("VmSize:")[1].split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (own + ROOM, own + ROOM))
    for name, tried in zip(names, all_tried, strict=True):
        rng = np.random.default_rng([seed, *name.encode()])
        for _ in range(number):
            tried.one(rng)
        found = {"name": name, "counts": tried.counts, "faults": tried.faults}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(sys.argv[1].split(","), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
