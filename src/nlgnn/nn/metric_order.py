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
evaluation. S is chosen once so that about `perplexity` others share in what a node hears at the start. In wide inputs
all of them are far, and what it hears is small beside eps.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from nlgnn.errors import OptionError
from nlgnn.nn.checks import check_choice, check_width
from nlgnn.nn.dense import cross_entropy
from nlgnn.nn.dropout import RandomNormals
from nlgnn.nn.inputs import Features
from nlgnn.nn.layers import times
from nlgnn.nn.modes import evaluating
from nlgnn.nn.streamed import StreamedFeatures
from nlgnn.nn.windows import Neighbours, in_full_precision, window_neighbours, window_sums

NODES_FOR_THE_SCALE, ROWS_AT_ONCE = 4096, 2**16
HALVINGS, MOST_ORDERS = 30, 64
FARTHEST = 1e8  # squared, from the middle, at the start: farther out, places of single precision are 0.001 apart
TEACHING = 0.1  # how much votes count where they teach the metric


class MetricOrder(nn.Module):
    """Learns a metric, along whose projections nodes are sorted, and lets training nodes vote on those near them.

    Args:
        in_channels: width of a node's raw input.
        dim: dimensions of the metric; with one alone nothing is learned.
        orders: projections, each of which is an order of all nodes.
        radius: positions on either side of a node within which others are heard.
        perplexity: how many others share in what a node hears at the start, in the median.
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
        check_width("in_channels", in_channels)
        for name, number in (("dim", dim), ("orders", orders), ("radius", radius)):
            check_width(f"metric_{name}", number)
        if orders > MOST_ORDERS:
            raise OptionError(
                f"metric_orders={orders} is more than {MOST_ORDERS}: time grows with its square.",
                "Give fewer, with a larger metric_radius.",
            )
        check_choice("metric_form", form, ("residual", "label"))
        if not 1 < perplexity < 2 * radius * orders or eps <= 0:
            raise OptionError(
                f"metric_perplexity={perplexity} with metric_eps={eps}, and {2 * radius * orders} others in reach.",
                "Give a perplexity between 1 and what is in reach, and an eps above 0.",
            )
        self.radius, self.perplexity, self.eps, self.form, self.random = radius, perplexity, eps, form, random
        self.weight = nn.Parameter(torch.empty(in_channels, dim))
        self.log_temperature = nn.Parameter(torch.empty(()))
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
        """Where every node stands in the metric, 0 in the middle: far from it, rounding would drown differences."""
        e = times(g, self.scale * self.weight)
        return e - e.mean(0)

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
        said = self.said(e, local, known)
        return self.log_strength.exp() * said if self.form == "residual" else said

    def said(
        self, e: Float[Tensor, "n m"], local: Float[Tensor, "n c"], known: Int[Tensor, " n"]
    ) -> Float[Tensor, "n c"]:
        """What every node hears, before it is weighed against the local logits."""
        heard = self.heard(e, self.messages(local, known))
        votes, weights = heard[:, :-1], heard[:, -1:]
        if self.form == "residual":
            return votes / (self.eps + weights)
        return ((votes + self.eps * self._shares(known, votes)) / (self.eps + weights)).log()

    def heard(self, e: Float[Tensor, "n m"], messages: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
        """The sum of what the nodes near each node say, by their weights."""
        return window_sums((self.log_temperature / 2).exp() * e, messages, self.keys(e), self.radius)

    def messages(self, local: Float[Tensor, "n c"], known: Int[Tensor, " n"]) -> Float[Tensor, "n k"]:
        """What every node says: its residual or label, and that it says something."""
        speaks = (known >= 0).to(local.dtype).unsqueeze(1)
        labels = F.one_hot(known.clamp(min=0), local.shape[1]).to(local.dtype)
        votes = labels - local.detach().softmax(1) if self.form == "residual" else labels
        return torch.cat([votes * speaks, speaks], dim=1)

    def _shares(self, known: Int[Tensor, " n"], like: Float[Tensor, "n c"]) -> Float[Tensor, "n c"]:
        """Of the classes among the other training nodes; each is counted once more, so that none has a share of 0."""
        labels = F.one_hot(known.clamp(min=0), like.shape[1]) * (known >= 0).unsqueeze(1)
        counts = labels.sum(0) + 1 - labels
        return counts.to(like.dtype) / counts.sum(1, keepdim=True)

    def loss(
        self,
        e: Float[Tensor, "n m"],
        local: Float[Tensor, "n c"],
        y: Int[Tensor, " n"],
        nodes: Int[Tensor, " k"],
    ) -> Float[Tensor, ""]:
        """How well training nodes are told from each other: none hears of its own label.

        What votes of residuals have to say grows with their strength, their noise with its square; and to be rid of
        noise the metric would lump all nodes together. So weak votes teach it, whatever strength is learned for them.
        """
        known = torch.full_like(y, -1).index_put((nodes,), y[nodes])
        local, said = local.detach(), self.said(e, local, known)
        if self.form == "label":
            return cross_entropy(said, y, nodes)
        strong = cross_entropy(local + self.log_strength.exp() * said.detach(), y, nodes)
        return cross_entropy(local + TEACHING * said, y, nodes) + strong

    def principal_keys(self, e: Float[Tensor, "n m"]) -> Float[Tensor, " n"]:
        """One order for all: along the direction in which nodes differ most."""
        centred = in_full_precision(e.detach())  # in the middle, as forward gives it
        spread = torch.nan_to_num(centred.mT @ centred)  # what is no number is for the loss to tell
        direction = torch.linalg.eigh(spread).eigenvectors[:, -1]
        largest = direction.gather(0, direction.abs().argmax(keepdim=True))  # whose sign decides which end is first
        keys: Tensor = centred @ (direction * largest.sign())
        return keys

    @torch.no_grad()
    def choose_scale(self, g: Features) -> None:
        """Such that the weights of a node's neighbours have the wanted perplexity, in the median.

        Columns of dense features count alike at first, whatever their units: a metric that one column of noise
        dominates learns nothing. Bags of words are left as they are; their rare words would drown the others. In tight
        clusters more nodes are heard than wanted: see `FARTHEST`.
        """
        self.scale.fill_(1)
        if isinstance(g, StreamedFeatures) or (isinstance(g, Tensor) and g.layout == torch.strided):
            largest = torch.finfo(self.scale.dtype).max
            self.scale.copy_(_inverse_deviations(g).clamp(max=largest).unsqueeze(1))
        e = in_full_precision(self(g))
        count = min(len(e), NODES_FOR_THE_SCALE)
        with evaluating(self):
            distances, near = self.distances(e, torch.arange(count, device=e.device) * len(e) // count)
        farthest = float(e.square().sum(1).max().clamp(min=1e-30))
        self.scale.mul_(min(_scale_for(self.perplexity, distances, near.counted), math.sqrt(FARTHEST / farthest)))

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


def _inverse_deviations(g: Tensor | StreamedFeatures) -> Float[Tensor, " d"]:
    """One over the standard deviation of each column; 0 where a column hardly varies, for it tells no nodes apart."""
    if isinstance(g, Tensor):
        chunks: Iterable[Tensor] = g.split(ROWS_AT_ONCE)
    else:
        chunks = (torch.from_numpy(rows).to(g.like) for _, rows in g.source.chunks())
    count, mean, squares = 0, torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    for rows in chunks:  # as Chan, Golub and LeVeque merge the sums of two samples
        own = rows.double()
        mean, squares = mean.to(own.device), squares.to(own.device)
        away = own.mean(0) - mean
        squares = squares + (own - own.mean(0)).square().sum(0) + away.square() * count * len(own) / (count + len(own))
        mean, count = mean + away * len(own) / (count + len(own)), count + len(own)
    deviations = (squares / count).sqrt()
    varies = deviations > 1e-6 * (mean.abs() + deviations)
    return torch.where(varies, 1 / deviations.clamp(min=1e-300), 0.0)


def _scale_for(perplexity: float, distances: Float[Tensor, "k w"], counted: Bool[Tensor, "k w"]) -> float:
    """What e is to be multiplied by, for the weights of some nodes' neighbours to have that perplexity in the median.

    Nodes that are alike, with whom a node is in touch at any scale, are not counted. Where too few others are left, the
    scale is such that a usual distance is 1.
    """
    distances = distances.double()
    counted = counted & (distances > 1e-9 * distances.max())
    if not counted.any():
        return 1.0
    usual = distances[counted].median()
    low, high = math.log(1e-4 / usual.sqrt()), math.log(1e4 / usual.sqrt())
    lowest, highest = low, high
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        chances = (-math.exp(2 * middle) * distances).masked_fill(~counted, -torch.inf).softmax(1)
        if torch.special.entr(chances).sum(1).nanmedian() > math.log(perplexity):
            low = middle
        else:
            high = middle
    return float(usual.rsqrt()) if lowest == low or highest == high else math.exp((low + high) / 2)
