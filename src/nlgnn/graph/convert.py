"""From and to PyTorch Geometric, NetworkX, igraph and SciPy. Only SciPy is imported before it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nlgnn.errors import DataError, NlgnnError, OptionError
from nlgnn.graph.adjacency import weight_matrix
from nlgnn.graph.graph import Graph, as_features, as_integers, as_weights
from nlgnn.graph.splits import Split

MASKS = ("train_mask", "val_mask", "test_mask")


def from_pyg(data: Any, name: str = "graph") -> Graph:
    """A Graph from a `torch_geometric.data.Data`.

    `edge_weight` is taken over; `edge_attr` is not, since it may hold anything. The graph is directed unless every edge
    is there in both directions, with the same weight. Without `x` the features are the identity, without `y` all labels
    are unknown. Masks, `[num_nodes]` or `[num_nodes, num_splits]`, become the splits "column".
    """
    if getattr(data, "edge_index", None) is None:
        raise DataError(
            f"{type(data).__name__} has no edge_index.",
            "Give one homogeneous Data object: dataset[0], not the dataset; ToSparseTensor moves edges away.",
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
    """A `torch_geometric.data.Data` with dense features, as PyG's own datasets have them.

    An undirected graph gets every edge in both directions, once. Weights become `edge_weight`. Splits become masks,
    `[num_nodes]` for one split and `[num_nodes, num_splits]` for more; by default those that came with the graph.
    """
    data_module = _import("torch_geometric.data", "PyTorch Geometric", extra="pyg")
    torch = import_module("torch")
    x = graph.dense_features()
    edges, weight = graph.edge_index, graph.edge_weight
    if not graph.directed and weight is not None:
        distinct = _distinct_edges(graph)
        edges, weight = np.stack(distinct.coords).astype(np.int64), distinct.data
    elif not graph.directed:
        both = np.concatenate([edges, edges[::-1]], axis=1)  # [2, 2 * num_edges]
        edges = np.stack(np.divmod(np.unique(both[0] * graph.num_nodes + both[1]), graph.num_nodes))
    # tensor() copies: a change to the Data must not reach the Graph.
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
    """A Graph from a NetworkX graph.

    Args:
        network: any of NetworkX's four kinds.
        features: the node attribute that holds the row of features; None = the identity, one column a node.
        label: the node attribute that holds the label, a class number or a name; missing, None, NaN, an empty
            text or -1 = unknown.
        name: what tables and run folders call the graph.
        weight: the edge attribute that holds the weight; an edge without it has weight 1. If no edge has it, or with
            None, edges have no weights.
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
    """A NetworkX `Graph` or `DiGraph`: nodes by name, with attributes `x` (dense row) and `y` (-1 = unknown).

    Edges that were given more than once become one. Weights become the attribute `weight`. Splits are not carried over.
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
    if graph.edge_weight is None:
        network.add_edges_from((names[source], names[target]) for source, target in graph.edge_index.T)
    else:
        edges = _distinct_edges(graph)
        ends = zip(*(numbers.tolist() for numbers in edges.coords), edges.data.tolist(), strict=True)
        network.add_weighted_edges_from((names[source], names[target], weight) for source, target, weight in ends)
    return network


def _distinct_edges(graph: Graph) -> sparse.coo_array:
    """The weights of a weighted graph's edges, each once, loops too; in both directions where they have none."""
    assert graph.edge_weight is not None
    both = not graph.directed
    return weight_matrix(graph.edge_index, graph.edge_weight, graph.num_nodes, both, loops=True).tocoo()


def from_igraph(
    network: Any,
    features: str | None = "x",
    label: str = "y",
    name: str = "graph",
    weight: str | None = "weight",
) -> Graph:
    """A Graph from an igraph graph; arguments as of `from_networkx`. Nodes are called by their attribute `name`."""
    names = network.vs["name"] if "name" in network.vs.attributes() else range(network.vcount())
    rows, edges = [vertex.attributes() for vertex in network.vs], network.get_edgelist()
    weights = _weights(network.es[weight] if weight in network.es.attributes() else [], weight)
    return _from_attributes(names, rows, edges, weights, features, label, name, network.is_directed(), ())


def _weights(values: Sequence[Any], attribute: str | None) -> NDArray[np.float32] | None:
    """1 where there is none; None where no edge has one."""
    if all(value is None for value in values):
        return None
    return as_weights([1 if value is None else value for value in values], f"the attributes {attribute!r}")


def _is_missing(value: object) -> bool:
    """As pandas and empty cells of tables have it."""
    is_nan = isinstance(value, float | np.floating) and bool(np.isnan(value))
    return value is None or is_nan or (isinstance(value, str) and not value) or type(value).__name__ == "NAType"


def _whole(value: object) -> object:
    """The numbers of classes, which pandas makes floats of where some are missing."""
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
    """A Graph from one mapping of attributes a node, and edges between numbers of nodes."""
    missing = [
        node for node, row in zip(nodes, attributes, strict=True) if features is not None and features not in row
    ]
    if missing:
        raise DataError(
            f"{len(missing)} nodes have no attribute {features!r}, the first is {missing[0]!r}.",
            "Name the attribute of the features, or pass features=None for a graph without.",
        )
    if label != "y" and not any(label in row for row in attributes):
        raise DataError(f"no node has the attribute {label!r}.", "Name the attribute that holds the labels.")
    labels = [-1 if _is_missing(value) else _whole(value) for value in (row.get(label) for row in attributes)]
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
        edge_weight=weights,
    )


def from_scipy(
    adjacency: Any, x: Any = None, y: Any = None, directed: bool | None = None, name: str = "graph"
) -> Graph:
    """A Graph from a square adjacency matrix (row = source, column = target); every entry other than 0 is an edge.

    Args:
        adjacency: SciPy sparse matrix or NumPy array. Its entries are the weights, unless all are 0 or 1; without them:
            `from_scipy(adjacency != 0)`.
        x: features; None = the identity, one column a node.
        y: labels; None = all unknown.
        directed: None = directed unless the matrix is symmetric.
        name: what tables and run folders call the graph.
    """
    matrix = sparse.csr_array(adjacency)
    n = matrix.shape[0]
    if matrix.ndim != 2 or matrix.shape[1] != n:
        raise DataError(f"an adjacency matrix of shape {matrix.shape}.", "It needs one row and one column a node.")
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
    """The adjacency (row = source, column = target) without loops; symmetric where the graph is undirected.

    Its entries are the weights of edges, or 1 where they have none.
    """
    return (graph.directed_weights if graph.directed else graph.undirected_weights).copy()


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
