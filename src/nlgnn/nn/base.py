"""Model: the contract between a model and the trainer, with a default for every hook."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from typing import Annotated, Any, ParamSpec, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from nlgnn.errors import OptionError
from nlgnn.graph.graph import Graph
from nlgnn.nn.inputs import Features, move, prepare_plain
from nlgnn.nn.kernels.dropout import Dropout, RandomModule
from nlgnn.nn.layers import cross_entropy
from nlgnn.nn.norm import BatchNorm

TRAIN_ANOTHER = "Train a model that reads features, such as nlgcn or nlmlp."

# Types of options, which `nlgnn.models` checks before any model is built, and `checked` when one is built.
Count = Annotated[int, Field(ge=1, le=100_000_000)]
Depth = Annotated[int, Field(ge=1, le=1_000)]
Rate = Annotated[float, Field(ge=0, lt=1)]
Share = Annotated[float, Field(ge=0, le=1)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def _odd(kernel_size: int) -> int:
    if kernel_size % 2 == 0:
        raise ValueError("a window needs a middle, so give an odd number, such as 3, 5, 7, or 1 for the control")
    return kernel_size


KernelSize = Annotated[int, Field(ge=1, le=1_000_000), AfterValidator(_odd)]


def check_value(name: str, value: Any, adapter: Any, how: str) -> Any:
    """Return a value in a type; raise an `OptionError` that names it where it cannot be one.

    Args:
        name: The name of the option.
        value: Its value.
        adapter: A pydantic `TypeAdapter` of its type, which may have bounds, such as `Count`.
        how: The second sentence of the error.
    """
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        message = error.errors()[0]["msg"].removeprefix("Value error, ")
        text = f"{message[0].lower()}{message[1:]}".rstrip(".")
        raise OptionError(f"{name}={value!r}: {text}.", how) from None


def checked(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Decorate a constructor such that its arguments are checked by their types, bounds and choices included."""

    @cache
    def signature() -> tuple[inspect.Signature, dict[str, Any]]:
        found = inspect.signature(function, eval_str=True)
        config = ConfigDict(arbitrary_types_allowed=True)
        named = {
            name: TypeAdapter(one.annotation, config=config)
            for name, one in found.parameters.items()
            if one.annotation is not one.empty and one.kind is not one.VAR_KEYWORD
        }
        return found, named

    @wraps(function)
    def check_and_call(*args: Any, **kwargs: Any) -> Result:
        expected, kinds = signature()
        bound = expected.bind(*args, **kwargs)
        for name in kinds.keys() & bound.arguments.keys():
            how = "See the arguments in the documentation of the class."
            bound.arguments[name] = check_value(name, bound.arguments[name], kinds[name], how)
        return function(*bound.args, **bound.kwargs)

    return check_and_call


class Model(nn.Module):
    """Base class of all models.

    Subclasses define `forward(x, edge_index)`, which returns logits `[n, classes]` or embeddings `[n, f]`, and override
    the hooks that they need. `edge_index` is taken as given: `model(x, edge_index)` neither adds directions nor scales
    features. `prepare(graph)` returns what `forward` takes for a `Graph`, and `nlgnn.prepare` scales features as well.

    Attributes:
        stackable: Whether `torch.func.vmap` may train several models at once. A model that draws random numbers other
            than by `nlgnn.nn.kernels.dropout`, such as by `torch.nn.functional.dropout`, sets it to False.
        identifies_nodes: Whether the model knows nodes by their number and is of use on its own graph only.
        accepts_more_nodes: Whether a model that knows nodes by their number takes a graph with further nodes after its
            own, which are described by their links to its own nodes.
        reads_labels: Whether training labels are part of the input, as with `label_input`.
        uses_edge_weights: Whether edge weights change the result, where a graph has some.
        uses_edge_types: Whether types of edges change the result, where a graph has some.
        estimable: Whether memory can be estimated by training on small random graphs.
        can_recompute: Whether the model can compute in parts, and again in the backward pass, to save memory.
        recompute: Whether it does so. The trainer sets it.
        over_ranks: Whether several processes can train the model, each with a range of the nodes.
        pretrains: Whether training starts with epochs on `pretrain_loss`, followed by `end_pretraining`.

    Example:
        >>> import torch
        >>> from nlgnn import Model
        >>> class Means(Model):
        ...     def __init__(self, in_channels, out_channels):
        ...         super().__init__()
        ...         self.linear = torch.nn.Linear(in_channels, out_channels)
        ...     def forward(self, x, edge_index):
        ...         return self.linear(x - x.mean(0))
        >>> Means(8, 3)(torch.randn(10, 8), None).shape
        torch.Size([10, 3])
    """

    stackable: bool = True
    identifies_nodes: bool = False
    accepts_more_nodes: bool = False
    reads_labels: bool = False
    uses_edge_weights: bool = False
    uses_edge_types: bool = False
    estimable: bool = True
    can_recompute: bool = False
    recompute: bool = False
    over_ranks: bool = False
    pretrains: bool = False

    @property
    def deterministic(self) -> bool:
        """Return whether training and evaluation compute the same: no dropout and no running statistics.

        It is not assumed of classes outside this package, whose `forward` may call functions such as `F.dropout`.
        """
        if type(self).__module__.partition(".")[0] != "nlgnn":
            return False
        return not any(True for _ in self.buffers()) and not any(map(_is_random, self.modules()))

    @property
    def way_to_new_nodes(self) -> str:
        """Return what to do instead, in a sentence, where the model is of use on its own graph only."""
        return "Train it without label_input." if self.reads_labels else TRAIN_ANOTHER

    @property
    def unwrapped(self) -> nn.Module:
        """Return the module whose weights are saved, which is the model itself unless it adapts another module."""
        return self

    def reset_parameters(self) -> None:
        """Draw all parameters of the modules inside again. Models with parameters of their own extend this."""
        for child in self.children():
            reset(child)

    def prepare(self, graph: Graph) -> tuple[Any, ...]:
        """Return what `forward` takes, computed once per graph."""
        return prepare_plain(graph)

    def training_output(self, *inputs: Any) -> Any:
        """Return what `loss` takes: logits, or a tuple that starts with logits where the loss needs more."""
        return self(*inputs)

    def loss(
        self, output: Any, y: Int[Tensor, " n"], nodes: Int[Tensor, " k"] | Bool[Tensor, " n"]
    ) -> Float[Tensor, ""]:
        """Return the training loss over some nodes, by default cross entropy.

        Args:
            output: What `training_output` or `forward` returned.
            y: The label of every node.
            nodes: The training nodes, as numbers or as a mask.
        """
        return cross_entropy(logits_of(output), self.targets(y), nodes)

    def targets(self, y: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
        """Return the labels for the loss, with -1 for those that `training_output` took as input. -1 does not count."""
        return y

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Return parameter groups as `torch.optim` takes them.

        A group may set `weight_decay` and `lr`; otherwise those of the recipe hold.
        """
        return [{"params": list(self.parameters())}]

    def start(self, inputs: tuple[Any, ...], known: Int[Tensor, " n"]) -> None:
        """Initialise from data, once, on fresh weights.

        Args:
            inputs: What `prepare` returned.
            known: The labels of training nodes, and -1 for all other nodes.
        """

    def pretrain_loss(self, output: Any, y: Int[Tensor, " n"], nodes: Tensor) -> Float[Tensor, ""]:
        """Return the loss of the pre-training epochs, for models that pre-train."""
        raise OptionError(f"{type(self).__name__} has no pre-training.", "Leave pretrain_epochs at 0.")

    def end_pretraining(self, inputs: tuple[Any, ...], y: Int[Tensor, " n"], nodes: Int[Tensor, " k"]) -> None:
        """Set what depends on the pre-trained weights, once, before the other epochs."""

    def candidates(self, *inputs: Any) -> Float[Tensor, "a n c"] | None:
        """Return several possible logits, of which validation chooses one; None where there is nothing to choose."""
        return None

    def choose(self, number: int) -> None:
        """Make `forward` return candidate `number` from now on."""


class ForeignModel(Model):
    """Adapter for a module from elsewhere, such as a model of PyTorch Geometric.

    It gets dense features and a symmetric `edge_index`, and is trained with cross entropy. A module may define
    `prepare(graph)`, `loss(output, y, nodes)`, `stackable`, `deterministic` and `identifies_nodes` itself; for all
    other hooks it has to be a `Model`.

    Args:
        module: The module. Its forward returns logits `[n, classes]`, or a tuple that starts with them.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        if hasattr(module, "loss") and not _is_loss(module.loss):
            raise OptionError(
                f"{type(module).__name__}.loss cannot be called as loss(output, y, nodes), as training does.",
                "Give it another name, or make it such a method; without one the loss is cross entropy.",
            )
        self.stackable = bool(getattr(module, "stackable", False))
        inner = [part for part in module.modules() if isinstance(part, Model)]
        self.identifies_nodes = bool(getattr(module, "identifies_nodes", any(part.identifies_nodes for part in inner)))
        self.uses_edge_weights = bool(inner) and inner[0].uses_edge_weights
        self.uses_edge_types = bool(inner) and inner[0].uses_edge_types
        self.estimable = all(part.estimable for part in inner)
        self.can_recompute = any(part.can_recompute for part in inner)

    @property
    def deterministic(self) -> bool:
        """Return what the module says; of a module from elsewhere it is not assumed."""
        return bool(getattr(self.module, "deterministic", False))

    @property
    def unwrapped(self) -> nn.Module:
        return self.module

    def prepare(self, graph: Graph) -> tuple[Any, ...]:
        prepared: tuple[Any, ...] = getattr(self.module, "prepare", prepare_plain)(graph)
        return prepared

    def forward(self, *inputs: Any) -> Tensor:
        return logits_of(self.module(*inputs))

    def training_output(self, *inputs: Any) -> Any:
        return self.module(*inputs)

    def loss(self, output: Any, y: Int[Tensor, " n"], nodes: Tensor) -> Float[Tensor, ""]:
        loss: Tensor = getattr(self.module, "loss", super().loss)(output, y, nodes)
        return loss


def as_model(module: nn.Module) -> Model:
    """Return a module as a `Model`: itself, or adapted by `ForeignModel`."""
    return module if isinstance(module, Model) else ForeignModel(module)


def prepare(module: nn.Module, graph: Graph, device: torch.device | None = None) -> tuple[Any, ...]:
    """Return what a module's forward takes for a graph, in the module's floating-point type and on a device."""
    graph.require_features()
    parameters = (parameter.dtype for parameter in module.parameters() if parameter.is_floating_point())
    return move(as_model(module).prepare(graph), device, next(parameters, torch.float32))


def logits_of(output: Any) -> Tensor:
    """Return the logits of an output, which is the logits or a tuple that starts with them."""
    logits: Tensor = output if isinstance(output, Tensor) else output[0]
    return logits


def reset(module: nn.Module) -> None:
    """Draw a module's parameters again, and those of the modules inside where it cannot do so itself."""
    if callable(draw := getattr(module, "reset_parameters", None)):
        draw()
    else:
        for child in module.children():
            reset(child)


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Put a module in evaluation mode for a while; afterwards every part is in its own mode again."""
    modes = {part: part.training for part in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for part, training in modes.items():
            part.training = training


@contextmanager
def storing_statistics(module: nn.Module) -> Iterator[None]:
    """Let all batch normalisations in a module store the statistics of an evaluation.

    `nlgnn.fit` does so at the end. After a training loop of your own, call the module once in this context.

    Example:
        >>> import torch
        >>> from nlgnn.nn import MLP
        >>> from nlgnn.nn.base import storing_statistics
        >>> model, x = MLP(3, 4, 2, norm="batch").eval(), torch.randn(9, 3)
        >>> with torch.no_grad(), storing_statistics(model):
        ...     whole = model(x)
        >>> bool(torch.allclose(model(x[:2]), whole[:2]))
        True
    """
    normalisations = [part for part in module.modules() if isinstance(part, BatchNorm)]
    for part in normalisations:
        part.storing = True
    try:
        yield
    finally:
        for part in normalisations:
            part.storing = False


def drop_features(x: Features, dropout: Dropout, *place: int) -> Features:
    """Return input features with dropout, in the form that they have."""
    if not dropout.training or not dropout.is_random:
        return x
    return dropout(x, *place) if isinstance(x, Tensor) else x.dropout(dropout, *place)


def _is_random(module: nn.Module) -> bool:
    if isinstance(module, RandomModule):
        return module.is_random
    return isinstance(module, _DropoutNd) and module.p > 0


def _is_loss(loss: object) -> bool:
    if isinstance(loss, nn.Module) or not callable(loss):
        return False
    try:
        inspect.signature(loss).bind("output", "y", "nodes")
    except TypeError:
        return False
    except ValueError:  # a function written in C has no signature
        pass
    return True
