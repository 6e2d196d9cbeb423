r"""Labels as input: a random part of the training labels is shown in each step, and the loss is taken on the others.

From Shi et al., `"Masked Label Prediction: Unified Message Passing Model for Semi-Supervised Classification"
<https://arxiv.org/abs/2009.03509>`_, IJCAI 2021. In training, each labelled training node is shown with probability
`share`; in evaluation, all of them are. Let :math:`Y` contain the one-hot labels of the shown nodes and zeros
elsewhere. The module computes :math:`Y W_y`. `targets` removes the shown labels from the loss, so that a node's own
label is never both input and target of one step.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from nlgnn.errors import DataError, OptionError
from nlgnn.nn.kernels.dropout import RandomRows


class LabelInput(nn.Module):
    """Linear map of the shown training labels.

    Training labels are kept with the weights, so that a model with this module can be used on its own graph only.

    Args:
        num_nodes: Number of nodes of the graph.
        num_classes: Number of classes.
        out_channels: Width of the result.
        share: Share of the training labels that is shown in training, less than 1.
    """

    def __init__(self, num_nodes: int, num_classes: int, out_channels: int, share: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_classes, out_channels))
        self.known = nn.Parameter(torch.empty(num_nodes, dtype=torch.long), requires_grad=False)
        self.random_rows = RandomRows(share)
        self._shown: Bool[Tensor, " n"] | None = None  # in the last pass, if that was training
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(len(self.weight))  # as in torch.nn.Linear
        nn.init.uniform_(self.weight, -bound, bound)
        self.known.data.fill_(-1)

    def remember(self, known: Int[Tensor, " n"]) -> None:
        """Keep the labels of training nodes; `known` is -1 for all other nodes."""
        check_known(known, self.known)
        if len(known) and int(known.max()) >= len(self.weight):
            raise OptionError(
                f"there are labels up to {int(known.max())}, but label_input was made for {len(self.weight)} classes.",
                "Give the number of classes as label_channels.",
            )
        self.known.data.copy_(known)

    def forward(self, num_nodes: int) -> Float[Tensor, "n f"]:
        check_own_nodes(num_nodes, self.known)
        shown = self.known >= 0
        if self.training:
            drawn = self.random_rows(shown)
            # Without a hidden label there would be no loss. This happens with very few training nodes only.
            shown = shown & drawn & (shown & ~drawn).any()
        self._shown = shown if self.training else None
        classes = torch.arange(len(self.weight), device=shown.device)
        one_hot = (self.known.unsqueeze(1) == classes) & shown.unsqueeze(1)
        return one_hot.to(self.weight.dtype) @ self.weight

    def targets(self, y: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
        """Return the labels, with -1 for those that the last pass in training took as input."""
        return y if self._shown is None else torch.where(self._shown, -1, y)


def check_known(known: Tensor, kept: Tensor) -> None:
    """Raise an error if `known` is not one label per node of the graph that `kept` was made for."""
    if known.shape != kept.shape or known.dtype == torch.bool or known.is_floating_point():
        raise DataError(
            f"the model keeps {len(kept)} labels as whole numbers, but these are {str(known.dtype)[6:]} of shape "
            f"{list(known.shape)}.",
            "Give the labels of training nodes, and -1 for all others.",
        )


def check_own_nodes(num_nodes: int, kept: Tensor) -> None:
    """Raise an error if the number of nodes is not that of the graph that `kept` was made for."""
    if num_nodes != len(kept):
        raise DataError(
            f"this model learned from {len(kept)} nodes, by their numbers, but x has {num_nodes} rows.",
            "Give it the graph that it was trained on, or train a model without votes and label_input.",
        )
