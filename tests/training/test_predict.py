"""Tables of predictions: what is in them, under which names, and that they are there whole or not at all."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from each_of import each_of
from nlgnn.errors import NlgnnError
from nlgnn.graph.graph import Graph
from nlgnn.training.predict import check_table_path, prediction_columns, write_table

GRAPH = Graph(
    np.ones((3, 1)), [[0], [1]], [0, -1, 1], class_names=["cat", "=1+1"], node_names=["x", "-y", "3"], name="small"
)
PROBABILITIES = np.array([[0.9, 0.1], [0.25, 0.75], [0.5, 0.5]])
FIGURES = ["confidence", "was labelled", "probability of cat", "probability of =1+1"]


def test_a_row_for_each_node_that_is_asked_for() -> None:
    found = prediction_columns(GRAPH, PROBABILITIES, np.array([1, 0]))
    assert list(found) == ["id", "label", *FIGURES]
    assert (found["id"], found["label"]) == (["-y", "x"], ["=1+1", "cat"])
    assert [list(found[name]) for name in FIGURES] == [[0.75, 0.9], [False, True], [0.25, 0.9], [0.75, 0.1]]


@each_of(
    ("given", "wanted"),
    [
        (("url", "topic"), ["url", "topic"]),
        ((None, "topic"), ["id", "topic"]),
        (("label", "id"), ["label", "id"]),  # their own names, whatever they are
        (("confidence", "topic"), ["id", "label"]),
        (("url", "probability of cat"), ["id", "label"]),
        (("label", None), ["id", "label"]),
    ],
)
def test_columns_go_by_the_users_names_unless_others_have_them(
    given: tuple[str | None, str | None], wanted: list[str]
) -> None:
    found = prediction_columns(GRAPH, PROBABILITIES, np.arange(3), *given)
    assert list(found) == [*wanted, *FIGURES]
    assert found[wanted[0]] == ["x", "-y", "3"]


def test_written_as_csv_without_formulas_and_as_parquet(tmp_path: Path) -> None:
    columns = prediction_columns(GRAPH, PROBABILITIES, np.arange(3), "@id")
    write_table(tmp_path / "t.csv", columns)
    with open(tmp_path / "t.csv", newline="") as file:
        header, first, second, third = csv.reader(file)
    assert (header[0], header[-1]) == ("'@id", "probability of =1+1")
    assert [first[:2], second[:2], third[:2]] == [["x", "cat"], ["'-y", "'=1+1"], ["3", "cat"]]
    write_table(tmp_path / "t.parquet", columns)
    assert pq.read_table(tmp_path / "t.parquet").to_pydict()["@id"] == ["x", "-y", "3"]
    assert len(list(tmp_path.iterdir())) == 2


def test_places_where_no_table_can_be(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    for name, words in {
        "t.xls": "ending is unknown",
        "no/t.csv": "there is no folder .*no",
        "folder.csv": "not an ordinary file",
        "a" * 300 + ".csv": "File name too long",
    }.items():
        with pytest.raises(NlgnnError, match=words):
            check_table_path(tmp_path / name)
    check_table_path(tmp_path / "t.csv")
