"""Versions: non-local and voting models that are built from widths and options around a local model."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from typing import Any, ClassVar, Literal, TypedDict, Unpack

from torch import nn

from nlgnn.errors import OptionError, nearest
from nlgnn.nn.base import Count, Model, checked
from nlgnn.nn.learned_order import LearnedOrder
from nlgnn.nn.local import GAT, GCN, MLP
from nlgnn.nn.neighbour_vote import NeighbourVote
from nlgnn.nn.non_local import NonLocal
from nlgnn.nn.stack import Jumping, Norm


def learned_space(in_channels: int, options: dict[str, Any], random: bool = False) -> LearnedOrder:
    """Return a learned space from the options of a named model.

    Args:
        in_channels: Number of features per node.
        options: Options of the space, under the names that models have for them.
        random: Whether votes use random orders: a control.
    """
    arguments = {name.removeprefix("space_"): value for name, value in options.items()}
    try:
        return LearnedOrder(in_channels, random=random, **arguments)
    except OptionError as error:  # which names the argument
        raise OptionError(f"space_{error.what}", error.how) from None


class Version(Model):
    """Base class of models that are built from widths and options around a local model.

    A subclass names the local class; its signature and the words of its arguments are those of all that take part: the
    local class, the version, the learned space and the wrapper.
    """

    local_class: ClassVar[type[nn.Module]]
    wrapper: ClassVar[type[Model]]
    omitted: ClassVar[set[str]] = {"local", "mixer", "space", "label_channels"}
    _made: ClassVar[dict[tuple[type, type], Any]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "local_class" in vars(cls):
            version = next(base for base in cls.__mro__ if "wrapper" in vars(base))
            sources = (cls.local_class, version, LearnedOrder, cls.wrapper)
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
            own = inspect.cleandoc(vars(cls)["__doc__"] or f"{cls.wrapper.__name__} around {cls.local_class.__name__}.")
            summary, _, example = own.partition("\n\n")
            cls.__doc__ = f"{summary}\n\nArgs:\n{lines}\n\n{example}"

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
        owners = [_keywords(source).keys() for source in (self.local_class, LearnedOrder, self.wrapper)]
        return [{name: value for name, value in options.items() if name in owned} for owned in owners]


def _keywords(source: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the keyword-only arguments of a class, under the names that they have as options."""
    parameters = inspect.signature(source, eval_str=True).parameters.values()
    named = ((_option(source, one.name), one) for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY)
    return {name: one.replace(name=name) for name, one in named if name != "space_random"}  # set by `order`


def argument_words(source: Callable[..., Any]) -> dict[str, str]:
    """Return what the `Args:` section of a docstring says of each argument, under the name that it has as an option."""
    section = inspect.cleandoc(source.__doc__ or "").partition("Args:\n")[2]
    entries = re.findall(r"^ {4}(\w+): (.+(?:\n {8,}.+)*)", section, flags=re.MULTILINE)
    return {_option(source, name): " ".join(text.split()) for name, text in entries}


def _option(source: Callable[..., Any], argument: str) -> str:
    """Return the name that an argument has as an option of a model: `space_dim` for `dim` of a learned space."""
    shared = ("frozen", "num_nodes")
    return f"space_{argument}" if source is LearnedOrder and argument not in shared else argument


class NonLocalOptions(TypedDict, total=False):
    """Options of a non-local model, which editors show: see `MLP`, `GCN`, `GAT`, `NonLocal` and `LearnedOrder`."""

    num_layers: int
    dropout: float
    input_dropout: float | None
    heads: int  # of GAT
    activation: Literal["relu", "elu"]  # of GAT
    kernel_size: int
    num_convs: int
    conv_dropout: float | None
    zero_init: bool
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
    space_signs: int
    space_input: Literal["features", "adjacency", "structure"]
    space_descriptions: str
    space_votes: Literal["residuals", "labels"]
    space_lr: float
    space_trained: Literal["map", "weights"]
    norm: Norm
    residual: bool
    jumping: Jumping
    row_norm: bool
    label_input: float


class NonLocalVersion(NonLocal, Version):
    """Non-local model around a local model of this package, built from widths and options.

    Args:
        embedding_channels: Width of the local embedding. By default the number of classes.
        order: Order of the nodes. "score" sorts by the learned score; "random" is a control; "learned" sorts along
            a space that is learned from training labels.
        num_nodes: Number of nodes of the graph, for rows of the adjacency matrix and for `label_input`.
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
        **options: Unpack[NonLocalOptions],
    ) -> None:
        width = embedding_channels or out_channels
        for_local, for_space, for_wrapper = self.split_options({**options, "num_nodes": num_nodes})
        if for_wrapper.get("conv_dropout") is None:
            for_wrapper["conv_dropout"] = options.get("dropout", 0.0)
        if "label_channels" in _keywords(self.local_class):  # the embedding may be wider than the number of classes
            for_local["label_channels"] = out_channels
        local = self.local_class(in_channels, hidden_channels, width, **for_local)
        chosen = learned_space(in_channels, for_space) if order == "learned" else order
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
        space = learned_space(in_channels, for_space, random=order == "random")
        super().__init__(local, out_channels, num_nodes, space=space)


class NLMLP(NonLocalVersion):
    """An MLP with non-local aggregation along a sorted order (Liu, Wang and Ji, TPAMI 2021).

    Example:
        >>> import torch
        >>> from nlgnn import NLMLP
        >>> model = NLMLP(8, 16, 3, kernel_size=5)
        >>> model(torch.randn(10, 8)).shape
        torch.Size([10, 3])
    """

    local_class = MLP


class NLGCN(NonLocalVersion):
    """A GCN with non-local aggregation along a sorted order (Liu, Wang and Ji, TPAMI 2021).

    Example:
        >>> import torch
        >>> from nlgnn import NLGCN
        >>> model = NLGCN(8, 16, 3, kernel_size=5)
        >>> model(torch.randn(10, 8), torch.randint(10, (2, 30))).shape
        torch.Size([10, 3])
    """

    local_class = GCN


class NLGAT(NonLocalVersion):
    """A GAT with non-local aggregation along a sorted order (Liu, Wang and Ji, TPAMI 2021).

    Example:
        >>> import torch
        >>> from nlgnn import NLGAT
        >>> model = NLGAT(8, 16, 3, kernel_size=5)
        >>> model(torch.randn(10, 8), torch.randint(10, (2, 30))).shape
        torch.Size([10, 3])
    """

    local_class = GAT


def __getattr__(name: str) -> Any:
    """Return the version of a model of this package by its name, for pickle."""
    for version in (NonLocalVersion, VoteVersion):
        prefix = version.wrapper.__name__
        local_class = getattr(sys.modules["nlgnn.nn"], name.removeprefix(prefix), None)
        if name.startswith(prefix) and isinstance(local_class, type) and issubclass(local_class, Model):
            return version.around(local_class)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
