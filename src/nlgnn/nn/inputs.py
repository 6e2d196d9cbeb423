"""Conversion of a graph to the inputs of `forward`: features, and edges in the form that the model needs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from nlgnn.graph.descriptions import Description
from nlgnn.graph.features import FeaturesOnDisk
from nlgnn.graph.graph import Graph
from nlgnn.nn.kernels.ranks import active_ranks
from nlgnn.nn.kernels.sharded import own_table
from nlgnn.nn.kernels.sparse import Operator
from nlgnn.nn.kernels.streamed import StreamedFeatures

ROWS_AT_ONCE = 2**16
# A table with a larger share of entries is stored dense. A sparse table takes four times the memory per entry, for its
# column and the transpose, and its product is faster up to about half of all entries.
DENSE_SHARE = 0.25
Features = Float[Tensor, "n d"] | Operator | StreamedFeatures
Edges = Int[Tensor, "2 m"] | Operator | None
TAKES_WHAT_IT_PREPARES = (
    "this model takes more than features and edge_index.",
    "Call it as model(*model.prepare(graph)); nlgnn.from_pyg makes a graph of a PyG Data object.",
)
Prepared = TypeVar("Prepared", bound=tuple[Any, ...])


def move(prepared: Prepared, *args: Any, **kwargs: Any) -> Prepared:
    """Move all prepared inputs of a model, like `Tensor.to`, to a device, a floating-point type, or both."""
    moved = [_moved(part, *args, **kwargs) for part in prepared]
    return type(prepared)(*moved) if hasattr(prepared, "_fields") else type(prepared)(moved)


def _moved(part: Any, *args: Any, **kwargs: Any) -> Any:
    if part is None:
        return None
    if isinstance(part, Tensor) and not part.is_floating_point():  # node indices keep their type
        return part.to(torch.empty(0, device=part.device).to(*args, **kwargs).device)
    return part.to(*args, **kwargs)


class Inputs(NamedTuple):
    """Inputs of `forward`, in the order of its arguments, for `model(*model.prepare(graph))`."""

    x: Tensor | Operator | StreamedFeatures
    edge_index: Tensor | Operator | None


def features(graph: Graph) -> Tensor | Operator | StreamedFeatures:
    """Return the features of a graph in the form that the first layer reads.

    Sparse features stay sparse, because the first layer is then faster on bags of words. Features on disk stay there.
    """
    if isinstance(graph.x, FeaturesOnDisk):
        return StreamedFeatures(graph.x)
    return own_table(graph.x) if isinstance(graph.x, sparse.csr_array) else _tensor(graph.x)


def stored(table: Description) -> Description:
    """Return a sparse table dense, if too many entries are not zero: of all ranks, which must agree."""
    if isinstance(table, np.ndarray):
        return table
    ranks, entries, size = active_ranks(), table.nnz, table.shape[0] * table.shape[1]
    if ranks is not None:
        entries, size = ranks.add(torch.tensor([entries, size])).tolist()
    if entries <= DENSE_SHARE * size:
        return table
    dense: NDArray[Any] = table.toarray()
    return dense


def as_input(table: Description) -> Tensor | Operator:
    """Return a table as a first layer takes it."""
    return Operator.from_scipy(table) if isinstance(table, sparse.csr_array) else _tensor(table)


def undirected_edges(graph: Graph) -> Int[Tensor, "2 m"]:
    """Return both directions of every edge, without duplicates and self loops."""
    adjacency = graph.undirected_adjacency
    edges = torch.empty(2, adjacency.nnz, dtype=torch.long)
    edges[0] = torch.from_numpy(np.repeat(np.arange(graph.num_nodes), np.diff(adjacency.indptr)))
    edges[1] = torch.from_numpy(adjacency.indices)
    return edges


def given_adjacency(edges: Int[Tensor, "2 m"], num_nodes: int) -> sparse.csr_array:
    """Return the 0/1 matrix of directed edges, with targets as rows, without duplicates and self loops."""
    sources, targets = edges[:, edges[0] != edges[1]].cpu().numpy()
    adjacency = sparse.csr_array((np.ones(len(sources), np.float32), (targets, sources)), shape=(num_nodes, num_nodes))
    adjacency.sum_duplicates()
    adjacency.sort_indices()
    adjacency.data[:] = 1
    return adjacency


def prepare_plain(graph: Graph) -> Inputs:
    """Return dense features and a symmetric `edge_index`, for modules that do not depend on this package."""
    return Inputs(_tensor(graph.dense_features()), undirected_edges(graph))


def with_self_loops(edges: Int[Tensor, "2 m"], num_nodes: int) -> Int[Tensor, "2 k"]:
    """Replace all self loops by exactly one per node. Other duplicate edges are kept."""
    loops = torch.arange(num_nodes, device=edges.device).expand(2, -1)
    return torch.cat([edges[:, edges[0] != edges[1]], loops], dim=1)


def inverse_deviations(g: Tensor | StreamedFeatures) -> Float[Tensor, " d"]:
    """Return the inverse standard deviation of each column, and 0 for a column that hardly varies."""
    if isinstance(g, Tensor):
        chunks: Iterable[Tensor] = g.split(ROWS_AT_ONCE)
    else:
        chunks = (torch.from_numpy(rows).to(g.like) for _, rows in g.source.chunks())
    count, mean, squares = 0, torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    for rows in chunks:  # merges samples like Chan, Golub and LeVeque
        own = rows.double()
        mean, squares = mean.to(own.device), squares.to(own.device)
        away = own.mean(0) - mean
        squares = squares + (own - own.mean(0)).square().sum(0) + away.square() * count * len(own) / (count + len(own))
        mean, count = mean + away * len(own) / (count + len(own)), count + len(own)
    deviations = (squares / count).sqrt()
    varies = deviations > 1e-6 * (mean.abs() + deviations)
    return torch.where(varies, 1 / deviations.clamp(min=1e-300), 0.0)


def _tensor(values: NDArray[np.floating]) -> Tensor:
    """Return a tensor that shares memory with the array. Read-only arrays, such as table columns, are copied."""
    return torch.from_numpy(values if values.flags.writeable else values.copy())
