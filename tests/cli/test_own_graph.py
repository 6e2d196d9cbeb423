"""A user's own graph: two tables in, a run folder, labels and probabilities out; also of nodes never seen."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from own_samples import TRAIN, WORDS, write, write_pages

from cli_samples import Command, refused
from nlgnn.selection import evidence


@pytest.fixture(autouse=True)
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short_portfolio: None) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(evidence.SHORT, "epochs", 2)
    write_pages()


def test_two_tables_in_labels_out(command: Command) -> None:
    done = command(*TRAIN, "--out", "X")  # the model is chosen
    assert done.code == 0, done.err
    for words in ("Leaderboard by accuracy", "Chose", "run folder: X", "report: X/report.html", "protocol random-60"):
        assert words in done.out
    for words in ("'url' holds the ids", "edges go from 'source' to 'target'", "42 of 60 nodes have one"):
        assert words in done.err
    done = command("predict", "X", "--out", "labels.parquet")
    assert (done.code, done.out) == (0, f"18 nodes, mean of 2 runs of {model_of('X')}, calibrated: labels.parquet\n")
    refused(command("predict", "X", "--out", "labels.parquet"), "labels.parquet exists already", "--force")
    again = command("predict", "X", "--out", "labels.parquet", "--force")
    assert again.out.endswith("calibrated: labels.parquet (replaced)\n")
    table = pq.read_table("labels.parquet").to_pydict()
    assert set(table["url"]) == {f"page {number}" for number in range(60) if number % 9 >= 6}
    assert not any(table["was labelled"])
    probabilities = np.array([table[f"probability of {name}"] for name in sorted(WORDS)])
    np.testing.assert_allclose(probabilities.sum(0), 1, atol=1e-6)
    assert table["topic"] == [sorted(WORDS)[place] for place in probabilities.argmax(0)]
    np.testing.assert_allclose(table["confidence"], probabilities.max(0))
    every = command("predict", "X", "--all", "--out", "all.csv")
    assert every.out.startswith("60 nodes")


def test_columns_are_chosen_and_listed(command: Command) -> None:
    """The choice of columns is part of the plan: everything that reads the tables again makes the same features."""
    with open("pages.csv", newline="") as file:
        header, *rows = list(csv.reader(file))
    rows = [[*row, f"{row[3]}!", f"{1000 + number % 7},5 €", number % 4] for number, row in enumerate(rows)]
    write("pages.csv", [[*header, "told by topic", "price", "code"], *rows])
    one = ("--model", "nlmlp", "--out", "X")
    done = command(*TRAIN, *one, "--drop-leaks", "--kind", "code=category", "--drop", "length")
    assert done.code == 0, done.err
    for words in (
        r"^url +ids",
        r"^length +dropped",
        r"^text +– .*left out: it tells the label",
        r"^told by topic +– .*left out: it tells the label",
        r"^price +number +1 .*decimal commas",
        r"^code +category +5",
    ):
        assert re.search(words, done.err, re.MULTILINE), words
    tables = json.loads(Path("X/config.json").read_text())["tables"]
    assert (tables["drop"], tables["kind"], tables["drop_leaks"]) == (["length"], {"code": "category"}, True)
    assert command("train", "--resume", "X").code == 0
    assert command("explain", "X", "page 3").code == 0
    assert command("report", "X").code == 0
    header = ["url", "text", "told by topic", "price", "code"]
    write("new.csv", [header, ["new", WORDS["arts"], "", "$1,000.50", 9]])
    done = command("predict", "X", "--nodes", "new.csv", "--out", "new.parquet")
    assert (done.code, pq.read_table("new.parquet").to_pydict()["url"]) == (0, ["new"]), done.err
    Path("plan.toml").write_text('drop-leaks = true\ndrop = "length"\nkind = { code = "category" }\n')
    assert command(*TRAIN, "--model", "nlmlp", "--config", "plan.toml", "--out", "Y").code == 0
    configs = [json.loads(Path(folder, "config.json").read_text()) for folder in "XY"]
    assert configs[0]["fingerprint"] == configs[1]["fingerprint"]
    assert configs[0]["tables"] == configs[1]["tables"]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--drop", "lenght"], "Did you mean 'length'?"),
        (["--keep", "lenght"], "Did you mean 'length'?"),
        (["--kind", "length=numbr"], "Did you mean 'number'?"),
        (["--kind", "length"], "--kind length names no kind"),
        (["--drop", "topic"], "'topic' holds the labels"),
    ],
)
def test_mistakes_in_choosing_columns(command: Command, flags: list[str], words: str) -> None:
    done = command(*TRAIN, *flags, "--out", "X")
    assert done.code == 2
    assert words in done.err
    assert not Path("X").exists()


def test_a_wrong_choice_in_a_file(command: Command) -> None:
    Path("plan.toml").write_text("drop = 3\n")
    done = command(*TRAIN, "--config", "plan.toml", "--out", "X")
    assert done.code == 2
    assert "plan.toml: drop = 3 is of the wrong type" in done.err


def test_of_many_columns_some_are_listed(command: Command) -> None:
    with open("pages.csv", newline="") as file:
        header, *rows = list(csv.reader(file))
    rows = [[*row, *(f"{(number * place) % 7}.5" for place in range(50))] for number, row in enumerate(rows)]
    write("pages.csv", [[*header, *(f"x{place}" for place in range(50))], *rows])
    done = command(*TRAIN, "--model", "mlp", "--out", "X")
    assert done.code == 0, done.err
    listed = done.err.partition("\ncolumn ")[2].splitlines()
    assert len(listed) < 35
    assert re.search(r"^… and 24 more columns: 24 number", done.err, re.MULTILINE)
    assert "x0 " in done.err  # it has one value, which is a remark


def model_of(folder: str) -> str:
    """The model that was chosen."""
    model: str = json.loads(Path(folder, "choice.json").read_text())["model"]
    return model


def test_nodes_never_seen(command: Command) -> None:
    assert command(*TRAIN, "--model", "nlmlp", "--epochs", 60, "--out", "X").code == 0
    done = command("predict", "X", "--nodes", "new.csv", "--edges", "new-links.csv", "--out", "new-labels.csv")
    assert done.code == 0, done.err
    with open("new-labels.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["url"] for row in rows] == ["'=cmd()", "new"]  # what a spreadsheet would take for a formula is quoted
    assert [row["topic"] for row in rows] == ["law", "arts"]


def test_new_nodes_are_told_from_old_ones_that_only_edges_name(command: Command) -> None:
    with open("links.csv", "a") as file:
        file.write("page 1,ghost\n")
    assert command(*TRAIN, "--model", "mlp", "--unknown-nodes", "add", "--out", "X").code == 0
    done = command("predict", "X", "--nodes", "new.csv", "--out", "new.parquet")
    assert done.code == 0, done.err
    assert pq.read_table("new.parquet").to_pydict()["url"] == ["=cmd()", "new"]


def test_other_splits_than_those_of_training_are_noticed(command: Command) -> None:
    with open("pages.csv", newline="") as file:
        header, *rows = list(csv.reader(file))
    parts = [["train", "val", "test"][number % 3] for number in range(60)]
    write("pages.csv", [[*header, "split"], *([*row, part] for row, part in zip(rows, parts, strict=True))])
    assert command(*TRAIN, "--model", "mlp", "--out", "X").code == 0
    write("pages.csv", [[*header, "split"], *([*row, part] for row, part in zip(rows, parts[::-1], strict=True))])
    done = command("report", "X")
    assert done.code == 2
    assert "holds another training" in done.err


def test_models_that_know_nodes_by_number_refuse_new_ones(command: Command) -> None:
    assert command(*TRAIN, "--model", "linkx", "--out", "X").code == 0
    done = command("predict", "X", "--nodes", "new.csv", "--edges", "new-links.csv", "--out", "new-labels.csv")
    assert done.code == 2
    assert "linkx knows nodes by their number" in done.err
    assert not Path("new-labels.csv").exists()


def test_a_training_on_tables_is_taken_up_again(command: Command) -> None:
    assert command(*TRAIN, "--model", "nlmlp", "--out", "X").code == 0
    done = command("train", "--resume", "X", "--controls")
    assert done.code == 0, done.err
    assert "nlmlp, random order" in done.out
    assert command("explain", "X", "page 3").code == 0
    Path("pages.csv").write_text(Path("pages.csv").read_text().replace(",sport", ",arts", 1))
    changed = command("report", "X")
    assert changed.code == 2
    assert "was trained on another version of 'pages'" in changed.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["texas", *TRAIN[1:]], "Both the graph 'texas' and tables are given"),
        (["--label", "topic"], "--label is given without tables"),
        (["--nodes", "nosuch.csv", "--label", "topic"], "nosuch.csv"),
        (["--nodes", "pages.csv", "--edges", "links.csv"], "No label column was given"),
        (["--nodes", "pages.csv", "--label", "topics"], "Did you mean 'topic'?"),
        (["--nodes", "pages.csv", "--edges", "new-links.csv", "--label", "topic"], "'new'"),
    ],
)
def test_mistakes_leave_nothing_behind(command: Command, arguments: list[object], words: str) -> None:
    before = sorted(Path().iterdir())
    done = command("train", *arguments)
    assert done.code == 2
    assert words in done.err
    assert "Traceback" not in done.err
    assert sorted(Path().iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--out", "labels.xls"], "its ending is unknown"),
        (["--out", "nosuch/labels.csv"], "there is no folder nosuch"),
        (["--all", "--nodes", "new.csv", "--out", "l.csv"], "--all is for the graph of the training"),
        (["--nodes", "pages.csv", "--out", "l.csv"], "'page 0'"),
        (["--nodes", "short.csv", "--out", "l.csv"], "short.csv lacks the column 'text'"),
    ],
)
def test_mistakes_in_predicting(command: Command, arguments: list[object], words: str) -> None:
    assert command(*TRAIN, "--model", "mlp", "--out", "X").code == 0
    write("short.csv", [["url", "length", "words"], ["new", 3, "a new name for the text"]])
    done = command("predict", "X", *arguments)
    assert done.code == 2
    assert words in done.err


def test_a_graph_whose_nodes_all_have_labels(command: Command) -> None:
    assert command("train", "mushroom-body", "--model", "mlp", "--runs", 1, "--epochs", 2, "--out", "X").code == 0
    done = command("predict", "X", "--out", "l.csv")
    assert done.code == 2
    assert "Use --all" in done.err
    new = command("predict", "X", "--nodes", "new.csv", "--out", "l.csv")
    assert "trained on the named graph 'mushroom-body-left'" in new.err


def test_tables_named_like_a_known_graph_get_none_of_its_settings(command: Command) -> None:
    Path("pages.csv").rename("texas.csv")
    assert (
        command(
            "train",
            "--nodes",
            "texas.csv",
            "--label",
            "topic",
            "--model",
            "mlp",
            "--runs",
            1,
            "--epochs",
            2,
            "--out",
            "X",
        ).code
        == 0
    )
    config = json.loads(Path("X", "config.json").read_text())
    assert (config["graph"], config["preset"]) == ("own-texas", "robust")
