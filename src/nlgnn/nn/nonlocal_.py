"""NonLocal: local embedding, non-local aggregation, classifier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from nlgnn.errors import OptionError
from nlgnn.graph.graph import Graph
from nlgnn.nn.aggregation import NonLocalAggregation
from nlgnn.nn.attention import GlobalAttention
from nlgnn.nn.checks import check_choice, check_width
from nlgnn.nn.dense import cross_entropy
from nlgnn.nn.inputs import TAKES_WHAT_IT_PREPARES, Edges, Features, Inputs, prepare_plain
from nlgnn.nn.metric_order import MetricOrder
from nlgnn.nn.model import reset
from nlgnn.nn.modes import evaluating
from nlgnn.nn.sequence import is_plain, stable_order
from nlgnn.nn.sparse import Operator
from nlgnn.nn.vote import Vote


class NonLocalOutput(NamedTuple):
    """What a non-local model returns in training when its loss looks at the local logits too."""

    logits: Tensor
    local: Tensor


class MetricOutput(NamedTuple):
    """What a model whose order is a learned metric returns in training: its loss teaches the metric too."""

    logits: Tensor
    local: Tensor
    quiet: Tensor  # local logits without dropout
    e: Tensor  # where the nodes stand in the metric


class InputsAndRows(NamedTuple):
    """What forward takes where the metric looks at rows of the adjacency matrix."""

    x: Features
    edge_index: Edges
    rows: Operator


class NonLocal(nn.Module):
    """Makes any node embedding non-local: embed, aggregate over all nodes, classify from both.

    Args:
        local: any module with `forward(x, edge_index)`, or whatever else its `prepare` gives, whose result is
            `[n, embedding_channels]`.
        embedding_channels: width of what `local` gives.
        out_channels: classes.
        kernel_size: positions that one convolution sees, an odd number. 1 mixes no nodes: a control.
        num_convs: convolutions along the order.
        conv_dropout: share of units dropped between the convolutions in training; 0 where not given, and in a named
            model as `dropout`.
        score_bias: whether the score has a bias. It changes the product with the score, never the order.
        multiply_score: whether embeddings are multiplied by their score (equation 6); without, equation 5.
        standardise_score: whether the factor is the score minus its mean, over its standard deviation.
        zero_init: whether the last convolution starts at zero.
        order: "score" sorts by the learned score, "random" by a random key: a control; "metric" along projections of a
            metric that is trained: see `MetricOrder`.
        readout: "conv" convolves along the order; "vote" lets training nodes vote on those near them in the metric,
            which goes with the orders metric and, as a control, random. By default vote for the metric, else conv. Of
            a model that votes, all options of convolutions, score and head mean nothing.
        aggregation: "sort" is the method; "attention" attends over all pairs of nodes, O(n²), to compare with.
        head: "concat" classifies from [z, ẑ]; "residual" adds a linear map of ẑ to z, which then are local logits.
        local_loss: weight of the local logits' own loss; the rest is the weight of the loss of the final ones.
        score: a module in place of the linear score.
        convs: a module in place of the convolutions.
        metric: for the order metric and for votes, a `MetricOrder` of the nodes' raw input.
        metric_input: what the metric looks at: a node's features, or its row of the adjacency matrix.
        metric_lr: learning rate of a learned metric; 0 leaves it as it was drawn: a control.
        num_nodes: for votes, nodes of the graph.

    In evaluation, forward gives logits `[n, out_channels]`. In training so it does, unless the loss looks at more
    (`local_loss`, a learned metric): then it gives a tuple that begins with logits, for `loss(output, y, nodes)`.
    `nlgnn.fit` takes care of both; in a training loop of your own, call `loss`, and where a metric is learned once
    before it `before_training(inputs, known)`, with the labels of training nodes and -1 elsewhere: without it, nobody
    votes.
    """

    def __init__(
        self,
        local: nn.Module,
        embedding_channels: int,
        out_channels: int,
        *,
        kernel_size: int = 5,
        num_convs: int = 2,
        conv_dropout: float | None = None,
        score_bias: bool = False,
        multiply_score: bool = True,
        standardise_score: bool = False,
        zero_init: bool = False,
        order: Literal["score", "random", "metric"] = "score",
        readout: Literal["conv", "vote"] | None = None,
        aggregation: Literal["sort", "attention"] = "sort",
        head: Literal["concat", "residual"] = "concat",
        local_loss: float = 0.0,
        score: nn.Module | None = None,
        convs: nn.Module | None = None,
        metric: MetricOrder | None = None,
        metric_input: Literal["features", "adjacency"] = "features",
        metric_lr: float = 0.02,
        num_nodes: int | None = None,
    ) -> None:
        super().__init__()
        check_width("out_channels", out_channels)
        readout = check_readout(order, readout, aggregation, metric)
        check_choice("metric_input", metric_input, ("features", "adjacency"))
        if metric_lr < 0:
            raise OptionError(
                f"metric_lr={metric_lr} is negative.", "Give a learning rate, or 0 to leave the metric as drawn."
            )
        reads_logits = head == "residual" or local_loss > 0 or metric is not None
        if reads_logits and embedding_channels != out_channels:
            raise OptionError(
                f"embedding={embedding_channels}, but head={head!r}, local_loss={local_loss} and order={order!r} read "
                f"the embedding as logits of {out_channels} classes.",
                "Leave the embedding width out, or use head='concat', local_loss=0 and order='score'.",
            )
        if not 0 <= local_loss <= 1:
            raise OptionError(f"local_loss={local_loss} is not a share.", "Give a number from 0 to 1.")
        self.local, self.local_loss, self.embedding_channels = local, local_loss, embedding_channels
        check_choice("head", head, ("concat", "residual"))
        self._has_foreign_parts = score is not None or convs is not None
        self.metric, self.metric_input, self.metric_lr = metric, metric_input, metric_lr
        self.vote: Vote | None = None
        self.aggregation: NonLocalAggregation | GlobalAttention | None = None
        self.head: nn.Linear | None = None
        self.residual = head == "residual"
        if readout == "vote":
            if num_nodes is None:
                raise OptionError("votes need the number of nodes.", "Give num_nodes.")
            self.vote = Vote(num_nodes)
            return
        if aggregation == "attention":
            self.aggregation = GlobalAttention()
        else:
            self.aggregation = NonLocalAggregation(
                embedding_channels,
                kernel_size=kernel_size,
                num_convs=num_convs,
                dropout=conv_dropout or 0.0,
                score_bias=score_bias,
                multiply_score=multiply_score,
                standardise_score=standardise_score,
                zero_init=zero_init,
                order="given" if order == "metric" else order,
                score=score,
                convs=convs,
            )
        self.head = (
            nn.Linear(embedding_channels, out_channels, bias=False)
            if self.residual
            else nn.Linear(2 * embedding_channels, out_channels)
        )

    def reset_parameters(self) -> None:
        for module in self.children():
            reset(module)

    @property
    def stackable(self) -> bool:
        """Whether `torch.func.vmap` may train several at once; of modules from elsewhere it is not assumed."""
        return (
            bool(getattr(self.local, "stackable", False))
            and not self._has_foreign_parts
            and not isinstance(self.aggregation, GlobalAttention)
            and (self.aggregation is None or is_plain(self.aggregation.convs))
        )

    @property
    def deterministic(self) -> bool:
        """Whether training and evaluation compute the same; of modules from elsewhere it is not assumed."""
        return (
            bool(getattr(self.local, "deterministic", False))
            and not self._has_foreign_parts
            and self.metric is None
            and self.aggregation is not None
            and all(module.p == 0 for module in self.aggregation.modules() if isinstance(module, nn.Dropout))
        )

    @property
    def identifies_nodes(self) -> bool:
        """Whether the model knows nodes by their number: for its local part, its metric or its votes."""
        by_number = self.vote is not None or (self.metric is not None and self.metric_input == "adjacency")
        return by_number or bool(getattr(self.local, "identifies_nodes", False))

    def decay_groups(self) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
        """What the local model does not want decayed is not, nor is the metric; all else is."""
        spared: list[nn.Parameter] = self.local.decay_groups()[1] if hasattr(self.local, "decay_groups") else []  # type: ignore[operator]
        spared = [*spared, *(self.metric.parameters() if self.metric is not None else ())]
        numbers = {id(parameter) for parameter in spared}
        return [parameter for parameter in self.parameters() if id(parameter) not in numbers], spared

    def learning_rates(self) -> dict[nn.Parameter, float]:
        """Of parameters that have their own."""
        return {} if self.metric is None else {self.metric.weight: self.metric_lr}

    def prepare(self, graph: Graph) -> tuple[Any, ...]:
        prepared: tuple[Any, ...] = getattr(self.local, "prepare", prepare_plain)(graph)
        if self.metric is None or self.metric_input == "features":
            return prepared
        if not isinstance(prepared, Inputs):
            raise OptionError(
                f"metric_input='adjacency' does not go with {type(self.local).__name__}, which takes more than edges.",
                "Use metric_input='features'.",
            )
        return InputsAndRows(*prepared, Operator.from_scipy(graph.undirected_weights, symmetric=True))

    def before_training(self, inputs: tuple[Any, ...], known: Int[Tensor, " n"]) -> None:
        """Where an order is learned: how far nodes hear, and with votes the labels that they vote with."""
        if self.metric is not None:
            self.metric.choose_scale(self.raw_input(inputs))
        if self.vote is not None:
            self.vote.remember(known)

    def raw_input(self, inputs: tuple[Any, ...]) -> Any:
        """What the metric looks at: features come first, what `prepare` adds for the metric last."""
        if self.metric_input == "features":
            return inputs[0]
        if len(inputs) < len(InputsAndRows._fields):
            raise OptionError(*TAKES_WHAT_IT_PREPARES)
        return inputs[-1]

    def forward(
        self, x: Any, edge_index: Any = None, *further: Any, batch: Int[Tensor, " n"] | None = None
    ) -> Float[Tensor, "n c"] | NonLocalOutput | MetricOutput:
        if self.metric is None:
            z = self._embedded(x, edge_index, *further)
            logits = self._mixed(z, batch)
            return NonLocalOutput(logits, z) if self.training and self.local_loss > 0 else logits
        if batch is not None:
            raise OptionError("a learned metric orders the nodes of one graph.", "Leave batch out.")
        z, e = self.located(x, edge_index, *further)
        if self.vote is not None:
            logits = z if self.training else self.vote(self.metric, z, e)
        else:
            logits = self._mixed(z, keys=self.metric.principal_keys(e))
        return MetricOutput(logits, z, self._quiet(z, x, edge_index, *further), e) if self.training else logits

    def sort_order(self, *inputs: Any) -> tuple[Float[Tensor, " n"], Int[Tensor, " n"]]:
        """What every node is sorted by, and the nodes in sorted order, on what `prepare` gives.

        Of the several orders that nodes vote along it is none, but the principal one: see `MetricOrder`. Of several
        random ones it is the first.
        """
        if self.metric is not None:
            e = self.metric(self.raw_input(inputs))
            keys = self.metric.keys(e)[0] if self.metric.random else self.metric.principal_keys(e)
            return keys, stable_order(keys)
        if not isinstance(self.aggregation, NonLocalAggregation):
            raise OptionError("this model sorts nothing: it attends to all nodes.", "Use aggregation='sort'.")
        return self.aggregation.sort_order(self._embedded(*inputs))

    @property
    def answers(self) -> Callable[..., Float[Tensor, "a n c"]] | None:
        """What the model could say, with votes that count nothing, little or much; validation chooses one.

        None where there is nothing to choose.
        """
        return None if self.vote is None else self._answers

    def _answers(self, *inputs: Any) -> Float[Tensor, "a n c"]:
        assert self.vote is not None
        assert self.metric is not None
        answers: Tensor = self.vote.answers(self.metric, *self.located(*inputs))
        return answers

    def choose_answer(self, number: int) -> None:
        assert self.vote is not None
        self.vote.share.data.fill_(number)

    def _embedded(self, *inputs: Any) -> Float[Tensor, "n f"]:
        z: Tensor = self.local(*inputs)
        if not isinstance(z, Tensor):
            raise OptionError(
                f"{type(self.local).__name__} gives more than an embedding, for a loss of its own, which NonLocal does "
                "not know.",
                "Wrap a model that gives one tensor.",
            )
        if z.shape[-1] != self.embedding_channels:
            raise OptionError(
                f"embedding_channels={self.embedding_channels}, but the local model gives {z.shape[-1]}.",
                "Say how wide its result is.",
            )
        return z

    def located(self, *inputs: Any) -> tuple[Float[Tensor, "n c"], Float[Tensor, "n m"]]:
        """Local logits, and where nodes stand in the metric."""
        assert self.metric is not None
        e = self.metric(self.raw_input(inputs))
        return self._embedded(*self._local_input(inputs)), e

    def _local_input(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """What `prepare` gave without what it added for the metric."""
        return inputs if self.metric_input == "features" else inputs[:-1]

    def _quiet(self, z: Float[Tensor, "n c"], *inputs: Any) -> Float[Tensor, "n c"]:
        """The local logits as in evaluation."""
        if getattr(self.local, "deterministic", False):
            return z.detach()
        with evaluating(self.local), torch.no_grad():
            return self._embedded(*self._local_input(inputs))

    def _mixed(self, z: Tensor, *where: Any, **keys: Tensor) -> Float[Tensor, "n c"]:
        """Logits from the embedding and what comes along the order."""
        assert self.aggregation is not None
        assert self.head is not None
        mixed: Tensor = self.aggregation(z, *where, **keys)
        logits: Tensor = z + self.head(mixed) if self.residual else self.head(torch.cat([z, mixed], dim=1))
        return logits

    def loss(
        self, output: Tensor | NonLocalOutput | MetricOutput, y: Int[Tensor, " n"], nodes: Tensor
    ) -> Float[Tensor, ""]:
        """Cross entropy of the final logits, mixed with that of the local ones where `local_loss` says so.

        Where a metric is learned, it is the sum of three, whatever `local_loss` says: of the local logits, of the
        metric's votes and, of a model that convolves, of the final logits.
        """
        if isinstance(output, Tensor):
            return cross_entropy(output, y, nodes)
        if isinstance(output, MetricOutput):
            assert self.metric is not None
            loss = cross_entropy(output.local, y, nodes) + self.metric.loss(output.e, output.quiet, y, nodes)
            return loss if self.vote is not None else loss + cross_entropy(output.logits, y, nodes)
        final, local = (cross_entropy(logits, y, nodes) for logits in output)
        return (1 - self.local_loss) * final + self.local_loss * local


def readout_of(order: str | None, readout: Literal["conv", "vote"] | None) -> Literal["conv", "vote"]:
    """What reads an order, also where it is not said."""
    return readout or ("vote" if order == "metric" else "conv")


def check_readout(
    order: str, readout: Literal["conv", "vote"] | None, aggregation: str, metric: nn.Module | None
) -> Literal["conv", "vote"]:
    """What reads the order, checked against what else is wanted."""
    check_choice("order", order, ("score", "random", "metric"))
    check_choice("aggregation", aggregation, ("sort", "attention"))
    chosen = readout_of(order, readout)
    check_choice("readout", chosen, ("conv", "vote"))
    if chosen == "vote" and order == "score":
        raise OptionError("readout='vote' needs a metric, which order='score' has not.", "Use order='metric'.")
    needed = order == "metric" or chosen == "vote"
    if needed and aggregation == "attention":
        raise OptionError("aggregation='attention' has no order.", "Leave order and readout out, or sort.")
    if needed != (metric is not None):
        raise OptionError(
            f"order={order!r} with readout={chosen!r} {'needs a' if needed else 'has no'} metric.",
            "Give metric=MetricOrder(in_channels) with order='metric' or readout='vote', and only there.",
        )
    return chosen
