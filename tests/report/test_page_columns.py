"""Columns: what page.js reads out of them is what was put in."""

from __future__ import annotations

import re
from base64 import b64decode
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from each_of import each_of
from nlgnn.report.page import ASSETS, Words, columns_of, encode_array

BITS = {"u1": "Uint8", "u2": "Uint16", "i4": "Int32", "f4": "Float32", "f8": "Float64"}


def decoded(column: dict[str, Any], lists: list[NDArray[Any]]) -> list[Any]:
    """As `decode` of page.js does it."""
    values = np.frombuffer(b64decode(column["bytes"]), f"<{column['type']}").tolist()
    return [lists[column["words"]][code] for code in values] if "words" in column else values


def test_page_js_knows_every_type() -> None:
    known = re.search(r"const ARRAYS = \{(.*?)\};", (ASSETS / "page.js").read_text())
    assert known is not None
    assert dict(re.findall(r"(\w+): (\w+)Array", known[1])) == BITS


@given(st.lists(st.integers(-(2**40), 2**40)))
def test_whole_numbers_come_back(values: list[int]) -> None:
    assert decoded(encode_array(np.array(values, np.int64)), []) == values


@given(st.lists(st.floats(width=32)))
def test_numbers_come_back(values: list[float]) -> None:
    np.testing.assert_array_equal(decoded(encode_array(np.array(values, np.float64)), []), values)  # NaN for NaN


@each_of(
    ("values", "kind"),
    [
        ([0, 255], "u1"),
        ([256], "u2"),
        ([65535], "u2"),
        ([65536], "i4"),
        ([-1, 1], "i4"),
        ([-(2**31), 2**31 - 1], "i4"),
        ([2**31], "f8"),
        ([True, False], "u1"),
        ([0.5], "f4"),
        ([], "f4"),
        (np.array([], np.int64), "u1"),
    ],
)
def test_the_smallest_type_is_taken(values: Any, kind: str) -> None:
    assert encode_array(np.array(values))["type"] == kind


@given(st.lists(st.lists(st.text(max_size=3), max_size=5), min_size=1, max_size=5))
def test_text_comes_back(columns: list[list[str]]) -> None:
    words = Words()
    encoded = words.encode({str(number): column for number, column in enumerate(columns)})
    for number, column in enumerate(columns):
        assert decoded(encoded[str(number)], words.lists) == column


def test_words_of_another_column_are_not_carried_twice() -> None:
    words = Words()
    encoded = words.encode({"all": ["c", "a", "b"], "some": ["b", "b"], "others": ["a", "d"]})
    assert [column["words"] for column in encoded.values()] == [0, 0, 1]
    assert [some.tolist() for some in words.lists] == [["a", "b", "c"], ["a", "d"]]


def test_rows_become_columns() -> None:
    columns = columns_of([{"a": "x", "b": None, "c": 3}, {"a": 4, "b": 0.5, "c": True}])
    assert columns["a"] == ["x", "4"]
    np.testing.assert_array_equal(columns["b"], [np.nan, 0.5])
    np.testing.assert_array_equal(columns["c"], [3, 1])
    assert columns_of([]) == {}
