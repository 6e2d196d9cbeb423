"""The layers of local embeddings, for dense or sparse features, and the operators that they propagate with."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from nlgnn.nn.inputs import Features, with_self_loops
from nlgnn.nn.sparse import Operator, segment_softmax, spmm, spmm_values


def times(x: Features, weight: Float[Tensor, "d f"]) -> Float[Tensor, "n f"]:
    return spmm(x, weight) if isinstance(x, Operator) else x @ weight


class FeatureLinear(nn.Module):
    """`x W + b` for dense or sparse `x`. The weight lies as `[in, out]`, the way a sparse product reads it."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_channels, out_channels))
        self.bias = nn.Parameter(torch.empty(out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(max(1, self.weight.shape[0]))  # as torch.nn.Linear
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Features, edges: Operator | None = None) -> Float[Tensor, "n f"]:
        return times(x, self.weight) + self.bias


class GraphConvolution(FeatureLinear):
    """`A (x W) + b` for a given operator `A`."""

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, x: Features, edges: Operator | None = None) -> Float[Tensor, "n f"]:
        assert edges is not None  # GCN prepares it
        return spmm(edges, times(x, self.weight)) + self.bias


class GraphAttention(nn.Module):
    """Attention over the stored entries of an operator, several heads, concatenated."""

    def __init__(self, in_channels: int, out_channels: int, heads: int = 1, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads, self.out_channels = heads, out_channels
        self.weight = nn.Parameter(torch.empty(in_channels, heads * out_channels))
        self.attention_source = nn.Parameter(torch.empty(heads, out_channels))
        self.attention_target = nn.Parameter(torch.empty(heads, out_channels))
        self.bias = nn.Parameter(torch.empty(heads * out_channels))
        self.dropout = nn.Dropout(dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for matrix in (self.weight, self.attention_source, self.attention_target):
            nn.init.xavier_uniform_(matrix)
        nn.init.zeros_(self.bias)

    def forward(self, x: Features, edges: Operator) -> Float[Tensor, "n f"]:
        h = times(x, self.weight).reshape(-1, self.heads, self.out_channels)  # [n, heads, f]
        from_source = (h * self.attention_source).sum(2)  # [n, heads]
        from_target = (h * self.attention_target).sum(2)
        scores = F.leaky_relu(from_target[edges.rows] + from_source[edges.columns], 0.2)  # [m, heads]
        alpha = self.dropout(segment_softmax(scores, edges.rows, edges.shape[0]))
        gathered = [spmm_values(edges, alpha[:, head], h[:, head]) for head in range(self.heads)]
        return torch.cat(gathered, dim=1) + self.bias


def normalised_adjacency(edges: Tensor, num_nodes: int, dtype: torch.dtype | None = None) -> Operator:
    """GCN's operator: one self loop a node, each entry divided by the roots of both degrees."""
    sources, targets = with_self_loops(edges, num_nodes)
    degrees = torch.bincount(targets, minlength=num_nodes)
    scale = degrees.to(torch.get_default_dtype() if dtype is None else dtype).rsqrt()
    return Operator.from_coo(targets, sources, scale[sources] * scale[targets], (num_nodes, num_nodes))


def neighbourhoods(edges: Tensor, num_nodes: int) -> Operator:
    """GAT's pattern: every node's neighbours and itself, all entries 1."""
    sources, targets = with_self_loops(edges, num_nodes)
    ones = torch.ones(len(sources), device=edges.device)
    return Operator.from_coo(targets, sources, ones, (num_nodes, num_nodes))
