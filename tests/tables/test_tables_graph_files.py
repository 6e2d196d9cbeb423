"""Graphs that come as one file."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from table_samples import dense, write

from each_of import each_of
from nlgnn.datasets import load_graph
from nlgnn.errors import DataError, NlgnnError, OptionError
from nlgnn.tables import read_graph_file, table_files

ADJACENCY = sparse.csr_array(np.array([[0, 1, 0], [0, 0, 2.5], [1, 0, 0]], np.float32))
X = sparse.csr_array(np.array([[1, 0], [0, 3], [0, 0]], np.float32))
Y = np.array([1, 0, -1])


def parts(prefix: str, matrix: sparse.csr_array) -> dict[str, np.ndarray]:
    names = ("data", "indices", "indptr", "shape")
    return {f"{prefix}_{name}": np.array(getattr(matrix, name)) for name in names}


def save(path: Path, **arrays: object) -> Path:
    np.savez_compressed(path, **arrays)
    return path


class TestNpz:
    def test_the_layout_of_public_collections(self, tmp_path: Path) -> None:
        names = np.array(["a", None], dtype=object)  # pickled, and never loaded
        path = save(tmp_path / "g.npz", **parts("adj", ADJACENCY), **parts("attr", X), labels=Y, class_names=names)
        found = read_graph_file(path)
        graph = found.graph
        assert (graph.name, graph.directed) == ("g", True)
        assert graph.edge_index.tolist() == [[0, 1, 2], [1, 2, 0]]
        assert found.graph.edge_weight.tolist() == [1, 2.5, 1]
        np.testing.assert_array_equal(dense(graph.x), X.toarray())
        assert graph.y.tolist() == Y.tolist()
        assert found.encoder is None
        assert not read_graph_file(path, directed=False, name="h").graph.directed

    def test_dense_features_and_no_labels(self, tmp_path: Path) -> None:
        found = read_graph_file(save(tmp_path / "g.npz", **parts("adj", ADJACENCY > 0), attr_matrix=X.toarray()))
        np.testing.assert_array_equal(found.graph.x, X.toarray())
        assert found.graph.y.tolist() == [-1] * 3
        assert found.graph.edge_weight is None

    def test_an_adjacency_as_scipy_saves_it(self, tmp_path: Path) -> None:
        star = np.zeros((4, 4))
        star[0, 1:] = star[1:, 0] = 1
        sparse.save_npz(tmp_path / "a.npz", sparse.csr_array(star))
        found = read_graph_file(tmp_path / "a.npz")
        assert found.encoder.structural
        assert found.graph.num_edges == 3
        assert not found.graph.directed
        again = read_graph_file(tmp_path / "a.npz", encoder=found.encoder)
        np.testing.assert_array_equal(again.graph.x, found.graph.x)
        sparse.save_npz(tmp_path / "a.npz", sparse.coo_array(star))
        with pytest.raises(DataError, match=r"a\.npz: The matrix has format .*coo"):
            read_graph_file(tmp_path / "a.npz")

    def test_lists_of_edges(self, data_root: Path) -> None:
        found = read_graph_file(data_root / "yandex-heterophilous" / "minesweeper.npz", name="minesweeper")
        assert found.graph.fingerprint == load_graph("minesweeper").fingerprint

    @each_of(
        ("change", "words"),
        [
            ({"adj_indices": np.array([1, 2, 9])}, "indices"),
            ({"adj_indices": np.array([1, 2, -1])}, "indices"),
            ({"adj_indptr": np.array([0, 2, 1, 3])}, "indptr|index pointer"),
            ({"adj_shape": np.array([3, 4])}, r"adjacency matrix has shape \(3, 4\)"),
            ({"adj_data": np.array([1, -1, 1.0])}, r"edge 1, which joins nodes \(1, 2\), has weight -1"),
            ({"adj_data": np.array([1, np.nan, 1])}, "has weight nan"),
            ({"adj_data": np.array([{}] * 3)}, "allow_pickle"),
            ({"labels": np.array([0.5, 1, 2])}, "labels are of type float64"),
            ({"labels": np.array([0, 1])}, "2 labels"),
            ({"attr_matrix": np.full((3, 2), np.inf)}, "feature column 0 of node 0 is inf"),
            ({"attr_matrix": np.array([["a"]] * 3)}, "not an array of numbers"),
            ({"adj_data": None}, r"no adjacency among its arrays"),
        ],
    )
    def test_wrong_arrays(self, tmp_path: Path, change: dict[str, np.ndarray | None], words: str) -> None:
        arrays = {**parts("adj", ADJACENCY), "labels": Y, **change}
        path = save(tmp_path / "g.npz", **{name: array for name, array in arrays.items() if array is not None})
        with pytest.raises(DataError, match=words) as caught:
            read_graph_file(path)
        assert str(path) in caught.value.what

    def test_pickles_are_not_opened(self, tmp_path: Path) -> None:
        class Harmful:
            def __reduce__(self) -> tuple[object, ...]:
                return os.mkdir, (str(tmp_path / "made-by-a-pickle"),)

        path = save(tmp_path / "g.npz", adj_data=np.array([Harmful()]), labels=Y)
        for content in (path.read_bytes(), pickle.dumps(Harmful())):
            path.write_bytes(content)
            with pytest.raises(DataError, match=r"g\.npz"):
                read_graph_file(path)
        assert not (tmp_path / "made-by-a-pickle").exists()

    def test_a_bomb(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(table_files, "NEVER_TOO_LARGE", 1 << 20)
        path = save(tmp_path / "g.npz", **parts("adj", ADJACENCY), attr_matrix=np.zeros((3, 1 << 18)))
        with pytest.raises(DataError, match="more than 200 times its own size"):
            read_graph_file(path)

    def test_no_columns_can_be_named(self, tmp_path: Path) -> None:
        with pytest.raises(OptionError, match="has no columns to name"):
            read_graph_file(tmp_path / "g.npz", label="topic")


class TestGraphml:
    @pytest.fixture
    def network(self) -> object:
        networkx = pytest.importorskip("networkx")
        network = networkx.DiGraph()
        for node, (size, topic) in {"n0": (1, "a"), "n1": (2.5, "b"), "n2": (None, "a")}.items():
            network.add_node(
                node, topic=topic, id=f"attribute {node}", **({} if size is None else {"size": float(size)})
            )
        network.add_edge("n0", "n1", weight=2.0)
        network.add_edge("n2", "n0", weight=0.5)
        return network

    def written(self, network: object) -> bytes:
        file = io.BytesIO()
        pytest.importorskip("networkx").write_graphml(network, file)
        return file.getvalue()

    @pytest.mark.parametrize("packed", [False, True])
    def test_attributes_are_columns(self, tmp_path: Path, network: object, packed: bool) -> None:
        content = self.written(network)
        name = "g.graphml.gz" if packed else "g.graphml"
        path = write(tmp_path, {name: gzip.compress(content) if packed else content}) / name
        found = read_graph_file(path, label="topic")
        assert found.graph.node_names == ("n0", "n1", "n2")
        assert found.graph.class_names == ("a", "b")
        assert found.graph.directed
        assert found.graph.name == "g"
        assert found.graph.edge_index.tolist() == [[0, 2], [1, 0]]
        assert found.graph.edge_weight.tolist() == [2, 0.5]
        np.testing.assert_allclose(found.graph.x, [[-1, 0], [1, 0], [0, 1]])
        assert not read_graph_file(path, directed=False).graph.directed

    def test_what_cannot_be_used_is_named(self, tmp_path: Path, network: object) -> None:
        path = write(tmp_path, {"g.graphml": self.written(network)}) / "g.graphml"
        with pytest.raises(DataError, match=r"g\.graphml: .* has no column 'topik'"):
            read_graph_file(path, label="topik")
        path.write_bytes(path.read_bytes()[:300])
        with pytest.raises(DataError, match=r"g\.graphml cannot be read in the format of its name"):
            read_graph_file(path)
        path.write_text(
            '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="directed"/></graphml>'
        )
        with pytest.raises(DataError, match="It has no nodes"):
            read_graph_file(path)

    def test_entities_do_not_multiply(self, tmp_path: Path) -> None:
        entities = "".join(f'<!ENTITY e{i + 1} "{f"&e{i};" * 10}">' for i in range(12))
        bomb = f'<!DOCTYPE g [<!ENTITY e0 "lol">{entities}]><graphml><graph><node id="&e12;"/></graph></graphml>'
        with pytest.raises(DataError, match="cannot be read in the format of its name"):
            read_graph_file(write(tmp_path, {"g.graphml": bomb}) / "g.graphml")

    def test_without_networkx(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "networkx", None)
        path = write(tmp_path, {"g.graphml": "<graphml/>"}) / "g.graphml"
        with pytest.raises(NlgnnError, match=r"(?s)is not installed.*pip install 'nlgnn\[networkx\]"):
            read_graph_file(path)


def test_other_endings(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"(?s)g\.csv is neither \.graphml nor \.npz.*read_graph"):
        read_graph_file(tmp_path / "g.csv")
