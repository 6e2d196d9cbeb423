"""Hostile tables: what stands in the file, and what is said of it behind its path. For readers and for commands."""

from __future__ import annotations

import gzip
import io

import polars as pl

NODES = "id,label,size,colour\na,cat,1,red\nb,dog,2,blue\nc,cat,3,red\nd,dog,4,blue\ne,,5,\n"
EDGES = "source,target\na,b\nb,c\nd,a\n"


def parquet_bytes(frame: pl.DataFrame) -> bytes:
    file = io.BytesIO()
    frame.write_parquet(file)
    return file.getvalue()


def encoded(content: str | bytes) -> bytes:
    return content if isinstance(content, bytes) else content.encode()


ROWS = "id,label,size\n" + "".join(f"n{i},{'ab'[i % 2]},{i}.5\n" for i in range(40))
WITHOUT_HEADER = "1,2\n2,3\n"
LATIN = "id,label\na,caf\xe9\nb,x\n".encode("latin-1")

BAD_NODES: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", r" is empty\."),
    "blank lines": ("\n\n \n", r" has only blank lines\."),
    "only a header": ("id,label\n", r" has 0 rows and 2 columns\."),
    "only a header, no line end": ("id,label", r" has 0 rows and 2 columns\."),
    "header and blank lines": ("id,label\n\n\n", r" has 0 rows and 2 columns\."),
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
    "two names": ("id,label,id\na,x,1\n", r", line 1 has two columns 'id'\."),
    "two names but for blanks": ("id,label, id\na,x,1\n", r", line 1 has two columns 'id'"),
    "latin-1": (LATIN, r", line 2, column 2, is not UTF-8 text\."),
    "latin-1 in the header": ("id,caf\xe9\na,x\n".encode("latin-1"), r", line 1 is not UTF-8 text\."),
    "latin-1 after 10,000 rows": (
        b"id,label\n" + b"".join(b"%d,x\n" % i for i in range(10_000)) + b"n,\xe9\n",
        r", line 10002, column 2, is not UTF-8",
    ),
    "UTF-16": ("id,label\na,x\n".encode("utf-16"), r" is UTF-16 text, not a table\."),
    "binary": (b"id\x00\x01\x02\nx", r", line 1 contains a zero byte: this is not a text file\."),
    "binary, later": (b"id,label\na,x\n\x00\x01", r", line 3 contains a zero byte"),
    "workbook": (b"PK\x03\x04\x14\x00", r" is a zip archive or an Excel workbook, not a table\."),
    "PDF": (b"%PDF-1.7\n", r" is a PDF, not a table\."),
    "wrong delimiter": ("id:label\na:x\nb:y\n", r" has no column 'label' for the labels\."),
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
        r", line 3, column 'fold' is 'tset', not train, val or test",
    ),
    "no validation": ("id,label,fold\na,x,train\nb,y,test\n", r", column 'fold': no node with a label is in 'val'\."),
    "a part without labels": (
        "id,label,fold\na,x,train\nb,y,val\nc,x,val\nd,,test\n",
        r", column 'fold': no node with a label is in 'test'\.",
    ),
}


# Between nodes of the ids in NODES, and with which roles of columns.
BAD_EDGES: dict[str, tuple[str, dict[str, str], str]] = {
    "one column": ("source\na\n", {}, r" has too few columns for the two ends of an edge: 'source'\."),
    "spaces": ("source target\na b\n", {}, r" has too few columns .*: 'source target'\."),
    "no such source": (EDGES, {"source": "sourc"}, r" has no column 'sourc' for the sources\."),
    "no such target": (EDGES, {"target": "x"}, r" has no column 'x' for the targets\."),
    "no such weight": (EDGES, {"weight": "x"}, r" has no column 'x' for the weights\."),
    "blank source": (EDGES + ",a\n", {}, r", line 5, column 'source' is blank \(1 such row\)\."),
    "blank target": (EDGES + "a, \n", {}, r", line 5, column 'target' is blank"),
    "unknown": (EDGES + "a,z\n", {}, r", line 5 names an id that .*nodes\.csv \('id'\) lacks \(1 such edge: 'z'\)\."),
    "unknown, many": (
        EDGES + "".join(f"a,z{i}\nz{i},a\n" for i in range(7)),
        {},
        r", line 5 names an id that .*nodes\.csv \('id'\) lacks \(14 such edges: 'z0', .*, 'z4' and 2 more\)\.",
    ),
    "case of ids": ("source,target\nA,b\n", {}, r", line 2 names an id that .* lacks \(1 such edge: 'A'\)\."),
    "no weight": ("source,target,weight\na,b,1\nb,c,\n", {}, r", line 3, column 'weight' is blank \(1 such row\)\."),
    "negative weight": ("source,target,w\na,b,1\nb,c,-1\n", {}, r", line 3, column 'w' is -1 \(1 such row\)\."),
    "infinite weight": ("source,target,w\na,b,1\nb,c,inf\n", {}, r", line 3, column 'w' is inf: no finite"),
    "word for a weight": ("source,target,w\na,b,1\nb,c,much\n", {}, r", line 3, column 'w' is 'much', not a number"),
    "no header": ("1\t2\n2\t3\n", {}, r", line 1 holds only numbers \(1, 2\): there is no header\."),
}


BAD_JSON: dict[str, tuple[str | bytes, str]] = {
    "no JSON": ('{"id": 1}\nid,2\n', r", line 2 is not JSON"),
    "cut off": ('{"id": 1}\n{"id": \n', r", line 2 is not JSON"),
    "a list": ('{"id": 1}\n[1]\n', r", line 2 is a list, not an object\."),
    "an array of objects": ('[{"id": 1}, {"id": 2}]\n', r", line 1 is a list, not an object\."),
    "NaN": ('{"id": 1}\n\n{"id": NaN}\n', r", line 3 is not JSON \(NaN is not a JSON value: write null\)\."),
    "mixed types": (
        '{"a": 1}\n{"a": true}\n',
        r", line 2, column 'a' is true or false, but in line 1 it is a number\.",
    ),
    "mixed shapes": ('{"a": 1}\n{"a": [2]}\n', r", line 2, column 'a' is a list, but in line 1 it is a number\."),
    "latin-1": ('{"a": "é"}\n'.encode("latin-1"), r", line 1, byte 8 is not UTF-8 text\."),
    "too deep": ('{"a": ' + "[" * 100_000 + "\n", r", line 1 is not JSON \(too deeply nested\)\."),
    "no values": ("{}\n", r" has 1 rows and 0 columns\."),
    "blank": ("\n\n", r" cannot be read as JSON lines"),
}

FEW_ROWS = pl.DataFrame({"id": range(500), "label": ["x", "y"] * 250})


def cut_off(share: int) -> dict[str, bytes]:
    """Files of which so many tenths are there, and at least so much that they are known for what they were."""
    whole = {"n.parquet": parquet_bytes(FEW_ROWS), "n.csv.gz": gzip.compress(FEW_ROWS.write_csv().encode())}
    return {name: content[: max(4, len(content) * share // 10)] for name, content in whole.items()}


IS_CUT_OFF = r" (cannot be read as Parquet|is damaged or was cut off)"
