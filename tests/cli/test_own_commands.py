"""All commands on a user's own graph, in tables or in one file, as one would go through them."""

from __future__ import annotations

import csv
import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import networkx
import numpy as np
import pytest
from own_samples import TRAIN, WORDS, write, write_pages

from cli_samples import Command
from each_of import each_of
from nlgnn.cli import train as train_command
from nlgnn.selection import evidence
from nlgnn.selection.controls import Variant
from nlgnn.tables.source import OwnTables
from nlgnn.training.train import Plan

TABLES = TRAIN[1:7]
SHORT = ("--runs", 2, "--epochs", 5)


@pytest.fixture(autouse=True)
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short_portfolio: None) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(evidence.SHORT, "epochs", 2)
    write_pages()


def rows_of(path: str) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write_graphml(path: str) -> None:
    network = networkx.Graph()
    for row in rows_of("pages.csv"):
        topic = {"topic": row["topic"]} if row["topic"] else {}
        network.add_node(row["url"], length=int(row["length"]), text=row["text"], **topic)
    network.add_edges_from((row["source"], row["target"]) for row in rows_of("links.csv"))
    networkx.write_graphml(network, path)


def write_npz(path: str, **others: np.ndarray) -> None:
    adjacency = np.random.default_rng(0).random((40, 40)) < 0.1
    np.savez(path, adj_matrix=(adjacency | adjacency.T).astype(np.float32), **others)


def as_printed(command: Command, line: str, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """The first of what a printed command would train, if it were let."""
    asked: list[Plan] = []

    def take(request: train_command.Request, variants: list[Variant]) -> None:
        asked.extend(replace(request.plan, model=one.system, options=one.options) for one in variants)
        raise SystemExit

    monkeypatch.setattr(train_command, "_train_each", take)
    program, *arguments = shlex.split(line)
    assert program == "nlgnn"
    done = command(*arguments)
    assert done.code == 0, done.err
    return asked[0]


def test_what_a_diagnosis_says_is_next_can_be_run(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("my 'files'").mkdir()
    nodes, edges = (Path(name).rename(Path("my 'files'", name)) for name in ("pages.csv", "links.csv"))
    done = command("diagnose", "--nodes", nodes, "--edges", edges, "--label", "topic", "--out", "D")
    assert done.code == 0, done.err
    assert "'url' holds the ids" in done.err
    (line,) = re.findall("^Next: (.*)$", done.out, flags=re.MULTILINE)
    assert json.loads(Path("D/diagnosis.json").read_text())["next"] == line
    plan = as_printed(command, line, monkeypatch)
    assert plan.tables == OwnTables.at(nodes, edges, label="topic")


def test_the_winner_of_a_search_over_tables_can_be_run(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    done = command("tune", *TABLES, "--settings", 1, "--search-epochs", 2, "--search-splits", 1)
    assert done.code == 0, done.err
    assert "Chose" in done.out  # the model is chosen, as in training
    plan = as_printed(command, done.out.splitlines()[-2], monkeypatch)
    assert f"Chose {plan.model}: " in done.out
    assert plan.tables == OwnTables.at("pages.csv", "links.csv", label="topic")


def test_a_search_is_bound_to_what_is_in_the_tables(command: Command) -> None:
    pages = rows_of("pages.csv")
    found = []
    for order, topic in ((1, "sport"), (1, "sport"), (-1, "sport"), (1, "arts")):
        parts = [["train", "val", "test"][number % 3] for number in range(60)][::order]
        rows = [[*row.values(), part] for row, part in zip(pages, parts, strict=True)]
        rows[0][3] = topic
        write("pages.csv", [[*pages[0], "split"], *rows])
        found.append(command("tune", *TABLES, "--model", "mlp", "--settings", 1, "--search-epochs", 2))
    assert [done.code for done in found] == [0, 0, 2, 2]
    assert found[0].out.splitlines()[-2].startswith(f"nlgnn train --nodes {Path('pages.csv').absolute()} --edges ")
    assert "holds another search: splits was " in found[2].err
    assert "holds another search: fingerprint was " in found[3].err


def test_a_graphml_file_is_trained_on_resumed_and_predicted(command: Command) -> None:
    write_graphml("web.graphml")
    done = command("train", "--graph-file", "web.graphml", "--label", "topic", "--model", "nlmlp", *SHORT, "--out", "X")
    assert done.code == 0, done.err
    resumed = command("train", "--resume", "X")
    assert resumed.code == 0, resumed.err
    assert command("predict", "X", "--out", "labels.csv").code == 0
    rows = rows_of("labels.csv")
    assert [row["id"] for row in rows] == [row["url"] for row in rows_of("pages.csv") if not row["topic"]]
    assert {row["topic"] for row in rows} <= set(WORDS)
    assert WORDS["sport"] in command("explain", "X", "page 0").out  # as the file has it
    new = command("predict", "X", "--nodes", "new.csv", "--out", "l.csv")
    assert new.code == 2
    assert "was trained on one file, " in new.err


def test_arrays_are_trained_on_and_predicted(command: Command) -> None:
    y = np.arange(40) % 2
    write_npz("arrays.npz", labels=np.where(np.arange(40) < 5, -1, y), attr_matrix=np.eye(2, dtype=np.float32)[y])
    assert command("train", "--graph-file", "arrays.npz", "--model", "mlp", *SHORT, "--out", "X").code == 0
    assert command("predict", "X", "--out", "labels.csv").code == 0
    assert [row["id"] for row in rows_of("labels.csv")] == ["0", "1", "2", "3", "4"]


@each_of(
    ("arguments", "words"),
    [
        (["pages.csv"], "nlgnn train --nodes pages.csv --edges FILE --label COLUMN"),
        (["web.graphml"], "nlgnn train --graph-file web.graphml --label COLUMN"),
        (["arrays.npz"], "nlgnn train --graph-file arrays.npz\n"),
        (["nosuch.parquet"], "--nodes nosuch.parquet"),
        (["texass"], "Did you mean 'texas'?"),
        (["--graph-file", "pages.csv", "--label", "topic"], "Tables go to read_graph, or to --nodes and --edges"),
        (["--graph-file", "web.graphml"], "No label column was given"),
        (["--graph-file", "web.graphml", "--edges", "links.csv", "--label", "topic"], "Leave --edges out"),
        (["--graph-file", "web.graphml", "--id-column", "url", "--label", "topic"], "Leave --id-column out"),
        (["--graph-file", "arrays.npz", "--label", "topic"], "Leave --label out"),
        (["--graph-file", "arrays.npz"], "arrays.npz holds no labels"),
        (["--graph-file", "nosuch.npz"], "nosuch.npz does not exist"),
    ],
)
def test_mistakes_in_naming_a_graph(command: Command, arguments: Sequence[str], words: str) -> None:
    write_graphml("web.graphml")
    write_npz("arrays.npz")
    before = sorted(Path().iterdir())
    for program in ("train", "diagnose", "tune"):
        done = command(program, *arguments)
        assert (done.code, done.out) == (2, "")
        assert words.replace("nlgnn train", f"nlgnn {program}") in done.err
        assert len(done.err.splitlines()) == 2
        assert sorted(Path().iterdir()) == before


def test_a_file_that_has_moved(command: Command) -> None:
    assert command(*TRAIN, "--model", "mlp", "--out", "X").code == 0
    old, new = (Path(name).absolute() for name in ("links.csv", "moved.csv"))
    old.rename(new)
    for arguments in (["predict", "X", "--out", "l.csv"], ["train", "--resume", "X"], ["report", "X"]):
        done = command(*arguments)
        assert done.code == 2
        assert f"X was trained on {old}, which is not there any more." in done.err
        assert 'write its new place into X/config.json, under "tables"' in done.err
    config = json.loads(Path("X/config.json").read_text())
    config["tables"]["edges"] = str(new)
    Path("X/config.json").write_text(json.dumps(config))
    assert command("predict", "X", "--out", "l.csv").code == 0


@pytest.mark.parametrize(
    ("nodes", "edges", "words"),
    [
        ([["page", "length", "text"], ["new", 3, "goal"]], None, "has no column 'url'"),
        (None, [["a", "target"], ["page 1", "page 2"]], "has no column 'source'"),
    ],
)
def test_new_tables_need_the_columns_that_name_nodes(
    command: Command, nodes: list[list[object]] | None, edges: list[list[object]] | None, words: str
) -> None:
    assert command(*TRAIN, "--model", "mlp", "--out", "X").code == 0
    if nodes is not None:
        write("new.csv", nodes)
    if edges is not None:
        write("new-links.csv", edges)
    done = command("predict", "X", "--nodes", "new.csv", "--edges", "new-links.csv", "--out", "l.csv")
    assert done.code == 2
    assert words in done.err


def test_the_page_tells_what_became_of_the_table(command: Command) -> None:
    pages = rows_of("pages.csv")
    rows = [[*row.values(), list(WORDS)[number % 3][:2]] for number, row in enumerate(pages)]
    write("pages.csv", [[*pages[0], "hint"], *rows])
    assert command(*TRAIN, "--model", "nlmlp", "--out", "X").code == 0
    first = Path("X/report.html").read_text()
    told = first.index("Your table")
    for words in ("hint", "test accuracy lost", "category", "holds the ids", "3 columns became"):
        assert words in first[told:], words
    warning = "Warning: The column &#39;hint&#39; alone tells 100.0% of the labels"
    assert 0 < first.index(warning) < told  # also beside the answer
    assert f"nlgnn diagnose --nodes {Path('pages.csv').absolute()}" in first
    assert command("report", "X").code == 0
    assert "Your table" in Path("X/report.html").read_text()  # also anew


def test_reasons_name_the_columns_of_the_table(command: Command) -> None:
    assert command(*TRAIN, "--model", "nlmlp", "--out", "X").code == 0
    done = command("explain", "X", "page 3")
    assert re.search(r"^text +goal match team +0\.\d+ +[+-]0\.\d+ +\w+$", done.out, flags=re.MULTILINE)
    assert "2 of 2 columns were tried." in " ".join(done.out.split())
    found = json.loads(command("explain", "X", "page 3", "--json").out)["columns"]
    assert {effect["column"]: effect["value"] for effect in found} == {"text": "goal match team", "length": "3"}
    assert abs(found[0]["change"]) > abs(found[1]["change"])
    assert len(json.loads(command("explain", "X", "page 3", "--json", "--top", 1).out)["columns"]) == 1


def test_every_model_of_a_choice_is_tracked(command: Command) -> None:
    done = command(*TRAIN, "--out", "X", "--tensorboard")
    assert done.code == 0, done.err
    folders = [str(path) for path in Path("X/models").iterdir()]
    tracked = re.findall(r"^TensorBoard: tensorboard --logdir (.*)/tensorboard$", done.out, flags=re.MULTILINE)
    assert sorted(tracked) == sorted(folders)
    for folder in folders:
        assert len(list(Path(folder, "tensorboard/run-00").iterdir())) == 1
        model = json.loads(Path(folder, "config.json").read_text())["model"]
        assert model.encode() in next(Path(folder, "tensorboard/run-00").iterdir()).read_bytes()
