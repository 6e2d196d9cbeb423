"""Tables of predictions as files and on standard output: complete or not at all, and never over another file."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from each_of import each_of
from nlgnn.errors import NlgnnError
from nlgnn.training.prediction_files import STANDARD_OUTPUT, check_table_path, format_of, write_table

COLUMNS: dict[str, Any] = {
    "@id": ["x", "-y", "3"],
    "label": ["cat", "=1+1", "cät, \n"],
    "confidence": np.array([0.9, 0.75, 0.5]),
    "was labelled": np.array([True, False, True]),
}


def test_csv_without_formulas(tmp_path: Path) -> None:
    write_table(tmp_path / "t.csv", COLUMNS)
    with open(tmp_path / "t.csv", newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header == ["'@id", "label", "confidence", "was labelled"]
    assert rows == [["x", "cat", "0.9", "True"], ["'-y", "'=1+1", "0.75", "False"], ["3", "cät, \n", "0.5", "True"]]
    assert b"\r" not in (tmp_path / "t.csv").read_bytes()
    assert len(list(tmp_path.iterdir())) == 1


def as_lists() -> dict[str, list[Any]]:
    return {name: list(column) for name, column in COLUMNS.items()}


def test_parquet_and_json_lines_keep_values_and_types(tmp_path: Path) -> None:
    write_table(tmp_path / "t.parquet", COLUMNS)
    assert pq.read_table(tmp_path / "t.parquet").to_pydict() == as_lists()
    write_table(tmp_path / "t.jsonl", COLUMNS)
    rows = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {name: [row[name] for row in rows] for name in COLUMNS} == as_lists()
    assert rows[0]["was labelled"] is True


@each_of("form", ["csv", "jsonl", "parquet"])
def test_standard_output_gets_the_same_bytes_as_a_file(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed))
    write_table(STANDARD_OUTPUT, COLUMNS, form)
    write_table(tmp_path / f"t.{form}", COLUMNS)
    assert printed.getvalue() == (tmp_path / f"t.{form}").read_bytes()


def test_standard_output_that_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(NlgnnError, match=r"Standard output is closed"):
        check_table_path(STANDARD_OUTPUT)


def test_the_format_is_given_or_that_of_the_ending() -> None:
    assert [format_of(Path(name)) for name in ("a.csv", "a.parquet", "a.jsonl", "-")] == [
        *("csv", "parquet", "jsonl", "csv")
    ]
    assert format_of(Path("a.txt"), "jsonl") == "jsonl"
    assert format_of(STANDARD_OUTPUT, "parquet") == "parquet"
    with pytest.raises(NlgnnError, match="format='xls' is unknown"):
        format_of(Path("a.csv"), "xls")


def test_places_where_no_table_can_be(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "old.csv").write_text("mine")
    for name, words in {
        "t.xls": "ending is unknown",
        "no/t.csv": "there is no folder .*no",
        "folder.csv": "not an ordinary file",
        "a" * 300 + ".csv": "File name too long",
        "old.csv": "exists already",
    }.items():
        with pytest.raises(NlgnnError, match=words):
            check_table_path(tmp_path / name)
    check_table_path(tmp_path / "t.csv")
    check_table_path(tmp_path / "old.csv", replace=True)
    check_table_path(STANDARD_OUTPUT)
