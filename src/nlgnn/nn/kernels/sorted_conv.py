"""Fast path of the non-local step: sorting, convolutions along the order and unsorting in one operation.

The result equals permuting the rows, calling the convolutions one by one and permuting back, for one model or many
replicas at once. It takes a fraction of the time, because nothing is sorted twice, permutations need no scatter-add in
the backward pass, and rows are not transposed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from nlgnn.nn.kernels.dropout import Dropout
from nlgnn.nn.kernels.function import Kernel, in_front

# The convolution of torch is faster for many channels and for few rows.
MANY_CHANNELS, FEW_ROWS = 16, 3000
FEW_KEYS = 512  # below this number torch sorts faster
# Columns of a block of rows that is convolved by one product, enough to use the processor well, and the minimum number
# of blocks.
BLOCK_WIDTH, BLOCKS = 40, 128
# Cleared bits of the 24 bits of a float32 sort key. Scores of mathematically equal nodes can differ in the last bits,
# depending on the numbers of models, threads or processes, but have to tie. At 2.9 million nodes, eight cleared bits
# leave about 460,000 distinct keys, twelve 47,000.
CLEARED_BITS = 8


class RowConv(nn.Conv1d):
    """Length-preserving `torch.nn.Conv1d` on rows, from `[n, in_channels]` to `[n, out_channels]`."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int) -> None:
        super().__init__(in_channels, out_channels, kernel_size, padding=kernel_size // 2)

    def forward(self, input: Float[Tensor, "n f"]) -> Float[Tensor, "n o"]:
        return super().forward(input.t().unsqueeze(0)).squeeze(0).t()


def is_plain(convs: nn.Module) -> bool:
    """Return whether the modules are exactly those that the fast path supports."""
    kinds = [type(module) for module in convs.children()]
    return kinds == [RowConv, *[nn.ReLU, Dropout, RowConv] * (len(kinds) // 3)]


def convolve_along_order(
    rows: Float[Tensor, "n f"], factors: Float[Tensor, " n"] | None, keys: Float[Tensor, " n"], convs: nn.Module
) -> Float[Tensor, "n f"]:
    """Multiply rows by their factors, sort them by their keys, convolve them and restore the original order.

    The convolutions are separated by ReLU and dropout.
    """
    layers = [module for module in convs.children() if isinstance(module, RowConv)]
    between = [module for module in convs.children() if isinstance(module, Dropout)]
    masks = [module.mask(rows) if module.training and module.p > 0 else None for module in between]
    parameters = [parameter for layer in layers for parameter in (layer.weight, layer.bias)]
    mixed: Tensor = _AlongOrder.apply(_Pass(masks), rows, factors, keys.detach(), *parameters)
    return mixed


def rounded(keys: Float[Tensor, "*replicas n"]) -> Float[Tensor, "*replicas n"]:
    """Round sort keys to float32 numbers without the digits in which two computations of one key may differ.

    float64 is rounded to float32. In float32, the lowest `CLEARED_BITS` of 24 bits are rounded away by Veltkamp's
    splitting, which is exact in floating-point arithmetic and thus the same on every device. Keys beyond 1e36 become
    NaN.
    """
    if keys.dtype != torch.float32:
        return keys.float()
    shifted: Tensor = keys * (2**CLEARED_BITS + 1)
    return shifted - (shifted - keys)


def stable_order(keys: Float[Tensor, "*replicas n"]) -> Int[Tensor, "*replicas n"]:
    """Return the nodes sorted by their rounded keys. Ties are sorted by node index.

    On CPUs, key and node index are packed into one integer, which takes a sixth of the time of the stable sort of
    torch. Floats read as integers have the right order after the bits of negative ones are flipped. Adding zero turns
    -0 into 0.
    """
    keys = rounded(keys.detach())
    if keys.device.type != "cpu" or keys.numel() < FEW_KEYS:
        return keys.argsort(stable=True)
    return order_of_integers(_integers(keys))


def sortable_integers(keys: Float[Tensor, " n"]) -> Int[Tensor, " n"]:
    """Return integers of 32 bits in the order of the rounded keys."""
    return _integers(rounded(keys.detach()))


def _integers(rounded_keys: Float[Tensor, "*replicas n"]) -> Int[Tensor, "*replicas n"]:
    bits = (rounded_keys + 0.0).numpy().view(np.int32)
    return torch.from_numpy(bits ^ ((bits >> 31) & 0x7FFFFFFF))


def order_of_integers(integers: Int[Tensor, "*replicas n"]) -> Int[Tensor, "*replicas n"]:
    """Return the positions of integers of 32 bits in ascending order. Ties are sorted by position."""
    packed = (integers.numpy().astype(np.int64) << 32) | np.arange(integers.shape[-1])
    packed.sort(axis=-1)
    return torch.from_numpy(packed & 0xFFFFFFFF)


@dataclass
class _Pass:
    """State of one pass through the convolutions: dropout masks, and data for the backward pass."""

    masks: list[Tensor | None]
    order: Tensor = field(init=False)
    positions: Tensor = field(init=False)
    inputs: list[Tensor] = field(init=False)


class _AlongOrder(Kernel):
    """Kernel for rows `[n, f]`, weights `[o, f, k]` and biases `[o]`. Replicas have an additional leading axis."""

    @staticmethod
    def forward(this: _Pass, rows: Tensor, factors: Tensor | None, keys: Tensor, *parameters: Tensor) -> Tensor:
        order = stable_order(keys)
        if keys.ndim == 2:  # row numbers in the stacked rows of all replicas
            order = order + torch.arange(0, order.numel(), order.shape[1], device=order.device).unsqueeze(1)
        this.order = order.flatten()
        numbers = torch.arange(order.numel(), device=order.device)
        this.positions = torch.empty_like(this.order).scatter_(0, this.order, numbers)
        rows = rows if factors is None else rows * factors.unsqueeze(-1)
        rows, this.inputs = _moved(rows, this.order), []
        for number in range(0, len(parameters), 2):
            this.inputs.append(rows)
            rows = convolve(rows, *parameters[number : number + 2])
            if number + 2 < len(parameters):
                rows = rows.relu_()
                mask = this.masks[number // 2]
                rows = rows if mask is None else rows.mul_(mask)
        return _moved(rows, this.positions)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.this = inputs[0]
        ctx.save_for_backward(inputs[1], inputs[2], *inputs[4::2])  # rows, factors, weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        this, (rows, factors, *weights) = ctx.this, ctx.saved_tensors
        to_parameters: list[Tensor] = []
        gradient = _moved(gradient, this.order)
        for number in reversed(range(len(weights))):
            if number + 1 < len(weights):
                mask = this.masks[number]
                gradient = gradient if mask is None else gradient.mul_(mask)
                gradient = torch.ops.aten.threshold_backward(gradient, this.inputs[number + 1], 0)
            gradient, *of_layer = convolve_backward(gradient, weights[number], this.inputs[number])
            to_parameters = of_layer + to_parameters
        gradient, to_factors = _moved(gradient, this.positions), None
        if factors is not None:
            to_factors = (gradient * rows).sum(-1)
            gradient = gradient.mul_(factors.unsqueeze(-1))
        return None, gradient, to_factors, None, *to_parameters

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], this: _Pass, *tensors: Tensor | None) -> tuple[Tensor, int]:
        return _AlongOrder.apply(this, *in_front(info, in_dims[1:], tensors)), 0


def _moved(rows: Float[Tensor, "*replicas n f"], index: Int[Tensor, " m"]) -> Tensor:
    if rows.ndim == 2:
        return rows.index_select(0, index)
    return rows.reshape(-1, rows.shape[-1]).index_select(0, index).view(rows.shape)


def convolve(rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    if _is_for_torch(rows):
        return F.conv1d(rows.t().unsqueeze(0), weight, bias, padding=weight.shape[2] // 2)[0].t()
    if rows.ndim == 2:
        return convolve(rows.unsqueeze(0), weight.unsqueeze(0), bias.unsqueeze(0)).squeeze(0)
    # A block of rows and its margins form one row of a product with a banded matrix.
    size = _block_size(rows, weight)
    blocks = _blocks(rows, size, weight.shape[3])
    result = torch.baddbmm(bias.repeat(1, size).unsqueeze(1), blocks, _banded(weight, size))
    return result.view(len(rows), -1, weight.shape[1])[:, : rows.shape[1]]


def convolve_backward(gradient: Tensor, weight: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of rows, weight and bias.

    The gradient of the rows is the convolution with the flipped weight.
    """
    if _is_for_torch(rows):
        padding = [weight.shape[2] // 2]
        sides = gradient.t().unsqueeze(0), rows.t().unsqueeze(0)
        to_rows, *others = torch.ops.aten.convolution_backward(
            *sides, weight, [len(weight)], [1], padding, [1], False, [0], 1, [True, True, True]
        )
        return to_rows[0].t(), *others
    if rows.ndim == 2:
        of_one = convolve_backward(gradient.unsqueeze(0), weight.unsqueeze(0), rows.unsqueeze(0))
        to_rows, to_weight, to_bias = (part.squeeze(0) for part in of_one)
        return to_rows, to_weight, to_bias
    size, (replicas, out, width, kernel) = _block_size(rows, weight), weight.shape
    gradients = _blocks(gradient, size, kernel)  # [r, blocks, (size + kernel - 1) * o]
    to_rows = torch.bmm(gradients, _banded(weight.flip(3).transpose(1, 2), size))
    margin = kernel // 2 * out
    own = gradients[:, :, margin : margin + size * out]  # without the margins of the block
    to_banded = torch.bmm(_blocks(rows, size, kernel).transpose(1, 2), own)
    to_weight = _band(to_banded, size, width, out, kernel).sum(1).permute(0, 3, 2, 1)
    return to_rows.view(replicas, -1, width)[:, : rows.shape[1]], to_weight, gradient.sum(1)


def _is_for_torch(rows: Tensor) -> bool:
    return rows.ndim == 2 and (rows.shape[1] >= MANY_CHANNELS or len(rows) < FEW_ROWS)


def _block_size(rows: Float[Tensor, "r n f"], weight: Float[Tensor, "r o f k"]) -> int:
    return max(1, min(BLOCK_WIDTH // max(weight.shape[1], weight.shape[2]), rows.shape[1] // BLOCKS))


def _blocks(rows: Float[Tensor, "r n f"], size: int, kernel: int) -> Float[Tensor, "r blocks w"]:
    """Return flattened blocks of `size` rows, each with margins of `kernel // 2` rows, padded with zeros."""
    replicas, n, width = rows.shape
    count, margin = -(-n // size), kernel // 2
    padded = rows.new_zeros(replicas, count * size + 2 * margin, width)
    padded[:, margin : margin + n] = rows
    shape = (replicas, count, (size + 2 * margin) * width)
    return padded.as_strided(shape, (padded.stride(0), size * width, 1)).contiguous()


def _banded(weight: Float[Tensor, "r o f k"], size: int) -> Float[Tensor, "r w v"]:
    """Return the banded matrix that convolves a block: one shifted copy of the weight per row of the block."""
    replicas, out, width, kernel = weight.shape
    if size == 1:
        return weight.permute(0, 3, 2, 1).reshape(replicas, kernel * width, out)
    matrix = weight.new_zeros(replicas, (size + kernel - 1) * width, size * out)
    _band(matrix, size, width, out, kernel).copy_(weight.permute(0, 3, 2, 1).unsqueeze(1))
    return matrix


def _band(matrix: Tensor, size: int, width: int, out: int, kernel: int) -> Float[Tensor, "r size k f o"]:
    """Return a view of the entries of a banded matrix that belong to the weight."""
    step = width * size * out  # from the entry of one input row to that of the next
    strides = (matrix.stride(0), step + out, step, size * out, 1)
    return matrix.as_strided((len(matrix), size, kernel, width, out), strides)
