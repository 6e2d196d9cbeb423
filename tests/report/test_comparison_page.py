"""The comparison of several run folders: which may be compared, their names, their order and their settings."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
from report_samples import COMPARED as GRAPH

from nlgnn.datasets import load_graph
from nlgnn.errors import OptionError
from nlgnn.report.comparison_page import (
    common_metric,
    comparison_parts,
    differing_settings,
    on_common_runs,
    why_not_paired,
    with_names,
    write_comparison,
)
from nlgnn.report.page import Command, Figure, Headline
from nlgnn.report.table import Section
from nlgnn.tables.source import OwnTables
from nlgnn.training.recipe import metric_heading
from nlgnn.training.replica import Run
from nlgnn.training.train import Trained, read_trained


def read(*paths: Path) -> list[Trained]:
    return [read_trained(path)[0] for path in paths]


def test_other_metrics_settings_and_directions_are_compared(folder: Path, tmp_path: Path) -> None:
    """By the metric of the first, or the one that is given; the best by validation comes first."""
    paths = [folder / "run", folder / "run-gcn-f1", folder / "run-wide"]
    found = [read_trained(path) for path in paths]
    turned = replace(found[1][1], directed=not found[1][1].directed)
    assert why_not_paired(found[0], (found[1][0], turned)) is None
    trained = with_names([one for one, _ in found])
    graphs = dict(zip(trained, [found[0][1], turned, found[2][1]], strict=True))
    for metric in ("accuracy", "log-loss"):
        parts = comparison_parts(trained, graphs, metric)
        section = parts[2]
        assert isinstance(section, Section)
        means = [fmean(run.val[metric] for run in trained[row["model"]].runs) for row in section.rows[:3]]
        assert means == sorted(means, reverse=True)
        assert [float(row[f"validation {metric_heading(metric)}"].split()[0]) for row in section.rows[:3]] == [
            pytest.approx(mean, abs=0.06) for mean in means
        ]
    (settings,) = (part for part in parts if isinstance(part, Section) and part.title == "Different settings")
    rows = {row["setting"]: row for row in settings.rows}
    assert rows["metric"]["gcn"] == "macro-f1"
    assert rows["direction of edges"]["gcn"] == ("directed" if turned.directed else "undirected")
    write_comparison(tmp_path / "report.html", paths, "macro-f1")
    assert "macro-f1" in (tmp_path / "report.html").read_text()


def test_runs_that_failed_somewhere_are_left_out(folder: Path) -> None:
    trained = with_names(read(folder / "run", folder / "run-gcn"))
    first = trained["gcn"].runs[0]
    failed = Run(first.index, first.seed, first.protocol, first.split, failure="run 0: the loss was nan")
    trained["gcn"] = trained["gcn"].with_runs([failed, *trained["gcn"].runs[1:]])
    assert [[run.index for run in one.runs] for one in on_common_runs(trained).values()] == [[1], [1]]
    trained["gcn"] = trained["gcn"].with_runs([failed])
    with pytest.raises(OptionError, match="No run succeeded in all"):
        on_common_runs(trained)


def test_the_metric_must_be_measured_by_all(folder: Path) -> None:
    trained = read(folder / "run", folder / "run-gcn-f1")
    assert common_metric(trained) == "accuracy"
    assert common_metric(trained[::-1]) == "macro-f1"
    with pytest.raises(OptionError, match="Not every run has the metric 'lift-at-7'"):
        common_metric(trained, "lift-at-7")


def test_other_splits_and_nodes_are_refused(folder: Path) -> None:
    with pytest.raises(OptionError, match=r"run-mlp-tenth was trained on other splits than .*run\."):
        write_comparison(folder / "report.html", [folder / "run", folder / "run-mlp-tenth"])
    assert not (folder / "report.html").exists()
    (one, graph), (other, _) = (read_trained(folder / name) for name in ("run", "else"))
    assert why_not_paired((one, graph), (other, graph)) is None
    assert why_not_paired((one, graph), (other, replace(graph, y=(graph.y + 1) % 2))) == "on other nodes or labels"


def test_a_folder_named_twice_is_refused(folder: Path) -> None:
    with pytest.raises(OptionError, match="named twice"):
        write_comparison(
            folder / "report.html", [folder / "run", folder / "run-gcn", folder / "run-gcn" / ".." / "run"]
        )


def test_names(folder: Path, tmp_path: Path) -> None:
    """Folders tell apart what has one label, also those of one name."""
    shutil.copytree(folder / "run-gcn", tmp_path / "else")
    trained = read(folder / "run", folder / "else", tmp_path / "else")
    assert with_names(trained) == {
        "nlgcn": trained[0],
        f"gcn ({folder / 'else'})": trained[1],
        f"gcn ({tmp_path / 'else'})": trained[2],
    }


def test_only_settings_that_differ_are_shown(folder: Path) -> None:
    trained = with_names(read(folder / "run-gcn", folder / "run-nlgcn-kernel-1"))
    rows = differing_settings(trained, dict.fromkeys(trained, load_graph(GRAPH)))
    found = {row["setting"]: (row["gcn"], row["nlgcn, kernel 1"]) for row in rows}
    assert found["model"] == ("gcn", "nlgcn")
    assert found["kernel_size"] == ("–", "1")
    assert "lr" not in found


def test_columns_and_direction_of_tables_are_settings(folder: Path) -> None:
    trained = with_names(read(folder / "run", folder / "run-gcn"))
    tables = [
        OwnTables(nodes="n.csv", edges="e.csv"),
        OwnTables(nodes="n.csv", edges="e.csv", directed=True, drop=("a",)),
    ]
    changed = {
        name: replace(one, plan=replace(one.plan, tables=own))
        for (name, one), own in zip(trained.items(), tables, strict=True)
    }
    graph = load_graph(GRAPH)
    graphs = {name: replace(graph, directed=one.plan.tables.directed) for name, one in changed.items()}
    rows = {row.pop("setting"): list(row.values()) for row in differing_settings(changed, graphs)}
    assert rows["direction of edges"] == ["undirected", "directed"]
    assert rows["drop"] == ["()", "('a',)"]
    assert not rows.keys() & {"nodes", "edges", "directed"}


def test_page(folder: Path, tmp_path: Path) -> None:
    write_comparison(tmp_path / "report.html", [folder / "run", folder / "run-gcn", folder / "else"])
    text = (tmp_path / "report.html").read_text()
    assert f"<title>3 models on {GRAPH}</title>" in text
    trained = with_names(read(folder / "run", folder / "run-gcn", folder / "else"))
    parts = comparison_parts(trained, dict.fromkeys(trained, load_graph(GRAPH)), "accuracy")
    headline, figure, section = parts[:3]
    assert isinstance(headline, Headline)
    assert isinstance(figure, Figure)
    figure.chart.to_dict()
    assert isinstance(section, Section)
    labels = [row["model"] for row in section.rows]
    assert headline.what.startswith(f"test accuracy of {labels[0]}, 95 % interval")
    assert (sorted(labels[:3]), labels[3:]) == (sorted(trained), ["majority class"])
    titles = [part.title for part in parts if isinstance(part, (Section, Command))]
    assert titles[1:3] == ["Different settings", "Cost"]
    assert titles[3:] == [f"Repeat {label}" for label in labels[:3]]
