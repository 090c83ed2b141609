"""Ten million leaves of each library's models: not one is wrong. (Of others: `test_visits_more`.)

Rows lie at thresholds and beside them, at the edges of floats, near 2^24, at timestamps, at zeros, in rare and in
unseen categories. Models are trained with and without missing values, with categories, on several classes, with early
stopping and with weights.
"""

from typing import Any

import numpy as np
import pytest

import jaxunc as ju

from ._visit_kinds import EARLY, ROUNDS, ROWS, TREES, adversarial_numbers, codes, drawn, each, framed, halves, rounds
from ._visits import CATEGORIES, N_RARE, N_WORDS, NUMBERS, adversarial, training, wrong_leaves

pytestmark = [pytest.mark.once, pytest.mark.exhaustive]


def test_xgboost():
    xgboost: Any = pytest.importorskip("xgboost")

    def visit(missing=False, categories=False, classes=2, stops=False, weights=False):
        data, (fit, rest) = training(missing), halves(training(missing))
        n, y = 7 if categories else 5, data.y(classes)
        kinds = ["q"] * 5 + ["c"] * (n - 5)
        model = xgboost.XGBClassifier(
            n_estimators=rounds(classes, stops),
            learning_rate=0.1,
            max_depth=6,
            n_jobs=2,
            feature_types=kinds,
            enable_categorical=categories,
            max_cat_to_onehot=8,
            early_stopping_rounds=EARLY if stops else None,
        )
        more = {"eval_set": [(data.X[rest, :n], y[rest])], "verbose": False} if stops else {}
        model.fit(data.X[fit, :n], y[fit], sample_weight=data.weight[fit] if weights else None, **more)
        made, booster = ju.from_xgboost(model), model.get_booster()
        X = adversarial(made.trees, ROWS, 1, categories=codes(n, (-1, 0.5, 70)))
        X[np.isinf(X)] = np.nan  # XGBoost refuses infinite values
        matrix = xgboost.DMatrix(X, feature_types=kinds, enable_categorical=categories)
        until = model.best_iteration + 1 if stops else booster.num_boosted_rounds()
        assert not stops or until < ROUNDS
        return wrong_leaves(made.trees, X, booster.predict(matrix, pred_leaf=True, iteration_range=(0, until)))

    each(visit)


def test_lightgbm():
    lightgbm: Any = pytest.importorskip("lightgbm")
    of_kind = iter([{"use_missing": False}, {"zero_as_missing": True}, {"zero_as_missing": True}, {}, {}, {}])

    def visit(missing=False, categories=False, classes=2, stops=False, weights=False):
        data, (fit, rest) = training(missing), halves(training(missing))
        n, y = 7 if categories else 5, data.y(classes)
        settings = {"objective": "multiclass", "num_class": 3} if classes > 2 else {"objective": "binary"}
        settings |= {"verbose": -1, "num_threads": 2, "num_leaves": 40, "min_data_per_group": 1} | next(of_kind)
        known = {"categorical_feature": [5, 6] if categories else [], "free_raw_data": False}
        train = lightgbm.Dataset(data.X[fit, :n], y[fit], weight=data.weight[fit] if weights else None, **known)
        valid = [lightgbm.Dataset(data.X[rest, :n], y[rest], reference=train, **known)] if stops else []
        stop = [lightgbm.early_stopping(EARLY, verbose=False)] if stops else []
        model = lightgbm.train(settings, train, rounds(classes, stops), valid_sets=valid, callbacks=stop)
        made = ju.from_lightgbm(model)
        X = adversarial(made.trees, ROWS, 2, categories=codes(n, (-1, -0.5, 0.99, 70, 1e9)))
        assert not stops or model.best_iteration < ROUNDS
        return wrong_leaves(made.trees, X, model.predict(X, pred_leaf=True))

    each(visit)


def test_catboost():
    catboost: Any = pytest.importorskip("catboost")
    of_kind = iter([{}, {"nan_mode": "Max"}, {}, {}, {"grow_policy": "Depthwise"}, {"grow_policy": "Lossguide"}])

    def visit(missing=False, categories=False, classes=2, stops=False, weights=False):
        data, (fit, rest) = training(missing), halves(training(missing))
        frame, y = framed(data.X) if categories else data.X[:, :5], data.y(classes)
        pools = [
            catboost.Pool(
                frame.iloc[part] if categories else frame[part],
                y[part],
                cat_features=list(CATEGORIES) if categories else None,
                weight=data.weight[part] if weights else None,
            )
            for part in (fit, rest)
        ]
        quiet = {"verbose": 0, "allow_writing_files": False, "thread_count": 2, "one_hot_max_size": 255}
        stop = {"od_type": "Iter", "od_wait": EARLY, "learning_rate": 0.3} if stops else {}
        # One tree of an iteration has a value for each class.
        n_trees = ROUNDS if stops else TREES
        model = catboost.CatBoostClassifier(iterations=n_trees, depth=6, **quiet, **stop, **next(of_kind))
        model.fit(pools[0], eval_set=pools[1] if stops else None)
        made = ju.from_catboost(model, pool=pools[0] if categories else None)
        assert not stops or made.n_trees == model.best_iteration_ + 1 < ROUNDS
        if not categories:
            X = adversarial(made.trees, ROWS, 3)
            return wrong_leaves(made.trees, X, model.calc_leaf_indexes(X))
        codes_of = {5: [*range(N_RARE), 99], 6: [*range(N_WORDS), 99]}
        X = framed(np.hstack([adversarial_numbers(made.trees), drawn(codes_of)]))
        return wrong_leaves(made.trees, X, model.calc_leaf_indexes(catboost.Pool(X, cat_features=list(CATEGORIES))))

    each(visit)


def test_ydf():
    ydf: Any = pytest.importorskip("ydf")
    ydf.verbose(0)
    numbers = [(name, ydf.Semantic.NUMERICAL) for name in NUMBERS]
    words = [(name, ydf.Semantic.CATEGORICAL) for name in CATEGORIES]

    def visit(missing=False, categories=False, classes=2, stops=False, weights=False):
        data, (fit, rest) = training(missing), halves(training(missing))
        frame = framed(data.X).assign(y=data.y(classes), weight=data.weight)
        learner = ydf.GradientBoostedTreesLearner(
            label="y",
            features=numbers + words * categories,
            weights="weight" if weights else None,
            num_trees=rounds(classes, stops),
            max_depth=7,
            allow_na_conditions=missing,
            early_stopping="MIN_LOSS_FINAL" if stops else "NONE",
            early_stopping_num_trees_look_ahead=EARLY,
            num_threads=2,
        )
        model = learner.train(frame.iloc[fit], valid=frame.iloc[rest])
        made = ju.from_ydf(model)
        codes_of = {5: [*range(N_RARE), 99], 6: [*range(N_WORDS), 99]}
        X = framed(np.hstack([adversarial_numbers(made.trees), drawn(codes_of)]))
        assert not stops or made.n_trees < ROUNDS
        names = [*NUMBERS, *(CATEGORIES if categories else ())]
        return wrong_leaves(made.trees, X[names], model.predict_leaves(X.assign(y=0, weight=1.0)))

    each(visit)
