"""The cases: their names and goals, which are chosen, and how their results are kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.cases import Case, Goal, all_cases, choose_cases, quick_cases, read_results, run_case
from benchmarks.scale import EDGES, NODES, Job, large_graph
from nlgnn.errors import DataError, OptionError


def test_goals() -> None:
    """All that is to be reached, but the growth with the graph, which is made of two cases."""
    goals = {case.name: case.goal for case in all_cases() if case.goal}
    at_least = {
        "step": {"texas": 2.5, "actor": 6, "chameleon": 9, "squirrel": 16, "pubmed": 3},
        "splits": {"texas": 6, "actor": 8, "chameleon": 12, "squirrel": 18, "pubmed": 4},
        "gat": {"squirrel": 10, "chameleon": 10},
        "deep": {"minesweeper": 2, "tolokers": 4},
        "search": {"texas": 3},
    }
    expected = {
        f"{kind}-{graph}": Goal("at least", value) for kind, of in at_least.items() for graph, value in of.items()
    }
    for graph in ("texas", "actor", "chameleon", "squirrel", "pubmed", NODES):
        expected[f"overhead-{graph}"] = Goal("at most", 1.4)
    for system in ("gcn", "sage"):
        for graph in ("minesweeper", "tolokers"):
            expected[f"products-{system}-{graph}"] = Goal("at most", 1.3)
    for system, limit in {"nlgcn": 9, "nlgcn-disk": 5, "nlgat": 20, "structure": 12}.items():
        expected[f"scale-{system}-{NODES}"] = Goal("at most", limit, "GiB")
    for name, seconds in {"table-tolokers": 3, "trees-tolokers": 2, "kernel-squirrel": 2}.items():
        expected[f"shallow-{name}"] = Goal("at most", seconds, "s")
    expected |= {f"structure-{nodes}": Goal("at most", 5) for nodes in (300_000, NODES)}
    assert goals == expected


def test_goals_are_reached_from_their_side() -> None:
    assert Goal("at least", 3).reached(3)
    assert not Goal("at least", 3).reached(2.99)
    assert Goal("at most", 9, "GiB").reached(9)
    assert not Goal("at most", 9, "GiB").reached(9.01)


@pytest.mark.parametrize("cases", [all_cases(), quick_cases()])
def test_every_case_has_a_file_of_its_own(cases: list[Case]) -> None:
    names = [case.name for case in cases]
    assert len(set(names)) == len(names)
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") for name in names)


def test_sizes_of_made_graphs(tmp_path: Path) -> None:
    sizes = {case.name.rpartition("-")[2] for case in all_cases() if case.name.startswith("scale-nlgcn")}
    assert sizes == {"10000", "30000", "100000", "300000", "1000000", "2923922"}
    graph = large_graph(Job("NLGCN", 1000, 1), tmp_path)
    assert (graph.num_nodes, graph.num_features, graph.num_classes) == (1000, 269, 5)
    assert graph.num_edges / 1000 == pytest.approx(EDGES / NODES, rel=1e-3)


def test_choice() -> None:
    cases = all_cases()

    def chosen(*names: str, large: bool = False) -> list[str]:
        return [case.name for case in choose_cases(list(names), large, cases)]

    kinds = {name.partition("-")[0] for name in chosen()}
    steps = {"step", "gat", "deep", "products", "overhead", "systems"}
    assert kinds == {"machine", "shallow", "splits", "search", "threads"} | steps
    assert chosen(large=True) == [case.name for case in cases]
    assert chosen("gat", "step-texas") == ["step-texas", "gat-chameleon", "gat-squirrel"]
    assert len(chosen("scale-nlgat")) == 4  # named, so not left out
    with pytest.raises(OptionError, match=r"'stepp-texas'.*\n.*'step-texas'"):
        chosen("stepp-texas")


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
    run_case(case_that(lambda: {"seconds": 2}), folder)
    assert read_results([case], folder)["a-case"]["seconds"] == 2  # measured anew
    assert [path.name for path in folder.iterdir()] == ["a-case.json"]


def test_folder_is_tried_before_anything_is_measured(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="cannot be written"):
        run_case(case_that(lambda: pytest.fail("measured in vain")), tmp_path / "file")


def test_damaged_result(tmp_path: Path) -> None:
    (tmp_path / "a-case.json").write_text("{")
    with pytest.raises(DataError, match=r"a-case\.json cannot be read.*\n.*python -m benchmarks a-case"):
        read_results([case_that(dict)], tmp_path)
