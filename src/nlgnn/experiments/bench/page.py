"""The page of results: tables in Markdown, with how and on what they were measured."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from nlgnn.experiments.bench.cases import Case, saying_where
from nlgnn.experiments.bench.table import Results, as_time, exponents, goal_rows, paper_rows, scaling_rows, system_rows
from nlgnn.experiments.section import markdown_table
from nlgnn.training.run import write_whole

CAPTION = (
    "Times are medians over rounds in which the sides take turns (A B A B); ratios are medians of each round's ratio, "
    "quartiles in brackets. Of several peers the one that does best stands here; PyG, cached: GCNConv normalises the "
    "edges once, not in every forward, as is its default."
)
PAPER_CAPTION = (
    "Milliseconds a training step (forward, loss, backward, Adam), in brackets the ratio to GCN. The paper: mean over "
    "500 epochs, its hardware is not named beside the table (elsewhere it speaks of a GPU of 48 GB). Ours: mean over "
    "500 steps on one thread of the processor below, hidden 48, GAT with 8 heads; in place of snap-patents a graph "
    "made in its shape, two threads and fewer steps."
)
SYSTEMS_CAPTION = (
    "A training step, its median; its ratio to that of GCN, median and quartiles over rounds in which all take turns; "
    "and what is prepared once a graph. One thread, hidden 48, else each system's own defaults: dropout 0.5, two "
    "rounds of H2GCN, eight layers of GCNII, Isomap of Geom-GCN."
)


def results_page(cases: Sequence[Case], results: Results) -> str:
    """Everything measured so far; parts without results are left out."""
    parts = ["# Benchmarks\n\nMade by `nlgnn bench`; each row is from a JSON file in this folder.\n"]
    if rows := goal_rows(cases, results):
        parts.append(f"## Side by side\n\n{markdown_table(rows)}\n{CAPTION}\n")
    if trainings := scaling_rows(results):
        table = [
            {
                "system": row["system"],
                "nodes": f"{row['nodes']:,}",
                "seconds an epoch": as_time(row["seconds"]),
                "a node": as_time(row["seconds"] / row["nodes"]),
                "peak memory": f"{row['peak GiB']:.2f} GiB",
            }
            for row in trainings
        ]
        fitted = ", ".join(f"{system} {exponent:.2f}" for system, exponent in exponents(trainings).items())
        parts.append(
            f"## Growth with the graph\n\n![Seconds an epoch against nodes](scaling.svg)\n\n{markdown_table(table)}\n"
            f"Fitted exponents of the number of nodes: {fitted}.\n"
        )
    if any(name.startswith("paper-") for name in results):
        parts.append(f"## The paper's running times\n\n{markdown_table(paper_rows(results))}\n{PAPER_CAPTION}\n")
    if rows := system_rows(cases, results):
        parts.append(f"## Every system beside GCN\n\n{markdown_table(rows)}\n{SYSTEMS_CAPTION}\n")
    machines = [result for name, result in results.items() if name.startswith("machine-")]
    if machines:
        table = [
            {"threads": str(result["threads"])} | {name: f"{rate:g}" for name, rate in result["rates"].items()}
            for result in machines
        ]
        parts.append(f"## The machine\n\n{markdown_table(table)}\n{machines[0]['protocol']}.\n")
    parts.append(f"## How it was measured\n\n{_protocols(cases, results)}\n{_environments(results)}")
    return "\n".join(parts)


def write_page(cases: Sequence[Case], results: Results, folder: Path) -> None:
    path = folder / "README.md"
    with saying_where(path):
        write_whole(path, partial(Path.write_text, data=results_page(cases, results)))


def _protocols(cases: Sequence[Case], results: Results) -> str:
    """A line for each way of measuring, with the rounds of the cases that were measured so."""
    rounds: dict[tuple[str, str], set[int]] = {}
    for case in cases:
        result = results.get(case.name, {})
        if "rounds" in result:
            rounds.setdefault((case.what, result["protocol"]), set()).add(result["rounds"])
    return "".join(f"- {what}: {protocol}; {_range(counts)} rounds.\n" for (what, protocol), counts in rounds.items())


def _environments(results: Results) -> str:
    """A line for each machine and set of versions: when, and how busy it was with all there was to do."""
    found: dict[str, list[dict[str, Any]]] = {}
    for result in results.values():
        versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items() if version)
        found.setdefault(f"{result['processor']}, {result['cores']} cores; {versions}", []).append(result)
    lines = []
    for machine, measured in found.items():
        dates = _range({result["date"][:10] for result in measured})
        loads = _range({result["load"] for result in measured if result["load"] is not None} or {"unknown"})
        lines.append(f"- {machine}; {dates}; load in the minute before a case: {loads}.\n")
    return "".join(lines)


def _range(values: set[Any]) -> str:
    low, high = min(values), max(values)
    return f"{low}" if low == high else f"{low} to {high}"
