"""Odd tables of users: what is read of them, and what is refused with file, column and the way out."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from table_samples import dense, read

from each_of import each_of
from hostile_tables import parquet_bytes
from nlgnn.errors import DataError
from nlgnn.tables import FeatureEncoder, read_graph
from nlgnn.tables.number_format import find_numbers

N = 60
EDGES = "source,target\nn0,n1\nn2,n3\n"


def table(cell: Callable[[int], object] | Sequence[object], separator: str = ",") -> str:
    """Return a table of `N` nodes with two classes and a column c of some cells."""
    cells = [cell(row) if callable(cell) else cell[row % len(cell)] for row in range(N)]
    quoted = ['"' + str(text).replace('"', '""') + '"' for text in cells]
    rows = [separator.join((f"n{row}", "ab"[row % 2], text)) for row, text in enumerate(quoted)]
    return separator.join(("id", "label", "c")) + "\n" + "\n".join(rows) + "\n"


def german(number: float) -> str:
    return f"{number:,.2f}".translate(str.maketrans(",.", ".,"))


# The kind of column c, the number of its features, of its missing values, and words of its remark.
COLUMNS: dict[str, tuple[str, str, int, int, str]] = {
    "German amounts": (table(lambda i: german(i * 997.13) + " €"), "number", 1, 0, "decimal commas"),
    "German amounts behind semicolons": (table(lambda i: german(i * 7), ";"), "number", 1, 0, ""),
    "Swiss amounts": (table(lambda i: f"CHF {i * 997:,}.50".replace(",", "’")), "number", 1, 0, ""),
    "accountants": (table(lambda i: f"({i}.00)" if i % 3 else f"{i}.00 "), "number", 1, 0, "brackets"),
    "shares and per cent": (table(lambda i: f"{i}%" if i % 2 else f"0.{i:02}"), "number", 1, 0, "lack the sign"),
    "two currencies": (table(lambda i: f"{'$€'[i % 2]}{i}.5"), "number", 1, 0, "not converted: $, €"),
    "kilograms": (table(lambda i: f"{i}.5 kg"), "number", 1, 0, "unit kg left off"),
    "thousands": (table(lambda i: f"{i}k"), "number", 1, 0, "k read as 1,000"),
    "faults of a spreadsheet": (table(lambda i: "#DIV/0!" if i % 5 == 0 else i), "number", 2, 12, "read as missing"),
    "not a number": (table(lambda i: "NaN" if i % 5 == 0 else i), "number", 2, 12, ""),
    "a question mark": (table(["0", "1", "?"]), "number", 2, 20, "'?' read as missing"),
    "powers of ten with commas": (table(lambda i: f"1,{i}E+03"), "number", 1, 0, "decimal commas"),
    "more digits than a double holds": (table(lambda i: 4 * 10**18 + i * 7919), "number", 1, 0, ""),
    "years": (table(lambda i: 1990 + i % 30), "number", 1, 0, ""),
    "days of a spreadsheet": (table(lambda i: 45000 + i * 3), "number", 1, 0, ""),
    "days before months": (table(lambda i: f"{i % 28 + 1:02}/{i % 12 + 1:02}/2024"), "date", 20, 0, "day/month/year"),
    "months before days": (table(lambda i: f"{i % 12 + 1}/{i % 28 + 1}/2024"), "date", 20, 0, "month/day/year"),
    "either": (table(lambda i: f"{i % 12 + 1}/{i % 11 + 1}/2024"), "date", 20, 0, "not sure"),
    "two forms of dates": (
        table(lambda i: f"{i % 28 + 1:02}/03/2024" if i % 2 else f"2024-03-{i % 28 + 1:02}"),
        *("date", 8, 0, "day/month/year"),
    ),
    "days without a date": (
        table(lambda i: "0000-00-00" if i % 6 == 0 else f"2024-01-{i % 28 + 1:02}"),
        *("date", 9, 10, "'0000-00-00' read as missing"),
    ),
    "the end of time": (table(lambda i: "9999-12-31" if i % 6 else f"2024-02-{i % 28 + 1:02}"), "date", 20, 0, ""),
    "zones": (
        table(lambda i: f"2024-01-{i % 28 + 1:02}T{i % 24:02}:00:00" + ["Z", "+02:00"][i % 2]),
        *("date", 32, 0, "converted to UTC"),
    ),
    "milliseconds": (table(lambda i: 1_700_000_000_000 + i * 86_400_001), "number", 1, 0, "--kind c=date"),
    "German truths": (table(["ja", "nein", "Ja", " nein"]), "category", 3, 0, "merged"),
    "truths and NA": (table(["TRUE", "false", "NA"]), "boolean", 2, 20, ""),
    "a cross or nothing": (table(["X", ""]), "category", 3, 30, ""),
    "pictures": (table(["😀", "😡"]), "category", 3, 0, ""),
    "from right to left": (table(["שלום", "مرحبا"]), "category", 3, 0, ""),
    "two forms of one letter": (table(["é", "e\u0301", "x"]), "category", 3, 0, "merged"),
    "lines inside cells": (table(["a\nb", "c\r\nd"]), "category", 3, 0, ""),
    "tabs and quotes inside cells": (table(['a\t"b"', "c"]), "category", 3, 0, ""),
    "blanks that are not seen": (table(["Pro", "Pro\u200b", "\u00a0pro", "free"]), "category", 3, 0, "merged"),
    "tags": (table(["a;b;c", "b", "c ; a", "a; b", "a", ""]), "list", 5, 10, "lists separated by ';'"),
    "web addresses": (table(lambda i: f"https://example.com/{i % 7}/page"), "category", 8, 0, ""),
    "versions": (table(lambda i: f"{i % 3}.{i % 5}.0"), "category", 16, 0, ""),
    "ranges": (table(lambda i: f"{i % 5 * 10}-{i % 5 * 10 + 9}"), "category", 6, 0, ""),
    "mixed units": (table(["5 kg", "6 lb", "7 kg"]), "category", 4, 0, ""),
    "numbers and words": (table(lambda i: "abc" if i % 4 == 0 else i % 9), "category", 11, 0, ""),
    "names of people": (table(["Doe, John", "Roe, Jane", "Poe, Edgar", "Doe, Jane"]), "category", 5, 0, ""),
    "mails": (table(lambda i: f"user{i}@example.org"), "–", 0, 0, "identifier"),
    "keys of databases": (table(lambda i: f"{i:032x}"), "–", 0, 0, "identifier"),
    "one value in two spellings": (table(["GmbH", "gmbh "]), "–", 0, 0, "one value only"),
    "nothing": (table([""]), "–", 0, N, "no values"),
    "nothing, in words": (table(["NA", "null", "n/a"]), "–", 0, N, "no values"),
    "very long cells": (table(lambda i: "word " * 2000 + str(i % 3)), "category", 4, 0, ""),
}


@each_of(("content", "kind", "slots", "missing", "remark"), COLUMNS.values(), ids=COLUMNS)
def test_columns(tmp_path: Path, content: str, kind: str, slots: int, missing: int, remark: str) -> None:
    found = read(tmp_path, content, EDGES)
    (row,) = (row for row in found.columns if row["column"] == "c")
    assert (row["kind"], row["slots"], row["missing"]) == (kind, slots, missing)
    assert remark in str(row["remark"])
    assert found.graph.num_nodes == N
    assert np.isfinite(dense(found.graph.x)).all()


def test_units_that_differ_are_not_numbers_of_one_column() -> None:
    assert find_numbers(pl.Series(["5 kg", "6 lb", "7 kg", "8"])).numbers.to_list() == [None, None, None, 8]


def test_months_have_no_weekday() -> None:
    column = FeatureEncoder.fit(pl.DataFrame({"c": [f"2024-{month:02}" for month in range(1, 13)]})).columns[0]
    assert (column.months, column.weekdays, column.hours) == (True, False, False)


PLAIN = "id,label,c\nn0,a,1.5\nn1,b,2\nn2,a,3\nn3,b,4\n"
# Files that are read like PLAIN with EDGES.
ALIKE: dict[str, tuple[str | bytes, str | bytes, dict[str, Any]]] = {
    "line ends of Windows": (PLAIN.replace("\n", "\r\n"), EDGES.replace("\n", "\r\n"), {}),
    "byte order marks": ("\ufeff" + PLAIN, "\ufeff" + EDGES, {}),
    "no line end at the end": (PLAIN.rstrip(), EDGES.rstrip(), {}),
    "blank lines": ("\n" + PLAIN.replace("\nn2", "\n\nn2") + "\n\n", EDGES + "\n\n", {}),
    "all cells in quotes": (re.sub(r"[\w.]+", r'"\g<0>"', PLAIN), re.sub(r"\w+", r'"\g<0>"', EDGES), {}),
    "tabs under the name of commas": (PLAIN.replace(",", "\t"), EDGES.replace(",", "\t"), {}),
    "semicolons and decimal commas": (PLAIN.replace(",", ";").replace(".", ","), EDGES.replace(",", ";"), {}),
    "vertical bars": (PLAIN.replace(",", "|"), EDGES.replace(",", "|"), {}),
    "a line of Excel about the delimiter": ("sep=,\n" + PLAIN, "sep=,\r\n" + EDGES, {}),
    "a line of Excel about semicolons": ('"sep=;"\n' + PLAIN.replace(",", ";"), EDGES, {}),
    "the number of an edge before its ends": (PLAIN, "no,amount,to_account,from_account\n1,5,n1,n0\n2,6,n3,n2\n", {}),
    "blanks around cells": (PLAIN.replace(",", " , "), EDGES.replace(",", " , "), {}),
    "columns in another order": (
        "c,label,id\n1.5,a,n0\n2,b,n1\n3,a,n2\n4,b,n3\n",
        "weightless,target,source\n7,n1,n0\n8,n3,n2\n",
        {},
    ),
    "names of columns in capitals": (
        PLAIN.replace("id,label", "ID,Label"),
        EDGES.replace("source,target", "SOURCE,TARGET"),
        {"label": "Label"},
    ),
    "labels in many spellings": (PLAIN.replace("n2,a", "n2, A "), EDGES, {}),
    "loops and repeated edges": (PLAIN, EDGES + "n0,n1\nn2,n2\n", {}),
    "edges to nowhere": (PLAIN, EDGES + "n0,gone\nlost,n1\n", {"unknown_nodes": "drop"}),
    "a column of blanks and one without a name": (
        "id,label,c,,empty\n" + "".join(f"{line},x,\n" for line in PLAIN.splitlines()[1:]),
        EDGES,
        {},
    ),
}


@each_of(("nodes", "edges"), [("1,2,3,4", "1.0,2.0"), ("1.0,2.0,3.0,4.0", "1,2"), ("1.0,2.0,3.0,4.0", "1.0,2.0")])
def test_ids_that_were_written_with_a_point(tmp_path: Path, nodes: str, edges: str) -> None:
    rows = "".join(f"{node},{'ab'[row % 2]}\n" for row, node in enumerate(nodes.split(",")))
    found = read(tmp_path, f"id,label\n{rows}", f"source,target\n{edges}\n").graph
    assert found.node_names == ("1", "2", "3", "4")
    assert found.edge_index.tolist() == [[0], [1]]


def test_ids_of_which_some_have_a_point_stay_as_they_are(tmp_path: Path) -> None:
    nodes = "id,label\n1.0,a\n1.1,b\n2.0,a\n"
    assert read(tmp_path, nodes, "source,target\n1.1,2.0\n").graph.node_names == ("1.0", "1.1", "2.0")


@each_of(("nodes", "edges", "options"), ALIKE.values(), ids=ALIKE)
def test_tables_that_are_alike(tmp_path: Path, nodes: str | bytes, edges: str | bytes, options: dict[str, Any]) -> None:
    (tmp_path / "plain").mkdir()
    plain = read(tmp_path / "plain", PLAIN, EDGES).graph
    found = read(tmp_path, nodes, edges, **options).graph
    assert found.node_names == plain.node_names
    assert found.y.tolist() == plain.y.tolist()
    np.testing.assert_allclose(dense(found.x), dense(plain.x), rtol=1e-6)
    assert (found.undirected_adjacency != plain.undirected_adjacency).nnz == 0


REFUSED: dict[str, tuple[str | bytes, str, dict[str, Any], str]] = {
    "one word among dates": (
        table(lambda i: "soon" if i == 7 else f"{i % 28 + 1}.{i % 12 + 1}.2024"),
        *(EDGES, {}, r"nodes\.csv, line 9, column 'c' is 'soon', not a date"),
    ),
    "infinity in words": (
        table(lambda i: "inf" if i == 5 else i),
        *(EDGES, {}, r"nodes\.csv, line 7, column 'c' is inf: no finite number"),
    ),
    "a table of words for numbers": (
        table(["low", "high"]),
        *(EDGES, {"kind": {"c": "number"}}, r"nodes\.csv, line 2, column 'c' is 'low', not a number"),
    ),
    "words for dates": (
        table(["low", "high"]),
        *(EDGES, {"kind": {"c": "date"}}, r"nodes\.csv, line 2, column 'c' is 'low', not a date"),
    ),
    "times that are words": (
        table(["soon", "later"]),
        *(EDGES, {"time": "c"}, r"nodes\.csv, line 2, column 'c' is 'soon', not a date"),
    ),
    "one time": (table(["2024-01-01"]), EDGES, {"time": "c"}, r"column 'c' has one time, 2024-01-01"),
    "one group": (table(["home"]), EDGES, {"group": "c"}, r"nodes\.csv, column 'c'"),
    "weights of words": (PLAIN, "source,target,w\nn0,n1,big\n", {"weight": "w"}, r"edges\.csv, line 2, column 'w'"),
    "one type of edges": (PLAIN, "source,target,t\nn0,n1,x\n", {"edge_type": "t"}, r"all edges have the type 'x'"),
    "types that are amounts": (
        table(["1", "2"]),
        "source,target,t\n" + "".join(f"n{i},n{i + 1},{i * 1.5}\n" for i in range(50)),
        {"edge_type": "t"},
        r"edges\.csv: the column 't' holds 50 different numbers, which are no types",
    ),
    "labels that are amounts": (
        table(lambda i: german(1000.5 + i)),
        *(EDGES, {"label": "c"}, r"nodes\.csv, column 'c' holds 60 different numbers with fractions"),
    ),
    "a web page": ("<!DOCTYPE html>\n<html><body>Log in</body></html>\n", EDGES, {}, r"nodes\.csv"),
    "a message of a version system": (
        "version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 12\n",
        *(EDGES, {}, r"nodes\.csv has no column 'label'"),
    ),
}


@each_of(("nodes", "edges", "options", "what"), REFUSED.values(), ids=REFUSED)
def test_tables_that_are_refused(
    tmp_path: Path, nodes: str | bytes, edges: str, options: dict[str, Any], what: str
) -> None:
    with pytest.raises(DataError) as caught:
        read(tmp_path, nodes, edges, **options)
    assert re.search(what, caught.value.what), caught.value.what
    assert caught.value.how


DAY = datetime(2024, 1, 1)
# Columns of Parquet files, with kind, features and missing values.
TYPED: dict[str, tuple[pl.Series, str, int, int]] = {
    "decimals": (pl.Series(["1.50", "2.25"] * 30).cast(pl.Decimal(10, 2)), "number", 1, 0),
    "durations": (pl.Series([timedelta(minutes=i) for i in range(N)]), "number", 1, 0),
    "times of day": (pl.Series([time(i % 24, i) for i in range(N)]), "number", 1, 0),
    "times with a zone": (
        pl.Series([DAY + timedelta(hours=7 * i) for i in range(N)]).dt.replace_time_zone("Europe/Berlin"),
        *("date", 44, 0),
    ),
    "days with gaps": (pl.Series([None if i % 6 == 0 else date(2024, 1, i % 28 + 1) for i in range(N)]), "date", 9, 10),
    "categories": (pl.Series(["a", "b"] * 30, dtype=pl.Categorical), "category", 3, 0),
    "enumerations": (pl.Series(["a", "b"] * 30, dtype=pl.Enum(["a", "b", "c"])), "category", 3, 0),
    "lists of words": (pl.Series([["x", "y"], ["y"], None] * 20), "list", 4, 20),
    "lists of numbers": (pl.Series([[1.0, 2.0], [3.0, 5.0]] * 30), "numbers", 2, 0),
    "records": (pl.Series([{"a": 1}, {"a": 2}] * 30), "–", 0, 0),
    "bytes": (pl.Series([b"a", b"b"] * 30), "–", 0, 0),
    "small whole numbers": (pl.Series([1, 200, None] * 20, dtype=pl.UInt8), "number", 2, 20),
    "only nulls": (pl.Series([None] * N), "–", 0, N),
}


@each_of(("values", "kind", "slots", "missing"), TYPED.values(), ids=TYPED)
def test_types_of_parquet_files(tmp_path: Path, values: pl.Series, kind: str, slots: int, missing: int) -> None:
    frame = pl.DataFrame({"id": range(100, 100 + N), "label": ["a", "b"] * 30, "c": values})
    (tmp_path / "nodes.parquet").write_bytes(parquet_bytes(frame))
    found = read_graph(tmp_path / "nodes.parquet", label="label")
    (row,) = (row for row in found.columns if row["column"] == "c")
    assert (row["kind"], row["slots"], row["missing"]) == (kind, slots, missing)
    assert np.isfinite(dense(found.graph.x)).all()


def test_columns_of_edges_that_are_not_used_are_named_with_the_flags(tmp_path: Path) -> None:
    edges = "source,target,euros,purpose\nn0,n1,1,x\nn1,n2,2,y\n"
    said = [note for note in read(tmp_path, PLAIN, edges).notes if "not used" in note]
    assert len(said) == 1
    assert all(words in said[0] for words in ("'euros', 'purpose'", "--weight-column", "--edge-type-column"))
    (note,) = (note for note in read(tmp_path, PLAIN, edges, weight="euros").notes if "not used" in note)
    assert "--weight-column" not in note
    assert "'euros'" not in note
