"""LargeTable gives the cells, places and errors that the ordinary reader gives, for blocks of any size."""

from __future__ import annotations

import gzip
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from each_of import each_of
from nlgnn.errors import DataError
from nlgnn.tables import large_table, read_table
from nlgnn.tables.large_table import open_large_table

FILES = {
    "plain.csv": "id,v\n" + "".join(f"{i},{i * i}\n" for i in range(300)),
    "quoted.csv": 'id,text\n1,"a, b"\n2,"two\nlines, ""quoted"""\n3,\n4,""\n5, x \n' * 1,
    "quotes.csv": "id,text\n" + "".join(f'{i},"line {i}\n""x"" {"," * (i % 7)}"\n' for i in range(200)),
    "blank.csv": "\n\nid,v\n1,2\n\n\n2,3\n,\n3,\n" + "4,5\n\n" * 40,
    "crlf.csv": "id,v\r\n1,2\r\n2,\r\n" * 1 + "3,4\r\n" * 50,
    "end.csv": "id,v\n1,2\n3,4",
    "commas.csv": "id;a;b\n" + "".join(f"{i};{i},5;{'x' if i == 40 else '1,5'}\n" for i in range(90)),
    "tabs.txt": "id\tv\n" + "1\t2\n" * 60,
    "one.csv": "id\n" + "a\n\nb\n" * 30,
}


@pytest.mark.parametrize("block", [16, 70, 1 << 16])
@each_of("name", list(FILES))
def test_equal_to_the_ordinary_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, block: int) -> None:
    monkeypatch.setattr(large_table, "SMALLEST_BLOCK", block)
    path = tmp_path / name
    path.write_bytes(FILES[name].encode())
    wanted = read_table(path)
    large = open_large_table(path, tmp_path, memory=1)
    found = large.table
    assert (found.source, found.columns, found.num_rows, found.notes) == (
        wanted.source,
        wanted.columns,
        wanted.num_rows,
        wanted.notes,
    )
    assert_frame_equal(found.frame, wanted.frame)
    chunks = list(large.chunks(wanted.columns, 7))
    assert_frame_equal(pl.concat([chunk.frame for chunk in chunks]), wanted.frame)
    for row in range(0, wanted.num_rows, 13):
        assert found.place(row, "v") == wanted.place(row, "v")
    if len(chunks) > 1:
        assert chunks[1].place(2) == wanted.place(chunks[0].num_rows + 2)


@each_of(
    "text",
    [
        "id,v\n" + "1,2\n" * 30 + "1\n" + "1,2\n" * 30,
        "id,v\n" + "1,2\n" * 30 + "1,2,3\n" + "1,2\n" * 30,
        "id,v\n" + "1,2\n" * 30 + '1,"2\n' + "1,2\n" * 30,
        "id,v\n" + "1,2\n" * 30 + "1,\xff\n",
        "id,v\n",
        "",
        "1,2\n3,4\n",
    ],
)
def test_errors_are_those_of_the_ordinary_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(large_table, "SMALLEST_BLOCK", 32)
    path = tmp_path / "table.csv"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(DataError) as wanted:
        read_table(path)
    with pytest.raises(DataError) as found:
        open_large_table(path, tmp_path, memory=1)
    assert str(found.value) == str(wanted.value)


def test_parquet_and_json_lines_and_compressed_text(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {"id": range(100), "name": [f"n{i}" for i in range(100)], "v": [[1.0, float(i)] for i in range(100)]}
    )
    frame.write_parquet(tmp_path / "a.parquet", row_group_size=9)
    frame.write_ndjson(tmp_path / "a.jsonl")
    for name in ("a.parquet", "a.jsonl"):
        large = open_large_table(tmp_path / name, tmp_path, memory=1)
        assert_frame_equal(large.table.frame, frame)
        parts = [chunk.frame for chunk in large.chunks(["name", "v"], 20)]
        assert all(part.height >= 20 for part in parts[:-1])
        assert_frame_equal(pl.concat(parts), frame.select("name", "v"))
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(FILES["plain.csv"].encode()))
    large = open_large_table(tmp_path / "b.csv.gz", tmp_path, memory=1)
    assert large.table.num_rows == 300
    assert large.table.place(2) == f"{tmp_path / 'b.csv.gz'}, line 4"


def test_a_damaged_parquet_file_is_an_error_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pl.DataFrame({"id": [f"node {i * 7919}" for i in range(5000)]}).write_parquet(path, compression="uncompressed")
    content = bytearray(path.read_bytes())
    content[20:40] = b"\xff" * 20
    path.write_bytes(content)
    with pytest.raises(DataError, match="damaged"):
        list(open_large_table(path, tmp_path, memory=1).chunks(["id"], 10))
