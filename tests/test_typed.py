"""What a user's strict type check says of the pages' examples, of answers, and of mistakes."""

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.once, pytest.mark.exhaustive]
ROOT = Path(__file__).parent.parent
TYPED = ROOT / "tests" / "typed"
PAGES = [page for page in sorted((ROOT / "docs").glob("*.md")) if "```python" in page.read_text()]
OTHERS = re.compile(r"(jax|jnp|np|optax|pd)\.")
"""What is not known of other libraries' functions is not said of this one."""
PAGES_MAY = ("reportMissingTypeStubs", "reportConstantRedefinition", "reportUnusedImport")
"""What an example does well to do: use other libraries, say `X` again, show an import that the next block uses."""
UNFINISHED = {"estimators", "compare"}
"""Rooms whose classes hold what other libraries say nothing of."""


def blocks_of(page: Path) -> str:
    return "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))


def run(arguments: list[str], folder: Path) -> dict:
    """What pyright answers where jaxunc is an installed package."""
    pyright = shutil.which("pyright", path=str(Path(sys.executable).parent)) or shutil.which("pyright")
    if pyright is None:
        pytest.skip("pyright is not installed (extra: lint)")
    command = [pyright, *arguments, "--pythonpath", sys.executable, "--outputjson"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return json.loads(subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False).stdout)


def complaints(folder: Path, files: dict[str, str], **settings) -> list[str]:
    """What a strict check says of files in a project of their own."""
    for name, text in files.items():
        (folder / name).write_text(text)
    config = {"include": ["*.py"], "typeCheckingMode": "strict", "stubPath": str(TYPED / "stubs"), **settings}
    (folder / "pyrightconfig.json").write_text(json.dumps(config))
    report = run(["-p", str(folder)], folder)
    assert report["summary"]["filesAnalyzed"] == len(files)
    told = []
    for found in report["generalDiagnostics"]:
        start, name, rule = found["range"]["start"], Path(found["file"]).name, found.get("rule", "")
        line = files[name].splitlines()[start["line"]]
        if not ("Unknown" in rule and OTHERS.match(line[start["character"] :])):
            told.append(f"{name}:{start['line'] + 1}: {found['message']} ({rule})")
    return told


def test_the_examples_of_the_pages_are_typed(tmp_path):
    """Nothing is wrong or unknown in them under a strict check."""
    readme = blocks_of(ROOT / "README.md")
    pages = {f"{page.stem}.py": blocks_of(page) for page in PAGES}
    assert not complaints(tmp_path, {"readme.py": readme, **pages}, **dict.fromkeys(PAGES_MAY, False))


def test_answers_have_types_and_mistakes_are_found(tmp_path):
    files = {name: (TYPED / name).read_text() for name in ("answers.py", "mistakes.py")}
    assert not complaints(tmp_path, files, reportUnnecessaryTypeIgnoreComment="error")


@pytest.mark.filterwarnings("ignore::jaxunc.estimators.PureLeavesWarning")
def test_what_type_checkers_are_told_runs():
    runpy.run_path(str(TYPED / "answers.py"))


def test_public_names_have_types(tmp_path):
    """What rooms hand on is known in full, and without inference, as type checkers want it of a typed package."""
    report = run(["--verifytypes", "jaxunc", "--ignoreexternal"], tmp_path)["typeCompleteness"]
    known = {symbol["name"]: symbol["isTypeKnown"] for symbol in report["symbols"] if symbol["isExported"]}
    assert known["jaxunc.bind"]
    assert known["jaxunc.Mean"]
    assert len(known) > 200
    assert not [name for name, is_known in known.items() if not is_known and name.split(".")[1] not in UNFINISHED]
