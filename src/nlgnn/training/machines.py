"""Cost model of full-batch training over several machines: memory, bytes sent and seconds.

Nodes are divided into equal ranges. Each machine needs the embeddings of neighbours of its nodes that are elsewhere,
its halo; the sequence of all nodes is sorted and divided in each step. The parts of a step are added up, as if none of
them overlapped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from nlgnn.errors import OptionError

FLOAT = 4  # bytes
KEPT_PER_NODE = 160 / 53  # numbers per node and propagated column of NLGCN at the peak of a step
# Copies of the features at the peak of a whole training, reading and preparing included, and numbers per halo row and
# propagated column: fitted to the peaks in benchmarks/results/processes-*.json.
FEATURE_COPIES, KEPT_PER_HALO_ROW = 2.4, 4.1
RECOMPUTED_SHARE = 70 / 160  # of what is kept, if hidden layers are computed again in the backward pass
BYTES_PER_ENTRY = 8  # of the adjacency
SORTED_PER_FLOP = 3e-4  # keys that are sorted in the time of a floating-point operation
STEP_READS, EVALUATION_READS = 2, 1  # of features on disk


@dataclass(frozen=True)
class Workload:
    """A graph and a model of two propagations.

    Args:
        nodes: The number of nodes.
        edges: The number of entries of the adjacency; an undirected edge is two.
        features: The number of features.
        hidden: The hidden width.
        classes: The number of classes, which is the width of the embedding that is sorted.
        local: The share of edges within 1,000 places or so, beyond what chance gives; 0 for a random numbering.
    """

    nodes: float
    edges: float
    features: int = 269
    hidden: int = 48
    classes: int = 5
    local: float = 0.0

    def __post_init__(self) -> None:
        for name in ("nodes", "features", "hidden", "classes"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) >= 1):
                raise OptionError(f"{name}={getattr(self, name)} is not at least 1.", f"Give --{name} a number.")
        if not (math.isfinite(self.edges) and self.edges >= 0):
            raise OptionError(f"edges={self.edges} is not a number of edges.", "Give a number from 0 on.")
        if not 0 <= self.local <= 1:
            raise OptionError(f"local={self.local} is not a share.", "Give a number from 0 to 1.")

    @property
    def width(self) -> int:
        """The numbers per node that are propagated."""
        return self.hidden + self.classes

    @property
    def parameters(self) -> int:
        """The number of weights of the dense layers."""
        return self.hidden * (self.features + self.classes)


@dataclass(frozen=True)
class Machine:
    """The speeds of one machine, per second, and its memory.

    Args:
        bandwidth: Bytes sent.
        flops: Floating-point operations of dense products.
        gather: Bytes gathered from memory in sparse products.
        disk: Bytes read from disk.
        memory: The bytes of its memory.
    """

    bandwidth: float
    flops: float = 200e9
    gather: float = 16e9
    disk: float = 3e9
    memory: float = 64 * 2**30


class Parts(NamedTuple):
    """The seconds of the parts of a step, or of an evaluation, which is the forward pass alone."""

    halo: float
    routing: float
    gradients: float
    sort: float
    dense: float
    gather: float
    disk: float


@dataclass(frozen=True)
class Estimate:
    """The cost of training over several machines, per machine.

    Args:
        halo_rows: The number of rows of other machines that are needed.
        sent: The bytes sent in a step, by part.
        memory: The bytes of memory, by part.
        on_disk: Whether features stay on disk.
        recomputed: Whether hidden layers are computed again in the backward pass.
        fits: Whether the memory suffices.
        step: The seconds of a training step.
        evaluation: The seconds of an evaluation, which follows each step.
    """

    halo_rows: float
    sent: dict[str, float]
    memory: dict[str, float]
    on_disk: bool
    recomputed: bool
    fits: bool
    step: Parts
    evaluation: Parts

    @property
    def seconds(self) -> float:
        """The seconds of an epoch: a step and an evaluation."""
        return sum(self.step) + sum(self.evaluation)

    @property
    def bottleneck(self) -> str:
        """The part that takes most of an epoch, or of the memory if it does not suffice."""
        if not self.fits:
            return f"memory of the {max(self.memory, key=self.memory.__getitem__)}"
        total = {name: getattr(self.step, name) + getattr(self.evaluation, name) for name in Parts._fields}
        return max(total, key=total.__getitem__)


ADVICE = {
    "halo": "Number nodes by locality (nlgnn store --renumber, --local), or use a faster network.",
    "routing": "Use a faster network.",
    "gradients": "Use a faster network, or fewer hidden channels.",
    "sort": "Use more machines, or faster ones.",
    "dense": "Use more machines, or faster ones.",
    "gather": "Use more machines, or faster memory.",
    "disk": "Use more machines or memory, so that features fit into it, or a faster disk.",
    "memory of the halo": "Number nodes by locality (nlgnn store --renumber, --local), or use fewer, larger machines.",
    "memory of the activations": "Use more machines, or fewer hidden channels.",
    "memory of the features": "Use more machines.",
    "memory of the adjacency": "Use more machines.",
}


def halo_rows(work: Workload, machines: int) -> float:
    """Return the expected number of different rows of other machines that a machine needs.

    Edges that are not local end at random nodes.

    Example:
        >>> round(halo_rows(Workload(nodes=500_000, edges=5.28e6), 2))
        248727
    """
    others = work.nodes * (machines - 1) / machines
    if machines == 1 or others == 0:
        return 0.0
    leaving = work.edges / machines * (1 - work.local) * (machines - 1) / machines
    return others * -math.expm1(-leaving / others)


def estimate(work: Workload, machine: Machine, machines: int) -> Estimate:
    """Return what training takes on a number of equal machines.

    Features go to disk, and then hidden layers are computed again, only if the memory does not suffice otherwise.

    Args:
        work: The graph and the model.
        machine: One machine.
        machines: The number of machines.

    Returns:
        The estimate.

    Raises:
        OptionError: If there are no machines, or more of them than nodes.

    Example:
        >>> found = estimate(Workload(1e9, 1e10), Machine(bandwidth=25e9 / 8), 64)
        >>> round(found.step.halo), round(found.step.routing, 1)
        (19, 0.4)
    """
    if not 1 <= machines <= work.nodes:
        raise OptionError(f"{machines} machines cannot share {work.nodes:g} nodes.", "Give each at least one node.")
    own, entries, halo = work.nodes / machines, work.edges / machines, halo_rows(work, machines)
    elsewhere = (machines - 1) / machines
    sent = {
        "halo": 2 * halo * work.width * FLOAT,
        "routing": (4 * work.classes + 1) * own * elsewhere * FLOAT,
        "gradients": 2 * work.parameters * elsewhere * FLOAT,
    }
    for on_disk, recomputed in ((False, False), (True, False), (True, True)):
        kept = KEPT_PER_NODE * work.width * own * FLOAT
        memory = {
            "features": 0.0 if on_disk else FEATURE_COPIES * own * work.features * FLOAT,
            "adjacency": entries * BYTES_PER_ENTRY + 8 * own,
            "activations": kept * (RECOMPUTED_SHARE if recomputed else 1),
            "halo": KEPT_PER_HALO_ROW * halo * work.width * FLOAT,
        }
        fits = sum(memory.values()) <= machine.memory
        if fits:
            break
    passes = 1.5 if recomputed else 1.0  # forward, forward again, backward
    read = own * work.features * FLOAT / machine.disk if on_disk else 0.0
    step = Parts(
        halo=sent["halo"] / machine.bandwidth,
        routing=sent["routing"] / machine.bandwidth,
        gradients=sent["gradients"] / machine.bandwidth,
        sort=own / (SORTED_PER_FLOP * machine.flops),
        dense=4 * own * work.parameters * passes / machine.flops,
        gather=2 * entries * work.width * FLOAT * passes / machine.gather,
        disk=STEP_READS * read,
    )
    evaluation = Parts(
        halo=step.halo / 2,
        routing=step.routing / 2,
        gradients=0.0,
        sort=step.sort,
        dense=step.dense / (2 * passes),
        gather=step.gather / (2 * passes),
        disk=EVALUATION_READS * read,
    )
    return Estimate(halo, sent, memory, on_disk, recomputed, fits, step, evaluation)
