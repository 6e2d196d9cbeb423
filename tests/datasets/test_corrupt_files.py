"""Damaged files whose checksum nobody checked: a DataError that names the file, and never another exception."""

from __future__ import annotations

import gzip
import os
import pickle
import re
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from numpy._core.multiarray import _reconstruct
from scipy import io
from small_files import EDGES, MASKS, WRITERS, X, Y, write_linkx_splits

from each_of import each_of
from nlgnn.datasets.formats import READERS
from nlgnn.datasets.formats.common import unpickle
from nlgnn.errors import DataError, NlgnnError

ALL_FILES = [
    (reader, position)
    for reader, count in {
        "geom-gcn": 3,
        "geom-gcn-lists": 3,
        "planetoid": 7,
        "heterophilous": 1,
        "fb100": 1,
        "twitch": 4,
        "ogb": 1,
        "snap-patents": 2,
    }.items()
    for position in range(count)
]
TEXT = {".txt", ".csv", ".index"}


@pytest.mark.parametrize(("reader", "position"), ALL_FILES)
def test_cut_emptied_scrambled_or_absent(reader: str, position: int, tmp_path: Path) -> None:
    paths = WRITERS[reader](tmp_path)
    whole = paths[position].read_bytes()
    cuts = [whole[: len(whole) * share // 10] for share in range(10)]
    noise = np.random.default_rng(0).integers(256, size=len(whole), dtype=np.uint8).tobytes()
    for content in [*cuts, noise, whole[: len(whole) // 2] + noise[len(whole) // 2 :], None]:
        if content is None:
            paths[position].unlink()
        else:
            paths[position].write_bytes(content)
        # A text cut between two lines is a shorter text; only its checksum can tell.
        may_be_readable = content in cuts and paths[position].suffix in TEXT
        refused = pytest.raises(NlgnnError, match=re.escape(str(paths[position])))
        with suppress(NlgnnError) if may_be_readable else refused:
            READERS[reader](*paths, name="small", directed=False)


def replace_line(path: Path, number: int, line: str) -> None:
    lines = path.read_text().splitlines()
    lines[number - 1] = line
    path.write_text("\n".join(lines) + "\n")


@each_of(
    ("reader", "file", "number", "line", "message"),
    [
        ("geom-gcn", 0, 3, "0\t1,0\t0", "line 3"),  # ragged
        ("geom-gcn", 0, 3, "0\t1,0,2\t0", "line 3"),
        ("geom-gcn", 0, 3, "0\t1,0,0", "Line 3 has 2 columns"),
        ("geom-gcn", 0, 3, "9\t1,0,0\t0", "column of node numbers"),
        ("geom-gcn", 0, 3, "0\t1,0,0\t-2", "Node 0 has label -2"),
        ("geom-gcn", 0, 3, "0\t1,0,0\tcat", "cat"),
        ("geom-gcn", 1, 3, "0\t6", r"edge 1 joins nodes \(0, 6\)"),
        ("geom-gcn-lists", 0, 3, "0\t1,-1\t0", "Line 3 names feature -1"),
        ("planetoid", 5, 1, "7", "wrong-number-of-nodes"),
        ("twitch", 0, 3, "1,9,maybe,5,False,0", "Line 3: column 'mature' is 'maybe'"),
        ("twitch", 0, 3, "1,9,True,5,False,8", "Column 'new_id'"),
        ("twitch", 2, 2, "0,77", r"\(0, 77\)"),
    ],
)
def test_messages_say_where(reader: str, file: int, number: int, line: str, message: str, tmp_path: Path) -> None:
    paths = WRITERS[reader](tmp_path)
    replace_line(paths[file], number, line)
    if message == "wrong-number-of-nodes":  # one node more than the splits know
        message, file = "the split has 6 entries, the graph 8 nodes", -1
    with pytest.raises(DataError, match=message) as caught:
        READERS[reader](*paths, name="small", directed=False)
    assert str(paths[file]) in str(caught.value)


@each_of(
    ("changed", "message"),
    [
        ({"node_labels": np.array([0, 1, 0, -2, 0, 1])}, "node 3 has label -2"),
        ({"node_labels": Y[:5]}, "5 labels"),
        ({"edges": EDGES + 1}, r"edge 4 joins nodes \(5, 6\)"),
        ({"train_masks": MASKS[:1, :5], "val_masks": MASKS[1:2, :5], "test_masks": MASKS[2:, :5]}, "5 entries"),
        ({"train_masks": MASKS[:1, :5]}, "different lengths"),
        ({"val_masks": MASKS[:1]}, "node 0 is in more than one part"),
        ({"node_features": np.where(X, np.inf, 0)}, "feature column 0 of node 0 is inf"),
    ],
)
def test_wrong_arrays(changed: dict[str, np.ndarray], message: str, tmp_path: Path) -> None:
    (path,) = WRITERS["heterophilous"](tmp_path)
    with np.load(path) as arrays:
        np.savez(path, **{**arrays, **changed})
    with pytest.raises(DataError, match=message) as caught:
        READERS["heterophilous"](path, name="small", directed=False)
    assert str(path) in str(caught.value)


@each_of("nodes", [[-1], [6], [0.5], "abc"])
def test_split_lists_outside_the_graph(nodes: object, tmp_path: Path) -> None:
    paths = WRITERS["twitch"](tmp_path)
    np.save(paths[-1], np.array([{"train": np.array(nodes), "valid": [1], "test": [2]}]), allow_pickle=True)
    with pytest.raises(DataError, match="split 0 of 'linkx': the train list") as caught:
        READERS["twitch"](*paths, name="small", directed=False)
    assert str(paths[-1]) in str(caught.value)


@each_of(
    ("member", "text", "message"),
    [
        ("raw/node-feat", "1,2,3\n1,2\n", "node-feat.csv.gz: .*Expected 3 columns, got 2"),
        ("raw/node-label", "0\n1\n", "2 labels, but 6 nodes"),
        ("raw/node-label", "0\nx\n0\n0\n0\n0\n", "node-label.csv.gz: .*column #0: Row #2: .* invalid value 'x'"),
        ("raw/node-label", "0\n\n0\n0\n0\n0\n", "5 labels, but 6 nodes"),
        ("raw/node-feat", "1,2,3\n" * 5 + "1,,3\n", "column #1: Row #6: .* invalid value ''"),
        ("raw/edge", "0,1\n,1\n", "edge.csv.gz: .*column #0: Row #2: .* invalid value ''"),
        ("raw/edge", "0,9\n", r"\(0, 9\)"),
        ("split/time/test", "4\n-1\n", "the test list names node -1"),
        ("split/time/test", None, "test.csv.gz is missing"),
    ],
)
def test_wrong_tables_in_an_ogb_archive(member: str, text: str | None, message: str, tmp_path: Path) -> None:
    (path,) = WRITERS["ogb"](tmp_path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    del members[f"small/{member}.csv.gz"]
    if text is not None:
        members[f"small/{member}.csv.gz"] = gzip.compress(text.encode())
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(DataError, match=message) as caught:
        READERS["ogb"](path, name="small", directed=False)
    assert str(path) in str(caught.value)


def test_patents_of_another_number(tmp_path: Path) -> None:
    path, splits = WRITERS["snap-patents"](tmp_path)
    contents = {name: value for name, value in io.loadmat(path).items() if not name.startswith("__")}
    io.savemat(path, {**contents, "num_nodes": 7})
    with pytest.raises(DataError, match="6 years, but num_nodes is 7"):
        READERS["snap-patents"](path, splits, name="small", directed=False)


def test_pickles_cannot_run_code(tmp_path: Path) -> None:
    class Harmful:
        def __reduce__(self) -> tuple[object, ...]:
            return os.mkdir, (str(tmp_path / "made-by-a-pickle"),)

    with pytest.raises(DataError, match="mkdir"):
        unpickle(pickle.dumps(Harmful()))
    paths = WRITERS["twitch"](tmp_path)
    np.save(write_linkx_splits(tmp_path), np.array([Harmful()]), allow_pickle=True)
    with pytest.raises(DataError, match="mkdir"):
        READERS["twitch"](*paths, name="small", directed=False)
    assert not (tmp_path / "made-by-a-pickle").exists()


def array_pickle(kind: object, state: tuple[object, ...]) -> bytes:
    """Return the pickle of an array of a forged type and state, as NumPy would read it."""

    class Forged:
        def __reduce__(self) -> tuple[object, ...]:
            return _reconstruct, (np.ndarray, (0,), b"b"), (*state[:2], kind, *state[2:])

    return pickle.dumps(Forged(), 4)


class Pickled:
    """A type whose pickle has any code and state."""

    def __init__(self, code: str, state: tuple[object, ...]) -> None:
        self.code, self.state = code, state

    def __reduce__(self) -> tuple[object, ...]:
        return np.dtype, (self.code, False, True), self.state


PLAIN = (3, "<", None, None, None, -1, -1, 0)


def test_arrays_are_read_without_the_state_of_a_type() -> None:
    content = np.arange(3).tobytes()
    assert unpickle(array_pickle(Pickled("i8", PLAIN), (1, (3,), False, content))).tolist() == [0, 1, 2]
    by_columns = np.asfortranarray([[1.5, 2.5], [3.5, 4.5]])
    assert unpickle(pickle.dumps({"a": [by_columns]}, 4))["a"][0].tolist() == by_columns.tolist()


@pytest.mark.parametrize(
    "kind",
    [
        Pickled("V8", (3, "|", None, None, None, 8, 1, 63)),  # bytes that would be taken for references to objects
        Pickled("i8", (3, "<", ("O", (1,)), None, None, -1, -1, 63)),
        Pickled("V8", (3, "|", None, ("a",), {"a": (np.dtype("O"), 0)}, 8, 1, 63)),
        Pickled("O8", (3, "|", None, None, None, -1, -1, 63)),
    ],
)
def test_bytes_never_become_objects(kind: Pickled) -> None:
    with pytest.raises(DataError, match="which no graph needs"):
        unpickle(array_pickle(kind, (1, (2,), False, b"\x41" * 16)))


@pytest.mark.parametrize("shape", [(4,), (-1,), (2**40, 0), ("a",)])
def test_arrays_of_another_size(shape: tuple[object, ...]) -> None:
    with pytest.raises((DataError, ValueError)):
        unpickle(array_pickle(Pickled("i8", PLAIN), (1, shape, False, b"\0" * 24)))
