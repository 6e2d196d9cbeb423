r"""H2GCN: separate embeddings of a node, its neighbours and its two-hop neighbours.

From Zhu et al., `"Beyond Homophily in Graph Neural Networks: Current Limitations and Effective Designs"
<https://arxiv.org/abs/2006.11468>`_, NeurIPS 2020. Let :math:`A_1` and :math:`A_2` be the 0/1 matrices of nodes at
distance 1 and at distance exactly 2, without self loops, each entry divided by the roots of the degrees of both nodes
in that matrix. With inverted dropout `drop`,

.. math::
    R_0 &= \sigma(X W_e), \qquad R_k = [A_1 R_{k-1} \,\|\, A_2 R_{k-1}], \quad k = 1 \dots K \\
    Z &= \mathrm{drop}([R_0 \,\|\, R_1 \,\|\, \dots \,\|\, R_K])\, W_c

There are no biases, and the rounds have neither weights nor activations. Without dropout, everything after :math:`R_0`
is linear, so that the model can project first and then propagate. Let :math:`W_w` be the rows of :math:`W_c` that
multiply the block :math:`A_{w_1} \cdots A_{w_k} R_0`. By Horner's rule,

.. math::
    Z = Z_\emptyset, \qquad Z_w = R_0 W_w + A_1 Z_{w1} + A_2 Z_{w2}.

Each operator is then applied K times, with columns per class instead of per hidden unit.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from scipy import sparse
from torch import Tensor, nn
from torch.nn import functional as F

from nlgnn.graph.graph import Graph
from nlgnn.nn.base import Count, Model, Rate, checked
from nlgnn.nn.inputs import Edges, Features, features, given_adjacency
from nlgnn.nn.kernels.dropout import Dropout
from nlgnn.nn.kernels.ranks import active_ranks
from nlgnn.nn.kernels.sharded_tables import square
from nlgnn.nn.kernels.sparse import Operator, spmm
from nlgnn.nn.kernels.streamed import StreamedFeatures
from nlgnn.nn.layers import divided_by_degrees, split, times
from nlgnn.nn.local import given


class H2GCNInputs(NamedTuple):
    """Inputs of `forward`, in the order of its arguments."""

    x: Tensor | Operator | StreamedFeatures
    neighbours: Operator
    two_hop: Operator


class H2GCN(Model):
    """H2GCN, which embeds a node, its neighbours and its two-hop neighbours separately (Zhu et al., NeurIPS 2020).

    Args:
        in_channels: Number of features per node.
        hidden_channels: Width of the first embedding. All rounds together are 2^(rounds + 1) - 1 times as wide.
        out_channels: Width of the output.
        rounds: Number of rounds of propagation. H2GCN-1 has one, H2GCN-2 two.
        activation: Activation of the first embedding. It is relu or none.
        dropout: Share of units dropped before the classifier in training.

    Example:
        >>> import torch
        >>> from nlgnn import H2GCN
        >>> model = H2GCN(8, 16, 3)
        >>> model(torch.randn(10, 8), torch.randint(10, (2, 30))).shape
        torch.Size([10, 3])
    """

    over_ranks = True

    @checked
    def __init__(
        self,
        in_channels: Count,
        hidden_channels: Count,
        out_channels: Count,
        *,
        rounds: Count = 2,
        activation: Literal["relu", "none"] = "relu",
        dropout: Rate = 0.0,
    ) -> None:
        super().__init__()
        self.out_channels, self.rounds, self.activation = out_channels, rounds, activation
        self.dropout = Dropout(dropout)
        self.embedding = nn.Parameter(torch.empty(in_channels, hidden_channels))
        self.classifier = nn.Parameter(torch.empty((2 ** (rounds + 1) - 1) * hidden_channels, out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.embedding)
        nn.init.xavier_uniform_(self.classifier)

    def prepare(self, graph: Graph) -> H2GCNInputs:
        """Return the inputs of `forward`. Edges are used in both directions."""
        return H2GCNInputs(features(graph), *self._operators(graph.undirected_adjacency))

    def _operators(self, adjacency: sparse.csr_array, symmetric: bool = True) -> tuple[Operator, Operator]:
        dtype, device = self.embedding.dtype, self.embedding.device
        neighbours, two_hop = (
            divided_by_degrees(pattern, dtype, symmetric).to(device)
            for pattern in (adjacency, at_distance_two(adjacency, symmetric))
        )
        return neighbours, two_hop

    def forward(self, x: Features, edge_index: Edges, two_hop: Operator | None = None) -> Float[Tensor, "n c"]:
        """Return the logits, given the result of `prepare` or features and `edge_index`."""
        if isinstance(edge_index, Operator) and two_hop is not None:
            neighbours = edge_index
        else:
            edges = given(None if isinstance(edge_index, Operator) else edge_index, x.shape[0])
            neighbours, two_hop = self._operators(given_adjacency(edges, x.shape[0]), symmetric=False)
        embedded = times(x, self.embedding)
        if self.activation == "relu":
            embedded = F.relu(embedded)
        drops = self.training and self.dropout.is_random
        if not drops and self.out_channels < embedded.shape[1]:
            return self.project_then_propagate(embedded, neighbours, two_hop)
        return self.propagate_then_project(embedded, neighbours, two_hop)

    def propagate_then_project(
        self, embedded: Float[Tensor, "n f"], neighbours: Operator, two_hop: Operator
    ) -> Float[Tensor, "n c"]:
        """Compute the logits in the order of the equations.

        Blocks of hidden units are propagated one by one, because wider products would not fit into the cache.
        """
        blocks = latest = [embedded]
        for _ in range(self.rounds):
            latest = [spmm(operator, block) for operator in (neighbours, two_hop) for block in latest]
            blocks = blocks + latest
        return times(self.dropout(torch.cat(blocks, dim=1)), self.classifier)

    def project_then_propagate(
        self, embedded: Float[Tensor, "n f"], neighbours: Operator, two_hop: Operator
    ) -> Float[Tensor, "n c"]:
        """Compute the same logits, for no dropout, by Horner's rule from the last round to the first."""
        weights = self.classifier.unflatten(0, (-1, embedded.shape[1]))  # [blocks, hidden, classes]
        projected = times(embedded, weights.transpose(0, 1).flatten(1))
        *earlier, sums = split(projected, [self.out_channels * 2**k for k in range(self.rounds + 1)], dim=1)
        for own in reversed(earlier):
            # Consecutive blocks differ first in the operator that is applied to R₀ directly.
            of_neighbours, of_two_hop = sums.unflatten(1, (-1, 2, self.out_channels)).unbind(2)
            sums = own + spmm(neighbours, of_neighbours.flatten(1)) + spmm(two_hop, of_two_hop.flatten(1))
        return sums


def at_distance_two(adjacency: sparse.csr_array, symmetric: bool = True) -> sparse.csr_array:
    """Return the boolean matrix of pairs of nodes at a distance of exactly two."""
    within_one = sparse.csr_array(adjacency + sparse.eye_array(adjacency.shape[0], format="csr"), dtype=bool)
    # Numbers of paths instead of bools would take more memory and would keep neighbours that have common neighbours.
    exactly_two = square(within_one) > within_one
    if symmetric and active_ranks() is None:
        return exactly_two.T.tocsr()  # the same matrix with sorted columns, faster than sorting them
    exactly_two.sort_indices()
    return exactly_two
