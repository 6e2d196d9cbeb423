r"""Feature bank: a linear map of each of several descriptions of a node, weighted by a learned share.

The descriptions are the features X and their sums over neighbours :math:`P^k X`, which are computed once per graph: no
sparse product is left for training. With the descriptions :math:`X_0 = X, X_1, \dots, X_K`,

.. math::
    H_k &= s_k\, \mathrm{norm}(X_k W_k + b_k), \qquad s = (K + 1)\, \mathrm{softmax}(a) \\
    Z &= \mathrm{drop}(\mathrm{relu}([H_0 \,\|\, \dots \,\|\, H_K]))\, W + b

where `norm` divides each row by its length and :math:`a` has one number per description. Let :math:`A_{ij}` be the
weight of the edge from i to j (1 for unweighted edges), without self loops, and :math:`D` the diagonal matrix of row
sums, with 1 instead of 0. The matrices :math:`P` are

.. math::
    \text{out: } D^{-1} A, \qquad \text{root: } D^{-1/2} A D^{-1/2}, \qquad \text{loop: root of } A + I,

"in" and "all" are "out" of the reversed edges and of edges in both directions. In an undirected graph, A has both
directions, and out, in and all are the same.

FSGNN is the bank with root, loop and their powers up to three, without the factor :math:`K + 1` (Maurya, Liu, Murata,
`"Improving Graph Neural Networks with Simple Architecture Design" <https://arxiv.org/abs/2105.07634>`_, 2021). Its
program uses the edges in the direction of the file and no other. It also keeps self loops of the file, which are
dropped here: 16 each in Texas and Wisconsin.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, cast

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import AfterValidator, Field
from scipy import sparse
from torch import Tensor, nn
from torch.nn import functional as F

from nlgnn.errors import DataError, OptionError
from nlgnn.graph.descriptions import mean_matrix, scaled_matrix, unit_rows
from nlgnn.graph.graph import Graph
from nlgnn.nn.base import Count, Model, NonNegative, Positive, Rate, checked
from nlgnn.nn.blocks import link_columns, link_rows
from nlgnn.nn.inputs import TAKES_WHAT_IT_PREPARES, Features, as_input, given_adjacency, stored
from nlgnn.nn.kernels.dropout import Dropout
from nlgnn.nn.kernels.sharded import sums
from nlgnn.nn.kernels.sharded_tables import product_of_rows, transposed
from nlgnn.nn.kernels.sparse import Operator, spmm
from nlgnn.nn.layers import FeatureLinear, divided_by_length, inverse_power, numpy_type, times, with_diagonal
from nlgnn.nn.local import given

LINKS = ("links", "out-links", "in-links")
Table = TypeVar("Table")


def parse_operators(text: str) -> list[tuple[str, int]]:
    """Return names of operators and their powers; links have the power 0.

    Example:
        >>> parse_operators("out+all2+out-links")
        [('out', 1), ('all', 2), ('out-links', 0)]
    """
    found = []
    for part in text.split("+"):
        match = re.fullmatch(r"(out|in|all|root|loop)([1-9]?)", part.strip())
        if match is not None:
            found.append((match[1], int(match[2] or 1)))
        elif part.strip() in LINKS:
            found.append((part.strip(), 0))
        else:
            raise ValueError(
                f"{part!r} is not one of out, in, all, root and loop with a number of hops, such as out2, or of links, "
                "out-links and in-links"
            )
    return found


def _checked_operators(text: str) -> str:
    parse_operators(text)
    return text


Operators = Annotated[str, AfterValidator(_checked_operators)]


class FeatureBank(Model):
    """Feature bank: linear maps of a node's features and of means over its neighbours, weighted by learned shares.

    Args:
        in_channels: Number of features per node.
        hidden_channels: Width of each linear map.
        out_channels: Width of the output.
        operators: Sums over neighbours, such as out+all2. Names are joined by "+", each with a number of hops if it is
            not 1: "out", "in" and "all" are means over out-, in- and all neighbours, "root" and "loop" are those of
            FSGNN. "links", "out-links" and "in-links" are the neighbours themselves, one column per node.
        unit_rows: Whether rows of all inputs have length 1.
        row_norm: Whether rows of all linear maps have length 1.
        scale_shares: Whether shares have mean 1 instead of sum 1.
        combine: Whether maps are concatenated (cat) or added (sum).
        dropout: Share of hidden units dropped in training.
        share_lr: Learning rate of the shares. By default that of all weights.
        share_decay: Weight decay of the shares. By default that of all weights.
        output_decay: Weight decay of the last layer. By default that of all weights.
        members: Number of banks, each with its own loss. The logits are their mean.
        num_nodes: Number of nodes of the graph, for links.
        num_edge_types: Number of types of edges. Each adds the means over all neighbours by this type.

    Example:
        >>> import torch
        >>> from nlgnn import FeatureBank
        >>> model = FeatureBank(8, 16, 3)
        >>> model(torch.randn(10, 8), torch.randint(10, (2, 30))).shape
        torch.Size([10, 3])
    """

    uses_edge_weights = True
    accepts_more_nodes = True

    @checked
    def __init__(
        self,
        in_channels: Count,
        hidden_channels: Count,
        out_channels: Count,
        *,
        operators: Operators = "out+in+all",
        unit_rows: bool = True,
        row_norm: bool = True,
        scale_shares: bool = True,
        combine: Literal["cat", "sum"] = "cat",
        dropout: Rate = 0.0,
        share_lr: Positive | None = None,
        share_decay: NonNegative | None = None,
        output_decay: NonNegative | None = None,
        members: Count = 1,
        num_nodes: int | None = None,
        num_edge_types: Annotated[int, Field(ge=0)] = 0,
    ) -> None:
        super().__init__()
        of_each: dict[str, Any] = {
            "operators": operators,
            "unit_rows": unit_rows,
            "row_norm": row_norm,
            "scale_shares": scale_shares,
            "combine": combine,
            "dropout": dropout,
            "num_nodes": num_nodes,
            "num_edge_types": num_edge_types,
        }
        parsed = parse_operators(operators)
        self.operators = [(name, hops) for name, hops in parsed if hops > 0]
        self.links, self.num_nodes = [name for name, hops in parsed if hops == 0], num_nodes or 0
        self.identifies_nodes = bool(self.links)
        if self.links and num_nodes is None:
            raise OptionError(f"operators={operators!r} needs the number of nodes.", "Give num_nodes.")
        self.num_edge_types, self.uses_edge_types = num_edge_types, num_edge_types > 0
        self.unit_rows, self.row_norm, self.combine = unit_rows, row_norm, combine
        self.share_lr, self.share_decay, self.output_decay = share_lr, share_decay, output_decay
        widths = [in_channels] * (1 + len(self.operators) + num_edge_types)
        widths += [link_columns(self.num_nodes)] * len(self.links)
        number = len(widths)
        self.factor = number if scale_shares else 1
        self.maps = nn.ModuleList([FeatureLinear(width, hidden_channels) for width in widths])
        self.shares = nn.Parameter(torch.empty(number))
        self.output = FeatureLinear(hidden_channels * (number if combine == "cat" else 1), out_channels)
        self.dropout = Dropout(dropout)
        self.others = nn.ModuleList(
            [FeatureBank(in_channels, hidden_channels, out_channels, **of_each) for _ in range(members - 1)]
        )
        self.reset_parameters()

    @property
    def over_ranks(self) -> bool:  # type: ignore[override]
        """Return whether each process can compute the inputs of its nodes, which links and types of edges prevent."""
        return not self.links and self.num_edge_types == 0

    def reset_parameters(self) -> None:
        super().reset_parameters()
        nn.init.ones_(self.shares)

    @property
    def _members(self) -> list[FeatureBank]:
        return [self, *cast(Iterable[FeatureBank], self.others)]

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Return the linear maps, the shares and the last layer, which may have a weight decay of their own."""
        shares = {"lr": self.share_lr, "weight_decay": self.share_decay}
        output = {"weight_decay": self.output_decay}
        members = self._members
        return [
            {"params": [parameter for one in members for parameter in one.maps.parameters()]},
            {"params": [one.shares for one in members], **_without_none(shares)},
            {
                "params": [parameter for one in members for parameter in one.output.parameters()],
                **_without_none(output),
            },
        ]

    def prepare(self, graph: Graph) -> tuple[Tensor | Operator, ...]:
        """Return the features and all sums over neighbours, each sparse where few entries are not zero.

        No table takes more memory than a dense one, and one of them is held twice while it is converted.
        """
        x = graph.x if isinstance(graph.x, sparse.csr_array) else graph.dense_features()
        x = x.astype(numpy_type(self.shares.dtype), copy=False)
        adjacency = graph.directed_weights if graph.directed else graph.undirected_weights
        matrices = propagation_matrices(adjacency, graph.undirected_weights, self.shares.dtype)
        tables = [x, *powers(x, self.operators, lambda name, table: stored(product_of_rows(matrices(name), table)))]
        # Types of a larger graph that training did not have come last, and are left out.
        relations = list(graph.relations.values())[: self.num_edge_types]
        if len(relations) < self.num_edge_types:
            what = f"graph {graph.name!r} has {len(relations)} types of edges, the model {self.num_edge_types}."
            raise DataError(what, "Give edges the types of training.")
        dtype = numpy_type(self.shares.dtype)
        tables += [stored(mean_matrix(relation.undirected_weights, dtype) @ x) for relation in relations]
        links = [link_rows(graph, name, self.num_nodes) for name in self.links]
        return tuple(as_input(unit_rows(table) if self.unit_rows else table) for table in tables) + tuple(
            map(Operator.from_scipy, links)
        )

    def forward(self, x: Features, *others: Features | Int[Tensor, "2 m"]) -> Float[Tensor, "n f"]:
        """Return the logits, given the result of `prepare` or features and `edge_index`."""
        logits: Tensor = self.training_output(x, *others)[0]
        return logits

    def training_output(self, x: Features, *others: Features | Int[Tensor, "2 m"]) -> tuple[Tensor, ...]:
        """Return the logits, followed by those of each member."""
        tables = (x, *others)
        if not self.links and len(others) == 1 and isinstance(others[0], Tensor) and not others[0].is_floating_point():
            tables = self._tables(x, others[0])
        elif len(tables) != len(self.maps):
            raise OptionError(*TAKES_WHAT_IT_PREPARES)
        logits = [one._classify(tables) for one in self._members]
        return (logits[0] if len(logits) == 1 else torch.stack(logits).mean(0)), *logits

    def loss(self, output: Any, y: Int[Tensor, " n"], nodes: Tensor) -> Float[Tensor, ""]:
        """Return the sum of the cross entropies of all members, so that each is trained as it would be alone."""
        members = (output,) if isinstance(output, Tensor) else output[1:]
        losses = [super(FeatureBank, self).loss(logits, y, nodes) for logits in members]
        return losses[0] if len(losses) == 1 else torch.stack(losses).sum()

    def _classify(self, tables: tuple[Features, ...]) -> Float[Tensor, "n f"]:
        """Return the logits of this member."""
        shares = self.factor * self.shares.softmax(0)
        parts = []
        for table, linear, share in zip(tables, self.maps, shares, strict=True):
            h = linear(table)
            parts.append(share * (divided_by_length(h) if self.row_norm else h))
        hidden = F.relu(torch.cat(parts, dim=1) if self.combine == "cat" else torch.stack(parts).sum(0))
        result: Tensor = self.output(self.dropout(hidden))
        return result

    def _tables(self, x: Features, edges: Int[Tensor, "2 m"]) -> tuple[Tensor, ...]:
        """Return all inputs of the linear maps for a given `edge_index`. Repeated edges count once."""
        adjacency = sparse.csr_array(given_adjacency(given(edges, x.shape[0]), x.shape[0]).T)
        matrices = propagation_matrices(adjacency, sparse.csr_array(adjacency.maximum(adjacency.T)), self.shares.dtype)

        def multiply(name: str, table: Tensor) -> Tensor:
            return spmm(Operator.from_scipy(matrices(name)).to(table.device), table)

        dense = x if isinstance(x, Tensor) else times(x, torch.eye(x.shape[1]).to(self.shares))
        tables = (dense, *powers(dense, self.operators, multiply))
        return tuple(divided_by_length(table) for table in tables) if self.unit_rows else tables


def propagation_matrices(
    adjacency: sparse.csr_array, both_directions: sparse.csr_array, dtype: torch.dtype
) -> Callable[[str], sparse.csr_array]:
    """Return a function that returns the matrix of an operator by its name and computes each once."""

    @cache
    def matrix(name: str) -> sparse.csr_array:
        match name:
            case "in":
                summed = transposed(adjacency)
            case "all":
                summed = both_directions
            case "loop":
                summed = with_diagonal(adjacency)
            case _:
                summed = adjacency
        if name not in ("root", "loop"):
            return mean_matrix(summed, numpy_type(dtype))
        weights = sums(summed, axis=1)
        roots = inverse_power(np.where(weights == 0, 1, weights), 0.5, dtype)
        return scaled_matrix(summed, roots, roots)

    return matrix


def powers(x: Table, operators: Iterable[tuple[str, int]], multiply: Callable[[str, Table], Table]) -> Iterable[Table]:
    """Yield the product of `x` with each power of an operator. Each product is computed once."""
    found: dict[tuple[str, int], Table] = {}
    for name, number in operators:
        table = x
        for hop in range(1, number + 1):
            if (name, hop) not in found:
                found[name, hop] = multiply(name, table)
            table = found[name, hop]
        yield table


def _without_none(options: dict[str, float | None]) -> dict[str, float]:
    return {name: value for name, value in options.items() if value is not None}
