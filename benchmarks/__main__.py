"""``python -m benchmarks list`` names the studies; ``python -m benchmarks NAME`` runs one and writes its page."""

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType

import jax

STUDIES = tuple(sorted(path.parent.name for path in (Path(__file__).parent / "studies").glob("*/run.py")))
USAGE = "python -m benchmarks list | python -m benchmarks NAME [--page-only] [--help, for the study's own options]"


def study(name: str) -> ModuleType:
    """The module of a study (`benchmarks.studies` says what it has)."""
    return import_module(f"benchmarks.studies.{name}.run")


def main(argv: Sequence[str]) -> None:
    """List the studies, or run one: what is missing of its parts in their order, then the page."""
    name, *options = argv or [""]
    if name == "list":
        for one in STUDIES:
            of = study(one)
            print(f"{one}\n    {str(of.__doc__).splitlines()[0]}\n    Takes {of.TAKES}.")
        return
    if name not in STUDIES:
        sys.exit(f"{USAGE}\nstudies: {', '.join(STUDIES)}")
    of = study(name)
    args = of.options().parse_args(options)
    if getattr(of, "FLOAT64", False):
        jax.config.update("jax_enable_x64", True)
    if not args.page_only:
        of.run(args)
    of.write_page(args.out)


if __name__ == "__main__":
    main(sys.argv[1:])
