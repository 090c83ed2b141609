"""The page of a finished study: one file that a person decides from, without outside resources."""

import base64
import os
import re
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from jaxunc._checks import shown

from ._evaluate import CONFIDENCE, INTERVAL_STRENGTH, RANKED_MEASURES
from ._figures import (
    Picture,
    curve_pictures,
    highlighted,
    interval_pictures,
    leaf_size_pictures,
    rank_pictures,
    set_pictures,
    uncertainty_pictures,
)
from ._sentences import data_line, data_notes, model_line, run_line, supported, unsupported
from ._settings import COMPARED_COMBINERS
from ._store import Results
from ._summary import (
    BASELINE,
    COMPARED_MEASURES,
    DECIMALS,
    POLL_TITLES,
    SET_TITLES,
    TABLE_STRENGTHS,
    TITLES,
    Ranking,
    averages,
    baseline_accuracy,
    best_leaf_sizes,
    forest_name,
    has_sets,
    poll_averages,
    ranking,
    set_averages,
    shown_leaf_sizes,
    table_of_ranks,
)

_SMALLER_IS_BETTER = {"calibration_error": False, "risk_coverage": False}


def write_page(folder: str | Path, results: Results) -> Path:
    """Write ``report.html`` and return its path. Raises an OSError if it cannot be written."""
    path = Path(folder) / "report.html"
    partial = path.with_suffix(".html.partial")
    partial.write_text(page(results), encoding="utf-8")
    os.replace(partial, path)
    return path


def page(results: Results) -> str:
    """Return the page as HTML."""
    records = results.records()
    n_folds = results.settings.n_folds
    rankings = {measure: ranking(records, measure, n_folds=n_folds) for measure in RANKED_MEASURES}
    names = highlighted(results, rankings)
    figures = {
        "leaf_sizes": leaf_size_pictures(results, records, names),
        "ranks": rank_pictures(rankings, names) if len(results.about["combiners"]) > 1 else [],
        "curves": curve_pictures(results, records, names),
        "uncertainty": uncertainty_pictures(results, records),
        "sets": set_pictures(results, records),
        "intervals": interval_pictures(results, records),
    }
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("jaxunc.compare", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        # Names of the data may hold marks that turn the text around them.
        finalize=lambda value: shown(value) if type(value) is str else value,
    )
    environment.filters |= {"data_uri": _data_uri, "code": _with_code}
    return environment.get_template("page.html.jinja").render(
        about=results.about,
        data_line=data_line(results),
        model_line=model_line(results),
        notes=[note for note in data_notes(results) if not note.startswith("Warning")],
        warnings=results.about["data"]["warnings"],
        run_line=run_line(results),
        supported=supported(results, records, rankings),
        unsupported=unsupported(results, records),
        measures=[(TITLES[name], _larger(name)) for name in COMPARED_MEASURES],
        ranked=[TITLES[name] for name in RANKED_MEASURES],
        tables=_average_rows(results, records, rankings),
        ranks=_rank_rows(records, rankings),
        sets=_set_rows(results, records),
        set_titles=SET_TITLES.values(),
        polls=_poll_rows(results),
        poll_titles=POLL_TITLES.values(),
        poll_confidence=CONFIDENCE,
        figures=figures,
        meanings={name: COMPARED_COMBINERS[name].meaning for name in results.about["combiners"]},
        interval_strength=INTERVAL_STRENGTH,
        several_leaf_sizes=len(results.settings.leaf_sizes) > 1,
        baseline=BASELINE if BASELINE in results.about["combiners"] else None,
    )


def _average_rows(results: Results, records: Any, rankings: dict[str, Ranking]) -> dict[str, list[dict[str, Any]]]:
    """Return for each kind of forest a row per combiner, best rank first.

    A row's cells are each a value, a spread, and whether it is the best.
    """
    mean, leaves = averages(records), best_leaf_sizes(records)
    order = table_of_ranks(records).index
    tables = {}
    for forest in results.settings.forests:
        part = mean.loc[forest]
        rows = []
        for combiner in order:
            cells = []
            for name in COMPARED_MEASURES:
                column = part[(name, "mean")].round(DECIMALS)
                best = column.max() if _larger(name) else column.min()
                value, spread = part.at[combiner, (name, "mean")], part.at[combiner, (name, "std")]
                cells.append({"value": f"{value:.4f}", "spread": f"{spread:.3f}", "best": column[combiner] == best})
            rows.append({"combiner": combiner, "cells": cells, "leaf_size": leaves[forest, combiner]})
        tables[forest] = rows
    return tables


def _rank_rows(records: Any, rankings: dict[str, Ranking]) -> list[dict[str, Any]]:
    """Return a row per combiner, best first: its ranks, and whether a test finds that it differs from the first."""
    ranks = table_of_ranks(records)
    rows = []
    for combiner in ranks.index:
        cells = []
        for name in RANKED_MEASURES:
            place = rankings[name].combiners.index(combiner)
            p = rankings[name].from_best[place]
            # Ties share the mark, so the place alone does not say who is best.
            best = round(rankings[name].ranks[place] - rankings[name].ranks[0], DECIMALS) == 0
            cells.append({"value": f"{ranks.at[combiner, name]:.1f}", "best": best, "close": not best and p >= 0.05})
        rows.append({"combiner": combiner, "cells": cells, "all": f"{ranks.at[combiner, 'all']:.1f}"})
    return rows


def _set_rows(results: Results, records: Any) -> list[dict[str, Any]]:
    """Return a row per kind of forest and s: what is decided, how much of that is right, what the sets are worth."""
    leaves, mean = shown_leaf_sizes(results, records), set_averages(results, records)
    always = baseline_accuracy(results, records)
    rows = []
    for forest, leaf_size in leaves.items() if has_sets(results) else ():
        if forest in always:
            cells = [1.0, *3 * [always[forest]], 1.0]
            rows.append({"forest": forest_name(forest, leaf_size), "s": "one class", "cells": cells})
        for s in TABLE_STRENGTHS:
            cells = mean.loc[(forest, s)].tolist()
            rows.append({"forest": forest_name(forest, leaf_size), "s": s, "cells": cells})
    return [{**row, "cells": [f"{v:.3f}" if v == v else "–" for v in row["cells"]]} for row in rows]


def _poll_rows(results: Results) -> list[dict[str, Any]]:
    """Return a row per kind of forest and leaf size: the cost of a vote that stops when it is settled."""
    rows = []
    for (forest, leaf_size), row in poll_averages(results).iterrows():
        cells = [f"{row[name]:.1f}" if name == "n_polled" else f"{row[name]:.3f}" for name in POLL_TITLES]
        rows.append({"forest": forest_name(forest, leaf_size), "cells": cells})
    return rows


def _larger(measure: str) -> bool:
    return {**RANKED_MEASURES, **_SMALLER_IS_BETTER}[measure]


def _with_code(sentence: str) -> Markup:
    """Return a sentence as HTML, with names between backticks as code."""
    return Markup(re.sub("`([^`]*)`", r"<code>\1</code>", str(escape(shown(sentence)))))


def _data_uri(picture: Picture) -> str:
    """Return an image that carries its own bytes: names inside one SVG cannot disturb another's."""
    return "data:image/svg+xml;base64," + base64.b64encode(picture.svg.encode()).decode()
