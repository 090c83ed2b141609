"""Build the site: ``python docs/build.py [FOLDER]``, by default ``build/site``. Offline; warnings are errors.

Sphinx wants all pages in one folder. So the pages, notebooks and results are copied beside each other as they lie in
the repository, where their links to each other hold, and the pages of the reference are written there.
"""

import shutil
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
STAGED = ROOT / "build" / "site-source"
COPIED = (
    *("docs", "notebooks", "benchmarks/results", "benchmarks/studies"),
    *("README.md", ".github/CONTRIBUTING.md", "CITATION.cff"),
)
IGNORED = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints", "cells.*", "page.md")

sys.path[:0] = [str(ROOT / "docs" / "_ext"), str(ROOT)]


def stage() -> None:
    """Copy what the site is made of, and write what is derived from the package."""
    import drawn
    import reference

    shutil.rmtree(STAGED, ignore_errors=True)
    for name in COPIED:
        source, target = ROOT / name, STAGED / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=IGNORED)
        else:
            shutil.copy2(source, target)
    reference.write_pages(STAGED / "docs" / "reference")
    drawn.draw(STAGED / "docs" / "how_to" / "figures.md")
    drawn.gallery(STAGED / "docs" / "tutorials.md")


def main(folder: str = str(ROOT / "build" / "site")) -> int:
    """Stage and build; the exit status is Sphinx's."""
    from sphinx.cmd.build import main as sphinx

    start = time.monotonic()
    stage()
    print(f"staged in {time.monotonic() - start:.0f} s")
    shutil.rmtree(folder, ignore_errors=True)
    status = sphinx(["-W", "--keep-going", "-q", "-E", "-c", str(STAGED / "docs"), "-b", "html", str(STAGED), folder])
    print(f"{folder}: {time.monotonic() - start:.0f} s")
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
