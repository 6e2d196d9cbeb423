"""The command that measures tables: which table, which cells, where they are kept, and what is printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from filelock import FileLock

from cli_samples import Command
from nlgnn.cli.reproduce import TABLE_NAMES
from nlgnn.errors import NlgnnError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import random_split
from nlgnn.paper import cell as cells
from nlgnn.paper import measure, pages
from nlgnn.paper.cell import HUGE_DATASETS, Cell
from nlgnn.paper.pages import PAGES, TABLES

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture
def small_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of the datasets: graphs of their names with fixed splits."""

    def load(name: str, allow_unverified: bool) -> Graph:
        labels = [0, 1] * 10
        graph = Graph([[1, 0], [0, 1]] * 10, [[0, 1], [1, 2]], labels, name=name)
        splits = [random_split(graph.y, "random-60", index) for index in range(10)]
        return Graph(graph.x, graph.edge_index, graph.y, name=name, splits={"geom-gcn": splits})

    monkeypatch.setattr(measure, "load_graph", load)
    for module in (cells, pages):
        monkeypatch.setattr(module, "files_are_here", lambda name: name not in HUGE_DATASETS)


def test_table_names_are_those_of_the_tables() -> None:
    """The command has a list of its own, so that `--help` waits for no import."""
    assert tuple(TABLES) == TABLE_NAMES


def test_table_of_a_reproduction_that_has_not_begun(command: Command) -> None:
    for names in (["systems"], ["controls", "homophily"], []):
        shown = command("reproduce", *names, "--table")
        assert (shown.code, shown.out) == (2, "")
        assert "there are no measured cells in results." in shown.err
    assert not list(Path().iterdir())


def test_pages_are_written(command: Command) -> None:
    done = command("reproduce", "--pages", "pages", "--out", RESULTS)
    assert done.code == 0, done.err
    assert done.out.splitlines() == [f"page: pages/{name}.md" for name in PAGES]
    names = {path.name for path in Path("pages").glob("*.svg")}
    assert names == {"sequence-texas.svg", "sequence-chameleon.svg", "order.svg", "order-noise.svg"}


def test_cells_are_counted(command: Command) -> None:
    shown = command("reproduce", "order", "--list", "--out", RESULTS)
    assert shown.code == 0, shown.err
    heading = " ".join(shown.out.splitlines()[1].split())
    assert heading == "table measured older open without files core-hours left"
    assert shown.out.splitlines()[2].startswith("order")


def test_open_cells_are_named(command: Command) -> None:
    listed = command("reproduce", "sequence", "--list", "--out", "cells")
    assert listed.code == 0, listed.err
    lines = [line.strip() for line in listed.out.splitlines()]
    names = lines[lines.index("open cell") + 1 : -1]
    assert len(names) == int(lines[2].split()[3])
    refused = command("reproduce", "sequence", "--cells", names[0] + "x", "--out", "cells")
    assert refused.code == 2
    assert names[0] in refused.err


def test_reproduction_with_a_damaged_cell(command: Command) -> None:
    Path("cells/framework").mkdir(parents=True)
    Path("cells/framework/texas-nlmlp-random-60.json").write_text('{"runs": [')
    refused = command("reproduce", "controls", "--table", "--out", "cells")
    assert refused.code == 2
    what, how = refused.err.splitlines()
    assert what.startswith("error: cells/framework/texas-nlmlp-random-60.json cannot be read")
    assert how.startswith("Remove the file to measure the cell again")


@pytest.mark.parametrize(
    ("arguments", "what", "how"),
    [
        (["sistems"], "there is no table 'sistems'.", "Did you mean 'systems'?"),
        (["systems", "--systems", "fagcn,h2gnc"], "this table has no model 'h2gnc'.", "Did you mean 'h2gcn'?"),
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
        "h2gcn, simp-gcn",
        "--datasets",
        "texas,wisconsin",
        "--format",
        "markdown",
    ]
    done = command(*arguments)
    assert done.code == 0, done.err
    assert [line.partition(", ")[0] for line in done.err.splitlines()] == [
        *("open cell 1 of 4: texas-h2gcn", "open cell 2 of 4: texas-simp-gcn"),
        *("open cell 3 of 4: wisconsin-h2gcn", "open cell 4 of 4: wisconsin-simp-gcn"),
    ]
    folder = Path("runs/quick/systems")
    names = ["texas-h2gcn.json", "texas-simp-gcn.json", "wisconsin-h2gcn.json", "wisconsin-simp-gcn.json"]
    assert sorted(path.name for path in folder.iterdir()) == names
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert command(*arguments).out == done.out
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert command(*arguments, "--table") == (0, done.out, "")  # nothing is measured
    assert "| system | texas | wisconsin |" in done.out
    assert not Path("runs/quick/report.html").exists()  # other formats are for other readers
    shown = command(*arguments[:-2], "--table")
    assert "All systems" in shown.out
    assert "All systems" in Path("runs/quick/report.html").read_text()
    assert "* searched or trained on fewer splits" in " ".join(shown.out.split())


@pytest.mark.usefixtures("small_graphs")
def test_a_cell_that_cannot_be_measured_does_not_stop_the_others(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sometimes(cell: Cell, unfinished: Path, progress: bool) -> object:
        if cell.system == "h2gcn":
            raise NlgnnError("it does not fit.", "Buy memory.")
        return measure.measure_training(cell, unfinished, progress)

    monkeypatch.setitem(measure.MEASURES, "training", sometimes)  # type: ignore[arg-type]
    done = command("reproduce", "systems", "--quick", "--systems", "h2gcn,simp-gcn", "--datasets", "texas")
    assert done.code == 2
    assert "open cell 1 of 2: texas-h2gcn\nerror: it does not fit.\nBuy memory.\n" in done.err
    assert done.err.endswith("error: not measured: texas-h2gcn.\nThe errors are printed above.\n")
    assert Path("runs/quick/systems/texas-simp-gcn.json").exists()


@pytest.mark.usefixtures("small_graphs")
def test_a_cell_of_other_settings(command: Command) -> None:
    arguments = ["reproduce", "systems", "--quick", "--systems", "simp-gcn", "--datasets", "texas", "--out", "cells"]
    assert command(*arguments).code == 0
    again = "nlgnn reproduce systems --table --quick --systems simp-gcn --datasets texas --out cells"
    assert f"<code>{again}</code>" in Path("cells/report.html").read_text()
    path = Path("cells/systems/texas-simp-gcn.json")
    result = json.loads(path.read_text())
    result["recipe"]["lr"] = 0.7
    path.write_text(json.dumps(result))
    for more in ([], ["--table"]):
        refused = command(*arguments, *more)
        assert refused.code == 2
        assert "cells/systems/texas-simp-gcn.json was measured with lr=0.7; now it is 0.05." in refused.err
        assert "Remove the file to measure the cell again" in refused.err


@pytest.mark.usefixtures("small_graphs")
def test_a_cell_in_work_elsewhere(command: Command) -> None:
    folder = Path("runs/quick/systems")
    folder.mkdir(parents=True)
    arguments = ["reproduce", "systems", "--quick", "--systems", "simp-gcn", "--datasets", "texas,wisconsin"]
    with FileLock(folder / ".texas-simp-gcn.lock"):
        done = command(*arguments)
    assert done.code == 0
    assert done.err.startswith(
        "open cell 1 of 2: texas-simp-gcn: another process measures it\nopen cell 2 of 2: wisconsin-simp-gcn, "
    )
    assert sorted(path.name for path in folder.glob("*.json")) == ["wisconsin-simp-gcn.json"]


@pytest.mark.usefixtures("small_graphs")
def test_quick_of_the_sequence(command: Command) -> None:
    done = command("reproduce", "sequence", "--quick", "--datasets", "texas")
    assert done.code == 0, done.err
    assert "The sorted sequence" in done.out
    assert done.out.splitlines()[-1] == "report: runs/quick/report.html"
    page = Path("runs/quick/report.html").read_text()
    assert "A try-out with almost no training" in page
    assert "The sorted sequence of texas" in page
    assert "nlgnn reproduce sequence --table --quick --datasets texas<" in page


@pytest.mark.usefixtures("small_graphs")
def test_a_report_that_cannot_be_written_is_no_failure(command: Command) -> None:
    Path("cells/report.html").mkdir(parents=True)
    done = command("reproduce", "systems", "--quick", "--systems", "h2gcn", "--datasets", "texas", "--out", "cells")
    assert done.code == 0
    assert "All systems" in done.out
    assert "report" not in done.out
    assert done.err.splitlines()[-1].startswith("no report: cells/report.html cannot be written: ")


@pytest.mark.usefixtures("small_graphs")
def test_quick_of_the_framework(command: Command) -> None:
    """Controls take the settings of their main cell; what has no files here is passed over, and the table says so."""
    arguments = ["reproduce", "results", "--quick", "--systems", "nlmlp,mlp"]
    done = command(*arguments, "--datasets", "texas,ogbn-arxiv")
    assert done.code == 0, done.err
    assert "ogbn-arxiv-nlmlp-ogb: files not here (see nlgnn datasets ogbn-arxiv)" in done.err
    written = {path.name for path in Path("runs/quick/framework").glob("*.json")}
    kinds = ("mlp", "nlmlp", "nlmlp-kernel-1", "nlmlp-random-order")
    random = {f"texas-{kind}{seed}-random-60.json" for kind in kinds for seed in ("", "-seed-2", "-seed-3")}
    assert written == random | {"texas-mlp-geom-gcn.json", "texas-nlmlp-geom-gcn.json"}
    main, control = (
        json.loads(Path(f"runs/quick/framework/texas-nlmlp{control}-random-60.json").read_text())
        for control in ("", "-kernel-1-seed-2")
    )
    assert control["options"] == {**main["options"], "kernel_size": 1, "seed": 10}
    assert [run["seed"] for run in control["runs"]] == [10, 11]
    assert "Controls, random-60" in done.out
    assert "The paper's claims" in done.out


@pytest.mark.usefixtures("small_graphs")
def test_open_cells_are_measured_before_older_ones(command: Command) -> None:
    arguments = ["reproduce", "systems", "--quick", "--systems", "h2gcn", "--datasets", "texas,wisconsin"]
    assert command(*arguments).code == 0
    older, newer = (Path(f"runs/quick/systems/{dataset}-h2gcn.json") for dataset in ("texas", "wisconsin"))
    older.write_text(json.dumps(json.loads(older.read_text()) | {"versions": {"nlgnn": "0.1.0"}}))
    newer.unlink()
    assert "±" in command(*arguments, "--table").out
    done = command(*arguments)
    assert [line.partition(", ")[0] for line in done.err.splitlines()] == [
        *("open cell 1 of 1: wisconsin-h2gcn", "older cell 1 of 1: texas-h2gcn")
    ]
    assert json.loads(older.read_text())["versions"]["nlgnn"] != "0.1.0"
    assert command(*arguments).err == ""


@pytest.mark.parametrize(
    ("form", "begins"),
    [("markdown", "# Table controls\n"), ("csv", "table,dataset,"), ("latex", "% "), ("html", "<!doc")],
)
def test_formats(command: Command, form: str, begins: str) -> None:
    shown = command("reproduce", "controls", "--table", "--format", form, "--out", RESULTS)
    assert shown.code == 0, shown.err
    assert shown.out.startswith(begins)
    assert "chameleon" in shown.out
