"""The thresholds of live models, by column, as their libraries tell them; None where there are no trees."""

import json

import numpy as np


def of_xgboost(booster, number: int) -> list[np.ndarray] | None:
    """The split conditions of a booster."""
    model = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]
    trees = model.get("model", model.get("gbtree", {}).get("model", {})).get("trees")
    if trees is None:
        return None
    feature = np.concatenate([np.asarray(tree["split_indices"], np.int64) for tree in trees])
    left = np.concatenate([np.asarray(tree["left_children"], np.int64) for tree in trees])
    value = np.concatenate([np.asarray(tree["split_conditions"], np.float32) for tree in trees])
    return [np.unique(value[(left >= 0) & (feature == j)]).astype(np.float64) for j in range(number)]
