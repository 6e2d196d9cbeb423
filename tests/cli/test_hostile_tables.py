"""Hostile tables given to `nlgnn train`: one sentence with file, line and column, exit code 2, and nothing written."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from cli_samples import Command, everything, refused
from each_of import each_of
from hostile_tables import BAD_EDGES, BAD_JSON, BAD_NODES, IS_CUT_OFF, NODES, cut_off, encoded, parquet_bytes

ENOUGH = "id,label,size\n" + "".join(f"n{i},{'ab'[i % 2]},{i % 5}\n" for i in range(40))
LINKS = "source,target\n" + "".join(f"n{i},n{(7 * i + 1) % 40}\n" for i in range(40))
QUICK = ("--model", "mlp", "--runs", 1, "--epochs", 1)


@pytest.fixture(autouse=True)
def _temporary_files_are_seen(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the folder of the command, where a test notices what is left of them."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def train(command: Command, given: dict[str, str | bytes], **flags: Any) -> Any:
    """`nlgnn train` on files that are called nodes.* and edges.*, with nothing written but what is asked for."""
    for name, content in given.items():
        Path(name).write_bytes(encoded(content))
    tables = [word for name in given for word in (f"--{name.partition('.')[0]}", name)]
    named = [word for flag, value in {"label": "label", **flags}.items() for word in (_flag(flag), value)]
    return command("train", *tables, *named, *QUICK)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def check_refused(command: Command, given: dict[str, str | bytes], what: str, **flags: Any) -> None:
    outcome = train(command, given, **flags)
    refused(outcome, what)
    assert sorted(everything()) == sorted(Path(name) for name in given)


def said_of(name: str, what: str) -> str:
    return f"^error: {re.escape(str(Path(name).absolute()))}{what}"


# The readers are tested with every such file in tests/tables.
SOME_NODES = ("empty", "a short row", "latin-1", "duplicate ids", "one class", "unknown part")
SOME_EDGES = ("no such source", "unknown, many", "negative weight")


@pytest.mark.parametrize("name", SOME_NODES)
def test_nodes(command: Command, name: str) -> None:
    content, what = BAD_NODES[name]
    flags = {"split_column": "fold"} if b"fold" in encoded(content) else {}
    check_refused(command, {"nodes.csv": content}, said_of("nodes.csv", what), **flags)


@pytest.mark.parametrize("name", SOME_EDGES)
def test_edges(command: Command, name: str) -> None:
    content, roles, what = BAD_EDGES[name]
    flags = {f"{role}_column": column for role, column in roles.items()}
    check_refused(command, {"nodes.csv": NODES, "edges.csv": content}, said_of("edges.csv", what), **flags)


def test_json_lines(command: Command) -> None:
    content, what = BAD_JSON["mixed types"]
    check_refused(command, {"nodes.jsonl": content}, said_of("nodes.jsonl", what))


@pytest.mark.parametrize("name", ["n.parquet", "n.csv.gz"])
def test_files_that_were_cut_off(command: Command, name: str) -> None:
    here = name.replace("n.", "nodes.")
    check_refused(command, {here: cut_off(5)[name]}, said_of(here, IS_CUT_OFF))


def test_a_parquet_file_of_too_many_rows(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeated values take next to no room: a file of a few kilobytes may say that it has any number of rows."""
    monkeypatch.setattr("nlgnn.limits.free_bytes", lambda: 1_000_000)
    bomb = parquet_bytes(pl.DataFrame({"id": [1] * 10_000}))
    what = said_of("nodes.parquet", r", which has 10,000 rows, would take about .* can be used")
    check_refused(command, {"nodes.parquet": bomb}, what)


NOT_A_TABLE = {
    "missing": ("nodse.csv", r"nodse\.csv does not exist\.$"),
    "a folder": (".", r" is a folder\.$"),
    "below a file": ("nodes.csv/x.csv", r"x\.csv cannot be read: Not a directory\.$"),
    "a symlink loop": ("loop.csv", r"loop\.csv cannot be read: Too many levels of symbolic links\.$"),
    "a pipe": ("pipe.csv", r"pipe\.csv is not a regular file\.$"),
    "a device that never ends": ("/dev/zero", r"/dev/zero is not a regular file\.$"),
    "a name that is too long": ("n" * 300, r"n cannot be read: File name too long\.$"),
    "outside, and missing": ("../../../nowhere/passwd", r"nowhere/passwd does not exist\.$"),
}


@pytest.mark.parametrize(("name", "what"), NOT_A_TABLE.values(), ids=NOT_A_TABLE)
def test_paths(command: Command, name: str, what: str) -> None:
    Path("nodes.csv").write_text(NODES)
    Path("loop.csv").symlink_to("loop.csv")
    os.mkfifo("pipe.csv")
    before = sorted(everything())
    refused(command("train", "--label", "label", "--nodes", name, *QUICK), what)
    refused(command("train", "--nodes", "nodes.csv", "--label", "label", "--edges", name, *QUICK), what)
    assert sorted(everything()) == before


FEW = "id,label\na,x\nb,x\nc,y\n"
BAD_WISHES = {
    "no column of labels": (ENOUGH, ["--label", "lable"], r"nodes\.csv has no column 'lable' for the labels"),
    "no labels at all": (ENOUGH, [], "No label column was given"),
    "no column of ids": (ENOUGH, ["--label", "label", "--id-column", "key"], r"no column 'key' for the ids"),
    "no column of splits": (ENOUGH, ["--label", "label", "--split-column", "fold"], r"no column 'fold' for the splits"),
    "one column, two roles": (ENOUGH, ["--label", "label", "--id-column", "label"], r"column 'label' .* two roles"),
    "an unknown rule": (ENOUGH, ["--label", "label", "--unknown-nodes", "ignore"], r"unknown_nodes='ignore'"),
    "a graph and tables": (
        ENOUGH,
        ["texas", "--label", "label"],
        "Both the graph 'texas' and tables are given",
    ),
    "no node to validate with": (FEW, ["--label", "label"], r"there are no validation nodes"),
    "no node to learn from": ("id,label\na,x\nb,y\n", ["--label", "label"], r"there are no training nodes"),
    "a folder that is a file": (
        ENOUGH,
        ["--label", "label", "--out", "nodes.csv"],
        r"nodes\.csv exists and is not a folder",
    ),
    "a folder below a file": (
        ENOUGH,
        ["--label", "label", "--out", "nodes.csv/X"],
        r"nodes\.csv/X cannot be made: Not a dir",
    ),
    "a device for a folder": (
        ENOUGH,
        ["--label", "label", "--out", "/dev/full"],
        r"/dev/full exists and is not a folder",
    ),
    "a folder on a device": (
        ENOUGH,
        ["--label", "label", "--out", "/dev/full/X"],
        r"/dev/full/X cannot be made: Not a directory",
    ),
    "folders for a folder whose name is too long": (
        ENOUGH,
        ["--label", "label", "--out", f"a/b/{'c' * 254}"],
        r"cannot be made: File name too long",
    ),
}


@each_of(("nodes", "wishes", "what"), BAD_WISHES.values(), ids=BAD_WISHES)
def test_wishes(command: Command, nodes: str, wishes: list[str], what: str) -> None:
    Path("nodes.csv").write_text(nodes)
    refused(command("train", *wishes, "--nodes", "nodes.csv", *QUICK), what, after_notes=True)
    assert list(everything()) == [Path("nodes.csv")]


def test_names_that_a_terminal_would_obey(command: Command) -> None:
    """Colours, a title of the window, a second line, what is no UTF-8: shown, not sent."""
    name = "\x1b[31m\x1b]0;mine[red]\n\udcff.csv"
    shown = r"\\u001b\[31m\\u001b\]0;mine\[red\]\\n\\udcff\.csv"
    refused(command("train", "--nodes", name, "--label", "label"), f"{shown} does not exist\\.$")
    Path(name).write_text(ENOUGH)
    refused(command("train", "--nodes", name, "--label", "label"), f"{shown} has a name that is not UTF-8 text\\.$")


ODD = "\ufeffid;label;same;leak;size;gone;text\r\n" + "".join(
    f"n{i};{'ab'[i % 2]};1;{'xy'[i % 2]};{i % 5};;{f'word{i} ' * (140_000 if i == 3 else 4)}\r\n" for i in range(80)
)
ODD += "n80;c;1;z;nan;;and so on\r\nn81;;1;;;;and so forth\r\n"


def test_what_is_odd_is_said(command: Command) -> None:
    """BOM, semicolons, CRLF, blanks, NaN, one value, a leak, a class of one, a cell of 10^6 characters; odd edges."""
    odd_links = f"{LINKS}n1,n1\nn1,n8\nn1,nowhere\n"
    outcome = train(command, {"nodes.csv": ODD, "edges.csv": odd_links}, unknown_nodes="drop", out="X")
    assert outcome.code == 0, outcome.err
    for words in (
        "the column 'id' holds the ids",
        "edges.csv joins nodes to themselves (1 such edge)",
        "edges.csv gives edges again (1 such row)",
        "lacks were left out (1 such edge)",
        "81 of 82 nodes have one",
        "left out: one value only",
        "left out: no values",
        "warning: The column 'leak' alone tells",
        "warning: Classes of a single node, which cannot be both learned and tested: 'c'.",
    ):
        assert words in outcome.err, outcome.err
    assert re.search(r"^leak +category +5 +1 *$", outcome.err, re.MULTILINE)
    assert re.search(r"^size +number +2 +2 *$", outcome.err, re.MULTILINE)
    assert {path.parts[0] for path in everything()} == {"nodes.csv", "edges.csv", "X"}


def test_nodes_that_only_edges_name_are_added_where_that_is_asked_for(command: Command) -> None:
    given: dict[str, str | bytes] = {"nodes.csv": ENOUGH, "edges.csv": f"{LINKS}n1,../../stranger\n"}
    outcome = train(command, given, unknown_nodes="add", out="X")
    assert outcome.code == 0, outcome.err
    assert "lacks became nodes (1 such id)" in outcome.err
    assert {path.parts[0] for path in everything()} == {"nodes.csv", "edges.csv", "X"}


@pytest.mark.slow
def test_a_million_categories(command: Command) -> None:
    """Where every node has its own, they tell nothing: the column is left out, and that is said."""
    ids = pl.int_range(1_000_000, eager=True)
    frame = pl.DataFrame({"id": ids}).select("id", name="user-" + pl.col("id").cast(pl.String), label=pl.col("id") % 2)
    outcome = train(command, {"nodes.parquet": parquet_bytes(frame)}, out="X")
    assert outcome.code == 0, outcome.err
    assert re.search("^name .*left out: all values different", outcome.err, re.MULTILINE)
