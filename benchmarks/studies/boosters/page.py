"""The page of the study of boosters, made of its cells."""
from benchmarks.studies.boosters.methods import LIBRARIES
FORESTS = ("mean", "mean, P", "pool", "tuned mean, P", "tuned pool")
BOOSTERS = tuple(f"{library}{kind}" for library in LIBRARIES for kind in ("", ", P", ", tuned", ", tuned, P"))
MIXED = ("best booster", "pool and best booster", "half pool, half best booster", "pool and CatBoost", "half pool, half CatBoost")
METHODS = (*FORESTS, *BOOSTERS, *MIXED)
def page(found):
    return ""
