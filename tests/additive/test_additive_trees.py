"""Models whose leaves hold values: their sums, programs, gradients, files, streams, and sparse instances."""

import dataclasses
from contextlib import nullcontext

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from scipy.special import entr
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)

import jaxunc as ju
from jaxunc.additive import AdditiveTrees, uncounted_forest
from jaxunc.forest import check_forest
from jaxunc.inference import Answering, cut
from jaxunc.inference._by_table import merge_and_finish
from tests._exhaustive import a_few_of
from tests._forests import toy_data, toy_forest
from tests._model_files import FOLDER, table
from tests._refusal import refusals
from tests._sparse import sparse_data, sparse_labels

TREES, OUTPUTS = 12, 3
X, Y = toy_data(3)
X = np.where(np.random.default_rng(1).random(X.shape) < 0.05, np.nan, X).astype(np.float32)


def model(each: int = 1, outputs: int = OUTPUTS, **settings) -> AdditiveTrees:
    """Values of many sizes in the leaves of a forest."""
    trees, rng = toy_forest(3).trees, np.random.default_rng(each)
    values = rng.standard_normal((trees.n_trees, trees.n_nodes, each)) * 10.0 ** rng.integers(-4, 3, (TREES, 1, 1))
    base, labels = np.linspace(-1, 1, outputs), tuple("abc"[: max(2, outputs)])
    given = {"link": "softmax", "trees_per_stage": outputs if each == 1 else 1, "class_labels": labels} | settings
    return AdditiveTrees(trees, jnp.asarray(values, jnp.result_type(float)), jnp.asarray(base), **given)


def exact(model: AdditiveTrees, X) -> np.ndarray:
    """Sums in float64."""
    values = np.asarray(model.values, np.float64)[np.arange(TREES), np.asarray(ju.leaf_index(model.trees, X))]
    if model.values.shape[2] == 1:
        values = values * (model.outputs_of_trees == np.arange(model.n_outputs)[:, None]).T[None]
    return np.asarray(model.base, np.float64) + values.sum(axis=1)


def exact_stages(model: AdditiveTrees) -> np.ndarray:
    """Sums of one output after each tree, in float64."""
    values = np.asarray(model.values, np.float64)[np.arange(TREES), np.asarray(ju.leaf_index(model.trees, X))]
    return np.asarray(model.base, np.float64) + np.cumsum(values, axis=1)


MODELS = {
    "an output for each tree": {},
    "all outputs in each leaf": {"each": 3},
    "two classes": {"outputs": 1, "link": "logistic"},
    "forests of each output": {"trees_per_stage": 6},
    "one value": {"outputs": 1, "link": "identity", "class_labels": None},
}


@pytest.mark.room
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.exhaustive(keep=1)
def test_sums(name):
    made = model(**MODELS[name])
    wanted = exact(made, X)
    tiny = np.finfo(made.values.dtype).eps * np.abs(wanted).max()
    for n in (1, len(X)):
        np.testing.assert_allclose(made.raw(X[:n]), wanted[:n], atol=2 * tiny)
    np.testing.assert_allclose(jax.jit(lambda model, X: model.raw(X))(made, X), wanted, atol=2 * tiny)
    stages = list(made.staged(X))
    assert len(stages) == TREES // made.trees_per_stage
    np.testing.assert_allclose(stages[-1], wanted, atol=4 * tiny)
    for n in (2, len(stages)):
        np.testing.assert_allclose(made.first_stages(n).raw(X), stages[n - 1], atol=4 * tiny)
    assert made.leaf_values(X).shape == (len(X), TREES, made.values.shape[2])
    with jax.enable_x64(True):
        assert next(made.staged(X)).dtype == made.raw(X).dtype == made.values.dtype


@pytest.mark.room
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.exhaustive(keep=1)
def test_few_rows_are_predicted_as_many_are(name):
    """To the last bit, though in one program."""
    made = model(**MODELS[name])
    many = np.asarray(made.predict(X[:150]))
    for n in (1, 3, 16, 64):
        np.testing.assert_array_equal(made.predict(X[:n]), many[:n])
    assert made.predict(X[:0]).shape == many[:0].shape


@pytest.mark.once
@pytest.mark.skipif(jax.default_backend() != "cpu", reason="only on a CPU a program may run in the caller's thread")
@pytest.mark.parametrize(
    ("outputs", "link", "n"), [(1, "logistic", 1), (1, "logistic", 8), (1, "exp", 8), (3, "softmax", 2)]
)
def test_few_rows_stay_in_the_thread_that_calls(outputs, link, n):
    """XLA on CPU hands a program over that counts 1000 operations, and an operation that touches more than 512 KB."""
    trees = toy_forest(2, 100).trees
    values, base = jnp.ones((100, trees.n_nodes, outputs)), jnp.ones(outputs)
    few = AdditiveTrees(trees, values, base, link)._for_few(trees, n)
    assert few is not None
    call = few._engine(True).call()
    chunk = cut(n, call.shapes, 1)[0]
    x = jax.ShapeDtypeStruct((chunk.chunk.rows, trees.n_features), jnp.float32)
    given = few.combiner, None, call.arrays, x, None, chunk.number
    program = merge_and_finish.jitted.lower(call.spec, chunk.chunk.block, *given).compile()
    assert 0 < program.cost_analysis()["flops"] < 1000
    assert "outer_dimension_partitions" not in program.as_text()


def test_links():
    raw = exact(model(outputs=1, link="logistic"), X)[:, 0]
    with np.errstate(over="ignore"):
        share = 1 / (1 + np.exp(-raw))
    np.testing.assert_allclose(model(outputs=1, link="logistic").predict(X)[:, 1], share, atol=1e-6)
    shares = np.asarray(model().predict(X))
    np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(shares.argmax(axis=1), exact(model(), X).argmax(axis=1))
    rest = np.asarray(model(link="one-vs-rest").predict(X))
    with np.errstate(over="ignore"):
        own = 1 / (1 + np.exp(-exact(model(), X)))
    np.testing.assert_allclose(rest, own / own.sum(axis=1, keepdims=True), atol=1e-5)
    one = model(outputs=1, link="identity", class_labels=None)
    assert one.predict(X).shape == (len(X),)
    np.testing.assert_array_equal(one.predict(X), one.raw(X)[:, 0])
    small = dataclasses.replace(one, values=one.values / 1e3, link="exp")
    np.testing.assert_allclose(small.predict(X), np.exp(np.asarray(small.raw(X)))[:, 0], rtol=1e-6)


@pytest.mark.parametrize("name", ["an output for each tree", "all outputs in each leaf"])
@pytest.mark.exhaustive(keep=1)
def test_gradients_of_values(name):
    """That of a sum is how many instances reach the leaf; of the base, how many there are."""
    made = model(**MODELS[name])

    def total(values, base):
        return dataclasses.replace(made, values=values, base=base).raw(X)[:, 1].sum()

    values, base = jax.jit(jax.grad(total, argnums=(0, 1)))(made.values, made.base)
    leaves = np.asarray(ju.leaf_index(made.trees, X))
    reached = np.stack([np.bincount(leaves[:, t], minlength=made.trees.n_nodes) for t in range(TREES)])
    if values.shape[2] == 1:
        np.testing.assert_array_equal(values[:, :, 0], reached * (made.outputs_of_trees == 1)[:, None])
    else:
        np.testing.assert_array_equal(values, reached[..., None] * (np.arange(3) == 1))
    np.testing.assert_array_equal(base, [0, len(X), 0])


@pytest.mark.room
@pytest.mark.once
def test_columns_compared_as_float64(rng):
    trees, cuts = toy_forest(3).trees, tuple(1.7e9 + np.arange(40) / 16)
    columns = dataclasses.replace(trees.columns, cuts=(cuts, *[None] * 5))
    threshold = np.where(np.asarray(trees.feature) == 0, order_keys(rng, trees.feature.shape), trees.threshold)
    threshold = np.where(np.asarray(trees.child) == np.arange(trees.n_nodes), trees.threshold, threshold)
    trees = dataclasses.replace(trees, columns=columns, threshold=jnp.asarray(threshold))
    made, wide = dataclasses.replace(model(), trees=trees), X.astype(np.float64)
    wide[:, 0] = rng.choice(np.concatenate([cuts, np.nextafter(cuts, np.inf)]), len(X))
    codes = wide.copy()
    codes[:, 0] = np.searchsorted(cuts, wide[:, 0])
    known = dataclasses.replace(made, trees=dataclasses.replace(trees, columns=columns.of_codes()))
    np.testing.assert_array_equal(made.raw(wide), known.raw(codes))
    assert (np.asarray(made.raw(wide)) != np.asarray(made.raw(wide.astype(np.float32)))).any()
    traced, narrow = jax.jit(lambda model, X: model.raw(X)), wide.astype(np.float32)
    np.testing.assert_array_equal(traced(made, narrow), made.raw(narrow))
    np.testing.assert_array_equal(jax.jit(lambda model: model.raw(wide))(made), made.raw(wide))
    forest = ju.count_leaves(trees, wide, Y)
    np.testing.assert_array_equal(ju.bind(forest, ju.Mean()).probability(wide[:9]), _means(forest, wide[:9]))
    folded = jax.jit(lambda counts, X: ju.bind(forest.with_counts(counts), ju.Mean()).probability(X))
    found = folded(forest.counts, narrow[:9])
    np.testing.assert_allclose(found, ju.bind(forest, ju.Mean()).probability(narrow[:9]), atol=1e-6)


def order_keys(rng, shape) -> np.ndarray:
    return rng.integers(0, 40, shape).astype(np.float32).view(np.int32)


def _means(forest, X):
    return ju.Mean().probability(ju.leaf_counts(forest, X))


@pytest.mark.once
def test_files_and_streams(tmp_path):
    made = model(outputs=1, link="logistic")
    ju.save(tmp_path / "model.ju", made)
    again = ju.load(tmp_path / "model.ju")
    assert jax.tree.structure(again) == jax.tree.structure(made)
    np.testing.assert_array_equal(again.predict(X), made.predict(X))
    assert isinstance(made, Answering)
    blocks = list(ju.stream(again, [X[:100], X[100:150]]))
    probability = np.concatenate([np.asarray(block["probability_b"]) for block in blocks])
    np.testing.assert_allclose(probability, made.predict(X[:150])[:, 1], atol=1e-6)


def number() -> AdditiveTrees:
    return model(outputs=1, link="identity", class_labels=None)


def averages() -> AdditiveTrees:
    return ju.from_any(FOLDER / "lightgbm_forest.txt")


ZEROS = np.zeros((1, 5))
test_refusals = pytest.mark.once(
    refusals(
        ("bound", lambda: ju.bind(model(), ju.Mean()), "no combiner merges such trees", TypeError),
        ("link", lambda: model(link="probit"), "link"),
        ("trees of a stage", lambda: model(trees_per_stage=5), "trees_per_stage"),
        ("uneven stages", lambda: model(trees_per_stage=4), "shared out"),
        ("labels", lambda: model(class_labels=("a", "b")), "class_labels"),
        ("values", lambda: model(each=2), "values has shape"),
        ("base", lambda: dataclasses.replace(model(), base=jnp.array([0, jnp.nan, 0])), "not finite"),
        ("no stage", lambda: model().first_stages(0), "n_stages"),
        ("more stages", lambda: model().first_stages(5), "n_stages"),
        ("a stage that is true", lambda: model().first_stages(True), "n_stages=True must be an integer", TypeError),
        ("columns", lambda: model().raw(X[:, :3]), "features"),
        ("streamed", lambda: list(ju.stream(number(), [X])), "regressor", TypeError),
        ("counted", lambda: uncounted_forest(number()), "regressor, which has no classes to count", TypeError),
        ("many", lambda: model(outputs=1, link="logistic").virtual_uncertainty(X, n_members=7), "stages"),
        ("an average", lambda: averages().virtual_uncertainty(ZEROS), "the model averages its trees"),
        ("averaged", lambda: dataclasses.replace(number(), averaged="yes"), "averaged='yes'", TypeError),
    )
)


@pytest.mark.once
def test_other_thresholds_are_other_models():
    made = model()
    first = np.asarray(made.raw(X))
    left = dataclasses.replace(made.trees, threshold=jnp.full_like(made.trees.threshold, 2**31 - 1))
    assert (first != np.asarray(dataclasses.replace(made, trees=left).raw(X))).any()
    np.testing.assert_array_equal(made.raw(X), first)


@pytest.mark.once
def test_virtual_ensembles():
    made = model(outputs=1, link="logistic")
    members = np.asarray(ju.additive.virtual_ensemble(made, X, n_members=3))
    stages = exact_stages(made)
    np.testing.assert_allclose(members, stages[:, [7, 9, 11]], rtol=1e-6, atol=1e-6 * np.abs(stages).max())
    found = made.virtual_uncertainty(X, n_members=3)
    share = 1 / (1 + np.exp(-members[..., 0].astype(float)))
    entropy = lambda p: entr(p) + entr(1 - p)
    np.testing.assert_allclose(found.data, entropy(share).mean(axis=1), atol=1e-5)
    np.testing.assert_allclose(found.knowledge, entropy(share.mean(axis=1)) - entropy(share).mean(axis=1), atol=1e-5)
    numbers = number()
    spread = numbers.virtual_uncertainty(X, n_members=2)
    assert spread.data is None
    both = exact_stages(numbers)[:, [8, 11], 0]
    np.testing.assert_allclose(spread.knowledge, both.var(axis=1), rtol=1e-4, atol=1e-6)


@pytest.mark.once
def test_forests_and_boosted_models(tmp_path):
    boosted, averaged, one_stage = (
        ju.from_any(FOLDER / name) for name in ("lightgbm.txt", "lightgbm_forest.txt", "xgboost_forest.json")
    )
    assert not boosted.is_forest
    assert boosted.first_stages(1).is_forest
    assert averaged.is_forest
    assert averaged.averaged
    assert one_stage.is_forest
    assert not one_stage.averaged
    ju.save(tmp_path / "x", averaged)
    assert ju.load(tmp_path / "x").averaged


@pytest.mark.once
def test_a_forest_that_counts_nothing_yet():
    model = ju.from_any(FOLDER / "xgboost_forest.json")
    forest = uncounted_forest(model)
    check_forest(forest)
    assert not np.asarray(forest.counts).any()
    frame, y = table()
    counted = ju.count_leaves(forest, frame, y)
    np.testing.assert_array_equal(counted.counts, ju.count_leaves(model.trees, frame, y).counts)


@pytest.mark.room
@pytest.mark.once
@pytest.mark.parametrize("n_classes", a_few_of([2, 3], [3]))
def test_sparse_rows_of_boosted_trees(n_classes):
    X, y = sparse_data(), sparse_labels(n_classes)
    model = GradientBoostingClassifier(n_estimators=6, max_depth=2, random_state=0).fit(X, y)
    ensemble = ju.from_sklearn_values(model)
    for ask in (ensemble.raw, ensemble.predict, ensemble.leaf_values):
        np.testing.assert_array_equal(ask(X), ask(X.toarray()))
    np.testing.assert_allclose(ensemble.predict(X.tocsc()), model.predict_proba(X), atol=1e-6)
    np.testing.assert_array_equal(list(ensemble.staged(X))[-1], list(ensemble.staged(X.toarray()))[-1])


@pytest.mark.once
def test_sparse_rows_of_regressors():
    X, y = sparse_data(), sparse_data().toarray()[:, :2]
    ensemble = ju.from_sklearn_values(RandomForestRegressor(5, max_depth=4, random_state=0).fit(X, y))
    np.testing.assert_array_equal(ensemble.predict(X), ensemble.predict(X.toarray()))


@pytest.mark.room
@pytest.mark.once
def test_sparse_rows_compared_as_float64():
    """Histogram-based boosting compares float64: a value next to a threshold is not rounded on its way."""
    dense = sparse_data(missing=True).toarray()
    model = HistGradientBoostingClassifier(max_iter=5, max_depth=3, random_state=0).fit(dense, sparse_labels(2))
    ensemble = ju.from_sklearn_values(model)
    assert ensemble.columns.cuts is not None
    near = dense.copy()
    for j, cuts in enumerate(ensemble.columns.cuts):
        if cuts is not None and len(cuts):
            near[::3, j] = cuts[0]
            near[1::3, j] = np.nextafter(cuts[0], np.inf)
    for X in (dense, near):
        data = scipy.sparse.csr_array(X)
        np.testing.assert_array_equal(ensemble.raw(data), ensemble.raw(X))
        np.testing.assert_array_equal(ju.leaf_index(ensemble.trees, data), ju.leaf_index(ensemble.trees, X))
    infinite = np.where(np.arange(dense.shape[1]) == 1, np.inf, dense)
    np.testing.assert_array_equal(ensemble.raw(scipy.sparse.csr_array(infinite)), ensemble.raw(infinite))


@pytest.mark.room(keep=1)
@pytest.mark.once
@pytest.mark.parametrize("offset", [1e4, 1e7])
def test_an_offset_of_the_target_changes_no_differences(offset):
    """Uncertainty and shares of columns are those without it; what float32 cannot hold is told."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 3)).astype(np.float32)
    target = np.round(64 * rows[:, 0]) / 64
    tells, boosted = offset > 1e6 and not jax.config.jax_enable_x64, HistGradientBoostingRegressor(max_iter=10)
    with pytest.warns(UserWarning, match="float32 is off by") if tells else nullcontext():
        moved = ju.from_any(boosted.fit(rows, target + offset))
    knowledge = moved.virtual_uncertainty(rows[:4], n_members=2).knowledge
    last = np.asarray(moved.leaf_values(rows[:4]), np.float64)[:, -2:, 0].sum(axis=1)  # which one of two members lacks
    np.testing.assert_allclose(knowledge, (last / 2) ** 2, rtol=1e-3, atol=1e-9)
    gradient = GradientBoostingRegressor(n_estimators=6, random_state=0).fit(rows, target + offset)
    with pytest.warns(UserWarning, match="float32 is off by") if tells else nullcontext():
        staged = [*ju.from_any(gradient).staged(rows)]
    for found, expected in zip(staged, gradient.staged_predict(rows), strict=True):
        np.testing.assert_allclose(found[:, 0], expected, rtol=2e-7)
    forest = RandomForestRegressor(4, max_depth=2, random_state=0).fit(rows, target + offset)
    with pytest.warns(UserWarning, match="float32 is off by") if tells else nullcontext():
        trees = ju.from_any(forest)
    means = np.asarray(trees.leaf_values(rows), np.float64)[..., 0] * trees.n_trees + float(trees.base[0])
    of_trees = np.stack([tree.predict(rows) for tree in forest.estimators_], axis=1)
    np.testing.assert_allclose(means - offset, of_trees - offset, atol=1e-5)
    sums = np.asarray(trees.leaf_values(rows), np.float64).sum(axis=(1, 2)) + float(trees.base[0])
    np.testing.assert_allclose(sums - offset, forest.predict(rows) - offset, atol=1e-5)


def test_the_first_of_averaged_trees_are_averaged():
    X, y = toy_data(2)
    y = X[:, 0] + 1000.0
    forest = RandomForestRegressor(6, max_depth=3, random_state=0).fit(X, y)
    first = np.mean([tree.predict(X) for tree in forest.estimators_[:2]], axis=0)
    np.testing.assert_allclose(ju.from_any(forest).first_stages(2).predict(X), first, rtol=1e-6)
