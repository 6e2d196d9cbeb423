"""Write docs/results/machines.md, the page of the cost model: python tools/write_machines_page.py"""

from __future__ import annotations

from pathlib import Path

from nlgnn.cli.plan import row
from nlgnn.report.table import markdown_table
from nlgnn.training.machines import Machine, Workload, estimate

PAGE = Path(__file__).parent.parent / "docs" / "results" / "machines.md"
GIGABIT, GIB = 1e9 / 8, 2**30
# One training step of NLGCN on 500,000 nodes and 5.28 million entries, 269 features, hidden width 48, gloo on one
# machine: processes, near edges, CPU seconds per process, MB sent, MB of peak memory above imports (from, to).
MEASURED = (
    (1, 0.0, 0.61, 0, 1300, 1450),
    (2, 0.0, 0.40, 113, 860, 960),
    (2, 0.9, 0.36, 51, 810, 880),
    (4, 0.0, 0.26, 140, 650, 750),
    (4, 0.9, 0.20, 42, 465, 490),
)
ONE_CORE = Machine(bandwidth=1.25e9, flops=60e9, gather=11e9, memory=1e12)  # "bandwidth": copies through loopback

HEAD = """# Training on many machines, calculated

No training on more than one machine was measured. This page holds what a cost model says, `nlgnn plan`, for NLGCN
with 269 features, hidden width 48 and 5 classes, ten entries of the adjacency per node, and machines with 64 GiB of
memory, a network of 25 Gb/s, 200 GFLOP/s in dense products, 16 GB/s in sparse products and a disk of 3 GB/s. Set the
speeds to yours:

```shell
nlgnn plan --nodes 1e9 --edges 1e10 --machines 64 --bandwidth 25Gb --local 0.9
```

Nodes are divided into equal ranges. With `own` nodes per machine, `h` halo rows, `f` classes and hidden width `w`, a
machine sends per training step

- halo: `2 · h · (w + f) · 4` bytes,
- routing to the sorted sequence and back: `(4f + 1) · own · (P − 1) / P · 4` bytes,
- gradients: `2 · |θ| · 4 · (P − 1) / P` bytes.

"Near" is the share of edges between nodes with near numbers; the others end at random nodes. An epoch is a training
step and an evaluation. If the memory does not suffice, features go to disk, then hidden layers are computed twice.
The parts are added up: overlap would make a step shorter, stragglers longer.

"""
MIDDLE = """
A random numbering makes the halo the bottleneck, of time or of memory; a good one is worth more than a faster
network. The sort of all nodes never is the bottleneck.

## Compared with measurements

One training step of NLGCN on a graph of 500,000 nodes, with 1, 2 and 4 processes of one thread on one machine of two
cores (gloo), measured with a prototype of the training over several processes. The three speeds of the model were
chosen for this machine: 60 GFLOP/s and 11 GB/s per core, and 1.25 GB/s for what is sent. So were the two numbers for
memory, per node and per halo row. The ratios between the rows, and the bytes, follow from the model.

"""


def page() -> str:
    """Return the page."""
    machine = Machine(bandwidth=25 * GIGABIT)
    rows = []
    for nodes in (1e8, 1e9):
        for local in (0.0, 0.9):
            for machines in (16, 64, 256):
                work = Workload(nodes, 10 * nodes, local=local)
                rows.append(row(work, machines, estimate(work, machine, machines)))
    compared = []
    for processes, local, seconds, sent, low, high in MEASURED:
        found = estimate(Workload(500_000, 5.28e6, local=local), ONE_CORE, processes)
        compared.append(
            {
                "processes": str(processes),
                "near": f"{local:.0%}",
                "CPU s, measured": f"{seconds:.2f}",
                "model": f"{sum(found.step):.2f}",
                "MB sent, measured": str(sent),
                "model ": f"{sum(found.sent.values()) / 1e6:.0f}",
                "MB of memory, measured": f"{low} to {high}",
                "model  ": f"{sum(found.memory.values()) / 1e6:.0f}",
            }
        )
    return HEAD + markdown_table(rows) + MIDDLE + markdown_table(compared)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
