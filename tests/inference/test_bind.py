"""Bound forests: the way of one prediction, as CONTRIBUTING tells it, and programs of JAX alone with the same bits."""

import re
import subprocess
import sys
from functools import cache, partial

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

import jaxunc as ju
from tests._forests import toy_data, toy_forest
from tests._refusal import refusals, refuses
from tests._rooms import ROOT
from tests.inference._same import rule_of


def calls_of(function) -> list[tuple[str, str]]:
    """Files and functions of the package in the order in which they are called, in this thread."""
    called = {}

    def note(frame, event, _):
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(package):
            called[path.removeprefix(package), frame.f_code.co_qualname] = None

    package, before = f"{ROOT / 'jaxunc'}/", sys.getprofile()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
    return list(called)


@pytest.mark.room
@pytest.mark.once
def test_the_way_of_one_prediction_is_as_listed(rng):
    page = (ROOT / ".github" / "CONTRIBUTING.md").read_text()
    section = page.partition("## The way of one prediction")[2].partition("\n## ")[0]
    listed, file = [], ""
    for name in re.findall(r"`([^`]+)`", "\n".join(re.findall(r"^\d+\. .*", section, re.M))):
        if name.endswith(".py"):
            file = name
        else:
            listed.append((file, name))
    # Of shapes that no other test has: its programs are traced here.
    X = rng.normal(size=(100, 37)).astype(np.float32)
    model = RandomForestClassifier(11, random_state=0).fit(X, np.arange(100) % 7)
    bound = ju.bind(ju.from_sklearn(model), ju.Mean(), threads=1)
    called = [call for call in calls_of(lambda: bound.probability(X)) if call in listed]
    assert called == listed
    assert len(listed) > 10


RULES = ("mean", "dempster", "evidence", "median", "together")


def rows(n: int) -> np.ndarray:
    X = np.resize(toy_data(3)[0], (n, toy_data(3)[0].shape[1])).astype(np.float32)
    X[::7, 1] = np.nan
    return X


@cache
def bound_of(name: str) -> ju.BoundForest:
    forest = toy_forest(2 if name in ("dempster", "median") else 3)
    return ju.bind(forest, rule_of(name, forest.n_classes, forest.n_trees))


@cache
def exported(name: str, reading: str):
    return bound_of(name).export(reading)


def loaded(exported):
    return jax.jit(jax.export.deserialize(exported.serialize()).call)


@pytest.mark.room
@pytest.mark.parametrize("name", RULES)
@pytest.mark.exhaustive(keep=1)
def test_the_bits_of_the_bound_forest(name):
    bound, scores, shares = bound_of(name), *(loaded(exported(name, read)) for read in ("class_scores", "probability"))
    for n in (1, 513):
        X = rows(n)[:, : bound.forest.n_features]
        jax.tree.map(np.testing.assert_array_equal, scores(X), bound(X))
        # Newer compilers round them by the size of the batch, those of the bound forest too.
        close = partial(np.testing.assert_allclose, rtol=3e-7, atol=2e-7)
        jax.tree.map(close, shares(X), bound.probability(X))


@pytest.mark.room
@pytest.mark.parametrize("walk", [pytest.param("levels", marks=pytest.mark.exhaustive), "blocks"])
def test_a_whole_answer_is_arrays_by_name(walk):
    bound = ju.bind(toy_forest(3), ju.combiners.UncertaintyDecomposition(), walk=walk)
    found, expected = loaded(bound.export(None))(rows(9)), bound.answer(rows(9))
    assert set(found) == {"total", "aleatoric", "epistemic"} == set(expected._fields)
    for name, values in found.items():
        np.testing.assert_allclose(values, getattr(expected, name), rtol=1e-6, atol=1e-6)


class WithANumber(ju.Combiner):
    """A user's combiner, whose answer has a number for all instances."""

    merge = "sum"

    def lift(self, counts):
        return {"share": counts[..., 0] / counts.sum(axis=-1), "trees": jnp.ones(())}

    def finish(self, stat):
        return stat


@pytest.mark.once
def test_a_number_for_all_instances_is_exported():
    bound = ju.bind(toy_forest(3), WithANumber())
    program = loaded(bound.export(None))
    for n in (0, 9):
        jax.tree.map(np.testing.assert_array_equal, program(rows(n)), bound.answer(rows(n)))


@pytest.mark.room
@pytest.mark.once
def test_programs_of_trees_that_compare_float64_take_the_rows_themselves():
    X, y = rows(200), np.arange(200) % 2
    trees = ju.from_any(HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=5).fit(X, y)).trees
    assert trees.columns.cuts is not None
    bound = ju.bind(ju.count_leaves(trees, X, y), ju.Mean())
    np.testing.assert_allclose(loaded(bound.export())(X), bound.probability(X), atol=1e-6)


@pytest.mark.room
@pytest.mark.once
def test_jax_alone_runs_it(tmp_path):
    (tmp_path / "program").write_bytes(exported("mean", "class_scores").serialize())
    np.save(tmp_path / "rows.npy", rows(70))
    program = """
import sys
import jax, jax.export, numpy as np
program = jax.jit(jax.export.deserialize(bytearray(open("program", "rb").read())).call)
np.save("scores.npy", program(np.load("rows.npy")))
assert not {"jaxunc", "equinox", "sklearn"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "scores.npy"), bound_of("mean")(rows(70)))


@pytest.fixture(scope="module")
def mean():
    return bound_of("mean")


@pytest.fixture(scope="module")
def program():
    return loaded(exported("mean", "class_scores"))


unlike = lambda: ju.bind(toy_forest(3), ju.combiners.UncertaintyDecomposition())
test_refusals = pytest.mark.once(
    refusals(
        ("reading", lambda mean: mean.export("probabilty"), "Did you mean 'probability'"),
        ("no probability", lambda: unlike().export(), "this combiner has no probability"),
        ("a word", lambda mean: mean.export(platforms="cpu"), "is a text; pass a list", TypeError),
        ("traced", lambda mean: jax.jit(lambda mean: mean.export())(mean), "traced", TypeError),
        ("columns", lambda program: program(rows(3)[:, :1]), r"args\[0\]"),
    )
)


def test_a_program_takes_no_rows(program, mean):
    assert program(rows(0)).shape == mean(rows(0)).shape == (0, 3)


@pytest.mark.parametrize("name", ["mean", "together"])
@pytest.mark.exhaustive
def test_a_program_around_it_is_exported_for_any_number(name):
    """Within someone's own program, under a mask, bound there as well as before."""
    bound, forest = bound_of(name), toy_forest(3)
    (n,) = jax.export.symbolic_shape("n")
    given = [jax.ShapeDtypeStruct((n, forest.n_features), np.float32), jax.ShapeDtypeStruct((n, forest.n_trees), bool)]
    before = lambda X, mask: bound(X, tree_mask=mask)
    within = lambda X, mask: ju.bind(forest, bound.combiner)(X, tree_mask=mask)
    for program in before, within:
        served = loaded(jax.export.export(jax.jit(program))(*given))
        for size in (1, 65, 513):
            X, mask = rows(size), np.random.default_rng(size).random((size, forest.n_trees)) < 0.5
            jax.tree.map(np.testing.assert_array_equal, served(X, mask), bound(X, tree_mask=mask))
    table = ju.inference.leaf_table(forest, ju.Mean())
    alone = jax.export.export(jax.jit(lambda X: ju.inference.merge_leaves(forest, table, X)))
    refuses(ValueError, "n instances, a number that is not known", alone, given[0])


@pytest.mark.once
@pytest.mark.parametrize("taken", [lambda _: "keep", lambda array: None, lambda array: True])
def test_a_tree_of_something_else_than_arrays_is_shown(mean, taken):
    """As masks and labels of optimisers, and what a partition leaves behind."""
    for one in (mean, mean.forest, mean.forest.trees):
        assert "(without its arrays)" in repr(jax.tree.map(taken, one))
        assert "(without its arrays)" not in repr(one)
