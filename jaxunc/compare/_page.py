"""The report page of a finished study: one HTML file, without outside resources."""

import base64
import os
import re
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from jaxunc._checks import escape_invisible

from ._evaluate import CONFIDENCE, INTERVAL_STRENGTH, RANKED_MEASURES, TOPS
from ._figures import (
    RANK_ROWS,
    Picture,
    choose_highlights,
    curve_pictures,
    interval_pictures,
    law_pictures,
    leaf_size_pictures,
    positive_picture,
    rank_pictures,
    set_pictures,
    uncertainty_pictures,
)
from ._laws import MEASURES_OF_LAWS
from ._sentences import data_line, data_notes, doubt, model_line, run_line, unsupported
from ._store import Results
from ._summary import (
    BASELINE,
    COMPARED_MEASURES,
    DECIMALS,
    POLL_TITLES,
    SET_TITLES,
    TABLE_STRENGTHS,
    TITLES,
    averages,
    baseline_accuracy,
    best_leaf_sizes,
    forest_name,
    has_sets,
    outcomes_of,
    poll_averages,
    ranked_measures,
    ranking,
    set_averages,
    shown_leaf_sizes,
    table_of_ranks,
)
from ._verdict import (
    BASE_RATES,
    RARE,
    Verdict,
    arrow,
    decision,
    further,
    is_binary,
    meaning,
    shares,
    shown_measures,
    shown_rows,
    shown_value,
    title,
    verdict,
)

_MOST_DOUBTFUL = 6
_SMALLER_IS_BETTER = {"calibration_error": False, "risk_coverage": False}


def write_page(folder: str | Path, results: Results) -> Path:
    """Write a study's page, ``report.html``, into the folder and return its path; raises an OSError if that fails."""
    path = Path(folder) / "report.html"
    partial = path.with_suffix(".html.partial")
    partial.write_text(page(results), encoding="utf-8")
    os.replace(partial, path)
    return path


def page(results: Results) -> str:
    """Return the report page of a study as HTML."""
    records = results.records()
    n_folds = results.settings.n_folds
    of_laws = results.settings.numbers
    rankings = {measure: ranking(records, measure, n_folds=n_folds) for measure in ranked_measures(records)}
    judgement = verdict(results, records)
    names = choose_highlights(results, rankings, judgement.leader)
    figures = {
        "leaf_sizes": leaf_size_pictures(results, records, names),
        "ranks": rank_pictures(rankings, names) if len(results.about["combiners"]) > 1 else [],
        "laws": law_pictures(results, judgement) if of_laws else [],
    }
    if not of_laws:
        figures |= {
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
        # Names in the data may hold characters that reverse the text around them.
        finalize=lambda value: escape_invisible(value) if type(value) is str else value,
    )
    environment.filters |= {"data_uri": _data_uri, "code": _to_html}
    return environment.get_template("page.html.jinja").render(
        about=results.about,
        data_line=data_line(results),
        model_line=model_line(results),
        notes=[note for note in data_notes(results) if not note.startswith("Warning")],
        warnings=results.about["data"]["warnings"],
        run_line=run_line(results),
        decision=decision(results, judgement),
        further=further(results, judgement),
        short=_short_rows(judgement),
        short_titles=[title(m) + arrow(judgement, m) for m in shown_measures(judgement)],
        tops=_top_rows(results, judgement) if is_binary(results) else [],
        top_names=_top_names(judgement),
        rates=shares(results),
        rare=RARE,
        positive_picture=positive_picture(results, judgement) if is_binary(results) else None,
        doubtful=[] if of_laws else _doubtful_rows(results, judgement),
        noun=judgement.noun,
        rejects_all=judgement.rejects_all,
        base_rates=BASE_RATES,
        unsupported=unsupported(results, records),
        measures=[(TITLES[name], _larger_is_better(name)) for name in _measures(records)],
        tables=_average_rows(results, records),
        sets=[] if of_laws else _set_rows(results, records),
        set_titles=SET_TITLES.values(),
        polls=[] if of_laws else _poll_rows(results),
        poll_titles=POLL_TITLES.values(),
        poll_confidence=CONFIDENCE,
        figures=figures,
        contents=_contents(results, judgement, figures),
        rank_rows=RANK_ROWS,
        meanings={name: meaning(judgement, name) for name in results.about["combiners"]},
        interval_strength=INTERVAL_STRENGTH,
        several_leaf_sizes=len(results.settings.leaf_sizes) > 1,
        baseline=judgement.base if of_laws else BASELINE if BASELINE in results.about["combiners"] else None,
    )


def _contents(results: Results, verdict: Verdict, figures: dict[str, list[Picture]]) -> dict[str, str]:
    """Return {anchor: title} of the sections that the page has, in order; ``figures`` is {section: its pictures}."""
    has_classes = not results.settings.numbers
    # An empty title stands for a section that the page does not have.
    titles = {
        "laws": "" if has_classes else "Do the intervals keep their word?",
        "finding": f"Finding {results.settings.positive}" if is_binary(results) else "",
        "doubtful": "The most doubtful rows" if has_classes and _doubtful_rows(results, verdict) else "",
        "limits": "What the numbers do not say",
        "run": "How it was run",
        "all": f"All {verdict.noun}s",
        "ranks": "Ranks" if figures["ranks"] else "",
        "leaf-sizes": "Leaf sizes" if figures["leaf_sizes"] else "",
        "trust": "Can the answers be trusted?" if has_classes else "",
        "uncertainty": "Two kinds of uncertainty" if has_classes else "",
        "sets": "Sets of classes" if has_classes and has_sets(results) else "",
        "intervals": "Intervals" if has_classes and has_sets(results) else "",
        "votes": "Votes" if has_classes and _poll_rows(results) else "",
        "meanings": "What the words mean",
    }
    return {anchor: text for anchor, text in titles.items() if text}


def _average_rows(results: Results, records: Any) -> dict[str, list[dict[str, Any]]]:
    """Return {kind of forest: a row for each combiner}, rows by rising mean rank.

    A cell of a row has mean and standard deviation over test folds, and whether the mean is the best. ``records`` is
    the frame of `Results.records`.
    """
    mean, leaves = averages(records), best_leaf_sizes(records)
    order = table_of_ranks(records).index
    tables = {}
    for forest in results.settings.forests:
        by_combiner = mean.loc[forest]
        rows = []
        for combiner in order:
            cells = []
            for name in _measures(records):
                # Rounded: several are best if they differ by rounding alone.
                column = by_combiner[(name, "mean")].round(DECIMALS)
                best_mean = {True: column.max(), False: column.min(), None: None}[_larger_is_better(name)]
                value, spread = by_combiner.at[combiner, (name, "mean")], by_combiner.at[combiner, (name, "std")]
                shown = (f"{value:.4f}", f"{spread:.3f}")
                if name in MEASURES_OF_LAWS:
                    shown = (shown_value(name, value), shown_value(name, spread))
                cells.append({"value": shown[0], "spread": shown[1], "best": column[combiner] == best_mean})
            rows.append({"combiner": combiner, "cells": cells, "leaf_size": leaves[forest, combiner]})
        tables[forest] = rows
    return tables


def _short_rows(verdict: Verdict) -> list[dict[str, Any]]:
    """Return the rows of the page's short table, in order; marks show which values tests tell from the default's."""
    rows, measures = [], shown_measures(verdict)
    for name in shown_rows(verdict):
        signs = {m: 0 if name == BASE_RATES else verdict.differs(m, name, verdict.base) for m in measures}
        cells = [
            {"value": shown_value(m, verdict.means.at[name, m]), "mark": {1: "better", -1: "worse"}.get(sign, "")}
            for m, sign in signs.items()
        ]
        forest = forest_name(*verdict.best_forests[name]) if verdict.best_forests.get(name, ("", 0))[1] else ""
        rows.append({"combiner": name, "cells": cells, "on": forest, "meaning": meaning(verdict, name)})
    return rows


def _top_names(verdict: Verdict) -> list[str]:
    """Return the verdict's leader and, if it is another combiner, the default."""
    return list(dict.fromkeys(name for name in (verdict.leader, verdict.base) if name is not None))


def _top_rows(results: Results, verdict: Verdict) -> list[dict[str, Any]]:
    """Return a row for each share of rows in `TOPS`: the per cent of positives in it, and the leader's lift and gain.

    Such a share holds the rows called most likely positive. Lift is the share of positives among these, divided by that
    in all rows. Gain is the share of all positives that are among these.
    """
    base_rate = shares(results)[str(results.settings.positive)]
    rows = []
    for top in TOPS:
        share = verdict.means[f"top_{top}"]
        sign = verdict.differs(f"top_{top}", verdict.leader, verdict.base)
        leader_mark = {1: "better", -1: "worse"}.get(sign, "")
        cells = [
            {"share": f"{100 * share[name]:.0f}", "mark": leader_mark if name == verdict.leader else ""}
            for name in _top_names(verdict)
        ]
        lift = share[verdict.leader] / base_rate
        gain = min(lift * top / 100, 1)  # share of all positives that lie in the top; a rounded top may hold more rows
        rows.append({"top": top, "cells": cells, "lift": f"{lift:.1f}", "gain": f"{gain:.0%}"})
    return rows


def _doubtful_rows(results: Results, verdict: Verdict) -> list[dict[str, Any]]:
    """Return the most doubtful rows of the data, in order, by the default's best forest (without one, the leader's)."""
    # The folds of the first repeat alone: they hold each row of the table once.
    outcomes = outcomes_of(results, *verdict.best_forests[verdict.base or verdict.leader])[: results.settings.n_folds]
    labels = list(results.about["data"]["classes"])
    total_uncertainty = lambda row: row["aleatoric"] + row["epistemic"]
    rows = sorted((row for outcome in outcomes for row in outcome.doubtful), key=total_uncertainty, reverse=True)
    return [
        {
            "row": row["row"],
            "values": ", ".join(f"{name} = {text}" for name, text in row["columns"].items()),
            "said": f"{labels[row['predicted']]} ({row['probability']:.2f})",
            "truth": labels[row["truth"]],
            "why": doubt(row),
            "alike": ", ".join(f"{labels[c]} (row {i})" for i, c in row.get("alike", ())),  # results of 0.2.0 have none
        }
        for row in rows[:_MOST_DOUBTFUL]
    ]


def _set_rows(results: Results, records: Any) -> list[dict[str, Any]]:
    """Return a row for each kind of forest and s, with the means of set measures as text; no rows without sets."""
    leaf_sizes, mean = shown_leaf_sizes(results, records), set_averages(results, records)
    accuracy = baseline_accuracy(results, records)
    rows = []
    for forest, leaf_size in leaf_sizes.items() if has_sets(results) else ():
        if forest in accuracy:
            # As `SET_MEASURES` are ordered. Sets of one class: all are decided, and each utility is the accuracy.
            cells = [1.0, *3 * [accuracy[forest]], 1.0]
            rows.append({"forest": forest_name(forest, leaf_size), "s": "one class", "cells": cells})
        for s in TABLE_STRENGTHS:
            cells = mean.loc[(forest, s)].tolist()
            rows.append({"forest": forest_name(forest, leaf_size), "s": s, "cells": cells})
    return [{**row, "cells": [f"{v:.3f}" if v == v else "–" for v in row["cells"]]} for row in rows]


def _poll_rows(results: Results) -> list[dict[str, Any]]:
    """Return a row for each kind of forest and leaf size, with the mean measures of votes (`POLL_TITLES`) as text."""
    rows = []
    for (forest, leaf_size), row in poll_averages(results).iterrows():
        cells = [f"{row[name]:.1f}" if name == "n_polled" else f"{row[name]:.3f}" for name in POLL_TITLES]
        rows.append({"forest": forest_name(forest, leaf_size), "cells": cells})
    return rows


def _measures(records: Any) -> list[str]:
    """Return the names of the measures in the tables of all combiners: those that are columns of ``records``."""
    return [name for name in (*COMPARED_MEASURES, *MEASURES_OF_LAWS) if name in records]


def _larger_is_better(measure: str) -> bool | None:
    return {**RANKED_MEASURES, **_SMALLER_IS_BETTER, **MEASURES_OF_LAWS}[measure]


def _to_html(sentence: str) -> Markup:
    """Return a sentence as HTML, with names between backticks as code, classes between asterisks in italics."""
    text = re.sub("`([^`]*)`", r"<code>\1</code>", str(escape(escape_invisible(sentence))))
    return Markup(re.sub(r"\*([^*]+)\*", r"<em>\1</em>", text))


def _data_uri(picture: Picture) -> str:
    """Return a picture as a data URI, so that names inside one SVG cannot disturb those of another."""
    return "data:image/svg+xml;base64," + base64.b64encode(picture.svg.encode()).decode()
