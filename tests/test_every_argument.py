"""Every argument of every public callable: what is of no use there is refused by the argument's name."""

import inspect
import re
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.naive_bayes import GaussianNB

import jaxunc as ju
from jaxunc import learning, tables
from jaxunc.forest import TreeNodes
from tests.conftest import TYPED

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(TYPED, reason="the type hook, which users do not have, would speak first"),
]

ROOMS = (
    *("belief", "combiners", "compare", "counting", "decisions", "estimators", "explanations", "forest", "inference"),
    *("interop", "learning", "metrics", "parallel", "proximity", "random_trees", "regression", "scorers"),
    *("smoothing", "storage", "streaming", "tables", "transduction", "voting"),
)
SIGNIFICANCE = ("average_ranks", "corrected_t_test", "holm", "pairwise_corrected_t", "ranks")
"""The rest of their room has a command and tests of its own."""
FOR_OTHERS = {
    "decisions": ("maximality",),
    "scorers": ("dominance", "idm_interval", *sorted({*ju.scorers.FUNCTIONS_OF_COUNTS} - {*ju.scorers.__all__})),
    "smoothing": ("fit_dirichlet_prior",),
    "voting": ("bind_vote", "critical_final_votes"),
}
"""Names that other rooms import, and whose arguments users reach."""
MADE_BY_OTHERS = {
    *("from_lightgbm", "from_ydf"),  # their arguments are another library's
    *("BoundForest", "BoundVote", "BoundSample", "NumberDistribution"),
    *("OobDataset", "FitResult", "SelectionResult"),
    *("Together", "Forest", "Trees", "Combiner", "scorer", "MemberSmoothing"),
}
"""Classes that a function of the library makes, and what has no arguments of its own."""
OF_OTHER_LIBRARIES = {"from_catboost", "from_onnx", "from_treelite", "from_xgboost"}
"""Importers whose valid models another library makes: their own tests have them."""
FREE = {("determinacy", "y"), ("set_size", "y"), ("target_bins", "y")}
"""Parameters that may be anything, not read, so that metrics are called alike; or of any length."""
LABELLED = {"metrics", "learning"}
"""Rooms where y belongs to two instances."""
INTEGERS = {
    *("max_trees", "n_points", "n_folds", "n_steps", "threads", "max_depth", "random_state", "block_size", "n_jobs")
}
"""Parameters that are integers if they are not None."""
NUMBERS = {"clip", "validation", "inbag_weight", "n_samples"}
"""Parameters that are numbers if they are not None."""
WITH_NAN = {"X", "X_train", "data", "leaf_table", ("margin", "class_scores"), ("outside_share", "rows")}
"""Parameters in which NaN means something: a missing value, any statistic, what `jax.numpy` hands on."""
WITH_STRINGS = {"y", "y_train"}
"""Arrays that may hold strings: labels."""
WITH_NEGATIVES = {"size_power", "bias", "decimals", "shift", "n_jobs"}
"""Numbers that may lie below 0."""
ONE_EACH = {"y", "y_train", "sample_weight", "correct", "weight", "epistemic"}
"""Arrays with an entry for each instance, or tree, of another argument."""
BETA = ju.smoothing.BetaPrior(np.array(1.0), np.array(2.0), 0)
STUMP = TreeNodes(
    *(np.array([0, -1, -1]), np.array([0.5, 0.0, 0.0]), np.array([1, -1, -1]), np.array([2, -1, -1])), np.zeros(3, bool)
)


class Nothing:
    """Of no use anywhere."""

    def __repr__(self):
        return "Nothing()"


def arguments(folder: Path) -> dict:
    """Valid values by the names of parameters."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3)).astype(np.float32)
    y = np.digitize(X[:, 0], [0.0])
    model = RandomForestClassifier(30, min_samples_leaf=3, random_state=0).fit(X, y)
    forest = ju.from_sklearn(model)
    bound = ju.bind(forest, ju.Mean())
    table = pa.table({name: X[:, i] for i, name in enumerate("012")})
    ju.save(folder / "model.jaxunc", forest)
    pq.write_table(table, folder / "data.parquet")
    counts, probs = np.array([[3.0, 1.0], [0.0, 2.0]]), np.array([[0.2, 0.8], [0.6, 0.4]])
    return {
        "X": X, "y": y, "X_train": X, "y_train": y, "n": 60, "model": model, "forest": forest, "trees": forest.trees,
        "combiner": ju.Mean(), "rule": ju.Mean(), "rules": [ju.Mean()], "prior": np.array([0.5, 0.5]), "s": 1.0,
        "counts": counts, "rows": learning.oob_dataset(model, X, y, source="oob"),
        "candidates": {"pool": ju.LearnedPool(np.array([0.5, 0.5]))}, "nodes": [STUMP],
        "masses": np.asarray(ju.scorers.mass(counts)), "reliability": np.array([0.5, 0.2]),
        "key": jax.random.key(0), "values": rng.random((6, 3)), "larger_is_better": True,
        "p_values": np.array([0.1, 0.02]), "differences": np.array([0.1, 0.2, 0.3]), "test_share": 0.1,
        "probability": probs, "probs": probs, "class_scores": probs,
        "log_probs": np.log(probs), "cost": 0.2, "interval": ju.scorers.Interval(probs - 0.1, probs + 0.1),
        "membership": probs > 0.3, "preference": ju.GeneralizedVote(1.0)(counts[None]),
        "certainty": np.array([0.9, 0.2]), "correct": np.array([True, False]), "score": np.array([0.3, -0.2]),
        "aleatoric": np.array([0.3, 0.2]), "epistemic": np.array([0.3, 0.2]), "weight": np.ones(2),
        "answer": ju.Mean().answer(counts[:, None]), "bound": bound, "mesh": jax.make_mesh((1, 1), ("data", "tree")),
        "leaf_table": ju.inference.leaf_table(forest, ju.Mean()), "m": 2.0,
        "n_samples": 60.0, "p": np.array([0.6, 0.7]),
        "q": np.array([0.4, 0.3]), "max_trees": 50, "confidence": 0.9, "disagreement": 0.1,
        "n_trees": 11, "tree_mask": np.ones((60, 30), bool), "n_classes": 2,
        "vote_counts": np.array([[3, 1], [0, 4]]), "votes": np.array([[0, 1, 0], [1, 1, 1]]), "weights": np.ones(2),
        "path": folder / "model.jaxunc", "x": forest, "source": table, "output": "answers", "number": 3, "data": X,
        "columns": tables.Columns(3), "table": table, "class_labels": (0, 1), "data_path": folder / "data.parquet",
        "estimator": GaussianNB(),
    }  # fmt: skip


OWN = {
    "expected_trees": {"p": np.array([0.6, 0.4])},
    "optimal_votes": {"n_trees": 50},
    "combiner_by_name": {"name": "evidence"},
    "assemble": {"counts": [np.array([[5.0, 5.0], [4.0, 1.0], [1.0, 4.0]])]},
    "least_cost": {"p": np.array([[0.2, 0.8], [0.6, 0.4]]), "costs": np.array([[0.0, 1.0], [5.0, 0.0]]), "reject": 0.2},
    "conformal_sets": {
        "p": np.array([[0.2, 0.8], [0.6, 0.4]]),
        "calibration": np.array([[0.7, 0.3], [0.1, 0.9], [0.2, 0.8]]),
        "labels": np.array([0, 1, 1]),
        "coverage": 0.5,
    },
    "Weighted": {"weights": np.ones(30)},
    "fit_combiner": {"combiner": ju.LearnedPool(np.array([0.5, 0.5])), "n_steps": 1},
    "dataset_from_counts": {"counts": np.array([[[3.0, 1.0], [2.0, 2.0]], [[0.0, 2.0], [1.0, 1.0]]])},
    "standard_errors": {"combiner": ju.LearnedPool(np.array([0.5, 0.5])), "freeze": ("noise", "strength")},
    "interval_score": {"interval": np.array([[0.0, 1.0], [0.5, 2.0]])},
    "pinball_loss": {"predicted": np.array([[0.0, 1.0], [0.5, 2.0]]), "quantiles": np.array([0.1, 0.9])},
    "crps": {"values": np.array([[0.0, 1.0], [0.5, 2.0]]), "probs": np.array([[0.5, 0.5], [0.2, 0.8]])},
    "LeafMoments": {
        "model": lambda v: RandomForestRegressor(3).fit(v["X"], v["y"]),
        **{name: lambda v, name=name: v[name] for name in ("X", "y")},
        "weight": np.ones(60),
    },
    "oob_mask": {"X": lambda v: v["X"], "y": lambda v: v["y"]},
    **{
        name: {each: lambda v, each=each: v["X" if each == "rows" else each] for each in ("rows", "X", "y")}
        for name in ("neighbours", "neighbour_weights", "NeighbourIndex", "outside_share", "target_doubt")
    },
    "UtilityLoss": {"by_size": np.array([1.0, 0.65]), "temperature": 0.1},
    "SmoothedMean": {"prior": BETA},
    "correction_interval": {"prior": BETA},
    "smooth": {"prior": BETA},
    "from_sklearn_values": {"model": lambda v: GradientBoostingClassifier(n_estimators=3).fit(v["X"], v["y"])},
    "stream": {"model": lambda v: v["forest"]},
    "to_onnx": {"model": lambda v: v["bound"]},
    "to_treelite": {"model": lambda v: v["bound"]},
    "predict_files": {"model": lambda v: v["path"], "source": lambda v: v["data_path"]},
}
"""Where a name means something else, and arguments without which others are not read."""


def public():
    """(room, name) of what users call."""
    seen = set()
    for room in ROOMS:
        module = getattr(ju, room)
        for name in SIGNIFICANCE if room == "compare" else (*module.__all__, *FOR_OTHERS.get(room, ())):
            found = getattr(module, name)
            is_tuple = inspect.isclass(found) and (hasattr(found, "_fields") or hasattr(found, "__members__"))
            is_warning = inspect.isclass(found) and issubclass(found, Warning)
            is_none = not callable(found) or found is Any or is_tuple or is_warning or name in MADE_BY_OTHERS
            if not is_none and id(found) not in seen:
                seen.add(id(found))
                yield pytest.param(room, name, id=f"{room}.{name}")


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    return arguments(tmp_path_factory.mktemp("data"))


class Call:
    def __init__(self, room: str, name: str, valid: dict):
        self.function, self.valid = getattr(getattr(ju, room), name), valid
        own = valid | ({"y": np.array([0, 1])} if room in LABELLED and name != "oob_dataset" else {})
        of_call = {key: one(own) if inspect.isfunction(one) else one for key, one in OWN.get(name, {}).items()}
        parameters = inspect.signature(self.function).parameters.values()
        named = [p for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
        self.arguments = {p.name: (own | of_call)[p.name] for p in named if p.default is p.empty or p.name in of_call}
        self.defaults = {p.name: self.arguments.get(p.name, p.default) for p in named if (name, p.name) not in FREE}

    def __call__(self, **given):
        keys = {"key": jax.random.clone(self.valid["key"])} if "key" in self.arguments else {}
        found = self.function(**self.arguments | keys | given)
        if hasattr(found, "fit"):  # as in scikit-learn, which checks parameters there
            found.fit(self.valid["X"], self.valid["y"])
        elif inspect.isgenerator(found):
            list(found)

    def silence(self, name: str, wrong) -> str:
        """What is wrong with the answer to this argument; empty if it is refused by its name."""
        try:
            self(**{name: wrong})
        except Exception as error:
            is_named = re.search(rf"(?<![\w']){name}(?!\w)", str(error))
            if is_named and isinstance(error, TypeError | ValueError):
                return ""
            said = f"{type(error).__name__}: {str(error)[:150]!r}"
        else:
            said = "taken"
        is_deleted = isinstance(wrong, jax.Array) and wrong.is_deleted()  # such an array cannot be shown
        return f"{name}={'a deleted array' if is_deleted else repr(wrong)[:60]}: {said}"


def wrong_numbers(function: str, name: str, value):
    """Of the kind of a valid value, or of what the name stands for, what a slip may make of it."""
    if isinstance(value, bool):
        yield from ("yes", 1, float("nan"))
    elif isinstance(value, int) or (value is None and name in INTEGERS):
        yield from ("seven", float("nan"), 2.5, True)
        if name not in WITH_NEGATIVES:
            yield -3
    elif isinstance(value, float) or (value is None and name in NUMBERS):
        yield from ("seven", float("nan"))
        if name not in WITH_NEGATIVES:
            yield -3.0


def deleted(value: np.ndarray) -> jax.Array:
    """What is left of an array that was donated to a program."""
    array = jax.device_put(value)
    array.delete()
    return array


def wrong_arrays(function: str, name: str, value):
    """Arrays of strings, with NaN or too long; arrays of JAX that were deleted."""
    if not isinstance(value, np.ndarray):
        return
    if value.dtype.kind in "biuf":
        yield deleted(value)
    if not WITH_STRINGS & {name, (function, name)}:
        yield np.full(value.shape, "seven")
    if value.dtype.kind == "f" and not WITH_NAN & {name, (function, name)}:
        yield np.where(np.arange(value.size).reshape(value.shape) == 0, np.nan, value)
    if name in ONE_EACH:
        yield np.concatenate([value, value[:1]])


@pytest.mark.exhaustive
@pytest.mark.parametrize(("room", "name"), list(public()))
def test_valid_arguments_are_taken(room, name, valid, tmp_path, monkeypatch):
    # Else an argument would be refused for the fault of another one.
    if name in OF_OTHER_LIBRARIES:
        pytest.skip("the model is another library's")
    monkeypatch.chdir(tmp_path)
    try:
        Call(room, name, valid)()
    except ImportError as error:
        pytest.skip(str(error))  # of an extra


@pytest.mark.room(keep=73)
@pytest.mark.parametrize("wrong", ["nothing", "numbers", "arrays"])
@pytest.mark.parametrize(("room", "name"), list(public()))
def test_what_is_of_no_use_is_refused_by_name(room, name, wrong, valid, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call = Call(room, name, valid)
    values = {"nothing": lambda *_: [Nothing()], "numbers": wrong_numbers, "arrays": wrong_arrays}[wrong]
    silent = [call.silence(one, given) for one, value in call.defaults.items() for given in values(name, one, value)]
    assert not any(silent), "\n".join(filter(None, silent))
