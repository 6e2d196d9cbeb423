r"""How often neighbours are of which class, estimated from training labels and beliefs: where CPGCN starts from.

With beliefs :math:`\tilde{B}`: one-hot labels of training nodes, a model's class probabilities of all others,

.. math::
    M_c = \operatorname*{mean}_{v \in \text{train},\, y_v = c} (D^{-1} A \tilde{B})_v, \quad
    \hat{H} = \text{Sinkhorn-Knopp}(M), \quad \bar{H} = (\hat{H} + \hat{H}^T) / 2 - 1 / C

A node without neighbours counts as a row of zeros. A row of :math:`M` that is all zeros, since no training node of the
class has a neighbour, says nothing: it is taken from the column of that class, and what it then lacks to a sum of 1 is
spread over those of its entries that the column does not know either.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from nlgnn.nn.sparse import Operator, spmm

SMALLEST_CHANGE, MOST_ROUNDS = 1e-12, 3000  # where Sinkhorn-Knopp stops, as Zhu et al. have it


def estimate_compatibility(
    beliefs: Float[Tensor, "n c"], adjacency: Operator, y: Int[Tensor, " n"], nodes: Int[Tensor, " k"]
) -> Float[Tensor, "c c"]:
    """The centred compatibility of classes, in float64 on the CPU.

    Its rows and columns sum to 0 as far as Sinkhorn-Knopp gets: zeros among the counts may leave no such matrix.

    Args:
        beliefs: class probabilities of all nodes.
        adjacency: 0/1 or weights, symmetric, no self loops.
        y: classes; looked at for `nodes` only.
        nodes: the training nodes.
    """
    nodes, num_classes = nodes.cpu(), beliefs.shape[1]
    labels = F.one_hot(y.cpu()[nodes], num_classes).double()
    with_labels = beliefs.to("cpu", torch.float64, copy=True)
    with_labels[nodes] = labels
    neighbours = adjacency.to("cpu", torch.float64)
    degrees = spmm(neighbours, torch.ones(len(with_labels), 1, dtype=torch.float64))  # 0 of what has no neighbours
    means = (spmm(neighbours, with_labels) / degrees.where(degrees > 0, 1))[nodes]
    by_class = labels.t() @ means / labels.sum(0).clamp(min=1)[:, None]
    doubly_stochastic = sinkhorn(fill_unknown_rows(by_class))
    return (doubly_stochastic + doubly_stochastic.t()) / 2 - 1 / num_classes


def fill_unknown_rows(matrix: Float[Tensor, "c c"]) -> Float[Tensor, "c c"]:
    """Rows of zeros replaced by their columns; what is in neither shares what the row lacks to a sum of 1."""
    unknown = matrix.sum(1) == 0
    filled = torch.where(unknown[:, None], matrix.t(), matrix)
    missing = (1 - filled.sum(1)).clamp(min=0) / unknown.sum().clamp(min=1)
    return torch.where(unknown[:, None] & unknown, missing[:, None], filled)


def sinkhorn(matrix: Float[Tensor, "c c"]) -> Float[Tensor, "c c"]:
    """Sinkhorn-Knopp: divided by the sums of columns and of rows in turn, until both are 1.

    A matrix with zeros may get there slowly, or never; then only the rows sum to 1.
    """
    values = matrix.numpy()  # on so small a matrix five times as fast as torch
    for _ in range(MOST_ROUNDS):
        before = values
        for axis in (0, 1):
            sums = values.sum(axis, keepdims=True)
            values = values / np.where(sums == 0, 1, sums)
        if np.abs(values - before).sum() < SMALLEST_CHANGE:
            break
    return torch.from_numpy(values)
