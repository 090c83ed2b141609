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
OTHERS = re.compile(r"(jax|jnp|np|pd)\.")
"""What is not known of other libraries' functions is not said of this one."""


def blocks_of(page: Path) -> str:
    return "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))


def complaints(folder: Path, files: dict[str, str], **settings) -> list[str]:
    """What pyright says of files in a project of their own, in which jaxunc is an installed package."""
    pyright = shutil.which("pyright", path=str(Path(sys.executable).parent)) or shutil.which("pyright")
    if pyright is None:
        pytest.skip("pyright is not installed (extra: lint)")
    for name, text in files.items():
        (folder / name).write_text(text)
    stubs = str(TYPED / "stubs")
    config = {"include": ["*.py"], "typeCheckingMode": "strict", "stubPath": stubs, **settings}
    (folder / "pyrightconfig.json").write_text(json.dumps(config))
    command = [pyright, "-p", str(folder), "--pythonpath", sys.executable, "--outputjson"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == len(files)
    told = []
    for found in report["generalDiagnostics"]:
        start, end = found["range"]["start"], found["range"]["end"]
        line = (folder / Path(found["file"]).name).read_text().splitlines()[start["line"]]
        of_others = "Unknown" in found.get("rule", "") and OTHERS.match(line[start["character"] :])
        if not of_others and start["line"] <= end["line"]:
            told.append(f"{Path(found['file']).name}:{start['line'] + 1}: {found['message']} ({found.get('rule')})")
    return told


def test_the_examples_of_the_pages_are_typed(tmp_path):
    """Nothing is wrong or unknown in them under a strict check."""
    readme = blocks_of(ROOT / "README.md")
    pages = {f"{page.stem}.py": f"{readme}\n{blocks_of(page)}" for page in PAGES}
    assert not complaints(tmp_path, {"readme.py": readme, **pages})


def test_answers_have_types_and_mistakes_are_found(tmp_path):
    files = {name: (TYPED / name).read_text() for name in ("answers.py", "mistakes.py")}
    assert not complaints(tmp_path, files, reportUnnecessaryTypeIgnoreComment="error")


@pytest.mark.filterwarnings("ignore::jaxunc.estimators.PureLeavesWarning")
def test_what_type_checkers_are_told_runs():
    runpy.run_path(str(TYPED / "answers.py"))


def test_the_public_face_is_typed_in_full(tmp_path):
    """No public name has a type that is unknown in part, but for what scikit-learn's own classes leave unknown."""
