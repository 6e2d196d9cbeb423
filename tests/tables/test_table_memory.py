"""Tables that would need more memory than there is are refused before they are parsed, with both figures."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from nlgnn import limits
from nlgnn.errors import DataError
from nlgnn.limits import memory_limit, require_memory, resident_bytes, show_size
from nlgnn.tables import read_graph, read_graph_file

ROWS = 200_000


def short_rows(folder: Path) -> Path:
    path = folder / "short.csv.gz"
    path.write_bytes(gzip.compress(b"id,label\n" + b"1,2\n" * ROWS))
    return path


def runs_of_one_value(folder: Path) -> Path:
    path = folder / "runs.parquet"
    column = pa.array(np.zeros(ROWS, np.int64))
    parquet.write_table(pa.table({"id": column, "label": column}), path)
    return path


def lists_of_one_value(folder: Path) -> Path:
    path = folder / "lists.parquet"
    values = pa.ListArray.from_arrays(pa.array([0, 2 * ROWS], pa.int32()), pa.array(np.zeros(2 * ROWS, np.int8)))
    parquet.write_table(pa.table({"id": ["a"], "label": ["b"], "x": values}), path)
    return path


def keys_of_one_line(folder: Path) -> Path:
    path = folder / "keys.jsonl"
    path.write_text("".join(json.dumps({"id": row, f"key{row}": 1}) + "\n" for row in range(600)))
    return path


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "free_bytes", lambda: 4 * 2**20)


@pytest.mark.parametrize("made", [short_rows, runs_of_one_value, lists_of_one_value, keys_of_one_line])
@pytest.mark.usefixtures("little_memory")
def test_small_files_that_become_large(made, tmp_path: Path) -> None:
    path = made(tmp_path)
    assert path.stat().st_size < 100_000
    with pytest.raises(DataError, match=r"would take about \d+\.\d MiB of memory, but 2\.8 MiB can be used") as caught:
        read_graph(path, label="label")
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("made", [short_rows, runs_of_one_value])
def test_the_limit_of_the_user(made, tmp_path: Path) -> None:
    allowed = resident_bytes() + 2**22
    with (
        memory_limit(str(allowed)),
        pytest.raises(DataError, match=f"{show_size(allowed)} are allowed"),
    ):
        read_graph(made(tmp_path), label="label")
    require_memory(2**22, "a table", "")  # the limit ends with its context


@pytest.mark.usefixtures("little_memory")
def test_graph_files(tmp_path: Path) -> None:
    pytest.importorskip("networkx")
    path = tmp_path / "graph.graphml.gz"
    path.write_bytes(gzip.compress(b"<graphml>" + b"<node/>" * 9000 + b"</graphml>"))
    with pytest.raises(DataError, match="would take about"):
        read_graph_file(path)
    path = tmp_path / "graph.npz"
    np.savez_compressed(path, adj_matrix=np.zeros((700, 700)))
    assert path.stat().st_size < 10_000
    with pytest.raises(DataError, match="would take about"):
        read_graph_file(path)


def test_ordinary_tables_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text("id,label\n" + "".join(f"{row},{row % 2}\n" for row in range(1000)))
    monkeypatch.setattr(limits, "free_bytes", lambda: 2**20)
    assert read_graph(path, label="label").graph.num_nodes == 1000


def test_class_numbers_that_would_make_many_classes(tmp_path: Path) -> None:
    labels = np.arange(30) % 2
    labels[17] = 10**9
    path = tmp_path / "graph.npz"
    np.savez(path, adj_matrix=np.eye(30, k=1), attr_matrix=np.ones((30, 2)), labels=labels)
    with pytest.raises(DataError, match="node 17 has class number 1000000000"):
        read_graph_file(path)


def test_the_address_space_counts_as_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    monkeypatch.setattr(resource, "getrlimit", lambda _: (2**20, 2**20))  # less than this process has
    assert limits.free_bytes() == 0


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.timestamp("ms", "UTC"), pa.date32()])
def test_dates_that_no_calendar_has(kind: pa.DataType, tmp_path: Path) -> None:
    path = tmp_path / "dates.parquet"
    whole = pa.int32() if kind == pa.date32() else pa.int64()
    largest = 2**31 - 1 if whole == pa.int32() else 2**62
    days = pa.array([0, 10, largest, 20], whole).cast(kind)
    parquet.write_table(pa.table({"id": ["a", "b", "c", "d"], "label": ["x", "y", "x", "y"], "day": days}), path)
    with pytest.raises(DataError, match="row 3, column 'day' is a date outside the years 1 to 9999"):
        read_graph(path, label="label")
