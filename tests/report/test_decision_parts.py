"""Parts of a page about a rare class: which come first, and their figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from report_samples import easy_graph, trained_on

from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import make_splits
from nlgnn.report.decision import decision_rows, decision_sections, decision_sentences, top_rows
from nlgnn.report.page import Figure, Headline
from nlgnn.report.run_page import run_parts
from nlgnn.report.table import Section
from nlgnn.training.decision import Decision, decide
from nlgnn.training.thresholds import Answers
from nlgnn.training.train import Trained


def rare_graph() -> Graph:
    """A feature tells most of the 24 nodes of class 1 among 300."""
    graph = easy_graph(300, 2, name="rare")
    y = np.where(np.arange(300) % 12 == 0, 1, 0)
    y[np.arange(300) % 50 == 0] = 1
    rng = np.random.default_rng(0)
    x = np.column_stack([1.5 * y + rng.standard_normal(300), rng.random(300)])
    return replace(graph, x=x, y=y, class_names=("no", "yes"))


GRAPH = rare_graph()


@pytest.fixture(scope="module")
def rare(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return trained_on(GRAPH, tmp_path_factory.mktemp("rare") / "run", "mlp", features="none")


def test_the_curve_and_the_confusion_matrix_are_the_first_figures(rare: Trained) -> None:
    parts = run_parts(rare, GRAPH, {})
    figures = [part for part in parts if isinstance(part, Figure)]
    titles = [figure.title for figure in figures]
    assert titles[:2] == ["Precision and recall", "Confusion matrix"]
    assert titles.count("Confusion matrix") == 1
    assert "ROC curve" in titles
    headline = parts[0]
    assert isinstance(headline, Headline)
    assert "best F1" in headline.sentences[0]
    assert "nodes with the highest probability" in headline.sentences[1]
    sections = [part.title for part in parts if isinstance(part, Section)]
    assert {"Labels by threshold or cost", "Nodes with the highest probability"} <= set(sections)


def test_the_matrix_is_that_of_the_threshold(rare: Trained) -> None:
    decision = decide_for(rare)
    matrix = next(one for one in run_parts(rare, GRAPH, {}) if isinstance(one, Figure) and one.title[:9] == "Confusion")
    counts = np.asarray(matrix.tables["rows"]["count"]).reshape(2, 2)
    assert counts[:, 1].sum() == decision.test["predicted"]
    assert 100 * counts[1, 1] / counts[:, 1].sum() == pytest.approx(decision.test["precision"])
    assert 100 * counts[1, 1] / counts[1].sum() == pytest.approx(decision.test["recall"])


def decide_for(trained: Trained) -> Decision:
    from nlgnn.training.predict import temperatures_of

    probabilities = trained.probabilities(GRAPH)
    heats = temperatures_of(trained, GRAPH, probabilities)
    return decide(probabilities, heats, GRAPH, make_splits(GRAPH, "random-60", 2))


def test_two_classes_of_about_one_size_have_both_curves_later(tmp_path: Path) -> None:
    graph = easy_graph(60, 2)
    parts = run_parts(trained_on(graph, tmp_path / "run", "mlp"), graph, {})
    titles = [part.title for part in parts if isinstance(part, Figure)]
    assert titles[0] == "Compared with baselines"
    assert {"Precision and recall", "ROC curve", "Confusion matrix"} <= set(titles)
    assert "Labels by threshold or cost" not in [part.title for part in parts if isinstance(part, Section)]


def run_of(seed: int) -> Answers:
    rng = np.random.default_rng(seed)
    labels = (np.arange(50) % 10 == 0).astype(int)
    scores = rng.random(50)
    return Answers(np.column_stack([1 - scores, scores]), labels)


def test_how_many_of_the_highest_scored_nodes_are_positive() -> None:
    tested = [run_of(0), run_of(1)]
    decision = Decision("0.5", positive_class="yes", threshold=0.5)
    rows = top_rows(decision, tested)
    assert [row["highest-scored nodes"] for row in rows] == ["5", "10", "30"]  # five nodes are positive
    hits = [one.labels[np.argsort(-one.probabilities[:, 1])[:10]].sum() for one in tested]
    assert rows[1]["of them yes"].startswith(f"{fmean(hits):.1f} ± ")
    assert rows[1]["precision %"].startswith(f"{10 * fmean(hits):.1f} ± ")
    assert "Of the 50 test nodes with the highest probability, 5 are yes (mean of 2 runs)." in decision_sentences(
        decision, tested
    )


def test_costs_are_compared_with_simpler_answers() -> None:
    graph = replace(easy_graph(60, 2), y=np.arange(60) % 10 // 9, class_names=("no", "yes"))
    tested = [run_of(0), run_of(1)]
    costs = [[0.0, 1.0], [10.0, 0.0]]
    made = Decision("least cost", 1, "yes", 1 / 11, costs)
    figures = made.figures(Answers.together(tested))
    rows = decision_rows(replace(made, validation=figures, test=figures), graph, tested)
    assert [row["labels"] for row in rows][2:] == ["most probable class", "always no"]
    assert [row["cost per node"] for row in rows][-1] == "1.000"  # a tenth is missed, at 10
    assert rows[1]["cost per node"] == f"{figures['cost']:.3f}"
    (section,) = decision_sections(replace(made, validation=figures, test=figures), graph, tested, False)
    assert "yes labelled no 10" in section.caption
