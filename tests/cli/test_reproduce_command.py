"""The command that measures tables: which table, which cells, where they are kept, and what is printed."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path

import pytest
from cli_samples import Command

from nlgnn.commands.reproduce import TABLE_NAMES
from nlgnn.errors import NlgnnError
from nlgnn.experiments import measured, searched
from nlgnn.experiments.framework import HUGE_DATASETS
from nlgnn.experiments.reproduce import TABLES
from nlgnn.experiments.searched import SearchedCell
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import random_split

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture
def small_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of the datasets: graphs of their names with fixed splits."""

    def load(name: str, allow_unverified: bool) -> Graph:
        labels = [0, 1] * 10
        graph = Graph([[1, 0], [0, 1]] * 10, [[0, 1], [1, 2]], labels, name=name)
        splits = [random_split(graph.y, "random-60", index) for index in range(10)]
        return Graph(graph.x, graph.edge_index, graph.y, name=name, splits={"geom-gcn": splits})

    monkeypatch.setattr(searched, "load_graph", load)
    monkeypatch.setattr("nlgnn.datasets.is_present", lambda name: name not in HUGE_DATASETS)


def test_table_names_are_those_of_the_tables() -> None:
    """The command has a list of its own, so that `--help` waits for no import."""
    assert tuple(TABLES) == TABLE_NAMES


def test_table_of_a_reproduction_that_has_not_begun(command: Command) -> None:
    for names in (["systems"], ["controls", "homophily"], []):
        shown = command("reproduce", *names, "--table")
        assert (shown.code, shown.out) == (2, "")
        assert "there are no measured cells in results." in shown.err
    assert not list(Path().iterdir())


@pytest.mark.parametrize(("page", "names"), [("systems", ["systems"]), ("results", [])])
def test_the_pages_in_the_repository_are_what_was_measured(
    command: Command, monkeypatch: pytest.MonkeyPatch, page: str, names: list[str]
) -> None:
    monkeypatch.setattr(measured, "files_are_here", lambda dataset: dataset not in HUGE_DATASETS)  # as on most machines
    shown = command("reproduce", *names, "--table", "--format", "markdown", "--out", RESULTS)
    assert (RESULTS.parent / "docs" / f"{page}.md").read_text() == shown.out


def test_reproduction_with_a_damaged_cell(command: Command) -> None:
    Path("cells/framework").mkdir(parents=True)
    Path("cells/framework/texas-nlmlp-random-60.json").write_text('{"runs": [')
    refused = command("reproduce", "controls", "--table", "--out", "cells")
    assert refused.code == 2
    what, how = refused.err.splitlines()
    assert what.startswith("error: cells/framework/texas-nlmlp-random-60.json cannot be read")
    assert how == "Remove it, and it will be measured again."


@pytest.mark.parametrize(
    ("arguments", "what", "how"),
    [
        (["sistems"], "there is no table 'sistems'.", "Did you mean 'systems'?"),
        (["systems", "--systems", "gcn,h2gnc"], "this table has no model 'h2gnc'.", "Did you mean 'h2gcn'?"),
        (["systems", "--datasets", "texsa"], "this table has no dataset 'texsa'.", "Did you mean 'texas'?"),
        (
            ["controls", "--datasets", "texas,cameleon"],
            "this table has no dataset 'cameleon'.",
            "Did you mean 'chameleon'?",
        ),
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
    arguments = [
        "reproduce",
        "systems",
        "--quick",
        "--systems",
        "mlp, gcn",
        "--datasets",
        "texas,cora",
        "--format",
        "markdown",
    ]
    done = command(*arguments)
    assert done.code == 0, done.err
    assert [line.partition(", ")[0] for line in done.err.splitlines()] == [
        *("cell 1 of 4: texas", "cell 2 of 4: cora", "cell 3 of 4: texas", "cell 4 of 4: cora")
    ]
    folder = Path("runs/quick/systems")
    names = ["cora-gcn.json", "cora-mlp.json", "texas-gcn.json", "texas-mlp.json"]
    assert sorted(path.name for path in folder.iterdir()) == names
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert command(*arguments).out == done.out
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert command(*arguments, "--table") == (0, done.out, "")
    assert "| system | texas | cora |" in done.out
    assert not Path("runs/quick/report.html").exists()  # other formats are for other readers
    shown = command(*arguments[:-2], "--table")
    assert "All systems" in shown.out
    assert "All systems" in Path("runs/quick/report.html").read_text()
    assert "shortened to epochs=3, 2 splits, 1 for candidates" in " ".join(shown.out.split())


@pytest.mark.usefixtures("small_graphs")
def test_a_cell_that_cannot_be_measured_does_not_stop_the_others(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure = SearchedCell.measure

    def sometimes(cell: SearchedCell, unfinished: Path, progress: bool) -> object:
        if cell.system == "mlp":
            raise NlgnnError("it does not fit.", "Buy memory.")
        return measure(cell, unfinished, progress)

    monkeypatch.setattr(SearchedCell, "measure", sometimes)
    done = command("reproduce", "systems", "--quick", "--systems", "mlp,gcn", "--datasets", "texas")
    assert done.code == 2
    assert "cell 1 of 2: texas, mlp\nerror: it does not fit.\nBuy memory.\n" in done.err
    assert done.err.endswith("error: not measured: texas-mlp.\nThe errors stand above.\n")
    assert Path("runs/quick/systems/texas-gcn.json").exists()


@pytest.mark.usefixtures("small_graphs")
def test_a_cell_of_other_settings(command: Command) -> None:
    arguments = ["reproduce", "systems", "--quick", "--systems", "gcn", "--datasets", "texas", "--out", "cells"]
    assert command(*arguments).code == 0
    again = "nlgnn reproduce systems --table --quick --systems gcn --datasets texas --out cells"
    assert f"<code>{again}</code>" in Path("cells/report.html").read_text()
    path = Path("cells/systems/texas-gcn.json")
    result = json.loads(path.read_text())
    result["recipe"]["lr"] = 0.7
    path.write_text(json.dumps(result))
    for more in ([], ["--table"]):
        refused = command(*arguments, *more)
        assert refused.code == 2
        assert "cells/systems/texas-gcn.json was measured with lr=0.7; now it is 0.05." in refused.err
        assert "Remove it, and it will be measured again." in refused.err


@pytest.mark.usefixtures("small_graphs")
def test_a_cell_in_work_elsewhere(command: Command) -> None:
    folder = Path("runs/quick/systems")
    folder.mkdir(parents=True)
    arguments = ["reproduce", "systems", "--quick", "--systems", "gcn", "--datasets", "texas,cora"]
    with (folder / ".texas-gcn.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = command(*arguments)
    assert done.code == 0
    assert done.err.startswith("cell 1 of 2: texas, gcn: in work elsewhere\ncell 2 of 2: cora, gcn, ")
    assert sorted(path.name for path in folder.glob("*.json")) == ["cora-gcn.json"]


@pytest.mark.usefixtures("small_graphs")
def test_quick_of_the_sequence(command: Command) -> None:
    done = command("reproduce", "sequence", "--quick", "--datasets", "texas")
    assert done.code == 0, done.err
    assert "picture: runs/quick/sequence/sequence-texas.svg" in done.err
    assert Path("runs/quick/sequence/sequence-texas.svg").read_text().startswith("<svg")
    assert "The sorted sequence" in done.out
    assert done.out.splitlines()[-1] == "report: runs/quick/report.html"
    page = Path("runs/quick/report.html").read_text()
    assert "A try-out, with hardly any training" in page
    assert "The sorted sequence of texas" in page
    assert "nlgnn reproduce sequence --table --quick --datasets texas<" in page


@pytest.mark.usefixtures("small_graphs")
def test_a_report_that_cannot_be_written_is_no_failure(command: Command) -> None:
    Path("cells/report.html").mkdir(parents=True)
    done = command("reproduce", "systems", "--quick", "--systems", "mlp", "--datasets", "texas", "--out", "cells")
    assert done.code == 0
    assert "All systems" in done.out
    assert "report" not in done.out
    assert done.err.splitlines()[-1].startswith("no report: cells/report.html cannot be written: ")


@pytest.mark.usefixtures("small_graphs")
def test_quick_of_the_framework(command: Command) -> None:
    """Controls take the settings of their main cell; what has no files here is passed over, and the table says so."""
    arguments = ["reproduce", "controls", "first-category", "--quick", "--systems", "nlmlp,mlp"]
    done = command(*arguments, "--datasets", "texas,ogbn-arxiv")
    assert done.code == 0, done.err
    assert "ogbn-arxiv, nlmlp: files not here (nlgnn datasets ogbn-arxiv says where they are)" in done.err
    written = {path.name for path in Path("runs/quick/framework").glob("*.json")}
    kinds = ("mlp", "nlmlp", "nlmlp-kernel-1", "nlmlp-random-order")
    assert written == {f"texas-{kind}{seed}-random-60.json" for kind in kinds for seed in ("", "-seed-2", "-seed-3")}
    main, control = (
        json.loads(Path(f"runs/quick/framework/texas-nlmlp{control}-random-60.json").read_text())
        for control in ("", "-kernel-1-seed-2")
    )
    assert control["options"] == {**main["options"], "kernel_size": 1, "seed": 10}
    assert [run["seed"] for run in control["runs"]] == [10, 11]
    assert "Does the order matter?" in done.out
    assert "First category: texas" in done.out


@pytest.mark.parametrize(
    ("form", "begins"),
    [("markdown", "# Table controls\n"), ("csv", "table,dataset,"), ("latex", "% "), ("html", "<!doc")],
)
def test_formats(command: Command, form: str, begins: str) -> None:
    shown = command("reproduce", "controls", "--table", "--format", form, "--out", RESULTS)
    assert shown.code == 0, shown.err
    assert shown.out.startswith(begins)
    assert "chameleon" in shown.out
