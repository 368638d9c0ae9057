"""What goes with a model of a table reads a value as training does."""

import json
import math

import numpy as np
import pandas as pd
import pytest

from untrained.exports import _table


def test_texts_have_the_hashes_that_training_counted_them_by():
    texts = ["", "a", "seven77", "eight888", "nine99999", "sixteen_sixteen_", "f\u00fcnf \u20ac", "x" * 300]
    expected = pd.util.hash_array(np.array([text.encode() for text in texts], dtype=object), categorize=False)
    assert [_table.hashed(text) for text in texts] == expected.tolist()


@pytest.mark.parametrize(("text", "value"), [("1.5", 1.5), (" 2 ", 2), ("-3e2", -300), (4, 4), (2.5, 2.5)])
def test_a_number_is_one(text, value):
    assert _table.number(text) == value


@pytest.mark.parametrize("text", ["", "NA", "nan", "inf", "-inf", "1_000", "oops", None, math.inf])
def test_what_is_no_number_is_missing(text):
    assert math.isnan(_table.number(text))


@pytest.fixture
def known(tmp_path, monkeypatch):
    """A column of numbers with mean log(3) and deviation 2 after the logarithm, and two of identifiers."""
    dense = [{"name": "shown", "log": True, "mean": math.log(3), "std": 2.0}]
    ids = [{"name": "user", "size": 3}, {"name": "code", "size": 10}]
    told = {"label": "click", "missing": ["", "NA"], "dense": dense, "identifiers": ids}
    (tmp_path / "config.json").write_text(json.dumps({"table": told}))
    words = np.sort(pd.util.hash_array(np.array([b"u1", b""], dtype=object), categorize=False))
    np.savez(tmp_path / "vocabularies.npz", **{"0": words})
    monkeypatch.setattr(_table, "HERE", tmp_path)
    _table.table.cache_clear()
    yield words.tolist()
    _table.table.cache_clear()


def test_a_row_is_encoded_by_hand(known):
    rows = [
        {"shown": "8", "user": "u1", "code": "7"},  # log(9) = 2 log(3)
        {"shown": "-8", "user": "NA", "code": 7},
        {"shown": "oops", "user": None, "code": "NA"},
        {"shown": 2, "user": "u2", "code": ""},
    ]
    at = [known.index(_table.hashed(text)) + 1 for text in ("u1", "")]
    seven, missing = _table.hashed("7") % 10, _table.hashed("") % 10
    half = math.log(3) / 2
    expected = [[half, at[0], seven], [-3 * half, at[1], seven], [0, at[1], missing], [0, 0, missing]]
    found = _table.encode(rows)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-6)
    with pytest.raises(KeyError, match="user"):
        _table.encode([{"shown": 1, "code": 2}])
