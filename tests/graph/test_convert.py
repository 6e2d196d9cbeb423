import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

from nlgnn.errors import DataError, NlgnnError, OptionError
from nlgnn.graph import Graph, Split, from_igraph, from_networkx, from_pyg, from_scipy, to_networkx, to_pyg, to_scipy

X = np.array([[1, 0], [0, 2], [0, 0], [3, 4]], np.float32)
EDGES = np.array([[0, 1, 3, 1], [1, 2, 1, 2]])
Y = np.array([0, 1, -1, 1])
SPLITS = (Split.from_indices(4, [0], [1], [3]), Split.from_indices(4, [3], [0], [1], index=1))


def make_graph(directed: bool = False, form=np.asarray, **more) -> Graph:
    return Graph(form(X), EDGES, Y, directed=directed, **more)


def dense(x) -> np.ndarray:
    return x.toarray() if sparse.issparse(x) else x


def assert_same(graph: Graph, other: Graph) -> None:
    """Equal in all that a model sees."""
    assert graph.directed == other.directed
    assert graph.class_names == other.class_names
    np.testing.assert_array_equal(dense(graph.x), dense(other.x))
    np.testing.assert_array_equal(graph.y, other.y)
    np.testing.assert_array_equal(to_scipy(graph).toarray(), to_scipy(other).toarray())


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
class TestRoundTrips:
    def test_pyg(self, directed: bool, form) -> None:
        pytest.importorskip("torch_geometric")
        for splits in (SPLITS[:1], SPLITS):
            graph = make_graph(directed, form, splits={"column": splits})
            data = to_pyg(graph)
            assert data.train_mask.shape == ((4,) if len(splits) == 1 else (4, 2))
            back = from_pyg(data)
            assert_same(back, graph)
            for ours, theirs in zip(splits, back.splits["column"], strict=True):
                assert ours.index == theirs.index
                for part in ("train", "val", "test"):
                    np.testing.assert_array_equal(getattr(ours, part), getattr(theirs, part))

    def test_networkx(self, directed: bool, form) -> None:
        pytest.importorskip("networkx")
        for names in (None, ("ann", "bob", "eve", "dan")):
            graph = make_graph(directed, form, class_names=("yes", "no"), node_names=names)
            back = from_networkx(to_networkx(graph))
            assert_same(back, graph)
            assert back.node_names == names

    def test_scipy(self, directed: bool, form) -> None:
        graph = make_graph(directed, form)
        assert_same(from_scipy(to_scipy(graph), graph.x, graph.y), graph)
        assert_same(from_scipy(to_scipy(graph).toarray(), graph.x, graph.y), graph)


@pytest.mark.parametrize("directed", [False, True])
class TestRoundTripsOfWeights:
    WEIGHTS = (1, 2.5, 0.5, 1.25)  # the second and the last are of one edge

    @pytest.fixture
    def graph(self, directed: bool) -> Graph:
        return make_graph(directed, edge_weight=self.WEIGHTS)

    def test_pyg(self, graph: Graph, directed: bool) -> None:
        pytest.importorskip("torch_geometric")
        data = to_pyg(graph)
        assert data.edge_weight.tolist() == (list(self.WEIGHTS) if directed else [1, 1, 3.75, 0.5, 3.75, 0.5])
        assert_same(from_pyg(data), graph)
        data.edge_weight = data.edge_weight[:, None]
        assert_same(from_pyg(data), graph)

    def test_networkx(self, graph: Graph, directed: bool) -> None:
        pytest.importorskip("networkx")
        network = to_networkx(graph)
        assert network.edges[1, 2]["weight"] == 3.75
        assert_same(from_networkx(network), graph)
        assert from_networkx(network, weight=None).edge_weight is None

    def test_scipy(self, graph: Graph, directed: bool) -> None:
        assert to_scipy(graph).max() == 3.75
        assert_same(from_scipy(to_scipy(graph), graph.x, graph.y), graph)


def test_loops_keep_their_weights() -> None:
    pytest.importorskip("networkx")
    graph = Graph(X, np.array([[0, 2], [1, 2]]), Y, edge_weight=[1.5, 7])
    assert to_networkx(graph).edges[2, 2]["weight"] == 7


class TestPyG:
    @pytest.fixture(autouse=True)
    def _needs_pyg(self) -> None:
        self.torch = pytest.importorskip("torch")
        self.Data = pytest.importorskip("torch_geometric.data").Data

    def test_undirected_edges_go_both_ways_once(self) -> None:
        data = to_pyg(make_graph())
        assert data.is_undirected()
        assert data.num_edges == 6
        assert "train_mask" not in data
        assert to_pyg(make_graph(directed=True)).edge_index.tolist() == EDGES.tolist()

    def test_the_copy_is_independent(self) -> None:
        graph = make_graph(directed=True)
        data = to_pyg(graph)
        data.x[:] = 7
        data.edge_index[:] = 0
        assert graph.x.max() == 4
        assert graph.edge_index.max() == 3

    def test_features_labels_and_masks_may_be_missing(self) -> None:
        graph = from_pyg(self.Data(edge_index=self.torch.tensor(EDGES), num_nodes=4))
        assert dense(graph.x).tolist() == np.eye(4).tolist()
        assert graph.y.tolist() == [-1] * 4
        assert graph.splits == {}

    def test_other_weights_one_way_than_the_other_are_a_direction(self) -> None:
        data = to_pyg(make_graph(edge_weight=[1, 2, 3, 4]))
        assert not from_pyg(data).directed
        data.edge_weight[0] += 1
        assert from_pyg(data).directed

    def test_edge_attr_may_be_anything(self) -> None:
        data = self.Data(edge_index=self.torch.tensor(EDGES), edge_attr=self.torch.ones(4), num_nodes=4)
        assert from_pyg(data).edge_weight is None

    def test_labels_in_a_column_and_sparse_features(self) -> None:
        x = self.torch.tensor(X).to_sparse_csr()
        data = self.Data(x=x, edge_index=self.torch.tensor(EDGES), y=self.torch.tensor(Y)[:, None])
        graph = from_pyg(data, name="g")
        assert isinstance(graph.x, sparse.csr_array)
        assert dense(graph.x).tolist() == X.tolist()
        assert graph.y.tolist() == Y.tolist()
        assert graph.name == "g"

    def test_one_test_mask_serves_many_train_masks(self) -> None:
        data = to_pyg(make_graph(), [Split.from_indices(4, [0], [1], [3]), Split.from_indices(4, [1], [0], [3])])
        data.test_mask = data.test_mask[:, 0]
        splits = from_pyg(data).splits["column"]
        assert [np.flatnonzero(split.train).tolist() for split in splits] == [[0], [1]]
        assert [np.flatnonzero(split.test).tolist() for split in splits] == [[3], [3]]

    def test_what_cannot_be_used_is_named(self) -> None:
        with pytest.raises(DataError, match=r"(?s)list has no edge_index.*dataset\[0\]"):
            from_pyg([])
        data = to_pyg(make_graph(), SPLITS)
        data.val_mask = None
        with pytest.raises(DataError, match="only has train_mask, test_mask"):
            from_pyg(data)
        data.val_mask = self.torch.zeros(3, dtype=self.torch.bool)
        with pytest.raises(DataError, match=r"val_mask has shape \(3,\)"):
            from_pyg(data)
        data.val_mask = self.torch.zeros(4, 3, dtype=self.torch.bool)
        with pytest.raises(DataError, match="2, 3, 2 columns"):
            from_pyg(data)

    def test_several_protocols_must_be_chosen_from(self) -> None:
        graph = make_graph(splits={"column": SPLITS, "ogb": SPLITS[:1]})
        with pytest.raises(OptionError, match="several protocols: column, ogb"):
            to_pyg(graph)
        assert to_pyg(graph, graph.splits["ogb"]).train_mask.shape == (4,)
        assert "train_mask" not in to_pyg(graph, ())


class TestNetworkX:
    @pytest.fixture(autouse=True)
    def _needs_networkx(self) -> None:
        self.networkx = pytest.importorskip("networkx")

    def test_the_karate_club(self) -> None:
        club = self.networkx.karate_club_graph()
        graph = from_networkx(club, features=None, label="club")
        assert (graph.num_nodes, graph.num_edges, graph.num_features) == (34, 78, 34)
        assert graph.class_names == ("Mr. Hi", "Officer")
        assert graph.y[0] == 0
        assert graph.node_names is None
        assert not graph.directed

    def test_labels_that_are_missing(self) -> None:
        """As pandas has them, and empty cells."""
        network = self.networkx.path_graph(6)
        given = dict(enumerate(["b", float("nan"), "", None, "a", -1]))
        self.networkx.set_node_attributes(network, given, "kind")
        graph = from_networkx(network, features=None, label="kind")
        assert graph.class_names == ("a", "b")
        assert graph.y.tolist() == [1, -1, -1, -1, 0, -1]
        numbers = dict(enumerate([1.0, float("nan"), np.float32("nan"), 0.0, 1, None]))
        self.networkx.set_node_attributes(network, numbers, "number")
        assert from_networkx(network, features=None, label="number").y.tolist() == [1, -1, -1, 0, 1, -1]
        with pytest.raises(DataError, match="No node has the attribute 'knid'"):
            from_networkx(network, features=None, label="knid")
        assert from_networkx(network, features=None).num_classes == 0  # by the usual name there may be none

    def test_an_edge_without_a_weight_weighs_1(self) -> None:
        network = self.networkx.MultiGraph([(0, 1, {"weight": 2.5}), (0, 1, {"km": 4}), (1, 2)])
        assert from_networkx(network, features=None).edge_weight.tolist() == [2.5, 1, 1]
        assert from_networkx(network, features=None, weight="km").edge_weight.tolist() == [1, 4, 1]
        assert from_networkx(network, features=None, weight="cost").edge_weight is None
        network.edges[0, 1, 1]["weight"] = "heavy"
        with pytest.raises(DataError, match=r"the attributes 'weight' are not an array of numbers: .*'heavy'"):
            from_networkx(network, features=None)

    def test_named_nodes_and_missing_labels(self) -> None:
        network = self.networkx.MultiDiGraph([("b", "a"), ("b", "a"), ("a", "c")])
        network.nodes["a"]["kind"] = "fish"
        network.nodes["c"]["kind"] = None
        graph = from_networkx(network, features=None, label="kind")
        assert graph.node_names == ("b", "a", "c")
        assert graph.y.tolist() == [-1, 0, -1]
        assert graph.directed
        assert graph.edge_index.tolist() == [[0, 0, 1], [1, 1, 2]]

    def test_what_cannot_be_used_is_named(self) -> None:
        network = self.networkx.Graph([("a", "b")])
        network.nodes["a"]["x"] = [1, 2]
        with pytest.raises(DataError, match="1 nodes have no attribute 'x', the first is 'b'"):
            from_networkx(network)
        network.nodes["b"]["x"] = [1]
        with pytest.raises(DataError, match="attributes 'x' are not an array"):
            from_networkx(network)
        network.graph["class_names"] = ("yes", "no")
        network.nodes["b"]["y"] = "maybe"
        with pytest.raises(DataError, match="Label 'maybe' is not among class_names"):
            from_networkx(network, features=None)
        with pytest.raises(DataError, match="two nodes have one name"):
            to_networkx(make_graph(node_names=("a", "a", "b", "c")))


class TestIgraph:
    @pytest.fixture(autouse=True)
    def _needs_igraph(self) -> None:
        self.igraph = pytest.importorskip("igraph")

    @pytest.mark.parametrize("directed", [False, True])
    def test_attributes(self, directed: bool) -> None:
        network = self.igraph.Graph(n=4, edges=EDGES.T.tolist(), directed=directed)
        network.vs["x"] = X.tolist()
        network.vs["y"] = ["a", "b", None, "b"]
        graph = from_igraph(network, name="g")
        assert_same(graph, make_graph(directed, class_names=("a", "b")))
        assert (graph.name, graph.node_names) == ("g", None)
        assert graph.edge_index.shape == EDGES.shape  # parallel edges are kept
        network.vs["name"] = list("wxyz")
        assert from_igraph(network, features=None, label="name").class_names == ("w", "x", "y", "z")
        assert from_igraph(network).node_names == ("w", "x", "y", "z")

    def test_weights(self) -> None:
        network = self.igraph.Graph(n=3, edges=[(0, 1), (1, 2)])
        assert from_igraph(network, features=None).edge_weight is None
        network.es["weight"] = [2.5, None]
        assert from_igraph(network, features=None).edge_weight.tolist() == [2.5, 1]
        assert from_igraph(network, features=None, weight=None).edge_weight is None

    def test_what_cannot_be_used_is_named(self) -> None:
        with pytest.raises(DataError, match="2 nodes have no attribute 'x', the first is 0"):
            from_igraph(self.igraph.Graph(n=2))


def test_scipy_finds_out_whether_edges_have_a_direction() -> None:
    one_way = np.array([[0, 2.5, 0], [0, 0, 0], [0, 0, 1]])
    graph = from_scipy(one_way)
    assert graph.directed
    assert graph.edge_index.tolist() == [[0, 2], [1, 2]]
    assert graph.y.tolist() == [-1] * 3
    assert not from_scipy(sparse.coo_matrix(one_way + one_way.T)).directed
    assert not from_scipy(one_way, directed=False).directed
    assert to_scipy(from_scipy(one_way, directed=False)).toarray().tolist() == [[0, 2.5, 0], [2.5, 0, 0], [0, 0, 0]]
    with pytest.raises(DataError, match=r"adjacency matrix has shape \(2, 3\)"):
        from_scipy(one_way[:2])


def test_entries_of_an_adjacency_are_weights_unless_all_are_1() -> None:
    weighted = np.array([[0, 2.5, 0], [2.5, 0, 0], [0, 0, 3]])
    graph = from_scipy(sparse.coo_matrix(weighted))
    assert graph.edge_weight.tolist() == [2.5, 2.5, 3]
    assert not graph.directed
    for pattern in (weighted != 0, (weighted != 0) * 1.0):
        assert from_scipy(pattern).edge_weight is None
    weighted[0, 1] = 1
    assert from_scipy(weighted).directed  # another weight each way
    stored_zero = sparse.csr_array((np.array([0, 2.0]), np.array([1, 2]), np.array([0, 2, 2, 2])), shape=(3, 3))
    assert from_scipy(stored_zero).edge_weight.tolist() == [2]
    with pytest.raises(DataError, match=r"edge 0, which joins nodes \(0, 1\), has weight -1"):
        from_scipy(-(weighted != 0).astype(int))


@pytest.mark.parametrize(
    ("convert", "module", "extra"), [(to_pyg, "torch_geometric.data", "pyg"), (to_networkx, "networkx", "networkx")]
)
def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch, convert, module: str, extra: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(NlgnnError, match=rf"(?s)is not installed.*pip install 'nlgnn\[{extra}\]"):
        convert(make_graph())


def test_graphs_do_not_wait_for_torch() -> None:
    code = "import sys, nlgnn.graph; sys.exit(any(name in sys.modules for name in ('torch', 'networkx')))"
    subprocess.run([sys.executable, "-c", code], check=True)
