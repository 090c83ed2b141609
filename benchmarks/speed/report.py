"""The JSON file and the table."""

import argparse
import json
import re
from pathlib import Path

_COLUMNS = {
    "batch-sizes": {
        "trees": "trees",
        "shape": "depth",
        "rows": "rows",
        "engine": "engine",
        "steady_s": "ms (quartiles)",
        "ratio_to_jaxunc": "over jaxunc (quartiles)",
        "max_abs_difference": "off by",
    },
    "first-calls": {
        "shape": "shape",
        "n_trees": "trees",
        "longest_path": "depth",
        "from_sklearn_s": "import s",
        "bind_s": "bind s",
        "first_call_s": "first call s",
        "second_call_s": "second call s",
        "model_to_answer_s": "model to answer s",
    },
    "cross-validation": {
        "n_trees": "trees",
        "chunk_programs": "scoring programs",
        "all_compilations": "all compilations",
        "all_compilations_after_first": "after the first forest",
    },
    "large-import": {"n_trees": "trees", "n_nodes": "nodes", "import_s": "import s", "bind_s": "bind s"},
}
"""What the table shows of each section; the file holds the rest."""


def chosen_output(options: argparse.Namespace, device: dict, measured: str = "speed") -> Path | None:
    """The file that is asked for; else, but for quick runs, ``benchmarks/results/speed-<device kind>.json``."""
    kind = re.sub(r"[^a-z0-9]+", "-", device["kind"].lower()).strip("-")
    results = Path(__file__).resolve().parents[1] / "results"
    return options.output or (None if options.quick else results / f"{measured}-{kind}.json")


def write(result: dict, path: Path) -> None:
    """Write the measurement; an earlier one of the same name is replaced once the new one is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".part")
    draft.write_text(json.dumps(result, indent=2, allow_nan=False) + "\n")
    draft.replace(path)


def show(result: dict) -> None:
    """Print the tables."""
    for workload in result["workloads"]:
        print_table(*_engine_table(workload))
        print_table(*_rule_table(workload))
    if result["workloads"]:
        print_table(*_cost_table(result["workloads"]))
    for name, section in result["sections"].items():
        print_table(*_section_table(name, section))


def _engine_table(workload: dict):
    size = f"{workload['nodes_per_tree']:.0f} nodes a tree, mean path {workload['mean_path']:.1f}"
    title = f"{workload['name']}: {workload['what']} ({size}), {workload['n_instances']} instances"
    rows = []
    for engine in workload["engines"]:
        ratio, off = engine["ratio_to_scikit_learn"], f"{engine['answers']['max_abs_difference']:.1e}"
        times = [_milliseconds(engine["steady_s"]), f"{engine['cpu_s']['median'] * 1e3:.1f}"]
        rows.append([engine["name"], *times, quartiles(ratio), f"{1 / ratio['median']:.2f}", off])
    rows += [[absent["name"], absent["reason"], "", "", "", ""] for absent in workload["absent"]]
    return title, ["engine", "ms (quartiles)", "CPU ms", "ratio (quartiles)", "times faster", "off by"], rows


def _rule_table(workload: dict):
    rules = workload["rules"]
    rows = [[rule["name"], _milliseconds(rule["steady_s"]), quartiles(rule["ratio_to_mean"])] for rule in rules]
    return f"{workload['name']}: rules", ["rule", "ms (quartiles)", "over the mean (quartiles)"], rows


def _cost_table(workloads: list[dict]):
    rows = []
    for workload in workloads:
        first, memory = workload["first_call"], workload["compiled_memory"]
        chunks = memory["chunks"]
        largest = chunks if isinstance(chunks, str) else max(program["temp_bytes"] for program in chunks)
        made = [f"{workload['import_s']['median']:.2f}", f"{workload['bind_s']['median']:.3f}"]
        made += [first.get("failed") or f"{first[key]:.2f}" for key in ("first_call_s", "model_to_answer_s")]
        sizes = (largest, memory["fold_temp_bytes"], memory["fold_gradient_temp_bytes"])
        rows.append([workload["name"], *made, *map(_megabytes, sizes)])
    header = ["", "import s", "bind s", "first call s", "model to answer s", "chunk MB", "fold MB", "gradient MB"]
    return "Costs (the calls in a fresh process; temporaries of compiled programs)", header, rows


def as_table(records: list[dict]) -> tuple[list[str], list[list[str]]]:
    """Header and rows: a column for each key of any record, times in ms and ratios with their quartiles."""
    keys = dict.fromkeys(key for record in records for key in record if key != "cpu_s")
    return list(keys), [[_cell(key, record.get(key)) for key in keys] for record in records]


def _section_table(name: str, section):
    """A list of records as rows, a record as one row."""
    records, columns = section if isinstance(section, list) else [section], _COLUMNS[name]
    rows = [[_cell(key, record.get(key, record.get("failed"))) for key in columns] for record in records]
    return name.replace("-", " "), list(columns.values()), rows


def _cell(key: str, value) -> str:
    if isinstance(value, dict):
        return _milliseconds(value) if key.endswith("_s") else quartiles(value)
    return f"{value:.3g}" if isinstance(value, float) else "" if value is None else str(value)


def _milliseconds(spread: dict) -> str:
    return f"{spread['median'] * 1e3:.1f} ({spread['first_quartile'] * 1e3:.1f}-{spread['third_quartile'] * 1e3:.1f})"


def quartiles(spread: dict) -> str:
    """The median of ratios, and their quartiles."""
    return f"{spread['median']:.3f} ({spread['first_quartile']:.3f}-{spread['third_quartile']:.3f})"


def _megabytes(size: int | str) -> str:
    return size if isinstance(size, str) else f"{size / 1e6:.1f}"


def print_table(title: str, header: list[str], rows: list[list[str]]) -> None:
    """Print a table, with rich where it is installed."""
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        print(f"\n{title}")
        for row in [header, *rows]:
            print("  ".join(map(str.ljust, row, widths)))
        return
    table = Table(title=title, title_justify="left")
    for i, column in enumerate(header):
        table.add_column(column, justify="right" if i else "left")
    for row in rows:
        table.add_row(*row)
    console = Console()
    (console if console.is_terminal else Console(width=120)).print(table)
