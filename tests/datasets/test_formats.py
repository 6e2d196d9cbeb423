"""Each reader on a tiny file of its format, every value compared."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from small_files import EDGES, MASKS, WRITERS, YEARS, X, Y

from nlgnn.datasets import CATALOG, Statistics, load_graph
from nlgnn.datasets.formats import READERS
from nlgnn.datasets.formats.linkx import quantile_classes
from nlgnn.errors import DataError
from nlgnn.graph.graph import Graph

PROTOCOL = {
    "geom-gcn": "geom-gcn",
    "geom-gcn-lists": "geom-gcn",
    "planetoid": "geom-gcn",
    "heterophilous": "heterophilous",
    "twitch": "linkx",
    "ogb": "ogb",
    "snap-patents": "linkx",
}


def read(reader: str, folder: Path) -> Graph:
    return READERS[reader](*WRITERS[reader](folder), name="small", directed=True)


def dense(graph: Graph) -> np.ndarray:
    return graph.x.toarray() if isinstance(graph.x, sparse.csr_array) else graph.x


def test_every_reader_has_a_small_file() -> None:
    assert set(WRITERS) == set(READERS)


@pytest.mark.parametrize("reader", ["geom-gcn", "heterophilous", "ogb"])
def test_dense_formats(reader: str, tmp_path: Path) -> None:
    graph = read(reader, tmp_path)
    np.testing.assert_array_equal(dense(graph), X)
    np.testing.assert_array_equal(graph.y, Y)
    np.testing.assert_array_equal(graph.edge_index, EDGES.T)


@pytest.mark.parametrize("reader", READERS)
def test_name_direction_and_splits(reader: str, tmp_path: Path) -> None:
    graph = read(reader, tmp_path)
    assert (graph.name, graph.directed, graph.num_nodes, graph.num_edges) == ("small", True, 6, 5)
    if reader == "fb100":
        assert not graph.splits
        return
    for split in graph.splits[PROTOCOL[reader]]:
        np.testing.assert_array_equal([split.train, split.val, split.test], MASKS)
        assert split.protocol == PROTOCOL[reader]


def test_lists_of_columns_and_lines_out_of_order(tmp_path: Path) -> None:
    graph = read("geom-gcn-lists", tmp_path)
    expected = X.copy()
    expected[3, 0] = 1  # the format cannot say "no feature at all"
    np.testing.assert_array_equal(dense(graph), expected)
    np.testing.assert_array_equal(graph.y, Y)


def test_planetoid_gives_a_missing_node_zeros_and_class_0(tmp_path: Path) -> None:
    graph = read("planetoid", tmp_path)
    expected = X.copy()
    expected[4] = 0
    np.testing.assert_array_equal(dense(graph), expected)
    np.testing.assert_array_equal(graph.y, [0, 1, 0, 1, 0, 1])
    assert graph.edge_index.shape == (2, 10)


def test_fb100_codes_each_column_and_leaves_missing_gender_unknown(tmp_path: Path) -> None:
    graph = read("fb100", tmp_path)
    np.testing.assert_array_equal(graph.y, [0, 1, -1] * 2)
    # Two values of status, two majors, and one value in each of the four other columns.
    np.testing.assert_array_equal(
        dense(graph), [[1, 0, 1, 0, 1, 1, 1, 1], [1, 0, 1, 0, 1, 1, 1, 1], [0, 1, 0, 1, 1, 1, 1, 1]] * 2
    )


def test_twitch_counts_a_repeated_feature_once(tmp_path: Path) -> None:
    graph = read("twitch", tmp_path)
    assert graph.num_features == 3170
    np.testing.assert_array_equal(dense(graph)[:, :3], X)
    np.testing.assert_array_equal(graph.y, Y)


def test_ogb_also_reads_the_extracted_folder(tmp_path: Path) -> None:
    (archive,) = WRITERS["ogb"](tmp_path)
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(tmp_path / "extracted")
    for folder in (tmp_path / "extracted", tmp_path / "extracted" / "small"):
        graph = READERS["ogb"](folder, name="small", directed=True)
        np.testing.assert_array_equal(graph.x, X)


def test_patent_years_become_classes_and_unknown_years_unknown_labels(tmp_path: Path) -> None:
    np.testing.assert_array_equal(read("snap-patents", tmp_path).y, [0, 1, -1, 2, 3, 4])


def test_quantile_classes_against_their_definition() -> None:
    years = np.random.default_rng(0).integers(1963, 2000, 500).astype(float)
    years[::17] = np.nan
    classes = quantile_classes(years, 5)
    for year, found in zip(years, classes, strict=True):
        bounds = [np.nanquantile(years, k / 5) for k in (1, 2, 3, 4)]
        assert found == (-1 if np.isnan(year) else sum(year >= bound for bound in bounds))
    assert np.isnan(YEARS).any()


@pytest.mark.parametrize("name", ["roman-empire", "amazon-ratings", "questions", "ogbn-arxiv", "snap-patents"])
def test_datasets_that_no_machine_of_ours_had(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From name to graph, on small files that stand where the real ones would."""
    dataset = CATALOG[name]
    (tmp_path / "written").mkdir()
    for file, written in zip(dataset.files, WRITERS[dataset.reader](tmp_path / "written"), strict=True):
        (tmp_path / file.path).parent.mkdir(parents=True, exist_ok=True)
        written.rename(tmp_path / file.path)
    monkeypatch.setenv("NLGNN_DATA", str(tmp_path))
    with pytest.raises(DataError, match="allow-unverified"):
        load_graph(name)
    with pytest.raises(DataError, match=r"hold 6 nodes, 3 features .* but the catalogue says"):
        load_graph(name, allow_unverified=True)
    assert capsys.readouterr().err.count("sha256 is") == len(dataset.files)
    small = Statistics(nodes=6, edges=5, features=3, classes=5 if name == "snap-patents" else 2)
    monkeypatch.setitem(CATALOG, name, replace(dataset, statistics=small))
    graph = load_graph(name, allow_unverified=True)
    assert (graph.name, graph.directed, tuple(graph.splits)) == (name, dataset.directed, dataset.protocols)
