"""scikit-learn's models of trees."""

import copy
import pickle
from collections.abc import Container, Iterator
from typing import Any

import numpy as np
import scipy.sparse
from sklearn import ensemble, tree

import jaxunc as ju

from ._compare import Way, ways_of_treelite
from ._tables import Menu, Table, ask, draw_table, draw_target, drawn, n_trees
from ._thresholds import of_sklearn

FLOOR = 0.9
WAYS = ("classifier", "regressor", "gradient boosting", "histogram boosting")
_PLAIN = Menu(nullable=False)
_HISTOGRAM = Menu(words=("category", "category", "ordered", "object", "str"), infinite=False)
_CLASSIFIERS = (
    tree.DecisionTreeClassifier, tree.ExtraTreeClassifier, ensemble.RandomForestClassifier,
    ensemble.ExtraTreesClassifier, ensemble.BaggingClassifier,
)  # fmt: skip
_REGRESSORS = (
    tree.DecisionTreeRegressor, tree.ExtraTreeRegressor, ensemble.RandomForestRegressor, ensemble.ExtraTreesRegressor,
)  # fmt: skip
_LABELS = ([0, 1, 2], ["a", "b", "c"], [-1, 1, 5], [False, True])


def make(rng: np.random.Generator) -> Iterator[Way]:
    kinds = (_histogram, _forest, _regressor, _boosted)
    yield from kinds[np.searchsorted([0.4, 0.65, 0.8], rng.random(), side="right")](rng)


def _weights(rng: np.random.Generator, number: int) -> np.ndarray | None:
    chance = rng.random()
    if chance < 0.7:
        return None
    return rng.integers(0 if chance < 0.8 else 1, 4, number).astype(float) if chance < 0.9 else rng.random(number) + 0.1


def _labelled(rng: np.random.Generator, classes: np.ndarray, number: int) -> tuple[np.ndarray, list]:
    labels = _LABELS[rng.integers(len(_LABELS) if number == 2 else 3)][:number]
    return np.array(labels)[classes], labels


def _tree_settings(rng: np.random.Generator) -> dict[str, Any]:
    settings: dict[str, Any] = {"max_depth": [None, 1, 2, 4][rng.integers(4)], "random_state": int(rng.integers(1000))}
    choices = {"min_samples_leaf": [1, 3, 10], "max_leaf_nodes": [None, 4, 10], "ccp_alpha": [0.0, 0.01, 0.1]}
    return settings | drawn(rng, choices | {"max_features": [None, 1], "min_impurity_decrease": [0.0, 0.01]}, 0.4)


def _rows(form: str, table: Table) -> Any:
    if form == "frame":
        return table.frame()
    dense = table.matrix(np.float32 if form == "array32" else np.float64)
    return scipy.sparse.csr_matrix(dense) if form == "sparse" else dense


def _whole(table: Table, gaps: Container[str] = ()) -> Table:
    """The table without missing numbers, but in the columns of these names."""
    filled = lambda c: c if not c.is_number or c.name in gaps else c._replace(values=np.nan_to_num(c.values))
    return Table(tuple(map(filled, table.columns)))


def _plain(rng: np.random.Generator) -> tuple[Menu, Table, str]:
    form = str(rng.choice(["frame", "array", "array32", "sparse"], p=[0.4, 0.25, 0.25, 0.1]))
    menu = _PLAIN._replace(gaps=form != "sparse")
    return menu, draw_table(rng, menu), form


def _asked(rng: np.random.Generator, menu: Menu, table: Table, form: str, members: list) -> tuple[Table, Any]:
    """Rows in which missing values stand where training had some alone: scikit-learn refuses others."""
    gaps = {c.name for c in table.columns if c.is_number and np.isnan(c.values).any()}
    asked = _whole(ask(rng, table, menu, of_sklearn(members, len(table.columns))), gaps)
    return asked, _rows(form, asked)


def _forest(rng: np.random.Generator) -> Iterator[Way]:
    menu, table, form = _plain(rng)
    kind = _CLASSIFIERS[rng.integers(len(_CLASSIFIERS))]
    number = int(rng.choice([2, 3]))
    y, labels = _labelled(rng, draw_target(rng, table, number), number)
    settings = _tree_settings(rng)
    settings["criterion"] = str(rng.choice(["gini", "entropy"]))
    if rng.random() < 0.2:
        settings["class_weight"] = "balanced"
    if kind is ensemble.BaggingClassifier:
        inner = tree.DecisionTreeClassifier(**settings)
        settings = {"max_features": float(rng.choice([1.0, 0.6])), "bootstrap_features": bool(rng.random() < 0.3)}
        settings |= {"estimator": inner, "random_state": 0, "max_samples": float(rng.choice([0.2, 1.0]))}
    if issubclass(kind, ensemble.BaseEnsemble):
        settings["n_estimators"] = n_trees(rng)
    if kind in (ensemble.RandomForestClassifier, ensemble.ExtraTreesClassifier):
        settings |= {"bootstrap": bool(rng.random() < 0.6), "warm_start": bool(rng.random() < 0.1)}
    model = kind(**settings).fit(_rows(form, table), y, sample_weight=_weights(rng, len(y)))
    if settings.get("warm_start"):
        model.set_params(n_estimators=6).fit(_rows(form, table), y)
    if rng.random() < 0.2:
        model = pickle.loads(pickle.dumps(model))
    asked, rows = _asked(rng, menu, table, form, list(getattr(model, "estimators_", [model])))
    told = {"leaves": model.apply(rows)} if hasattr(model, "apply") else {}
    told |= {"answer": model.predict_proba(rows), "labels": labels}
    yield Way("classifier", lambda: ju.from_any(model), rows, **told, slack=1e-6)
    yield from _converted(rng, model, asked, form, hasattr(model, "estimators_"))


def _converted(rng: np.random.Generator, model: Any, asked: Table, form: str, by_treelite=True) -> Iterator[Way]:
    if rng.random() < 0.3 and by_treelite:
        yield from ways_of_treelite(rng, "sklearn", model, asked)
    if rng.random() < 0.3 and form != "sparse":
        yield from _by_onnx(rng, model, asked)


def _regressor(rng: np.random.Generator) -> Iterator[Way]:
    menu, table, form = _plain(rng)
    kind = _REGRESSORS[rng.integers(len(_REGRESSORS))]
    y = draw_target(rng, table, 0) * rng.choice([1, 1e4]) + rng.choice([0, 100])
    if several := rng.random() < 0.2:
        y = np.stack([y, -(y**2)], axis=1)
    settings = _tree_settings(rng)
    settings["criterion"] = str(rng.choice(["squared_error", "friedman_mse", "absolute_error"]))
    gaps = any(np.isnan(c.values).any() for c in table.columns if c.is_number)
    if settings["criterion"] == "absolute_error" and gaps:
        settings["criterion"] = "squared_error"
    if issubclass(kind, ensemble.BaseEnsemble):
        settings["n_estimators"] = n_trees(rng)
    model = kind(**settings).fit(_rows(form, table), y, sample_weight=_weights(rng, len(y)))
    asked, rows = _asked(rng, menu, table, form, list(getattr(model, "estimators_", [model])))
    answer = model.predict(rows)
    yield Way("regressor", lambda: ju.from_any(model), rows, raw=answer, answer=answer, leaves=model.apply(rows))
    yield from _converted(rng, model, asked, form, hasattr(model, "estimators_") and not several)


def _boosted(rng: np.random.Generator) -> Iterator[Way]:
    menu, table, form = _plain(rng)
    menu, table = menu._replace(gaps=False), _whole(table)
    classes = int(rng.choice([0, 2, 3]))
    settings = _tree_settings(rng)
    settings |= {"n_estimators": n_trees(rng), "learning_rate": float(rng.choice([0.1, 1.0]))}
    settings["subsample"] = float(rng.choice([1.0, 0.6]))
    if rng.random() < 0.2:
        settings["init"] = "zero"
    elif rng.random() < 0.1:
        settings["init"] = (tree.DecisionTreeClassifier if classes else tree.DecisionTreeRegressor)(max_depth=1)
    if rng.random() < 0.2:
        settings |= {"n_iter_no_change": 2, "n_estimators": 9}
    y, labels = draw_target(rng, table, classes), None
    if classes:
        y, labels = _labelled(rng, y, classes)
        settings["loss"] = "exponential" if classes == 2 and rng.random() < 0.3 else "log_loss"
        model: Any = ensemble.GradientBoostingClassifier(**settings)
    else:
        settings["loss"] = str(rng.choice(["squared_error", "absolute_error", "huber", "quantile"]))
        model = ensemble.GradientBoostingRegressor(**settings)
    model.fit(_rows(form, table), y, sample_weight=_weights(rng, len(y)))
    asked, rows = _asked(rng, menu, table, form, model.estimators_.ravel().tolist())
    raw, answer = [model.decision_function(rows), model.predict_proba(rows)] if classes else [model.predict(rows)] * 2
    raw, leaves = raw * (2 if settings["loss"] == "exponential" else 1), model.apply(rows).reshape(len(asked), -1)
    yield Way("gradient boosting", lambda: ju.from_any(model), rows, raw, answer, leaves, labels, steps=8)
    yield from _converted(rng, model, asked, form)


def _histogram(rng: np.random.Generator) -> Iterator[Way]:
    form = str(rng.choice(["frame", "frame", "array", "array32"]))
    table = draw_table(rng, menu := _HISTOGRAM)
    classes = int(rng.choice([0, 0, 2, 2, 3]))
    settings: dict[str, Any] = {"max_iter": n_trees(rng), "random_state": int(rng.integers(1000))}
    choices = {"learning_rate": [0.1, 1.0], "max_leaf_nodes": [2, 5, 31], "max_depth": [None, 1, 3]}
    choices |= {"min_samples_leaf": [1, 5], "l2_regularization": [0.0, 1.0], "max_bins": [3, 30, 255]}
    settings |= drawn(rng, choices | {"max_features": [1.0, 0.5], "early_stopping": [False, True]}, 0.5)
    whole = [j for j, c in enumerate(table.columns) if c.kind == "bool"]
    if form == "frame":
        settings["categorical_features"] = "from_dtype"
        if any(c.kind == "word" and c.carrier in ("object", "str") for c in table.columns) or rng.random() < 0.2:
            settings["categorical_features"] = [*table.words, *whole]
    elif table.words:
        settings["categorical_features"] = table.words
    y, labels = draw_target(rng, table, classes), None
    if classes:
        y, labels = _labelled(rng, y, classes)
        model: Any = ensemble.HistGradientBoostingClassifier(**settings)
    else:
        loss = str(rng.choice(["squared_error", "absolute_error", "gamma", "poisson", "quantile"]))
        y = np.abs(y) + 0.1 if loss in ("gamma", "poisson") else y
        model = ensemble.HistGradientBoostingRegressor(loss=loss, quantile=0.3, **settings)
    model.fit(_rows(form, table), y, sample_weight=_weights(rng, len(y)))
    if rng.random() < 0.2:
        model = pickle.loads(pickle.dumps(model))
    nodes = np.concatenate([one.nodes[one.nodes["is_leaf"] == 0] for stage in model._predictors for one in stage])
    thresholds = None
    if model._preprocessor is None:
        thresholds = [nodes["num_threshold"][nodes["feature_idx"] == j] for j in range(len(table.columns))]
    asked = ask(rng, table, menu, thresholds, unseen=True)
    rows = _rows(form, asked)
    answer = model.predict_proba(rows) if classes else model.predict(rows)
    raw, leaves = model._raw_predict(rows), _histogram_leaves(model, rows)
    yield Way("histogram boosting", lambda: ju.from_any(model), rows, raw, answer, leaves, labels, steps=6)
    if rng.random() < 0.3:
        yield from ways_of_treelite(rng, "sklearn", model, asked)


def _histogram_leaves(model: Any, rows: Any) -> np.ndarray:
    """What the stages of a copy add whose leaves hold their numbers."""
    model = copy.deepcopy(model)
    model._baseline_prediction = np.zeros_like(model._baseline_prediction)
    for one in (one for stage in model._predictors for one in stage):
        one.nodes = one.nodes.copy()
        one.nodes["value"] = np.arange(len(one.nodes))
    stages = np.stack([np.array(raw) for raw in model._staged_raw_predict(rows)], axis=1)
    return np.diff(stages, axis=1, prepend=0).reshape(len(stages), -1)


def _by_onnx(rng: np.random.Generator, model: Any, asked: Table) -> Iterator[Way]:
    try:
        import onnxruntime
        from skl2onnx import to_onnx
    except ImportError:
        return
    rows = np.nan_to_num(asked.matrix(np.float32))
    try:
        graph = to_onnx(model, rows[:1], options={"zipmap": False} if hasattr(model, "classes_") else None)
        session = onnxruntime.InferenceSession(graph.SerializeToString())
        answer = session.run(None, {session.get_inputs()[0].name: rows})[-1]
    except Exception:  # what skl2onnx does not write, or ONNX Runtime does not read
        return
    content = graph if rng.random() < 0.5 else graph.SerializeToString()
    yield Way("skl2onnx", lambda: ju.from_any(content), rows, answer=answer, steps=20, slack=2e-6)
