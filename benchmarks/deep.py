"""Training steps of deep models: against the sum of their products, and against PyTorch Geometric."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.peers import PYG_CSR, Variant, normalised_inputs
from benchmarks.plain_nlgcn import import_pyg
from benchmarks.steps import A_STEP, THREADS, TURN, Effort, Problem, against_peer, our_step
from benchmarks.timing import compare, paired_ratio, side_by_side, stopwatch, threads_in_use
from nlgnn.nn import GCN, GraphSAGE
from nlgnn.nn.base import prepare
from nlgnn.nn.kernels.sparse import SparseProduct
from nlgnn.nn.layers import times as multiply
from nlgnn.training.device import allocation

HIDDEN, DROPOUT = 64, 0.2
PRODUCTS = "products"
WITH_DROPOUT = A_STEP.replace("no dropout", f"dropout {DROPOUT:g}")


class PlainDeepGCN(nn.Module):
    """GCN with batch normalisation and residual connections, as a user of PyTorch Geometric makes it fast."""

    def __init__(
        self, in_channels: int, hidden_channels: int, out_channels: int, num_layers: int, dropout: float
    ) -> None:
        super().__init__()
        pyg, width = import_pyg(), hidden_channels
        self.input = nn.Linear(in_channels, width, bias=False)
        # Batch normalisation subtracts a bias again.
        convolutions = [pyg.GCNConv(width, width, normalize=False, bias=False) for _ in range(num_layers)]
        self.convolutions = nn.ModuleList(convolutions)
        self.skips = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(num_layers))
        self.norms = nn.ModuleList(nn.BatchNorm1d(width, track_running_stats=False) for _ in range(num_layers))
        self.last = nn.Linear(width, out_channels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "n d"], matrix: Tensor) -> Float[Tensor, "n c"]:
        """Return the logits, given the matrix of `normalised_inputs`."""
        h = self.input(x)
        for convolution, skip, norm in zip(self.convolutions, self.skips, self.norms, strict=True):
            h = self.dropout(F.relu(norm(convolution(h, matrix) + skip(h))))
        logits: Tensor = self.last(h)
        return logits

    def decided(self, x: Float[Tensor, "n d"], matrix: Tensor) -> Tensor:
        """Return all nodes, because nothing is sorted here."""
        return torch.ones(len(x), dtype=torch.bool)

    @staticmethod
    def translate(ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return weights or gradients of our model with the names and shapes of this one."""
        theirs = {}
        for name, value in ours.items():
            _, group, *rest = name.split(".")
            match group, rest[-1]:
                case (("input" | "last" | "skips"), "weight"):
                    theirs[".".join([group, *rest])] = value.t()
                case "layers", "weight":
                    theirs[f"convolutions.{rest[0]}.lin.weight"] = value.t()
                case (("norms" | "last"), ("weight" | "bias")):
                    theirs[".".join([group, *rest])] = value
        return theirs


def measure_deep(name: str, num_layers: int, effort: Effort) -> dict[str, Any]:
    """Time a step of a deep residual GCN and of its peer."""
    problem = Problem.named(name)
    widths = problem.graph.num_features, HIDDEN, problem.graph.num_classes
    ours = GCN(*widths, num_layers=num_layers, norm="batch", residual=True, dropout=DROPOUT)
    forms = [Variant(PYG_CSR, normalised_inputs)]

    def make_peer() -> PlainDeepGCN:
        return PlainDeepGCN(*widths, num_layers=num_layers, dropout=DROPOUT)

    return against_peer(problem, ours, make_peer, effort, forms, WITH_DROPOUT)


def measure_products(name: str, system: str, num_layers: int, effort: Effort) -> dict[str, Any]:
    """Time a step of a deep model and the products that it consists of; the ratio is that of step to products."""
    problem = Problem.named(name)
    widths = problem.graph.num_features, HIDDEN, problem.graph.num_classes
    kind = {"gcn": GCN, "sage": GraphSAGE}[system]
    model = kind(*widths, num_layers=num_layers, norm="batch", residual=True, dropout=DROPOUT)
    inputs = prepare(model, problem.graph)
    with threads_in_use(THREADS), allocation(frugal=False):
        sides = {
            "step": stopwatch(our_step(problem, model, inputs), TURN),
            PRODUCTS: stopwatch(products(inputs, num_layers, widths[2]), TURN),
        }
        times = side_by_side(sides, effort.rounds, effort.seconds)
        result = compare(times, f"{WITH_DROPOUT}; ratio: step to products")
        return {**result, "ratios": {PRODUCTS: paired_ratio(times["step"], times[PRODUCTS])._asdict()}}


def products(inputs: tuple[Any, ...], num_layers: int, num_classes: int) -> Callable[[], None]:
    """Return the dense and sparse products of a step, forward and backward, of matrices that each layer has of its own.

    A layer multiplies by two weights of `HIDDEN` columns, and propagates once.
    """
    x, operator = inputs
    transposed = x.t() if isinstance(x, Tensor) else x.transpose
    layers = torch.randn(num_layers, x.shape[0], HIDDEN)
    weight, outer = torch.randn(HIDDEN, HIDDEN), torch.randn(x.shape[0], num_classes)
    first, last = torch.randn(x.shape[1], HIDDEN), torch.randn(HIDDEN, num_classes)

    def run() -> None:
        for h in layers:
            SparseProduct.forward(operator, h @ weight)
            h @ weight
        for h in reversed(layers.unbind()):
            returned = SparseProduct.forward(operator.transpose, h)
            for gradient in (h, returned):
                gradient @ weight.t()
                h.t() @ gradient
        multiply(x, first)
        layers[-1] @ last
        outer @ last.t()
        layers[-1].t() @ outer
        multiply(transposed, layers[0])

    return run
