r"""NeighbourVote: local logits plus votes of training nodes that are near in a learned space.

.. math::
    \mathrm{logits}_v = L_v + \alpha\, e^s q_v

with the votes :math:`q` of :mod:`nlgnn.nn.learned_order`, a learned strength :math:`s`, and a share :math:`\alpha` that
validation chooses after every epoch; 0 is the local model alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from nlgnn.errors import OptionError
from nlgnn.graph.graph import Graph
from nlgnn.nn.base import Count, Model, as_model, checked
from nlgnn.nn.label_input import check_known, check_own_nodes
from nlgnn.nn.layers import cross_entropy
from nlgnn.nn.learned_order import LearnedOrder
from nlgnn.nn.non_local import check_embedding, quiet_embedding

SHARES = (0.0, 0.25, 0.5, 1.0, 2.0)  # that validation chooses from
VOTES_HAVE_TRIES = "validation chooses the weight of votes, so that their validation figures are optimistic"


class VoteOutput(NamedTuple):
    """Local logits, with and without dropout, and the positions of nodes in the space, for the loss."""

    logits: Tensor
    quiet: Tensor
    positions: Tensor


class NeighbourVote(Model):
    """Local logits plus votes of training nodes near in a learned space.

    The votes are residuals: what the local model got wrong on training nodes. Training labels and the chosen share are
    kept with the weights, so that the model is of use on its own graph only. If its space reads structure, this graph
    may have further nodes after the others. `start(inputs, known)` sets the labels; without it there are no votes.

    Args:
        local: Any module with `forward(x, edge_index)`, or whatever else its `prepare` returns, whose result are
            logits `[n, out_channels]`.
        out_channels: Number of classes.
        num_nodes: Number of nodes of the graph.
        space: The learned space.

    Example:
        >>> import torch
        >>> from nlgnn import MLP, LearnedOrder, NeighbourVote
        >>> x, known = torch.randn(10, 8), torch.tensor([0, 1, 2, 0, 1, -1, -1, -1, -1, -1])
        >>> model = NeighbourVote(MLP(8, 16, 3), out_channels=3, num_nodes=10, space=LearnedOrder(8))
        >>> model.start((x, None), known)
        >>> model(x, None).shape
        torch.Size([10, 3])
    """

    identifies_nodes = True

    @checked
    def __init__(self, local: nn.Module, out_channels: Count, num_nodes: Count, *, space: LearnedOrder) -> None:
        super().__init__()
        self.local, self.space = local, space
        self.out_channels = out_channels
        self.known = nn.Parameter(torch.empty(num_nodes, dtype=torch.long), requires_grad=False)
        self.share = nn.Parameter(torch.empty((), dtype=torch.long), requires_grad=False)
        self._forget()
        inner = as_model(local)
        if inner.reads_labels:
            raise OptionError(
                "votes are what the local model got wrong, but with label_input it has seen the labels.",
                "Use label_input=0, or the model without votes.",
            )
        own_links_only = inner.accepts_more_nodes or not inner.identifies_nodes
        self.accepts_more_nodes = own_links_only and space.input == "structure"
        self.stackable, self.estimable, self.can_recompute = inner.stackable, inner.estimable, inner.can_recompute
        self.uses_edge_weights, self.uses_edge_types = inner.uses_edge_weights, inner.uses_edge_types

    def reset_parameters(self) -> None:
        super().reset_parameters()
        self._forget()

    def _forget(self) -> None:
        self.known.data.fill_(-1)
        self.choose(SHARES.index(1.0))

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Return the groups of the local model and of the space; labels and share are not trained."""
        return [*as_model(self.local).parameter_groups(), *self.space.parameter_groups()]

    def prepare(self, graph: Graph) -> tuple[Any, ...]:
        return self.space.prepare(graph, as_model(self.local).prepare(graph))

    def start(self, inputs: tuple[Any, ...], known: Int[Tensor, " n"]) -> None:
        """Choose the scale of the space, and keep the labels to vote with.

        Args:
            inputs: What `prepare` returned.
            known: The labels of training nodes, and -1 for all other nodes.
        """
        as_model(self.local).start(self.space.local_inputs(inputs), known)
        self.space.start(inputs, known)
        check_known(known, self.known)
        self.known.data.copy_(known)

    def forward(self, *inputs: Any) -> Float[Tensor, "n c"]:
        local, votes = self.local_and_votes(*inputs)
        share = torch.tensor(SHARES, device=local.device).to(local.dtype).gather(0, self.share.view(1))
        return local + share * votes

    def candidates(self, *inputs: Any) -> Float[Tensor, "a n c"]:
        """Return the logits with every share."""
        local, votes = self.local_and_votes(*inputs)
        return torch.stack([local + share * votes for share in SHARES])

    def choose(self, number: int) -> None:
        self.share.data.fill_(number)

    def local_and_votes(self, *inputs: Any) -> tuple[Float[Tensor, "n c"], Float[Tensor, "n c"]]:
        """Return local logits, and what votes add to them at a share of 1."""
        local, e = self.embed(*inputs), self.positions(*inputs)
        return local, self.space.votes(e, local, self.known_of(len(local)))

    def known_of(self, num_nodes: int) -> Int[Tensor, " n"]:
        """Return the labels to vote with for a graph with as many nodes. Further nodes have none, and do not vote."""
        more = num_nodes - len(self.known)
        if self.accepts_more_nodes and more > 0:
            return torch.nn.functional.pad(self.known, (0, more), value=-1)
        check_own_nodes(num_nodes, self.known)
        return self.known

    def embed(self, *inputs: Any) -> Float[Tensor, "n c"]:
        """Return the local logits."""
        return check_embedding(self.local(*self.space.local_inputs(inputs)), self.local, self.out_channels)

    def positions(self, *inputs: Any) -> Float[Tensor, "n m"]:
        """Return the position of every node in the space."""
        return self.space.positions(self.space.raw_input(inputs))

    def training_output(self, *inputs: Any) -> VoteOutput:
        """Return what the loss takes."""
        local = self.embed(*inputs)
        # Votes of labels do not read the local logits: only their width counts.
        quiet = local.detach() if self.space.votes_labels else quiet_embedding(self, local, inputs)
        return VoteOutput(local, quiet, self.positions(*inputs))

    def loss(
        self, output: Tensor | VoteOutput, y: Int[Tensor, " n"], nodes: Int[Tensor, " k"] | Bool[Tensor, " n"]
    ) -> Float[Tensor, ""]:
        """Return the cross entropy of the local logits plus the loss of the space."""
        if isinstance(output, Tensor):
            return cross_entropy(output, y, nodes)
        return cross_entropy(output.logits, y, nodes) + self.space.loss(output.positions, output.quiet, y, nodes)

    def sort_order(self, *inputs: Any) -> tuple[Float[Tensor, " n"], Int[Tensor, " n"]]:
        """Return the positions along the space's main direction, and the nodes in that order; with random orders those
        of the first."""
        ranking = self.space(self.embed(*inputs), inputs)
        return ranking.keys, ranking.order()
