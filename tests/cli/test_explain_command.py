"""`nlgnn explain`: what it prints of a run folder's node, and what it refuses."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from cli_samples import Command
from nlgnn.cli import main as cli
from nlgnn.datasets import load_graph
from nlgnn.training.train import Plan, train

TRAIN = ("train", "mushroom-body", "--runs", 2, "--epochs", 3, "--out", "X")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder."""
    path = tmp_path_factory.mktemp("explain") / "X"
    graph = load_graph("mushroom-body")
    train(Plan(graph.name, "nlgcn", runs=2, options={"epochs": 3}), graph, path, progress=False)
    return path


@pytest.fixture
def folder(trained: Path, command: Command) -> str:
    """A copy of it where commands are run."""
    shutil.copytree(trained, "X")
    return "X"


def test_node_window_and_neighbours(command: Command, folder: str) -> None:
    done = command("explain", folder, 3)
    assert (done.code, done.err) == (0, "")
    words = " ".join(done.out.split())
    for part in (
        "Node 3 of mushroom-body-left what value label Kenyon prediction ",
        "nlgcn, epochs=3, run 0 on split 0 of protocol random-60; weights of the first epoch with the best validation",
        "offset node label prediction predicted: ",
        "local part",
        "sum = logit",
        "ReLU gates, scores and order fixed",
        "are not causes",
        "50 of 116 neighbours were removed",
        "Contributions to the probability of",
        "non-local part",
    ):
        assert part in words
    lines = [re.split(r" {2,}", line.strip()) for line in done.out.splitlines()]
    start = next(number for number, line in enumerate(lines) if line[0] == "offset")
    end = next(number for number, line in enumerate(lines) if line[0] == "sum = logit")
    figures = np.array([[float(cell) for cell in line[-2:]] for line in lines[start + 1 : end + 1]])
    np.testing.assert_allclose(figures[:-1].sum(0), figures[-1], atol=0.01)


def test_another_run_and_fewer_neighbours(command: Command, folder: str) -> None:
    done = command("explain", folder, 3, "--run", 1, "--top", 2)
    words = " ".join(done.out.split())
    assert "run 1 on split 1 of" in words
    table = words.partition("Neighbours that contribute most node label prediction contribution ")[2]
    assert len(re.findall(r" [+-]0\.\d{3}", table.partition(" The probability of")[0])) == 2


def test_json(command: Command, folder: str) -> None:
    done = command("explain", folder, 3, "--json", "--top", 2)
    assert (done.code, done.err) == (0, "")
    read = json.loads(done.out)
    assert (read["node"], read["label"], read["num_neighbours"], len(read["neighbours"])) == (3, "Kenyon", 116, 2)
    parts = [read["own"], read["bias"], *(row["contributions"] for row in read["window"])]
    np.testing.assert_allclose(np.sum(parts, axis=0), read["logits"], atol=1e-5)


def test_several_nodes_are_a_table(command: Command, folder: str) -> None:
    done = command("explain", folder, 3, 70, "--top", 2, "--class", "Kenyon", "--json")
    first, second = json.loads(done.out)
    assert (first["node"], second["node"]) == (3, 70)
    assert len(first["neighbours"]) == 2
    shown = command("explain", folder, 3, 70, "--top", 2, "--class", "Kenyon").out
    assert f"{first['probability']:.3f}" in shown
    assert f"{second['parts']['own columns']:+.3f}" in shown


def test_reasons_of_all_nodes_as_a_file(command: Command) -> None:
    Path("nodes.csv").write_text(
        "id,size,kind\n" + "".join(f"n{i},{i % 2 + i / 20},{'ab'[i % 2]}\n" for i in range(20))
    )
    Path("edges.csv").write_text("from,to\n" + "".join(f"n{i},n{(i * i + 1) % 19}\n" for i in range(19)))
    tables = ("--nodes", "nodes.csv", "--edges", "edges.csv", "--label", "kind")
    assert command("train", *tables, "--model", "logistic", "--runs", 1, "--out", "X").code == 0
    done = command("explain", "X", "--all", "--top", 2, "--class", "b", "--out", "reasons.csv")
    assert (done.code, done.out) == (0, "reasons of 20 nodes: reasons.csv\n")
    lines = Path("reasons.csv").read_text().splitlines()
    assert len(lines) == 21
    found = dict(zip(lines[0].split(","), lines[4].split(","), strict=True))
    assert (found["node"], found["explained class"]) == ("n3", "b")
    one = json.loads(command("explain", "X", "n3", "--json", "--class", "b").out)["reasons"]
    for part, value in one["parts"].items():
        assert float(found[part]) == pytest.approx(value, abs=1e-5)
    first = one["neighbours"][0]
    assert (found["neighbour 1"], float(found["contribution of neighbour 1"])) == (
        first["name"],
        pytest.approx(first["contribution"], abs=1e-5),
    )
    assert "exists already" in command("explain", "X", "n3", "--out", "reasons.csv").err
    assert command("explain", "X", "n3", "n4", "--out", "reasons.csv", "--force").code == 0
    assert len(Path("reasons.csv").read_text().splitlines()) == 3


def test_narrow_terminals_cut_no_figure(command: Command, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = command("explain", folder, 3).out
    monkeypatch.setattr(cli.console, "width", 80)
    narrow = command("explain", folder, 3).out
    assert max(map(len, narrow.splitlines())) <= 80
    figures = r"[+-]\d\.\d{3}"
    assert re.findall(figures, narrow) == re.findall(figures, wide)


def test_a_model_that_sorts_nothing(command: Command) -> None:
    command(*TRAIN, "--model", "gcn")
    done = command("explain", "X", 3)
    assert done.code == 0
    assert "Neighbours that contribute most" in done.out
    assert "non-local part" not in done.out.partition("minus its")[0]
    assert "offset" not in done.out


@pytest.mark.parametrize(
    ("arguments", "what", "how"),
    [
        (("nowhere", 3), "There is no folder nowhere", "that a training made"),
        (("X", 209), "no node '209'", "numbered 0 to 208"),
        (("X", "Kenyon"), "no node 'Kenyon'", "numbered 0 to 208"),
        (("X", 3, "--run", 2), "no finished run 2", "It has: 0, 1"),
        (("X", 3, "--run", -1), "--run -1 is negative", "0 or more"),
        (("X", 3, "--top", -1), "--top -1 is negative", "0 or more"),
        (("X",), "No node was given", "or --all"),
        (("X", 3, "--all"), "exclude each other", "or --all"),
        (("X", 3, 209), "no node '209'", "numbered 0 to 208"),
        (("X", 3, "--class", "kenyon"), "no class 'kenyon'", "Kenyon"),
        (("X", 3, "--out", "reasons.txt"), "ending is unknown", ".csv"),
    ],
)
def test_bad_input(command: Command, folder: str, arguments: tuple[object, ...], what: str, how: str) -> None:
    done = command("explain", *arguments)
    assert (done.code, done.out) == (2, "")
    first, second = done.err.splitlines()
    assert what in first
    assert how in second


@pytest.mark.parametrize("arguments", [("X", "-3"), ("X", 3, "--run", "first")])
def test_what_the_parser_refuses(command: Command, folder: str, arguments: tuple[object, ...]) -> None:
    done = command("explain", *arguments)
    assert (done.code, done.out) == (2, "")
    assert "Traceback" not in done.err


def test_folders_that_cannot_be_explained(command: Command, folder: str) -> None:
    shutil.copytree("X", "unfinished")
    Path("unfinished/summary.json").unlink()
    assert "holds no finished run" in command("explain", "unfinished", 3).err
    config = json.loads(Path("X/config.json").read_text())
    Path("X/config.json").write_text(json.dumps(config | {"fingerprint": "another"}))
    assert "another version of 'mushroom-body-left'" in command("explain", "X", 3).err
    Path("X/config.json").write_text(json.dumps(config))
    Path("X/models/00.safetensors").write_bytes(b"nothing")
    done = command("explain", "X", 3)
    assert (done.code, done.out) == (2, "")
    assert "00.safetensors is damaged" in done.err
