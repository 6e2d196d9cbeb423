"""What is shown of a node of a trained run: figures of the right run, in tables that add up."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiment_samples import small_graph
from nlgnn.errors import OptionError
from nlgnn.graph.graph import Graph
from nlgnn.report.explanation import explain_in_run, explained_sections
from nlgnn.report.table import Rows
from nlgnn.report.text import FORMATS
from nlgnn.training.fit import predict
from nlgnn.training.train import Plan, Trained, train

GRAPH = small_graph()


def trained_model(path: Path, graph: Graph = GRAPH, model: str = "nlmlp", **options: Any) -> Trained:
    options = {"epochs": 5, "stopping": "never", "hidden": 4} | options
    return train(Plan("texas", model, "geom-gcn", 3, options=options), graph, path, progress=False)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return trained_model(tmp_path_factory.mktemp("explained") / "run")


def test_the_run_that_is_asked_for(trained: Trained) -> None:
    probabilities = predict(trained.factory, GRAPH, trained.runs, trained.recipe).numpy()
    assert abs(np.diff(probabilities, axis=0)).max(axis=(1, 2)).min() > 1e-3  # runs differ
    for number, run in ((0, None), (1, 1), (2, 2)):
        explained = explain_in_run(trained, GRAPH, 4, run)
        np.testing.assert_allclose(explained.explanation.probabilities, probabilities[number, 4], atol=1e-6)
        assert explained.run == number
        assert f"nlmlp, epochs=5, stopping=never, hidden=4, run {number} on split {number} of" in explained.protocol
        assert "the first epoch with the best validation accuracy" in explained.protocol


def test_the_part_is_that_of_the_runs_own_split(trained: Trained) -> None:
    splits = GRAPH.splits["geom-gcn"]
    for node in (0, 1, 2, 3, 29):
        for run, split in enumerate(splits):
            expected = "training" if split.train[node] else "validation" if split.val[node] else "test"
            assert explain_in_run(trained, GRAPH, node, run).part == expected
    assert len({explain_in_run(trained, GRAPH, 0, run).part for run in range(3)}) == 2


def test_runs_that_failed_are_passed_over(trained: Trained) -> None:
    failed = replace(trained.runs[0], failure="the loss became nan", state={})
    some = replace(trained, runs=[failed, *trained.runs[1:]])
    assert explain_in_run(some, GRAPH, 4).run == 1
    with pytest.raises(OptionError, match=r"no finished run 0 \(the loss became nan\)") as refused:
        explain_in_run(some, GRAPH, 4, 0)
    assert refused.value.how == "It has: 1, 2."
    with pytest.raises(OptionError, match=r"no finished run 3\."):
        explain_in_run(some, GRAPH, 4, 3)


def test_window_in_order_and_what_it_adds_up_to(trained: Trained) -> None:
    for node in range(30):
        explained = explain_in_run(trained, GRAPH, node)
        one = explained.explanation
        section = explained_sections(explained, top=10)[1]
        *window, own, biases, total = section.rows
        assert [int(row["offset"]) for row in window] == [other.offset for other in one.window]
        assert [row["node"] for row in window] == [other.name for other in one.window]
        assert [row["node"] for row in (own, biases, total)] == ["local part", "biases", "sum = logit"]
        *texts, predicted, other = section.rows[0]
        assert (len(texts), section.text_columns) == (4, 4)
        assert predicted == f"predicted: {one.prediction}"
        role = "runner-up" if one.label == one.prediction else "label"
        assert other == f"{role}: {one.class_names[1 - one.logits.argmax()]}"
        for heading in (predicted, other):
            parts = sum(float(row[heading]) for row in section.rows[:-1])
            assert parts == pytest.approx(float(total[heading]), abs=0.0005 * len(section.rows))
        assert float(total[predicted]) == pytest.approx(one.logits.max(), abs=0.0005)
    assert "not causes" in section.caption


def facts(rows: Rows) -> dict[str, str]:
    return {row["what"]: row["value"] for row in rows}


@pytest.mark.parametrize(
    ("silenced", "words"),
    [
        ([1.0, 0.0], "0, probability 0.731 (-0.150)"),
        ([3.0, 0.0], "0, probability 0.953 (+0.072)"),
        ([0.0, 1.0], "1, probability 0.731; that of 0 0.269 (-0.612)"),
    ],
)
def test_the_node_and_what_silencing_changes(trained: Trained, silenced: list[float], words: str) -> None:
    explained = explain_in_run(trained, GRAPH, 4)
    figures = {"logits": np.array([2.0, 0.0]), "prediction": "0", "silenced": np.array(silenced)}
    shown = explained_sections(replace(explained, explanation=replace(explained.explanation, **figures)), 10)[0]
    assert shown.title == "Node 4 of texas"
    assert facts(shown.rows) == {
        "label": "0",
        "prediction": "0, probability 0.881 (this run, not calibrated)",
        "part in this run": explained.part,
        "position": f"{explained.explanation.position} of 30",
        "score": f"{explained.explanation.score:.4g}",
        "non-local part silenced": words,
    }
    assert shown.caption.startswith(explained.protocol)


def test_neighbours(trained: Trained) -> None:
    node = int(GRAPH.undirected_adjacency.sum(1).argmax())
    explained = explain_in_run(trained, GRAPH, node)
    one = explained.explanation
    count = len(one.neighbours)
    assert count > 2
    for top, shown in ((0, 0), (2, 2), (100, count)):
        section = explained_sections(explained, top)[2]
        assert [row["node"] for row in section.rows] == [other.name for other in one.neighbours[:shown]]
        assert section.caption.startswith(f"{shown} of {count} shown, by number;")
        assert len(explained.to_dict(top)["neighbours"]) == shown
    agreeing = sum(int(GRAPH.y[other.node] == GRAPH.y[node]) for other in one.neighbours)
    in_window = sum(int(GRAPH.y[other.node] == GRAPH.y[node]) for other in one.window) - 1  # but itself
    words = f"{agreeing} of {count} neighbours and by {in_window} of {len(one.window) - 1} others in its window."
    assert section.caption.endswith(words)


def test_a_node_without_neighbours_or_label(tmp_path: Path) -> None:
    y = GRAPH.y.copy()
    y[29] = -1
    graph = replace(GRAPH, edge_index=GRAPH.edge_index[:, (GRAPH.edge_index != 29).all(0)], y=y)
    explained = explain_in_run(trained_model(tmp_path / "run", graph), graph, 29)
    summary, window, neighbours = explained_sections(explained, 10)
    assert facts(summary.rows)["label"] == "unknown"
    assert list(window.rows[0])[-1].startswith("runner-up: ")
    assert (neighbours.rows, neighbours.text) == ([], "The node has no neighbours.")
    assert "Its label" not in neighbours.caption


def test_a_local_model_has_no_window(tmp_path: Path) -> None:
    explained = explain_in_run(trained_model(tmp_path / "run", model="mlp"), GRAPH, 4)
    summary, neighbours = explained_sections(explained, 10)
    assert list(facts(summary.rows)) == ["label", "prediction", "part in this run"]
    assert explained.explanation.why_no_window == "MLP sorts nothing: it is a local model."
    assert neighbours.rows
    assert "window" not in neighbours.caption
    assert explained.to_dict(10)["silenced_probabilities"] is None


def test_names_of_any_length_and_kind(tmp_path: Path) -> None:
    long = "x" * 300
    graph = replace(GRAPH, class_names=(f"{long}1", f"{long}2"), node_names=[f"</script>|{n}" for n in range(30)])
    explained = explain_in_run(trained_model(tmp_path / "run", graph), graph, "</script>|4")
    sections = explained_sections(explained, 10)
    names = list(sections[1].rows[0])
    assert len(names) == 6  # though both names of classes are cut to the same
    assert max(len(text) for section in sections for row in section.rows for text in row.values()) < 150
    for page in FORMATS.values():
        assert page("Title", sections)
    assert "</script>" not in FORMATS["html"]("Title", sections)


def test_json(trained: Trained) -> None:
    explained = explain_in_run(trained, GRAPH, 4)
    read = json.loads(json.dumps(explained.to_dict(10)))
    one = explained.explanation
    assert (read["node"], read["run"], read["graph"], read["part"]) == (4, 0, "texas", explained.part)
    assert read["num_neighbours"] == len(one.neighbours)
    parts = [read["own"], read["bias"], *(row["contributions"] for row in read["window"])]
    np.testing.assert_allclose(np.sum(parts, axis=0), one.logits, atol=1e-5)
    assert read["window"][0]["name"] == one.window[0].name
    np.testing.assert_allclose(read["probabilities"], one.probabilities)
    np.testing.assert_allclose(read["silenced_probabilities"], one.silenced_probabilities)
