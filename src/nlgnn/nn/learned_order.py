r"""LearnedOrder: the order along a space of the nodes' raw input that is learned from training labels.

With g the raw input of a node (its features, or its row of the adjacency matrix), E linear, random unit vectors
:math:`u_h`, and L the logits of a local model in evaluation mode,

.. math::
    e_v = S\, E^T g_v, \quad \pi_h = \mathrm{argsort}(e\, u_h), \quad
    w_{vu} = \exp(-\tau \|e_v - e_u\|^2), \quad R_u = \mathrm{onehot}(y_u) - \mathrm{softmax}(L_u), \\
    q_v = \frac{\sum_{u \in N(v)} w_{vu} R_u}{\epsilon + \sum_{u \in N(v)} w_{vu}}

over the training nodes u among those within some positions of v in any order, without v itself, so that no node sees
its own label. Training labels shape the space through the *distances* within windows; the orders only decide which
nodes are compared, in :math:`O(n \log n)`. The vectors :math:`u_h` are drawn in every training step, fixed in
evaluation. S is chosen once, so that about `perplexity` neighbours share the weight of a node at the start. In wide
inputs all neighbours are far away, and their weights are small compared with :math:`\epsilon`.

With structure as input (:mod:`nlgnn.nn.blocks`), E has a learned weight per description, which is fitted to training
labels before E is learned. These weights can also be all that is learned of it (`trained`). With `signs`, an order
sorts by the signs of several projections and then by one more. Votes of labels are :math:`R_u = \mathrm{onehot}(y_u) -
1/C` for C classes.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated, Any, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from nlgnn.errors import OptionError
from nlgnn.graph.descriptions import identifies_nodes, listed_descriptions
from nlgnn.graph.graph import Graph
from nlgnn.nn.base import Count, Positive, checked, evaluating
from nlgnn.nn.blocks import Blocks, block_widths, structure_blocks
from nlgnn.nn.inputs import TAKES_WHAT_IT_PREPARES, Features, inverse_deviations
from nlgnn.nn.kernels.dropout import RandomNormals
from nlgnn.nn.kernels.function import widened
from nlgnn.nn.kernels.sparse import Operator
from nlgnn.nn.kernels.streamed import StreamedFeatures
from nlgnn.nn.kernels.window_sums import Neighbours, perplexity_scale, window_neighbours, window_sums
from nlgnn.nn.layers import cross_entropy, split, times
from nlgnn.nn.orders import Order, Ranking

NODES_FOR_THE_SCALE = 4096
Projections = Annotated[int, Field(ge=1, le=64)]  # time grows with the square of their number
Signs = Annotated[int, Field(ge=0, le=12)]  # the keys have 24 bits, of which these are the first
FARTHEST = 1e8  # squared distance from the middle at the start: farther out, single precision is 0.001 coarse
TEACHING = 0.1  # weight of the votes that shape the space
WEIGHTS_STEPS, WEIGHTS_LR = 40, 0.1  # of the fit of weights of descriptions


class LearnedOrder(Order):
    """The order along a space that is learned from training labels.

    Args:
        in_channels: Number of features per node.
        num_nodes: Number of nodes of the graph, for links and rows of the adjacency matrix.
        dim: Number of dimensions of a learned space. With one dimension nothing is learned.
        projections: Number of random projections for the votes.
        radius: Positions on either side that are neighbours.
        perplexity: Neighbours that share the weight at the start.
        shrinkage: Shrinkage of votes of far neighbours.
        signs: Further random projections per order. Nodes with the same signs in all of them are neighbours
            first, so that neighbours are near in many directions.
        input: Input of the space. Features, rows of the adjacency matrix, or structure, which is several descriptions
            of a node, such as the nodes that it links to, each with a learned weight.
        descriptions: Descriptions that are the structure, joined by +. For instance out-links+means; "all" is all but
            means over two hops.
        votes: What votes carry. Residuals of the local model at training nodes, or their labels.
        lr: Learning rate of the space.
        trained: What is learned of the space. The map, or only the weights of descriptions, while the map stays as
            it was drawn, which takes less time per step.
        frozen: Whether nothing of the space is learned. A control. Map and weights of descriptions stay as they
            were at the start.
        random: Whether votes use random orders in place of projections: a control.

    Example:
        >>> import torch
        >>> from nlgnn import MLP, LearnedOrder, NonLocal
        >>> order = LearnedOrder(8)
        >>> model = NonLocal(MLP(8, 16, 3), 3, 3, order=order)
        >>> model.order is order
        True
    """

    reads_logits = True

    @checked
    def __init__(
        self,
        in_channels: Count,
        *,
        num_nodes: int | None = None,
        dim: Count = 16,
        projections: Projections = 4,
        radius: Count = 8,
        perplexity: float = 4.0,
        shrinkage: Positive = 0.05,
        signs: Signs = 0,
        input: Literal["features", "adjacency", "structure"] = "features",
        descriptions: str = "all",
        votes: Literal["residuals", "labels"] = "residuals",
        lr: Positive = 0.02,
        trained: Literal["map", "weights"] = "map",
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
        self.input, self.descriptions, self.lr, self.frozen = input, descriptions, lr, frozen
        self.votes_labels, self.signs, self.projections = votes == "labels", signs, projections
        names = listed_descriptions(descriptions) if input == "structure" else ()
        self.identifies_nodes = input == "adjacency" or any(map(identifies_nodes, names))
        if self.identifies_nodes and num_nodes is None:
            raise OptionError(f"input={input!r} needs the number of nodes.", "Give num_nodes.")
        self.num_nodes = num_nodes or 0
        self.widths = block_widths(descriptions, in_channels, self.num_nodes) if names else ()
        columns = {"features": in_channels, "adjacency": self.num_nodes, "structure": sum(self.widths)}[input]
        self.learns_map = trained == "map" and not frozen
        if trained == "weights" and input != "structure":
            raise OptionError(
                f"trained='weights' are those of descriptions, but input={input!r}.", "Use input='structure'."
            )
        self.weight = nn.Parameter(torch.empty(columns, dim), requires_grad=self.learns_map)
        weights = torch.empty(len(names))
        self.log_weights = nn.Parameter(weights, requires_grad=not frozen) if names else None  # of descriptions
        self.log_temperature = nn.Parameter(torch.empty(()))
        self.log_strength = nn.Parameter(torch.empty(()))
        self.scale = nn.Parameter(torch.empty(columns, 1), requires_grad=False)  # chosen, not learned
        self.normals = RandomNormals(projections if random else projections * (1 + signs))
        self.random_keys = RandomNormals((projections + 1) // 2) if self.votes_labels else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight)
        if self.log_weights is not None:
            nn.init.zeros_(self.log_weights)
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
        match self.input:
            case "features":
                return prepared
            case "adjacency":
                return (*prepared, Operator.from_scipy(graph.undirected_weights, symmetric=True))
            case _:
                return (*prepared, structure_blocks(graph, self.descriptions, self.widths, self.num_nodes))

    def local_inputs(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return inputs if self.input == "features" else inputs[:-1]

    def raw_input(self, inputs: tuple[Any, ...]) -> Features | Blocks:
        """Return the raw input of all nodes: features come first, what `prepare` adds comes last."""
        raw: Features | Blocks = inputs[0 if self.input == "features" else -1]
        if not isinstance(raw, {"adjacency": Operator, "structure": Blocks}.get(self.input, object)):
            raise OptionError(*TAKES_WHAT_IT_PREPARES)
        return raw

    def start(self, inputs: tuple[Any, ...], known: Int[Tensor, " n"]) -> None:
        """Choose the weights of descriptions, if there are any, and the scale of the space."""
        g = self.raw_input(inputs)
        self.choose_scale(g)
        if isinstance(g, Blocks) and not self.frozen:
            self.choose_weights(g, known)
            self.choose_scale(g)

    def forward(
        self, z: Float[Tensor, "n f"], inputs: tuple[Any, ...], batch: Int[Tensor, " n"] | None = None
    ) -> Ranking:
        if batch is not None:
            raise OptionError("a learned order sorts the nodes of one graph.", "Leave batch out, or use order='score'.")
        e = self.positions(self.raw_input(inputs))
        keys = self.keys(e)[0] if self.random else self.principal_keys(e)
        return Ranking(keys, None, partial(self.loss, e) if self.training else None)

    def positions(self, g: Features | Blocks) -> Float[Tensor, "n m"]:
        """Return the position of every node in the space, centred: far from 0, rounding would hide differences."""
        weight = self.scale * self.weight
        if not isinstance(g, Blocks):
            e = times(g, weight)
            return e - e.mean(0)
        assert self.log_weights is not None  # since the input has descriptions
        if self.learns_map:
            parts = zip(split(weight, self.widths), self.log_weights.exp(), strict=True)
            e = g @ torch.cat([factor * part for part, factor in parts])
        else:  # the products have no gradient, which takes as long as they do
            e = torch.stack(
                [factor * part for part, factor in zip(g.products(weight), self.log_weights.exp(), strict=True)]
            ).sum(0)
        return e - e.mean(0)

    def keys(self, e: Float[Tensor, "n m"]) -> Float[Tensor, "h n"]:
        """Return what nodes are sorted by, one row per projection."""
        drawn: Tensor = self.normals(len(e) if self.random else e.shape[1], e)
        if self.random:
            return drawn
        projected = drawn @ e.detach().mT
        return signed_keys(projected.unflatten(0, (self.projections, -1))) if self.signs else projected

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
        return self.shrunk(self.neighbour_sums(e, self.messages(local, known)))

    def shrunk(self, sums: Float[Tensor, "n k"]) -> Float[Tensor, "n c"]:
        """Return the mean of votes from their sum and the sum of weights."""
        return sums[:, :-1] / (self.shrinkage + sums[:, -1:])

    def neighbour_sums(
        self, e: Float[Tensor, "n m"], messages: Float[Tensor, "n k"], keys: Float[Tensor, "h n"] | None = None
    ) -> Float[Tensor, "n k"]:
        """Return the weighted sum of the messages of every node's neighbours, by default along the orders of e."""
        keys = self.keys(e) if keys is None else keys
        return window_sums((self.log_temperature / 2).exp() * e, messages, keys, self.radius)

    def messages(self, local: Float[Tensor, "n c"], known: Int[Tensor, " n"]) -> Float[Tensor, "n k"]:
        """Return the vote of every training node and a 1; zeros for all other nodes.

        A vote is the label, or what the local model got wrong: the label minus its probabilities.
        """
        if self.votes_labels:
            return label_messages(known, local.shape[1], local.dtype)
        votes = (known >= 0).to(local.dtype).unsqueeze(1)
        labels = F.one_hot(known.clamp(min=0), local.shape[1]).to(local.dtype)
        return torch.cat([(labels - local.detach().softmax(1)) * votes, votes], dim=1)

    def loss(
        self, e: Float[Tensor, "n m"], local: Float[Tensor, "n c"], y: Int[Tensor, " n"], nodes: Int[Tensor, " k"]
    ) -> Float[Tensor, ""]:
        """Return the cross entropy of votes on training nodes, none of which sees its own label.

        Votes of labels are the only logits. For residuals, the gain from votes grows with their strength, their noise
        with its square; to avoid noise, the space would collapse. So weak votes of fixed strength shape the space,
        whatever strength is learned for them.
        """
        known = torch.full_like(y, -1).index_put((nodes,), y[nodes])
        if self.votes_labels:
            return self.label_loss(e, known, nodes, local.shape[1])
        local, votes = local.detach(), self.mean_residuals(e, local, known)
        strong = cross_entropy(local + self.log_strength.exp() * votes.detach(), y, nodes)
        return cross_entropy(local + TEACHING * votes, y, nodes) + strong

    def label_loss(
        self, e: Float[Tensor, "n m"], known: Int[Tensor, " n"], nodes: Int[Tensor, " k"], num_classes: int
    ) -> Float[Tensor, ""]:
        """Return the cross entropy of votes of labels on training nodes, without the local model.

        Half of the orders are those of the space. The others are random: among near nodes alone, a space learns
        to move those apart that disagree, which overfits, and not which nodes belong together.
        """
        labels = label_messages(known, num_classes, e.dtype)
        orders = [self.keys(e)]
        if self.random_keys is not None:
            drawn = self.random_keys(len(e), e)
            orders = [orders[0][: len(drawn)], drawn]
        means = [self.shrunk(self.neighbour_sums(e, labels, keys)) for keys in orders]
        return torch.stack([cross_entropy(self.log_strength.exp() * mean, known, nodes) for mean in means]).sum()

    def principal_keys(self, e: Float[Tensor, "n m"]) -> Float[Tensor, " n"]:
        """Return one key per node: the position along the direction in which nodes differ most.

        With `signs`, the signs of the positions along the first of these directions come first, and then the position
        along the next one.
        """
        centred = widened(e.detach())
        spread = torch.nan_to_num(centred.mT @ centred)  # the loss reports what is not a number
        count = min(1 + self.signs, centred.shape[1])
        directions = torch.linalg.eigh(spread).eigenvectors.flip(1)[:, :count]
        largest = directions.gather(0, directions.abs().argmax(0, keepdim=True))  # its sign decides which end is first
        projected = (centred @ (directions * largest.sign())).mT
        keys: Tensor = projected[0] if count == 1 else signed_keys(projected.unsqueeze(0))[0]
        return keys

    def choose_weights(self, g: Blocks, known: Int[Tensor, " n"]) -> None:
        """Fit the weights of descriptions to training labels, before the map of each is learned.

        Otherwise the map overfits to descriptions that carry no information about the labels.
        """
        nodes, num_classes = (known >= 0).nonzero().squeeze(1), int(known.max()) + 1
        if len(nodes) < 2 or self.log_weights is None:
            return
        learned = [self.log_weights, self.log_temperature, self.log_strength]
        adam = torch.optim.Adam(learned, lr=WEIGHTS_LR)
        with torch.no_grad():
            parts = torch.stack([part - part.mean(0) for part in g.products(self.scale * self.weight)])
        with torch.enable_grad(), evaluating(self):
            for _ in range(WEIGHTS_STEPS):
                e = torch.stack(
                    [factor * part for part, factor in zip(parts, self.log_weights.exp(), strict=True)]
                ).sum(0)
                gradients = torch.autograd.grad(self.label_loss(e, known, nodes, num_classes), learned)
                for one, gradient in zip(learned, gradients, strict=True):
                    one.grad = gradient
                adam.step()
        adam.zero_grad()
        with torch.no_grad():
            self.log_temperature.zero_()
            if not self.votes_labels:
                self.log_strength.zero_()

    @torch.no_grad()
    def choose_scale(self, g: Features | Blocks) -> None:
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


def signed_keys(projected: Float[Tensor, "h p n"]) -> Float[Tensor, "h n"]:
    """Return keys by which nodes are sorted by the signs of all projections but the last, then by the last one.

    The first projection decides first. Positions are centred, so that each sign divides the nodes in about two halves.
    """
    *first, last = projected.double().unbind(1)
    keys = 0.5 + 0.5 * last / (last.abs() + last.std(1, keepdim=True) + 1e-30)  # from 0 to 1
    for place, one in enumerate(reversed(first)):
        keys = keys + 2.0**place * (one > 0)
    return keys


def label_messages(known: Int[Tensor, " n"], num_classes: int, dtype: torch.dtype) -> Float[Tensor, "n k"]:
    """Return the label of every training node, such that its sum is 0, and a 1; zeros for all other nodes."""
    votes = (known >= 0).to(dtype).unsqueeze(1)
    labels = F.one_hot(known.clamp(min=0), num_classes).to(dtype) - 1 / num_classes
    return torch.cat([labels * votes, votes], dim=1)
