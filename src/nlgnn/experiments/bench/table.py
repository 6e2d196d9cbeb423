"""Results into rows: what is to be reached, growth with the graph, the paper's running times beside ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from nlgnn.experiments.bench.cases import GROWTH_FROM, GROWTH_GOAL, Case, Goal, as_size
from nlgnn.experiments.bench.scale import NODES
from nlgnn.experiments.paper import paper_results

Results = Mapping[str, dict[str, Any]]  # by the names of the cases
Quartiles = Mapping[str, float]  # low, median, high

PAPER_COLUMNS = {"Chameleon": "paper-chameleon", "Squirrel": "paper-squirrel", "snap-patents": f"overhead-{NODES}"}


def goal_rows(cases: Iterable[Case], results: Results) -> list[dict[str, str]]:
    """A row a measured case that compares two sides or has a goal, in the order of the cases; growth stands last."""
    rows = []
    for case in cases:
        result = results.get(case.name)
        if result is None:
            continue
        about = {"what": case.what, "graph": case.on}
        threads = {"threads": str(result["threads"])}
        if case.goal and case.goal.unit == "GiB":
            peak = result["peak GiB"]
            compared = {"ours": f"{peak:.2f} GiB", "against": case.against, "ratio": ""}
            rows.append(about | compared | _verdict(case.goal, peak) | threads)
        elif "ratios" in result and not case.name.startswith(("paper-", "systems-")):
            peer, ratio = best_peer(result)
            compared = {
                "ours": as_time(next(iter(result["seconds"].values()))["median"]),
                "against": f"{as_time(result['seconds'][peer]['median'])} {peer}{_paper_ratio(case.name)}",
                "ratio": as_ratio(ratio),
            }
            rows.append(about | compared | _verdict(case.goal, ratio["median"]) | threads)
    return rows + growth_rows(results)


def best_peer(result: Mapping[str, Any]) -> tuple[str, Quartiles]:
    """Of several peers the one that does best beside ours."""
    peer, ratio = min(result["ratios"].items(), key=lambda item: item[1]["median"])
    return peer, ratio


def growth_rows(results: Results) -> list[dict[str, str]]:
    """How much longer an epoch takes a node, on the largest graph and on one of 10^5 nodes."""
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
            "what": "NLGCN, an epoch a node",
            "graph": as_size(NODES),
            "ours": as_time(after["median"] / NODES),
            "against": f"{as_time(before['median'] / GROWTH_FROM)}, {as_size(GROWTH_FROM)}",
            "ratio": as_ratio(growth),
            **_verdict(GROWTH_GOAL, growth["median"]),
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
    """The paper's own ratio of NLGCN to GCN, where it has one for this graph."""
    graphs = {"overhead-chameleon": "Chameleon", "overhead-squirrel": "Squirrel", f"overhead-{NODES}": "snap-patents"}
    if case_name not in graphs:
        return ""
    return f", paper {paper_speed('NLGCN', graphs[case_name])['ratio_to_gcn']}×"


def paper_speed(model: str, graph: str) -> dict[str, Any]:
    cell: dict[str, Any] = paper_results()["tables"]["speed"]["rows"][model][graph]
    return cell


def paper_rows(results: Results) -> list[dict[str, str]]:
    """The paper's table of running times, milliseconds an epoch and the ratio to GCN, beside ours."""
    rows = []
    for model in paper_results()["tables"]["speed"]["rows"]:
        row = {"model": model}
        for graph, case_name in PAPER_COLUMNS.items():
            cell = paper_speed(model, graph)
            printed = {"ok": f"{cell['ms_per_epoch']} ({cell['ratio_to_gcn']})", "out_of_memory": "out of memory"}
            row[f"{graph}, paper"] = printed.get(cell["status"], "–")
            means = results.get(case_name, {}).get("means", {})
            ours = f"{1000 * means[model]:.1f} ({means[model] / means['GCN']:.1f})" if model in means else "–"
            row[f"{graph}, ours"] = ours
        rows.append(row)
    return rows


def system_rows(cases: Iterable[Case], results: Results) -> list[dict[str, str]]:
    """A row a system: how long its training step takes on each graph, beside GCN's, and what it prepares once."""
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


def scaling_rows(results: Results) -> list[dict[str, Any]]:
    """A row a training of a large graph, by system and size."""
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
    """Of each system with several sizes, the b in seconds = a · nodes^b: least squares of the logarithms."""
    points: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        points.setdefault(row["system"], []).append((row["nodes"], row["seconds"]))
    logarithms = {system: np.log(np.array(sizes)) for system, sizes in points.items() if len(sizes) > 1}
    return {system: float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0]) for system, logs in logarithms.items()}


def as_time(seconds: float) -> str:
    """Three digits and a unit."""
    unit, length = next((item for item in (("s", 1), ("ms", 1e-3)) if seconds >= item[1]), ("µs", 1e-6))
    value = seconds / length
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"


def as_ratio(ratio: Quartiles) -> str:
    digits = 2 if ratio["median"] < 10 else 1
    median, low, high = (f"{ratio[name]:.{digits}f}" for name in ("median", "low", "high"))
    return f"{median}× ({low}–{high})"
