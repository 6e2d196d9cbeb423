"""Arbitrary bytes and arbitrary tables: a graph or a DataError, and never anything else."""

from __future__ import annotations

import csv
import gzip
import io
from contextlib import suppress
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from polars.testing.parametric import dataframes
from table_samples import dense

from nlgnn.errors import NlgnnError
from nlgnn.tables import FeatureEncoder, read_graph, read_graph_file, read_table
from nlgnn.tables.table_files import Content

quiet = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
few_or_many = pytest.mark.parametrize("examples", [12, pytest.param(100, marks=pytest.mark.slow)])
ENDINGS = ["csv", "tsv", "csv.gz", "jsonl", "parquet", "txt", "graphml", "npz"]


def check_message(path: Path, error: NlgnnError) -> None:
    assert str(path) in error.what
    assert "\n" not in error.what


def try_to_read(path: Path) -> None:
    """Whatever comes, it is one of ours, and it names the file."""
    for options in ({}, {"label": "b"}, {"label": "label"}):
        try:
            if path.suffix in (".graphml", ".npz"):
                read_graph_file(path, **({} if path.suffix == ".npz" else options))
            else:
                read_graph(path, **options)
                read_graph(edges=path)
        except NlgnnError as error:
            check_message(path, error)


@pytest.mark.parametrize("ending", ENDINGS)
@few_or_many
def test_any_bytes(tmp_path: Path, ending: str, examples: int) -> None:
    @settings(quiet, max_examples=examples)
    @given(st.binary(max_size=60) | st.text(',;\t"\n\r ab1.é{}[]:\0', max_size=60).map(str.encode))
    def reads(content: bytes) -> None:
        path = tmp_path / f"x.{ending}"
        path.write_bytes(gzip.compress(content) if ending.endswith("gz") else content)
        try_to_read(path)

    reads()


def small_files(folder: Path) -> dict[str, bytes]:
    """A whole file of each kind, which is then damaged."""
    frame = pl.DataFrame(
        {"id": ["a", "b", "c"], "b": [1, 2, None], "label": ["x", None, "y"], "l": [[1.5], [2.5], None]}
    )
    parquet = io.BytesIO()
    frame.write_parquet(parquet)
    networkx = pytest.importorskip("networkx")
    network = networkx.Graph([("a", "b")])
    network.add_node("a", b=1, label="x")
    networkx.write_graphml(network, folder / "g.graphml")
    np.savez(
        folder / "g.npz", adj_data=[1, 1], adj_indices=[1, 0], adj_indptr=[0, 1, 2], adj_shape=[2, 2], labels=[0, 1]
    )
    return {
        "csv": frame.drop("l").write_csv().encode(),
        "csv.gz": gzip.compress(frame.drop("l").write_csv().encode()),
        "jsonl": frame.write_ndjson().encode(),
        "parquet": parquet.getvalue(),
        "graphml": (folder / "g.graphml").read_bytes(),
        "npz": (folder / "g.npz").read_bytes(),
    }


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "jsonl", "parquet", "graphml", "npz"])
@few_or_many
def test_damaged_files(tmp_path: Path, ending: str, examples: int) -> None:
    whole = small_files(tmp_path)[ending]
    path = tmp_path / f"x.{ending}"
    path.write_bytes(whole)
    try_to_read(path)
    changes = st.lists(st.tuples(st.integers(0, len(whole) - 1), st.integers(0, 255)), min_size=1, max_size=4)

    @settings(quiet, max_examples=examples)
    @given(changes)
    def reads(changed: list[tuple[int, int]]) -> None:
        content = bytearray(whole)
        for place, byte in changed:
            content[place] = byte
        path.write_bytes(bytes(content))
        try_to_read(path)

    reads()


@quiet
@given(dataframes(min_cols=1, max_cols=4, max_size=8))
def test_any_frame(frame: pl.DataFrame) -> None:
    with suppress(NlgnnError):
        graph = read_graph(frame).graph
        assert np.isfinite(dense(graph.x)).all()
    with suppress(NlgnnError):
        read_graph(edges=frame)
    with suppress(NlgnnError):
        read_graph(frame, label=frame.columns[0])


@quiet
@given(dataframes(min_cols=1, max_cols=4, min_size=1, max_size=8), st.randoms())
def test_the_order_of_rows_makes_no_difference(frame: pl.DataFrame, random: object) -> None:
    order = list(range(frame.height))
    random.shuffle(order)
    try:
        encoder = FeatureEncoder.fit(frame)
    except NlgnnError:
        return
    again = FeatureEncoder.fit(frame[order])
    assert again == encoder
    assert FeatureEncoder.from_json(encoder.to_json()) == encoder
    np.testing.assert_array_equal(dense(encoder.transform(frame))[order], dense(again.transform(frame[order])))


cells = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=5)


@quiet
@given(st.lists(st.tuples(cells, cells, st.text("xyz", min_size=1)), min_size=1, max_size=6), st.sampled_from(",;\t"))
def test_cells_and_lines_are_those_of_other_writers(rows: list[tuple[str, str, str]], delimiter: str) -> None:
    """What Python's csv module writes is read back, and every row is found on its line."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerow(["a", "b", "c"])
    lines = []
    for row in rows:
        lines.append(text.getvalue().count("\n") + 1)
        writer.writerow(row)
    from nlgnn.tables.csv import read_delimited

    read = read_delimited(Content(Path("x"), text.getvalue().encode()), ".csv")
    assert [row[2] for row in rows] == read.load("c").to_list()
    assert [row[0] for row in rows] == [cell or "" for cell in read.load("a").to_list()]
    assert [read.place(row) for row in range(len(rows))] == [f"x, line {line}" for line in lines]


def test_large_cells_and_many_columns(tmp_path: Path) -> None:
    path = tmp_path / "n.csv"
    long_text = "word " * 200_000
    path.write_text(
        f'id,label,text\na,x,{long_text}\nb,y,"{long_text}\n"\n' + "".join(f"n{i},x,t{i} a b c d\n" for i in range(30))
    )
    assert read_graph(path, label="label").graph.num_nodes == 32
    names = [f"c{i}" for i in range(3000)]
    path.write_text(",".join(["id", *names]) + "\n" + "\n".join(f"{i}," + ",".join(["1"] * 3000) for i in range(3)))
    assert read_table(path).columns == ("id", *names)
