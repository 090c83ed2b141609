"""The command line: ``python -m tests.importers --models N --seed S``."""

import argparse
import os
import sys
from pathlib import Path

# Compiling is most of the time: nothing is optimised, and programs are kept for the next process.
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_backend_optimization_level=0"
for name, value in {"JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}.items():
    os.environ.setdefault(name, value)

from ._run import LIBRARIES, installed, run, run_one  # noqa: E402


def main() -> int:
    """Run what the words ask for; the exit status is 1 where there are faults."""
    parser = argparse.ArgumentParser(prog="python -m tests.importers", description=__doc__)
    parser.add_argument("--models", type=int, default=200, help="number of models, all libraries together")
    parser.add_argument("--seed", type=int, default=1, help="the first model's seed; the others count on")
    parser.add_argument("--only", type=int, help="one model of each library, by its seed")
    parser.add_argument("--libraries", nargs="+", choices=LIBRARIES, help="default: all that are installed")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--output", type=Path, help="a file of counts, which is gone on with where it exists")
    args = parser.parse_args()
    libraries = args.libraries or installed()
    if args.only is not None:
        return max(run_one(library, args.only) for library in libraries)
    return run(libraries, args.models, args.seed, args.processes, args.output)


if __name__ == "__main__":
    sys.exit(main())
