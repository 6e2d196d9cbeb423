"""From and to PyTorch Geometric, NetworkX, igraph and SciPy. Only SciPy is imported before it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nlgnn.errors import DataError, NlgnnError, OptionError
from nlgnn.graph.graph import Graph, as_features, as_integers
from nlgnn.graph.splits import Split

MASKS = ("train_mask", "val_mask", "test_mask")


def from_pyg(data: Any, name: str = "graph") -> Graph:
    """A Graph from a `torch_geometric.data.Data`.

    The graph is directed unless every edge is there in both directions. Without `x` the features are the identity,
    without `y` all labels are unknown. Masks, `[num_nodes]` or `[num_nodes, num_splits]`, become the splits "column".
    """
    if getattr(data, "edge_index", None) is None:
        raise DataError(
            f"{type(data).__name__} has no edge_index.",
            "Give one homogeneous Data object: dataset[0], not the dataset; ToSparseTensor moves edges away.",
        )
    n = int(data.num_nodes)
    y = np.full(n, -1) if data.y is None else as_integers(_array(data.y), "labels")
    return Graph(
        x=_identity(n) if data.x is None else as_features(_features_from_torch(data.x), "features"),
        edge_index=_array(data.edge_index),
        y=y[:, 0] if y.shape == (n, 1) else y,  # the Open Graph Benchmark keeps labels as a column
        directed=bool(data.is_directed()),
        name=name,
        splits=_splits_from_masks(data, n),
    )


def to_pyg(graph: Graph, splits: Sequence[Split] | None = None) -> Any:
    """A `torch_geometric.data.Data` with dense features, as PyG's own datasets have them.

    An undirected graph gets every edge in both directions, once. Splits become masks, `[num_nodes]` for one split and
    `[num_nodes, num_splits]` for more; by default those that came with the graph.
    """
    data_module = _import("torch_geometric.data", "PyTorch Geometric", extra="pyg")
    torch = import_module("torch")
    x = graph.dense_features()
    edges = graph.edge_index
    if not graph.directed:
        both = np.concatenate([edges, edges[::-1]], axis=1)  # [2, 2 * num_edges]
        edges = np.stack(np.divmod(np.unique(both[0] * graph.num_nodes + both[1]), graph.num_nodes))
    # tensor() copies: a change to the Data must not reach the Graph.
    data = data_module.Data(x=torch.tensor(x), edge_index=torch.tensor(edges), y=torch.tensor(graph.y))
    chosen = _own_splits(graph) if splits is None else splits
    for mask_name, part in zip(MASKS, ("train", "val", "test"), strict=True):
        if chosen:
            masks = np.stack([getattr(split, part) for split in chosen], axis=1)  # [num_nodes, num_splits]
            data[mask_name] = torch.tensor(masks[:, 0] if len(chosen) == 1 else masks)
    return data


def from_networkx(network: Any, features: str | None = "x", label: str = "y", name: str = "graph") -> Graph:
    """A Graph from a NetworkX graph.

    Args:
        network: any of NetworkX's four kinds; edge attributes are not used.
        features: the node attribute that holds the row of features; None = the identity, one column a node.
        label: the node attribute that holds the label, a class number or a name; missing, None or -1 = unknown.
        name: what tables and run folders call the graph.
    """
    nodes = list(network.nodes)
    number = {node: i for i, node in enumerate(nodes)}
    edges = [(number[source], number[target]) for source, target in network.edges()]
    attributes = [network.nodes[node] for node in nodes]
    class_names = tuple(network.graph.get("class_names", ()))
    return _from_attributes(nodes, attributes, edges, features, label, name, network.is_directed(), class_names)


def to_networkx(graph: Graph) -> Any:
    """A NetworkX `Graph` or `DiGraph`: nodes by name, with attributes `x` (dense row) and `y` (-1 = unknown).

    Edges that were given more than once become one. Splits are not carried over.
    """
    networkx = _import("networkx", "NetworkX", extra="networkx")
    names: Sequence[Any] = range(graph.num_nodes) if graph.node_names is None else graph.node_names
    if len(set(names)) < graph.num_nodes:
        raise DataError(f"graph {graph.name!r}: two nodes have one name.", "NetworkX needs distinct node names.")
    x = graph.dense_features()
    network = networkx.DiGraph() if graph.directed else networkx.Graph()
    network.graph["class_names"] = graph.class_names
    network.add_nodes_from(
        (node, {"x": row, "y": int(label)}) for node, row, label in zip(names, x, graph.y, strict=True)
    )
    network.add_edges_from((names[source], names[target]) for source, target in graph.edge_index.T)
    return network


def from_igraph(network: Any, features: str | None = "x", label: str = "y", name: str = "graph") -> Graph:
    """A Graph from an igraph graph; arguments as of `from_networkx`. Nodes are called by their attribute `name`."""
    names = network.vs["name"] if "name" in network.vs.attributes() else range(network.vcount())
    rows = [vertex.attributes() for vertex in network.vs]
    return _from_attributes(names, rows, network.get_edgelist(), features, label, name, network.is_directed(), ())


def _from_attributes(
    nodes: Sequence[Any],
    attributes: Sequence[Mapping[str, Any]],
    edges: Sequence[tuple[int, int]],
    features: str | None,
    label: str,
    name: str,
    directed: bool,
    class_names: tuple[str, ...],
) -> Graph:
    """A Graph from one mapping of attributes a node, and edges between numbers of nodes."""
    missing = [
        node for node, row in zip(nodes, attributes, strict=True) if features is not None and features not in row
    ]
    if missing:
        raise DataError(
            f"{len(missing)} nodes have no attribute {features!r}, the first is {missing[0]!r}.",
            "Name the attribute of the features, or pass features=None for a graph without.",
        )
    labels = [-1 if value is None else value for value in (row.get(label, -1) for row in attributes)]
    if any(isinstance(value, str) for value in labels):
        class_names = class_names or tuple(sorted({str(value) for value in labels if value != -1}))
        class_number = {class_name: i for i, class_name in enumerate(class_names)}
        unknown = [value for value in labels if value != -1 and str(value) not in class_number]
        if unknown:
            raise DataError(f"label {unknown[0]!r} is not among class_names.", "Name every class in class_names.")
        labels = [-1 if value == -1 else class_number[str(value)] for value in labels]
    return Graph(
        x=_identity(len(nodes))
        if features is None
        else as_features([row[features] for row in attributes], f"the attributes {features!r}"),
        edge_index=np.array(edges, np.int64).reshape(-1, 2).T,
        y=as_integers(labels, f"the attributes {label!r}"),
        directed=directed,
        name=name,
        class_names=class_names,
        node_names=None if list(nodes) == list(range(len(nodes))) else tuple(str(node) for node in nodes),
    )


def from_scipy(
    adjacency: Any, x: Any = None, y: Any = None, directed: bool | None = None, name: str = "graph"
) -> Graph:
    """A Graph from a square adjacency matrix (row = source, column = target); every entry other than 0 is an edge.

    Args:
        adjacency: SciPy sparse matrix or NumPy array; weights are not used.
        x: features; None = the identity, one column a node.
        y: labels; None = all unknown.
        directed: None = directed unless the pattern is symmetric.
        name: what tables and run folders call the graph.
    """
    matrix = sparse.csr_array(adjacency)
    n = matrix.shape[0]
    if matrix.ndim != 2 or matrix.shape[1] != n:
        raise DataError(f"an adjacency matrix of shape {matrix.shape}.", "It needs one row and one column a node.")
    pattern = matrix != 0
    return Graph(
        x=_identity(n) if x is None else as_features(x, "features"),
        edge_index=np.stack(matrix.nonzero()).astype(np.int64),
        y=np.full(n, -1) if y is None else as_integers(y, "labels"),
        directed=(pattern != pattern.T).nnz > 0 if directed is None else directed,
        name=name,
    )


def to_scipy(graph: Graph) -> sparse.csr_array:
    """The 0/1 adjacency (row = source, column = target) without loops; symmetric where the graph is undirected."""
    return (graph.directed_adjacency if graph.directed else graph.undirected_adjacency).copy()


def _import(module: str, project: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise NlgnnError(f"{project} is not installed.", f"Run: pip install nlgnn[{extra}]") from error


def _array(tensor: Any) -> NDArray[Any]:
    """A NumPy copy of a tensor."""
    return np.array(tensor.detach().cpu().numpy())


def _features_from_torch(x: Any) -> NDArray[Any] | sparse.csr_array:
    if str(x.layout) == "torch.strided":
        return _array(x)
    entries = x.to_sparse_coo().coalesce()
    return sparse.csr_array((_array(entries.values()), _array(entries.indices())), shape=tuple(x.shape))


def _splits_from_masks(data: Any, n: int) -> dict[str, tuple[Split, ...]]:
    present = [mask_name for mask_name in MASKS if getattr(data, mask_name, None) is not None]
    if not present:
        return {}
    if len(present) < len(MASKS):
        raise DataError(f"the data has {', '.join(present)} only.", f"Give all of {', '.join(MASKS)}, or none.")
    masks = [_array(data[mask_name]) for mask_name in MASKS]
    for mask_name, mask in zip(MASKS, masks, strict=True):
        if mask.ndim not in (1, 2) or len(mask) != n:
            raise DataError(f"{mask_name} has shape {mask.shape}.", f"It must be [{n}] or [{n}, num_splits].")
    columns = [mask.reshape(n, -1) for mask in masks]  # each [n, 1] or [n, num_splits]
    widths = [column.shape[1] for column in columns]
    count = max(widths)
    if set(widths) - {1, count}:
        raise DataError(f"the masks have {', '.join(map(str, widths))} columns.", "Give one column a split.")
    # A mask of one column serves all splits: some datasets have many train masks and one test mask.
    train, val, test = (np.broadcast_to(column, (n, count)) for column in columns)
    return {"column": tuple(Split(train[:, i], val[:, i], test[:, i], index=i) for i in range(count))}


def _own_splits(graph: Graph) -> Sequence[Split]:
    if len(graph.splits) > 1:
        protocol = next(iter(graph.splits))
        raise OptionError(
            f"graph {graph.name!r} has splits of several protocols: {', '.join(graph.splits)}.",
            f"Say which: to_pyg(graph, graph.splits[{protocol!r}]), or () for none.",
        )
    return next(iter(graph.splits.values()), ())


def _identity(n: int) -> sparse.csr_array:
    return sparse.eye_array(n, dtype=np.float32, format="csr")
