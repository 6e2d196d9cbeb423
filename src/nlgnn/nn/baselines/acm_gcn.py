r"""ACM-GCN: low-pass, high-pass and identity channels, mixed with weights that differ between nodes.

From Luan et al., `"Revisiting Heterophily For Graph Neural Networks" <https://arxiv.org/abs/2210.07606>`_, NeurIPS
2022. Let :math:`L = \tilde{D}^{-1}(A + I)` with the row sums :math:`\tilde{D}`, so that :math:`L` averages over a node
and its neighbours, and :math:`I - L` is the difference from that average. Each of two layers computes

.. math::
    H_L &= \mathrm{relu}(L H W_L), \quad H_H = \mathrm{relu}((I - L) H W_H), \quad H_I = \mathrm{relu}(H W_I) \\
    \alpha &= \mathrm{softmax}(\sigma([H_L w_L \,\|\, H_H w_H \,\|\, H_I w_I])\, W_{mix} / 3) \\
    H' &= 3\, (\alpha_L H_L + \alpha_H H_H + \alpha_I H_I)

with dropout before each layer and relu between them. ACMII applies relu before the filters, as in
:math:`H_L = L\, \mathrm{relu}(H W_L)`. ACM-GCN+ adds the channel :math:`H_S = \mathrm{relu}(A W_S)`, with 4 instead of
3 below :math:`W_{mix}` and no factor before the sum, and layer normalisation before :math:`w`. ACM-GCN++ also adds
:math:`\mathrm{drop}(\mathrm{relu}(X W_X + b_X))` to the input of the second layer.

The authors' program compares the names of its models such that the layer normalisation is never applied, and the factor
3 is in the program only; this follows the program.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from scipy import sparse
from torch import Tensor, nn
from torch.nn import functional as F

from nlgnn.errors import DataError, OptionError
from nlgnn.graph.descriptions import mean_matrix
from nlgnn.graph.graph import Graph
from nlgnn.nn.base import Count, Model, Rate, checked, drop_features
from nlgnn.nn.inputs import Features, features, given_adjacency
from nlgnn.nn.kernels.dropout import Dropout
from nlgnn.nn.kernels.sparse import Operator, spmm
from nlgnn.nn.kernels.streamed import StreamedFeatures
from nlgnn.nn.layers import FeatureLinear, numpy_type, times, with_diagonal
from nlgnn.nn.local import given


class ACMInputs(NamedTuple):
    """Inputs of `forward`, in the order of its arguments. The adjacency matrix is None if it is not used."""

    x: Tensor | Operator | StreamedFeatures
    average: Operator
    adjacency: Operator | None


class ACMGCN(Model):
    """ACM-GCN, which mixes low-pass, high-pass and identity channels node by node (Luan et al., NeurIPS 2022).

    Args:
        in_channels: Number of features per node.
        hidden_channels: Width of the first layer.
        out_channels: Width of the output.
        relu_first: Whether relu comes before the filters (ACMII).
        structure: Whether adjacency rows are a channel (ACM-GCN+). The model then knows nodes by number and cannot be
            used on another graph.
        layer_norm: Whether channels are normalised to compute shares.
        residual: Whether features are added to layer one (ACM-GCN++).
        dropout: Share of units dropped in training. Input features are dropped, too.
        num_nodes: Number of nodes of the graph, for `structure`.

    Example:
        >>> import torch
        >>> from nlgnn import ACMGCN
        >>> model = ACMGCN(8, 16, 3)
        >>> model(torch.randn(10, 8), torch.randint(10, (2, 30))).shape
        torch.Size([10, 3])
    """

    uses_edge_weights = True

    @checked
    def __init__(
        self,
        in_channels: Count,
        hidden_channels: Count,
        out_channels: Count,
        *,
        relu_first: bool = False,
        structure: bool = False,
        layer_norm: bool = False,
        residual: bool = False,
        dropout: Rate = 0.0,
        num_nodes: Count | None = None,
    ) -> None:
        super().__init__()
        if structure and num_nodes is None:
            raise OptionError("structure=True needs the number of nodes.", "Give num_nodes.")
        self.num_nodes = num_nodes if structure else None
        self.identifies_nodes = structure
        self.first = MixedChannels(in_channels, hidden_channels, self.num_nodes, relu_first, layer_norm)
        self.second = MixedChannels(hidden_channels, out_channels, self.num_nodes, relu_first, layer_norm)
        self.residual = FeatureLinear(in_channels, hidden_channels) if residual else None
        self.dropout = Dropout(dropout)

    def prepare(self, graph: Graph) -> ACMInputs:
        """Return the features, L and, for `structure`, A. Edges are used in both directions."""
        return ACMInputs(features(graph), *self._operators(graph.undirected_weights))

    def _operators(self, adjacency: sparse.csr_array, symmetric: bool = True) -> tuple[Operator, Operator | None]:
        kind, looped = self.first.weight, with_diagonal(adjacency)
        average = Operator.from_scipy(mean_matrix(looped, numpy_type(kind.dtype))).to(kind.device)
        if self.num_nodes is None:
            return average, None
        return average, Operator.from_scipy(adjacency, symmetric).to(kind.device, kind.dtype)

    def forward(
        self, x: Features, edge_index: Operator | Int[Tensor, "2 m"] | None = None, adjacency: Operator | None = None
    ) -> Float[Tensor, "n f"]:
        """Return the logits, given the result of `prepare` or features and `edge_index`."""
        if self.num_nodes not in (None, x.shape[0]):
            raise DataError(
                f"this ACMGCN knows {self.num_nodes} nodes by their numbers, but x has {x.shape[0]} rows.",
                "Train another one, or leave out structure.",
            )
        if not isinstance(edge_index, Operator):
            edges = given_adjacency(given(edge_index, x.shape[0]), x.shape[0])
            edge_index, adjacency = self._operators(edges, symmetric=False)
        x = drop_features(x, self.dropout, 0)
        h = self.dropout(F.relu(self.first(x, edge_index, adjacency)), 1)
        if self.residual is not None:
            h = h + self.dropout(F.relu(self.residual(x)), 2)
        result: Tensor = self.second(h, edge_index, adjacency)
        return result


class MixedChannels(nn.Module):
    """Layer of channels that are mixed with weights that differ between nodes."""

    def __init__(
        self, in_channels: int, out_channels: int, num_nodes: int | None, relu_first: bool, layer_norm: bool
    ) -> None:
        super().__init__()
        channels = 3 if num_nodes is None else 4
        self.relu_first, self.factor = relu_first, 3 if num_nodes is None else 1
        self.weight = nn.Parameter(torch.empty(in_channels, 3 * out_channels))  # low-pass, high-pass, identity
        self.structure = None if num_nodes is None else nn.Parameter(torch.empty(num_nodes, out_channels))
        self.scores = nn.Parameter(torch.empty(channels, out_channels))
        self.mixing = nn.Parameter(torch.empty(channels, channels))
        self.norms = nn.ModuleList([nn.LayerNorm(out_channels) if layer_norm else nn.Identity() for _ in self.scores])
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.scores.shape[1])
        for parameter in (self.weight, self.structure):
            if parameter is not None:
                nn.init.uniform_(parameter, -bound, bound)
        nn.init.uniform_(self.scores, -1, 1)
        nn.init.uniform_(self.mixing, -1 / math.sqrt(len(self.mixing)), 1 / math.sqrt(len(self.mixing)))
        for norm in self.norms:
            if isinstance(norm, nn.LayerNorm):
                norm.reset_parameters()

    def forward(self, x: Features, average: Operator, adjacency: Operator | None) -> Float[Tensor, "n f"]:
        channels = self._channels(times(x, self.weight), average)
        if self.structure is not None:
            assert adjacency is not None  # prepared by ACMGCN
            channels.append(F.relu(spmm(adjacency, self.structure)))
        scores = [norm(h) @ score for norm, h, score in zip(self.norms, channels, self.scores, strict=True)]
        logits = torch.stack(scores, dim=1).sigmoid() @ self.mixing / len(channels)
        shares = (self.factor * logits.softmax(dim=1)).split(1, dim=1)
        weighted = [share * h for share, h in zip(shares, channels, strict=True)]
        return torch.stack(weighted).sum(0)

    def _channels(self, h: Float[Tensor, "n t"], average: Operator) -> list[Tensor]:
        """Return the low-pass, the high-pass and the identity channel. One product averages the first two."""
        h = F.relu(h) if self.relu_first else h
        width = self.scores.shape[1]
        averaged_low, averaged_high = spmm(average, h[:, : 2 * width]).split(width, dim=1)
        _, high, identity = h.split(width, dim=1)
        channels = [averaged_low, high - averaged_high, identity]
        return channels if self.relu_first else [F.relu(channel) for channel in channels]
