"""``python -m benchmarks.speed``: measure, write the file, print the table."""

import argparse
import time
from pathlib import Path

from . import machine, report
from .measure import say
from .sections import SECTIONS
from .workload_run import run_workload
from .workloads import FULL, QUICK, WORKLOADS


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The options, with names checked."""
    parser = argparse.ArgumentParser("python -m benchmarks.speed", description=__doc__)
    parser.add_argument("--workloads", help="names, by commas; 'none' (default: all; if quick, W1,W4)")
    parser.add_argument("--sections", default=",".join(SECTIONS), help="names, by commas; 'none' (default: all)")
    parser.add_argument("--instances", type=int, help="instances scored a call (default 100000; W3 takes half)")
    parser.add_argument("--repeats", type=int, help="rounds (default 9)")
    parser.add_argument("--output", type=Path, help="default: benchmarks/results/speed-<device kind>.json")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that it runs, writes only to --output")
    options = parser.parse_args(arguments)
    workloads, instances, repeats = ("W1,W4", 3000, 2) if options.quick else (",".join(WORKLOADS), 100_000, 9)
    if options.workloads is None:
        options.workloads = workloads
    for option, known in (("workloads", WORKLOADS), ("sections", SECTIONS)):
        names = [] if getattr(options, option) == "none" else getattr(options, option).split(",")
        if unknown := sorted(set(names) - set(known)):
            parser.error(f"--{option}: unknown {', '.join(unknown)}; known are {', '.join(known)} and none")
        setattr(options, option, names)
    if options.instances is None:
        options.instances = instances
    if options.repeats is None:
        options.repeats = repeats
    if options.instances < 1 or options.repeats < 1:
        parser.error("--instances and --repeats must be at least 1")
    return options


def measure(options: argparse.Namespace) -> dict:
    """The whole measurement, as it is written."""
    scale, started, about = QUICK if options.quick else FULL, time.perf_counter(), machine.about()
    if (load := about["machine"]["load_at_start"]) > 0.5:
        say(f"load {load:.1f}: the machine is busy, times will be too long")
    asked = {name: getattr(options, name) for name in ("instances", "repeats", "quick", "workloads", "sections")}
    result = {"schema_version": 1, "date": about.pop("created"), **about, "options": asked}
    result |= {"workloads": [], "sections": {}}
    for name in options.workloads:
        settings = {"n_instances": options.instances, "repeats": options.repeats, "scale": scale}
        result["workloads"].append(run_workload(WORKLOADS[name], **settings))
        say(f"{name}: done after {time.perf_counter() - started:.0f} s")
    for name in options.sections:
        say(f"{name}: measuring")
        result["sections"][name] = SECTIONS[name](scale)
    result["duration_s"] = time.perf_counter() - started
    return result


def main(arguments: list[str] | None = None) -> None:
    """Measure, write, print."""
    options = parse(arguments)
    result = measure(options)
    report.show(result)
    if output := report.chosen_output(options, result["device"]):
        report.write(result, output)
        say(f"written to {output}")


if __name__ == "__main__":
    main()
