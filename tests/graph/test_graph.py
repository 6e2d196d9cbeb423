from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from each_of import each_of
from nlgnn.errors import DataError, OptionError
from nlgnn.graph import Graph, Split, audit, features, to_networkx, to_pyg

X = np.array([[1, 0, 3], [0, 0, 0], [-2, 2, 0]], np.float32)
EDGES = np.array([[0, 0, 1, 2], [1, 1, 0, 2]])  # 0 → 1 twice, 1 → 0, and a loop at 2
Y = np.array([0, 1, -1])


@pytest.fixture
def graph() -> Graph:
    return Graph(X, EDGES, Y, name="tiny")


def test_sizes_and_defaults(graph: Graph) -> None:
    assert (graph.num_nodes, graph.num_features, graph.num_classes, graph.num_edges) == (3, 3, 2, 1)
    assert graph.class_names == ("0", "1")
    assert graph.labelled.tolist() == [True, True, False]
    assert graph.x.dtype == np.float32
    assert graph.y.dtype == graph.edge_index.dtype == np.int64


def test_adjacency_merges_repetitions_and_drops_loops() -> None:
    graph = Graph(X, np.array([[0, 0, 1], [1, 1, 1]]), Y, directed=True)
    assert graph.directed_adjacency.toarray().tolist() == [[0, 1, 0], [0, 0, 0], [0, 0, 0]]
    assert graph.undirected_adjacency.toarray().tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]


def test_a_graph_without_edges() -> None:
    graph = Graph(X, np.empty((2, 0), np.int64), Y)
    assert graph.num_edges == 0
    assert graph.undirected_adjacency.nnz == 0


@each_of(
    ("form", "bad"),
    [
        (np.asarray, np.inf),
        (sparse.csr_array, np.inf),
        (sparse.csr_array, np.nan),
        (sparse.coo_matrix, np.nan),
    ],
)
def test_a_bad_feature_names_node_and_column(form, bad: float) -> None:
    x = X.copy()
    x[2, 1] = bad
    with pytest.raises(DataError, match=rf"feature column 1 of node 2 is {bad} \(1 such"):
        Graph(form(x), EDGES, Y)


def test_a_missing_feature_is_left_to_the_models() -> None:
    x = X.copy()
    x[2, 1] = np.nan
    graph = Graph(x, EDGES, Y)
    assert graph.has_missing_features
    assert not Graph(X, EDGES, Y).has_missing_features
    for use in (lambda: graph.scale_features("unit-l2"), lambda: graph.require_features()):
        with pytest.raises(DataError, match=r"a missing feature value \(NaN\), in column 1 of node 2"):
            use()


def test_a_value_too_large_for_float32_is_named() -> None:
    with pytest.raises(DataError, match="column 0 of node 0 is inf"):
        Graph(np.array([[1e300]]), np.empty((2, 0), np.int64), np.array([0]))


@each_of(
    ("changes", "message"),
    [
        ({"y": np.array([0, 1, 7]), "class_names": ("a", "b")}, "node 2 has label 7, outside the classes 0 to 1"),
        ({"y": np.array([0, -2, 1])}, "node 1 has label -2"),
        ({"y": np.array([0.5, 1, 0])}, "labels are of type float64"),
        ({"y": np.array([[0, 1, 0]])}, r"labels of shape \(1, 3\)"),
        ({"y": np.array(0)}, r"labels of shape \(\)"),
        ({"y": np.array([0, 1])}, r"2 labels, but features of shape \(3, 3\)"),
        ({"x": np.array([["a"]] * 3)}, "features are not an array of numbers"),
        ({"x": np.ones(3)}, r"features of shape \(3,\)"),
        ({"edge_index": np.array([[0, 1], [1, 3]])}, r"edge 1 joins nodes \(1, 3\), but nodes are numbered 0 to 2"),
        ({"edge_index": np.array([[0, -1], [1, 2]])}, r"edge 1 joins nodes \(-1, 2\)"),
        ({"edge_index": np.zeros((3, 2), int)}, r"edges of shape \(3, 2\)"),
        ({"edge_index": np.zeros((2, 2))}, "edges are of type float64"),
        ({"node_names": ("a", "b")}, "3 nodes, but 2 node names"),
        ({"x": np.empty((0, 3)), "y": np.empty(0, int), "edge_index": np.empty((2, 0), int)}, "has no nodes"),
    ],
)
def test_what_does_not_fit_is_named(graph: Graph, changes: dict, message: str) -> None:
    with pytest.raises(DataError, match=message) as error:
        replace(graph, **{"class_names": (), **changes})
    assert "'tiny'" in error.value.what
    assert error.value.how


def test_a_split_of_another_length_is_refused(graph: Graph) -> None:
    split = Split.from_indices(4, [0], [1], [2], index=5)
    with pytest.raises(DataError, match=r"'tiny', splits 'column', number 5: the split has 4 entries, the graph 3"):
        replace(graph, splits={"column": (split,)})


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_feature_scaling_leaves_zero_rows_alone(graph: Graph, form) -> None:
    graph = replace(graph, x=form(X))
    expected = {
        "none": X,
        "unit-sum": [[0.25, 0, 0.75], [0, 0, 0], [-0.5, 0.5, 0]],
        "unit-l2": [[0.1**0.5, 0, 0.9**0.5], [0, 0, 0], [-(0.5**0.5), 0.5**0.5, 0]],
    }
    for scaling, x in expected.items():
        scaled = graph.scale_features(scaling).x
        assert scaled.dtype == np.float32
        assert type(scaled) is type(graph.x)
        np.testing.assert_allclose(scaled.toarray() if sparse.issparse(scaled) else scaled, x, rtol=1e-6)
    assert (graph.x != form(X)).sum() == 0  # the original is untouched
    with pytest.raises(OptionError, match="unit-sums"):
        graph.scale_features("unit-sums")


@pytest.mark.parametrize("scaling", ["unit-sum", "unit-l2"])
def test_a_single_feature_keeps_its_size(scaling: str) -> None:
    graph = Graph([[-3.0], [2.0], [0.5]], np.zeros((2, 0)), [0, 1, 0])
    np.testing.assert_array_equal(graph.scale_features(scaling).x, graph.x)


@pytest.mark.parametrize("scaling", ["unit-sum", "unit-l2"])
@pytest.mark.parametrize("kind", [np.array, sparse.csr_array])
def test_rows_of_a_table_are_divided_by_one_number(scaling: str, kind: type) -> None:
    x = np.array([[-3.0, 0], [2, 1], [0, 0]], np.float32)
    graph = Graph(kind(x), np.zeros((2, 0)), [0, 1, 0], row_norm=2.0)
    np.testing.assert_array_equal(graph.scale_features(scaling).dense_features(), x / 2)
    np.testing.assert_array_equal(graph.scale_features("none").dense_features(), x)
    assert graph.fingerprint != replace(graph, row_norm=None).fingerprint


def test_a_graph_without_features_can_be_scaled() -> None:
    graph = Graph(np.empty((3, 0)), EDGES, Y)
    assert graph.scale_features("unit-l2").x.shape == (3, 0)


def test_fingerprint_follows_content_and_nothing_else(graph: Graph) -> None:
    same = Graph(X.copy(), EDGES.copy(), Y.copy(), name="another name")
    assert graph.fingerprint == same.fingerprint
    changed = [
        replace(graph, x=X + 1),
        replace(graph, y=np.array([1, 0, -1])),
        replace(graph, edge_index=EDGES[:, :3]),
        replace(graph, directed=True),
        replace(graph, class_names=("a", "b", "c")),
    ]
    assert len({graph.fingerprint, *(other.fingerprint for other in changed)}) == 6


def test_equal_sparse_features_have_one_form() -> None:
    row, column, value = [0, 0, 2, 1], [2, 2, 0, 1], [1, 2, 4, 0]  # one entry in two parts, one that is 0
    messy = sparse.coo_matrix((value, (row, column)), shape=(3, 3))
    tidy = sparse.csr_array(messy.toarray())
    graphs = [Graph(x, EDGES, Y) for x in (messy, tidy)]
    assert graphs[0].fingerprint == graphs[1].fingerprint
    assert graphs[0].x.nnz == 2


def test_a_users_sparse_matrix_is_not_changed() -> None:
    x = sparse.csr_array(np.float32(X))
    x.data[0] = 0
    Graph(x, EDGES, Y)
    assert x.nnz == 4


@pytest.fixture
def on_disk_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Graph:
    """The features of `graph` in a file, read two rows at a time."""
    monkeypatch.setattr(features, "CHUNK_BYTES", 24)
    np.save(tmp_path / "x.npy", X)
    return Graph(np.load(tmp_path / "x.npy", mmap_mode="r"), EDGES, Y, name="tiny")


@pytest.mark.parametrize("scaling", ["none", "unit-sum", "unit-l2"])
def test_features_on_disk_are_those_in_memory(graph: Graph, on_disk_graph: Graph, scaling: str) -> None:
    in_memory, streamed = graph.scale_features(scaling), on_disk_graph.scale_features(scaling)
    assert isinstance(streamed.x, features.FeaturesOnDisk)
    assert (streamed.x.shape, streamed.x.size, streamed.num_features) == (X.shape, X.size, 3)
    assert [len(rows) for _, rows in streamed.x.chunks()] == [2, 1]
    rows = np.concatenate([rows.copy() for _, rows in streamed.x.chunks()])
    assert np.array_equal(rows, in_memory.x)
    assert streamed.fingerprint == in_memory.fingerprint
    assert replace(streamed, name="other").fingerprint == in_memory.fingerprint
    assert audit(streamed) == audit(in_memory)
    twice = streamed.scale_features("unit-sum")
    assert [abs(rows).sum(1).round(6).tolist() for _, rows in twice.x.chunks()] == [[1, 0], [1]]


def test_scaling_goes_over_chunks(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = graph.scale_features("unit-l2")
    monkeypatch.setattr(features, "CHUNK_BYTES", 1)
    assert graph.scale_features("unit-l2").fingerprint == whole.fingerprint


def test_a_missing_feature_on_disk_names_node_and_column(on_disk_graph: Graph, tmp_path: Path) -> None:
    x = X.copy()
    x[2, 1:] = np.nan
    np.save(tmp_path / "bad.npy", x)
    with pytest.raises(DataError, match=r"feature column 1 of node 2 is nan \(2 such"):
        Graph(np.load(tmp_path / "bad.npy", mmap_mode="r"), EDGES, Y)


def test_a_raw_file_with_something_before_the_features(tmp_path: Path, graph: Graph) -> None:
    (tmp_path / "x.bin").write_bytes(b"12 bytes ...XXXX" + X.tobytes())
    x = np.memmap(tmp_path / "x.bin", np.float32, mode="r", offset=16, shape=X.shape)
    assert Graph(x, EDGES, Y).fingerprint == graph.fingerprint


@pytest.mark.parametrize(
    ("stored", "part", "message"),
    [
        (X.astype(np.float64), None, r"an array of type float64 and shape \(3, 3\), row after row"),
        (np.asfortranarray(X), None, "not row after row"),
        (np.tile(X, (2, 1)), np.s_[3:], "a part of an array"),
        (np.tile(X, (1, 2)), np.s_[:, :3], "a part of an array .* not row after row"),
        (X.ravel(), None, r"shape \(9,\)"),
    ],
)
def test_other_tables_on_disk_are_refused_but_may_be_read(tmp_path: Path, stored, part, message: str) -> None:
    np.save(tmp_path / "x.npy", stored)
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    x = x if part is None else x[part]
    with pytest.raises(DataError, match=message) as error:
        Graph(x, EDGES, Y)
    assert "np.save" in error.value.how
    in_memory = Graph(np.array(x).reshape(3, 3), EDGES, Y)
    assert np.array_equal(in_memory.x, X)
    assert isinstance(Graph(x.astype(np.float32).reshape(3, 3), EDGES, Y).x, np.ndarray)  # memmap by name only


@pytest.mark.parametrize("convert", [to_pyg, to_networkx, Graph.dense_features])
def test_features_on_disk_are_never_copied_into_memory(on_disk_graph: Graph, graph: Graph, convert) -> None:
    with pytest.raises(DataError, match=r"'tiny': the features are on disk \(.*x\.npy\)"):
        convert(on_disk_graph)
    assert np.array_equal(graph.dense_features(), X)


def test_a_map_whose_changes_are_in_memory_only_is_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((3, 2), np.float32))
    with pytest.raises(DataError, match="mode 'c'"):
        Graph(np.load(tmp_path / "x.npy", mmap_mode="c"), np.zeros((2, 0), int), [0, 1, 0])
