r"""FAGCN: a sum over neighbours with signed gates between -1 and 1.

From Bo et al., `"Beyond Low-frequency Information in Graph Convolutional Networks"
<https://arxiv.org/abs/2101.00797>`_, AAAI 2021. Let :math:`d` be the degrees in the undirected graph without self loops
and `drop` inverted dropout. The layers :math:`l = 1 \dots L`, each with its own :math:`g_l` and :math:`b_l`, compute

.. math::
    H^{(0)} &= \mathrm{drop}(\mathrm{relu}(\mathrm{drop}(X) W_1 + b_1)) \\
    \alpha_{ij} &= \tanh(g_l^T [h_i^{(l-1)} \| h_j^{(l-1)}] + b_l) \\
    h_i^{(l)} &= \varepsilon\, h_i^{(0)} + \sum_{j \in N(i)}
    \mathrm{drop}\Bigl(\frac{\alpha_{ij}}{\sqrt{d_i d_j}}\Bigr) h_j^{(l-1)} \\
    Z &= H^{(L)} W_2 + b_2

Edge weights :math:`w_{ij}` multiply the gates, and then :math:`d_i = \sum_j w_{ij}`. There are neither weights nor
activations between the layers, and all layers add the same :math:`H^{(0)}` after dropout.

The sum over neighbours needs O(m + n f) memory, because nothing is stored per edge and channel. For the entries
:math:`(i, j)` of a pattern, where :math:`i` receives, with weights :math:`w_{ij}`, it is

.. math::
    t_{ij} = \tanh(g_{dst}^T h_i + g_{src}^T h_j + b), \quad z_i = \sum_j w_{ij} t_{ij} h_j.

With :math:`s_{ij} = w_{ij} (1 - t_{ij}^2)` and the gradient :math:`q` of :math:`z`, the gradients of the two products
in :math:`t_{ij}` are sparse products as well:

.. math::
    q_i^T \sum_j s_{ij} h_j \quad\text{and}\quad h_j^T \sum_i s_{ij} q_i.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nlgnn.graph.graph import Graph
from nlgnn.nn.base import Count, Depth, Model, Rate, Share, checked, drop_features
from nlgnn.nn.inputs import Edges, Features, Inputs, features, given_adjacency
from nlgnn.nn.kernels.dropout import Dropout
from nlgnn.nn.kernels.function import Kernel
from nlgnn.nn.kernels.sparse import Operator, multiply
from nlgnn.nn.layers import FeatureLinear, divided_by_degrees
from nlgnn.nn.local import given


class FAGCN(Model):
    """FAGCN, which adds or subtracts each neighbour with a learned gate (Bo et al., AAAI 2021).

    Args:
        in_channels: Number of features per node.
        hidden_channels: Width of the embeddings in all layers.
        out_channels: Width of the output.
        num_layers: Number of propagation layers.
        eps: Share of the first embedding that every layer adds.
        dropout: Share of features, first embeddings and gates dropped.

    Example:
        >>> import torch
        >>> from nlgnn import FAGCN
        >>> model = FAGCN(8, 16, 3)
        >>> model(torch.randn(10, 8), torch.randint(10, (2, 30))).shape
        torch.Size([10, 3])
    """

    uses_edge_weights = over_ranks = True

    @checked
    def __init__(
        self,
        in_channels: Count,
        hidden_channels: Count,
        out_channels: Count,
        *,
        num_layers: Depth = 2,
        eps: Share = 0.3,
        dropout: Rate = 0.0,
    ) -> None:
        super().__init__()
        self.eps = eps
        self.dropout = Dropout(dropout)
        self.embedding = FeatureLinear(in_channels, hidden_channels)
        self.propagations = nn.ModuleList(GatedPropagation(hidden_channels) for _ in range(num_layers))
        self.classifier = FeatureLinear(hidden_channels, out_channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        nn.init.xavier_normal_(self.embedding.weight, GAIN)
        nn.init.xavier_normal_(self.classifier.weight, GAIN)

    def prepare(self, graph: Graph) -> Inputs:
        """Return the inputs of `forward`. Edges are used in both directions."""
        return Inputs(features(graph), divided_by_degrees(graph.undirected_weights, self._dtype))

    def forward(self, x: Features, edge_index: Edges = None) -> Float[Tensor, "n f"]:
        operator = self._operator(edge_index, x.shape[0])
        first = self.dropout(self.embedding(drop_features(x, self.dropout, 0)).relu(), 1)
        h = first
        for place, propagation in enumerate(self.propagations, start=2):
            gates = self.dropout(operator.values, place, first=operator.first_entry)
            h = propagation(h, operator, gates).add_(first, alpha=self.eps)
        logits: Tensor = self.classifier(h)
        return logits

    def _operator(self, edges: Edges, num_nodes: int) -> Operator:
        if isinstance(edges, Operator):
            return edges
        edges = given(edges, num_nodes)
        return divided_by_degrees(given_adjacency(edges, num_nodes), self._dtype, symmetric=False).to(edges.device)

    @property
    def _dtype(self) -> torch.dtype:
        return self.classifier.bias.dtype


GAIN = 1.414  # gain of the Xavier normal initialisation by Bo et al.


class GatedPropagation(nn.Module):
    """Sum over neighbours, each multiplied by a gate between -1 and 1 that depends on both nodes."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(1, 2 * channels))  # receiver, then sender
        self.bias = nn.Parameter(torch.empty(1))  # as in the authors' program
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.xavier_normal_(self.weight, GAIN)
        bound = 1 / math.sqrt(self.weight.shape[1])  # as in torch.nn.Linear
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, h: Float[Tensor, "n f"], pattern: Operator, weights: Float[Tensor, " m"]) -> Float[Tensor, "n f"]:
        square, rows = pattern.extended(h.contiguous())
        result: Tensor = GatedSum.apply(square, weights, rows, self.weight.view(2, -1), self.bias)[0]
        return pattern.own_rows(result)


class GatedSum(Kernel):
    """Gated sum over the entries of a pattern, and the gates.

    `forward` takes the edges with receivers as rows, whose values are ignored, one factor per gate, the embeddings, the
    vectors `g_dst` and `g_src`, and the bias of the gates. There is no gradient of the factors.
    """

    @staticmethod
    def forward(pattern: Operator, weights: Tensor, h: Tensor, vectors: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        receiver, sender = vectors @ h.t()  # [2, n] is many times faster than [n, 2]
        receiver += bias
        of_sender = sender.index_select(0, pattern.columns)
        gates = _tanh(receiver.index_select(0, pattern.rows).add_(of_sender))
        return multiply(pattern, torch.mul(weights, gates, out=of_sender), h), gates

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.pattern, weights, h, vectors, _ = inputs
        ctx.save_for_backward(weights, h, vectors, output[1])
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)  # a gradient of the gates would only take memory

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *_: None) -> tuple[Any, ...]:
        return None, None, *_GatedSumBackward.apply(ctx.pattern, gradient, *ctx.saved_tensors)


class _GatedSumBackward(Kernel):
    """Backward pass, as a separate kernel so that gradients inside `torch.func.vmap` have a rule as well."""

    @staticmethod
    def forward(
        pattern: Operator, gradient: Tensor, weights: Tensor, h: Tensor, vectors: Tensor, gates: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        transpose, order = pattern.transpose, pattern.transpose_order
        gradient = gradient.contiguous()
        slopes = torch.ops.aten.tanh_backward(weights, gates)
        to_receiver = multiply(pattern, slopes, h).mul_(gradient).sum(1)
        turned = slopes.index_select(0, order)
        to_sender = multiply(transpose, turned, gradient).mul_(h).sum(1)
        to_both = torch.stack([to_receiver, to_sender])
        torch.index_select(torch.mul(weights, gates, out=slopes), 0, order, out=turned)
        to_h = multiply(transpose, turned, gradient).addmm_(to_both.t(), vectors)
        return to_h, to_both @ h, to_receiver.sum(0, keepdim=True)


def _tanh(scores: Float[Tensor, " m"]) -> Float[Tensor, " m"]:
    """Compute tanh in place with the logistic function, in a third of the time of `torch.tanh`.

    The rounding error is that of numbers near 1.
    """
    return scores.mul_(2).sigmoid_().mul_(2).sub_(1)
