"""One table in every format, and what reading says about it."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from table_samples import NODES, write

from each_of import each_of
from nlgnn.errors import DataError, OptionError
from nlgnn.tables import read_graph, read_table

FRAME = pl.DataFrame({"id": ["a", "b", "c"], "size": [1.5, None, 3.0], "name": ["é, ü", 'the "b"', "two\nlines"]})


def parquet() -> bytes:
    file = io.BytesIO()
    FRAME.write_parquet(file)
    return file.getvalue()


CSV = FRAME.write_csv().encode()
FORMATS = {
    "n.csv": CSV,
    "n.CSV": CSV,
    "bom.csv": b"\xef\xbb\xbf" + CSV,
    "windows.csv": FRAME.write_csv(line_terminator="\r\n").encode(),
    "n.csv.gz": gzip.compress(CSV),
    "two-members.csv.gz": gzip.compress(CSV[:10]) + gzip.compress(CSV[10:]),
    "packed-without-saying.csv": gzip.compress(CSV),
    "n.tsv": FRAME.write_csv(separator="\t").encode(),
    "n.tsv.gz": gzip.compress(FRAME.write_csv(separator="\t").encode()),
    "semicolons.csv": FRAME.write_csv(separator=";").encode(),
    "tabs.csv": FRAME.write_csv(separator="\t").encode(),
    "commas.tsv": CSV,
    "n.txt": FRAME.write_csv(separator=";").encode(),
    "blank-lines.csv": b"\n" + CSV.replace(b"\nb,", b"\n\n \nb,") + b"\n\n",
    "all-quoted.csv": FRAME.write_csv(quote_style="always").encode(),
    "blanks-around-names.csv": CSV.replace(b"id,size,name", b' id ,size, "name" '),
    "n.parquet": parquet(),
    "n.pq": parquet(),
    "parquet-without-saying": parquet(),
    "n.jsonl": FRAME.write_ndjson().encode(),
    "n.ndjson": FRAME.write_ndjson().encode().replace(b"\n", b"\n\n"),
    "bom.jsonl": b"\xef\xbb\xbf" + FRAME.write_ndjson().encode(),
    "n.jsonl.gz": gzip.compress(FRAME.write_ndjson().encode()),
    "json-without-saying": FRAME.write_ndjson().encode(),
}


@each_of(("name", "content"), FORMATS.items(), ids=FORMATS)
def test_formats(tmp_path: Path, name: str, content: bytes) -> None:
    table = read_table(write(tmp_path, {name: content}) / name)
    assert table.columns == ("id", "size", "name")
    assert table.column("id").to_list() == ["a", "b", "c"]
    assert table.column("name").to_list() == FRAME["name"].to_list()
    assert [float(cell) if cell else None for cell in table.column("size")] == [1.5, None, 3.0]
    assert table.frame.shape == (3, 3)
    unusual = {
        "semicolons.csv": "is separated by semicolons.",
        "n.txt": "is separated by semicolons.",
        "tabs.csv": "is separated by tabs.",
        "commas.tsv": "is separated by commas.",
        "blank-lines.csv": ": blank lines were left out.",
    }
    assert [note.rpartition(name)[2].strip() for note in table.notes] == ([unusual[name]] if name in unusual else [])


@each_of(
    ("name", "place"),
    [
        ("n.csv", "line 3"),
        ("windows.csv", "line 3"),
        ("blank-lines.csv", "line 6"),
        ("n.parquet", "row 2"),
        ("n.ndjson", "line 3"),
        ("n.jsonl.gz", "line 2"),
    ],
)
def test_places(tmp_path: Path, name: str, place: str) -> None:
    path = write(tmp_path, {name: FORMATS[name]}) / name
    assert read_table(path).place(1, "size") == f"{path}, {place}, column 'size'"


@each_of(
    ("text", "columns"),
    [
        ("id;name, first;x\na;b;1\n", ("id", "name, first", "x")),  # two delimiters: one fits the first row too
        ("id,a;b;c,y\n1,2,3\n", ("id", "a;b;c", "y")),
        (",a,b\n1,2,3\n", ("column 1", "a", "b")),  # an index that has no name
        ("only\nx\n\ny\n", ("only",)),
        ('"a,b",c\n1,2\n', ("a,b", "c")),
        ('"a ""quoted"" name",c\n1,2\n', ('a "quoted" name', "c")),
        ('"two\nlines",c\n1,2\n', ("two\nlines", "c")),
    ],
)
def test_headers(tmp_path: Path, text: str, columns: tuple[str, ...]) -> None:
    assert read_table(write(tmp_path, {"n.csv": text}) / "n.csv").columns == columns


def test_cells_stay_as_they_are(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, {"n.csv": "a,b\n007,NA\n1e3,\n,true\n"}) / "n.csv")
    assert table.column("a").to_list() == ["007", "1e3", None]
    assert table.column("b").to_list() == ["NA", None, "true"]


def test_decimal_commas_beside_semicolons(tmp_path: Path) -> None:
    path = write(tmp_path, {"n.csv": "id;x;y;z\na;1,5;2;1,5\nb;-3;1;b\nc;;0,25;c\n"}) / "n.csv"
    table = read_table(path)
    assert table.column("x").to_list() == ["1.5", "-3", None]
    assert table.column("y").to_list() == ["2", "1", "0.25"]
    assert table.column("z").to_list() == ["1,5", "b", "c"]
    assert table.notes[-1].endswith("decimal commas were read as points in 'x', 'y'.")


class TestFrames:
    def test_polars(self) -> None:
        table = read_table(FRAME, "the table of nodes")
        assert table.frame.equals(FRAME)
        assert table.place(0) == "the table of nodes, row 1"

    def test_pandas(self) -> None:
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame({"size": [1.5, None, 3.0], 7: ["x", None, "y"]}, index=["a", "b", "c"])
        table = read_table(frame)
        assert table.frame.to_dict(as_series=False) == {
            "index": ["a", "b", "c"],
            "size": [1.5, None, 3.0],
            "7": ["x", None, "y"],
        }
        assert read_table(frame.reset_index(drop=True)).columns == ("size", "7")
        filtered = pandas.DataFrame({"from": [1, 2, 3], "to": [4, 5, 6]}).iloc[[2, 0]]
        assert read_table(filtered).frame.to_dict(as_series=False) == {"from": [3, 1], "to": [6, 4]}
        assert read_table(filtered.rename_axis("number")).columns == ("number", "from", "to")
        with pytest.raises(DataError, match="the table has two columns 'a'"):
            read_table(pandas.DataFrame([[1, 2]], columns=["a", "a"]))
        with pytest.raises(DataError, match="the table cannot be read"):
            read_table(pandas.DataFrame({"a": [1, "x", object()]}))

    @pytest.mark.parametrize("frame", [pl.DataFrame(), pl.DataFrame({"a": []})])
    def test_empty(self, frame: pl.DataFrame) -> None:
        with pytest.raises(DataError, match="the table has 0 rows"):
            read_table(frame)

    def test_something_else(self) -> None:
        with pytest.raises(OptionError, match="the table of nodes is a list"):
            read_graph([1, 2])


def test_tables_do_not_wait_for_torch(tmp_path: Path) -> None:
    write(tmp_path, {"nodes.csv": NODES})
    code = (
        f"import sys; from nlgnn.tables import read_graph; read_graph({str(tmp_path / 'nodes.csv')!r}, label='label')"
    )
    subprocess.run([sys.executable, "-c", f"{code}; sys.exit('torch' in sys.modules)"], check=True)
