"""Write docs/results/machines.md, the page of the cost model: python tools/write_machines_page.py"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nlgnn.cli.plan import row
from nlgnn.report.table import markdown_table
from nlgnn.training.machines import Machine, Workload, estimate

PAGE = Path(__file__).parent.parent / "docs" / "results" / "machines.md"
RESULTS = Path(__file__).parent.parent / "benchmarks" / "results"
GIGABIT = 1e9 / 8
ONE_CORE = Machine(bandwidth=0.9e9, flops=55e9, gather=10e9, memory=1e12)  # "bandwidth": copies through loopback


def measured() -> list[tuple[dict[str, Any], Workload, dict[str, Any]]]:
    """Return each measured case of `python -m benchmarks.processes`: its file, what was trained, and its figures."""
    cases = []
    for path in sorted(RESULTS.glob("processes-*.json")):
        result = json.loads(path.read_text("utf-8"))
        work = Workload(result["nodes"], result["entries"], local=result["near"])
        cases += [(result, work, row) for row in result["rows"]]
    return cases


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

A training step of NLGCN, whose forward pass also evaluates, with processes of one or two threads on one machine of two
cores (gloo), measured by `python -m benchmarks.processes`. Figures are those of one process. CPU seconds are medians of
five epochs, on a machine that others used at the same time. Memory is the peak above that after imports, reading and
preparing included.

The three speeds of the model were chosen for this machine: {speeds}.
So were two numbers for memory, the copies of the features and the numbers per halo row. The ratios between the rows,
and the bytes, follow from the model. A large part of a graph may keep its features on disk and take less memory than
calculated.

"""
AIMS = """
Compared with one process of one thread, two should take at most 0.62 of the CPU time and 0.6 of the memory each, and
four 0.38 of the memory, if 90 % of the edges are near; bytes should be within 10 % of the model.
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
    for result, work, figures in measured():
        processes, one = figures["processes"], result["rows"][0]
        found = estimate(work, ONE_CORE, processes)
        modelled = processes > 1 or figures["threads"] == 1
        compared.append(
            {
                "nodes": f"{work.nodes:,}",
                "near": f"{work.local:.0%}",
                "processes × threads": f"{processes} × {figures['threads']}",
                "CPU s": f"{figures['CPU seconds']:.2f}",
                "CPU s, relative": f"{figures['CPU seconds'] / one['CPU seconds']:.2f}",
                "CPU s, model": f"{sum(found.step):.2f}" if modelled else "–",
                "MB sent": f"{figures['bytes sent'] / processes / 1e6:.1f}",
                "MB sent, model": f"{sum(found.sent.values()) / 1e6:.1f}",
                "MB of memory": f"{figures['peak bytes'] / 1e6:,.0f}",
                "MB of memory, relative": f"{figures['peak bytes'] / one['peak bytes']:.2f}",
                "MB of memory, model": f"{sum(found.memory.values()) / 1e6:,.0f}",
            }
        )
    speeds = f"{ONE_CORE.flops / 1e9:g} GFLOP/s and {ONE_CORE.gather / 1e9:g} GB/s per core, and "
    speeds += f"{ONE_CORE.bandwidth / 1e9:g} GB/s for what is sent"
    return HEAD + markdown_table(rows) + MIDDLE.format(speeds=speeds) + markdown_table(compared) + AIMS


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
