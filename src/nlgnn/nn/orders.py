r"""Orders: what nodes are sorted by.

:class:`ScoreOrder` is that of Liu, Wang and Ji (TPAMI 2021): a learned score :math:`a_v = c^T z_v`, by which nodes are
sorted and embeddings are multiplied. :class:`RandomOrder` is its control. :class:`LearnedOrder` learns a space of the
nodes' raw input from training labels and sorts nodes along it. With g the raw input of a node (its features, or its row
of the adjacency matrix), E linear, random unit vectors :math:`u_h`, and L the logits of a local model in evaluation
mode,

.. math::
    e_v = S\, E^T g_v, \quad \pi_h = \mathrm{argsort}(e\, u_h), \quad
    w_{vu} = \exp(-\tau \|e_v - e_u\|^2), \quad R_u = \mathrm{onehot}(y_u) - \mathrm{softmax}(L_u), \\
    q_v = \frac{\sum_{u \in N(v)} w_{vu} R_u}{\epsilon + \sum_{u \in N(v)} w_{vu}}

over the training nodes u among those within some positions of v in any order, without v itself, so that no node sees
its own label. Training labels shape the space through the *distances* within windows; the orders only decide which
nodes are compared, in :math:`O(n \log n)`. The vectors :math:`u_h` are drawn in every training step, fixed in
evaluation. S is chosen once, so that about `perplexity` neighbours share the weight of a node at the start. In wide
inputs all neighbours are far away, and their weights are small compared with :math:`\epsilon`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from nlgnn.errors import OptionError
from nlgnn.graph.graph import Graph
from nlgnn.nn.base import Count, Positive, checked, evaluating, reset
from nlgnn.nn.inputs import TAKES_WHAT_IT_PREPARES, Edges, Features, Inputs, inverse_deviations
from nlgnn.nn.kernels.dropout import RandomNormals
from nlgnn.nn.kernels.function import full_precision, widened
from nlgnn.nn.kernels.sorted_conv import stable_order
from nlgnn.nn.kernels.sparse import Operator
from nlgnn.nn.kernels.streamed import StreamedFeatures
from nlgnn.nn.kernels.window_sums import Neighbours, perplexity_scale, window_neighbours, window_sums
from nlgnn.nn.layers import cross_entropy, times

NODES_FOR_THE_SCALE = 4096
Projections = Annotated[int, Field(ge=1, le=64)]  # time grows with the square of their number
FARTHEST = 1e8  # squared distance from the middle at the start: farther out, single precision is 0.001 coarse
TEACHING = 0.1  # weight of the votes that shape the space

# From local logits without dropout, labels and training nodes to a term of the loss.
Penalty = Callable[[Tensor, Tensor, Tensor], Tensor]


class Ranking(NamedTuple):
    """Sort keys and factors of all nodes.

    Args:
        keys: What nodes are sorted by.
        scale: What embeddings are multiplied by; None for nothing.
        penalty: A term of the training loss, as a function of local logits without dropout, labels and training nodes;
            None for nothing. An order that returns one sets `reads_logits`.
    """

    keys: Float[Tensor, " n"]
    scale: Float[Tensor, " n"] | None = None
    penalty: Penalty | None = None

    def order(self, batch: Int[Tensor, " n"] | None = None) -> Int[Tensor, " n"]:
        """Return the nodes in sorted order, graph after graph: position p holds node `order[p]`; ties by number."""
        order = stable_order(self.keys)
        return order if batch is None else order[batch[order].argsort(stable=True)]

    def scaled(self, z: Float[Tensor, "n f"]) -> Float[Tensor, "n f"]:
        """Return embeddings times their factors."""
        return z if self.scale is None else self.scale.unsqueeze(1) * z


class Order(nn.Module, ABC):
    """Base class of orders.

    Attributes:
        stackable: Whether `torch.func.vmap` may train several at once.
        identifies_nodes: Whether the order knows nodes by their number.
        reads_logits: Whether rankings have a penalty, which reads the local embedding as logits.
    """

    stackable: bool = True
    identifies_nodes: bool = False
    reads_logits: bool = False

    @abstractmethod
    def forward(
        self, z: Float[Tensor, "n f"], inputs: tuple[Any, ...], batch: Int[Tensor, " n"] | None = None
    ) -> Ranking:
        """Return the ranking of all nodes.

        Args:
            z: The local embedding of every node.
            inputs: What `prepare` returned.
            batch: The number of its graph for every node, where there are several graphs.
        """

    def reset_parameters(self) -> None:
        """Draw all parameters again."""
        for child in self.children():
            reset(child)

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Return parameter groups as `torch.optim` takes them."""
        return [{"params": list(self.parameters())}]

    def prepare(self, graph: Graph, prepared: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the inputs of the local model, with what the order needs added at the end."""
        return prepared

    def local_inputs(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the inputs without what `prepare` added."""
        return inputs

    def start(self, inputs: tuple[Any, ...]) -> None:
        """Initialise from data, once, on fresh weights."""


class ScoreOrder(Order):
    r"""The order of the paper: nodes are sorted by a learned score, and embeddings are multiplied by it.

    .. math:: a_v = c^T z_v

    Args:
        channels: Width of the embeddings.
        bias: Whether the score has a bias. It changes the factor, not the order.
        multiply: Whether embeddings are multiplied by the score; without it the score gets no gradient.
        standardise: Whether the factor is the standardised score.
        score: A module from `[n, channels]` to `[n]` or `[n, 1]` that replaces the linear score.
    """

    @checked
    def __init__(
        self,
        channels: Count,
        *,
        bias: bool = False,
        multiply: bool = True,
        standardise: bool = False,
        score: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.multiply, self.standardise, self.stackable = multiply, standardise, score is None
        self.score: nn.Module = nn.Linear(channels, 1, bias=bias) if score is None else score

    def forward(
        self, z: Float[Tensor, "n f"], inputs: tuple[Any, ...] = (), batch: Int[Tensor, " n"] | None = None
    ) -> Ranking:
        with full_precision(z) as z:  # bfloat16 has too few bits to tell nodes apart
            scores = self.score(z).reshape(-1)
        return Ranking(self.keys(scores), self.factors(scores, batch))

    def keys(self, scores: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        """Return what nodes are sorted by."""
        return scores.detach()

    def factors(self, scores: Float[Tensor, " n"], batch: Int[Tensor, " n"] | None) -> Float[Tensor, " n"] | None:
        """Return what embeddings are multiplied by."""
        if not self.multiply or not self.standardise:
            return scores if self.multiply else None
        if batch is None:
            return (scores - scores.mean()) / (scores.std(correction=0) + 1e-6)
        sizes = torch.bincount(batch).clamp(min=1).to(scores.dtype)
        centred = scores - (torch.zeros_like(sizes).index_add(0, batch, scores) / sizes)[batch]
        variances = torch.zeros_like(sizes).index_add(0, batch, centred.square()) / sizes
        return centred / (variances[batch].sqrt() + 1e-6)


class RandomOrder(ScoreOrder):
    """A control: nodes are sorted at random, the same way on every call; embeddings are multiplied by the score."""

    def keys(self, scores: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        return _random_keys(len(scores), scores.device)


@lru_cache(maxsize=8)
def _random_keys(num_nodes: int, device: torch.device) -> Tensor:
    """Return the same keys on every device. They are not torch's, whose random numbers belong to training."""
    return torch.from_numpy(np.random.default_rng(0).random(num_nodes)).to(device)


class InputsAndRows(NamedTuple):
    """Inputs of a local model, and the rows of the adjacency matrix."""

    x: Features
    edge_index: Edges
    rows: Operator


class LearnedOrder(Order):
    """The order along a space that is learned from training labels.

    Args:
        in_channels: Width of a node's raw input.
        dim: Number of dimensions of a learned space. With one dimension nothing is learned.
        projections: Number of random projections to sort along, for the votes.
        radius: Number of positions on either side that are neighbours.
        perplexity: Number of neighbours that share the weight at the start.
        shrinkage: Shrinkage of the vote when all neighbours are far away.
        input: Input of the space: features or rows of the adjacency.
        lr: Learning rate of the space.
        frozen: Whether a learned space stays as it was drawn: a control.
        random: Whether votes use random orders in place of projections: a control.
    """

    reads_logits = True

    @checked
    def __init__(
        self,
        in_channels: Count,
        *,
        dim: Count = 16,
        projections: Projections = 4,
        radius: Count = 8,
        perplexity: float = 4.0,
        shrinkage: Positive = 0.05,
        input: Literal["features", "adjacency"] = "features",
        lr: Positive = 0.02,
        frozen: bool = False,
        random: bool = False,
    ) -> None:
        super().__init__()
        if not 1 < perplexity < 2 * radius * projections:
            raise OptionError(
                f"perplexity={perplexity} with {2 * radius * projections} neighbours.",
                "Give a perplexity between 1 and the number of neighbours.",
            )
        self.radius, self.perplexity, self.shrinkage, self.random = radius, perplexity, shrinkage, random
        self.input, self.lr, self.frozen = input, lr, frozen
        self.identifies_nodes = input == "adjacency"
        self.weight = nn.Parameter(torch.empty(in_channels, dim), requires_grad=not frozen)
        self.log_temperature = nn.Parameter(torch.empty(()))
        self.log_strength = nn.Parameter(torch.empty(()))
        self.scale = nn.Parameter(torch.empty(in_channels, 1), requires_grad=False)  # chosen, not learned
        self.normals = RandomNormals(projections)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight)
        nn.init.zeros_(self.log_temperature)
        nn.init.zeros_(self.log_strength)
        nn.init.ones_(self.scale)

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Return the groups of parameters: none has weight decay, and the space has a learning rate of its own."""
        others = [parameter for name, parameter in self.named_parameters() if name != "weight"]
        return [
            {"params": [self.weight], "lr": self.lr, "weight_decay": 0.0},
            {"params": others, "weight_decay": 0.0},
        ]

    def prepare(self, graph: Graph, prepared: tuple[Any, ...]) -> tuple[Any, ...]:
        if self.input == "features":
            return prepared
        if not isinstance(prepared, Inputs):
            raise OptionError(
                "space_input='adjacency' does not go with a local model that takes more than edges.",
                "Use space_input='features'.",
            )
        return InputsAndRows(*prepared, Operator.from_scipy(graph.undirected_weights, symmetric=True))

    def local_inputs(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return inputs if self.input == "features" else inputs[:-1]

    def raw_input(self, inputs: tuple[Any, ...]) -> Features:
        """Return the raw input of all nodes: features come first, what `prepare` adds comes last."""
        if self.input == "adjacency" and len(inputs) < len(InputsAndRows._fields):
            raise OptionError(*TAKES_WHAT_IT_PREPARES)
        raw: Features = inputs[0 if self.input == "features" else -1]
        return raw

    def start(self, inputs: tuple[Any, ...]) -> None:
        """Choose the scale of the space."""
        self.choose_scale(self.raw_input(inputs))

    def forward(
        self, z: Float[Tensor, "n f"], inputs: tuple[Any, ...], batch: Int[Tensor, " n"] | None = None
    ) -> Ranking:
        if batch is not None:
            raise OptionError("a learned order sorts the nodes of one graph.", "Leave batch out, or use order='score'.")
        e = self.positions(self.raw_input(inputs))
        keys = self.keys(e)[0] if self.random else self.principal_keys(e)
        return Ranking(keys, None, partial(self.loss, e) if self.training else None)

    def positions(self, g: Features) -> Float[Tensor, "n m"]:
        """Return the position of every node in the space, centred: far from 0, rounding would hide differences."""
        e = times(g, self.scale * self.weight)
        return e - e.mean(0)

    def keys(self, e: Float[Tensor, "n m"]) -> Float[Tensor, "h n"]:
        """Return what nodes are sorted by, one row per projection."""
        drawn: Tensor = self.normals(len(e) if self.random else e.shape[1], e)
        return drawn if self.random else drawn @ e.detach().mT

    def votes(
        self, e: Float[Tensor, "n m"], local: Float[Tensor, "n c"], known: Int[Tensor, " n"]
    ) -> Float[Tensor, "n c"]:
        """Return what votes add to the local logits.

        Args:
            e: The positions of all nodes.
            local: Logits of the local model in evaluation mode; they get no gradient.
            known: Labels of training nodes, and -1 for all others.
        """
        return self.log_strength.exp() * self.mean_residuals(e, local, known)

    def mean_residuals(
        self, e: Float[Tensor, "n m"], local: Float[Tensor, "n c"], known: Int[Tensor, " n"]
    ) -> Float[Tensor, "n c"]:
        """Return the weighted mean residual of every node's neighbours, shrunk to 0 where they are far away."""
        sums = self.neighbour_sums(e, self.messages(local, known))
        return sums[:, :-1] / (self.shrinkage + sums[:, -1:])

    def neighbour_sums(self, e: Float[Tensor, "n m"], messages: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
        """Return the weighted sum of the messages of every node's neighbours."""
        return window_sums((self.log_temperature / 2).exp() * e, messages, self.keys(e), self.radius)

    def messages(self, local: Float[Tensor, "n c"], known: Int[Tensor, " n"]) -> Float[Tensor, "n k"]:
        """Return the residual of every training node and a 1; zeros for all other nodes."""
        votes = (known >= 0).to(local.dtype).unsqueeze(1)
        labels = F.one_hot(known.clamp(min=0), local.shape[1]).to(local.dtype)
        return torch.cat([(labels - local.detach().softmax(1)) * votes, votes], dim=1)

    def loss(
        self, e: Float[Tensor, "n m"], local: Float[Tensor, "n c"], y: Int[Tensor, " n"], nodes: Int[Tensor, " k"]
    ) -> Float[Tensor, ""]:
        """Return the cross entropy of votes on training nodes, none of which sees its own label.

        The gain from votes grows with their strength, their noise with its square; to avoid noise, the space would
        collapse. So weak votes of fixed strength shape the space, whatever strength is learned for them.
        """
        known = torch.full_like(y, -1).index_put((nodes,), y[nodes])
        local, votes = local.detach(), self.mean_residuals(e, local, known)
        strong = cross_entropy(local + self.log_strength.exp() * votes.detach(), y, nodes)
        return cross_entropy(local + TEACHING * votes, y, nodes) + strong

    def principal_keys(self, e: Float[Tensor, "n m"]) -> Float[Tensor, " n"]:
        """Return one key per node: the position along the direction in which nodes differ most."""
        centred = widened(e.detach())
        spread = torch.nan_to_num(centred.mT @ centred)  # the loss reports what is not a number
        direction = torch.linalg.eigh(spread).eigenvectors[:, -1]
        largest = direction.gather(0, direction.abs().argmax(keepdim=True))  # its sign decides which end is first
        keys: Tensor = centred @ (direction * largest.sign())
        return keys

    @torch.no_grad()
    def choose_scale(self, g: Features) -> None:
        """Set the scale such that the weights of a node's neighbours have the wanted perplexity, in the median.

        Columns of dense features count alike at first, whatever their units: one column of noise could dominate the
        space, which then learns nothing. Bags of words stay as they are, since their rare words would dominate. In
        tight clusters more neighbours share the weight: see `FARTHEST`.
        """
        self.scale.fill_(1)
        if isinstance(g, StreamedFeatures) or (isinstance(g, Tensor) and g.layout == torch.strided):
            largest = torch.finfo(self.scale.dtype).max
            self.scale.copy_(inverse_deviations(g).clamp(max=largest).unsqueeze(1))
        e = widened(self.positions(g))
        count = min(len(e), NODES_FOR_THE_SCALE)
        with evaluating(self):
            distances, near = self.distances(e, torch.arange(count, device=e.device) * len(e) // count)
        farthest = float(e.square().sum(1).max().clamp(min=1e-30))
        self.scale.mul_(min(perplexity_scale(self.perplexity, distances, near.counted), math.sqrt(FARTHEST / farthest)))

    def distances(self, e: Float[Tensor, "n m"], nodes: Int[Tensor, " k"]) -> tuple[Float[Tensor, "k w"], Neighbours]:
        """Return squared distances from some nodes to their neighbours."""
        near = window_neighbours(self.keys(e), nodes, self.radius)
        return (e[nodes].unsqueeze(1) - e[near.nodes]).square().sum(2), near

    @torch.no_grad()
    def neighbours_of(self, e: Float[Tensor, "n m"], node: int) -> tuple[Int[Tensor, " w"], Float[Tensor, " w"]]:
        """Return the neighbours of one node and their weights."""
        distances, near = self.distances(e, torch.tensor([node], device=e.device))
        counted = near.counted[0]
        return near.nodes[0][counted], (-self.log_temperature.exp() * distances[0]).exp()[counted]
