"""The cases: their names and goals, which are chosen, and how their results are kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import cases
from benchmarks.cases import (
    Case,
    Goal,
    KeptResultError,
    all_cases,
    choose_cases,
    quick_cases,
    read_results,
    run_case,
    short_cases,
)
from benchmarks.scale import EDGES, NODES, Job, large_graph
from benchmarks.timing import Usage
from nlgnn.errors import DataError, OptionError


def test_goals() -> None:
    """All that is to be reached, but the growth with the graph, which is made of two cases."""
    goals = {case.name: case.goal for case in all_cases() if case.goal}
    at_least = {
        "step": {"texas": 2.5, "actor": 8, "chameleon": 8, "squirrel": 12, "pubmed": 5},
        "splits": {"texas": 6, "actor": 10, "chameleon": 9, "squirrel": 13, "pubmed": 6},
        "gat": {"squirrel": 8, "chameleon": 8, "pubmed": 8},
        "deep": {"minesweeper": 2, "tolokers": 4},
        "search": {"texas": 3},
        "command": {"chameleon": 6, "chameleon-without-report": 6},
    }
    expected = {
        f"{kind}-{graph}": Goal("at least", value) for kind, of in at_least.items() for graph, value in of.items()
    }
    for nodes in (20_000, 100_000, NODES):
        expected[f"overhead-{nodes}"] = Goal("at most", 1.2)
    for system in ("gcn", "sage"):
        for graph in ("minesweeper", "tolokers"):
            expected[f"products-{system}-{graph}"] = Goal("at most", 1.3)
    for system, limit in {"nlgcn": 9, "nlgcn-disk": 5, "nlgat": 20, "structure": 12}.items():
        expected[f"scale-{system}-{NODES}"] = Goal("at most", limit, "GiB")
    for name, seconds in {"table-tolokers": 3, "trees-tolokers": 2, "kernel-squirrel": 2}.items():
        expected[f"shallow-{name}"] = Goal("at most", seconds, "s")
    for name, seconds in {"typo": 1, "training": 3, "report": 1.5}.items():
        expected[f"wait-{name}"] = Goal("at most", seconds, "s")
    expected |= {f"structure-{nodes}": Goal("at most", 5) for nodes in (300_000, NODES)}
    assert goals == expected


def test_goals_are_reached_from_their_side() -> None:
    assert Goal("at least", 3).reached(3)
    assert not Goal("at least", 3).reached(2.99)
    assert Goal("at most", 9, "GiB").reached(9)
    assert not Goal("at most", 9, "GiB").reached(9.01)


@pytest.mark.parametrize("listed", [all_cases(), quick_cases()])
def test_every_case_has_a_file_of_its_own(listed: list[Case]) -> None:
    names = [case.name for case in listed]
    assert len(set(names)) == len(names)
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") for name in names)


def test_sizes_of_made_graphs(tmp_path: Path) -> None:
    sizes = {case.name.rpartition("-")[2] for case in all_cases() if case.name.startswith("scale-nlgcn")}
    assert sizes == {"10000", "30000", "100000", "300000", "1000000", "2923922"}
    graph = large_graph(Job("NLGCN", 1000, 1), tmp_path)
    assert (graph.num_nodes, graph.num_features, graph.num_classes) == (1000, 269, 5)
    assert graph.num_edges / 1000 == pytest.approx(EDGES / NODES, rel=1e-3)


def test_choice() -> None:
    listed = all_cases()

    def chosen(*names: str, large: bool = False) -> list[str]:
        return [case.name for case in choose_cases(list(names), large, listed)]

    kinds = {name.partition("-")[0] for name in chosen()}
    steps = {"step", "gat", "deep", "products", "overhead", "systems"}
    assert kinds == {"machine", "shallow", "splits", "search", "threads", "command", "wait", "roofline"} | steps
    assert chosen(large=True) == [case.name for case in listed]
    assert chosen("gat", "step-texas") == ["step-texas", "gat-chameleon", "gat-squirrel", "gat-pubmed"]
    assert len(chosen("scale-nlgat")) == 4  # named, so not left out
    with pytest.raises(OptionError, match=r"'stepp-texas'.*\n.*'step-texas'"):
        chosen("stepp-texas")


def test_short_cases() -> None:
    """Every peer is there, each case under its name in the long form, with its goal."""
    goals = {case.name: (case.goal, case.peer) for case in all_cases()}
    short = {case.name: (case.goal, case.peer) for case in short_cases()}
    assert short.items() <= goals.items()
    assert {name.partition("-")[0] for name in short} >= {"step", "gat", "deep", "splits", "overhead", "shallow"}
    assert not any(case.large for case in short_cases())


def case_that(measure: Any) -> Case:
    return Case("a-case", "what", "texas", measure)


def test_result_is_kept_with_what_it_was_measured_on(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    case = case_that(lambda: {"seconds": {"ours": {"median": 1.0}}})
    result = run_case(case, folder)
    assert json.loads((folder / "a-case.json").read_text()) == result
    assert read_results([case], folder) == {"a-case": result}
    assert result["case"] == "a-case"
    assert {"date", "processor", "cores", "versions", "seconds"} <= set(result)
    assert {"nlgnn", "torch", "python", "torch_geometric"} == set(result["versions"])
    again = {"seconds": {"ours": {"median": 2.0}}, "threads": 1}
    (folder / "a-case.json").unlink()
    run_case(case_that(lambda: again), folder)
    assert read_results([case], folder)["a-case"]["seconds"] == again["seconds"]
    assert [path.name for path in folder.iterdir()] == ["a-case.json"]


class Machine:
    """A machine on which a case takes ten seconds on one core, and others use some cores in the meantime."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds, self.used = 0.0, 0.0
        monkeypatch.setattr(cases, "usage", lambda: Usage(self.seconds, self.used, self.seconds))

    def case(self, median: float, others: float, *sides: str) -> Case:
        def measure() -> dict[str, Any]:
            self.seconds += 10
            self.used += 10 * (1 + others)
            return {"threads": 1, "seconds": {side: {"median": median} for side in sides or ("ours", "PyG")}}

        return case_that(measure)


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [(0.0, 1.5, True), (0.2, 0.3, True), (0.2, 0.2, False), (1.5, 0.0, False), (1.5, 1.8, False)],
)
def test_busy_result_does_not_replace_a_quiet_one(
    first: float, second: float, kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(monkeypatch)
    case = machine.case(1.0, first)
    assert run_case(case, tmp_path)["cores of others"] == first
    again = machine.case(2.0, second)
    if kept:
        with pytest.raises(KeptResultError, match=f"{second} cores") as raised:
            run_case(again, tmp_path)
        assert raised.value.result["seconds"]["ours"]["median"] == 2
    else:
        run_case(again, tmp_path)
    assert read_results([case], tmp_path)["a-case"]["seconds"]["ours"]["median"] == (1 if kept else 2)


def test_quiet_result_without_a_peer_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    run_case(machine.case(1.0, 0.0, "ours", "PyG"), tmp_path)
    assert run_case(machine.case(2.0, 1.5, "ours", "PyG, CSR"), tmp_path)["seconds"]["ours"]["median"] == 2


def test_folder_is_tried_before_anything_is_measured(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="cannot be written"):
        run_case(case_that(lambda: pytest.fail("measured in vain")), tmp_path / "file")


def test_damaged_result(tmp_path: Path) -> None:
    (tmp_path / "a-case.json").write_text("{")
    with pytest.raises(DataError, match=r"a-case\.json cannot be read.*\n.*python -m benchmarks a-case"):
        read_results([case_that(dict)], tmp_path)
