"""`nlgnn plan`: calculate memory and time of training over several machines."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from nlgnn.cli.console import comma_separated, console
from nlgnn.cli.options import EXECUTION, GRAPH, MODEL, OUTPUT, option
from nlgnn.errors import OptionError
from nlgnn.report.table import Section

if TYPE_CHECKING:
    from nlgnn.training.machines import Estimate, Workload

UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
MOST_ROWS = 100


def plan(
    nodes: Annotated[str, option("Number of nodes, such as 1e9 or 1e8,1e9.", GRAPH)],
    edges: Annotated[str, option("Edges; undirected ones count twice.", GRAPH, default="10 per node")] = "",
    machines: Annotated[str, option("Number of machines, such as 16,64,256.", EXECUTION, default="64")] = "64",
    bandwidth: Annotated[str, option("Network of a machine: 25Gb or 3GB.", EXECUTION, default="25Gb")] = "25Gb",
    local: Annotated[float, option("Share of edges between near nodes.", GRAPH, default="0")] = 0.0,
    features: Annotated[int, option("Number of features.", GRAPH, default="269")] = 269,
    classes: Annotated[int, option("Number of classes.", GRAPH, default="5")] = 5,
    hidden: Annotated[int, option("Hidden channels.", MODEL, default="48")] = 48,
    memory: Annotated[str, option("Memory of a machine.", EXECUTION, default="64GiB")] = "64GiB",
    flops: Annotated[str, option("Dense operations per second.", EXECUTION, default="200G")] = "200G",
    gather: Annotated[str, option("Bytes per second of sparse products.", EXECUTION, default="16GB")] = "16GB",
    disk: Annotated[str, option("Bytes per second of the disk.", EXECUTION, default="3GB")] = "3GB",
    as_json: Annotated[bool, option("Print one JSON document.", OUTPUT, "--json")] = False,
    as_markdown: Annotated[bool, option("Print Markdown.", OUTPUT, "--markdown")] = False,
) -> None:
    """Calculate memory and seconds per epoch of NLGCN over several machines.

    Nothing is measured: the parts of a training step are calculated from a cost model and added up. Set the speeds to
    those of your machines.
    """
    from nlgnn.limits import parse_size
    from nlgnn.report.table import markdown_table
    from nlgnn.report.text import sections_page
    from nlgnn.training.machines import ADVICE, Machine, Workload, estimate

    try:
        size = parse_size(memory)
    except ValueError as error:
        raise OptionError(f"memory={memory} {error}.", "Write --memory 64GiB.") from None
    machine = Machine(
        rate("bandwidth", bandwidth), rate("flops", flops), rate("gather", gather), rate("disk", disk), size
    )
    counts = [number("nodes", text) for text in listed("nodes", nodes)]
    totals = [number("edges", text) for text in listed("edges", edges)] if edges else [10 * count for count in counts]
    if len(totals) not in (1, len(counts)):
        raise OptionError(f"There are {len(counts)} numbers of nodes and {len(totals)} of edges.", "Give one for each.")
    totals = totals * (len(counts) // len(totals))
    shares = [whole("machines", text) for text in listed("machines", machines)]
    if len(counts) * len(shares) > MOST_ROWS:
        raise OptionError(f"{len(counts) * len(shares)} cases are too many.", f"Ask for at most {MOST_ROWS}.")
    found: list[tuple[Workload, int, Estimate]] = []
    for count, total in zip(counts, totals, strict=True):
        work = Workload(count, total, features, hidden, classes, local)
        found += [(work, share, estimate(work, machine, share)) for share in shares]
    if as_json:
        console.out(json.dumps([as_dict(*case) for case in found], indent=2), highlight=False)
    elif as_markdown:
        console.out(markdown_table([row(*case) for case in found]), highlight=False, end="")
    else:
        sections = [case_section(*found[0])] if len(found) == 1 else [cases_section(found)]
        console.print(sections_page(sections, console.width))
        if len(found) == 1:
            console.print(f"Bottleneck: {found[0][2].bottleneck}. {ADVICE[found[0][2].bottleneck]}", soft_wrap=True)


def listed(name: str, text: str) -> list[str]:
    """Return the parts of a list between commas, which must not be empty."""
    parts = comma_separated(text)
    if not parts:
        raise OptionError(f"{name} is empty.", f"Give --{name} a number.")
    return parts


def number(name: str, text: str) -> float:
    """Return a number such as 1e9 or 10M."""
    found = re.fullmatch(r"(\d+(?:\.\d*)?(?:e\d{1,3})?)([kmgt]?)", text.strip().lower())
    if found is None:
        raise OptionError(f"{name}={text} is not a number.", f"Write --{name} 1e9.")
    return float(found[1]) * UNITS[found[2]]


def whole(name: str, text: str) -> int:
    """Return a whole number from 1 on."""
    value = number(name, text)
    if value != int(value) or not 1 <= value <= 1e9:
        raise OptionError(f"{name}={text} is not a whole number from 1 on.", f"Write --{name} 64.")
    return int(value)


def rate(name: str, text: str) -> float:
    """Return a rate per second: 25Gb are bits, 3GB bytes and 200G operations.

    Example:
        >>> rate("bandwidth", "25Gb"), rate("disk", "3GB/s")
        (3125000000.0, 3000000000.0)
    """
    found = re.fullmatch(r"(\d+(?:\.\d*)?(?:e\d{1,3})?)\s*([kKMGT]?)(?:(b|bit)|(B))?(?:/s|ps)?", text.strip())
    if found is None or (name == "bandwidth" and not (found[3] or found[4])) or not float(found[1]) > 0:
        example = {"bandwidth": "25Gb", "flops": "200G"}.get(name, "3GB")
        raise OptionError(f"{name}={text} is not a rate.", f"Write --{name} {example}.")
    return float(found[1]) * UNITS[found[2].lower()] / (8 if found[3] else 1)


def gib(size: float) -> str:
    """Return a size in GiB."""
    return f"{size / 2**30:,.1f} GiB"


def as_dict(work: Workload, machines: int, found: Estimate) -> dict[str, object]:
    """Return a case as JSON types."""
    return {
        **asdict(work),
        "machines": machines,
        "halo_rows": found.halo_rows,
        "sent_bytes": found.sent,
        "memory_bytes": found.memory,
        "features_on_disk": found.on_disk,
        "recomputed": found.recomputed,
        "fits": found.fits,
        "step_seconds": found.step._asdict(),
        "evaluation_seconds": found.evaluation._asdict(),
        "epoch_seconds": found.seconds,
        "bottleneck": found.bottleneck,
    }


def row(work: Workload, machines: int, found: Estimate) -> dict[str, str]:
    """Return a case as a row of a table."""
    ways = [words for words, used in (("on disk", found.on_disk), ("recomputed", found.recomputed)) if used]
    return {
        "nodes": f"{work.nodes:.3g}",
        "edges": f"{work.edges:.3g}",
        "near": f"{work.local:.0%}",
        "machines": str(machines),
        "memory": gib(sum(found.memory.values())) + ("" if found.fits else " (too much)"),
        "features": ", ".join(ways) or "in memory",
        "sent": f"{sum(found.sent.values()) / 1e9:.2f} GB",
        "step": f"{sum(found.step):.1f} s",
        "epoch": f"{found.seconds:.1f} s",
        "bottleneck": found.bottleneck,
    }


CAPTION = "Calculated per machine, not measured. An epoch is a training step and an evaluation; nothing overlaps."


def cases_section(cases: list[tuple[Workload, int, Estimate]]) -> Section:
    """Return the table of several cases."""
    return Section("Training over several machines", [row(*case) for case in cases], CAPTION)


def case_section(work: Workload, machines: int, found: Estimate) -> Section:
    """Return the parts of one case."""
    names = [name for name in found.step._fields if getattr(found.step, name) + getattr(found.evaluation, name)]
    rows = [
        {
            "part": name,
            "sent": f"{found.sent[name] / 1e9:.3f} GB" if name in found.sent else "–",
            "memory": gib(found.memory[name]) if name in found.memory else "–",
            "step": f"{getattr(found.step, name):.2f} s",
            "evaluation": f"{getattr(found.evaluation, name):.2f} s",
        }
        for name in names
    ]
    rows += [
        {"part": name, "sent": "–", "memory": gib(size), "step": "–", "evaluation": "–"}
        for name, size in found.memory.items()
        if name not in names and size
    ]
    rows.append(
        {
            "part": "sum",
            "sent": f"{sum(found.sent.values()) / 1e9:.3f} GB",
            "memory": gib(sum(found.memory.values())),
            "step": f"{sum(found.step):.2f} s",
            "evaluation": f"{sum(found.evaluation):.2f} s",
        }
    )
    ways = " Features stay on disk." * found.on_disk + " Hidden layers are computed twice." * found.recomputed
    unfit = "" if found.fits else " The memory does not suffice."
    title = f"{work.nodes:g} nodes and {work.edges:g} edges on {machines} machines: {found.seconds:.1f} s per epoch"
    return Section(title, rows, f"{CAPTION}{ways}{unfit}")
