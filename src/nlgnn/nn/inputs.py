"""From a Graph to what a module's forward takes: features, and edges in the form that the module wants."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from nlgnn.graph.graph import Graph
from nlgnn.graph.on_disk import FeaturesOnDisk
from nlgnn.nn.sparse import Operator
from nlgnn.nn.streamed import StreamedFeatures

Features = Float[Tensor, "n d"] | Operator | StreamedFeatures
Edges = Int[Tensor, "2 m"] | Operator | None
TAKES_WHAT_IT_PREPARES = (
    "this model takes more than features and edge_index.",
    "Call it as model(*model.prepare(graph)); nlgnn.from_pyg makes a graph of a PyG Data object.",
)
Prepared = TypeVar("Prepared", bound=tuple[Any, ...])


def move(prepared: Prepared, *args: Any, **kwargs: Any) -> Prepared:
    """Every part of what a model has prepared, moved as by `Tensor.to`: to a device, a floating-point type, or both."""
    moved = [_moved(part, *args, **kwargs) for part in prepared]
    return type(prepared)(*moved) if hasattr(prepared, "_fields") else type(prepared)(moved)


def _moved(part: Any, *args: Any, **kwargs: Any) -> Any:
    if part is None:
        return None
    if isinstance(part, Tensor) and not part.is_floating_point():  # numbers of nodes never change their type
        return part.to(torch.empty(0, device=part.device).to(*args, **kwargs).device)
    return part.to(*args, **kwargs)


class Inputs(NamedTuple):
    """What `forward` takes, in its order: `model(*model.prepare(graph))`."""

    x: Tensor | Operator | StreamedFeatures
    edge_index: Tensor | Operator | None


def features(graph: Graph) -> Tensor | Operator | StreamedFeatures:
    """Sparse features stay sparse, with which the first layer is faster on bags of words. What is on disk stays."""
    if isinstance(graph.x, FeaturesOnDisk):
        return StreamedFeatures(graph.x)
    return Operator.from_scipy(graph.x) if isinstance(graph.x, sparse.csr_array) else _tensor(graph.x)


def undirected_edges(graph: Graph) -> Int[Tensor, "2 m"]:
    """Both directions of every edge, no repetitions, no self loops."""
    adjacency = graph.undirected_adjacency
    edges = torch.empty(2, adjacency.nnz, dtype=torch.long)
    edges[0] = torch.from_numpy(np.repeat(np.arange(graph.num_nodes), np.diff(adjacency.indptr)))
    edges[1] = torch.from_numpy(adjacency.indices)
    return edges


def undirected_adjacency(edges: Int[Tensor, "2 m"], num_nodes: int) -> sparse.csr_array:
    """0/1 matrix of the symmetric closure, as that of a `Graph`; repetitions merged, self loops dropped."""
    sources, targets = edges[:, edges[0] != edges[1]].cpu().numpy()
    directed = sparse.csr_array((np.ones(len(sources), np.float32), (targets, sources)), shape=(num_nodes, num_nodes))
    adjacency = sparse.csr_array(directed + directed.T)
    adjacency.data[:] = 1
    return adjacency


def prepare_plain(graph: Graph) -> Inputs:
    """Dense features and a symmetric `edge_index`, for modules that know nothing of this package."""
    return Inputs(_tensor(graph.dense_features()), undirected_edges(graph))


def prepare(model: nn.Module, graph: Graph, device: torch.device | None = None) -> tuple[Any, ...]:
    """What the model's forward takes, in its type; models that do not say get dense features and `edge_index`."""
    prepared: tuple[Any, ...] = getattr(model, "prepare", prepare_plain)(graph)
    dtype = next((parameter.dtype for parameter in model.parameters() if parameter.is_floating_point()), torch.float32)
    return move(prepared, device, dtype)


def ignores_weights(model: nn.Module, graph: Graph) -> bool:
    """Whether the edges have weights that the model, or what it is wrapped around, does not look at."""
    says = (module.ignores_weights for module in model.modules() if hasattr(module, "ignores_weights"))
    return graph.edge_weight is not None and bool(next(says, True))


def with_self_loops(edges: Int[Tensor, "2 m"], num_nodes: int) -> Int[Tensor, "2 k"]:
    """Exactly one self loop a node, whatever was there before; other repetitions stay."""
    loops = torch.arange(num_nodes, device=edges.device).expand(2, -1)
    return torch.cat([edges[:, edges[0] != edges[1]], loops], dim=1)


def _tensor(values: NDArray[np.float32]) -> Tensor:
    """The same memory; only read-only arrays, such as columns of tables, are copied."""
    return torch.from_numpy(values if values.flags.writeable else values.copy())
