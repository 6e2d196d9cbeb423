r"""Deep stacks: normalisation, residual connections, jumping knowledge and labels as input, around any convolution.

Let `conv` be the convolution of a model, such as :math:`\hat{A} H W + b` of GCN. With all options, the stack computes

.. math::
    H_0 &= X W_{in} + Y W_y \\
    T_l &= \mathrm{norm}_l(\mathrm{conv}_l(H_{l-1}) + \mathrm{skip}_l(H_{l-1})), \quad l = 1, \dots, L \\
    H_l &= \mathrm{rows}(\mathrm{drop}(\mathrm{relu}(T_l))) \\
    Z &= \mathrm{jump}(H_1, \dots, H_L) W_{out} + b_{out}

`norm` is batch normalisation over all nodes (:mod:`nlgnn.nn.norm`), layer normalisation over each row, or nothing.
`rows` divides each row by its norm if `row_norm` is set. `jump` is :math:`H_L` ("last"), the elementwise maximum
("max") or the concatenation ("cat") of all layers, from Xu et al., `"Representation Learning on Graphs with Jumping
Knowledge Networks" <https://arxiv.org/abs/1806.03536>`_, ICML 2018. :math:`Y` contains the shown labels
(:mod:`nlgnn.nn.label_input`).

`residual` adds `skip`, which is :math:`H W_r` with a weight of its own for GCN, GAT and Dir-GCN, :math:`H` itself for
MLP, and nothing for GraphSAGE, whose layer already has the term :math:`H W_{root}`. The number of layers L counts
convolutions:

- With `residual` or `label_input`, L convolutions lie between the linear maps :math:`W_{in}` and :math:`W_{out}`.
- With `jumping` alone there is no :math:`W_{in}`: the first convolution reads :math:`H_0 = X`.
- With `norm` or `row_norm` alone there is no :math:`W_{out}` either: the last of the L convolutions returns :math:`Z`,
  and neither normalisation nor activation follows it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from nlgnn.errors import OptionError
from nlgnn.nn.base import Count, Depth, Model, Rate, checked
from nlgnn.nn.inputs import Features
from nlgnn.nn.kernels.dropout import Dropout
from nlgnn.nn.kernels.sparse import Operator
from nlgnn.nn.label_input import LabelInput
from nlgnn.nn.layers import FeatureLinear, GraphConvolution, Projection, divided_by_length
from nlgnn.nn.norm import BatchNorm

Norm = Literal["none", "batch", "layer"]
Jumping = Literal["last", "max", "cat"]


@dataclass(frozen=True)
class StackOptions:
    """Options of a deep stack, as the models that have one take them."""

    norm: Norm = "none"
    residual: bool = False
    jumping: Jumping = "last"
    row_norm: bool = False
    label_input: float = 0.0
    num_nodes: int | None = None
    label_channels: int | None = None

    @property
    def plain(self) -> bool:
        """Return whether layers follow one another with nothing but activation and dropout between them."""
        return self.norm == "none" and not self.row_norm and not self.has_output_map

    @property
    def has_input_map(self) -> bool:
        """Return whether a linear map comes before the first convolution."""
        return self.residual or self.label_input > 0

    @property
    def has_output_map(self) -> bool:
        """Return whether a linear map follows the last convolution."""
        return self.has_input_map or self.jumping != "last"


class DeepStack(nn.Module):
    """Layers with normalisation, residual connections, jumping knowledge and labels as input.

    Args:
        options: The options.
        in_channels: Number of features per node.
        width: Width of the hidden layers.
        out_channels: Width of the output.
        num_layers: Number of convolutions.
        hidden: Makes a hidden convolution from the width of its input. It is called as `layer(h, operator)`.
        last: Makes the last convolution in the same way, for stacks without a linear output.
        skip: Makes the map that `residual` adds; None for convolutions that already add one.
    """

    def __init__(
        self,
        options: StackOptions,
        in_channels: int,
        width: int,
        out_channels: int,
        num_layers: int,
        hidden: Callable[[int], nn.Module],
        last: Callable[[int], nn.Module],
        skip: Callable[[int, int], nn.Module] | None = None,
    ) -> None:
        super().__init__()
        self.options = options
        if options.has_output_map:
            self.last: nn.Module = FeatureLinear(
                width * num_layers if options.jumping == "cat" else width, out_channels
            )
        else:
            num_layers -= 1
            self.last = last(width if num_layers else in_channels)
        widths = [width if options.has_input_map else in_channels, *[width] * num_layers][:num_layers]
        self.layers = nn.ModuleList(map(hidden, widths))
        self.input = Projection(in_channels, width) if options.has_input_map else None
        self.labels = _label_input(options, width, out_channels)
        self.norms, self.skips = nn.ModuleList(), nn.ModuleList()
        if options.norm != "none":
            self.norms.extend((BatchNorm if options.norm == "batch" else nn.LayerNorm)(width) for _ in widths)
        if options.residual and skip is not None:
            self.skips.extend(skip(width, width) for _ in widths)
        self._freeze_biases()

    def _freeze_biases(self) -> None:
        """Exclude the biases from training that batch normalisation subtracts again."""
        if self.options.norm == "batch":
            for layer in self.layers:
                layer.bias.requires_grad_(False)

    def forward(
        self, x: Features, operator: Operator | None, dropout: Dropout, activation: Callable[[Tensor], Tensor] = F.relu
    ) -> Float[Tensor, "n f"]:
        """Return the output.

        Args:
            x: The features, after input dropout.
            operator: The operator that the convolutions take.
            dropout: The dropout of hidden layers.
            activation: The activation of hidden layers.
        """
        h: Any = x if self.input is None else self.input(x)
        if self.labels is not None:
            h = h + self.labels(x.shape[0])
        hidden = []
        for number in range(len(self.layers)):
            h = self._activated(number, self._convolved(number, h, operator), dropout, activation)
            h = divided_by_length(h) if self.options.row_norm else h
            hidden.append(h)
        if self.options.jumping == "cat":
            h = torch.cat(hidden, dim=1)
        elif self.options.jumping == "max":
            h = reduce(larger, hidden)
        result: Tensor = self.last(h, operator)
        return result

    def _convolved(self, number: int, h: Any, operator: Operator | None) -> Tensor:
        """Return the result of a convolution, with its residual connection."""
        layer = self.layers[number]
        skip = self.skips[number] if self.skips else None
        if isinstance(layer, GraphConvolution) and isinstance(skip, Projection):
            assert operator is not None  # prepared by GCN
            return layer.with_skip(h, operator, skip.weight)
        result: Tensor = layer(h, operator) if skip is None else layer(h, operator) + skip(h)
        return result

    def _activated(
        self, number: int, h: Tensor, dropout: Dropout, activation: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "n f"]:
        """Return a hidden layer after normalisation, activation and dropout."""
        norm = self.norms[number] if self.norms else None
        if isinstance(norm, BatchNorm) and activation is F.relu:
            return norm.hidden(h, dropout, number)
        result: Tensor = dropout(activation(h if norm is None else norm(h)), number)
        return result


def stack_layers(
    options: StackOptions,
    in_channels: int,
    width: int,
    out_channels: int,
    num_layers: int,
    hidden: Callable[[int], nn.Module],
    last: Callable[[int], nn.Module],
    skip: Callable[[int, int], nn.Module] | None = None,
) -> list[nn.Module] | DeepStack:
    """Return a list of plain layers, or a deep stack if an option needs one. The arguments are those of `DeepStack`."""
    if options.plain:
        *widths, width_before_last = [in_channels, *[width] * (num_layers - 1)]
        return [*map(hidden, widths), last(width_before_last)]
    return DeepStack(options, in_channels, width, out_channels, num_layers, hidden, last, skip)


def _label_input(options: StackOptions, width: int, out_channels: int) -> LabelInput | None:
    if options.label_input == 0:
        return None
    if options.num_nodes is None:
        raise OptionError("label_input needs the number of nodes of the graph.", "Give num_nodes.")
    return LabelInput(options.num_nodes, options.label_channels or out_channels, width, options.label_input)


def larger(a: Float[Tensor, "n f"], b: Float[Tensor, "n f"]) -> Float[Tensor, "n f"]:
    """Return the elementwise maximum.

    Unlike in `torch.maximum`, the gradient is not shared between ties, which takes a fifth of the time.
    """
    return a + F.relu(b - a)


class StackModel(Model):
    """Base class of models whose layers are plain or deep.

    Args:
        layers: Plain layers, which the model calls itself, or a deep stack.
        dropout: Share of hidden units dropped in training.
        input_dropout: Share of input features dropped in training.
    """

    def __init__(self, layers: Sequence[nn.Module] | DeepStack, dropout: float, input_dropout: float) -> None:
        super().__init__()
        self.deep = layers if isinstance(layers, DeepStack) else None
        self.layers = nn.ModuleList() if isinstance(layers, DeepStack) else nn.ModuleList(layers)
        self.dropout = Dropout(dropout)
        self.input_dropout = Dropout(input_dropout)
        self.reads_labels = self.identifies_nodes = self._labels is not None

    @property
    def over_ranks(self) -> bool:  # type: ignore[override]
        """Return whether no label is part of the input, as every process would have to know all of them."""
        return self._labels is None

    @property
    def _labels(self) -> LabelInput | None:
        return None if self.deep is None else self.deep.labels

    @property
    def dtype(self) -> torch.dtype:
        """Return the floating-point type of the weights."""
        return next(parameter.dtype for parameter in self.parameters() if parameter.is_floating_point())

    def start(self, inputs: tuple[Any, ...], known: Int[Tensor, " n"]) -> None:
        """Keep the training labels where they are part of the input."""
        if self._labels is not None:
            self._labels.remember(known)

    def targets(self, y: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
        return y if self._labels is None else self._labels.targets(y)


class UniformStack(StackModel):
    """Base class of models whose layers are all of one kind.

    Attributes:
        layer: Makes a layer from the widths of its input and output.
        skip: Makes the map that `residual` adds; None for layers that already add one.
        drops_inputs: Whether `dropout` is also the default of `input_dropout`, which is 0 otherwise.
    """

    layer: ClassVar[type[nn.Module]]
    skip: ClassVar[type[nn.Module] | None] = None
    drops_inputs: ClassVar[bool] = False

    @checked
    def __init__(
        self,
        in_channels: Count,
        hidden_channels: Count,
        out_channels: Count,
        *,
        num_layers: Depth = 2,
        dropout: Rate = 0.0,
        input_dropout: Rate | None = None,
        norm: Norm = "none",
        residual: bool = False,
        jumping: Jumping = "last",
        row_norm: bool = False,
        label_input: Rate = 0.0,
        num_nodes: int | None = None,
        label_channels: int | None = None,
    ) -> None:
        options = StackOptions(norm, residual, jumping, row_norm, label_input, num_nodes, label_channels)
        layers = stack_layers(
            options,
            in_channels,
            hidden_channels,
            out_channels,
            num_layers,
            hidden=lambda width: self.layer(width, hidden_channels),
            last=lambda width: self.layer(width, out_channels),
            skip=self.skip,
        )
        if input_dropout is None:
            input_dropout = dropout if self.drops_inputs else 0.0
        super().__init__(layers, dropout, input_dropout)
