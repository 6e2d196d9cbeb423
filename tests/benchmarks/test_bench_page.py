"""Rows and the page, from results as they stand in files."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.cases import all_cases
from benchmarks.page import (
    as_ratio,
    as_time,
    exponents,
    goal_rows,
    goal_summary,
    results_page,
    scaling_rows,
    system_rows,
)
from benchmarks.peers import PYG_SPARSE
from benchmarks.scale import NODES
from benchmarks.timing import compare

ABOUT = {
    "threads": 1,
    "rounds": 7,
    "protocol": "how",
    "date": "2026-01-02T03:04:05+00:00",
    "processor": "a processor",
    "cores": 2,
    "load": 0.5,
    "versions": {"nlgnn": "0.1", "torch_geometric": None},
}


def around(median: float) -> dict[str, float]:
    return {"low": median / 2, "median": median, "high": median * 2}


def compared(seconds: dict[str, float], ratios: dict[str, float]) -> dict[str, Any]:
    return {
        **ABOUT,
        "seconds": {name: around(value) for name, value in seconds.items()},
        "means": seconds,
        "ratios": {name: around(value) for name, value in ratios.items()},
    }


def trained(system: str, nodes: int, seconds: float, peak: float = 1.0, on_disk: bool = False) -> dict[str, Any]:
    result = {"system": system, "nodes": nodes, "on disk": on_disk, "peak GiB": peak}
    return {**ABOUT, **result, "seconds": {"ours": around(seconds)}, "threads": 2}


RESULTS = {
    "step-texas": compared({"ours": 0.002, "PyG": 0.006, PYG_SPARSE: 0.0048}, {"PyG": 3.0, PYG_SPARSE: 2.4}),
    "step-actor": compared({"ours": 0.002, "PyG": 0.06}, {"PyG": 30.0}),
    "splits-squirrel": compared({"ours": 50.0, PYG_SPARSE: 1000.0}, {PYG_SPARSE: 20.0}),
    "splits-dropout-squirrel": compared({"ours": 60.0, "PyG": 1000.0}, {"PyG": 16.0}),
    "overhead-squirrel": compared({"NLGCN": 0.013, "GCN": 0.01}, {"GCN": 1.3}),
    f"overhead-{NODES}": compared({"NLGCN": 13.0, "GCN": 10.0}, {"GCN": 1.21}),
    "scale-nlgcn-10000": trained("NLGCN", 10_000, 0.05),
    "scale-nlgcn-100000": trained("NLGCN", 100_000, 0.5),
    f"scale-nlgcn-{NODES}": trained("NLGCN", NODES, 0.5 * 2 * NODES / 100_000, peak=8.5),
    f"scale-nlgcn-disk-{NODES}": trained("NLGCN", NODES, 20.0, peak=5.1, on_disk=True),
    "machine-1": {**ABOUT, "rates": {"copy, GB/s": 9.5}},
}


def cells(graph: str, what: str) -> list[str]:
    (row,) = [r for r in goal_rows(all_cases(), RESULTS) if r["graph"] == graph and r["what"].startswith(what)]
    return list(row.values())[2:]


def test_best_peer_stands_in_the_row() -> None:
    expected = ["2.00 ms", f"4.80 ms {PYG_SPARSE}", "2.40× (1.20–4.80)", "≥ 2.5×", "no", "0.00", "1"]
    assert cells("texas", "NLGCN, one training step") == expected


def test_goal_is_not_reached_against_a_weaker_peer() -> None:
    assert cells("actor", "NLGCN, one training step")[3:5] == ["≥ 8×", "weaker peer"]


def test_summary_of_goals() -> None:
    cases = [case for case in all_cases() if case.name.startswith(("step-", "splits-sq"))]
    lines = goal_summary(cases, RESULTS).splitlines()
    states = [line.rpartition(": ")[2] for line in lines]
    assert states == [
        "1 (splits-squirrel)",
        "1 (step-texas)",
        "1 (step-actor)",
        "3 (step-chameleon, step-squirrel, step-pubmed)",
    ]
    assert goal_summary([case for case in cases if case.goal is None], RESULTS) == ""


def test_load_of_older_and_of_new_results() -> None:
    def load(**about: Any) -> str:
        return goal_rows(all_cases(), {"step-actor": RESULTS["step-actor"] | about})[0]["load"]

    assert load(load=3.5) == "2.50"
    assert load(load=None) == ""
    assert load(**{"load": 3.5, "cores of others": 0.1}) == "0.10"


def test_goal_reached() -> None:
    (row, without_goal) = [
        row for row in goal_rows(all_cases(), RESULTS) if row["what"].startswith("NLGCN, ten splits")
    ]
    assert list(row.values())[2:] == [
        "50.0 s",
        f"1000 s {PYG_SPARSE}",
        "20.0× (10.0–40.0)",
        "≥ 13×",
        "yes",
        "0.00",
        "1",
    ]
    assert (without_goal["goal"], without_goal["reached"]) == ("", "")


def test_overhead_is_shown_with_that_of_the_paper() -> None:
    assert cells("squirrel", "NLGCN compared") == [
        "13.0 ms",
        "10.0 ms GCN, paper 2.8×",
        "1.30× (0.65–2.60)",
        "",
        "",
        "0.00",
        "1",
    ]
    assert cells("2.9 M nodes", "NLGCN compared")[1:] == [
        "10.0 s GCN, paper 1.1×",
        "1.21× (0.60–2.42)",
        "≤ 1.2×",
        "no",
        "0.00",
        "1",
    ]


def test_memory() -> None:
    assert cells("2.9 M nodes", "NLGCN, time")[:1] == ["8.50 GiB"]
    assert cells("2.9 M nodes", "NLGCN, time")[3:] == ["≤ 9 GiB", "yes", "0.00", "2"]
    assert cells("2.9 M nodes", "NLGCN, features on disk")[3:] == ["≤ 5 GiB", "no", "0.00", "2"]


def test_growth() -> None:
    expected = ["10.0 µs", "5.00 µs, 100,000 nodes", "2.00× (0.50–8.00)", "≤ 2.5×", "yes", "", "2"]
    assert cells("2.9 M nodes", "NLGCN, an epoch") == expected
    without = {name: result for name, result in RESULTS.items() if name != "scale-nlgcn-100000"}
    assert len(goal_rows(all_cases(), without)) == len(goal_rows(all_cases(), RESULTS)) - 1


def test_systems() -> None:
    def result(gcn: float, other: float) -> dict[str, Any]:
        times = {"gcn": [gcn] * 3, "h2gcn": [other] * 3}
        return {**compare(times, "steps"), "prepared once": {"gcn": 0.25, "h2gcn": 1.5}}

    results = {"systems-chameleon": result(0.002, 0.01), "systems-squirrel": result(0.004, 0.1)}
    gcn, h2gcn = system_rows(all_cases(), results)
    assert gcn["chameleon, to gcn"] == ""
    assert h2gcn["system"] == "h2gcn"
    assert h2gcn["squirrel"] == "100 ms"
    assert h2gcn["squirrel, to gcn"].startswith("25.0×")
    assert h2gcn["chameleon, once"] == "1.50 s"
    assert not any("system" in row["what"] for row in goal_rows(all_cases(), results))


@pytest.mark.parametrize("exponent", [1.0, 1.3, 2.0])
def test_exponent(exponent: float) -> None:
    rows = [{"system": "a", "nodes": n, "seconds": 3e-6 * n**exponent} for n in (10**4, 10**5, 10**6)]
    assert exponents([*rows, {"system": "alone", "nodes": 5, "seconds": 1.0}]) == {"a": pytest.approx(exponent)}


def test_trainings_by_system_and_size() -> None:
    rows = scaling_rows(dict(reversed(RESULTS.items())))
    found = [(row["system"], row["nodes"]) for row in rows]
    assert found == [("NLGCN", 10_000), ("NLGCN", 100_000), ("NLGCN", NODES), ("NLGCN, features on disk", NODES)]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(123.4, "123 s"), (12.34, "12.3 s"), (1.0, "1.00 s"), (0.01234, "12.3 ms"), (0.001, "1.00 ms"), (6e-7, "0.60 µs")],
)
def test_times(seconds: float, shown: str) -> None:
    assert as_time(seconds) == shown


def test_ratios() -> None:
    assert as_ratio({"low": 1, "median": 2.456, "high": 30}) == "2.46× (1.00–30.00)"
    assert as_ratio({"low": 1, "median": 24.56, "high": 30}) == "24.6× (1.0–30.0)"


def test_page() -> None:
    page = results_page(all_cases(), RESULTS)
    titles = [
        "Side by side",
        "Goals",
        "Growth with the graph",
        "The machine",
        "How it was measured",
    ]
    assert [line[3:] for line in page.splitlines() if line.startswith("## ")] == titles
    for part in (
        f"| NLGCN, one training step | texas | 2.00 ms | 4.80 ms {PYG_SPARSE} | 2.40× (1.20–4.80) "
        "| ≥ 2.5× | no | 0.00 | 1 |",
        "Fitted exponents of the number of nodes: NLGCN 1.1",
        "| NLGCN | 10,000 | 50.0 ms | 5.00 µs | 1.00 GiB |",
        "| 1 | 9.5 |",
        "- NLGCN, one training step: how; 7 rounds.",
        "- a processor, 2 cores; nlgnn 0.1; 2026-01-02; load in the minute before a case: 0.5.",
    ):
        assert part in page
    for table in page.split("\n\n"):
        if table.startswith("|"):
            assert len({line.count("|") for line in table.splitlines()}) == 1


def test_page_of_one_result() -> None:
    page = results_page(all_cases(), {"step-texas": RESULTS["step-texas"]})
    assert [line for line in page.splitlines() if line.startswith("## ")] == [
        "## Side by side",
        "## Goals",
        "## How it was measured",
    ]
