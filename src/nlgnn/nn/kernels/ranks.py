"""Ranks: the processes of one training, each with a range of the nodes, and the exchange of rows between them.

Within `sharing(ranks)`, layers of this package treat their rows as one range of the nodes of a larger graph: means,
losses and orders are those of all nodes. Without it, or in one process, nothing is exchanged.

Only the public functions of `torch.distributed` are used. Those without a gradient get one here. Every rank must call
every exchange, also one without nodes and also in the backward pass, or the others wait for it until a timeout.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor
from torch import distributed as dist
from torch.autograd.function import once_differentiable

from nlgnn.errors import NlgnnError


class RankError(NlgnnError):
    """An exchange that failed because another process ended or did not answer."""

    of_process = True

    @classmethod
    def of(cls, error: RuntimeError) -> RankError:
        """Return the error for what `torch.distributed` raised."""
        why = "did not answer in time" if "imed out" in str(error) else "has ended"
        return cls(f"another process of this training {why}.", "See what the other processes printed.")


class Ranks:
    """All ranks, as one of them sees them, and the range of nodes of each.

    The process group must have been initialised.

    Args:
        starts: The first node of each rank, in ascending order, and the number of nodes. A range may be empty.

    Attributes:
        rank: The number of this rank.
        size: The number of ranks.
        sent: Bytes that this rank sent to others, by purpose.
    """

    def __init__(self, starts: Sequence[int]) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        if len(starts) != self.size + 1:
            raise ValueError(f"{len(starts)} limits of ranges for {self.size} ranks")
        self.starts = torch.tensor(starts)
        self.sent: Counter[str] = Counter()
        self.margins: dict[int, Halo] = {}  # of the blocks of a sorted order, by their width

    @property
    def first(self) -> int:
        """Return the first node of this rank."""
        return int(self.starts[self.rank])

    @property
    def stop(self) -> int:
        """Return the end of the range of this rank."""
        return int(self.starts[self.rank + 1])

    @property
    def num_own(self) -> int:
        """Return the number of nodes of this rank."""
        return self.stop - self.first

    @property
    def num_nodes(self) -> int:
        """Return the number of nodes of all ranks."""
        return int(self.starts[-1])

    def exchange(self, rows: Tensor, send: list[int], receive: list[int], purpose: str) -> Tensor:
        """Send rows to all ranks, and return those that arrive, by the number of their sender.

        Args:
            rows: The rows, those for the first rank first.
            send: The number of rows for each rank.
            receive: The number of rows from each rank.
            purpose: What the bytes are counted as.
        """
        result = rows.new_empty(sum(receive), *rows.shape[1:])
        # Rows that are not contiguous raise an error on one rank, and the others would wait.
        try:
            dist.all_to_all_single(result, rows.contiguous(), receive, send)
        except RuntimeError as error:
            raise RankError.of(error) from error
        width = rows[:1].numel() if len(rows) else 0
        self.sent[purpose] += (len(rows) - send[self.rank]) * width * rows.element_size()
        return result

    def add(self, tensor: Tensor, purpose: str = "sums") -> Tensor:
        """Replace a tensor by its sum over all ranks, and return it. It has no gradient."""
        try:
            dist.all_reduce(tensor)
        except RuntimeError as error:
            raise RankError.of(error) from error
        self.sent[purpose] += 2 * tensor.nbytes * (self.size - 1) // self.size
        return tensor

    def table(self, counts: Int[Tensor, "*shape"]) -> Int[Tensor, ranks * shape]:
        """Return the small tensors of all ranks, stacked."""
        rows = counts.new_zeros(self.size, *counts.shape)
        rows[self.rank] = counts
        return self.add(rows)

    def gather(self, rows: Tensor) -> Tensor:
        """Return the rows of all ranks, those of the first rank first. They have no gradient.

        Args:
            rows: As many rows as this rank has. Their number may differ between ranks.
        """
        counts = self.table(torch.tensor(len(rows)))
        before = int(counts[: self.rank].sum())
        rows = rows.detach()
        whole = rows.new_zeros(int(counts.sum()), *rows.shape[1:])
        whole[before : before + len(rows)] = rows
        return self.add(whole, "gathered")

    def add_loss_and_gradients(
        self, loss: Tensor, gradients: Sequence[Tensor | None]
    ) -> tuple[Tensor, list[Tensor | None]]:
        """Return their sums over all ranks, by one exchange. None stays None."""
        given = [loss, *(gradient for gradient in gradients if gradient is not None)]
        flat = self.add(torch.cat([tensor.reshape(-1) for tensor in given]), "gradients")
        parts = zip(given, flat.split([tensor.numel() for tensor in given]), strict=True)
        total, *sums = [part.view(tensor.shape) for tensor, part in parts]
        each = iter(sums)
        return total, [None if gradient is None else next(each) for gradient in gradients]

    def own(self, nodes: Int[Tensor, " k"]) -> Int[Tensor, " j"]:
        """Return those of some nodes that belong to this rank, counted from its first."""
        return nodes[(nodes >= self.first) & (nodes < self.stop)] - self.first

    def total(self, tensor: Tensor) -> Tensor:
        """Return the sum of a tensor over all ranks, with a gradient."""
        result: Tensor = _Total.apply(tensor, self)  # type: ignore[no-untyped-call]
        return result


_active: list[Ranks] = []


@contextmanager
def sharing(ranks: Ranks | None) -> Iterator[None]:
    """Let layers treat their rows as those of one rank within the context; None ends it for a while."""
    before = _active[:]
    _active[:] = [] if ranks is None else [ranks]
    try:
        yield
    finally:
        _active[:] = before


def active_ranks() -> Ranks | None:
    """Return the ranks that share the nodes at present, or None in one process."""
    return _active[0] if _active else None


def first_row() -> int:
    """Return the number of the first row of this process among all nodes, which is 0 in one process."""
    return _active[0].first if _active else 0


def gathered(rows: Tensor) -> Tensor:
    """Return the rows of all ranks, which in one process are the rows."""
    return _active[0].gather(rows) if _active else rows


def own_rows(values: NDArray[Any]) -> NDArray[Any]:
    """Return the values of the nodes of this rank, given those of all nodes."""
    return values[_active[0].first : _active[0].stop] if _active else values


def any_rank(*flags: bool) -> list[bool]:
    """Return for each flag whether it is set in any rank, so that all ranks do the same."""
    if not _active:
        return list(flags)
    found: list[bool] = (_active[0].add(torch.tensor(flags).int()) > 0).tolist()
    return found


def ranges_of_work(pointers: Sequence[int] | NDArray[np.integer], size: int, cost_of_node: float = 8.0) -> list[int]:
    """Return limits of contiguous ranges of nodes with equal work.

    Args:
        pointers: The number of edges before each node, and that of all edges.
        size: The number of ranges.
        cost_of_node: The work for a node, if that for an edge is 1.

    Example:
        >>> ranges_of_work([0, 8, 8, 8, 8], 2)
        [0, 2, 4]
    """
    work = np.asarray(pointers, np.float64) + cost_of_node * np.arange(len(pointers))
    limits = np.searchsorted(work, np.linspace(0, work[-1], size + 1))
    found: list[int] = limits.clip(max=len(pointers) - 1).tolist()
    return [0, *found[1:-1], len(pointers) - 1]


class _Total(torch.autograd.Function):
    """Sum over ranks. The loss of every rank depends on it, so that its gradient is a sum as well."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, ranks: Ranks) -> Tensor:
        ctx.ranks = ranks
        return ranks.add(tensor.clone())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.ranks.add(gradient.clone()), None


class Halo:
    """The rows of other ranks that this rank reads.

    The numbers of the rows are exchanged once; afterwards exactly these rows are sent.

    Args:
        ranks: The ranks.
        needed: The numbers of the rows, in ascending order. None is a row of this rank.
        starts: The first row of each rank, and the number of rows; by default those of the nodes.
        before: The number of needed rows that come before the own rows in a result, instead of after them.
        purpose: What the bytes are counted as.
    """

    def __init__(
        self,
        ranks: Ranks,
        needed: Int[Tensor, " h"],
        starts: Int[Tensor, " r"] | None = None,
        before: int = 0,
        purpose: str = "neighbours",
    ) -> None:
        starts = ranks.starts if starts is None else starts
        owners = torch.searchsorted(starts[1:].contiguous(), needed, right=True)
        self.ranks, self.before, self.purpose = ranks, before, purpose
        self.receive: list[int] = torch.bincount(owners, minlength=ranks.size).tolist()
        self.send: list[int] = ranks.table(torch.tensor(self.receive))[:, ranks.rank].tolist()
        # What the others need of this rank, as positions among its rows.
        self.index = ranks.exchange(needed, self.receive, self.send, "lists") - starts[ranks.rank]

    def __len__(self) -> int:
        return sum(self.receive)

    def fetch(self, rows: Float[Tensor, n * f]) -> Float[Tensor, m * f]:
        """Return the own rows and the needed rows, without a gradient."""
        found = self.ranks.exchange(rows.index_select(0, self.index), self.send, self.receive, self.purpose)
        return torch.cat([found[: self.before], rows, found[self.before :]])

    def give_back(self, rows: Float[Tensor, m * f]) -> Float[Tensor, n * f]:
        """Send the needed rows back to their ranks, and return the own rows with those added that come back."""
        stop = len(rows) - len(self) + self.before
        own = rows[self.before : stop].clone()
        needed = torch.cat([rows[: self.before], rows[stop:]])
        return own.index_add_(0, self.index, self.ranks.exchange(needed, self.receive, self.send, self.purpose))

    def extend(self, rows: Float[Tensor, n * f]) -> Float[Tensor, m * f]:
        """Return the own rows and the needed rows, with a gradient."""
        result: Tensor = _Extended.apply(rows, self)  # type: ignore[no-untyped-call]
        return result


class _Extended(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, halo: Halo) -> Tensor:
        ctx.halo = halo
        return halo.fetch(rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.halo.give_back(gradient), None
