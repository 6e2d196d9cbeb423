"""NonLocal: local embedding, non-local aggregation, classifier. And its three named forms, NLMLP, NLGCN, NLGAT."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from nlgnn.errors import OptionError, nearest
from nlgnn.graph.graph import Graph
from nlgnn.nn.aggregation import NonLocalAggregation
from nlgnn.nn.attention import GlobalAttention
from nlgnn.nn.checks import check_choice, check_width
from nlgnn.nn.dense import cross_entropy
from nlgnn.nn.inputs import prepare_plain
from nlgnn.nn.local import GAT, GCN, MLP
from nlgnn.nn.model import reset
from nlgnn.nn.sequence import is_plain


class NonLocalOutput(NamedTuple):
    """What a non-local model returns in training when its loss looks at the local logits too."""

    logits: Tensor
    local: Tensor


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
        order: "score" sorts by the learned score, "random" by a fixed random key: a control.
        aggregation: "sort" is the method; "attention" attends over all pairs of nodes, O(n²), to compare with.
        head: "concat" classifies from [z, ẑ]; "residual" adds a linear map of ẑ to z, which then are local logits.
        local_loss: weight of the local logits' own loss; the rest is the weight of the loss of the final ones.
        score: a module in place of the linear score.
        convs: a module in place of the convolutions.
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
        order: Literal["score", "random"] = "score",
        aggregation: Literal["sort", "attention"] = "sort",
        head: Literal["concat", "residual"] = "concat",
        local_loss: float = 0.0,
        score: nn.Module | None = None,
        convs: nn.Module | None = None,
    ) -> None:
        super().__init__()
        check_width("out_channels", out_channels)
        if (head == "residual" or local_loss > 0) and embedding_channels != out_channels:
            raise OptionError(
                f"embedding={embedding_channels}, but head={head!r} and local_loss={local_loss} read the embedding "
                f"as logits of {out_channels} classes.",
                "Leave the embedding width out, or use head='concat' and local_loss=0.",
            )
        if not 0 <= local_loss <= 1:
            raise OptionError(f"local_loss={local_loss} is not a share.", "Give a number from 0 to 1.")
        self.local, self.local_loss, self.embedding_channels = local, local_loss, embedding_channels
        check_choice("aggregation", aggregation, ("sort", "attention"))
        check_choice("head", head, ("concat", "residual"))
        self._has_foreign_parts = score is not None or convs is not None
        self.aggregation: nn.Module
        if aggregation == "sort":
            self.aggregation = NonLocalAggregation(
                embedding_channels,
                kernel_size=kernel_size,
                num_convs=num_convs,
                dropout=conv_dropout or 0.0,
                score_bias=score_bias,
                multiply_score=multiply_score,
                standardise_score=standardise_score,
                zero_init=zero_init,
                order=order,
                score=score,
                convs=convs,
            )
        else:
            self.aggregation = GlobalAttention()
        self.residual = head == "residual"
        self.head = (
            nn.Linear(embedding_channels, out_channels, bias=False)
            if self.residual
            else nn.Linear(2 * embedding_channels, out_channels)
        )

    def reset_parameters(self) -> None:
        for module in (self.local, self.aggregation, self.head):
            reset(module)

    @property
    def stackable(self) -> bool:
        """Whether `torch.func.vmap` may train several at once; of modules from elsewhere it is not assumed."""
        return (
            bool(getattr(self.local, "stackable", False))
            and not self._has_foreign_parts
            and isinstance(self.aggregation, NonLocalAggregation)
            and is_plain(self.aggregation.convs)
        )

    @property
    def deterministic(self) -> bool:
        """Whether training and evaluation compute the same; of modules from elsewhere it is not assumed."""
        return (
            bool(getattr(self.local, "deterministic", False))
            and not self._has_foreign_parts
            and all(module.p == 0 for module in self.aggregation.modules() if isinstance(module, nn.Dropout))
        )

    @property
    def identifies_nodes(self) -> bool:
        """Whether the local model knows nodes by their number."""
        return bool(getattr(self.local, "identifies_nodes", False))

    def decay_groups(self) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
        """What the local model does not want decayed is not; all else is."""
        spared: list[nn.Parameter] = self.local.decay_groups()[1] if hasattr(self.local, "decay_groups") else []  # type: ignore[operator]
        numbers = {id(parameter) for parameter in spared}
        return [parameter for parameter in self.parameters() if id(parameter) not in numbers], spared

    def prepare(self, graph: Graph) -> tuple[Any, ...]:
        prepared: tuple[Any, ...] = getattr(self.local, "prepare", prepare_plain)(graph)
        return prepared

    def forward(
        self, x: Any, edge_index: Any = None, *further: Any, batch: Int[Tensor, " n"] | None = None
    ) -> Float[Tensor, "n c"] | NonLocalOutput:
        z: Tensor = self.local(x, edge_index, *further)
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
        mixed: Tensor = self.aggregation(z, batch)
        logits = z + self.head(mixed) if self.residual else self.head(torch.cat([z, mixed], dim=1))
        return NonLocalOutput(logits, z) if self.training and self.local_loss > 0 else logits

    def loss(self, output: Tensor | NonLocalOutput, y: Int[Tensor, " n"], nodes: Tensor) -> Float[Tensor, ""]:
        """Cross entropy of the final logits, mixed with that of the local ones where `local_loss` says so."""
        if isinstance(output, Tensor):
            return cross_entropy(output, y, nodes)
        final, local = (cross_entropy(logits, y, nodes) for logits in output)
        return (1 - self.local_loss) * final + self.local_loss * local


class NonLocalOf(NonLocal):
    """A non-local model around a local one of this package, built from widths and options.

    Args:
        in_channels: features a node.
        hidden_channels: width of the local model's hidden layers.
        out_channels: classes.
        embedding_channels: width of the local embedding; as many as classes where not given.
        options: those of the local model and of `NonLocal`. `dropout` is also the rate between the convolutions,
            unless `conv_dropout` says otherwise.
    """

    local_class: ClassVar[type[nn.Module]]

    @staticmethod
    def around(local_class: type[nn.Module]) -> type[NonLocalOf]:
        """The non-local version of a model that is built from widths and options; the same class every time."""
        if local_class not in _WRAPPED:
            words = f"{local_class.__name__}, wrapped. {NonLocalOf.__doc__}"
            attributes = {"local_class": local_class, "__doc__": words}
            _WRAPPED[local_class] = type(f"NonLocal{local_class.__name__}", (NonLocalOf,), attributes)
        return _WRAPPED[local_class]

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        embedding_channels: int | None = None,
        **options: Any,
    ) -> None:
        for_local, for_wrapper = option_names(self.local_class), option_names(NonLocal)
        unknown = sorted(set(options) - for_local - for_wrapper)
        if unknown:
            raise OptionError(
                f"{type(self).__name__} has no option {unknown[0]!r}.",
                nearest(unknown[0], sorted(for_local | for_wrapper)),
            )
        width = out_channels if embedding_channels is None else check_width("embedding", embedding_channels)
        local_options = {name: value for name, value in options.items() if name in for_local}
        wrapper_options = {name: value for name, value in options.items() if name in for_wrapper}
        if wrapper_options.get("conv_dropout") is None:
            wrapper_options["conv_dropout"] = options.get("dropout", 0.0)
        local = self.local_class(in_channels, hidden_channels, width, **local_options)
        super().__init__(local, width, out_channels, **wrapper_options)


_WRAPPED: dict[type[nn.Module], type[NonLocalOf]] = {}


class NLMLP(NonLocalOf):
    __doc__ = f"NonLocal around an MLP. {NonLocalOf.__doc__}"
    local_class = MLP


class NLGCN(NonLocalOf):
    __doc__ = f"NonLocal around a GCN. {NonLocalOf.__doc__}"
    local_class = GCN


class NLGAT(NonLocalOf):
    __doc__ = f"NonLocal around a GAT. {NonLocalOf.__doc__}"
    local_class = GAT


def option_names(module_class: type[nn.Module]) -> set[str]:
    """The keyword-only arguments of a module."""
    parameters = inspect.signature(module_class).parameters.values()
    return {parameter.name for parameter in parameters if parameter.kind is inspect.Parameter.KEYWORD_ONLY}
