"""Structure: descriptions of nodes side by side, which a learned space reads as one input.

The descriptions are those of :mod:`nlgnn.graph.descriptions`, with rows of length 1. A column of links belongs to one
node. In a graph of more than `MOST_COLUMNS` nodes, links have that many columns: a count sketch adds every column, with
a random sign, to one of them. Products of two rows keep their value in expectation.

Columns belong to the nodes that were known when the model was built. Further nodes are described by their links to
these, and links to further nodes are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from scipy import sparse
from torch import Tensor

from nlgnn.graph.descriptions import (
    comparable_rows,
    description_names,
    identifies_nodes,
    listed_descriptions,
    uses_features,
)
from nlgnn.graph.features import FeaturesOnDisk
from nlgnn.graph.graph import Graph
from nlgnn.nn.inputs import as_input, stored
from nlgnn.nn.kernels.sparse import Operator
from nlgnn.nn.layers import split, times

MOST_COLUMNS = 4096
SKETCH_SEED = 0


@dataclass(frozen=True, eq=False)
class Blocks:
    """Tables side by side, which only support `blocks @ weight`.

    Args:
        tables: The tables; None for one that has zeros only.
        widths: The number of columns of each table.
        num_nodes: The number of rows.
        like: An empty tensor of the device and type of the products.
    """

    tables: tuple[Tensor | Operator | None, ...]
    widths: tuple[int, ...]
    num_nodes: int
    like: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        return self.num_nodes, sum(self.widths)

    @property
    def device(self) -> torch.device:
        return self.like.device

    @property
    def dtype(self) -> torch.dtype:
        return self.like.dtype

    def to(self, *args: Any, **kwargs: Any) -> Blocks:
        """Move to a device, a floating-point type, or both, like `Tensor.to`."""
        tables = tuple(None if table is None else table.to(*args, **kwargs) for table in self.tables)
        return Blocks(tables, self.widths, self.num_nodes, self.like.to(*args, **kwargs))

    def __matmul__(self, weight: Float[Tensor, "d f"]) -> Float[Tensor, "n f"]:
        return torch.stack(self.products(weight)).sum(0)

    def products(self, weight: Float[Tensor, "d f"]) -> list[Float[Tensor, "n f"]]:
        """Return the product of every table and its rows of the weight."""
        none = weight.new_zeros(self.num_nodes, weight.shape[1])
        parts = zip(self.tables, split(weight, self.widths), strict=True)
        return [none if table is None else times(table, part) for table, part in parts]


def block_widths(descriptions: str, num_features: int, num_nodes: int) -> tuple[int, ...]:
    """Return the number of columns of each description.

    Args:
        descriptions: Names joined by +, or "all" for all but means over two hops.
        num_features: The number of features.
        num_nodes: The number of nodes.

    Example:
        >>> block_widths("out-links+means+degrees", num_features=3, num_nodes=10_000)
        (4096, 3, 2)
    """

    def width(name: str) -> int:
        if name == "degrees":
            return 2
        return num_features if uses_features(name) else link_columns(num_nodes)

    return tuple(width(name) for name in listed_descriptions(descriptions))


def structure_blocks(graph: Graph, descriptions: str, widths: Sequence[int], num_nodes: int) -> Blocks:
    """Return the descriptions of the nodes of a graph.

    With "all", those that the graph does not have are zeros: directions where edges have none, and descriptions made of
    features where there are no features or they are on disk.

    Args:
        graph: The graph.
        descriptions: Names joined by +, or "all".
        widths: The number of columns of each, by `block_widths`.
        num_nodes: The number of nodes whose links count.
    """
    present: Iterable[str] = listed_descriptions(descriptions)
    if descriptions == "all":
        on_disk = isinstance(graph.x, FeaturesOnDisk)
        present = [name for name in description_names(graph) if not (on_disk and uses_features(name))]
    tables: list[Tensor | Operator | None] = []
    for name in listed_descriptions(descriptions):
        if name not in present:
            tables.append(None)
        elif identifies_nodes(name):
            tables.append(Operator.from_scipy(link_rows(graph, name, num_nodes)))
        else:
            tables.append(as_input(stored(comparable_rows(graph, name))))
    return Blocks(tuple(tables), tuple(widths), graph.num_nodes, torch.empty(0))


def link_rows(graph: Graph, name: str, num_nodes: int) -> sparse.csr_array:
    """Return the links of all nodes with the first `num_nodes` nodes, in at most `MOST_COLUMNS` columns.

    Args:
        graph: The graph.
        name: links, out-links or in-links.
        num_nodes: The number of nodes whose links count.
    """
    rows = comparable_rows(graph, name)
    assert isinstance(rows, sparse.csr_array)
    known = rows if rows.shape[1] <= num_nodes else sparse.csr_array(rows[:, :num_nodes])
    return count_sketch(known, link_columns(num_nodes))


def link_columns(num_nodes: int) -> int:
    """Return the number of columns of links."""
    return min(num_nodes, MOST_COLUMNS)


def count_sketch(rows: sparse.csr_array, width: int) -> sparse.csr_array:
    """Return rows of a given width: every column is added, with a random sign, to a random one of the new columns.

    The sketch is linear and the same on every call. Rows that are not wider are returned as they are.

    Example:
        >>> import numpy as np
        >>> rows = sparse.csr_array(np.eye(8, dtype=np.float32))
        >>> count_sketch(rows, 4).shape, float(abs(count_sketch(rows, 4)).sum())
        ((8, 4), 8.0)
    """
    num_columns = rows.shape[1]
    if num_columns <= width:
        return rows
    rng = np.random.default_rng(SKETCH_SEED)
    places = rng.integers(width, size=num_columns, dtype=rows.indices.dtype)
    signs = rng.choice(np.array([-1, 1], rows.dtype), num_columns)
    values = rows.data * signs[rows.indices]
    sketch = sparse.csr_array((values, places[rows.indices], rows.indptr.copy()), shape=(rows.shape[0], width))
    sketch.sum_duplicates()
    return sketch
