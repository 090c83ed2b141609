"""Columns that are compared as float64."""

import jax
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from jaxunc.tables import Columns, Encoded, Levels, encode_arrow, encode_instances, encode_traced
from tests._refusal import refuses

pytestmark = pytest.mark.once

STAMPS = tuple(1.7e9 + np.array([0.25, 0.5, 1.0, 100.125]))
"""Numbers that float32 does not tell from each other."""
COLUMNS = Columns(2, ("at", "x"), cuts=(STAMPS, None))


def stamps(rng) -> np.ndarray:
    near = np.concatenate([np.nextafter(STAMPS, -np.inf), STAMPS, np.nextafter(STAMPS, np.inf)])
    at = np.concatenate([near, [np.nan, -np.inf, np.inf, 0.0]])
    return np.stack([at, rng.standard_normal(len(at))], axis=1)


def test_codes_are_the_cuts_below(rng):
    data = stamps(rng)
    wanted = np.where(np.isnan(data[:, 0]), np.nan, (np.array(STAMPS) < data[:, :1]).sum(axis=1))
    frame = pd.DataFrame(data, columns=["at", "x"])
    finite = np.isfinite(data[:, 0])
    forms = {
        "array": encode_instances(data, COLUMNS),
        "frame": encode_instances(frame, COLUMNS),
        "objects": encode_instances(data.astype(object), COLUMNS),
        "arrow": encode_arrow(pa.table(frame), COLUMNS),
    }
    for name, found in forms.items():
        np.testing.assert_array_equal(found.values[:, 0], wanted, err_msg=name)
        np.testing.assert_array_equal(found.values[:, 1], data[:, 1].astype(np.float32), err_msg=name)
        assert found.missing
    whole = np.stack([np.array([1700000000, 1700000001, 1700000002]), np.zeros(3)], axis=1).astype(np.int64)
    assert encode_instances(whole, COLUMNS).values[:, 0].tolist() == [0, 2, 3]
    assert not encode_instances(data[finite], COLUMNS).missing


def test_traced_numbers_are_compared_as_they_are(rng):
    cuts = np.sort(np.append(rng.standard_normal(50), [0.0, 1e-300]))
    columns = Columns(1, cuts=(tuple(cuts),))
    x = np.concatenate([rng.standard_normal(100), cuts, np.nextafter(cuts.astype(np.float32), np.inf), [np.nan, -0.0]])
    x = x.astype(np.float32)[:, None]
    found = jax.jit(lambda x: encode_traced(x, columns))(x)
    np.testing.assert_array_equal(found, encode_instances(x, columns).values)
    again = encode_traced(Encoded(found, True), columns)
    np.testing.assert_array_equal(again, found)
    assert encode_instances(np.asarray(found), columns.of_codes()).values is not None


def test_bad_cuts():
    for cuts in ((1.0, 1.0), (2.0, 1.0), (np.nan,), ((1.0,),), (np.inf,)):
        with refuses(ValueError, "cuts"):
            Columns(1, cuts=(cuts,))
    with refuses(ValueError, "cuts"):
        Columns(2, cuts=((1.0,),))
    with refuses(ValueError, "levels and cuts"):
        Columns(1, nominal=(True,), levels=(Levels(("a",), False),), cuts=((1.0,),))
    assert hash(COLUMNS) == hash(Columns(2, ("at", "x"), cuts=(STAMPS, None)))
    assert "cuts by column: [4, 0]" in repr(COLUMNS)
