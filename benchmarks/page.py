"""The page of results: tables in Markdown with the goals, and how and on what they were measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cases import GROWTH_FROM, GROWTH_GOAL, Case, Goal, as_size, saying_where
from benchmarks.scale import NODES
from benchmarks.timing import others_during
from nlgnn.files import write_whole
from nlgnn.paper.numbers import printed_speed
from nlgnn.report.figures import PALETTE
from nlgnn.report.table import Section, markdown_table

Results = Mapping[str, dict[str, Any]]  # by the names of the cases
Quartiles = Mapping[str, float]  # low, median, high

CAPTION = (
    "Times are medians over rounds in which the sides take turns (A B A B); ratios are medians of each round's ratio, "
    "quartiles in brackets. PyTorch Geometric is timed with an edge index, with a CSR adjacency, with features in CSR, "
    "too, and compiled where there is a compiler, each with edges that are normalised once and with fused Adam; the "
    'fastest is shown. A goal with "weaker peer" was measured before all of these forms were timed, and says nothing. '
    "Load: cores that other processes used during the case; for older results, the load average of the minute before "
    "less own threads."
)
WEAKER = "weaker peer"
ROOF_CAPTION = (
    "Limit: the longer of the flops at the measured rate of a square product and a copy of as many bytes; of a step, "
    "the sum over its products. Goal: half of the limit in sparse and dense products."
)
SYSTEMS_CAPTION = (
    "A training step, its median; its ratio to that of GCN, median and quartiles over rounds in which all take turns; "
    "and the time of preparing the graph once. One thread, hidden 48, else each system's own defaults: dropout 0.5, "
    "two rounds of H2GCN, eight layers of GCNII, Isomap of Geom-GCN."
)


def results_page(cases: Sequence[Case], results: Results) -> str:
    """Return the page of everything measured so far; parts without results are left out."""
    parts = ["# Benchmarks\n\nMade by `python -m benchmarks`; each row is from a JSON file in this folder.\n"]
    if rows := goal_rows(cases, results):
        parts.append(f"## Side by side\n\n{markdown_table(rows)}\n{CAPTION}\n")
        if summary := goal_summary(cases, results):
            parts.append(f"## Goals\n\n{summary}")
    if trainings := scaling_rows(results):
        table = [
            {
                "system": row["system"],
                "nodes": f"{row['nodes']:,}",
                "seconds per epoch, or fit": as_time(row["seconds"]),
                "per node": as_time(row["seconds"] / row["nodes"]),
                "peak memory": f"{row['peak GiB']:.2f} GiB",
            }
            for row in trainings
        ]
        fitted = ", ".join(f"{system} {exponent:.2f}" for system, exponent in exponents(trainings).items())
        parts.append(
            f"## Growth with the graph\n\n![Seconds per epoch against nodes](scaling.svg)\n\n{markdown_table(table)}\n"
            f"Fitted exponents of the number of nodes: {fitted}.\n"
        )
    if rows := roof_rows(cases, results):
        parts.append(f"## Roofline\n\n{markdown_table(rows)}\n{ROOF_CAPTION}\n")
    if rows := profile_rows(cases, results):
        parts.append(f"## Where users wait\n\n{markdown_table(rows)}\nShares of the time by package (cProfile).\n")
    if rows := system_rows(cases, results):
        parts.append(f"## Every system compared with GCN\n\n{markdown_table(rows)}\n{SYSTEMS_CAPTION}\n")
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
    """Return one line per way of measuring, with the number of rounds of its cases."""
    rounds: dict[tuple[str, str], set[int]] = {}
    for case in cases:
        result = results.get(case.name, {})
        if "rounds" in result:
            rounds.setdefault((case.what, result["protocol"]), set()).add(result["rounds"])
    return "".join(f"- {what}: {protocol}; {_range(counts)} rounds.\n" for (what, protocol), counts in rounds.items())


def _environments(results: Results) -> str:
    """Return one line per machine and set of versions, with dates and load."""
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


def chart_rows(trainings: list[dict[str, Any]], exponents: dict[str, float]) -> list[dict[str, Any]]:
    """Return one row per training: its size, its time, and the name of its system in the legend."""
    fitted = {system: f", n^{exponent:.2f}" for system, exponent in exponents.items()}
    return [
        {
            "system": training["system"] + fitted.get(training["system"], ""),
            "nodes": training["nodes"],
            "seconds": training["seconds"],
        }
        for training in trainings
    ]


def scaling_chart(trainings: list[dict[str, Any]], exponents: dict[str, float]) -> Any:
    """Draw seconds per epoch against nodes, both logarithmic; the legend has the fitted exponents."""
    import altair

    rows = chart_rows(trainings, exponents)
    names = list(dict.fromkeys(row["system"] for row in rows))
    return (
        altair.Chart(altair.Data(values=rows), width=560, height=360)
        .mark_line(point=altair.OverlayMarkDef(size=50))
        .encode(
            x=altair.X("nodes:Q", scale=altair.Scale(type="log"), title="nodes", axis=altair.Axis(format="~s")),
            y=altair.Y("seconds:Q", scale=altair.Scale(type="log"), title="seconds per epoch"),
            color=altair.Color("system:N", scale=altair.Scale(domain=names, range=PALETTE[: len(names)]), title=None),
        )
        .properties(title="Seconds per epoch against nodes, with fitted exponents")
    )


def goal_sections(rows: list[dict[str, str]]) -> list[Section]:
    """Return a table for each kind of measurement, the last with the caption of all."""
    sections = []
    for (what, threads), group in groupby(rows, key=lambda row: (row["what"], row["threads"])):
        cells = [{name: cell for name, cell in row.items() if name not in ("what", "threads")} for row in group]
        sections.append(Section(f"{what} ({threads} thread{'s' * (threads != '1')})", cells, ""))
    return [*sections[:-1], sections[-1]._replace(caption=CAPTION)]


def goal_rows(cases: Iterable[Case], results: Results) -> list[dict[str, str]]:
    """Return one row per measured case that compares two sides or has a goal; the growth with the graph is last."""
    rows = []
    for case in cases:
        result = results.get(case.name)
        if result is None:
            continue
        about = {"what": case.what, "graph": case.on}
        others = others_during(result)
        threads = {"load": "" if others is None else f"{others:.2f}", "threads": str(result["threads"])}
        if case.goal and case.goal.unit == "GiB":
            peak = result["peak GiB"]
            compared = {"ours": f"{peak:.2f} GiB", "against": case.against, "ratio": ""}
            rows.append(about | compared | _verdict(case.goal, peak) | threads)
        elif "ratios" not in result and "means" in result:
            compared = {"ours": as_time(result["means"]["ours"]), "against": "", "ratio": ""}
            rows.append(about | compared | _verdict(case.goal, result["means"]["ours"]) | threads)
        elif "ratios" in result and not case.name.startswith("systems-"):
            peer, ratio = best_peer(result)
            compared = {
                "ours": as_time(next(iter(result["seconds"].values()))["median"]),
                "against": f"{as_time(result['seconds'][peer]['median'])} {peer}{_paper_ratio(case.name)}",
                "ratio": as_ratio(ratio),
            }
            rows.append(about | compared | _verdict(case.goal, ratio["median"]) | threads)
            if case.goal and case.peer and case.peer not in result["ratios"]:
                rows[-1]["reached"] = WEAKER
    return rows + growth_rows(results)


def goal_summary(cases: Iterable[Case], results: Results) -> str:
    """Return how many goals are reached, missed, or not measured yet, with the names of these cases."""
    found: dict[str, list[str]] = {"yes": [], "no": [], WEAKER: [], "": []}
    for case in cases:
        if case.goal:
            rows = goal_rows([case], {name: result for name, result in results.items() if name == case.name})
            found[rows[0]["reached"] if rows else ""].append(case.name)
    titles = ("Reached", "Missed", "Measured against a weaker peer only", "Not measured")
    lines = zip(titles, found.values(), strict=True)
    return "".join(f"- {title}: {len(names)} ({', '.join(names)})\n" for title, names in lines if names)


def best_peer(result: Mapping[str, Any]) -> tuple[str, Quartiles]:
    """Return the fastest of several peers."""
    peer, ratio = min(result["ratios"].items(), key=lambda item: item[1]["median"])
    return peer, ratio


def growth_rows(results: Results) -> list[dict[str, str]]:
    """Compare the time of an epoch per node on the largest graph with that on a graph of 10^5 nodes."""
    small, large = (results.get(f"scale-nlgcn-{nodes}") for nodes in (GROWTH_FROM, NODES))
    if small is None or large is None:
        return []
    before, after = small["seconds"]["ours"], large["seconds"]["ours"]
    growth = {
        name: after[name] / before[other] * GROWTH_FROM / NODES
        for name, other in (("low", "high"), ("median", "median"), ("high", "low"))
    }
    return [
        {
            "what": "NLGCN, an epoch per node",
            "graph": as_size(NODES),
            "ours": as_time(after["median"] / NODES),
            "against": f"{as_time(before['median'] / GROWTH_FROM)}, {as_size(GROWTH_FROM)}",
            "ratio": as_ratio(growth),
            **_verdict(GROWTH_GOAL, growth["median"]),
            "load": "",
            "threads": str(large["threads"]),
        }
    ]


def _verdict(goal: Goal | None, value: float) -> dict[str, str]:
    if goal is None:
        return {"goal": "", "reached": ""}
    unit = goal.unit if goal.unit == "×" else f" {goal.unit}"
    bound = "≥" if goal.bound == "at least" else "≤"
    return {"goal": f"{bound} {goal.value:g}{unit}", "reached": "yes" if goal.reached(value) else "no"}


def _paper_ratio(case_name: str) -> str:
    """Return the paper's ratio of NLGCN to GCN for the graph of a case, or nothing."""
    graph = case_name.removeprefix("overhead-").replace(str(NODES), "snap-patents")
    printed = printed_speed("nlgcn", graph)
    if not case_name.startswith("overhead-") or printed["status"] != "ok":
        return ""
    return f", paper {printed['ratio_to_gcn']}×"


def system_rows(cases: Iterable[Case], results: Results) -> list[dict[str, str]]:
    """Return one row per system: the time of a training step, its ratio to GCN, and the time of preparing a graph."""
    rows: dict[str, dict[str, str]] = {}
    for case in cases:
        if case.name.startswith("systems-") and case.name in results:
            result = results[case.name]
            for system, seconds in result["seconds"].items():
                row = rows.setdefault(system, {"system": system})
                row[case.on] = as_time(seconds["median"])
                row[f"{case.on}, to gcn"] = as_ratio(result["ratios"][system]) if system in result["ratios"] else ""
                row[f"{case.on}, once"] = as_time(result["prepared once"][system])
    return list(rows.values())


def roof_rows(cases: Iterable[Case], results: Results) -> list[dict[str, str]]:
    """Return one row per product of a step, and one per step: what it needs, and the share of the limit it reaches."""
    return [
        {
            "graph": case.on,
            "work": roof["what"],
            "times per step": str(roof["calls"]),
            "MFLOP": f"{roof['flops'] / 1e6:,.2f}",
            "MB": f"{roof['bytes'] / 1e6:,.2f}",
            "measured": as_time(roof["seconds"]),
            "limit": as_time(roof["limit"]),
            "share reached": f"{100 * roof['share']:.0f} %",
        }
        for case in cases
        for roof in results.get(case.name, {}).get("roofs", ())
    ]


def profile_rows(cases: Iterable[Case], results: Results) -> list[dict[str, str]]:
    """Return one row per command that users wait for, with the packages in which most of its time goes."""
    return [
        {
            "what": case.what,
            "graph": case.on,
            "seconds": as_time(results[case.name]["means"]["ours"]),
            "where": ", ".join(f"{name} {100 * share:.0f} %" for name, share in results[case.name]["profile"].items()),
        }
        for case in cases
        if "profile" in results.get(case.name, {})
    ]


def scaling_rows(results: Results) -> list[dict[str, Any]]:
    """Return one row per training of a large graph, by system and size."""
    rows = [
        {
            "system": result["system"] + (", features on disk" if result["on disk"] else ""),
            "nodes": result["nodes"],
            "seconds": result["seconds"]["ours"]["median"],
            "peak GiB": result["peak GiB"],
        }
        for name, result in results.items()
        if name.startswith("scale-")
    ]
    return sorted(rows, key=lambda row: (row["system"], row["nodes"]))


def exponents(rows: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Fit b in seconds = a · nodes^b for each system with several sizes, by least squares of the logarithms."""
    points: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        points.setdefault(row["system"], []).append((row["nodes"], row["seconds"]))
    logarithms = {system: np.log(np.array(sizes)) for system, sizes in points.items() if len(sizes) > 1}
    return {system: float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0]) for system, logs in logarithms.items()}


def as_time(seconds: float) -> str:
    """Return a time with three digits and a unit."""
    unit, length = next((item for item in (("s", 1), ("ms", 1e-3)) if seconds >= item[1]), ("µs", 1e-6))
    value = seconds / length
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"


def as_ratio(ratio: Quartiles) -> str:
    digits = 2 if ratio["median"] < 10 else 1
    median, low, high = (f"{ratio[name]:.{digits}f}" for name in ("median", "low", "high"))
    return f"{median}× ({low}–{high})"
