r"""CPGCN, also known as CPGNN: class beliefs that are propagated with a learned class compatibility.

From Zhu et al., `"Graph Neural Networks with Heterophily" <https://arxiv.org/abs/2009.13566>`_, AAAI 2021. Let `drop`
be inverted dropout, :math:`A` the adjacency matrix (ones or edge weights), :math:`D` its row sums and :math:`\tilde{L}
= -D^{-1/2} A D^{-1/2}`. The model computes

.. math::
    \text{MLP prior:}\; R &= \mathrm{relu}(\mathrm{drop}(X W_1)) W_2 \\
    \text{Chebyshev prior:}\; R &= \mathrm{cheb}_2(\mathrm{drop}(\mathrm{relu}(\mathrm{cheb}_1(X)))), \quad
    \mathrm{cheb}(H) = H W_0 + \tilde{L} H W_1 + (2 \tilde{L}^2 - I) H W_2 \\
    B^{(0)} &= E = \mathrm{softmax}(R) - 1 / C, \quad B^{(k)} = E + A B^{(k-1)} \bar{H}, \quad
    \text{logits} = B^{(K)} + 1 / C

Training has two phases. The first one trains only the prior, with the cross entropy of :math:`R`. The second one
starts from the estimate of :math:`\bar{H}` below and trains all parameters with one of the losses

.. math::
    \text{paper:}\; \mathrm{CE}(\text{logits}) + \eta\, \mathrm{CE}(R) + \Phi(\bar{H}), \quad
    \text{released:}\; \mathrm{CE}(\text{logits}) + (1 + \eta)\, \Phi(\bar{H}), \quad
    \Phi(\bar{H}) = \sum_i \Big| \sum_j \bar{H}_{ij} \Big|

There are three differences from the authors. Dropout in the Chebyshev prior is our addition. The second phase starts
with a new optimiser; the authors' program continues with the moments of the epoch whose weights are restored. The
optimiser applies the same weight decay to the kernels in both phases; its factor in the second phase, :math:`\eta` in
the paper and :math:`1 + \eta` in the released program, is omitted. Before the estimate, :math:`\bar{H} = 0`, and the
logits are the probabilities of the prior.

The compatibility is estimated from the classes of neighbours. Let :math:`\tilde{B}` contain one-hot labels for training
nodes and the class probabilities of the prior for all other nodes. Then

.. math::
    M_c = \operatorname*{mean}_{v \in \text{train},\, y_v = c} (D^{-1} A \tilde{B})_v, \quad
    \hat{H} = \text{Sinkhorn-Knopp}(M), \quad \bar{H} = (\hat{H} + \hat{H}^T) / 2 - 1 / C

A node without neighbours counts as a row of zeros. If no training node of a class has a neighbour, its row of :math:`M`
is zero and is replaced by the column of that class. The difference to a sum of 1 is distributed over those entries of
the row that are unknown in the column as well.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy import sparse
from torch import Tensor, nn
from torch.nn import functional as F

from nlgnn.graph.graph import Graph
from nlgnn.nn.base import Count, Model, NonNegative, Rate, checked
from nlgnn.nn.inputs import Edges, Features, features, given_adjacency
from nlgnn.nn.kernels.dropout import Dropout
from nlgnn.nn.kernels.sparse import Operator, spmm
from nlgnn.nn.kernels.streamed import StreamedFeatures
from nlgnn.nn.layers import cross_entropy, divided_by_degrees, product, times
from nlgnn.nn.local import given


class CPGCNInputs(NamedTuple):
    """Inputs of `forward`. Only the Chebyshev prior has a Laplacian."""

    x: Tensor | Operator | StreamedFeatures
    adjacency: Operator
    laplacian: Operator | None


class CPGCNOutput(NamedTuple):
    """Output of CPGCN in training: the logits, and those of the prior for the loss."""

    logits: Tensor
    prior: Tensor


class CPGCN(Model):
    """CPGCN, which propagates class beliefs with a learned compatibility of classes (Zhu et al., AAAI 2021).

    Args:
        in_channels: Number of features per node.
        hidden_channels: Width of the hidden layer of the prior.
        out_channels: Number of classes.
        prior: Model of the first beliefs. mlp uses the features of the node itself, cheby those up to four hops away.
        hops: Number of propagation steps of the beliefs.
        dropout: Share of hidden units of the prior dropped in training.
        cotrain: Loss of the second phase. "paper" keeps the loss of the prior; "released" omits it, like the authors'
            program.
        cotrain_weight: Weight of the loss of the prior. With "released", it is the additional weight of the penalty on
            the compatibility.

    Example:
        >>> import torch
        >>> from nlgnn import CPGCN
        >>> model = CPGCN(8, 16, 3)
        >>> model(torch.randn(10, 8), torch.randint(10, (2, 30))).shape
        torch.Size([10, 3])
    """

    uses_edge_weights = True
    pretrains = True

    @checked
    def __init__(
        self,
        in_channels: Count,
        hidden_channels: Count,
        out_channels: Count,
        *,
        prior: Literal["mlp", "cheby"] = "mlp",
        hops: Count = 1,
        dropout: Rate = 0.0,
        cotrain: Literal["paper", "released"] = "paper",
        cotrain_weight: NonNegative = 1.0,
    ) -> None:
        super().__init__()
        self.hops, self.cotrain, self.cotrain_weight = hops, cotrain, cotrain_weight
        self.uses_laplacian = prior == "cheby"
        self.layers = nn.ModuleList(
            PolynomialFilter(a, b, terms=3 if self.uses_laplacian else 1)
            for a, b in [(in_channels, hidden_channels), (hidden_channels, out_channels)]
        )
        self.dropout = Dropout(dropout)
        self.compatibility = nn.Parameter(torch.zeros(out_channels, out_channels))

    def reset_parameters(self) -> None:
        super().reset_parameters()
        nn.init.zeros_(self.compatibility)

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Return the parameter groups. The compatibility has no weight decay."""
        return [{"params": list(self.layers.parameters())}, {"params": [self.compatibility], "weight_decay": 0.0}]

    def prepare(self, graph: Graph) -> CPGCNInputs:
        """Return the inputs of `forward`. Edges are used in both directions."""
        return CPGCNInputs(features(graph), *self._operators(graph.undirected_weights))

    def _operators(self, adjacency: sparse.csr_array, symmetric: bool = True) -> tuple[Operator, Operator | None]:
        like = self.compatibility
        laplacian = scaled_laplacian(adjacency, like.dtype, symmetric).to(like.device) if self.uses_laplacian else None
        return Operator.from_scipy(adjacency, symmetric).to(like.device, like.dtype), laplacian

    def forward(self, x: Features, edge_index: Edges, laplacian: Operator | None = None) -> Float[Tensor, "n c"]:
        """Return the logits, given the result of `prepare` or features and `edge_index`."""
        return self.training_output(x, edge_index, laplacian).logits

    def training_output(self, x: Features, edge_index: Edges, laplacian: Operator | None = None) -> CPGCNOutput:
        """Return the logits and the logits of the prior, which the loss needs as well."""
        if isinstance(edge_index, Operator):
            adjacency = edge_index
        else:
            adjacency, laplacian = self._operators(
                given_adjacency(given(edge_index, x.shape[0]), x.shape[0]), symmetric=False
            )
        prior = self.prior(x, laplacian)
        beliefs = probabilities(prior)
        logits = beliefs
        for _ in range(self.hops):
            centred = logits - 1 / beliefs.shape[1]
            logits = beliefs + product(spmm(adjacency, centred), self.compatibility)
        return CPGCNOutput(logits, prior)

    def prior(self, x: Features, laplacian: Operator | None) -> Float[Tensor, "n c"]:
        """Return the logits of the first beliefs."""
        first, second = self.layers
        # Dropout before or after the ReLU gives the same result.
        hidden: Tensor = self.dropout(F.relu(first(x, laplacian)))
        logits: Tensor = second(hidden, laplacian)
        return logits

    def pretrain_loss(self, output: Tensor | CPGCNOutput, y: Int[Tensor, " n"], nodes: Tensor) -> Float[Tensor, ""]:
        """Return the loss of the prior, or of the logits if the output has no prior."""
        return cross_entropy(output if isinstance(output, Tensor) else output.prior, y, nodes)

    def end_pretraining(self, inputs: tuple[Any, ...], y: Int[Tensor, " n"], nodes: Int[Tensor, " k"]) -> None:
        """Set the compatibility to its estimate from the training labels and the beliefs of the prior."""
        x, adjacency, laplacian = inputs
        beliefs = self.prior(x, laplacian).cpu().double().softmax(1)
        self.compatibility.copy_(estimate_compatibility(beliefs, adjacency, y, nodes))

    def loss(self, output: Tensor | CPGCNOutput, y: Int[Tensor, " n"], nodes: Tensor) -> Float[Tensor, ""]:
        """Return the cross entropy and, in training, add the penalty on row sums of the compatibility."""
        if isinstance(output, Tensor):
            return cross_entropy(output, y, nodes)
        final = cross_entropy(output.logits, y, nodes)
        imbalance = self.compatibility.sum(1).abs().sum()
        if self.cotrain == "released":
            return final + (1 + self.cotrain_weight) * imbalance
        return final + self.cotrain_weight * cross_entropy(output.prior, y, nodes) + imbalance


class PolynomialFilter(nn.Module):
    """Chebyshev filter: the sum of `T_i(L) x W_i` over one term (`x W`) or three, without bias."""

    def __init__(self, in_channels: int, out_channels: int, terms: Literal[1, 3]) -> None:
        super().__init__()
        self.kernels = nn.ParameterList(torch.empty(in_channels, out_channels) for _ in range(terms))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for kernel in self.kernels:
            nn.init.xavier_uniform_(kernel)

    def forward(self, x: Features, laplacian: Operator | None) -> Float[Tensor, "n f"]:
        if len(self.kernels) == 1:
            return times(x, self.kernels[0])
        assert laplacian is not None  # prepared by CPGCN
        # Projecting first and Horner's rule need only two sparse products, as wide as the result instead of x.
        constant, linear, quadratic = self.kernels
        received = times(x, linear) + spmm(laplacian, times(x, 2 * quadratic))
        return times(x, constant - quadratic) + spmm(laplacian, received)


def scaled_laplacian(adjacency: sparse.csr_array, dtype: torch.dtype, symmetric: bool = True) -> Operator:
    """Return `-D^(-1/2) A D^(-1/2)`: the normalised Laplacian minus the identity."""
    positive = divided_by_degrees(adjacency, dtype, symmetric)
    return Operator(positive.pointers, positive.columns, -positive.values, positive.shape, symmetric)


def probabilities(logits: Float[Tensor, "n c"]) -> Float[Tensor, "n c"]:
    """Return the softmax over classes.

    It runs on transposed logits, because torch then processes many nodes at once.
    """
    return logits.t().softmax(0).t()


SMALLEST_CHANGE, MOST_ROUNDS = 1e-12, 3000  # stopping rule of Sinkhorn-Knopp by Zhu et al.


def estimate_compatibility(
    beliefs: Float[Tensor, "n c"], adjacency: Operator, y: Int[Tensor, " n"], nodes: Int[Tensor, " k"]
) -> Float[Tensor, "c c"]:
    """Return the estimated centred compatibility of classes, in float64 on the CPU.

    Rows and columns sum to 0 if Sinkhorn-Knopp converges. With zeros among the counts, such a matrix may not exist.

    Args:
        beliefs: The class probabilities of all nodes.
        adjacency: The symmetric matrix of ones or edge weights, without self loops.
        y: The classes. Only those of `nodes` are used.
        nodes: The training nodes.
    """
    nodes, num_classes = nodes.cpu(), beliefs.shape[1]
    labels = F.one_hot(y.cpu()[nodes], num_classes).double()
    with_labels = beliefs.to("cpu", torch.float64, copy=True)
    with_labels[nodes] = labels
    neighbours = adjacency.to("cpu", torch.float64)
    degrees = spmm(neighbours, torch.ones(len(with_labels), 1, dtype=torch.float64))  # 0 without neighbours
    means = (spmm(neighbours, with_labels) / degrees.where(degrees > 0, 1))[nodes]
    by_class = labels.t() @ means / labels.sum(0).clamp(min=1)[:, None]
    doubly_stochastic = sinkhorn(fill_unknown_rows(by_class))
    return (doubly_stochastic + doubly_stochastic.t()) / 2 - 1 / num_classes


def fill_unknown_rows(matrix: Float[Tensor, "c c"]) -> Float[Tensor, "c c"]:
    """Replace rows of zeros by their columns.

    Entries that are unknown in both share the difference of the row to a sum of 1.
    """
    unknown = matrix.sum(1) == 0
    filled = torch.where(unknown[:, None], matrix.t(), matrix)
    missing = (1 - filled.sum(1)).clamp(min=0) / unknown.sum().clamp(min=1)
    return torch.where(unknown[:, None] & unknown, missing[:, None], filled)


def sinkhorn(matrix: Float[Tensor, "c c"]) -> Float[Tensor, "c c"]:
    """Divide by column sums and row sums in turn until both are 1 (Sinkhorn-Knopp).

    A matrix with zeros may converge slowly or never. Then only its rows sum to 1.
    """
    values = matrix.numpy()  # five times as fast as torch on such a small matrix
    for _ in range(MOST_ROUNDS):
        before = values
        for axis in (0, 1):
            sums = values.sum(axis, keepdims=True)
            values = values / np.where(sums == 0, 1, sums)
        if np.abs(values - before).sum() < SMALLEST_CHANGE:
            break
    return torch.from_numpy(values)
