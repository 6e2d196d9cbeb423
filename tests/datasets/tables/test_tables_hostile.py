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
from table_samples import EDGES, NODES, read, write

from nlgnn.datasets.tables import files, read_graph, read_table
from nlgnn.errors import DataError, NlgnnError


def check(error: NlgnnError, what: str) -> None:
    assert re.search(what, error.what), error.what
    assert "\n" not in error.what
    assert error.what.endswith(".")
    assert error.how


ROWS = "id,label,size\n" + "".join(f"n{i},{'ab'[i % 2]},{i}.5\n" for i in range(40))
WITHOUT_HEADER = "1,2\n2,3\n"
LATIN = "id,label\na,caf\xe9\nb,x\n".encode("latin-1")

# What stands in nodes.csv, and what is said of it. In front of each: tmp_path/nodes.csv.
BAD_NODES = {
    "empty": ("", r" is empty\."),
    "blank lines": ("\n\n \n", r" has only blank lines\."),
    "only a header": ("id,label\n", r" has a header but no rows\."),
    "only a header, no line end": ("id,label", r" has a header but no rows\."),
    "header and blank lines": ("id,label\n\n\n", r" has a header but no rows\."),
    "no header": (WITHOUT_HEADER, r", line 1 holds only numbers \(1, 2\): there is no header\."),
    "no header, broken numbers": ("1.5,-2e3,.5,7\n1,2,3,4\n", r", line 1 holds only numbers \(1.5, -2e3, .5, …\)"),
    "a short row": ("id,label\na,x\nb\n", r", line 3 has 1 cell instead of 2\."),
    "a long row": ("id,label\na,x\nb,y,z\n", r", line 3 has 3 cells instead of 2\."),
    "a short row after blank lines": ("\nid,label\n\na,x\n\nb\n", r", line 6 has 1 cell instead of 2\."),
    "a short row after a cell of two lines": ('id,label\n"a\nb",x\nc\n', r", line 4 has 1 cell instead of 2\."),
    "a comment": ("# my nodes\nid,label\na,x\n", r", line 2 has 2 cells instead of 1\."),
    "open quote": ('id,label\na,"x\nb,y\n', r", line 2 opens a quote that is never closed\."),
    "open quote in the header": ('id,"label\na,x\nb,y\n', r", line 3 opens a quote that is never closed\."),
    "lines of old Macs": ("id,label\ra,x\rb,y\r", r", line 1 is the only one: lines end in CR alone\."),
    "stray quote": ('id,label\n"a"b,x\n', r", line 2 has a quote inside a cell\."),
    "two names": ("id,label,id\na,x,1\n", r", line 1 has two columns 'id', numbers 1 and 3\."),
    "two names but for blanks": ("id,label, id\na,x,1\n", r", line 1 has two columns 'id'"),
    "latin-1": (LATIN, r", line 2, column 2, is not UTF-8 text\."),
    "latin-1 in the header": ("id,caf\xe9\na,x\n".encode("latin-1"), r", line 1 is not UTF-8 text\."),
    "latin-1 after 10,000 rows": (
        b"id,label\n" + b"".join(b"%d,x\n" % i for i in range(10_000)) + b"n,\xe9\n",
        r", line 10002, column 2, is not UTF-8",
    ),
    "UTF-16": ("id,label\na,x\n".encode("utf-16"), r", line 1 is UTF-16 text"),
    "binary": (b"id\x00\x01\x02\nx", r", line 1 holds a zero byte: this is no text\."),
    "binary, later": (b"id,label\na,x\n\x00\x01", r", line 3 holds a zero byte"),
    "workbook": (b"PK\x03\x04\x14\x00", r" is a zip archive or an Excel workbook, not a table\."),
    "PDF": (b"%PDF-1.7\n", r" is a PDF, not a table\."),
    "wrong delimiter": ("id|label\na|x\nb|y\n", r" has no column 'label' for the labels\."),
    "no such label": ("id,lable\na,x\nb,y\n", r" has no column 'label' for the labels\."),
    "duplicate ids": ("id,label\na,x\nb,y\na,x\n", r", line 4, column 'id' is 'a', which line 2 has already \(1 such"),
    "duplicate ids but for blanks": ("id,label\na,x\nb,y\n a ,x\n", r", line 4, column 'id' is 'a', which line 2 has"),
    "blank id": ("id,label\na,x\n,y\n", r", line 3, column 'id' is blank \(1 such row\)\."),
    "one class": ("id,label\na,x\nb,x\nc,\n", r", column 'label': all labels are 'x'\."),
    "one class but for blanks": ("id,label\na,x\nb, x\n", r", column 'label': all labels are 'x'\."),
    "no labels": ("id,label\na,\nb, \nc,NaN\nd,NULL\n", r", column 'label': no row has a label\."),
    "labels all different": ("id,label\na,x\nb,y\nc,z\n", r", column 'label': every label is different\."),
    "labels are measurements": (
        ROWS.replace("label,size", "s,label"),
        r", column 'label' holds 40 different numbers with fractions, such as 0\.5: these are no classes\.",
    ),
    "infinite": (ROWS.replace(",7.5", ",inf"), r", line 9, column 'size' is inf: no finite number .*\(1 such cell\)"),
    "minus infinity": (ROWS.replace(",7.5", ",-Infinity"), r", line 9, column 'size' is -inf"),
    "too large": (ROWS.replace(",7.5", ",1e39"), r", line 9, column 'size' is 1e\+39: no finite number of single"),
    "mixed types": (
        ROWS.replace(",7.5", ",seven"),
        r", line 9, column 'size' is 'seven', not a number \(1 such cell\)",
    ),
    "unknown part": (
        "id,label,fold\na,x,train\nb,y,tset\n",
        r", line 3, column 'fold' is 'tset', not train, val or test\.",
    ),
    "no validation": ("id,label,fold\na,x,train\nb,y,test\n", r", column 'fold': no node with a label is in 'val'\."),
    "a part without labels": (
        "id,label,fold\na,x,train\nb,y,val\nc,x,val\nd,,test\n",
        r", column 'fold': no node with a label is in 'test'\.",
    ),
}


@pytest.mark.parametrize(("content", "what"), BAD_NODES.values(), ids=BAD_NODES)
@pytest.mark.parametrize("packed", [False, True], ids=["", "gz"])
def test_nodes(tmp_path: Path, content: str | bytes, what: str, packed: bool) -> None:
    content = content if isinstance(content, bytes) else content.encode()
    path = tmp_path / ("nodes.csv.gz" if packed else "nodes.csv")
    path.write_bytes(gzip.compress(content) if packed and content else content)
    split = "fold" if b"fold" in content else None
    with pytest.raises(DataError) as caught:
        read_graph(path, label="label", split=split)
    check(caught.value, f"^{re.escape(str(path))}{what}")
    assert list(tmp_path.iterdir()) == [path]


BAD_EDGES = {
    "one column": ("source\na\n", {}, r" has one column only, 'source'\."),
    "spaces": ("source target\na b\n", {}, r" has one column only, 'source target'\."),
    "no such source": (EDGES, {"source": "sourc"}, r" has no column 'sourc' for the sources\."),
    "no such target": (EDGES, {"target": "x"}, r" has no column 'x' for the targets\."),
    "no such weight": (EDGES, {"weight": "x"}, r" has no column 'x' for the weights\."),
    "blank source": (EDGES + ",a\n", {}, r", line 5, column 'source' is blank \(1 such row\)\."),
    "blank target": (EDGES + "a, \n", {}, r", line 5, column 'target' is blank"),
    "unknown": (EDGES + "a,z\n", {}, r", line 5: an id that .*nodes\.csv \('id'\) lacks; 1 edge names 1 such: 'z'\."),
    "unknown, many": (
        EDGES + "".join(f"a,z{i}\nz{i},a\n" for i in range(7)),
        {},
        r", line 5: an id that .*nodes\.csv \('id'\) lacks; 14 edges name 7 such: 'z0', 'z1', 'z2', 'z3', 'z4', …\.",
    ),
    "case of ids": ("source,target\nA,b\n", {}, r", line 2: an id that .* lacks; 1 edge names 1 such: 'A'\."),
    "no weight": ("source,target,weight\na,b,1\nb,c,\n", {}, r", line 3, column 'weight' is blank \(1 such row\)\."),
    "negative weight": ("source,target,w\na,b,1\nb,c,-1\n", {}, r", line 3, column 'w' is -1 \(1 such row\)\."),
    "infinite weight": ("source,target,w\na,b,1\nb,c,inf\n", {}, r", line 3, column 'w' is inf: no finite"),
    "word for a weight": ("source,target,w\na,b,1\nb,c,much\n", {}, r", line 3, column 'w' is 'much', not a number"),
    "no header": ("1\t2\n2\t3\n", {}, r", line 1 holds only numbers \(1, 2\): there is no header\."),
}


@pytest.mark.parametrize(("content", "options", "what"), BAD_EDGES.values(), ids=BAD_EDGES)
def test_edges(tmp_path: Path, content: str, options: dict[str, str], what: str) -> None:
    with pytest.raises(DataError) as caught:
        read(tmp_path, NODES, content, **options)
    check(caught.value, f"^{re.escape(str(tmp_path / 'edges.csv'))}{what}")


BAD_JSON = {
    "no JSON": ('{"id": 1}\nid,2\n', r", line 2 is not JSON"),
    "cut off": ('{"id": 1}\n{"id": \n', r", line 2 is not JSON"),
    "a list": ('{"id": 1}\n[1]\n', r", line 2 is a list, not an object\."),
    "an array of objects": ('[{"id": 1}, {"id": 2}]\n', r", line 1 is a list, not an object\."),
    "NaN": ('{"id": 1}\n\n{"id": NaN}\n', r", line 3 is not JSON \(NaN is no JSON value: write null\)\."),
    "mixed types": (
        '{"a": 1}\n{"a": true}\n',
        r", line 2, column 'a' is true or false, but in line 1 it is a number\.",
    ),
    "mixed shapes": ('{"a": 1}\n{"a": [2]}\n', r", line 2, column 'a' is a list, but in line 1 it is a number\."),
    "latin-1": ('{"a": "é"}\n'.encode("latin-1"), r", line 1, byte 8 is not UTF-8 text\."),
    "too deep": ('{"a": ' + "[" * 100_000 + "\n", r", line 1 is not JSON \(too deeply nested\)\."),
    "no values": ("{}\n", r" has no values\."),
    "blank": ("\n\n", r" cannot be read as JSON lines"),
}


@pytest.mark.parametrize(("content", "what"), BAD_JSON.values(), ids=BAD_JSON)
def test_json_lines(tmp_path: Path, content: str | bytes, what: str) -> None:
    path = write(tmp_path, {"nodes.jsonl": content}) / "nodes.jsonl"
    with pytest.raises(DataError) as caught:
        read_table(path)
    check(caught.value, f"^{re.escape(str(path))}{what}")


def parquet_bytes(frame: pl.DataFrame) -> bytes:
    file = io.BytesIO()
    frame.write_parquet(file)
    return file.getvalue()


@pytest.mark.parametrize("share", [0, 1, 5, 9])
def test_truncated_files(tmp_path: Path, share: int) -> None:
    frame = pl.DataFrame({"id": range(500), "label": ["x", "y"] * 250})
    for name, whole in {
        "n.parquet": parquet_bytes(frame),
        "n.csv.gz": gzip.compress(frame.write_csv().encode()),
    }.items():
        cut = max(4, len(whole) * share // 10)  # so much that it is still known for what it was
        path = write(tmp_path, {name: whole[:cut]}) / name
        with pytest.raises(DataError) as caught:
            read_graph(path, label="label")
        check(caught.value, f"^{re.escape(str(path))} (cannot be read as Parquet|is damaged or was cut off)")


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
    monkeypatch.setattr(files, "NEVER_TOO_LARGE", 1 << 20)
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"id,label\n" + b"0" * (8 << 20)))
    reads = 0

    def counted_write(self: io.BytesIO, chunk: bytes) -> int:
        nonlocal reads
        reads += 1
        return io.BytesIO.write(self, chunk)

    monkeypatch.setattr(files, "BytesIO", type("Counting", (io.BytesIO,), {"write": counted_write}))
    with pytest.raises(DataError) as caught:
        read_table(path)
    check(caught.value, r"bomb\.csv\.gz unpacks to more than 0\.0 GB, which is more than 200 times its own size\.")
    assert reads == 2  # it was left off at the second chunk of eight


def test_more_than_half_of_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "memory_bytes", lambda: 100)
    path = write(tmp_path, {"n.csv.gz": gzip.compress(NODES.encode())}) / "n.csv.gz"
    with pytest.raises(DataError, match="more than half of this machine's memory"):
        read_table(path)


def test_a_parquet_file_of_too_many_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nlgnn.datasets.tables.parquet.memory_bytes", lambda: 10_000)
    path = write(tmp_path, {"n.parquet": parquet_bytes(pl.DataFrame({"id": [1] * 1000}))}) / "n.parquet"
    with pytest.raises(DataError, match=r"n\.parquet says that it has 1,000 rows"):
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
