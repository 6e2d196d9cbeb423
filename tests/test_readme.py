"""What the README shows is true: its code runs, its commands work, its table is what was measured."""

import re
import shlex
from pathlib import Path

import pytest

from nlgnn.cli import main
from nlgnn.experiments import evidence, measured
from nlgnn.experiments.framework import HUGE_DATASETS, framework_cells
from nlgnn.experiments.results_page import best_sections
from nlgnn.experiments.section import markdown_table

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def test_python_blocks_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert blocks("python")
    namespace: dict[str, object] = {}
    for block in blocks("python"):  # later blocks use the names of earlier ones
        exec(compile(block, "README.md", "exec"), namespace)
    assert "class_insensitive_homophily" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["report.md"])
def test_python_blocks_of_the_docs_run(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for block in blocks("python", (ROOT / "docs" / name).read_text()):
        exec(compile(block, name, "exec"), {})
    assert capsys.readouterr().out


def test_the_page_of_own_models_is_true(tmp_path, monkeypatch, capsys):
    """Its blocks one after the other; trainings are shortened."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    text = re.sub(r"epochs=\d+", "epochs=2", (ROOT / "docs" / "your-own-model.md").read_text())
    for block in blocks("python", text):
        exec(compile(block, "your-own-model.md", "exec"), namespace)
    assert re.search(r"\| kernel 1 \| [^|]+ ± [^|]+ \| [^|]+ \| [-+].* \[.*\] \|", capsys.readouterr().out)
    assert "random order" in (tmp_path / "comparison.html").read_text()


def test_the_tutorial_runs(tmp_path, monkeypatch, capsys, as_users_run_it):
    """Its blocks in their order; trainings are shortened."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(evidence.SHORT, "epochs", 10)
    text = (ROOT / "docs" / "your-own-graph.md").read_text()
    namespace: dict[str, object] = {}
    for language, block in re.findall(r"^```(python|sh)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL):
        if language == "python":
            exec(compile(block, "your-own-graph.md", "exec"), namespace)
        for line in block.splitlines() if language == "sh" else []:
            arguments = shlex.split(line)[1:]
            run([*arguments, *(["--runs", "2", "--epochs", "20"] if arguments[0] == "train" else [])])
    assert (tmp_path / "runs" / "pages" / "report.html").exists()
    assert (tmp_path / "labels.parquet").exists()
    assert "/page/new,sport" in (tmp_path / "new-labels.csv").read_text()
    assert namespace["later"].graph.node_names[240:] == ("/page/new",)
    assert namespace["weighted"].graph.edge_weight.max() == 700
    assert "\n['sport']\n" in capsys.readouterr().out  # the new page, in Python


COMMANDS = [line.partition("#")[0].strip() for block in blocks("sh") for line in block.splitlines()]
NEEDS_DATA = ("texas", "wisconsin", "chameleon", "settings.toml")
# What makes a command of the README short enough for a test.
SHORTER = {
    "train": ["--runs", "1", "--epochs", "2"],
    "tune": ["--settings", "2", "--search-epochs", "2"],
    "reproduce": ["--out", str(ROOT / "results")],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run(command, tmp_path, monkeypatch, request, as_users_run_it):
    monkeypatch.chdir(tmp_path)
    arguments = shlex.split(command)[1:]
    if arguments[0] != "reproduce":  # which shows verdicts of whole trainings only
        monkeypatch.setitem(evidence.SHORT, "epochs", 2)
    if arguments[0] in ("train", "tune", "diagnose") and any(name in command for name in NEEDS_DATA):
        request.getfixturevalue("data_root")
    (tmp_path / "settings.toml").write_text('graph = "texas"\nkernel_size = 3\nruns = 1\nepochs = 2\n')
    folder = next((argument for argument in arguments if argument.startswith("runs/")), None)
    if folder is not None:
        request.getfixturevalue("data_root")
        run(["train", "texas", "--model", "nlmlp", "--runs", "1", "--epochs", "2", "--out", folder])
    elif "--config" not in arguments:
        arguments += SHORTER.get(arguments[0], [])
    run(arguments)


def run(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 0


def test_table_is_what_was_measured(monkeypatch):
    monkeypatch.setattr(measured, "files_are_here", lambda dataset: dataset not in HUGE_DATASETS)  # as on most machines
    section = best_sections(framework_cells("random-60", controls=True), ROOT / "results", "random-60")[0]
    table = markdown_table(section.rows)
    assert f"<!-- nlgnn reproduce results --table -->\n{table}<!-- end of table -->" in README
