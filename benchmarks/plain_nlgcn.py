"""NLGCN written plainly with PyTorch Geometric, and a script that trains it on every split of a graph.

`python -m benchmarks.plain_nlgcn FILE EPOCHS` imports nothing of nlgnn, as a program without it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

HIDDEN, LR = 48, 0.05


class PlainNLGCN(nn.Module):
    """NLGCN: two GCN layers, sorting by score, two convolutions along the order, and back.

    Edges, an edge index or a CSR adjacency of `benchmarks.peers.csr_inputs`, are normalised once, in the first forward.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        dropout: float = 0.0,
        score_bias: bool = False,
    ) -> None:
        super().__init__()
        pyg = import_pyg()
        self.layer1 = pyg.GCNConv(in_channels, hidden_channels, cached=True)
        self.layer2 = pyg.GCNConv(hidden_channels, out_channels, cached=True)
        self.score = nn.Linear(out_channels, 1, bias=score_bias)
        self.along1 = nn.Conv1d(out_channels, out_channels, 5, padding=2)
        self.along2 = nn.Conv1d(out_channels, out_channels, 5, padding=2)
        self.head = nn.Linear(2 * out_channels, out_channels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "n d"], edges: Tensor) -> Float[Tensor, "n c"]:
        z = self.embed(x, edges)
        score, order = self.score(z).squeeze(1).sort()
        along_order = (score.unsqueeze(1) * z[order]).t().unsqueeze(0)  # [1, c, n]
        mixed = self.along2(self.dropout(F.relu(self.along1(along_order))))
        back = mixed.squeeze(0).t()[order.argsort()]
        logits: Tensor = self.head(torch.cat([z, back], dim=1))
        return logits

    def embed(self, x: Float[Tensor, "n d"], edges: Tensor) -> Float[Tensor, "n c"]:
        z: Tensor = self.layer2(self.dropout(F.relu(self.layer1(x, edges))), edges)
        return z

    def decided(self, x: Float[Tensor, "n d"], edges: Tensor) -> Bool[Tensor, " n"]:
        """Return the nodes that no tie of scores reaches. Nodes that tie may be sorted in any order."""
        score, order = self.score(self.embed(x, edges)).squeeze(1).sort()
        gaps = F.pad(score.diff(), (1, 1), value=torch.inf)  # before every position, and after the last
        is_tied = (gaps < 1e-6 * score.abs().max()).to(x.dtype)
        reach = 5  # two convolutions of 5 see 4 positions each way, and a tie lies between two positions
        near_tie = F.max_pool1d(is_tied.unsqueeze(0), 2 * reach, stride=1, padding=reach)[0, 1:-1] > 0
        return torch.empty_like(near_tie).scatter(0, order, ~near_tie)

    @staticmethod
    def translate(ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return weights or gradients of our model with the names and shapes of this one."""
        renamed = {
            "local.layers.0.": "layer1.",
            "local.layers.1.": "layer2.",
            "order.score.": "score.",
            "mixer.convs.0.": "along1.",
            "mixer.convs.3.": "along2.",
        }
        return translate(ours, renamed)


def translate(ours: Mapping[str, Tensor], renamed: Mapping[str, str]) -> dict[str, Tensor]:
    theirs = {}
    for name, value in ours.items():
        for our_part, their_part in renamed.items():
            name = name.replace(our_part, their_part)
        layer, _, parameter = name.partition(".")
        if layer.startswith("layer"):
            match parameter:
                case "weight":
                    name, value = f"{layer}.lin.weight", value.t()
                case "attention_source":
                    name, value = f"{layer}.att_src", value.unsqueeze(0)
                case "attention_target":
                    name, value = f"{layer}.att_dst", value.unsqueeze(0)
        theirs[name] = value
    return theirs


def import_pyg() -> Any:
    try:
        from torch_geometric import nn as pyg
    except ImportError:
        from nlgnn.errors import NlgnnError

        how = "Install it with pip install 'nlgnn[pyg]'."
        raise NlgnnError("the benchmark needs PyTorch Geometric.", how) from None
    return pyg


def train(
    model: nn.Module, x: Tensor, edges: Tensor, y: Tensor, parts: tuple[Tensor, Tensor, Tensor], epochs: int
) -> tuple[int, float]:
    """Train a model, and return the first epoch of the best validation accuracy and its test accuracy."""
    train_nodes, val, test = parts
    optimizer = torch.optim.Adam(model.parameters(), lr=LR, fused=True)
    best_epoch, best, tested = 0, -1.0, 0.0
    for epoch in range(1, epochs + 1):
        model.train()
        loss = F.cross_entropy(model(x, edges)[train_nodes], y[train_nodes])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            is_right = model(x, edges).argmax(1) == y
        accuracy = is_right[val].float().mean().item()
        if accuracy > best:
            best_epoch, best, tested = epoch, accuracy, is_right[test].float().mean().item()
    return best_epoch, tested


def csr(edge_index: Tensor, n: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return the transposed adjacency in CSR, which selects the fused aggregation of PyTorch Geometric."""
    ones = torch.ones(edge_index.shape[1], dtype=dtype)
    return torch.sparse_coo_tensor(edge_index.flip(0), ones, (n, n), check_invariants=False).to_sparse_csr()


def main(file: str, epochs: int) -> None:
    """Train on every split of a file, and print the mean test accuracy."""
    data = {name: torch.from_numpy(array) for name, array in np.load(file).items()}
    x, y = data["x"], data["y"]
    x = (x / x.sum(1, keepdim=True).clamp(min=1e-12)).to_sparse_csr()
    edges = csr(data["edge_index"], len(x))
    accuracies = []
    for seed, masks in enumerate(zip(data["train"], data["val"], data["test"], strict=True)):
        torch.manual_seed(seed)
        model = PlainNLGCN(x.shape[1], HIDDEN, int(y.max()) + 1, score_bias=True)
        train_nodes, val, test = (mask.nonzero().squeeze(1) for mask in masks)
        accuracies.append(train(model, x, edges, y, (train_nodes, val, test), epochs)[1])
    sys.stdout.write(f"{100 * float(np.mean(accuracies)):.2f}\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
