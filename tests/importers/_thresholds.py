"""The thresholds of live models, by column, as their libraries tell them; None where there are no trees."""

import json

import numpy as np


def of_xgboost(booster, number: int) -> list[np.ndarray] | None:
    model = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]
    trees = model.get("model", model.get("gbtree", {}).get("model", {})).get("trees")
    if trees is None:
        return None
    feature = np.concatenate([np.asarray(tree["split_indices"], np.int64) for tree in trees])
    left = np.concatenate([np.asarray(tree["left_children"], np.int64) for tree in trees])
    value = np.concatenate([np.asarray(tree["split_conditions"], np.float32) for tree in trees])
    return [np.unique(value[(left >= 0) & (feature == j)]).astype(np.float64) for j in range(number)]


def of_lightgbm(booster, number: int) -> list[np.ndarray]:
    """The thresholds of a model's text, and a little beside 0, which it takes for 0."""
    found = [[] for _ in range(number)]
    feature: list[str] = []
    for line in booster.model_to_string().split("\n"):
        if line.startswith("split_feature="):
            feature = line.partition("=")[2].split()
        elif line.startswith("threshold="):
            for j, value in zip(feature, line.partition("=")[2].split(), strict=True):
                found[int(j)].append(float(value))
    return [np.unique([*own, 1e-35, -1e-35, 1.1e-35]) for own in found]


def of_sklearn(members: list, number: int) -> list[np.ndarray]:
    """The thresholds of scikit-learn's trees that see all columns."""
    found = [[] for _ in range(number)]
    for member in members:
        nodes = member.tree_
        for j, value, left in zip(nodes.feature, nodes.threshold, nodes.children_left, strict=True):
            if left >= 0:
                found[int(j)].append(float(value))
    return [np.unique(own) for own in found]


def of_catboost(model, number: int) -> list[np.ndarray]:
    borders = model.get_borders() if hasattr(model, "get_borders") else {}
    return [np.asarray(borders.get(j, []), np.float64) for j in range(number)]
