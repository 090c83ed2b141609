"""Any source, any chunk: the answers of the model itself."""

from functools import partial

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import jaxunc as ju
from jaxunc.estimators import CombinedForestClassifier, TransductiveTreeClassifier, UncertainForestRegressor
from jaxunc.streaming import OUTPUTS, reads_s
from jaxunc.tables import encode_arrow, encode_instances
from tests._exhaustive import a_few_of
from tests._refusal import refusals, refuses
from tests._rules import RULES

from ._made import by_other_doors, whole, written

pytestmark = pytest.mark.once
FOREST = RandomForestClassifier(30, min_samples_leaf=2, max_leaf_nodes=30, random_state=0)
FILES = ("parquet", "csv", "csv.gz", "tsv", "arrow")


@pytest.fixture(scope="module")
def sources(frame, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sources")
    table = pa.Table.from_pandas(frame, preserve_index=False)
    frame.to_parquet(folder / "x.parquet", row_group_size=70)
    frame.to_csv(folder / "x.csv", index=False)
    frame.to_csv(folder / "x.csv.gz", index=False)
    frame.to_csv(folder / "x.tsv", index=False, sep="\t")
    frame.to_feather(folder / "x.arrow")
    return {
        **{kind: folder / f"x.{kind}" for kind in FILES},
        "text": str(folder / "x.parquet"),
        "list": [folder / "x.parquet"],
        "frame": frame,
        "table": table,
        "batch": table.combine_chunks().to_batches()[0],
        "reader": table.to_reader(max_chunksize=77),
        "dataset": pyarrow.dataset.dataset(table),
        "parts": (frame[i : i + 300] for i in range(0, len(frame), 300)),
    }


KINDS = [*FILES, "text", "list", "frame", "table", "batch", "reader", "dataset", "parts"]


@pytest.mark.room
@pytest.mark.parametrize("kind", KINDS)
def test_sources(kind, sources, frame, model):
    found = whole(ju.stream(model, sources[kind], chunk_rows=128))
    np.testing.assert_array_equal(found["class"], model.predict(frame))
    shown = found[[f"probability_{label}" for label in model.classes_]]
    np.testing.assert_allclose(shown, model.predict_proba(frame), rtol=3e-7)  # the last bit


@pytest.mark.parametrize("chunk_rows", [1, 7, 1000, 2**17])
@pytest.mark.exhaustive(keep=1)
def test_chunks(chunk_rows, frame, model):
    assert list(ju.stream(model, frame[:0], chunk_rows=chunk_rows)) == []
    part = frame[:50] if chunk_rows == 1 else frame
    tables = list(ju.stream(model, part, chunk_rows=chunk_rows))
    assert [table.num_rows for table in tables[:-1]] == [chunk_rows] * (len(tables) - 1)
    np.testing.assert_array_equal(whole(tables)["class"], model.predict(part))


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X, ju.from_sklearn(RandomForestClassifier(5, min_samples_leaf=3, random_state=0).fit(X, y))


def test_arrays_and_models_without_names(iris):
    X, forest = iris
    bound = ju.bind(forest, ju.EvidenceAccumulation(forest.prior))
    found = whole(ju.stream(bound, X.astype(np.float32)))
    np.testing.assert_allclose(found["probability_2"], bound.probability(X)[:, 2], rtol=3e-7)  # the last bit
    named = pd.DataFrame(X, columns=list("abcd")).assign(id=range(150))
    found = whole(ju.stream(bound, named, keep=["id"], outputs=["class"]))
    assert list(found.columns) == ["id", "class"]
    shuffled = named[["c", "id", "a", "d", "b"]]
    again = whole(ju.stream(bound, shuffled, features=list("abcd"), keep=["id"], outputs=["class"]))
    pd.testing.assert_frame_equal(again, found)
    refuses(ValueError, r"5 columns for the model's 4.*features.*keep", lambda: next(ju.stream(bound, named)))


@pytest.mark.parametrize("make", [jnp.asarray, lambda X: X.astype(">f4"), np.asfortranarray, lambda X: X.astype("f2")])
def test_any_array_that_bound_forests_take(make, iris):
    X, bound = make(iris[0].astype(np.float32)), ju.bind(iris[1], ju.Mean())
    found = whole(ju.stream(bound, X, outputs=["probability"]))
    np.testing.assert_array_equal(found, bound.probability(X))


def test_encoding_is_that_of_frames(frame, model):
    columns = model.forest_.trees.columns
    fresh = frame.assign(colour=frame.colour.where(frame.index % 10 > 0, "violet"))
    for kind in ({}, {"colour": "category"}):
        table = pa.Table.from_pandas(fresh.astype(kind), preserve_index=False)
        found, expected = encode_arrow(table, columns), encode_instances(fresh, columns)
        np.testing.assert_array_equal(found.values, expected.values)
        assert found.missing == expected.missing
    with_null = table.set_column(1, "count", pa.array([None, *range(len(fresh) - 1)], pa.int64()))
    assert np.isnan(encode_arrow(with_null, columns).values[0, 1])


@pytest.mark.parametrize("name", a_few_of(RULES, ["mean", "dempster", "median", "weighted_together"]))
@pytest.mark.room(keep=1)
def test_every_rule(name, small):
    bound = ju.bind(small, RULES[name].make(np.asarray(small.prior), np.arange(3)))
    found = whole(ju.stream(bound, SMALL, chunk_rows=30))
    assert len(found) == len(SMALL)
    if name not in ("together", "weighted_together"):
        assert set(found["class"]) <= {"no", "yes"}


def agree(found: pd.DataFrame, labels):
    """The columns of each row say nothing against each other."""
    for label in labels:
        assert (found[f"lower_{label}"] <= found[f"probability_{label}"]).all()
        assert (found[f"probability_{label}"] <= found[f"upper_{label}"]).all()
    assert all(named in together for named, together in zip(found["class"], found["set"], strict=True))


@pytest.mark.room
@pytest.mark.parametrize("name", a_few_of(["evidence", "mean", "vote", "dempster", "pooling"], ["evidence"]))
def test_outputs_of_one_row_agree(name, frame, labels):
    X = frame[["length", "count"]]
    forest = ju.from_sklearn(clone(FOREST).fit(X, labels))
    bound = ju.bind(forest, RULES[name].make(np.asarray(forest.prior), np.arange(forest.n_trees)))
    alone = whole(ju.stream(bound, X, outputs=["interval"], chunk_rows=333))
    found = whole(ju.stream(bound, X, outputs=["class", "probability", "interval", "set"], chunk_rows=77))
    agree(found, ("no", "yes"))
    np.testing.assert_array_equal(alone["lower_yes"], found["lower_yes"])


@pytest.mark.exhaustive
def test_all_outputs_at_once():
    (X, y), names = load_iris(return_X_y=True), load_iris().target_names
    model = CombinedForestClassifier(RandomForestClassifier(60, min_samples_leaf=2), random_state=0).fit(X, names[y])
    outputs = [name for name in OUTPUTS if name not in {"mean", "std", "quantile", "exceeds"}]  # of numbers
    found = whole(ju.stream(model, X, outputs=outputs, s=2.0))
    np.testing.assert_array_equal(found["class"], model.predict(X))
    np.testing.assert_allclose(found["uncertainty_total"], model.predict_uncertainty(X).total, atol=1e-6)
    report = ju.bind(model.forest_, ju.decisions.CautiousReport(2.0))(X)
    np.testing.assert_allclose(found["idm_lower_virginica"], report.interval.lower[:, 2], rtol=3e-7)
    useful = ju.decisions.expected_utility_set(model.predict_proba(X))
    for name, sets in (("cautious_set", report.membership), ("set", useful)):
        assert [set(row) for row in found[name]] == [set(names[row]) for row in np.asarray(sets)]
    agree(found, names)
    heard = ju.predict_until_settled(model.forest_, X)
    np.testing.assert_array_equal(found["trees_polled"], heard.n_trees_used)
    np.testing.assert_array_equal(found["settled"], heard.settled)
    expected = ju.explain(model.bound_.forest, model.bound_.combiner, X).columns()  # of a learned pool
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-5, atol=1e-5)


@pytest.mark.room
def test_explanations(frame, model):
    """The share of each column in what the model's combiner answers, beside other outputs."""
    found = whole(ju.stream(model, frame, outputs=["class", "explanation"], chunk_rows=50))
    expected = ju.explain(model.forest_, model.bound_.combiner, frame).columns()
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-5, atol=1e-6)


@pytest.mark.room
def test_the_cautious_report_and_votes(frame, model):
    report = ju.bind(model.forest_, ju.decisions.CautiousReport(1.0))
    found = whole(ju.stream(report, frame))
    assert {"class", "probability_yes", "lower_no", "upper_no", "set"} <= set(found.columns)
    for settings in ({}, {"criterion": "optimal", "disagreement": 0.02}):
        vote = ju.voting.bind_vote(model.forest_, **settings)
        heard = vote(frame)
        found = whole(ju.stream(vote, frame))
        np.testing.assert_array_equal(found["class"], model.classes_[heard.predicted])
        np.testing.assert_array_equal(found["trees_polled"], heard.n_trees_used)


@pytest.mark.parametrize("source", ["csv", "parquet", "frame"])
def test_rows_at_fault_are_those_of_the_whole(source, frame, model, tmp_path):
    """Also behind the first chunk: of files from 1, of a frame from 0, as its index."""
    rows = pd.concat([frame[:50]] * 2, ignore_index=True)
    rows.loc[77, "length"] = np.inf
    where, data = (77, rows) if source == "frame" else (78, written(rows, tmp_path / f"t.{source}"))
    refuses(ValueError, f"row {where} of the data is inf", lambda: list(ju.stream(model, data, chunk_rows=20)))


@pytest.mark.room
def test_sharded_forests(frame, model):
    import jax

    mesh = jax.make_mesh((1, 1), ("data", "tree"))
    bound = ju.bind(model.forest_, ju.EvidenceAccumulation(model.forest_.prior))
    outputs = ["class", "probability", "uncertainty"]
    found = whole(ju.stream(ju.shard(bound, mesh), frame, outputs=outputs, chunk_rows=300))
    pd.testing.assert_frame_equal(found, whole(ju.stream(bound, frame, outputs=outputs)), rtol=3e-7)


def test_transduction(frame):
    y = (frame.length > 0).to_numpy()
    model = TransductiveTreeClassifier().fit(frame[:200], y[:200])
    found = whole(ju.stream(model, frame[200:300], chunk_rows=30))
    np.testing.assert_array_equal(found["class"], model.predict(frame[200:300]))
    np.testing.assert_array_equal(found["probability_True"], model.predict_proba(frame[200:300])[:, 1])
    refuses(ValueError, "not what Pooling answers", ju.stream, model, frame, outputs=["class", "interval"])
    published = TransductiveTreeClassifier(combiner=None).fit(frame[:200], y[:200])
    refuses(ValueError, "not what BoundSample answers", ju.stream, published, frame, outputs=["class", "interval"])


@pytest.mark.room
def test_sets_without_probabilities_hold_the_class(rng):
    X = rng.normal(size=(150, 3)).astype(np.float32)
    y = (X[:, 0] + rng.normal(size=150) > 0) + (X[:, 1] + rng.normal(size=150) > 0.5).astype(int)
    grown = RandomForestClassifier(9, min_samples_leaf=10, random_state=0).fit(X, y)
    vote = ju.voting.bind_vote(ju.from_sklearn(grown))
    X = rng.normal(size=(300, 3)).astype(np.float32)
    found = whole(ju.stream(vote, X, outputs=["class", "set", "cautious_set"]))
    assert all(named in together for named, together in zip(found["class"], found["set"], strict=True))
    report = [{*row} for row in found["cautious_set"]]
    assert any(named not in row for named, row in zip(found["class"], report, strict=True))
    assert [{*row} for row in found["set"]] == [row | {c} for row, c in zip(report, found["class"], strict=True)]
    alone = whole(ju.stream(vote, X, outputs=["set"]))
    assert [[*row] for row in alone["set"]] == [[*row] for row in found["set"]]


COSTS = {"costs": "yes:no=7", "reject": 0.4, "coverage": 0.9, "by_class": True}


@pytest.mark.room
def test_decisions_and_promised_sets_are_the_estimator_s(frame, labels, tmp_path):
    """Of a stream, of files and of batches: the same model, the same rows, the same decisions."""
    X = frame[["length", "count"]]
    model = CombinedForestClassifier(FOREST, "mean", counts="held_out", random_state=0).fit(X, labels)
    found = whole(ju.stream(model, X, outputs=["class", "decision", "set"], **COSTS, chunk_rows=77))
    decided = model.predict_reject(X, costs="yes:no=7", reject=0.4)
    assert 0 < decided.rejected.sum() < len(X)
    np.testing.assert_array_equal(found["decision"].isna(), decided.rejected)
    np.testing.assert_array_equal(found["decision"][~decided.rejected], decided.label[~decided.rejected])
    sets = model.predict_set(X, coverage=0.9, by_class=True)
    assert [[*row] for row in found["set"]] == [model.classes_[row].tolist() for row in sets]
    settings, *others = by_other_doors(model, X, tmp_path, outputs=["class", "decision", "set"], **COSTS)
    assert settings["costs"] == {"yes": {"no": 7.0}}
    for other in others:
        pd.testing.assert_frame_equal(other, found)
    boundless = whole(ju.stream(model.bound_, X, outputs=["decision"]))
    np.testing.assert_array_equal(boundless["decision"], model.predict(X))


@pytest.fixture(scope="module")
def small():
    y = np.where(SMALL[:, 0] > 0, "yes", "no")
    return ju.from_sklearn(RandomForestClassifier(3, random_state=0).fit(SMALL, y))


def test_what_reads_s(small):
    vote, mean = ju.voting.bind_vote(small), ju.bind(small, ju.Mean())
    spread = ju.bind(small, ju.combiners.UncertaintyDecomposition())
    assert [reads_s(model, ["set"]) for model in (vote, spread, mean)] == [True, True, False]
    assert [reads_s(model, ["interval"]) for model in (vote, spread, mean)] == [True, True, True]
    assert not reads_s(vote, ["class"])


@pytest.fixture(scope="module")
def numbers(frame):
    y = frame.length + 0.2 * np.random.default_rng(0).normal(size=len(frame))
    grown = RandomForestRegressor(12, min_samples_leaf=2, random_state=0)
    return UncertainForestRegressor(grown).fit(frame[["length", "count"]], y)


@pytest.mark.room
def test_numbers(numbers, frame, tmp_path):
    """Of a stream, of files and of batches: what the regressor says, for chunks of any size."""
    X = frame[["length", "count"]]
    found = whole(ju.stream(numbers, X, quantiles=[0.05, 0.5], coverage=0.8, chunk_rows=77))
    names = ["mean", "std", "aleatoric", "epistemic", "lower", "upper", "quantile_0.05", "quantile_0.5"]
    assert list(found) == names
    (mean, std), doubt = numbers.predict(X, return_std=True), numbers.predict_uncertainty(X)
    np.testing.assert_allclose(found["mean"], mean, atol=1e-6)
    ends = numbers.predict_interval(X, 0.8), numbers.predict(X, quantiles=[0.05, 0.5])
    np.testing.assert_array_equal(found[names[1:]], np.column_stack([std, doubt.aleatoric, doubt.epistemic, *ends]))
    assert list(whole(ju.stream(numbers, X[:1]))) == names[:6]
    asked = {"outputs": ["interval", "mean", "quantile"], "quantiles": np.array([0.1])}
    settings, of_files, of_batches = by_other_doors(numbers, frame, tmp_path, **asked)
    assert settings["quantiles"] == [0.1]
    assert list(of_files) == ["mean", "lower", "upper", "quantile_0.1"]
    np.testing.assert_array_equal(of_files["upper"], numbers.predict_interval(X)[:, 1])
    pd.testing.assert_frame_equal(of_batches, of_files)
    alone = whole(ju.stream(numbers, X, outputs=["quantile"]))
    assert list(alone) == ["quantile_0.05", "quantile_0.5", "quantile_0.95"]
    assert list(ju.stream(numbers, X[:0])) == []


def test_chances_and_several_intervals(numbers, frame, tmp_path):
    """By each door what the distribution says."""
    X, limits = frame[["length", "count"]], [frame.length.median(), 1e9]
    distribution = numbers.predict_distribution(X)
    asked = {"outputs": ["exceeds", "interval"], "limits": limits, "coverage": [0.5, 0.75]}
    found = whole(ju.stream(numbers, X, **asked, chunk_rows=77))
    names = ["lower_0.5", "upper_0.5", "lower_0.75", "upper_0.75", f"exceeds_{limits[0]:.12g}", "exceeds_1000000000"]
    assert list(found) == names
    np.testing.assert_array_equal(found[names[:4]], numbers.predict_interval(X, [0.5, 0.75]).reshape(-1, 4))
    np.testing.assert_array_equal(found[names[4:]], np.column_stack([distribution.exceeds(limit) for limit in limits]))
    assert list(whole(ju.stream(numbers, X[:1], limits=2)))[-1] == "exceeds_2"
    for other in by_other_doors(numbers, frame, tmp_path, **asked)[1:]:
        pd.testing.assert_frame_equal(other, found.reset_index(drop=True))


def stream(change=lambda frame: frame, **asked):
    return lambda model, frame: list(ju.stream(model, change(frame), **asked))


def stream_of(make, **asked):
    """Of another model of the same trees."""
    return lambda small: list(ju.stream(make(small), SMALL, **asked))


stream_small = partial(stream_of, lambda small: ju.bind(small, ju.Mean()))


def stream_numbers(**asked):
    return lambda numbers, frame: list(ju.stream(numbers, frame, **asked))


SMALL = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
DECISION, SET, MEAN, EXPLAINED = ({"outputs": [name]} for name in ("decision", "set", "mean", "explanation"))
NONE = r"'decision'.* are made of probabilities, and BoundVote answers none"
DOUBT = "not what UncertaintyDecomposition answers"

test_refusals = refusals(
    ("a column", stream(lambda f: f.drop(columns="length")), r"lacks the columns \['length'\]"),
    ("words", stream(lambda f: f.assign(length="long")), "'length' holds (large_)?string", TypeError),
    ("dates", stream(lambda f: f.assign(length=pd.Timestamp("2020-01-01"))), "'length' holds timestamp", TypeError),
    ("infinite", stream(lambda f: f.assign(length=np.inf)), "row 0 of the data is infinite .* in column 'length'"),
    ("missing", stream(lambda f: f.assign(length=np.nan)), "missing values"),
    ("keep", stream(keep="length"), "one name"),
    ("unknown argument", stream(output=["class"]), "got .* 'output'. Did you mean 'outputs'", TypeError),
    ("costs of classes", stream_small(outputs=["class"], costs="yes:no=7"), "costs=… would .*outputs=decision"),
    ("no file", lambda model: list(ju.stream(model, "nowhere.parquet")), "nowhere", FileNotFoundError),
    ("keep nothing", stream(keep=["nothing"]), r"lacks the columns \['nothing'\]"),
    ("keep answers", stream(keep=["class"]), "names of answers"),
    ("no numbers", stream(**MEAN), r"outputs \['mean'\] are not what"),
    ("quantiles of classes", stream(quantiles=[0.5]), "quantiles are of models that predict numbers"),
    ("doubt", stream_of(lambda f: ju.bind(f, ju.UncertaintyDecomposition()), outputs=["class"]), DOUBT),
    ("explained votes", stream_of(ju.voting.bind_vote, **EXPLAINED), "'explanation'.* are not what"),
    ("medians", stream_of(lambda f: ju.bind(f, ju.Median()), **EXPLAINED), "Median cannot be", TypeError),
    ("reject of classes", stream_small(outputs=["class"], reject=0.2), "reject=0.2 would change nothing"),
    ("coverage alone", stream_small(coverage=0.9), "coverage=0.9 would change nothing: ask for outputs=set"),
    ("by_class", stream_small(by_class=True, **SET), "by_class=True would change nothing: it belongs to coverage"),
    ("coverage", stream_small(coverage=1.5, **SET), r"coverage=1.5 must lie in \(0, 1\): how often sets or"),
    ("no rows", stream_small(coverage=0.9, **SET), "coverage=0.9 needs rows that the model was not fitted to"),
    ("reject", stream_small(reject=-1.0, **DECISION), "reject=-1.0 must be a finite number >= 0"),
    ("a cost's name", stream_small(costs="yse:no=7", **DECISION), "the class 'yse'.*Did you mean 'yes'"),
    ("costs", stream_small(costs=[[0, 1, 1], [1, 0, 1]], **DECISION), r"costs has shape \(2, 3\)"),
    ("decided votes", stream_of(ju.voting.bind_vote, **DECISION), NONE),
    ("classes of numbers", stream_numbers(outputs=["class", "mean"]), r"outputs \['class'\] are of models of classes"),
    ("decisions of numbers", stream_numbers(costs="a:b=1", **DECISION), r"outputs \['decision'\] are of models of cla"),
    ("coverage of means", stream_numbers(coverage=0.9, **MEAN), "coverage=0.9 would .*: ask for outputs=interval"),
    ("coverage 1", stream_numbers(coverage=1.0), r"coverage=1.0 must lie in \(0, 1\): how often sets or intervals"),
    ("by_class of numbers", stream_numbers(coverage=0.5, by_class=True), "by_class=True is of models of classes"),
    ("quantiles of means", stream_numbers(quantiles=[0.5], **MEAN), "quantiles=… would .*: ask for outputs=quantile"),
    ("quantiles", stream_numbers(quantiles=[0.5, 1.5]), r"quantiles=\[0.5, 1.5\] must be numbers in \[0, 1\]"),
    ("no quantiles", stream_numbers(quantiles=[]), r"quantiles=\[\] names nothing"),
    ("chances without limits", stream_numbers(outputs=["exceeds"]), "name one or several by limits="),
    ("limit NaN", stream_numbers(limits=[1.0, np.nan]), r"limits=\[1.0, nan\] must be finite numbers"),
    ("limit inf", stream_numbers(limits=np.inf), "limits=inf must be finite numbers"),
    ("no limits", stream_numbers(limits=[]), r"limits=\[\] must be finite numbers"),
    ("words for limits", stream_numbers(limits=["a"]), "limits=.* is no number", TypeError),
    ("limits twice", stream_numbers(limits=[1, 1.0]), "names a limit twice"),
    ("limits of means", stream_numbers(limits=[1], **MEAN), "limits=… would .*: ask for outputs=exceeds"),
    ("limits of classes", stream(limits=[1]), "limits are of models that predict numbers"),
    ("coverages of classes", stream(coverage=[0.8, 0.9], **SET), "pass one number for sets"),
    ("coverage twice", stream_numbers(coverage=[0.8, 0.8]), "names a coverage twice"),
    ("no coverage", stream_numbers(coverage=[]), r"coverage=\[\] names nothing"),
    ("quantiles twice", stream_numbers(quantiles=[0.5, 0.5]), "names a level twice"),
    ("keep the mean", stream_numbers(keep=["mean"]), r"keep holds \['mean'\]"),
)
