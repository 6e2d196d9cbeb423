"""Peers: the same models written plainly with PyTorch Geometric, and the check that they are equal.

Each is timed in the forms of `variants`: with an edge index, which makes one message per edge and channel, with a CSR
adjacency, which PyTorch Geometric multiplies by, with features in CSR, too, and compiled. All of them use the fused
Adam of torch.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.plain_nlgcn import csr, import_pyg, translate
from nlgnn.errors import NlgnnError
from nlgnn.graph.graph import Graph
from nlgnn.nn.base import prepare
from nlgnn.nn.inputs import move, prepare_plain


class PlainGAT(nn.Module):
    """GAT: two layers; the heads of the first are concatenated, the second has one."""

    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int, heads: int = 8) -> None:
        super().__init__()
        pyg = import_pyg()
        self.layer1 = pyg.GATConv(in_channels, hidden_channels, heads=heads)
        self.layer2 = pyg.GATConv(heads * hidden_channels, out_channels)

    def forward(self, x: Float[Tensor, "n d"], edges: Tensor) -> Float[Tensor, "n c"]:
        logits: Tensor = self.layer2(F.relu(self.layer1(x, edges)), edges)
        return logits

    def decided(self, x: Float[Tensor, "n d"], edges: Tensor) -> Bool[Tensor, " n"]:
        """Return all nodes, because nothing is sorted here."""
        return torch.ones(len(x), dtype=torch.bool)

    @staticmethod
    def translate(ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return translate(ours, {"layers.0.": "layer1.", "layers.1.": "layer2."})


class NotEqualError(NlgnnError):
    """The two sides do not compute the same."""


Inputs = tuple[Tensor, Tensor]  # features, and edges


def edge_inputs(graph: Graph) -> Inputs:
    """Return dense features and the edge index."""
    x, edge_index = prepare_plain(graph)
    assert isinstance(x, Tensor)
    assert isinstance(edge_index, Tensor)
    return x, edge_index


def csr_inputs(graph: Graph) -> Inputs:
    """Return dense features and the transposed adjacency in CSR, which selects the fused aggregation of PyG."""
    x, edge_index = edge_inputs(graph)
    return x, csr(edge_index, len(x), x.dtype)


def sparse_inputs(graph: Graph) -> Inputs:
    """Return features and the transposed adjacency, both in CSR."""
    x, matrix = csr_inputs(graph)
    return x.to_sparse_csr(), matrix


def normalised_inputs(graph: Graph) -> Inputs:
    """Return dense features and the normalised adjacency with self loops in CSR."""
    from torch_geometric.nn.conv.gcn_conv import gcn_norm

    x, edge_index = edge_inputs(graph)
    n = len(x)
    (sources, targets), weights = gcn_norm(edge_index, None, n, dtype=x.dtype)
    rows = torch.stack([targets, sources])
    return x, torch.sparse_coo_tensor(rows, weights, (n, n), check_invariants=False).to_sparse_csr()


class Variant(NamedTuple):
    """A form in which a peer is timed: what it takes, and whether it is compiled."""

    label: str
    inputs: Callable[[Graph], Inputs]
    compiled: bool = False

    def ready(self, peer: nn.Module) -> nn.Module:
        """Return the peer as it is called. Compilation happens in the first calls."""
        return torch.compile(peer) if self.compiled else peer  # type: ignore[return-value]


PYG_SPARSE = "PyG, CSR, sparse features, fused Adam"
PYG, PYG_CSR, PYG_COMPILED = "PyG, fused Adam", "PyG, CSR, fused Adam", "PyG, compiled, fused Adam"


def variants(compiled: bool = True) -> list[Variant]:
    """Return the forms of a peer, the compiled ones only if there is a C++ compiler."""
    forms = [Variant(PYG, edge_inputs), Variant(PYG_CSR, csr_inputs), Variant(PYG_SPARSE, sparse_inputs)]
    if compiled and has_compiler():
        forms.append(Variant(PYG_COMPILED, edge_inputs, compiled=True))
    return forms


def has_compiler() -> bool:
    """Return whether torch.compile finds a C++ compiler on this machine."""
    return shutil.which("g++") is not None or shutil.which("clang++") is not None


def check_equal(
    ours: nn.Module,
    peer: Any,
    graph: Graph,
    nodes: Int[Tensor, " k"],
    inputs: Callable[[Graph], Inputs] = edge_inputs,
) -> None:
    """Raise unless both models compute the same logits, and the same gradients of the loss on these nodes.

    The peer gets our weights. Logits and gradients are compared in float64 on nodes that no tie reaches, because in
    float32 nodes with nearly equal scores change places. The loss is compared in float32, as it is timed. Prepared
    inputs may be rounded to float32, hence the tolerance.
    """
    peer.load_state_dict(peer.translate(ours.state_dict()))
    y = torch.tensor(graph.y)
    for dtype in (torch.float32, torch.float64):
        copies: list[Any] = [copy.deepcopy(model).to(dtype).eval() for model in (ours, peer)]
        our_copy, peer_copy = copies
        peer_inputs = move(inputs(graph), dtype)
        logits = our_copy(*prepare(our_copy, graph))
        peer_logits = peer_copy(*peer_inputs)
        decided = peer_copy.decided(*peer_inputs)
        known = nodes[decided[nodes]]
        loss, peer_loss = (F.cross_entropy(side[known], y[known]) for side in (logits, peer_logits))
        _assert_close("loss", loss, peer_loss, float(peer_loss.detach()), 1e-3)
    _assert_close("logits", logits[decided], peer_logits[decided], float(peer_logits.detach().abs().max()), 1e-5)
    loss.backward()
    peer_loss.backward()
    gradients = peer.translate({name: _gradient(parameter) for name, parameter in our_copy.named_parameters()})
    peer_gradients = {name: _gradient(parameter) for name, parameter in peer_copy.named_parameters()}
    largest = max(float(gradient.abs().max()) for gradient in peer_gradients.values())
    for name, gradient in peer_gradients.items():
        scale = float(gradient.abs().max()) + 1e-3 * largest  # one that nearly vanishes is rounded like the others
        _assert_close(f"gradient of {name}", gradients[name], gradient, scale, 1e-4)


def _gradient(parameter: nn.Parameter) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


def _assert_close(what: str, ours: Tensor, theirs: Tensor, scale: float, tolerance: float) -> None:
    difference = float((ours - theirs).detach().abs().max()) / scale
    if not difference <= tolerance:  # also where it is not a number
        raise NotEqualError(
            f"the two sides do not compute the same: {what} differs by {difference:.1e} of the largest value.",
            "Nothing was timed. Find the side that is wrong.",
        )
