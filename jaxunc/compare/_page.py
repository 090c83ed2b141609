"""The report page of a finished study: one HTML file, without outside resources."""

import base64
import os
import re
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup, escape

from jaxunc._checks import escape_invisible

from ._decision import decision, further
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
    is_binary,
    meaning,
    shares,
    shown_measures,
    shown_rows,
    shown_value,
    title,
    verdict,
)

_MOST_DOUBTFUL = 6  # number of doubtful rows that are listed
_SMALLER_IS_BETTER = {"calibration_error": False, "risk_coverage": False}


def write_page(folder: str | Path, results: Results) -> Path:
    """Write a study's page into the folder as ``report.html``, and return the path; raises an OSError on failure."""
    path = Path(folder) / "report.html"
    partial = path.with_suffix(".html.partial")
    partial.write_text(page(results), encoding="utf-8")
    os.replace(partial, path)
    return path


def page(results: Results) -> str:
    """Return the report page of a study as HTML."""
    records = results.records()
    of_laws = results.settings.numbers
    judgement = verdict(results, records)
    figures = _figures(results, records, judgement)
    combiner_baseline = BASELINE if BASELINE in results.about["combiners"] else None
    template = _environment().get_template("page.html.jinja")
    return template.render(
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
        baseline=judgement.base if of_laws else combiner_baseline,
    )


def _figures(results: Results, records: Any, verdict: Verdict) -> dict[str, list[Picture]]:
    """Return {section of the page: its pictures}; ``records`` is the frame of `Results.records`."""
    n_folds = results.settings.n_folds
    rankings = {measure: ranking(records, measure, n_folds=n_folds) for measure in ranked_measures(records)}
    names = choose_highlights(results, rankings, verdict.leader)
    figures = {
        "leaf_sizes": leaf_size_pictures(results, records, names),
        "ranks": rank_pictures(rankings, names) if len(results.about["combiners"]) > 1 else [],
    }
    if results.settings.numbers:
        return {**figures, "laws": law_pictures(results, verdict)}
    return {
        **figures,
        "laws": [],
        "curves": curve_pictures(results, records, names),
        "uncertainty": uncertainty_pictures(results, records),
        "sets": set_pictures(results, records),
        "intervals": interval_pictures(results, records),
    }


def _environment() -> jinja2.Environment:
    """Return the environment of the page's template, with its filters; texts are escaped."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("jaxunc.compare", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        # Names in the data may hold characters that reverse the text around them. `Markup`, a kind of str, stays.
        finalize=lambda value: escape_invisible(value) if type(value) is str else value,
    )
    environment.filters |= {"data_uri": _data_uri, "code": _to_html}
    return environment


def _contents(results: Results, verdict: Verdict, figures: dict[str, list[Picture]]) -> dict[str, str]:
    """Return {anchor: title} of the sections that the page has, in order; ``figures`` are those of `_figures`."""
    has_classes = not results.settings.numbers
    sections = (  # anchor, title, whether the page has the section
        ("laws", "Do the intervals keep their word?", not has_classes),
        ("finding", f"Finding {results.settings.positive}", is_binary(results)),
        ("doubtful", "The most doubtful rows", has_classes and _doubtful_rows(results, verdict)),
        ("limits", "What the numbers do not say", True),
        ("run", "How it was run", True),
        ("all", f"All {verdict.noun}s", True),
        ("ranks", "Ranks", figures["ranks"]),
        ("leaf-sizes", "Leaf sizes", figures["leaf_sizes"]),
        ("trust", "Can the answers be trusted?", has_classes),
        ("uncertainty", "Two kinds of uncertainty", has_classes),
        ("sets", "Sets of classes", has_classes and has_sets(results)),
        ("intervals", "Intervals", has_classes and has_sets(results)),
        ("votes", "Votes", has_classes and _poll_rows(results)),
        ("meanings", "What the words mean", True),
    )
    return {anchor: text for anchor, text, is_present in sections if is_present}


def _average_rows(results: Results, records: Any) -> dict[str, list[dict[str, Any]]]:
    """Return {kind of forest: rows of its table}: a row for each combiner or law, by rising mean rank.

    A row has a cell for each of `_measures`. ``records`` is the frame of `Results.records`.
    """
    means_and_spreads = averages(records)
    leaf_sizes = best_leaf_sizes(records)
    order = table_of_ranks(records).index
    tables = {}
    for forest in results.settings.forests:
        by_combiner = means_and_spreads.loc[forest]
        rows = []
        for combiner in order:
            cells = [_average_cell(by_combiner, combiner, measure) for measure in _measures(records)]
            rows.append({"combiner": combiner, "cells": cells, "leaf_size": leaf_sizes[forest, combiner]})
        tables[forest] = rows
    return tables


def _average_cell(by_combiner: Any, combiner: str, measure: str) -> dict[str, Any]:
    """Return a cell of the table of all combiners: "value" (the mean), "spread", and "best", whether no mean is better.

    ``by_combiner`` is a frame of one kind of forest, as `averages` makes it, with a row for each combiner.
    """
    means = by_combiner[(measure, "mean")].round(DECIMALS)  # several are best if they differ by rounding alone
    best_mean = {True: means.max(), False: means.min(), None: None}[_larger_is_better(measure)]
    is_best = means[combiner] == best_mean
    value = by_combiner.at[combiner, (measure, "mean")]
    spread = by_combiner.at[combiner, (measure, "std")]
    if measure in MEASURES_OF_LAWS:
        return {"value": shown_value(measure, value), "spread": shown_value(measure, spread), "best": is_best}
    return {"value": f"{value:.4f}", "spread": f"{spread:.3f}", "best": is_best}


def _short_rows(verdict: Verdict) -> list[dict[str, Any]]:
    """Return the rows of the page's short table, in order; marks show which values tests tell from the default's."""
    rows = []
    for name in shown_rows(verdict):
        cells = []
        for measure in shown_measures(verdict):
            sign = 0 if name == BASE_RATES else verdict.differs(measure, name, verdict.base)
            cells.append({"value": shown_value(measure, verdict.means.at[name, measure]), "mark": _mark(sign)})
        # The base rates have no forest, and the leaf size of a given model is 0.
        kind, leaf_size = verdict.best_forests.get(name, ("", 0))
        forest = forest_name(kind, leaf_size) if leaf_size else ""
        rows.append({"combiner": name, "cells": cells, "on": forest, "meaning": meaning(verdict, name)})
    return rows


def _mark(sign: int) -> str:
    """Return the word for a result of `Verdict.differs`: "better" for 1, "worse" for -1, an empty text for 0."""
    return {1: "better", -1: "worse", 0: ""}[sign]


def _top_names(verdict: Verdict) -> list[str]:
    """Return the leader's name and, if another combiner is the default, the default's."""
    return list(dict.fromkeys(name for name in (verdict.leader, verdict.base) if name is not None))


def _top_rows(results: Results, verdict: Verdict) -> list[dict[str, Any]]:
    """Return the rows of the table on instances called most likely positive, one for each per cent in `TOPS`.

    A cell has the per cent of positives among these instances, by the leader or the default. Lift is the leader's share
    of positives among these, divided by that among all instances. Gain is the share of all positives that are among
    these.
    """
    base_rate = shares(results)[str(results.settings.positive)]
    rows = []
    for top in TOPS:
        measure = f"top_{top}"
        share = verdict.means[measure]
        leader_mark = _mark(verdict.differs(measure, verdict.leader, verdict.base))
        cells = []
        for name in _top_names(verdict):
            mark = leader_mark if name == verdict.leader else ""
            cells.append({"share": f"{100 * share[name]:.0f}", "mark": mark})
        lift = share[verdict.leader] / base_rate
        gain = min(lift * top / 100, 1)  # at most 1, though the number of rows called most likely is rounded
        rows.append({"top": top, "cells": cells, "lift": f"{lift:.1f}", "gain": f"{gain:.0%}"})
    return rows


def _doubtful_rows(results: Results, verdict: Verdict) -> list[dict[str, Any]]:
    """Return the `_MOST_DOUBTFUL` most doubtful rows of the data as texts, the most doubtful first.

    They are those of the default's best forest; without a default, of the leader's.
    """
    outcomes = outcomes_of(results, *verdict.best_forests[verdict.base or verdict.leader])
    first_repetition = outcomes[: results.settings.n_folds]  # it has each row of the table once
    labels = list(results.about["data"]["classes"])
    total_uncertainty = lambda row: row["aleatoric"] + row["epistemic"]
    rows = [row for outcome in first_repetition for row in outcome.doubtful]
    rows.sort(key=total_uncertainty, reverse=True)
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
    """Return the rows of the table of sets: mean measures as text, for each kind of forest and s of `TABLE_STRENGTHS`.

    If `BASELINE` was run, the first row of each kind is for a forest that names one class by it. The list is empty if
    the study has no sets. ``records`` is the frame of `Results.records`.
    """
    if not has_sets(results):
        return []
    mean = set_averages(results, records)
    accuracy = baseline_accuracy(results, records)
    rows = []
    for forest, leaf_size in shown_leaf_sizes(results, records).items():
        name = forest_name(forest, leaf_size)
        if forest in accuracy:
            # Of single classes, in the order of `SET_MEASURES`: all is decided, and both utilities are the accuracy.
            values = [1.0, accuracy[forest], accuracy[forest], accuracy[forest], 1.0]
            rows.append({"forest": name, "s": "one class", "cells": list(map(_share_text, values))})
        for s in TABLE_STRENGTHS:
            values = mean.loc[(forest, s)].tolist()
            rows.append({"forest": name, "s": s, "cells": list(map(_share_text, values))})
    return rows


def _share_text(value: float) -> str:
    """Return a number with three decimals, or a dash for NaN."""
    return "–" if np.isnan(value) else f"{value:.3f}"


def _poll_rows(results: Results) -> list[dict[str, Any]]:
    """Return the rows of the table of votes: means of `POLL_TITLES` as text, for each kind of forest and leaf size.

    The list is empty if the study has no votes.
    """
    rows = []
    for (forest, leaf_size), means in poll_averages(results).iterrows():
        cells = [f"{means[name]:.1f}" if name == "n_polled" else f"{means[name]:.3f}" for name in POLL_TITLES]
        rows.append({"forest": forest_name(forest, leaf_size), "cells": cells})
    return rows


def _measures(records: Any) -> list[str]:
    """Return the names of the measures in the tables of all combiners or laws: columns of ``records``, in order."""
    return [name for name in (*COMPARED_MEASURES, *MEASURES_OF_LAWS) if name in records]


def _larger_is_better(measure: str) -> bool | None:
    """Return whether larger values of a measure are better; None if neither larger nor smaller ones are."""
    return {**RANKED_MEASURES, **_SMALLER_IS_BETTER, **MEASURES_OF_LAWS}[measure]


def _to_html(sentence: str) -> Markup:
    """Return a sentence as escaped HTML: texts between backticks become code, those between asterisks italic."""
    text = re.sub("`([^`]*)`", r"<code>\1</code>", str(escape(escape_invisible(sentence))))
    return Markup(re.sub(r"\*([^*]+)\*", r"<em>\1</em>", text))


def _data_uri(picture: Picture) -> str:
    """Return the picture's SVG as a data URI, so that names inside one SVG cannot disturb those of another."""
    return "data:image/svg+xml;base64," + base64.b64encode(picture.svg.encode()).decode()
