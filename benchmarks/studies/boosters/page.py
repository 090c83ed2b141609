"""The page of the study of boosters: tables and the verdict made of its cells."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.pages import bold, digits, fill, table, verdict_rows
from benchmarks.studies.boosters import losses
from benchmarks.studies.boosters.losses import ALPHA, BEST, HALF, LEAST, LOSS, POOL, Losses, won_and_lost
from benchmarks.studies.boosters.methods import LIBRARIES, N_ASKED, SETS, LargeCell

TEMPLATE = Path(__file__).with_name("page.md")
FORESTS = ("mean", "mean, P", "tuned mean, P", "tuned pool")
BOOSTERS = tuple(f"{library}{kind}" for kind in ("", ", P", ", tuned", ", tuned, P") for library in LIBRARIES)
MIXTURES = ("pool and best booster", HALF, "pool and CatBoost", "half pool, half CatBoost")
METHODS = (POOL, *FORESTS, *BOOSTERS, BEST, *MIXTURES)
NOISY, MOST = 0.1, 1.02
"""The out-of-bag error of noisy sets; the most that an interval of *enough* may reach."""
MINUTES = 60
"""The time of one core that was planned."""


def page(found: Mapping[Any, dict]) -> str:
    """The text of the page."""
    more = {cell: record for cell, record in found.items() if isinstance(cell, LargeCell)}
    few = {cell: record for cell, record in found.items() if cell not in more}
    of, large = Losses(few), Losses(more) if more else None
    return fill(
        TEMPLATE,
        told=lambda *pair: won_and_lost(of.logs(*pair)),
        answer=larger_sets(of, large, "the answer") if large else "",
        scene=f"{np.exp(of.logs(BEST, POOL)['scene']):.2f}",
        without_scene=digits(enough(of.logs(POOL, BEST)[of.sets["error"] >= NOISY].drop("scene"))[0]),
        worst_half=digits(np.exp(of.logs(HALF, BEST).max())),
        worst_pool=digits(np.exp(of.logs(POOL, BEST).max())),
        over=minutes_of(few) - MINUTES,
        verdict=table(["rule", "measured", ""], []) + "\n" + verdict_rows(verdicts(of, large)),
        n_asked=f"{N_ASKED:,}".replace(",", " "),
        times=1_000_000 // N_ASKED,
        n_sets=len(of.sets),
        n_folds=len(of.cells),
        unreached=", ".join(name for name in SETS if name not in of.sets.index) or "none",
        methods=against(of, [name for name in METHODS if name not in (POOL, *MIXTURES)]),
        mixtures=mixtures(of),
        kinds=kinds(of),
        larger=larger_sets(of, large, "larger sets") if large else "They were not run.",
        sets=by_set(of),
        disagree=disagree(of),
        weights=weights(of),
        minutes=minutes_of(few),
        minutes_large=minutes_of(more),
        unreached_large=losses.unreached(large) if large else "all",
    )


def minutes_of(found: Mapping[Any, dict]) -> int:
    """What cells took of one core, all in all."""
    return round(sum(record["all"] for record in found.values()) / 60)


def larger_sets(small: Losses, large: Losses, part: str) -> str:
    """A part of the page on larger sets, beside the same sets with few rows."""
    few = losses.same_sets(small, large)

    def grown(first: str, second: str, *without: str) -> str:
        logs = losses.growth(few, large, first, second).drop(list(without), errors="ignore")
        low, high, least = losses.interval(logs)
        return f"{np.exp(logs.mean()):.3f} ({low:.3f} to {high:.3f}; at least {least:.3f})"

    return fill(
        TEMPLATE,
        part,
        few=lambda *pair: won_and_lost(few.logs(*pair)),
        more=lambda *pair: won_and_lost(large.logs(*pair)),
        less=won_and_lost(small.logs(POOL, BEST)[small.sets["rows"] < 200]),
        some=won_and_lost(small.logs(POOL, BEST)[small.sets["rows"] >= 200]),
        grown=grown,
        n_large=len(large.sets),
        least_p=f"{min(1.0, len(losses.PAIRS) * 2.0 ** (1 - len(large.sets))):.3f}",
        p=f"{losses.tested(few, large)[0][1]:.3f}",
        disagree_large=disagree(large),
        growths=losses.growths(few, large),
        sizes=losses.by_size(small, large),
        methods_large=losses.methods(few, large),
        sets_large=losses.by_set(few, large),
    )


def enough(logs: pd.Series) -> tuple[float, float]:
    """The geometric mean of ratios, and the upper end of its one-sided interval of 95 %."""
    mean = float(np.exp(logs.mean()))
    return mean, mean**2 / losses.interval(logs)[2]  # as far above the mean as the lower one is below


def verdicts(of: Losses, large: Losses | None = None) -> list[tuple[str, str, bool]]:
    """The hypothesis, and its two halves: noisy sets, and the others beside them; the same of larger sets."""
    is_noisy, ratios = of.sets["error"] >= NOISY, of.logs(POOL, BEST)
    asked = {"noisy sets below 1000 rows": ratios[is_noisy], "other sets below 1000 rows": ratios[~is_noisy]}
    if large is not None:
        asked["sets of 1000 to 4000 training rows"] = large.logs(POOL, BEST)
    rows = []
    for title, logs in asked.items():
        mean, end = enough(logs)
        said = f"{mean:.3f}, at most {end:.3f}; {(logs < 0).sum()}:{(logs > 0).sum()} of {len(logs)} sets"
        rows.append((f"the pool is enough on {title}", said, mean <= 1 and end <= MOST))
    return rows


def duels(of: Losses, pairs: Sequence[tuple[str, str]]) -> list[tuple[Any, float]]:
    """The duel of the losses of each pair of methods, with its p-value after Holm's correction for all."""
    return losses.told_apart([-of.wide(LOSS)[[*pair]].clip(lower=LEAST).apply(np.log).to_numpy() for pair in pairs])


def against(of: Losses, names: Sequence[str]) -> str:
    """How the others do beside the pool: losses as ratios to it, and what tests say."""
    rows = [[f"`{POOL}`", "1.000", "1.000", "", "", "", "1.000", "1.000", "", "", *of.seconds(POOL)]]
    for name, (one, p) in zip(names, duels(of, [(POOL, name) for name in names]), strict=True):
        logs = of.logs(name, POOL)
        ratios = [np.exp(logs.mean()), np.exp(logs.median())]
        further = [np.exp(of.logs(name, POOL, measure).mean()) for measure in ("log_loss", "brier")]
        gains = [(of.wide(measure)[name] - of.wide(measure)[POOL]).mean() for measure in ("accuracy", "auc")]
        won = bold(f"{one.wins}:{one.losses}", p < ALPHA)
        rows.append([f"`{name}`", *map(digits, ratios), won, f"{one.correlation:+.2f}", f"{p:.3f}"])
        rows[-1] += [*map(digits, further), *(f"{gain:+.3f}" for gain in gains), *of.seconds(name)]
    head = ["", "log loss", "median", f"won by `{POOL}`", "effect", "p", "log loss, 1e-15", "Brier", "accuracy", "AUC"]
    return table([*head, "fitting", "a million answers"], rows)


def mixtures(of: Losses) -> str:
    """What mixing gains on both members: ratios, wins and losses, effects, p-values."""
    pairs = [(name, other) for name in MIXTURES for other in (POOL, BEST if BEST in name else "CatBoost, P")]
    rows = []
    for (name, other), (one, p) in zip(pairs, duels(of, pairs), strict=True):
        logs, brier = of.logs(name, other), of.logs(name, other, "brier")
        shown = map(digits, np.exp([logs.mean(), logs.median(), logs.max(), brier.mean()]))
        won = bold(f"{one.wins}:{one.losses}", p < ALPHA)
        rows.append([f"`{name}`", f"`{other}`", *shown, won, f"{one.correlation:+.2f}", f"{p:.3f}"])
    return table(["", "beside", "log loss", "median", "worst set", "Brier", "won", "effect", "p"], rows)


def kinds(of: Losses) -> str:
    """The pool beside boosters, and the mixture beside the pool, on kinds of sets."""
    sets = of.sets
    named = {
        "all": sets["rows"] > 0,
        f"noisy: error from {NOISY:g}": sets["error"] >= NOISY,
        f"error below {NOISY:g}": sets["error"] < NOISY,
        "below 200 training rows": sets["rows"] < 200,
        "200 and more": sets["rows"] >= 200,
        "at most 8 columns": sets["columns"] <= 8,
        "more columns": sets["columns"] > 8,
        "no words": sets["words"] == 0,
        "some words": sets["words"] > 0,
        "two classes": sets["classes"] == 2,
        "more classes": sets["classes"] > 2,
    }
    pairs = ((POOL, "CatBoost"), (POOL, "CatBoost, P"), (POOL, BEST), (HALF, POOL), (HALF, BEST))
    rows = [
        [title, str(is_in.sum()), *(won_and_lost(of.logs(*pair)[is_in]) for pair in pairs)]
        for title, is_in in named.items()
    ]
    return table(["", "sets", *(f"`{a}` : `{b}`" for a, b in pairs)], rows)


def by_set(of: Losses) -> str:
    """Set by set: what it is, the pool's loss, and ratios to it; the pool's ratio to the best booster on each fold."""
    rows, by_fold = [], of.logs(POOL, BEST, by="fold")
    names = ("mean", "CatBoost", BEST, HALF, "tuned pool")
    for name, head in of.sets.iterrows():
        best = [record["chosen"][BEST].split(",")[0] for cell, record in of.cells.items() if cell.data == name]
        folds = np.exp(by_fold.loc[name])
        each = [f"{np.exp(of.logs(other, POOL)[name]):.3f}" for other in names]
        about = [f"{head['rows']:.0f}", f"{head['classes']:.0f}", f"{head['columns']:.0f}", f"{head['words']:.2f}"]
        loss = f"{of.wide(LOSS).loc[name, POOL]:.4f}"
        rows.append([str(name), *about, f"{head['error']:.2f}", loss, *each, ", ".join(map(digits, folds))])
        rows[-1].append(", ".join(dict.fromkeys(best)))
    head = ["", "rows", "classes", "columns", "words", "error", "`pool`", *(f"`{other}`" for other in names)]
    return table([*head, f"`pool` : `{BEST}`, by fold", "best booster"], rows)


def disagree(of: Losses) -> str:
    """On how many sets the folds do not agree which of the pool and the best booster is ahead."""
    logs = of.logs(POOL, BEST, by="fold")
    signs = (logs > 0).groupby("set").agg(lambda x: x.nunique() > 1)
    return f"{int(signs.sum())} of {len(signs)}"


def weights(of: Losses) -> str:
    """The pool's weight in the mixtures, in the median over cells."""
    keys = {name: f"pool's weight with {name}" for name in (BEST, "CatBoost")}
    found = {name: np.median([record["chosen"][key] for record in of.cells.values()]) for name, key in keys.items()}
    return " and ".join(f"{value:.2f} beside `{name}`" for name, value in found.items())
