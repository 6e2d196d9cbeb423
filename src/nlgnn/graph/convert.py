"""Conversion from and to PyTorch Geometric, NetworkX, igraph and SciPy, which are imported on use except SciPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nlgnn.errors import DataError, NlgnnError, OptionError
from nlgnn.graph.arrays import as_features, as_floats, as_integers, weight_matrix
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split

MASKS = ("train_mask", "val_mask", "test_mask")


def from_pyg(data: Any, name: str = "graph") -> Graph:
    """Convert a `torch_geometric.data.Data`.

    The graph is directed unless every edge is given in both directions with the same weight. Without `x` the features
    are the identity, and without `y` all labels are unknown. Masks, `[num_nodes]` or `[num_nodes, num_splits]`, become
    the splits "column". `edge_weight` is used, but `edge_attr` is not, because its meaning is not defined.

    Args:
        data: A homogeneous graph.
        name: The name of the graph in tables and run folders.

    Returns:
        The graph.

    Raises:
        DataError: If the data has no edges, or its arrays do not fit each other.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from nlgnn import from_pyg
        >>> data = Data(x=torch.ones(3, 2), edge_index=torch.tensor([[0, 1], [1, 2]]), y=torch.tensor([0, 1, 1]))
        >>> graph = from_pyg(data)
        >>> (graph.num_nodes, graph.directed)
        (3, True)
    """
    if getattr(data, "edge_index", None) is None:
        raise DataError(
            f"{type(data).__name__} has no edge_index.",
            "Give a homogeneous Data object: dataset[0] instead of the dataset, without ToSparseTensor.",
        )
    n = int(data.num_nodes)
    y = np.full(n, -1) if data.y is None else as_integers(_array(data.y), "labels")
    weight = None if getattr(data, "edge_weight", None) is None else _array(data.edge_weight)
    graph = Graph(
        x=_identity(n) if data.x is None else as_features(_features_from_torch(data.x), "features"),
        edge_index=_array(data.edge_index),
        y=y[:, 0] if y.shape == (n, 1) else y,  # the Open Graph Benchmark keeps labels as a column
        directed=bool(data.is_directed()),
        name=name,
        splits=_splits_from_masks(data, n),
        edge_weight=weight[:, 0] if weight is not None and weight.ndim == 2 and weight.shape[1] == 1 else weight,
    )
    if weight is None or graph.directed:
        return graph
    one_way = graph.directed_weights
    return replace(graph, directed=(one_way != one_way.T).nnz > 0)


def to_pyg(graph: Graph, splits: Sequence[Split] | None = None) -> Any:
    """Convert a graph to a `torch_geometric.data.Data` with dense features.

    An undirected graph gets every edge in both directions, once. Weights become `edge_weight`. Splits become masks,
    `[num_nodes]` for one split and `[num_nodes, num_splits]` for more.

    Args:
        graph: The graph.
        splits: The splits; by default those that came with the graph.

    Returns:
        The data.

    Raises:
        OptionError: If the graph has splits of several protocols and none is named.

    Example:
        >>> from nlgnn import load_graph, to_pyg
        >>> to_pyg(load_graph("mushroom-body")).num_nodes
        209
    """
    data_module = import_extra("torch_geometric.data", "PyTorch Geometric", extra="pyg")
    torch = import_module("torch")
    x = graph.dense_features()
    edges, weight = graph.edge_index, graph.edge_weight
    if not graph.directed:
        distinct = _distinct_edges(graph)
        edges, weight = np.stack(distinct.coords).astype(np.int64), None if weight is None else distinct.data
    # tensor() copies, so that changes of the Data do not reach the Graph.
    data = data_module.Data(x=torch.tensor(x), edge_index=torch.tensor(edges), y=torch.tensor(graph.y))
    if weight is not None:
        data.edge_weight = torch.tensor(weight)
    chosen = _own_splits(graph) if splits is None else splits
    for mask_name, part in zip(MASKS, ("train", "val", "test"), strict=True):
        if chosen:
            masks = np.stack([getattr(split, part) for split in chosen], axis=1)  # [num_nodes, num_splits]
            data[mask_name] = torch.tensor(masks[:, 0] if len(chosen) == 1 else masks)
    return data


def from_networkx(
    network: Any,
    features: str | None = "x",
    label: str = "y",
    name: str = "graph",
    weight: str | None = "weight",
) -> Graph:
    """Convert a NetworkX graph.

    Args:
        network: A graph of any of NetworkX's four classes.
        features: The node attribute of the features; None for the identity, one column per node.
        label: The node attribute of the label, a class number or a name. It is unknown if it is missing, None, NaN, an
            empty text or -1.
        name: The name of the graph in tables and run folders.
        weight: The edge attribute of the weight. An edge without it has weight 1. If no edge has it, or with None,
            edges have no weights.

    Returns:
        The graph.

    Raises:
        DataError: If a node has no features, or no node has the attribute of the label.

    Example:
        >>> import networkx as nx
        >>> from nlgnn import from_networkx
        >>> graph = from_networkx(nx.karate_club_graph(), features=None, label="club", weight=None)
        >>> (graph.num_nodes, sorted(graph.class_names))
        (34, ['Mr. Hi', 'Officer'])
    """
    nodes = list(network.nodes)
    number = {node: i for i, node in enumerate(nodes)}
    edges = [(number[source], number[target]) for source, target in network.edges()]
    weights = _weights([given.get(weight) for *_, given in network.edges(data=True)], weight)
    attributes = [network.nodes[node] for node in nodes]
    class_names = tuple(network.graph.get("class_names", ()))
    return _from_attributes(
        nodes, attributes, edges, weights, features, label, name, network.is_directed(), class_names
    )


def to_networkx(graph: Graph) -> Any:
    """Convert a graph to a NetworkX `Graph` or `DiGraph`, without its splits.

    Nodes have their names and the attributes `x` (dense row) and `y` (-1 is unknown). Repeated edges become one.
    Weights become the attribute `weight`.

    Args:
        graph: The graph.

    Returns:
        The network.

    Raises:
        DataError: If two nodes have one name.

    Example:
        >>> from nlgnn import load_graph, to_networkx
        >>> to_networkx(load_graph("mushroom-body")).number_of_nodes()
        209
    """
    networkx = import_extra("networkx", "NetworkX", extra="networkx")
    names: Sequence[Any] = range(graph.num_nodes) if graph.node_names is None else graph.node_names
    if len(set(names)) < graph.num_nodes:
        raise DataError(f"graph {graph.name!r}: two nodes have one name.", "Give distinct node names.")
    x = graph.dense_features()
    network = networkx.DiGraph() if graph.directed else networkx.Graph()
    network.graph["class_names"] = graph.class_names
    network.add_nodes_from(
        (node, {"x": row, "y": int(label)}) for node, row, label in zip(names, x, graph.y, strict=True)
    )
    edges = _distinct_edges(graph)
    for source, target, weight in zip(*edges.coords, edges.data.tolist(), strict=True):
        network.add_edge(names[source], names[target], **({} if graph.edge_weight is None else {"weight": weight}))
    return network


def _distinct_edges(graph: Graph) -> sparse.coo_array:
    """Return distinct edges and loops with their weights, in both directions if the graph is undirected."""
    both = not graph.directed
    return weight_matrix(graph.edge_index, graph.edge_weight, graph.num_nodes, both, loops=True).tocoo()


def from_igraph(
    network: Any,
    features: str | None = "x",
    label: str = "y",
    name: str = "graph",
    weight: str | None = "weight",
) -> Graph:
    """Convert an igraph graph, whose nodes are named by their attribute `name`.

    Args:
        network: The igraph graph.
        features: The node attribute of the features; None for the identity, one column per node.
        label: The node attribute of the label, as in `from_networkx`.
        name: The name of the graph in tables and run folders.
        weight: The edge attribute of the weight, as in `from_networkx`.

    Returns:
        The graph.
    """
    names = network.vs["name"] if "name" in network.vs.attributes() else range(network.vcount())
    rows, edges = [vertex.attributes() for vertex in network.vs], network.get_edgelist()
    weights = _weights(network.es[weight] if weight in network.es.attributes() else [], weight)
    return _from_attributes(names, rows, edges, weights, features, label, name, network.is_directed(), ())


def _weights(values: Sequence[Any], attribute: str | None) -> NDArray[np.float32] | None:
    """Return weights, 1 where missing; None if no edge has one."""
    if all(value is None for value in values):
        return None
    return as_floats([1 if value is None else value for value in values], f"the attributes {attribute!r}")


def _is_missing(value: object) -> bool:
    """Return whether a label is missing, in the forms of pandas and of empty cells."""
    is_nan = isinstance(value, float | np.floating) and bool(np.isnan(value))
    return value is None or is_nan or (isinstance(value, str) and not value) or type(value).__name__ == "NAType"


def _whole(value: object) -> object:
    """Return class numbers as integers; pandas stores them as floats if some are missing."""
    return int(value) if isinstance(value, float | np.floating) and float(value).is_integer() else value


def _from_attributes(
    nodes: Sequence[Any],
    attributes: Sequence[Mapping[str, Any]],
    edges: Sequence[tuple[int, int]],
    weights: NDArray[np.float32] | None,
    features: str | None,
    label: str,
    name: str,
    directed: bool,
    class_names: tuple[str, ...],
) -> Graph:
    """Return a graph from one mapping of attributes per node, and edges between node numbers."""
    missing = [
        node for node, row in zip(nodes, attributes, strict=True) if features is not None and features not in row
    ]
    if missing:
        raise DataError(
            f"{len(missing)} nodes have no attribute {features!r}, the first is {missing[0]!r}.",
            "Name the attribute of the features, or pass features=None.",
        )
    if label != "y" and not any(label in row for row in attributes):
        raise DataError(f"No node has the attribute {label!r}.", "Name the attribute that holds the labels.")
    labels = [-1 if _is_missing(value) else _whole(value) for value in (row.get(label) for row in attributes)]
    if any(isinstance(value, str) for value in labels):
        class_names = class_names or tuple(sorted({str(value) for value in labels if value != -1}))
        class_number = {class_name: i for i, class_name in enumerate(class_names)}
        unknown = [value for value in labels if value != -1 and str(value) not in class_number]
        if unknown:
            raise DataError(f"Label {unknown[0]!r} is not among class_names.", "Name every class in class_names.")
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
        edge_weight=weights,
    )


def from_scipy(
    adjacency: Any, x: Any = None, y: Any = None, directed: bool | None = None, name: str = "graph"
) -> Graph:
    """Convert a square adjacency matrix (row = source, column = target), in which every entry other than 0 is an edge.

    Args:
        adjacency: A SciPy sparse matrix or NumPy array. Its entries are weights unless all are 0 or 1. Pass
            `adjacency != 0` to ignore them.
        x: The features; None for the identity, one column per node.
        y: The labels; None if all are unknown.
        directed: Whether direction has a meaning; by default whether the matrix is not symmetric.
        name: The name of the graph in tables and run folders.

    Returns:
        The graph.

    Raises:
        DataError: If the matrix is not square.

    Example:
        >>> from_scipy([[0, 1], [1, 0]], y=[0, 1])
        Graph('graph': 2 nodes, 1 edges, 2 features, 2 classes)
    """
    matrix = sparse.csr_array(adjacency)
    n = matrix.shape[0]
    if matrix.ndim != 2 or matrix.shape[1] != n:
        raise DataError(f"The adjacency matrix has shape {matrix.shape}.", "Give one row and one column per node.")
    weight = matrix.data[matrix.data != 0]  # in the order of `nonzero`
    weighted = not (weight == 1).all()
    compared = matrix if weighted else matrix != 0
    return Graph(
        x=_identity(n) if x is None else as_features(x, "features"),
        edge_index=np.stack(matrix.nonzero()).astype(np.int64),
        edge_weight=weight if weighted else None,
        y=np.full(n, -1) if y is None else as_integers(y, "labels"),
        directed=(compared != compared.T).nnz > 0 if directed is None else directed,
        name=name,
    )


def to_scipy(graph: Graph) -> sparse.csr_array:
    """Convert a graph to its adjacency matrix (row = source, column = target) without loops.

    Args:
        graph: The graph.

    Returns:
        The matrix of edge weights, 1 if there are none; symmetric if the graph is undirected.

    Example:
        >>> from nlgnn import load_graph, to_scipy
        >>> to_scipy(load_graph("mushroom-body")).shape
        (209, 209)
    """
    return (graph.directed_weights if graph.directed else graph.undirected_weights).copy()


def import_extra(module: str, project: str, extra: str) -> Any:
    """Import a module of an optional project, and raise an error that names the extra if it is not installed."""
    try:
        return import_module(module)
    except ImportError as error:
        raise NlgnnError(f"{project} is not installed.", f"Run: pip install 'nlgnn[{extra}]'") from error


def _array(tensor: Any) -> NDArray[Any]:
    """Return a NumPy copy of a tensor."""
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
        raise DataError(f"The data only has {', '.join(present)}.", f"Give all of {', '.join(MASKS)}, or none.")
    masks = [_array(data[mask_name]) for mask_name in MASKS]
    for mask_name, mask in zip(MASKS, masks, strict=True):
        if mask.ndim not in (1, 2) or len(mask) != n:
            raise DataError(f"{mask_name} has shape {mask.shape}.", f"Give shape [{n}] or [{n}, num_splits].")
    columns = [mask.reshape(n, -1) for mask in masks]  # each [n, 1] or [n, num_splits]
    widths = [column.shape[1] for column in columns]
    count = max(widths)
    if set(widths) - {1, count}:
        raise DataError(f"The masks have {', '.join(map(str, widths))} columns.", "Give one column per split.")
    # A mask of one column is used for all splits: some datasets have several train masks and one test mask.
    train, val, test = (np.broadcast_to(column, (n, count)) for column in columns)
    return {"column": tuple(Split(train[:, i], val[:, i], test[:, i], index=i) for i in range(count))}


def _own_splits(graph: Graph) -> Sequence[Split]:
    if len(graph.splits) > 1:
        protocol = next(iter(graph.splits))
        raise OptionError(
            f"graph {graph.name!r} has splits of several protocols: {', '.join(graph.splits)}.",
            f"Pass one of them: to_pyg(graph, graph.splits[{protocol!r}]), or () for none.",
        )
    return next(iter(graph.splits.values()), ())


def _identity(n: int) -> sparse.csr_array:
    return sparse.eye_array(n, dtype=np.float32, format="csr")
