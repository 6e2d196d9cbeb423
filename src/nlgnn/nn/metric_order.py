r"""An order that is trained: nodes are sorted along projections of a learned metric, and hear from those near them.

With g the raw input of a node (its features, or its row of the adjacency matrix), E linear, random unit vectors
:math:`u_h`, and L the logits of a local model in evaluation mode,

.. math::
    e_v = S\, E^T g_v, \quad \pi_h = \mathrm{argsort}(e\, u_h), \quad
    w_{vu} = \exp(-\tau \|e_v - e_u\|^2), \quad R_u = \mathrm{onehot}(y_u) - \mathrm{softmax}(L_u), \\
    q_v = \frac{\sum_{u \in N(v)} w_{vu} R_u}{\epsilon + \sum_{u \in N(v)} w_{vu}}

over the training nodes u among those within some positions of v in any order, v itself left out. So a node never hears
of its own label. Training labels teach the metric through the *distances* within windows; the orders only decide
whom a node can hear, in :math:`O(n \log n)`. The vectors :math:`u_h` are drawn anew in every step, and fixed in
evaluation. S is chosen once so that a node hears about `perplexity` others at the start.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from nlgnn.errors import OptionError
from nlgnn.nn.checks import check_choice, check_width
from nlgnn.nn.dense import cross_entropy
from nlgnn.nn.dropout import RandomNormals
from nlgnn.nn.inputs import Features
from nlgnn.nn.layers import times
from nlgnn.nn.windows import Neighbours, window_neighbours, window_sums

NODES_FOR_THE_SCALE = 4096
HALVINGS = 30


class MetricOrder(nn.Module):
    """Learns a metric, along whose projections nodes are sorted, and lets training nodes vote on those near them.

    Args:
        in_channels: width of a node's raw input.
        dim: dimensions of the metric; with one alone nothing is learned.
        orders: projections, each of which is an order of all nodes.
        radius: positions on either side of a node within which others are heard.
        perplexity: how many others a node hears at the start, in the median.
        eps: how strongly a vote of far nodes is drawn to nothing, or to the classes' shares.
        form: "residual" votes what the local model got wrong, "label" the labels themselves.
        random: whether nodes are sorted at random instead: a control.
    """

    def __init__(
        self,
        in_channels: int,
        *,
        dim: int = 16,
        orders: int = 4,
        radius: int = 8,
        perplexity: float = 4.0,
        eps: float = 0.05,
        form: Literal["residual", "label"] = "residual",
        random: bool = False,
    ) -> None:
        super().__init__()
        for name, number in (("dim", dim), ("orders", orders), ("radius", radius)):
            check_width(f"metric_{name}", number)
        check_choice("metric_form", form, ("residual", "label"))
        if not 1 < perplexity < 2 * radius * orders or eps <= 0:
            raise OptionError(
                f"metric_perplexity={perplexity} with metric_eps={eps}, and {2 * radius * orders} others in reach.",
                "Give a perplexity between 1 and what is in reach, and an eps above 0.",
            )
        self.radius, self.perplexity, self.eps, self.form, self.random = radius, perplexity, eps, form, random
        self.weight = nn.Parameter(torch.empty(in_channels, dim))
        self.log_temperature = nn.Parameter(torch.empty(()))
        # Positive always: with the sign of the votes turned around, the metric would unlearn.
        self.log_strength = nn.Parameter(torch.empty(()), requires_grad=form == "residual")
        self.scale = nn.Parameter(torch.empty(in_channels, 1), requires_grad=False)  # chosen, not learned
        self.normals = RandomNormals(orders)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight)
        nn.init.zeros_(self.log_temperature)
        nn.init.zeros_(self.log_strength)
        nn.init.ones_(self.scale)

    def forward(self, g: Features) -> Float[Tensor, "n m"]:
        """Where every node stands in the metric."""
        return times(g, self.scale * self.weight)

    def keys(self, e: Float[Tensor, "n m"]) -> Float[Tensor, "h n"]:
        """What nodes are sorted by, one row an order."""
        drawn: Tensor = self.normals(len(e) if self.random else e.shape[1], e)
        return drawn if self.random else drawn @ e.detach().mT

    def votes(
        self, e: Float[Tensor, "n m"], local: Float[Tensor, "n c"], known: Int[Tensor, " n"]
    ) -> Float[Tensor, "n c"]:
        """What is to be added to the local logits.

        Args:
            e: as forward gives it.
            local: logits of the local model in evaluation mode; they get no gradient.
            known: labels of training nodes; -1 elsewhere.
        """
        messages = self.messages(local, known)
        heard = window_sums(e, self.log_temperature.exp(), messages, self.keys(e), self.radius)
        return self.said(heard, known)

    def messages(self, local: Float[Tensor, "n c"], known: Int[Tensor, " n"]) -> Float[Tensor, "n k"]:
        """What every node says: its residual or label, and that it says something."""
        speaks = (known >= 0).to(local.dtype).unsqueeze(1)
        labels = F.one_hot(known.clamp(min=0), local.shape[1]).to(local.dtype)
        votes = labels - local.detach().softmax(1) if self.form == "residual" else labels
        return torch.cat([votes * speaks, speaks], dim=1)

    def said(self, heard: Float[Tensor, "n k"], known: Int[Tensor, " n"]) -> Float[Tensor, "n c"]:
        """From weighted sums of messages to what is added to the logits."""
        votes, weights = heard[:, :-1], heard[:, -1:]
        if self.form == "residual":
            return self.log_strength.exp() * votes / (self.eps + weights)
        return ((votes + self.eps * self._shares(known, votes)) / (self.eps + weights)).log()

    def _shares(self, known: Int[Tensor, " n"], like: Float[Tensor, "n c"]) -> Float[Tensor, " c"]:
        """Of the classes among training nodes; each is counted once more, so that none has a share of 0."""
        counts = F.one_hot(known.clamp(min=0), like.shape[1]).mul((known >= 0).unsqueeze(1)).sum(0) + 1
        return counts.to(like.dtype) / counts.sum()

    def loss(
        self,
        e: Float[Tensor, "n m"],
        local: Float[Tensor, "n c"],
        y: Int[Tensor, " n"],
        nodes: Int[Tensor, " k"],
    ) -> Float[Tensor, ""]:
        """How well training nodes are told from each other: none hears of its own label."""
        known = torch.full_like(y, -1).index_put((nodes,), y[nodes])
        votes = self.votes(e, local, known)
        return cross_entropy(local.detach() + votes if self.form == "residual" else votes, y, nodes)

    def principal_keys(self, e: Float[Tensor, "n m"]) -> Float[Tensor, " n"]:
        """One order for all: along the direction in which nodes differ most."""
        centred = (e - e.mean(0)).detach()
        direction = torch.linalg.eigh(centred.mT @ centred).eigenvectors[:, -1]
        largest = direction.gather(0, direction.abs().argmax(keepdim=True))  # whose sign decides which end is first
        keys: Tensor = centred @ (direction * largest.sign())
        return keys

    @torch.no_grad()
    def choose_scale(self, g: Features) -> None:
        """Such that the weights of a node's neighbours have the wanted perplexity, in the median.

        Columns of dense features count alike at first, whatever their units: a metric that one column of noise
        dominates learns nothing. Bags of words are left as they are; their rare words would drown the others.
        """
        self.scale.fill_(1)
        if isinstance(g, Tensor):
            self.scale.div_(g.std(0, correction=0).clamp(min=1e-6).unsqueeze(1))
        e, was_training = self(g), self.training
        self.eval()
        some = torch.linspace(0, len(e) - 1, min(len(e), NODES_FOR_THE_SCALE), device=e.device).long()
        distances, near = self.distances(e, some)
        self.train(was_training)
        low, high = -20.0, 20.0  # of the scale's logarithm
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            logits = (-math.exp(2 * middle) * distances).masked_fill(~near.counted, -torch.inf)
            chances = logits.softmax(1)
            entropy = torch.special.entr(chances).sum(1)
            if len(entropy) and entropy.nanmedian() > math.log(self.perplexity):
                low = middle
            else:
                high = middle
        self.scale.mul_(math.exp((low + high) / 2))

    def distances(self, e: Float[Tensor, "n m"], nodes: Int[Tensor, " k"]) -> tuple[Float[Tensor, "k w"], Neighbours]:
        """Squared, from some nodes to those that they hear."""
        near = window_neighbours(self.keys(e), nodes, self.radius)
        return (e[nodes].unsqueeze(1) - e[near.nodes]).square().sum(2), near

    @torch.no_grad()
    def heard_by(self, e: Float[Tensor, "n m"], node: int) -> tuple[Int[Tensor, " w"], Float[Tensor, " w"]]:
        """The nodes that one node hears, and their weights."""
        distances, near = self.distances(e, torch.tensor([node], device=e.device))
        counted = near.counted[0]
        return near.nodes[0][counted], (-self.log_temperature.exp() * distances[0]).exp()[counted]
