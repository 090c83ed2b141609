"""``python -m benchmarks.speed.accelerator``: measure the form for accelerators, write the file, print the tables.

Runs without an accelerator as well: ``device`` in the file says on what. The file is written after each part.
"""

import argparse
import sys
import time
from pathlib import Path

from .. import report
from ..measure import say
from .run import PARTS, measured, work

SECONDS = 540
"""For all parts, so that the call ends within ten minutes also where the last one hangs."""


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the options, with names checked."""
    parser = argparse.ArgumentParser("python -m benchmarks.speed.accelerator", description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), metavar="NAME", help=", ".join(PARTS))
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"for all parts (default {SECONDS})")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that it runs, writes only to --output")
    parser.add_argument("--output", type=Path, help="default: benchmarks/results/accelerator-<device kind>.json")
    parser.add_argument("--worker", type=float, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Measure, write, print."""
    options = parse(arguments)
    if options.worker is not None:
        work(options.parts, quick=options.quick, seconds=options.worker, out=sys.stdout)
        return
    start, output = time.perf_counter(), options.output
    result: dict = {"schema_version": 1, "quick": options.quick, "parts": {}}
    for name, found in measured(options.parts, quick=options.quick, seconds=options.seconds):
        if name == "about":
            result = {**found, **result}  # of the first process
            output = report.chosen_output(options, result["device"], "accelerator")
            continue
        result["parts"][name] = found
        result["duration_s"] = time.perf_counter() - start
        failed = sum("failed" in row for row in found["rows"])
        say(f"{name}: {found['seconds']:.0f} s, {len(found['rows'])} rows, {failed} failed")
        if output is not None:
            report.write(result, output)
    for name, found in result["parts"].items():
        report.print_table(name, *report.as_table(found["rows"]))
    if output is not None:
        say(f"written to {output}")


if __name__ == "__main__":
    main()
