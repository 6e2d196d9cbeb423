"""Vote: the training labels that a metric order votes with, and how much the votes count."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from nlgnn.errors import DataError
from nlgnn.nn.checks import check_width
from nlgnn.nn.metric_order import MetricOrder

# What votes may count; validation chooses. 0 is the gate: the local model alone.
SHARES = (0.0, 0.25, 0.5, 1.0, 2.0)


class Vote(nn.Module):
    """Adds votes to local logits: `L + α · votes`.

    Labels and α are no weights, but belong to a trained model, and are kept with its weights.

    Args:
        num_nodes: nodes of the graph, which is the only one that the model can be used on.
    """

    def __init__(self, num_nodes: int) -> None:
        super().__init__()
        check_width("num_nodes", num_nodes)
        self.known = nn.Parameter(torch.empty(num_nodes, dtype=torch.long), requires_grad=False)
        self.share = nn.Parameter(torch.empty((), dtype=torch.long), requires_grad=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.known.data.fill_(-1)
        self.share.data.fill_(SHARES.index(1.0))

    def remember(self, known: Int[Tensor, " n"]) -> None:
        """The labels to vote with; -1 where a node has no vote."""
        if known.shape != self.known.shape or known.dtype == torch.bool or known.is_floating_point():
            raise DataError(
                f"labels to vote with are {len(self.known)} whole numbers, but these are {str(known.dtype)[6:]} of "
                f"shape {list(known.shape)}.",
                "Give the labels of training nodes, and -1 for all others.",
            )
        self.known.data.copy_(known)

    def forward(
        self, metric: MetricOrder, local: Float[Tensor, "n c"], e: Float[Tensor, "n m"]
    ) -> Float[Tensor, "n c"]:
        share = torch.tensor(SHARES, device=local.device).to(local.dtype).gather(0, self.share.view(1))
        return local + share * self._votes(metric, local, e)

    def answers(
        self, metric: MetricOrder, local: Float[Tensor, "n c"], e: Float[Tensor, "n m"]
    ) -> Float[Tensor, "a n c"]:
        """With each of the shares."""
        votes = self._votes(metric, local, e)
        return torch.stack([local + share * votes for share in SHARES])

    def _votes(self, metric: MetricOrder, local: Tensor, e: Tensor) -> Tensor:
        if len(local) != len(self.known):
            raise DataError(
                f"this model learned from {len(self.known)} nodes, by their numbers, but x has {len(local)} rows.",
                "Give it the graph that it was trained on, or train with readout='conv'.",
            )
        return metric.votes(e, local, self.known)
