"""The non-local version of any model that is built from widths and options; three of them have names of their own."""

from __future__ import annotations

import inspect
import sys
from typing import Any, ClassVar, Literal, NamedTuple

from torch import nn

from nlgnn.errors import OptionError, nearest
from nlgnn.nn.checks import check_width
from nlgnn.nn.local import GAT, GCN, MLP
from nlgnn.nn.metric_order import MetricOrder
from nlgnn.nn.model import Model
from nlgnn.nn.nonlocal_ import NonLocal, readout_of


class NonLocalOf(NonLocal):
    """A non-local model around a local one of this package, built from widths and options.

    Args:
        in_channels: features a node.
        hidden_channels: width of the local model's hidden layers.
        out_channels: classes.
        embedding_channels: width of the local embedding; as many as classes where not given.
        metric_dim: dimensions of a learned metric.
        metric_orders: projections of the metric that nodes are sorted along.
        metric_radius: positions on either side of a node within which it hears others.
        metric_perplexity: how many others share in what a node hears at the start.
        metric_eps: how strongly votes of far nodes are drawn to nothing.
        metric_form: what is voted: residual is what the local model got wrong, label the labels themselves.
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
        metric_dim: int = 16,
        metric_orders: int = 4,
        metric_radius: int = 8,
        metric_perplexity: float = 4.0,
        metric_eps: float = 0.05,
        metric_form: Literal["residual", "label"] = "residual",
        **options: Any,
    ) -> None:
        for_local, for_wrapper = option_names(self.local_class), option_names(NonLocal) - {"metric"}
        unknown = sorted(set(options) - for_local - for_wrapper)
        if unknown:
            known = for_local | for_wrapper | option_names(NonLocalOf)
            raise OptionError(
                f"{type(self).__name__} has no option {unknown[0]!r}.", nearest(unknown[0], sorted(known))
            )
        width = out_channels if embedding_channels is None else check_width("embedding", embedding_channels)
        local_options = {name: value for name, value in options.items() if name in for_local}
        wrapper_options = {name: value for name, value in options.items() if name in for_wrapper}
        if wrapper_options.get("conv_dropout") is None:
            wrapper_options["conv_dropout"] = options.get("dropout", 0.0)
        local = self.local_class(in_channels, hidden_channels, width, **local_options)
        order = options.get("order", "score")
        if order == "metric" or readout_of(order, options.get("readout")) == "vote":
            looks_at_adjacency = options.get("metric_input") == "adjacency"
            if looks_at_adjacency and options.get("num_nodes") is None:
                raise OptionError("metric_input='adjacency' needs the number of nodes.", "Give num_nodes.")
            wrapper_options["metric"] = MetricOrder(
                options["num_nodes"] if looks_at_adjacency else in_channels,
                dim=metric_dim,
                orders=metric_orders,
                radius=metric_radius,
                perplexity=metric_perplexity,
                eps=metric_eps,
                form=metric_form,
                random=order == "random",
            )
        super().__init__(local, width, out_channels, **wrapper_options)


_WRAPPED: dict[type[nn.Module], type[NonLocalOf]] = {}


def __getattr__(name: str) -> Any:
    """What `around` makes of a model of this package, for pickle, which looks for classes by their name."""
    local_class = getattr(sys.modules["nlgnn.nn"], name.removeprefix("NonLocal"), None)
    if name.startswith("NonLocal") and isinstance(local_class, type) and issubclass(local_class, Model):
        return NonLocalOf.around(local_class)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class NLMLP(NonLocalOf):
    __doc__ = f"NonLocal around an MLP. {NonLocalOf.__doc__}"
    local_class = MLP


class NLGCN(NonLocalOf):
    __doc__ = f"NonLocal around a GCN. {NonLocalOf.__doc__}"
    local_class = GCN


class NLGAT(NonLocalOf):
    __doc__ = f"NonLocal around a GAT. {NonLocalOf.__doc__}"
    local_class = GAT


# Options of a non-local model, by what they are of.
SCORE = {"score_bias", "multiply_score", "standardise_score"}
CONVOLUTIONS = {"kernel_size", "num_convs", "conv_dropout", "zero_init"}
METRIC = {"metric_dim", "metric_orders", "metric_radius", "metric_perplexity", "metric_eps", "metric_form"}
METRIC |= {"metric_input", "metric_lr"}


class Idle(NamedTuple):
    """Why an option changes nothing, and the option that would let it."""

    why: str
    instead: str


def idle_beside(order: str | None, readout: Literal["conv", "vote"] | None, aggregation: str | None) -> dict[str, Idle]:
    """The options that change nothing beside these three; None is their default."""
    votes = readout_of(order, readout) == "vote"
    idle: dict[str, Idle] = {}
    if aggregation == "attention":
        attends = Idle("attention has neither order nor convolutions", "aggregation='sort'")
        idle |= dict.fromkeys({*SCORE, *CONVOLUTIONS, "order"}, attends)
    if order == "metric" or votes:
        learned = Idle("a learned metric has no score, and a loss of its own", "order='score', readout='conv'")
        idle |= dict.fromkeys({*SCORE, "local_loss"}, learned)
    else:
        idle |= dict.fromkeys(METRIC, Idle("no metric is learned", "order='metric'"))
    if votes:
        nothing_mixed = Idle("training nodes vote, and nothing is convolved", "readout='conv'")
        idle |= dict.fromkeys({*CONVOLUTIONS, "head"}, nothing_mixed)
    return idle


def option_names(module_class: type[nn.Module]) -> set[str]:
    """The keyword-only arguments of a module."""
    parameters = inspect.signature(module_class).parameters.values()
    return {parameter.name for parameter in parameters if parameter.kind is inspect.Parameter.KEYWORD_ONLY}
