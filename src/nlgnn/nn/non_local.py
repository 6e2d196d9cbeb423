r"""NonLocal: local embedding, sorted order, convolution along it, classifier.

From Liu, Wang and Ji, `"Non-Local Graph Neural Networks" <https://doi.org/10.1109/TPAMI.2021.3134200>`_, TPAMI 2021.
With the local embeddings :math:`z` of `n` nodes, a learned vector :math:`c`, the sorted order :math:`\pi` and two
convolutions along it, the model computes

.. math::
    z &= \mathrm{local}(X, A), \quad a = z c, \quad \pi = \mathrm{argsort}(a) \\
    S_p &= a_{\pi(p)} z_{\pi(p)}, \quad \hat{z}_{\pi(p)} = \mathrm{conv}_2(\mathrm{relu}(\mathrm{conv}_1(S)))_p \\
    \mathrm{logits} &= [z \,\|\, \hat{z}] W + b

where :math:`z`, :math:`S` and :math:`\hat{z}` have the shape `[n, embedding_channels]`, the scores :math:`a` the shape
`[n]`, and the logits the shape `[n, out_channels]`. Other orders are in :mod:`nlgnn.nn.orders`, and other ways to mix
in :mod:`nlgnn.nn.mixing`.
"""

from __future__ import annotations

import inspect
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from nlgnn.errors import DataError, OptionError
from nlgnn.graph.graph import Graph
from nlgnn.nn.base import Count, Depth, KernelSize, Model, Rate, Share, as_model, checked, evaluating
from nlgnn.nn.kernels.ranks import active_ranks
from nlgnn.nn.layers import cross_entropy
from nlgnn.nn.mixing import Mixer, SortedConv
from nlgnn.nn.orders import Order, Penalty, RandomOrder, Ranking, ScoreOrder


class NonLocalOutput(NamedTuple):
    """Input of the loss of a non-local model.

    `penalty` is that of the order, and `quiet` the local logits without dropout that it takes; None without a penalty.
    """

    logits: Tensor
    local: Tensor
    penalty: Penalty | None = None
    quiet: Tensor | None = None


class NonLocal(Model):
    """Non-local version of any node embedding: embed, sort, mix along the order, classify from both.

    `forward` returns logits `[n, out_channels]`, in training too. Where the loss needs more (`local_loss`, a
    `LearnedOrder`), a training loop of your own calls `model.loss(model.training_output(x, edge_index), y, nodes)`, and
    for a `LearnedOrder` once before it `model.start(inputs, known)`, as `nlgnn.fit` does.

    Args:
        local: Any module with `forward(x, edge_index)`, or whatever else its `prepare` returns, whose result is
            `[n, embedding_channels]`. Where its forward has an argument `batch`, that is passed on.
        embedding_channels: Width of the result of `local`.
        out_channels: Number of classes.
        kernel_size: Number of positions that one convolution covers, odd. A kernel of 1 mixes no nodes: a control.
        num_convs: Number of convolutions along the order.
        conv_dropout: Share of units dropped between convolutions. By default 0, and `dropout` in a named model.
        zero_init: Whether the last convolution starts at zero.
        order: "score" sorts by the learned score, "random" at random, a control; or an `Order` of your own.
        score_bias: Whether the score has a bias. It changes the factor, not the order.
        multiply_score: Whether the score multiplies embeddings. Equation 6 of the paper; without it, equation
            5.
        standardise_score: Whether the factor is the standardised score.
        mixer: A `Mixer` that replaces the convolutions, such as `GlobalAttention()`.
        head: Form of the classifier. "concat" classifies from [z, ẑ]; "residual" adds a linear map of ẑ to z,
            which then are local logits.
        local_loss: Weight of the loss of the local logits. The rest is the weight of the loss of the final logits.

    Example:
        >>> import torch
        >>> from nlgnn.nn import MLP, NonLocal
        >>> model = NonLocal(MLP(8, 16, 3), 3, 3, kernel_size=3)
        >>> model(torch.randn(10, 8)).shape
        torch.Size([10, 3])
    """

    @checked
    def __init__(
        self,
        local: nn.Module,
        embedding_channels: Count,
        out_channels: Count,
        *,
        kernel_size: KernelSize = 5,
        num_convs: Depth = 2,
        conv_dropout: Rate | None = None,
        zero_init: bool = False,
        order: Literal["score", "random"] | Order = "score",
        score_bias: bool = False,
        multiply_score: bool = True,
        standardise_score: bool = False,
        mixer: Mixer | None = None,
        head: Literal["concat", "residual"] = "concat",
        local_loss: Share = 0.0,
    ) -> None:
        super().__init__()
        self.local, self.local_loss, self.residual = local, local_loss, head == "residual"
        self.embedding_channels = embedding_channels
        if not isinstance(order, Order):
            kind = {"score": ScoreOrder, "random": RandomOrder}[order]
            order = kind(embedding_channels, bias=score_bias, multiply=multiply_score, standardise=standardise_score)
        self.order: Order = order
        if (self.residual or local_loss > 0 or order.reads_logits) and embedding_channels != out_channels:
            raise OptionError(
                f"embedding={embedding_channels}, but head={head!r}, local_loss={local_loss} or the order reads the "
                f"embedding as logits of {out_channels} classes.",
                "Leave the embedding width out, or use head='concat', local_loss=0 and order='score'.",
            )
        self.mixer: Mixer = mixer or SortedConv(
            embedding_channels,
            kernel_size=kernel_size,
            num_convs=num_convs,
            dropout=conv_dropout or 0.0,
            zero_init=zero_init,
        )
        if self.residual:
            self.head = nn.Linear(embedding_channels, out_channels, bias=False)
        else:
            self.head = nn.Linear(2 * embedding_channels, out_channels)
        inner = as_model(local)
        if inner.pretrains:
            raise OptionError(
                f"{type(local).__name__} needs pre-training, which its non-local version does not do.",
                "Wrap a model without pre-training.",
            )
        if inner.reads_labels and order.reads_logits:
            raise OptionError(
                "a learned order reads what the local model got wrong, but with label_input it has seen the labels.",
                "Use order='score', or label_input=0.",
            )
        self.reads_labels = inner.reads_labels
        self._local_takes_batch = "batch" in inspect.signature(local.forward).parameters
        self.identifies_nodes = inner.identifies_nodes or order.identifies_nodes
        self.uses_edge_weights, self.estimable = inner.uses_edge_weights, inner.estimable
        self.can_recompute, self.uses_edge_types = inner.can_recompute, inner.uses_edge_types

    @property
    def stackable(self) -> bool:  # type: ignore[override]
        """Return whether `torch.func.vmap` may train several at once; it is not assumed of modules from elsewhere."""
        return as_model(self.local).stackable and self.order.stackable and self.mixer.stackable

    @property
    def over_ranks(self) -> bool:  # type: ignore[override]
        """Return whether several processes can train the local model, and can sort and convolve together."""
        plain = type(self.order) in (ScoreOrder, RandomOrder) and isinstance(self.mixer, SortedConv)
        return as_model(self.local).over_ranks and plain and self.stackable

    @property
    def deterministic(self) -> bool:
        """Return whether training and evaluation compute the same; it is not assumed of modules from elsewhere."""
        return super().deterministic and self.stackable and as_model(self.local).deterministic

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Return the groups of the local model, of the order and of the rest."""
        rest = [*self.mixer.parameters(), *self.head.parameters()]
        return [*as_model(self.local).parameter_groups(), *self.order.parameter_groups(), {"params": rest}]

    def prepare(self, graph: Graph) -> tuple[Any, ...]:
        return self.order.prepare(graph, as_model(self.local).prepare(graph))

    def start(self, inputs: tuple[Any, ...], known: Int[Tensor, " n"]) -> None:
        as_model(self.local).start(self.order.local_inputs(inputs), known)
        self.order.start(inputs, known)

    def forward(self, *inputs: Any, batch: Int[Tensor, " n"] | None = None) -> Float[Tensor, "n c"]:
        """Return logits.

        Args:
            inputs: `x` and `edge_index`, or whatever `prepare` returns.
            batch: The number of its graph for every node, where there are several graphs. Each is sorted by itself.
        """
        z = self.embed(*inputs, batch=batch)
        ranking = self.order(z, inputs, batch)
        mixed = self.mixer(z, ranking, batch)
        return self.classify(z, mixed)

    def training_output(self, *inputs: Any, batch: Int[Tensor, " n"] | None = None) -> Tensor | NonLocalOutput:
        """Return the logits and, where the loss takes more, the local logits and the penalty of the order."""
        if self.local_loss == 0 and not self.order.reads_logits:
            plain: Tensor = self(*inputs) if batch is None else self(*inputs, batch=batch)
            return plain
        z = self.embed(*inputs, batch=batch)
        ranking: Ranking = self.order(z, inputs, batch)
        logits = self.classify(z, self.mixer(z, ranking, batch))
        quiet = None if ranking.penalty is None else quiet_embedding(self, z, inputs)
        return NonLocalOutput(logits, z, ranking.penalty, quiet)

    def embed(self, *inputs: Any, batch: Int[Tensor, " n"] | None = None) -> Float[Tensor, "n f"]:
        """Return the local embedding."""
        if batch is not None:
            check_batch(batch, inputs[0].shape[0])
        passed_on = {"batch": batch} if batch is not None and self._local_takes_batch else {}
        z: Tensor = self.local(*self.order.local_inputs(inputs), **passed_on)
        return check_embedding(z, self.local, self.embedding_channels)

    def classify(self, z: Float[Tensor, "n f"], mixed: Float[Tensor, "n f"]) -> Float[Tensor, "n c"]:
        """Return logits from local and mixed embeddings."""
        logits: Tensor = z + self.head(mixed) if self.residual else self.head(torch.cat([z, mixed], dim=1))
        return logits

    def loss(
        self, output: Tensor | NonLocalOutput, y: Int[Tensor, " n"], nodes: Int[Tensor, " k"] | Bool[Tensor, " n"]
    ) -> Float[Tensor, ""]:
        """Return the cross entropy of the final logits, mixed with that of the local ones where `local_loss` is set.

        With a `LearnedOrder` it is the sum of three terms, whatever `local_loss` is: the cross entropy of the local
        logits, the loss of the order and the cross entropy of the final logits.
        """
        y = self.targets(y)
        if isinstance(output, Tensor):
            return cross_entropy(output, y, nodes)
        final = cross_entropy(output.logits, y, nodes)
        local = cross_entropy(output.local, y, nodes)
        if output.penalty is None:
            return (1 - self.local_loss) * final + self.local_loss * local
        assert output.quiet is not None
        return local + output.penalty(output.quiet, y, nodes) + final

    def targets(self, y: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
        return as_model(self.local).targets(y)

    def ranking(self, *inputs: Any) -> Ranking:
        """Return the ranking of all nodes."""
        ranking: Ranking = self.order(self.embed(*inputs), inputs)
        return ranking

    def sort_order(self, *inputs: Any) -> tuple[Float[Tensor, " n"], Int[Tensor, " n"]]:
        """Return what every node is sorted by, and the nodes in sorted order."""
        ranking = self.ranking(*inputs)
        return ranking.keys, ranking.order()


def quiet_embedding(model: Any, z: Float[Tensor, "n f"], inputs: tuple[Any, ...]) -> Float[Tensor, "n f"]:
    """Return the local embedding of a model without dropout and without gradient."""
    if as_model(model.local).deterministic:
        return z.detach()
    with evaluating(model.local), torch.no_grad():
        quiet: Tensor = model.embed(*inputs)
        return quiet


def check_embedding(z: Any, local: nn.Module, width: int) -> Float[Tensor, "n f"]:
    """Return what a local model returned; raise where it is not one embedding of that width per node."""
    if not isinstance(z, Tensor):
        raise OptionError(
            f"{type(local).__name__} returns more than an embedding, for a loss of its own.",
            "Wrap a model that returns one tensor.",
        )
    if z.shape[-1] != width:
        raise OptionError(
            f"embedding_channels={width}, but the local model returns {z.shape[-1]}.", "Give the width of its result."
        )
    if len(z) == 0 and active_ranks() is None:
        raise DataError("the graph has no nodes.", "Give at least one row of features.")
    return z


def check_batch(batch: Tensor, num_nodes: int) -> None:
    """Raise where `batch` is not a graph number, 0 or above, for every node."""
    if batch.shape != (num_nodes,) or batch.is_floating_point() or batch.dtype == torch.bool:
        raise OptionError(
            f"batch is of shape {list(batch.shape)} and type {batch.dtype} for {num_nodes} nodes.",
            "Give the number of its graph for every node.",
        )
    if num_nodes and int(batch.min()) < 0:
        raise OptionError(f"batch has the negative number {int(batch.min())}.", "Number the graphs from 0.")
