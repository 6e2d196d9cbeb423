r"""Geom-GCN (Pei et al., ICLR 2020): neighbours in the graph and in a latent space, sorted by the quadrant they lie in.

Every node has a position in a plane. Each pair of neighbours, in the graph or in the plane, lies in one of Q divisions:
{graph, latent} x {4 quadrants}, and one for the self loop; without one of the neighbourhoods, five. With all pairs
:math:`E^*`, the number :math:`\deg^*(v)` of those that arrive at :math:`v`, and a weight a division,

.. math::
    N_q[v, u] &= (\deg^*(v) \deg^*(u))^{-1/2} \;\text{for}\; u \to v \;\text{in division}\; q \\
    H &= \mathrm{relu}(\big\Vert_q N_q \,\mathrm{drop}(X)\, W_q) \\
    Z &= \frac{1}{Q} \sum_q N_q \,\mathrm{drop}(H)\, V_q

as the authors' program has it: the degree is that of all divisions together, and empty ones count among the Q.

All divisions are one product. Row :math:`v` of :math:`X W`, with the weights side by side, is read as Q rows; an
operator of :math:`Q n` rows and columns then has an entry a pair, between the rows of its division.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from nlgnn.datasets.relations import Relations, Space, load_relations
from nlgnn.errors import OptionError
from nlgnn.graph.graph import Graph
from nlgnn.nn.checks import check_choice, check_rate, check_width
from nlgnn.nn.dropout import Dropout
from nlgnn.nn.inputs import TAKES_WHAT_IT_PREPARES, Edges, Features, features
from nlgnn.nn.latent_space import isomap_relations
from nlgnn.nn.layers import inverse_power, times
from nlgnn.nn.model import Model, drop_features
from nlgnn.nn.sparse import Operator, spmm

Neighbourhood = Literal["both", "graph", "latent"]
Direction = Literal["second", "first"]


class GeomInputs(NamedTuple):
    """What `forward` takes, in its order."""

    x: Features
    within_divisions: Operator  # [Q n, Q n], from division q of a node to division q of another
    mean_over_divisions: Operator  # [n, Q n]


class Pairs(NamedTuple):
    """All pairs that messages pass along, self loops among them, each in its division."""

    receiver: NDArray[np.int64]
    sender: NDArray[np.int64]
    division: NDArray[np.int64]


class GeomGCN(Model):
    """Aggregates neighbours in the graph and in a latent space, a weight a quadrant (Pei et al., ICLR 2020).

    Args:
        in_channels: features a node.
        hidden_channels: width of the hidden layer, a division: with 9 divisions it is 9 times as wide.
        out_channels: width of the result.
        neighbourhood: which neighbours count: both, those in the graph (Geom-GCN-g) or those in the latent space
            (Geom-GCN-s).
        space: the latent space: isomap is computed here for any graph; the others are relations that the authors
            published for named graphs, of their own Isomap (isomap-released), the Poincaré disc or struc2vec.
        latent_direction: which of the two nodes that stand in a line of a published file receives, in the latent
            space; in the authors' program it is the second.
        dropout: share of input features and of hidden units dropped in training.
    """

    estimable = False  # published relations are of one graph, and Isomap takes too long to be tried out

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        neighbourhood: Literal["both", "graph", "latent"] = "both",
        space: Literal["isomap", "isomap-released", "poincare", "struc2vec"] = "isomap",
        latent_direction: Literal["second", "first"] = "second",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_width("in_channels", in_channels)
        check_width("hidden", hidden_channels)
        check_width("out_channels", out_channels)
        check_choice("neighbourhood", neighbourhood, get_args(Neighbourhood))
        check_choice("space", space, ("isomap", *get_args(Space)))
        check_choice("latent_direction", latent_direction, get_args(Direction))
        self.neighbourhood, self.space, self.latent_direction = neighbourhood, space, latent_direction
        self.hidden_channels, self.out_channels = hidden_channels, out_channels
        self.divisions = 9 if neighbourhood == "both" else 5
        wide = self.divisions * hidden_channels
        self.weight = nn.Parameter(torch.empty(in_channels, wide))
        self.output_weight = nn.Parameter(torch.empty(wide, self.divisions * out_channels))
        self.input_dropout = Dropout(check_rate("dropout", dropout))
        self.dropout = Dropout(dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier's uniform distribution, for the weight of each division by itself."""
        for weight, width in ((self.weight, self.hidden_channels), (self.output_weight, self.out_channels)):
            bound = math.sqrt(6 / (weight.shape[0] + width))
            nn.init.uniform_(weight, -bound, bound)

    def prepare(self, graph: Graph) -> GeomInputs:
        """What forward takes. The latent space is computed, or its relations are read, here and once."""
        if self.space == "isomap":
            relations = isomap_relations(graph, latent=self.neighbourhood != "graph")
        else:
            relations = load_relations(graph, self.space)
        pairs = divided_pairs(relations, graph.num_nodes, self.neighbourhood, self.latent_direction)
        return GeomInputs(features(graph), *operators(pairs, graph.num_nodes, self.divisions, self.weight.dtype))

    def forward(
        self, x: Features, within_divisions: Edges, mean_over_divisions: Operator | None = None
    ) -> Float[Tensor, "n classes"]:
        if not isinstance(within_divisions, Operator) or mean_over_divisions is None:
            raise OptionError(*TAKES_WHAT_IT_PREPARES)
        projected = times(drop_features(x, self.input_dropout), self.weight)
        aggregated = spmm(within_divisions, projected.reshape(-1, self.hidden_channels)).relu_()
        hidden = self.dropout(aggregated.reshape(projected.shape))
        return spmm(mean_over_divisions, times(hidden, self.output_weight).reshape(-1, self.out_channels))


def divided_pairs(
    relations: Relations, num_nodes: int, neighbourhood: Neighbourhood, latent_direction: Direction
) -> Pairs:
    """Each pair once, in one division. A neighbour both in the graph and in the latent space is one in the latter."""
    first, second, latent, quadrant = relations
    turned = latent & (latent_direction == "first")
    divisions = quadrant + 4 * latent if neighbourhood == "both" else quadrant
    wanted = first != second
    if neighbourhood != "both":
        wanted &= latent == (neighbourhood == "latent")
    latent_first = np.flatnonzero(wanted)[np.argsort(~latent[wanted], kind="stable")]
    receiver, sender = (np.where(turned, *ends)[latent_first] for ends in ((first, second), (second, first)))
    once = np.unique(receiver * num_nodes + sender, return_index=True)[1]
    loops = np.arange(num_nodes)
    own_division = np.full(num_nodes, 8 if neighbourhood == "both" else 4)
    return Pairs(
        np.append(receiver[once], loops),
        np.append(sender[once], loops),
        np.append(divisions[latent_first][once], own_division),
    )


def operators(pairs: Pairs, num_nodes: int, divisions: int, dtype: torch.dtype) -> tuple[Operator, Operator]:
    """The two operators of `GeomInputs`."""
    receiver, sender, division = pairs
    scale = inverse_power(np.bincount(receiver, minlength=num_nodes), 0.5, dtype)
    values = scale[receiver] * scale[sender]
    rows = num_nodes * divisions
    columns = sender * divisions + division
    within = sparse.csr_array((values, (receiver * divisions + division, columns)), shape=(rows, rows))
    mean = sparse.csr_array((values, (receiver, columns)), shape=(num_nodes, rows))
    mean.data /= divisions
    return Operator.from_scipy(within), Operator.from_scipy(mean)
