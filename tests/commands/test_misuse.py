"""What people mistype: each ends in one paragraph that says what was given, and what to do."""

import re
import shlex
import shutil
from unittest.mock import Mock

import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from safetensors.numpy import save_file
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import jaxunc as ju
from jaxunc.__main__ import main
from jaxunc.commands import COMMANDS, _inspect, _training
from jaxunc.estimators import UncertainForestRegressor
from tests._model_files import FOLDER, N_TRAIN, table
from tests._refusal import refuses
from tests.conftest import TYPED

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(TYPED, reason="the type hook, which users do not have, would speak first"),
]

# A row is a command line and a pattern of what must be said. Words in capitals stand for what is right about the rest.
SHORT = {
    "FIT": "fit good.csv --target kind --output o",
    "TAKE": "fit --import forest.joblib --trust --output o",
    "COMPARE": "compare good.csv --target kind",
    "GIVEN": "compare held.csv --target kind --model xgboost.json",
    "TWO": "compare two.csv --target kind",
    "PREDICT": "predict m good.csv --output p",
}


def each(start: str, said: str, *ends: str) -> list[tuple[str, str]]:
    """Rows that begin alike. Of what is said ``{0}`` is the first word of the end, and ``{1}`` the second."""
    return [(f"{start} {end}", said.format(*end.split())) for end in ends]


USAGE = [
    ("frobnicate", "the command 'frobnicate' is unknown. Known are fit, predict, inspect, compare"),
    ("predct m good.csv --output p", "'predct' is unknown. Did you mean 'predict'"),
    ("fit", "--output"),
    ("fit good.csv --output o", "fit needs DATA and --target"),
    *each("fit", "fit needs DATA", "--target kind --output o", "--target kind --drop a good.csv --output o"),
    ("fit good.csv extra --target kind --output o", "extra"),
    ("FIT --unknown", "the option '--unknown' is unknown. Known are --target, --drop"),
    ("predict m good.csv --outptu p", "'--outptu' is unknown. Did you mean '--output'.* See: jaxunc predict --help"),
    ("fit good.csv --output o --target", "--target: "),
    ("predict m", "DATA, --output"),
    ("PREDICT --outputs", "--outputs: "),
    ("PREDICT --format json", "--format: 'json' is unknown. Known are parquet, csv"),
    ("inspect", "MODEL"),
    ("compare --target kind", "'kind' was given without DATA"),
    ("compare --drop a", "--drop was given without DATA"),
]

NUMBERS = [
    *each("FIT", "{0}: '{1}' is no integer", "--trees x", "--trees 1e3", "--leaf-size .5"),
    *each("FIT", "{0}: {1} is out of range; expected an integer from 1", "--trees -3", "--trees 0", "--leaf-size 0"),
    *each("FIT", "{0}: 9+ is out of range", "--trees 99999999999999999999", "--seed 99999999999"),
    ("FIT --depth 0", "--depth: 0 is out of range"),
    ("FIT --seed -1", "--seed: -1 is out of range; expected an integer from 0"),
    *each("FIT --estimator cautious", "--s {1}.* must be a positive, finite", "--s 0", "--s -1", "--s nan", "--s inf"),
    ("FIT --estimator cautious --s much", "--s: 'much' is no number"),
    ("TAKE --estimator cautious --s -1", "--s -1.0 must be a positive"),
    *each("PREDICT --outputs interval", "--s {1}.* must be a positive", "--s -1", "--s nan"),
    ("PREDICT --outputs interval --s much", "--s: 'much' is no number"),
    *each("PREDICT --outputs trees_polled", "{0} {1}.* must lie in", "--confidence 2", "--confidence nan"),
    ("PREDICT --confidence high", "--confidence: 'high' is no number"),
    ("PREDICT --chunk-rows x", "--chunk-rows: 'x' is no integer"),
    *each("COMPARE", "{0}={1} .* is out of range", "--leaf-sizes 0", "--trees 0", "--repeats 0", "--seed -1"),
    *each("COMPARE", "{0}: 'x' is no integer", "--leaf-sizes x", "--trees x"),
    ("COMPARE --folds 1", "--folds=1 .* expected an integer from 2"),
    ("COMPARE --folds 40", "60 rows, too few for --folds=40; expected at least 80"),
    ("COMPARE --folds 25", r"fewer rows than --folds=25: 'no' \(\d+\).*Lower --folds to 1\d"),
]

TWO = "compares two classes, and there are 3"
NAMES = [
    ("FIT --estimator combinde", "--estimator: 'combinde' is unknown. Did you mean 'combined'.* Known are combined, "),
    ("FIT --forest random-tree", "--forest: 'random-tree' is unknown. Did you mean 'random-forest'"),
    ("FIT --combiner dempstr", "--combiner='dempstr' is unknown. Did you mean 'dempster'"),
    *each("FIT", "{0}='{1}' is unknown", "--combiner generalized_vote", "--combiner averaged_intervals"),
    ("FIT --combiner dempster", f"--combiner dempster {TWO}. .*one_vs_rest"),
    *each("FIT", TWO, "--combiner plausibility", "--combiner beta"),
    ("FIT --estimator random-trees --combiner cautious-p", TWO),
    ("FIT --counts obo", "--counts obo is unknown. Did you mean 'oob'"),
    ("fit good.csv --target KIND --output o", "no column 'KIND'. Did you mean 'kind'"),
    ("FIT --drop a z", "--drop='z': good.csv has no column 'z'.* It has 'a', 'b'"),
    ("TAKE --combiner dempstr", "Did you mean 'dempster'"),
    ("TAKE --combiner dempster", TWO),
    ("PREDICT --outputs set --coverage .9", "--coverage 0.9 needs rows that the model was not fitted to"),
    ("PREDICT --outputs decision --costs costs.csv", "costs.csv is no file and names no costs; expected 'yes:no=5"),
    ("PREDICT --outputs decision --costs empty.csv", "empty.csv holds no costs: expected a line"),
    ("PREDICT --outputs decision --costs sso:no=5", "the class 'sso', which is none. Did you mean 'so'"),
    ("PREDICT --outputs neighbours --rows good.csv", "not those that this Forest .*--kind leaves takes any"),
    ("PREDICT --outputs class --rows good.csv", "--rows good.csv would change nothing: ask for --outputs neighbours"),
    ("PREDICT --outputs neighbours --rows good.csv --kind leafs", "--kind: 'leafs' is unknown. Did you mean 'leaves'"),
    ("PREDICT --outputs neighbours --k 0 --rows good.csv", "--k: 0 is out of range; expected an integer from 1"),
    ("predict votes good.csv --output p --outputs probability", "'probability'.* not what BoundVote answers"),
    ("predict nameless good.csv --output p", "4 columns for the model's 3, which knows no names: .*features.*keep"),
    ("predict nameless good.csv --output p --features a b C", "lacks the columns .'C'.*Did you mean 'c'"),
    ("PREDICT --keep z", "lacks the columns .'z'.*It has"),
    ("COMPARE --combiners evidnce", "--combiners='evidnce' is unknown. Did you mean 'evidence'"),
    ("COMPARE --forests random-forst", "--forests='random-forst' is unknown. Did you mean 'random-forest'"),
    ("COMPARE --combiners dempster", "--combiners=dempster: none of them suits 3 classes"),
    ("COMPARE --counts obo", "--counts='obo' is unknown. Did you mean 'oob'.*inbag, train, oob, held_out"),
    ("compare good.csv", "--target is missing.* add --target 'kind'"),
    ("COMPARE --drop kind", "--drop holds 'kind', which is the --target"),
    ("COMPARE --positive oen", "--positive='oen' is no class of the target.* It holds"),
    ("compare two.csv --target kind --positive Yes", "--positive='Yes' is no class .*Did you mean 'yes'.* no, yes"),
]

COSTS = [
    ("TWO --costs yes:no", "yes:no is no file and names no costs; expected"),
    ("TWO --costs yes=5", "--costs yes=5 has 'yes=5'; write TRUTH:DECISION=COST"),
    ("TWO --costs yes:no=-1", "costs must be finite numbers >= 0"),
    ("TWO --costs yes:nein=5,no:yes=1", "costs names the class 'nein', which is none.* The classes are .'no', 'yes'"),
    ("TWO --costs yes:no=0,no:yes=0", "every decision costs the same"),
    ("TWO --costs good.csv", "good.csv names a class twice"),
]

MODELS = [
    ("compare --model xgboost.json", "--model needs DATA"),
    ("compare held.csv --model xgboost.json", "--target is missing"),
    ("GIVEN --model nowhere", "nowhere does not exist"),
    ("GIVEN --model good.csv", "good.csv is damaged, or no file .*jaxunc.from_any"),
    ("GIVEN --model votes", "holds a BoundVote; pass a classifier of trees"),
    ("GIVEN --model sets", "answers with no probabilities"),
    ("GIVEN --model regressor.txt", "holds a model that predicts numbers"),
    ("GIVEN --target area", "--target='area' is a column that the model reads"),
    ("COMPARE --model xgboost.json", "lacks the columns .'radius', 'texture'"),
    ("compare yes.csv --target kind --model xgboost.json", "holds 'yes', and the model's classes are 0, 1. Files of"),
    *each("GIVEN", "{0} would change nothing with --model", "--forests extra-trees", "--counts oob"),
    ("GIVEN --trees 5 --leaf-sizes 3", "--leaf-sizes, --trees would change nothing with --model"),
    ("GIVEN --folds 200", "269 rows, too few for --folds=200"),
    ("GIVEN --drop more", "--drop would change nothing with --model"),
    ("GIVEN --positive 2", "--positive='2' is no class of the target. It holds 0, 1"),
    ("GIVEN --costs 0:2=5", "costs names the class '2', which is none"),
    ("COMPARE --trust", "--trust changes nothing without --model FILE"),
    ("COMPARE --model forest.joblib", "forest.joblib' is a pickle, .* add --trust: it is fitted anew"),
    ("COMPARE --model forest.joblib --trust --trees 5", "--trees would change nothing with --model"),
    ("COMPARE --model logistic.joblib --trust", "holds a LogisticRegression; expected a forest of scikit-learn, or a"),
    ("COMPARE --model regressor.joblib --trust", "holds a RandomForestRegressor; expected"),
    ("COMPARE --model searched.joblib --trust", "holds a GridSearchCV.*pass the forest or pipeline inside"),
    ("COMPARE --model scaled.joblib --trust", "holds a Pipeline that ends in LogisticRegression; expected"),
    ("COMPARE --model other.joblib --trust", "reads the columns 'd', which DATA lacks.* It has 'a', 'b'"),
    ("COMPARE --model weighted.joblib --trust", "has class weights of '7', which the target does not hold"),
    ("COMPARE --model good.csv --trust", "good.csv' cannot be opened as a pickle"),
    ("COMPARE --combiners model", "--combiners='model' is unknown"),
    ("COMPARE --forests 'given model' --leaf-sizes 0", "is for a model that comes fitted"),
    ("predict xgboost.json good.csv --output p", "lacks the columns .'radius', 'texture'.*5 in all"),
    ("predict xgboost.json held.csv --output p --outputs interval", "'interval'.* not what AdditiveTrees answers"),
    ("predict xgboost.json held.csv --output p --s 2", "--s would change nothing"),
    ("predict treelite.bin held.csv --output p", "7 columns for the model's 4, which knows no names"),
    ("predict cut.json held.csv --output p", "XGBoost model is neither JSON|the given model is neither JSON"),
    ("predict cut.txt held.csv --output p", "LightGBM model's last lines, behind its trees, are missing"),
    ("predict model.cbm held.csv --output p", "CatBoost's own format, (which CatBoost alone|and CatBoost makes no)"),
    ("predict forest.joblib held.csv --output p", "forest.joblib is a pickle, which runs whatever code"),
    ("predict regressor.txt held.csv --output p", "regressor.txt holds a model that predicts numbers"),
    ("inspect cut.json", "neither JSON"),
]

S_ALONE = "--s is of --estimator cautious alone; .*combined for classes and uncertain for numbers"
IGNORED = [
    *each("FIT --estimator", "--s would change nothing with --estimator {0}", "combined --s 2", "random-trees --s 2"),
    *each("FIT --estimator transductive", "{0} would change nothing", "--s 2", "--counts oob", "--forest extra-trees"),
    *each("FIT --estimator random-trees", "{0} would change nothing", "--counts oob", "--forest extra-trees"),
    ("FIT --estimator transductive --trees 5 --depth 3", "--depth, --trees would change nothing"),
    ("FIT --s 2", S_ALONE),
    ("fit quantity.csv --target kind --output o --s 2", S_ALONE),
    ("TAKE --import regressor.joblib --s 2", S_ALONE),
    ("FIT --forest single-tree --trees 5", "--trees would change nothing with --forest single-tree"),
    ("FIT --trust", "--trust changes nothing without --import"),
    *each("FIT --estimator uncertain", "{0} would change nothing with --estimator unc", "--s 2", "--combiner mean"),
    ("FIT --law bins --combiner mean", "--combiner would change nothing with --estimator uncertain"),
    *each("FIT --estimator cautious", "{0} would change nothing", "--combiner mean", "--law bins", "--coverage-by a"),
    ("FIT --estimator combined --support 0 1", "--support would change nothing with --estimator combined"),
    ("FIT --support 0", "expected 2 arguments"),
    ("FIT --support 0 much", "'much' is no number"),
    ("fit quantity.csv --target kind --output o --support 9 1", r"--support \(9.0, 1.0\) must be two numbers"),
    ("FIT --step .5", "'.5' is no integer"),
    ("fit quantity.csv --target kind --output o --step 1", "steps of 1 do not reach .*; leave the step out"),
    ("fit quantity.csv --target kind --output o --support -.5 none --step 1", "ends that are none; whole targets"),
    ("fit quantity.csv --target kind --output o --coverage-by x9", "--coverage-by x9 is no column of X"),
    ("PREDICT --quantiles .5", "quantiles are of models that predict numbers"),
    ("predict numbers good.csv --output p --s 2", "--s would change nothing: MODEL predicts numbers"),
    ("predict numbers good.csv --output p --quantiles .5 2", "--quantiles .0.5, 2.0. must be numbers in"),
    ("predict numbers good.csv --output p --outputs exceeds", "name one or several by --limit"),
    ("predict numbers good.csv --output p --limit 1 --limit 1", "names a limit twice"),
    ("predict numbers good.csv --output p --quantiles x", "--quantiles: 'x' is no number"),
    *each("FIT --counts oob", "oob needs .*{1} .*--counts held_out", "--forest single-tree", "--forest extra-trees"),
    ("FIT --estimator cautious --forest single-tree", "--counts oob .the default of cautious. needs"),
    ("FIT --counts oob --combiner learned", "--combiner learned chooses its counts itself; --counts oob"),
    ("FIT --drop kind", "--drop holds 'kind', which is the --target"),
    *each("TAKE", "--import .* without DATA it reads no --target or --drop", "--target kind", "--drop a"),
    ("TAKE good.csv --target kind --words colour", "--import .* it never needs --words"),
    ("TAKE good.csv --target kind --trees 5", "--trees would change nothing .*which takes --combiner, --counts"),
    ("TAKE good.csv", "--import .* with DATA it needs --target COLUMN"),
    ("TAKE --trees 5", "--trees would change nothing with a forest that --import .*, which takes --combiner, --cov"),
    *each("TAKE", "{0} would change nothing", "--leaf-size 5", "--depth 5", "--seed 5", "--forest extra-trees"),
    ("TAKE --estimator cautious --combiner mean", "--combiner would change nothing"),
    ("TAKE --estimator random-trees", "--estimator random-trees has none; take combined, cautious or"),
    ("PREDICT --s 2", "--s would change nothing: add --outputs interval or cautious_set"),
    ("predict sets good.csv --output p --outputs interval --s 2", "--s would change nothing.*with its own s"),
    ("PREDICT --outputs class --costs yes:no=5", "--costs … would change nothing: ask for --outputs decision"),
    ("PREDICT --coverage .9", "--coverage 0.9 would change nothing: ask for --outputs set"),
    ("PREDICT --outputs set --coverage .9 --s 2", "--s would change nothing"),
    ("PREDICT --confidence .9", "--confidence would change nothing: add --outputs trees_polled"),
    ("predict votes good.csv --output p --outputs trees_polled --confidence .9", "the vote has its own"),
    ("COMPARE --forests single-tree --trees 5", "--trees would change nothing with --forests single-tree"),
    ("COMPARE --combiners learned --counts oob", "learned learn from in-bag counts.*leave out --counts oob"),
    ("COMPARE --forests single-tree --counts oob", "--counts='oob' needs .*--counts held_out"),
    ("compare --forests random-trees --counts oob", "--counts='oob' needs .*Leave random-trees out"),
]

TABLES = {
    "nowhere.csv": "'nowhere.csv' does not exist. Pass a CSV file",
    "god.csv": "'god.csv' does not exist. Did you mean 'good.csv'",
    "notes.txt": "has the ending '.txt'; expected a CSV",
    "folder": "'folder' is a folder; expected a CSV",
    "empty.csv": "cannot be read as CSV: it is empty",
    "header.csv": "has 0 rows",
    "binary.csv": "it holds binary data",
    "ragged.csv": "a row has 4 cells, but the first line has 3 names",
    "twice.csv": "several columns are named 'a'",
    "no.parquet": "cannot be read as Parquet",
    "one.csv": "one class alone, 'so'; two or more",
    "single.csv": "one class alone, 'no'; two or more",
    "nokind.csv": "missing in all 60 rows",
    "infinite.csv": "column 'a' of infinite.csv holds 1 infinite .*first in row 4",
}
"""Tables to which no forest is fitted, by `fit` and by `compare`."""
READ = {
    "nowhere.csv": "nowhere.csv does not exist. Pass a CSV",
    "god.csv": "god.csv does not exist. Did you mean 'good.csv'",
    "notes.txt": "notes.txt has the ending '.txt'; expected a CSV",
    "folder": "folder holds no data: expected a CSV",
    "empty.csv": "empty.csv cannot be read: it is empty",
    "infinite.csv": "row 4 of the data is infinite.*'a'. Clip it",
}
"""Tables that are not scored."""
FILES = [
    *[(f"fit {name} --target kind --output o", said) for name, said in TABLES.items()],
    *[(f"compare {name} --target kind", said) for name, said in TABLES.items()],
    *[(f"predict m {name} --output p", said) for name, said in READ.items()],
    ("FIT --output nowhere/o", "--output='nowhere/o': 'nowhere' is no folder. Make it first"),
    ("FIT --output folder", "--output='folder' names no file, but a folder"),
    ("FIT --output ''", "--output='' names no file"),
    ("FIT --output good.csv", "--output=.* is the file .*, which is read"),
    ("TAKE --import good.csv --output good.csv", "--output=.* is the file .*, which is read"),
    ("TAKE --import nowhere", "--import='nowhere' does not exist"),
    ("TAKE --import folder", "--import='folder' is a folder"),
    ("TAKE --import good.csv", "cannot be opened as a pickle .*jaxunc fit DATA --target"),
    *each("TAKE --import", "cannot be opened as a pickle", "empty.csv", "m"),
    ("TAKE --import regressor.joblib", "holds a RandomForestRegressor; how far a forest is off .* Add DATA --target"),
    ("TAKE --import regressor.joblib --combiner mean", "holds a RandomForestRegressor, which predicts numbers"),
    ("TAKE --import regressor.joblib --law bins --s 1", "--s would change nothing with --estimator uncertain"),
    ("TAKE --law bins", "holds a RandomForestClassifier, which predicts classes: take combined or cautious"),
    ("TAKE --import pipeline.joblib", "holds a Pipeline; how far a forest is off is learned from rows"),
    ("TAKE --import logistic.joblib", "is a LogisticRegression; from_sklearn imports"),
    ("TAKE --import dict.joblib", "holds a dict; pass a fitted classifier or regressor"),
    ("TAKE --import unfitted.joblib", "RandomForestClassifier that is not fitted; fit it"),
    ("fit --import forest.joblib --output o", "runs whatever code it holds.*--trust"),
    ("predict nowhere good.csv --output p", "nowhere does not exist; pass a file of jaxunc.save"),
    ("predict folder good.csv --output p", "folder is a folder; pass a file of jaxunc.save"),
    ("predict good.csv good.csv --output p", "good.csv is damaged, or no file that jaxunc.save wrote"),
    ("predict cut good.csv --output p", "cut is damaged"),
    ("predict alien good.csv --output p", "alien is a file of safetensors, but none of jaxunc"),
    ("predict rule good.csv --output p", "model is a Mean; what streams is"),
    ("PREDICT --output notes.txt", "the output notes.txt is a file; name a folder"),
    ("PREDICT --output notes.txt/p", "the output notes.txt/p is no folder"),
    ("inspect alien", "none of jaxunc"),
    ("COMPARE --report ''", "--report='' names no folder"),
    *each("COMPARE --report", "--report='{0}' cannot be written to", "notes.txt", "notes.txt/x"),
]

OTHERS = ("--estimator random-trees", "--estimator transductive")
NO_NUMBERS = "holds (str|object) and no numbers, which --estimator uncertain is for"
QUANTITY = "holds fractions: a quantity.*cut this one into ranges"
DATES = r"^(?!.*--estimator).*dates or times in 1 column .'d'.*make them numbers, for instance days since.*--drop"
DATA = [
    *each("FIT", NO_NUMBERS, "--estimator uncertain", "--law learned", "--step 1", "--support 0 none"),
    *each("FIT --drop a b c", "good.csv has no column besides the target", "", *OTHERS),
    *each("fit quantity.csv --target kind --output o", QUANTITY, "--estimator combined", "--combiner mean", *OTHERS),
    ("fit marked.csv --target kind --output o", "such as '.0 ml'.*60 of its 60 .*plainly.* add --estimator combined"),
    ("fit late.csv --target kind --output o", "'a' of late.csv holds 1 infinite .*first in row 4 of the data"),
    ("fit constant.csv --target kind --output o", "holds one number alone, 5.5, in all 60 rows.*with other numbers"),
    ("compare constant.csv --target kind --laws", "holds one number alone, 5.5, in all 60 rows"),
    *each("fit endless.csv --target kind --output o", "infinite in 1 of 60 rows .row 4 of", "", "--law bins"),
    ("fit gaps.csv --target kind --output o", "such as 'unknown', and 5[0-9] of its .*with cells empty"),
    ("compare marked.csv --target kind", "such as '.0 ml'.*if these are classes, add --combiners"),
    ("fit quantity.csv --target kind --output o --law lernt", "--law lernt is unknown. Did you mean 'learned'"),
    ("fit quantity.csv --target kind --output o --estimator uncertain --counts inbag", "--counts inbag is unknown"),
    ("fit huge.csv --target kind --output o", "column 'a' of huge.csv .*beyond float32"),
    ("fit words.csv --target kind --output o --words a", "--words names 'a', which of .*words.csv are no texts"),
    *[(f"fit dates.parquet --target kind --output o {other}", DATES) for other in ("", *OTHERS)],
    ("fit days.parquet --target kind --output o", DATES),
    ("fit lists.parquet --target kind --output o", "lists or bytes in the cells of 3 columns .'l', 's', 'x'"),
    ("fit lists.parquet --target kind --output o --estimator random-trees", "give each entry a column of its own"),
    ("fit lists.parquet --target l --drop s x --output o", "in the cells of 1 column .'l'"),
    ("predict nameless lists.parquet --output p --features a l kind", "column 'l' holds list.*no numbers"),
    ("predict nameless dates.parquet --output p --features a b d", "'d' holds timestamp.*make them numbers"),
    ("predict nameless words.csv --output p --features a w d", "words.csv cannot be read: .*'red'"),
    ("compare quantity.csv --target kind --combiners vote", "60 different numbers.*a quantity"),
    ("compare quantity.csv --target kind --combiners", "Leave out --combiners and --model, to compare laws"),
    ("compare quantity.csv --target kind --laws lernt", "--laws='lernt' is unknown. Did you mean 'learned'"),
    ("compare quantity.csv --target kind --laws --combiners", "--combiners is for classes; leave one of them out"),
    ("compare --laws", "the shipped data have classes; leave one"),
    ("COMPARE --laws", "--target='kind' of good.csv holds (str|object) and no numbers, which --laws is for"),
    *each("compare quantity.csv --target kind --counts", "--counts.* for classes", "inbag", "held_out"),
    *each("compare quantity.csv --target kind", "--costs and --positive are", "--costs a:b=1", "--positive a"),
    ("compare quantity.csv --target kind --forests single-tree", "--forests='single-tree' is unknown"),
    ("compare lists.parquet --target kind", "'l' of DATA holds list.*; give each part its own column"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    here = tmp_path_factory.mktemp("misuse")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3)).round(2)
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    good = pd.DataFrame(X, columns=list("abc")).assign(kind=np.array(["no", "so", "yes"])[y])
    dates = pd.date_range("2020-01-01", periods=60)
    tables = {
        "good": good,
        "one": good[:1],
        "single": good.assign(kind="no"),
        "nokind": good.assign(kind=np.nan),
        "quantity": good.assign(kind=rng.normal(size=60)),
        "marked": good.assign(kind=[f"{i}0 ml" for i in range(60)]),
        "constant": good.assign(kind=5.5, c=5),
        "late": good.assign(a=np.where(np.arange(60) == 3, np.inf, 1), kind=good.kind.where(np.arange(60) > 1)),
        "endless": good.assign(kind=np.where(np.arange(60) == 3, np.inf, X[:, 0])),
        "gaps": good.assign(kind=["unknown" if i % 10 == 9 else i + 0.5 for i in range(60)]),
        "infinite": good.assign(a=np.where(np.arange(60) == 3, np.inf, X[:, 0])),
        "huge": good.assign(a=1e300),
        "words": good.assign(w=np.where(y > 0, "red", "blue"), d=dates),
        "header": good[:0],
        "two": good.assign(kind=np.where(y > 0, "yes", "no")),
    }
    for name, own in tables.items():
        own.to_csv(here / f"{name}.csv", index=False)
    for name, column in (("dates", dates), ("days", dates.date)):
        good.assign(d=column).to_parquet(here / f"{name}.parquet")
    nested = {"l": [[1.0, 2.0]] * 60, "s": [{"u": 1.0}] * 60, "x": [b"\xff\x00"] * 60}
    parquet.write_table(pa.table({"a": X[:, 0], **nested, "kind": good.kind.tolist()}), here / "lists.parquet")
    (here / "empty.csv").touch()
    (here / "binary.csv").write_bytes(bytes(range(256)) * 20)
    (here / "twice.csv").write_text("a,a,kind\n" + "1,2,no\n3,4,yes\n" * 5)
    (here / "ragged.csv").write_text("a,b,kind\n1,2,no\n3,4,5,yes\n")
    for name in ("notes.txt", "no.parquet"):
        (here / name).write_text("hello")
    (here / "folder").mkdir()
    _models(here, good, X, y)
    _other_models(here)
    return here


def _other_models(here):
    """Models of other libraries, and rows that they were not fitted to."""
    for name in ("xgboost.json", "lightgbm.txt", "treelite.bin"):
        shutil.copy(FOLDER / name, here)
    for name, cut in (("xgboost.json", "cut.json"), ("lightgbm.txt", "cut.txt")):
        (here / cut).write_bytes((FOLDER / name).read_bytes()[:4000])
    (here / "model.cbm").write_bytes(b"CBM1" + bytes(100))
    text = (FOLDER / "lightgbm.txt").read_bytes()
    (here / "regressor.txt").write_bytes(text.replace(b"objective=binary sigmoid:1", b"objective=regression"))
    frame, y = table()
    held = frame[N_TRAIN:].assign(kind=y[N_TRAIN:], more=1)
    held.to_csv(here / "held.csv", index=False)
    held.assign(kind="yes").to_csv(here / "yes.csv", index=False)


def _models(here, good, X, y):
    forest = RandomForestClassifier(4, min_samples_leaf=3, random_state=0)
    models = {
        "unfitted": RandomForestClassifier(4),
        "forest": forest.fit(good[list("abc")], good.kind),
        "regressor": RandomForestRegressor(2).fit(X, X[:, 0]),
        "logistic": LogisticRegression().fit(X, y),
        "dict": {"a": 1},
        "searched": GridSearchCV(forest, {"max_depth": [1]}),
        "scaled": make_pipeline(StandardScaler(), LogisticRegression()),
        "other": make_pipeline(StandardScaler(), RandomForestClassifier(2)).fit(good[list("ab")].assign(d=1.0), y),
        "weighted": RandomForestClassifier(2, class_weight={"7": 2.0}),
        "pipeline": make_pipeline(StandardScaler(), RandomForestRegressor(2)).fit(X, X[:, 0]),
    }
    for name, model in models.items():
        joblib.dump(model, here / f"{name}.joblib")
    named, nameless = ju.from_sklearn(models["forest"]), ju.from_sklearn(RandomForestClassifier(4).fit(X, y))
    saved = {
        "m": ju.bind(named, ju.Mean()),
        "sets": ju.bind(named, ju.decisions.CautiousReport(1.0)),
        "votes": ju.voting.bind_vote(named),
        "nameless": ju.bind(nameless, ju.Mean()),
        "rule": ju.Mean(),
        "numbers": UncertainForestRegressor(RandomForestRegressor(9, random_state=0)).fit(good[list("abc")], X[:, 0]),
    }
    for name, model in saved.items():
        ju.save(here / name, model)
    whole = (here / "m").read_bytes()
    (here / "cut").write_bytes(whole[: len(whole) // 2])
    save_file({"a": np.zeros(3)}, here / "alien")


@pytest.mark.room(keep=57)
@pytest.mark.parametrize(("line", "match"), [*USAGE, *NUMBERS, *NAMES, *MODELS, *COSTS, *IGNORED, *FILES, *DATA])
def test_misuse_is_told_in_one_paragraph(line, match, folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    for short, long in SHORT.items():
        line = re.sub(rf"^{short}\b", long, line)
    before = {path.name for path in folder.iterdir()}
    refuses(SystemExit, r"^2$", main, shlex.split(line))
    printed = capsys.readouterr()
    assert printed.err.startswith("jaxunc: error: ")
    assert printed.err.count("\n") == 1
    assert printed.out == ""
    assert re.search(match, printed.err), printed.err
    assert {path.name for path in folder.iterdir()} <= before | {"p"}, "something was saved"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(28, "No space left", "t.csv"), "t.csv: No space left"),
        (OSError(28, "No space left"), "[Errno 28] No space left"),
        (OSError("the run is another's"), "the run is another's"),
        (ValueError(), "ValueError"),
    ],
)
def test_errors_of_files_are_the_path_and_what_the_system_says(error, said, capsys, monkeypatch):
    monkeypatch.setattr(_inspect, "run", Mock(side_effect=error))
    refuses(SystemExit, r"^2$", main, ["inspect", "m"])
    assert capsys.readouterr().err == f"jaxunc: error: {said}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_shown(command, capsys):
    """A sign of percent in a help is doubled: from Python 3.14 on, no command would run without it."""
    refuses(SystemExit, r"^0$", main, [command, "--help"])
    assert f"usage: jaxunc {command}" in capsys.readouterr().out


def test_a_folder_that_cannot_be_written_is_told_before_fitting(folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(_training.os, "access", lambda path, mode: False)
    refuses(SystemExit, r"^2$", main, shlex.split(SHORT["FIT"]))
    assert "--output='o': the folder '.' cannot be written to" in capsys.readouterr().err


@pytest.mark.filterwarnings("always::jaxunc.estimators.PureLeavesWarning")
def test_warnings_name_options(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    main(["fit", "good.csv", "--target", "kind", "--output", str(tmp_path / "o"), "--trees", "3", "--combiner", "mean"])
    warned = capsys.readouterr().err
    assert "Take --counts oob or --counts held_out, or larger leaves (--leaf-size)." in warned
    assert "counts=" not in warned
