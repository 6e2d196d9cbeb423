r"""CPGCN (CPGNN; Zhu et al., AAAI 2021): prior beliefs of classes, spread by a learned compatibility of classes.

With inverted dropout `drop`, the raw adjacency :math:`A` (ones, or the weights of edges), the sums of its rows
:math:`D` and :math:`\tilde{L} = -D^{-1/2} A D^{-1/2}`

.. math::
    \text{MLP prior:}\; R &= \mathrm{relu}(\mathrm{drop}(X W_1)) W_2 \\
    \text{Chebyshev prior:}\; R &= \mathrm{cheb}_2(\mathrm{drop}(\mathrm{relu}(\mathrm{cheb}_1(X)))), \quad
    \mathrm{cheb}(H) = H W_0 + \tilde{L} H W_1 + (2 \tilde{L}^2 - I) H W_2 \\
    B^{(0)} &= E = \mathrm{softmax}(R) - 1 / C, \quad B^{(k)} = E + A B^{(k-1)} \bar{H}, \quad
    \text{logits} = B^{(K)} + 1 / C

Training has two phases: the prior alone, by the cross entropy of :math:`R`; then, from :math:`\bar{H}` as
:mod:`nlgnn.nn.compatibility` estimates it, all together by

.. math::
    \text{paper:}\; \mathrm{CE}(\text{logits}) + \eta\, \mathrm{CE}(R) + \Phi(\bar{H}), \quad
    \text{released:}\; \mathrm{CE}(\text{logits}) + (1 + \eta)\, \Phi(\bar{H}), \quad
    \Phi(\bar{H}) = \sum_i \Big| \sum_j \bar{H}_{ij} \Big|

Dropout in the Chebyshev prior is ours. The second phase starts with a fresh optimiser; in the authors' program it goes
on with the moments of the epoch whose weights are restored. Decay of the kernels is the optimiser's, with the same
weight in both phases: the factor that it has in the second, :math:`\eta` in the paper and :math:`1 + \eta` in the
released program, is left out. Until it is estimated,
:math:`\bar{H} = 0`, and the logits are the prior's probabilities.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from scipy import sparse
from torch import Tensor, nn
from torch.nn import functional as F

from nlgnn.errors import OptionError
from nlgnn.graph.graph import Graph
from nlgnn.nn.checks import check_choice, check_rate, check_width
from nlgnn.nn.compatibility import estimate_compatibility
from nlgnn.nn.dense import cross_entropy, product
from nlgnn.nn.dropout import Dropout
from nlgnn.nn.inputs import Edges, Features, features, undirected_adjacency
from nlgnn.nn.layers import divided_by_degrees, times
from nlgnn.nn.local import given
from nlgnn.nn.model import Model
from nlgnn.nn.sparse import Operator, spmm
from nlgnn.nn.streamed import StreamedFeatures


class CPGCNInputs(NamedTuple):
    """What `forward` takes; the Laplacian only for the Chebyshev prior."""

    x: Tensor | Operator | StreamedFeatures
    adjacency: Operator
    laplacian: Operator | None


class CPGCNOutput(NamedTuple):
    """What CPGCN returns in training: its loss looks at the prior too."""

    logits: Tensor
    prior: Tensor


class CPGCN(Model):
    """Spreads beliefs along edges by a learned compatibility of classes (Zhu et al., AAAI 2021).

    Args:
        in_channels: features a node.
        hidden_channels: width of the prior's hidden layer.
        out_channels: classes.
        prior: what gives each node its first belief: mlp from its own features, cheby from those up to four hops away.
        hops: how often beliefs are spread along edges.
        dropout: share of the prior's hidden units dropped in training.
        cotrain: "paper" keeps the prior's own loss while all is trained; "released" drops it, as the authors' program.
        cotrain_weight: weight of that loss; with "released", by how much the penalty on compatibility counts more.
    """

    ignores_weights = False

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        prior: Literal["mlp", "cheby"] = "mlp",
        hops: int = 1,
        dropout: float = 0.0,
        cotrain: Literal["paper", "released"] = "paper",
        cotrain_weight: float = 1.0,
    ) -> None:
        super().__init__()
        check_width("in_channels", in_channels)
        check_width("hidden", hidden_channels)
        check_width("out_channels", out_channels)
        check_choice("prior", prior, ("mlp", "cheby"))
        check_choice("cotrain", cotrain, ("paper", "released"))
        if cotrain_weight < 0:
            raise OptionError(f"cotrain_weight={cotrain_weight} is negative.", "Give a number of at least 0.")
        self.hops, self.cotrain, self.cotrain_weight = check_width("hops", hops), cotrain, cotrain_weight
        self.uses_laplacian = prior == "cheby"
        self.layers = nn.ModuleList(
            PolynomialFilter(a, b, terms=3 if self.uses_laplacian else 1)
            for a, b in [(in_channels, hidden_channels), (hidden_channels, out_channels)]
        )
        self.dropout = Dropout(check_rate("dropout", dropout))
        self.compatibility = nn.Parameter(torch.zeros(out_channels, out_channels))

    def reset_parameters(self) -> None:
        super().reset_parameters()
        nn.init.zeros_(self.compatibility)

    def decay_groups(self) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
        return list(self.layers.parameters()), [self.compatibility]

    def prepare(self, graph: Graph) -> CPGCNInputs:
        """What forward takes, computed once a graph. Edges are taken in both directions."""
        return CPGCNInputs(features(graph), *self._operators(graph.undirected_weights))

    def _operators(self, adjacency: sparse.csr_array) -> tuple[Operator, Operator | None]:
        like = self.compatibility
        laplacian = scaled_laplacian(adjacency, like.dtype).to(like.device) if self.uses_laplacian else None
        return Operator.from_scipy(adjacency, symmetric=True).to(like.device, like.dtype), laplacian

    def forward(
        self, x: Features, edge_index: Edges, laplacian: Operator | None = None
    ) -> Float[Tensor, "n c"] | CPGCNOutput:
        """Takes what `prepare` gives, or features and `edge_index`."""
        if isinstance(edge_index, Operator):
            adjacency = edge_index
        else:
            adjacency, laplacian = self._operators(undirected_adjacency(given(edge_index, x.shape[0]), x.shape[0]))
        prior = self.prior(x, laplacian)
        beliefs = probabilities(prior)
        logits = beliefs
        for _ in range(self.hops):
            centred = logits - 1 / beliefs.shape[1]
            logits = beliefs + product(spmm(adjacency, centred), self.compatibility)
        return CPGCNOutput(logits, prior) if self.training else logits

    def prior(self, x: Features, laplacian: Operator | None) -> Float[Tensor, "n c"]:
        """The logits of the first belief."""
        first, second = self.layers
        # Dropped before or after the ReLU is the same.
        hidden: Tensor = self.dropout(F.relu(first(x, laplacian)))
        logits: Tensor = second(hidden, laplacian)
        return logits

    def pretrain_loss(self, output: Tensor | CPGCNOutput, y: Int[Tensor, " n"], nodes: Tensor) -> Float[Tensor, ""]:
        """Of the prior alone; in evaluation, where there are only logits, of these."""
        return cross_entropy(output if isinstance(output, Tensor) else output.prior, y, nodes)

    def after_pretraining(self, inputs: CPGCNInputs, y: Int[Tensor, " n"], nodes: Int[Tensor, " k"]) -> None:
        """Set the compatibility to what training labels and the prior's beliefs say."""
        beliefs = self.prior(inputs.x, inputs.laplacian).cpu().double().softmax(1)
        self.compatibility.copy_(estimate_compatibility(beliefs, inputs.adjacency, y, nodes))

    def loss(self, output: Tensor | CPGCNOutput, y: Int[Tensor, " n"], nodes: Tensor) -> Float[Tensor, ""]:
        """Cross entropies and, in training, how far the rows of the compatibility are from a sum of 0."""
        if isinstance(output, Tensor):
            return cross_entropy(output, y, nodes)
        final = cross_entropy(output.logits, y, nodes)
        imbalance = self.compatibility.sum(1).abs().sum()
        if self.cotrain == "released":
            return final + (1 + self.cotrain_weight) * imbalance
        return final + self.cotrain_weight * cross_entropy(output.prior, y, nodes) + imbalance


class PolynomialFilter(nn.Module):
    """The sum of `T_i(L) x W_i` over Chebyshev polynomials `T_i`, for one term (`x W`) or three; no bias."""

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
        assert laplacian is not None  # CPGCN prepares it
        # Kernels first, and Horner's rule: two sparse products, as wide as the result, however wide x is.
        constant, linear, quadratic = self.kernels
        received = times(x, linear) + spmm(laplacian, times(x, 2 * quadratic))
        return times(x, constant - quadratic) + spmm(laplacian, received)


def scaled_laplacian(adjacency: sparse.csr_array, dtype: torch.dtype) -> Operator:
    """`-D^(-1/2) A D^(-1/2)` of a symmetric matrix: the normalised Laplacian minus the identity."""
    positive = divided_by_degrees(adjacency, dtype)
    return Operator(positive.pointers, positive.columns, -positive.values, positive.shape, symmetric=True)


def probabilities(logits: Float[Tensor, "n c"]) -> Float[Tensor, "n c"]:
    """The softmax. Classes come first: torch then works on many nodes at once."""
    return logits.t().softmax(0).t()
