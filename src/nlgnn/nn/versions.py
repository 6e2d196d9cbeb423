"""Versions: non-local and voting models that are built from widths and options around a local model."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from typing import Any, ClassVar, Literal, TypedDict, Unpack

from torch import nn

from nlgnn.errors import OptionError, nearest
from nlgnn.nn.base import Count, Model, Positive, Rate, checked
from nlgnn.nn.local import GAT, GCN, MLP
from nlgnn.nn.neighbour_vote import NeighbourVote
from nlgnn.nn.non_local import NonLocal
from nlgnn.nn.orders import LearnedOrder, Projections


@checked
def learned_space(
    in_channels: int,
    num_nodes: int | None,
    random: bool = False,
    *,
    frozen: bool = False,
    space_dim: Count = 16,
    space_projections: Projections = 4,
    space_radius: Count = 8,
    space_perplexity: float = 4.0,
    space_shrinkage: Positive = 0.05,
    space_input: Literal["features", "adjacency"] = "features",
    space_lr: Positive = 0.02,
) -> LearnedOrder:
    """Return a learned space from the options of a named model.

    Args:
        in_channels: Number of features per node.
        num_nodes: Number of nodes of the graph, for rows of the adjacency matrix.
        random: Whether votes use random orders: a control.
        frozen: Whether a learned space stays as it was drawn: a control.
        space_dim: Number of dimensions of a learned space.
        space_projections: Number of random projections to sort along.
        space_radius: Number of positions on either side that are neighbours.
        space_perplexity: Number of neighbours that share the weight at the start.
        space_shrinkage: Shrinkage of the vote when all neighbours are far away.
        space_input: Input of the space: features or rows of the adjacency.
        space_lr: Learning rate of the space.
    """
    if space_input == "adjacency" and num_nodes is None:
        raise OptionError("space_input='adjacency' needs the number of nodes.", "Give num_nodes.")
    return LearnedOrder(
        num_nodes if space_input == "adjacency" and num_nodes is not None else in_channels,
        dim=space_dim,
        projections=space_projections,
        radius=space_radius,
        perplexity=space_perplexity,
        shrinkage=space_shrinkage,
        input=space_input,
        lr=space_lr,
        frozen=frozen,
        random=random,
    )


class Version(Model):
    """Base class of models that are built from widths and options around a local model.

    A subclass names the local class; its signature and the words of its arguments are those of all that take part: the
    local class, the version, the learned space and the wrapper.
    """

    local_class: ClassVar[type[nn.Module]]
    wrapper: ClassVar[type[Model]]
    omitted: ClassVar[set[str]] = {"local", "mixer", "space"}
    _made: ClassVar[dict[tuple[type, type], Any]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "local_class" in vars(cls):
            version = next(base for base in cls.__mro__ if "wrapper" in vars(base))
            sources = (cls.local_class, version, learned_space, cls.wrapper)
            known = {
                name: p for one in reversed(sources) for name, p in _keywords(one).items() if name not in cls.omitted
            }
            # An argument that one of them needs is needed, though another has a default for it.
            known |= {
                name: p
                for one in sources
                for name, p in _keywords(one).items()
                if name in known and p.default is p.empty
            }
            widths = list(inspect.signature(cls.local_class, eval_str=True).parameters.values())[:3]
            ordered = {name: known[name] for one in sources for name in _keywords(one) if name in known}
            cls.__signature__ = inspect.Signature([*widths, *ordered.values()])  # type: ignore[attr-defined]
            words = {name: text for one in reversed(sources) for name, text in argument_words(one).items()}
            lines = "\n".join(f"    {name}: {words[name]}" for name in cls.__signature__.parameters)  # type: ignore[attr-defined]
            cls.__doc__ = f"{cls.wrapper.__name__} around {cls.local_class.__name__}.\n\nArgs:\n{lines}\n"

    @classmethod
    def around(cls, local_class: type[nn.Module]) -> Any:
        """Return the version of a model that is built from widths and options; the same class every time."""
        if (cls, local_class) not in cls._made:
            name = f"{cls.wrapper.__name__}{local_class.__name__}"
            cls._made[cls, local_class] = type(name, (cls,), {"local_class": local_class, "__module__": cls.__module__})
        return cls._made[cls, local_class]

    def split_options(self, options: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the options of the local class, of the learned space and of the wrapper; raise for those of none."""
        known = inspect.signature(type(self)).parameters
        for name in options:
            if name not in known:
                raise OptionError(f"{type(self).__name__} has no option {name!r}.", nearest(name, sorted(known)))
        owners = [_keywords(source).keys() for source in (self.local_class, learned_space, self.wrapper)]
        return [{name: value for name, value in options.items() if name in owned} for owned in owners]


def _keywords(source: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the keyword-only arguments of a class or function."""
    parameters = inspect.signature(source, eval_str=True).parameters
    return {name: one for name, one in parameters.items() if one.kind is inspect.Parameter.KEYWORD_ONLY}


def argument_words(source: Callable[..., Any]) -> dict[str, str]:
    """Return what the `Args:` section of a docstring says of each argument."""
    section = inspect.cleandoc(source.__doc__ or "").partition("Args:\n")[2]
    entries = re.findall(r"^ {4}(\w+): (.+(?:\n {8,}.+)*)", section, flags=re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


class NonLocalVersion(NonLocal, Version):
    """Non-local model around a local model of this package, built from widths and options.

    Args:
        embedding_channels: Width of the local embedding. By default the number of classes.
        order: Order of the nodes: by score, random, or learned. "random" is a control; "learned" sorts along a space
            that is learned from training labels.
        num_nodes: Number of nodes of the graph, for rows of the adjacency matrix.
        options: Those of the local model, of a learned space and of `NonLocal`. `dropout` is also the rate between the
            convolutions, unless `conv_dropout` is given.
    """

    wrapper = NonLocal

    @checked
    def __init__(
        self,
        in_channels: Count,
        hidden_channels: Count,
        out_channels: Count,
        *,
        embedding_channels: Count | None = None,
        order: Literal["score", "random", "learned"] = "score",
        num_nodes: int | None = None,
        **options: Any,
    ) -> None:
        width = embedding_channels or out_channels
        for_local, for_space, for_wrapper = self.split_options(options | {"num_nodes": num_nodes})
        if for_wrapper.get("conv_dropout") is None:
            for_wrapper["conv_dropout"] = options.get("dropout", 0.0)
        local = self.local_class(in_channels, hidden_channels, width, **for_local)
        chosen = learned_space(in_channels, num_nodes, **for_space) if order == "learned" else order
        super().__init__(local, width, out_channels, order=chosen, **for_wrapper)


class VoteVersion(NeighbourVote, Version):
    """Votes around a local model of this package, built from widths and options.

    Args:
        num_nodes: Number of nodes of the graph.
        order: Neighbours: near in a learned space, or random, a control.
        options: Those of the local model and of a learned space.
    """

    wrapper = NeighbourVote

    @checked
    def __init__(
        self,
        in_channels: Count,
        hidden_channels: Count,
        out_channels: Count,
        *,
        num_nodes: Count,
        order: Literal["learned", "random"] = "learned",
        **options: Any,
    ) -> None:
        for_local, for_space, _ = self.split_options(options | {"num_nodes": num_nodes})
        local = self.local_class(in_channels, hidden_channels, out_channels, **for_local)
        space = learned_space(in_channels, num_nodes, order == "random", **for_space)
        super().__init__(local, out_channels, num_nodes, space=space)


class NonLocalOptions(TypedDict, total=False):
    """Options of a non-local model: see `NonLocal` and `LearnedOrder`."""

    embedding_channels: int | None
    kernel_size: int
    num_convs: int
    conv_dropout: float | None
    zero_init: bool
    order: Literal["score", "random", "learned"]
    score_bias: bool
    multiply_score: bool
    standardise_score: bool
    head: Literal["concat", "residual"]
    local_loss: float
    frozen: bool
    space_dim: int
    space_projections: int
    space_radius: int
    space_perplexity: float
    space_shrinkage: float
    space_input: Literal["features", "adjacency"]
    space_lr: float
    num_nodes: int | None


class _NamedVersion(NonLocalVersion):
    """A non-local model with a name of its own, whose signature an editor can show."""

    def __init__(
        self,
        in_channels: Count,
        hidden_channels: Count,
        out_channels: Count,
        *,
        num_layers: Count = 2,
        dropout: Rate = 0.0,
        input_dropout: Rate | None = None,
        **options: Unpack[NonLocalOptions],
    ) -> None:
        own = {"num_layers": num_layers, "dropout": dropout, "input_dropout": input_dropout}
        super().__init__(in_channels, hidden_channels, out_channels, **own, **options)


class NLMLP(_NamedVersion):
    local_class = MLP


class NLGCN(_NamedVersion):
    local_class = GCN


class NLGAT(NonLocalVersion):
    local_class = GAT

    def __init__(
        self,
        in_channels: Count,
        hidden_channels: Count,
        out_channels: Count,
        *,
        num_layers: Count = 2,
        heads: Count = 8,
        dropout: Rate = 0.0,
        input_dropout: Rate | None = None,
        activation: Literal["relu", "elu"] = "relu",
        **options: Unpack[NonLocalOptions],
    ) -> None:
        own = {"num_layers": num_layers, "heads": heads, "dropout": dropout, "input_dropout": input_dropout}
        super().__init__(in_channels, hidden_channels, out_channels, **own, activation=activation, **options)


def __getattr__(name: str) -> Any:
    """Return the version of a model of this package by its name, for pickle."""
    for version in (NonLocalVersion, VoteVersion):
        prefix = version.wrapper.__name__
        local_class = getattr(sys.modules["nlgnn.nn"], name.removeprefix(prefix), None)
        if name.startswith(prefix) and isinstance(local_class, type) and issubclass(local_class, Model):
            return version.around(local_class)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
