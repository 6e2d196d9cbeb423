"""Models without gradient training on the command line, from training on tables to new nodes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from own_samples import write_pages

from cli_samples import Command
from each_of import each_of
from nlgnn.report.run_page import run_parts
from nlgnn.report.table import Section
from nlgnn.training.train import read_trained

TRAIN = ("train", "--nodes", "pages.csv", "--edges", "links.csv", "--label", "topic", "--runs", 2, "--out", "X")
MODELS = {
    "logistic": ("--neighbours", "undirected"),
    "trees": ("--rounds", 5, "--min-leaf", 2),
    "forest": ("--trees", 5),
    "kernel": ("--descriptions", "features+means"),
}


@pytest.mark.parametrize("model", MODELS)
def test_from_tables_to_new_nodes(command: Command, model: str) -> None:
    write_pages()
    done = command(*TRAIN, "--model", model, *MODELS[model])
    assert done.code == 0, done.err
    assert "epochs" not in done.out
    done = command("predict", "X", "--out", "all.csv", "--all")
    assert done.code == 0, done.err
    trained, graph = read_trained(Path("X"))
    shares = pl.read_csv("all.csv").select(f"probability of {name}" for name in graph.class_names).to_numpy()
    np.testing.assert_allclose(shares.sum(1), 1, atol=1e-6)
    assert trained.probabilities(graph).shape == (2, graph.num_nodes, graph.num_classes)
    done = command("predict", "X", "--nodes", "new.csv", "--edges", "new-links.csv", "--out", "new-labels.csv")
    assert done.code == 0, done.err
    assert len(pl.read_csv("new-labels.csv")) == 2


def test_new_nodes_of_a_model_that_knows_nodes_by_their_number(command: Command) -> None:
    write_pages()
    assert command(*TRAIN, "--model", "trees", "--rounds", 5, "--labels").code == 0
    done = command("predict", "X", "--nodes", "new.csv", "--out", "labels.csv")
    assert done.code == 2
    assert "trees reads the labels of training nodes" in done.err
    assert "Train it without labels as columns" in done.err


@pytest.fixture
def trained_pages(command: Command) -> Command:
    write_pages()
    assert command(*TRAIN, "--model", "logistic", "--neighbours", "undirected").code == 0
    return command


def test_explain_tells_the_node_from_its_neighbours(trained_pages: Command) -> None:
    found = json.loads(trained_pages("explain", "X", "page 3", "--json", "--top", 3).out)
    groups, columns = found["by_column"]["groups"], found["by_column"]["columns"]
    assert groups.keys() == {"own columns", "neighbours' columns"}
    logits = np.array([found["by_column"]["expected"], *groups.values()]).sum(0)
    np.testing.assert_allclose(np.exp(logits) / np.exp(logits).sum(), found["probabilities"], rtol=1e-9)
    assert len(columns) == 3
    text = trained_pages("explain", "X", "page 3").out
    assert text.index("own columns") < text.index("Columns that contribute most")
    assert "mean of `length` over neighbours" in trained_pages("explain", "X", "page 3", "--top", 1000).out


def test_explain_says_that_no_edge_was_read(trained_pages: Command) -> None:
    assert trained_pages("train", *TRAIN[1:-1], "Y", "--model", "logistic", "--neighbours", "none").code == 0
    shown = {run: " ".join(trained_pages("explain", run, "page 3").out.split()) for run in ("X", "Y")}
    assert "reads no edges" in shown["Y"]
    assert "reads no edges" not in shown["X"]


def test_explain_a_model_without_contributions(command: Command) -> None:
    write_pages()
    assert command(*TRAIN, "--model", "forest", "--trees", 3).code == 0
    done = command("explain", "X", "page 3")
    assert done.code == 0, done.err
    assert "own columns" in done.out
    assert "does not tell" not in done.out


def test_the_page_has_neither_curves_nor_an_embedding(trained_pages: Command) -> None:
    trained, graph = read_trained(Path("X"))
    parts = run_parts(trained, graph, {})
    titles = [getattr(part, "title", "") for part in parts]
    assert "Confusion matrix" in titles
    assert not [title for title in titles if title.startswith(("Training curves", "Embedding"))]
    (settings,) = [part for part in parts if isinstance(part, Section) and part.title == "Settings"]
    assert not {"epochs", "lr", "epochs trained"} & {row["setting"] for row in settings.rows}
    assert trained_pages("report", "X").code == 0


def test_compared_with_a_model_that_has_epochs(trained_pages: Command) -> None:
    assert trained_pages(*TRAIN[:-1], "Y", "--model", "mlp", "--epochs", 3).code == 0
    done = trained_pages("report", "X", "Y", "--out", "both.html")
    assert done.code == 0, done.err


def test_export_is_refused(trained_pages: Command) -> None:
    pytest.importorskip("onnxruntime")
    done = trained_pages("export", "X", "model.onnx")
    assert done.code == 2
    assert "Logistic cannot be exported" in done.err


@each_of(
    ("flags", "message"),
    [
        (("--epochs", 3), "logistic has no option 'epochs'"),
        (("--hidden", 3), "logistic has no option 'hidden'"),
        (("--neighbours", "some"), "neighbours"),
        (("--strength", 0), "strength=0"),
        (("--rounds", 3), "logistic has no option 'rounds'"),
    ],
)
def test_bad_options(command: Command, flags: tuple[object, ...], message: str) -> None:
    done = command("train", "mushroom-body", "--model", "logistic", *flags)
    assert done.code == 2
    assert message in done.err
    assert not Path("runs").exists()


def test_controls(command: Command) -> None:
    done = command("train", "mushroom-body", "--model", "logistic", "--runs", 1, "--controls", "--out", "X")
    assert done.code == 0
    assert "no controls" in done.err


def test_models_and_tune(command: Command) -> None:
    assert "logistic" in command("models").out
    assert "--neighbours" in command("models", "logistic").out
    done = command("tune", "mushroom-body", "--model", "logistic", "--search-splits", 1, "--study", "s.db")
    assert done.code == 0, done.err
    assert "epochs" not in done.out


def test_what_a_model_chose_is_shown_and_kept(command: Command) -> None:
    write_pages()
    chosen = {"logistic": "strength", "trees": "rounds", "kernel": "ridge"}
    for model, name in chosen.items():
        done = command(*TRAIN[:-1], model, "--model", model, *MODELS[model])
        assert done.code == 0, done.err
        assert f"{name} " in done.out.partition("Chosen by validation: ")[2]
        trained, graph = read_trained(Path(model))
        assert all(run.choices[name] > 0 for run in trained.runs)
        (settings,) = [part for part in run_parts(trained, graph, {}) if getattr(part, "title", "") == "Settings"]
        assert isinstance(settings, Section)
        assert f"{name}, chosen by validation" in {row["setting"] for row in settings.rows}
    assert command(*TRAIN, "--model", "forest", "--trees", 3).code == 0
    assert read_trained(Path("X"))[0].runs[0].choices == {}


def test_categories_are_explained_by_their_values(trained_pages: Command) -> None:
    names = {
        column["column"]
        for column in json.loads(trained_pages("explain", "X", "page 3", "--json", "--top", 500).out)["by_column"][
            "columns"
        ]
    }
    assert not [name for name in names if "part" in name]
    assert [name for name in names if " = " in name and "over neighbours" in name]
