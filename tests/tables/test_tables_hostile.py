"""Hostile files: one clear sentence with file, line and column, one on how to mend it, and nothing but DataError."""

from __future__ import annotations

import gzip
import io
import os
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from table_samples import read, write

from each_of import each_of
from hostile_tables import BAD_EDGES, BAD_JSON, BAD_NODES, IS_CUT_OFF, NODES, cut_off, encoded, parquet_bytes
from nlgnn.errors import DataError, NlgnnError
from nlgnn.tables import read_graph, read_table, table_files


def check(error: NlgnnError, what: str) -> None:
    assert re.search(what, error.what), error.what
    assert "\n" not in error.what
    assert error.what.endswith(".")
    assert error.how


PACKED = ("only a header", "a short row after a cell of two lines", "open quote", "stray quote", "latin-1", "blank id")


@each_of(("name", "packed"), [*((name, False) for name in BAD_NODES), *((name, True) for name in PACKED)])
def test_nodes(tmp_path: Path, name: str, packed: bool) -> None:
    content, what = encoded(BAD_NODES[name][0]), BAD_NODES[name][1]
    path = tmp_path / ("nodes.csv.gz" if packed else "nodes.csv")
    path.write_bytes(gzip.compress(content) if packed and content else content)
    split = "fold" if b"fold" in content else None
    with pytest.raises(DataError) as caught:
        read_graph(path, label="label", split=split)
    check(caught.value, f"^{re.escape(str(path))}{what}")
    assert list(tmp_path.iterdir()) == [path]


@each_of(("content", "options", "what"), BAD_EDGES.values(), ids=BAD_EDGES)
def test_edges(tmp_path: Path, content: str, options: dict[str, str], what: str) -> None:
    with pytest.raises(DataError) as caught:
        read(tmp_path, NODES, content, **options)
    check(caught.value, f"^{re.escape(str(tmp_path / 'edges.csv'))}{what}")


@each_of(("content", "what"), BAD_JSON.values(), ids=BAD_JSON)
def test_json_lines(tmp_path: Path, content: str | bytes, what: str) -> None:
    path = write(tmp_path, {"nodes.jsonl": content}) / "nodes.jsonl"
    with pytest.raises(DataError) as caught:
        read_table(path)
    check(caught.value, f"^{re.escape(str(path))}{what}")


@pytest.mark.parametrize("share", [0, 1, 5, 9])
def test_truncated_files(tmp_path: Path, share: int) -> None:
    for name, content in cut_off(share).items():
        path = write(tmp_path, {name: content}) / name
        with pytest.raises(DataError) as caught:
            read_graph(path, label="label")
        check(caught.value, f"^{re.escape(str(path))}{IS_CUT_OFF}")


def test_a_damaged_gzip_file(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(NODES.encode()))
    packed[-6] ^= 1  # the checksum
    path = write(tmp_path, {"nodes.csv.gz": bytes(packed)}) / "nodes.csv.gz"
    with pytest.raises(DataError, match=r"is damaged or was cut off \(CRC check failed"):
        read_table(path)


def test_a_damaged_column_of_a_parquet_file(tmp_path: Path) -> None:
    whole = bytearray(parquet_bytes(pl.DataFrame({"id": np.random.default_rng(0).integers(10**9, size=1000)})))
    whole[40:60] = bytes(20)
    path = write(tmp_path, {"n.parquet": bytes(whole)}) / "n.parquet"
    with pytest.raises(DataError, match=r"n\.parquet, column 'id' cannot be read as Parquet"):
        read_graph(path)


def test_text_of_a_parquet_file_that_is_none(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    import pyarrow
    from pyarrow import parquet

    text = pyarrow.array([b"a", b"\xff\xfe"]).view(pyarrow.string())
    parquet.write_table(pyarrow.table({"id": text}), tmp_path / "n.parquet")
    with pytest.raises(DataError, match=r"n\.parquet, column 'id' cannot be read as Parquet .*Invalid UTF8"):
        read_graph(tmp_path / "n.parquet")
    assert capfd.readouterr().err == ""  # where polars panics, it says so at length


def test_a_decompression_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_files, "NEVER_TOO_LARGE", 1 << 20)
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"id,label\n" + b"0" * (8 << 20)))
    reads = 0

    def counted_write(self: io.BytesIO, chunk: bytes) -> int:
        nonlocal reads
        reads += 1
        return io.BytesIO.write(self, chunk)

    monkeypatch.setattr(table_files, "BytesIO", type("Counting", (io.BytesIO,), {"write": counted_write}))
    with pytest.raises(DataError) as caught:
        read_table(path)
    check(caught.value, r"bomb\.csv\.gz unpacks to more than 0\.0 GB, which is more than 200 times its own size\.")
    assert reads == 2  # it was left off at the second chunk of eight


def test_more_than_half_of_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_files, "memory_bytes", lambda: 100)
    path = write(tmp_path, {"n.csv.gz": gzip.compress(NODES.encode())}) / "n.csv.gz"
    with pytest.raises(DataError, match="more than half of this machine's memory"):
        read_table(path)


class TestPaths:
    def test_missing(self, tmp_path: Path) -> None:
        write(tmp_path, {"pages.csv": NODES})
        with pytest.raises(DataError, match=r"(?s)page\.csv does not exist\.\nDid you mean 'pages\.csv'"):
            read_table(tmp_path / "page.csv")
        with pytest.raises(DataError, match=r"(?s)nowhere/x\.csv does not exist\.\nCheck the name"):
            read_table(tmp_path / "nowhere" / "x.csv")

    def test_a_folder(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match=r"is a folder\."):
            read_table(tmp_path)

    def test_below_a_file(self, tmp_path: Path) -> None:
        write(tmp_path, {"pages.csv": NODES})
        with pytest.raises(DataError, match=r"cannot be read: Not a directory"):
            read_table(tmp_path / "pages.csv" / "x")

    def test_a_symlink_loop(self, tmp_path: Path) -> None:
        (tmp_path / "a.csv").symlink_to(tmp_path / "b.csv")
        (tmp_path / "b.csv").symlink_to(tmp_path / "a.csv")
        with pytest.raises(DataError, match=r"a\.csv cannot be read: Too many levels of symbolic links\."):
            read_table(tmp_path / "a.csv")

    def test_a_pipe_is_not_waited_for(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe.csv")
        with pytest.raises(DataError, match=r"pipe\.csv is not a regular file\."):
            read_table(tmp_path / "pipe.csv")

    def test_a_name_with_a_zero_byte(self) -> None:
        with pytest.raises(DataError, match="cannot be read: embedded null byte"):
            read_table("a\0.csv")

    def test_no_permission(self, tmp_path: Path) -> None:
        path = write(tmp_path, {"closed.csv": NODES}) / "closed.csv"
        path.chmod(0)
        user = os.geteuid()
        if user == 0:  # an administrator may read anything
            os.seteuid(65534)
        try:
            with pytest.raises(DataError, match=r"closed\.csv cannot be read: Permission denied\."):
                read_table(path)
        finally:
            os.seteuid(user)

    def test_a_name_like_a_pattern(self, tmp_path: Path) -> None:
        write(tmp_path, {"n*.csv": NODES, "nodes.csv": "id\nz\n", "n[o].csv": NODES})
        assert read_table(tmp_path / "n*.csv").num_rows == 5
        assert read_table(tmp_path / "n[o].csv").num_rows == 5
