"""The command that measures tables: which table, which cells, where they are kept, and what is printed."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path

import pytest
from cli_samples import Command

from nlgnn.errors import NlgnnError
from nlgnn.experiments import systems
from nlgnn.experiments.systems import SystemCell
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import random_split

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture
def small_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of the datasets: graphs of their names with fixed splits."""

    def load(name: str) -> Graph:
        labels = [0, 1] * 10
        graph = Graph([[1, 0], [0, 1]] * 10, [[0, 1], [1, 2]], labels, name=name)
        splits = [random_split(graph.y, "random-60", index) for index in range(10)]
        return Graph(graph.x, graph.edge_index, graph.y, name=name, splits={"geom-gcn": splits})

    monkeypatch.setattr(systems, "load_graph", load)


def test_table_of_a_reproduction_that_has_not_begun(command: Command) -> None:
    for table in ("published", "systems"):
        shown = command("reproduce", table, "--table")
        assert shown.code == 2
        assert f"there are no measured cells in results/{table}" in shown.err
    assert command("reproduce", "--table").err == command("reproduce", "published", "--table").err
    assert not list(Path().iterdir())


def test_table_of_the_published_cells_at_hand(command: Command) -> None:
    measured = RESULTS / "published"
    header, rule, *rows = command("reproduce", "--table", "--markdown", "--out", measured).out.splitlines()
    assert header.startswith("| dataset | model | ours | paper |")
    assert rule == f"|{' --- |' * header.count(' | ')} --- |"
    assert len(rows) == 7
    for name in ("cornell-pre2022", "nlgcn", "84.9"):
        assert name in command("reproduce", "--table", "--out", measured).out


def test_reproduction_with_a_damaged_cell(command: Command) -> None:
    Path("cells").mkdir()
    Path("cells/texas-nlmlp.json").write_text('{"runs": [')
    refused = command("reproduce", "--table", "--out", "cells")
    assert refused.code == 2
    what, how = refused.err.splitlines()
    assert what.startswith("error: cells/texas-nlmlp.json cannot be read")
    assert how == "Remove it, and it will be measured again."


@pytest.mark.parametrize(
    ("arguments", "what", "how"),
    [
        (["sistems"], "there is no table 'sistems'.", "Did you mean 'systems'?"),
        (["systems", "--systems", "gcn,h2gnc"], "this table has no model 'h2gnc'.", "Did you mean 'h2gcn'?"),
        (["systems", "--datasets", "texsa"], "this table has no dataset 'texsa'.", "Did you mean 'texas'?"),
        (["--datasets", "texas,cameleon"], "this table has no dataset 'cameleon'.", "Did you mean 'chameleon'?"),
    ],
)
def test_wrong_names(command: Command, arguments: list[str], what: str, how: str) -> None:
    refused = command("reproduce", *arguments)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == f"error: {what}\n{how}\n"
    assert not list(Path().iterdir())


@pytest.mark.usefixtures("small_graphs")
def test_quick(command: Command) -> None:
    """Only the cells that are named; measured once; the page is the same again, and names what stands in it."""
    arguments = ["reproduce", "systems", "--quick", "--systems", "mlp, gcn", "--datasets", "texas,cora", "--markdown"]
    done = command(*arguments)
    assert done.code == 0, done.err
    assert [line.partition(", ")[0] for line in done.err.splitlines()] == [
        *("cell 1 of 4: texas", "cell 2 of 4: cora", "cell 3 of 4: texas", "cell 4 of 4: cora")
    ]
    folder = Path("runs/quick-systems")
    names = ["cora-gcn.json", "cora-mlp.json", "texas-gcn.json", "texas-mlp.json"]
    assert sorted(path.name for path in folder.iterdir()) == names
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert command(*arguments).out == done.out
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert command(*arguments, "--table") == (0, done.out, "")
    assert "| system | texas | cora |" in done.out
    shown = command(*arguments[:-1], "--table")
    assert "All systems" in shown.out
    assert "shortened to epochs=3, 2 splits, 1 for candidates" in " ".join(shown.out.split())


@pytest.mark.usefixtures("small_graphs")
def test_a_cell_that_cannot_be_measured_does_not_stop_the_others(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure = SystemCell.measure

    def sometimes(cell: SystemCell, unfinished: Path, progress: bool) -> object:
        if cell.system == "mlp":
            raise NlgnnError("it does not fit.", "Buy memory.")
        return measure(cell, unfinished, progress)

    monkeypatch.setattr(SystemCell, "measure", sometimes)
    done = command("reproduce", "systems", "--quick", "--systems", "mlp,gcn", "--datasets", "texas")
    assert done.code == 2
    assert "cell 1 of 2: texas, mlp\nerror: it does not fit.\nBuy memory.\n" in done.err
    assert done.err.endswith("error: not measured: texas-mlp.\nThe errors stand above.\n")
    assert Path("runs/quick-systems/texas-gcn.json").exists()


@pytest.mark.usefixtures("small_graphs")
def test_a_cell_of_other_settings(command: Command) -> None:
    arguments = ["reproduce", "systems", "--quick", "--systems", "gcn", "--datasets", "texas", "--out", "cells"]
    assert command(*arguments).code == 0
    path = Path("cells/texas-gcn.json")
    result = json.loads(path.read_text())
    result["recipe"]["lr"] = 0.7
    path.write_text(json.dumps(result))
    for more in ([], ["--table"]):
        refused = command(*arguments, *more)
        assert refused.code == 2
        assert "cells/texas-gcn.json was measured with lr=0.7; now it is 0.05." in refused.err
        assert "Remove it, and it will be measured again." in refused.err


@pytest.mark.usefixtures("small_graphs")
def test_a_cell_in_work_elsewhere(command: Command) -> None:
    folder = Path("runs/quick-systems")
    folder.mkdir(parents=True)
    arguments = ["reproduce", "systems", "--quick", "--systems", "gcn", "--datasets", "texas,cora"]
    with (folder / ".texas-gcn.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = command(*arguments)
    assert done.code == 0
    assert done.err.startswith("cell 1 of 2: texas, gcn: in work elsewhere\ncell 2 of 2: cora, gcn, ")
    assert sorted(path.name for path in folder.glob("*.json")) == ["cora-gcn.json"]


def test_quick_of_the_published_table(command: Command, data_root: Path) -> None:
    done = command("reproduce", "--quick", "--systems", "nlmlp,mlp", "--datasets", "texas")
    assert done.code == 0, done.err
    assert len(list(Path("runs/quick-published").glob("*.json"))) == 4
