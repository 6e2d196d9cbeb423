r"""GPR-GNN: an MLP whose outputs are propagated with one learned coefficient per hop (generalised PageRank).

From Chien et al., `"Adaptive Universal Generalized PageRank Graph Neural Network"
<https://arxiv.org/abs/2006.07988>`_, ICLR 2021. With the operator :math:`\hat{A}` of GCN and learned coefficients
:math:`\gamma_0, \dots, \gamma_K` of any sign,

.. math::
    Z = \sum_{k=0}^{K} \gamma_k \hat{A}^k H, \qquad H = \mathrm{drop}(\mathrm{MLP}(X)).

The coefficients start as those of another model:

.. math::
    \text{ppr: } \gamma_k &= \alpha (1 - \alpha)^k, \; \gamma_K = (1 - \alpha)^K
        & \text{nppr: } \gamma_k &= \alpha^k / \textstyle\sum_l \alpha^l \\
    \text{sgc: } \gamma_k &= 0, \; \gamma_K = 1
        & \text{random: } \gamma_k &= u_k / \textstyle\sum_l |u_l|, \; u_k \text{ uniform.}

"ppr" is APPNP. By Horner's rule, :math:`Z = Z_0` with :math:`Z_K = \gamma_K H` and
:math:`Z_k = \hat{A} Z_{k+1} + \gamma_k H`, so that only H is kept for the gradients. The coefficients have no weight
decay.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nlgnn.graph.graph import Graph
from nlgnn.nn.base import Count, Depth, Model, Rate, Share, checked
from nlgnn.nn.inputs import Edges, Features, Inputs, features
from nlgnn.nn.kernels.dropout import Dropout
from nlgnn.nn.kernels.sparse import Operator, spmm
from nlgnn.nn.layers import normalised, normalised_adjacency
from nlgnn.nn.local import MLP, given


class GPRGNN(Model):
    """GPR-GNN, an MLP followed by a learned polynomial of the graph (Chien et al., ICLR 2021).

    Args:
        in_channels: Number of features per node.
        hidden_channels: Width of the hidden layers of the MLP.
        out_channels: Width of the output.
        num_layers: Number of layers of the MLP.
        hops: Number of propagation steps.
        coefficients: Kind of coefficients at the start. It is "ppr" for personalised PageRank, "nppr" for powers of
            alpha, "sgc" for the last step alone, or "random".
        alpha: Probability to return to the node, for ppr. For "nppr" it is the base of the powers.
        dropout: Share of units of the MLP dropped in training. Input features are dropped, too.
        propagation_dropout: Share of outputs of the MLP dropped in training.

    Example:
        >>> import torch
        >>> from nlgnn import GPRGNN
        >>> model = GPRGNN(8, 16, 3)
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
        num_layers: Depth = 2,
        hops: Count = 10,
        coefficients: Literal["ppr", "nppr", "sgc", "random"] = "ppr",
        alpha: Share = 0.1,
        dropout: Rate = 0.0,
        propagation_dropout: Rate = 0.0,
    ) -> None:
        super().__init__()
        self.kind, self.alpha = coefficients, alpha
        self.mlp = MLP(in_channels, hidden_channels, out_channels, num_layers=num_layers, dropout=dropout)
        self.coefficients = nn.Parameter(torch.empty(hops + 1))
        self.dropout = Dropout(propagation_dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        last = len(self.coefficients) - 1
        hop = torch.arange(last + 1, dtype=self.coefficients.dtype, device=self.coefficients.device)
        match self.kind:
            case "ppr":
                values = self.alpha * (1 - self.alpha) ** hop
                values[-1] = (1 - self.alpha) ** last
            case "nppr":
                values = self.alpha**hop
            case "sgc":
                values = (hop == last).to(hop.dtype)
            case _:
                values = torch.empty_like(hop).uniform_(-1, 1)
        self.coefficients.data.copy_(values / values.abs().sum())

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Return the MLP and the coefficients, which have no weight decay."""
        return [*self.mlp.parameter_groups(), {"params": [self.coefficients], "weight_decay": 0.0}]

    def prepare(self, graph: Graph) -> Inputs:
        """Return the features and the operator of GCN. Edges are used in both directions."""
        return Inputs(features(graph), normalised(graph.undirected_weights, self.coefficients.dtype))

    def forward(self, x: Features, edge_index: Edges = None) -> Float[Tensor, "n f"]:
        if not isinstance(edge_index, Operator):
            edges = given(edge_index, x.shape[0])
            edge_index = normalised_adjacency(edges, x.shape[0], self.coefficients.dtype)
        h: Tensor = self.dropout(self.mlp(x))
        *others, last = self.coefficients.unbind()
        z = last * h
        for coefficient in reversed(others):
            z = spmm(edge_index, z) + coefficient * h
        return z
