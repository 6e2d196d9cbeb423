"""The page of a training: its parts, what it says was run, and that its command is one."""

from __future__ import annotations

import shlex
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_samples import easy_graph, trained_on

import nlgnn
from each_of import each_of
from nlgnn.cli import train as train_command
from nlgnn.cli.main import main
from nlgnn.errors import OptionError
from nlgnn.graph.splits import make_splits
from nlgnn.nn import GAT
from nlgnn.report.figures.order import order_parts
from nlgnn.report.page import Command, Figure, Headline, NodeList, Part, caption
from nlgnn.report.run_page import (
    make_answer,
    repeat_command,
    run_parts,
    settings_parts,
    verdict_words,
    write_run_page,
)
from nlgnn.report.table import Section
from nlgnn.training.replica import Run
from nlgnn.training.train import Plan, Trained

GRAPH = easy_graph()


def titles(parts: list[Part]) -> list[str]:
    return [part.title for part in parts if not isinstance(part, Headline)]


def failed(trained: Trained) -> Trained:
    """Its first run failed."""
    first = trained.runs[0]
    run = Run(first.index, first.seed, first.protocol, first.split, failure="run 0: the loss was nan in epoch 2")
    return replace(trained, runs=[run, *trained.runs[1:]])


def test_parts_come_in_the_order_that_they_are_asked_for(trained: Trained) -> None:
    parts = run_parts(trained, GRAPH, {"gcn": trained})
    assert isinstance(parts[0], Headline)
    found = titles(parts)
    wanted = [
        "Compared with baselines",
        "Sorted sequence",
        "Label agreement along the order",
        "Training curves: loss",
        "Training curves: validation accuracy",
        "Confusion matrix",
        "Calibration",
        "Accuracy by class",
        "Accuracy by number of neighbours",
        "Accuracy by agreement of neighbours",
        "Embedding in two dimensions",
        "Edges between classes",
        "Graph easy",
        "Homophily",
        "Settings",
        "Repeat the training",
    ]
    assert [title for title in found if title in wanted] == wanted


def test_every_chart_is_valid(trained: Trained) -> None:
    """The page leaves it out, which saves seconds."""
    parts = run_parts(trained, GRAPH, {"gcn": trained})
    figures = [part.strips if isinstance(part, NodeList) else part for part in parts]
    charts = [part.chart for part in figures if isinstance(part, Figure)]
    assert len(charts) == 12
    for chart in charts:
        chart.to_dict()


def test_local_models_have_no_order(tmp_path: Path) -> None:
    local = trained_on(GRAPH, tmp_path / "run", "gcn")
    splits = make_splits(GRAPH, "random-60", 2)
    assert order_parts(local, GRAPH, local.runs, local.runs[0], splits[0], np.ones((60, 3)) / 3) == []
    found = titles(run_parts(local, GRAPH, {}))
    assert "Sorted sequence" not in found
    assert "Embedding in two dimensions" in found


def test_a_run_can_be_chosen(trained: Trained) -> None:
    with pytest.raises(OptionError, match=r"no finished run 7"):
        run_parts(trained, GRAPH, {}, 7)
    found = next(part for part in run_parts(trained, GRAPH, {}, 1) if isinstance(part, NodeList))
    assert "the epoch that run 1 chose" in found.strips.caption


def test_the_first_run_that_did_not_fail_is_looked_into(trained: Trained) -> None:
    parts = run_parts(failed(trained), GRAPH, {})
    found = next(part for part in parts if isinstance(part, NodeList))
    assert "the epoch that run 1 chose" in found.strips.caption
    headline = parts[0]
    assert isinstance(headline, Headline)
    assert "mean of 1 run," in headline.what
    words = next(part.text for part in parts if isinstance(part, Section) and part.title == "Settings")
    assert words == "Left out of the figures: run 0: the loss was nan in epoch 2."


@each_of(("knows", "figure"), [(True, "%"), (False, "Not clearly better than a constant answer")])
def test_a_single_run_has_no_interval_but_is_compared_on_its_nodes(tmp_path: Path, knows: bool, figure: str) -> None:
    y = np.random.default_rng(5).permutation(np.arange(300) % 3)  # features do not tell these labels
    graph = easy_graph(300) if knows else easy_graph(300, y=y)
    headline = run_parts(trained_on(graph, tmp_path / "run", "mlp", runs=1), graph, {})[0]
    assert isinstance(headline, Headline)
    assert headline.figure.endswith(figure)
    assert caption("single-run") in headline.sentences


def test_answer_is_paired_over_runs(trained: Trained) -> None:
    splits = make_splits(GRAPH, "random-60", 2)
    other = failed(trained)
    answer = make_answer(trained, GRAPH, splits, {"other": other})
    assert answer.part == "test"
    own = [run.test["accuracy"] for run in trained.runs]
    assert answer.figures["majority class"] == pytest.approx([100 / 3, 100 / 3])
    assert {**answer.figures, "majority class": []} == {"nlmlp": own, "majority class": [], "other": [None, own[1]]}


def test_without_test_labels_validation_is_shown(tmp_path: Path) -> None:
    splits = [replace_test(split) for split in make_splits(GRAPH, "random-60", 2)]
    graph = replace(GRAPH, splits={"column": tuple(splits)})
    blind = trained_on(graph, tmp_path / "run", protocol="column")
    parts = run_parts(blind, graph, {})
    headline = parts[0]
    assert isinstance(headline, Headline)
    assert headline.what.startswith("validation accuracy of nlmlp")
    assert headline.sentences[0].startswith("No test node has a label")
    assert "Confusion matrix" not in titles(parts)


def replace_test(split: nlgnn.Split) -> nlgnn.Split:
    return nlgnn.Split(split.train, split.val, np.zeros_like(split.test), "column", split.index)


def test_the_verdict_is_told(trained: Trained) -> None:
    assert verdict_words(trained).startswith("Trained without a diagnosis. nlgnn diagnose easy ")
    assert verdict_words(replace(trained, reason="Chose nlmlp. Neighbours help.")) == "Chose nlmlp. Neighbours help."


def test_every_setting_is_told(trained: Trained) -> None:
    section, again = settings_parts(trained, GRAPH)
    assert isinstance(section, Section)
    told = {row["setting"]: row["value"] for row in section.rows}
    config = trained.folder.config
    for name, value in (config["recipe"] | config["model_arguments"]).items():
        assert told[name] == str(value)
    assert told["graph"] == f"easy, fingerprint {GRAPH.fingerprint}"
    assert (told["protocol"], told["seeds"]) == ("random-60, 2 runs", "0, 1")
    assert "torch" in told["versions"]
    assert told["date"] == config["date"]
    assert told["machine"].startswith(config["machine"]["processor"])
    assert isinstance(again, Command)


def test_a_model_that_looks_at_no_weights(trained: Trained) -> None:
    weighted = replace(GRAPH, edge_weight=np.ones(GRAPH.edge_index.shape[1]))

    def told(model: Trained) -> str | None:
        section = settings_parts(model, weighted)[0]
        assert isinstance(section, Section)
        return next((row["value"] for row in section.rows if row["setting"] == "edge weights"), None)

    assert told(trained) is None
    assert told(replace(trained, factory=partial(GAT, 4, 4, 3))) == "not used"


OPTIONS = [
    {},
    {"hidden": 8, "dropout": 0.25, "kernel_size": 3, "stopping": "never", "threads": "auto", "device": "cpu"},
    {"order": "random", "weight_decay": 1e-06, "memory": "8GiB", "threads": 2},
    {"score_bias": True, "multiply_score": False},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_command_trains_the_same_again(
    options: dict[str, Any], trained: Trained, monkeypatch: pytest.MonkeyPatch, as_users_run_it: None, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    plan = Plan("mushroom-body-left", "nlgcn", "random-10", 3, None, options)
    asked: list[Plan] = []

    def take(request: train_command.Request, *_: object) -> None:
        asked.append(request.plan)
        raise SystemExit

    monkeypatch.setattr(train_command, "_train_each", take)
    program, *arguments = shlex.split(repeat_command(replace(trained, plan=plan)))
    assert program == "nlgnn"
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code in (0, None)
    assert [replace(plan, preset="paper")] == [replace(one, options=_parsed(one.options, options)) for one in asked]


def _parsed(found: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """Mixtures of types are text on the command line, and checked later."""
    return {name: type(wanted[name])(value) for name, value in found.items()}


def test_the_line_for_a_graph_of_ones_own_trains_the_same_again(trained: Trained) -> None:
    namespace: dict[str, Any] = {"nlgnn": nlgnn, "graph": GRAPH}
    exec(repeat_command(trained), namespace)
    assert [run.test for run in namespace["runs"]] == [run.test for run in trained.runs]


def test_written(trained: Trained, tmp_path: Path) -> None:
    write_run_page(tmp_path / "report.html", trained, GRAPH, {})
    text = (tmp_path / "report.html").read_text()
    assert text.startswith("<!doctype html>")
    assert "<title>nlmlp on easy</title>" in text
    assert len(text) < 1_200_000
