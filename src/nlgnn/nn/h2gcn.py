r"""H2GCN: a node, its neighbours and the neighbours of these are kept apart (Zhu et al., NeurIPS 2020).

With :math:`A_1` and :math:`A_2` the 0/1 matrices of nodes at distance 1 and at distance exactly 2, each entry divided
by the roots of both nodes' degrees in that matrix, no self loops, and inverted dropout `drop`

.. math::
    R_0 &= \sigma(X W_e), \qquad R_k = [A_1 R_{k-1} \,\|\, A_2 R_{k-1}], \quad k = 1 \dots K \\
    Z &= \mathrm{drop}([R_0 \,\|\, R_1 \,\|\, \dots \,\|\, R_K])\, W_c

There are no biases, and neither weights nor activations in the rounds. Without dropout all after :math:`R_0` is linear:
one can project first and then propagate. With :math:`W_w` the rows of :math:`W_c` that meet the block
:math:`A_{w_1} \cdots A_{w_k} R_0`, and in the manner of Horner,

.. math::
    Z = Z_\emptyset, \qquad Z_w = R_0 W_w + A_1 Z_{w1} + A_2 Z_{w2}.

Each operator is then applied K times, to as many columns as classes instead of hidden units.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from scipy import sparse
from torch import Tensor, nn
from torch.nn import functional as F

from nlgnn.graph.graph import Graph
from nlgnn.nn.checks import check_choice, check_rate, check_width
from nlgnn.nn.dropout import Dropout
from nlgnn.nn.inputs import Edges, Features, features, undirected_adjacency
from nlgnn.nn.layers import divided_by_degrees, split, times
from nlgnn.nn.local import given
from nlgnn.nn.model import Model
from nlgnn.nn.sparse import Operator, spmm
from nlgnn.nn.streamed import StreamedFeatures


class H2GCNInputs(NamedTuple):
    """What `forward` takes, in its order."""

    x: Tensor | Operator | StreamedFeatures
    neighbours: Operator
    two_hop: Operator


class H2GCN(Model):
    """Keeps a node, its neighbours and the neighbours of these apart (Zhu et al., NeurIPS 2020).

    Args:
        in_channels: features a node.
        hidden_channels: width of the first embedding; all rounds together are 2^(rounds + 1) - 1 times as wide.
        out_channels: width of the result.
        rounds: how many times neighbours and two-hop neighbours are gathered: H2GCN-1 and H2GCN-2 of the paper.
        activation: after the first embedding: relu or none.
        dropout: share of all rounds' units dropped in training, before the classifier.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        rounds: int = 2,
        activation: Literal["relu", "none"] = "relu",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_width("in_channels", in_channels)
        check_width("hidden", hidden_channels)
        self.out_channels, self.rounds = check_width("out_channels", out_channels), check_width("rounds", rounds)
        self.activation = check_choice("activation", activation, ("relu", "none"))
        self.dropout = Dropout(check_rate("dropout", dropout))
        self.embedding = nn.Parameter(torch.empty(in_channels, hidden_channels))
        self.classifier = nn.Parameter(torch.empty((2 ** (rounds + 1) - 1) * hidden_channels, out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.embedding)
        nn.init.xavier_uniform_(self.classifier)

    def prepare(self, graph: Graph) -> H2GCNInputs:
        """What forward takes, computed once a graph. Edges are taken in both directions."""
        return H2GCNInputs(features(graph), *self._operators(graph.undirected_adjacency))

    def _operators(self, adjacency: sparse.csr_array) -> tuple[Operator, Operator]:
        dtype, device = self.embedding.dtype, self.embedding.device
        neighbours, two_hop = (
            divided_by_degrees(pattern, dtype).to(device) for pattern in (adjacency, at_distance_two(adjacency))
        )
        return neighbours, two_hop

    def forward(self, x: Features, edge_index: Edges, two_hop: Operator | None = None) -> Float[Tensor, "n c"]:
        """Takes what `prepare` gives, or features and `edge_index`."""
        if isinstance(edge_index, Operator) and two_hop is not None:
            neighbours = edge_index
        else:
            edges = given(None if isinstance(edge_index, Operator) else edge_index, x.shape[0])
            neighbours, two_hop = self._operators(undirected_adjacency(edges, x.shape[0]))
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
        """The equations as they stand, a block of hidden units at a time: wider products would leave the cache."""
        blocks = latest = [embedded]
        for _ in range(self.rounds):
            latest = [spmm(operator, block) for operator in (neighbours, two_hop) for block in latest]
            blocks = blocks + latest
        return times(self.dropout(torch.cat(blocks, dim=1)), self.classifier)

    def project_then_propagate(
        self, embedded: Float[Tensor, "n f"], neighbours: Operator, two_hop: Operator
    ) -> Float[Tensor, "n c"]:
        """The same without dropout, from the last round to the first."""
        weights = self.classifier.unflatten(0, (-1, embedded.shape[1]))  # [blocks, hidden, classes]
        projected = times(embedded, weights.transpose(0, 1).flatten(1))
        *earlier, sums = split(projected, [self.out_channels * 2**k for k in range(self.rounds + 1)], dim=1)
        for own in reversed(earlier):
            # The operator that is nearest to R₀ in a block's product is the one that changes first along the blocks.
            of_neighbours, of_two_hop = sums.unflatten(1, (-1, 2, self.out_channels)).unbind(2)
            sums = own + spmm(neighbours, of_neighbours.flatten(1)) + spmm(two_hop, of_two_hop.flatten(1))
        return sums


def at_distance_two(adjacency: sparse.csr_array) -> sparse.csr_array:
    """Who is reached in two steps at most, but not in one or none: a symmetric matrix of bools."""
    within_one = sparse.csr_array(adjacency + sparse.eye_array(adjacency.shape[0], format="csr"), dtype=bool)
    # Numbers of paths, in place of bools, would take more memory, and keep neighbours that have common neighbours.
    within_two = within_one @ within_one
    exactly_two = within_two > within_one
    return exactly_two.T.tocsr()  # the same matrix; its columns come in order, faster than by sorting
