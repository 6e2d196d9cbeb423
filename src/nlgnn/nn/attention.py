"""Attention over all pairs of nodes: what the sorted order replaces, kept to compare with."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F


class GlobalAttention(nn.Module):
    r"""Plain non-local aggregation, O(n²): :math:`\hat{z}_v = \sum_u \mathrm{softmax}_u(z_v^T z_u) z_u`."""

    def forward(self, z: Float[Tensor, "n f"], batch: Int[Tensor, " n"] | None = None) -> Float[Tensor, "n f"]:
        mask = None if batch is None else batch.unsqueeze(0) == batch.unsqueeze(1)  # [n, n]
        rows = z.expand(1, 1, -1, -1)  # one graph, one head: with these axes and no mask torch never holds n² weights
        return F.scaled_dot_product_attention(rows, rows, rows, attn_mask=mask, scale=1.0)[0, 0]
