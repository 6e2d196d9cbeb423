"""The page of a diagnosis, of evidence that nobody trained for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from report_samples import easy_graph

from chart_checks import check, figures_of
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import make_splits
from nlgnn.report.diagnosis_page import diagnosis_parts, write_diagnosis_page
from nlgnn.report.page import Command, Headline
from nlgnn.report.table import Section
from nlgnn.selection.diagnosis import Diagnosis, judge
from nlgnn.selection.evidence import Evidence, OrderEvidence
from nlgnn.selection.profile import MEASURES, profile_of

EVIDENCE = Evidence(
    protocol="random-60",
    splits=2,
    runs=3,
    metric="accuracy",
    adjusted_homophily=-0.1,
    validation={"mlp": (80.0, 82.0, 84.0), "gcn": (70.0, 71.0, None), "gat": (60.0, 61.0, 62.0)},
    by_direction={},
)
DIRECTED = {
    "all": (60.0, 61.0, 62.0),
    "out": (66.0, 67.5, 68.0),
    "in": (59.0, 63.0, 61.0),
    "both, apart": (60.0, None, None),
}
ORDER = OrderEvidence(
    model="nlmlp",
    protocol="random-60",
    splits=2,
    seeds=2,
    metric="accuracy",
    validation={
        "nlmlp": (81.0, 84.0, None),
        "mlp": (80.0, 83.0, 85.0),
        "nlmlp, kernel 1": (71.0, 74.0, 75.0),
        "nlmlp, random order": (81.0, 84.0, 83.0),
    },
)


def diagnosis_of(graph: Graph, evidence: Evidence = EVIDENCE, order: OrderEvidence | None = None) -> Diagnosis:
    verdict = judge(evidence.adjusted_homophily, {"mlp": 82, "gcn": 70, "gat": 61}, evidence.difference)
    profile = profile_of(graph, make_splits(graph, "random-60", 2))
    return Diagnosis(profile, evidence, verdict, "nlgnn train easy", order)


def test_the_verdict_comes_first_and_what_to_run_next() -> None:
    diagnosis = diagnosis_of(easy_graph(), order=ORDER)
    headline, command, *_ = diagnosis_parts(diagnosis)
    assert isinstance(headline, Headline)
    assert headline.figure == "Disassortative, first category"
    assert "3 short trainings of each model on 2 splits of protocol random-60" in headline.what
    assert headline.sentences[:2] == [diagnosis.verdict.words, diagnosis.verdict.confidence]
    assert ORDER.words in headline.sentences
    assert command == Command("Next step", "nlgnn train easy")


def test_models_beside_each_other_and_their_differences() -> None:
    figures = figures_of(diagnosis_parts(diagnosis_of(easy_graph())))
    reached = figures["Short trainings"].tables["rows"]
    assert list(reached["model"]) == ["mlp", "gcn", "gat"]
    assert list(reached["mean"]) == [82, 70.5, 61]
    assert list(reached["runs"]) == [3, 2, 3]
    minus = figures["Graph models minus mlp"].tables["rows"]
    assert list(minus["difference"]) == ["gcn − mlp", "gat − mlp"]
    assert list(minus["mean"]) == [-10.5, -21]
    assert list(minus["standing"]) == ["worse", "worse"]
    assert not any("direction" in title or "order" in title for title in figures)


def test_direction() -> None:
    evidence = replace(EVIDENCE, by_direction=DIRECTED)
    parts = diagnosis_parts(diagnosis_of(easy_graph(), evidence))
    figures = figures_of(parts)
    minus = figures["Directed minus undirected edges"].tables["rows"]
    assert list(minus["difference"]) == ["out − all", "in − all"]  # of the third one run succeeded
    assert list(minus["standing"]) == ["better", "unclear"]
    assert list(figures["Direction of edges"].tables["rows"]["model"]) == list(DIRECTED)
    assert any(part == evidence.sections()[1]._replace(title="") for part in parts)


def test_order() -> None:
    figures = figures_of(diagnosis_parts(diagnosis_of(easy_graph(), order=ORDER)))
    reached = figures["Order and its controls"].tables["rows"]
    assert list(reached["model"]) == list(ORDER.validation)
    assert list(reached["mean"])[:2] == pytest.approx([82.5, 248 / 3])
    minus = figures["nlmlp minus its local part and controls"].tables["rows"]
    assert list(minus["difference"]) == ["minus mlp", "minus kernel 1", "minus random order"]
    assert list(minus["mean"]) == pytest.approx([1, 10, 0])


@pytest.mark.parametrize(
    "graph",
    [
        easy_graph(),
        easy_graph(num_classes=2, edges=0),
        easy_graph(num_nodes=600, num_classes=200),
        easy_graph(class_names=["</script><b>", "x" * 300, "'\"\\"]),
    ],
    ids=["usual", "no edges", "200 classes", "odd names"],
)
def test_every_figure_can_be_drawn(graph: Graph, tmp_path: Path) -> None:
    diagnosis = diagnosis_of(graph, replace(EVIDENCE, by_direction=DIRECTED), ORDER)
    figures = figures_of(diagnosis_parts(diagnosis))
    for figure in figures.values():
        check(figure)
        assert figure.half
    few = graph.num_classes <= 40
    assert ("Edges between classes" in figures) is few
    write_diagnosis_page(tmp_path / "report.html", diagnosis)
    assert "</script><b>" not in (tmp_path / "report.html").read_text()


def test_homophily_compared_with_chance() -> None:
    profile = profile_of(easy_graph(), make_splits(easy_graph(), "random-60", 2))
    tables = {section.title: section.rows for section in profile.sections()}
    assert [row["measure"] for row in tables["Homophily"]] == list(MEASURES.values())
    assert tables["Homophily"][0]["value"] == f"{profile.homophily['node_homophily']:.3f}"
    assert tables["Homophily"][0]["chance"] == f"{profile.chance['node_homophily']:.3f}"
    by_class = tables["Homophily by class"]
    assert [row["class"] for row in by_class] == ["class 0", "class 1", "class 2"]
    assert [row["nodes"] for row in by_class] == ["20"] * 3
    assert by_class[0]["chance"] == f"{19 / 59:.3f}"


def test_every_table_of_the_console_is_there_but_the_matrix_that_is_drawn() -> None:
    diagnosis = diagnosis_of(easy_graph(), order=ORDER)
    tables = [part for part in diagnosis_parts(diagnosis) if isinstance(part, Section)]
    shown = {tuple(map(str, section.rows)) for section in tables}
    left_out = [section.title for section in diagnosis.sections() if tuple(map(str, section.rows)) not in shown]
    assert left_out == ["Edges between classes", f"Verdict: {diagnosis.verdict.title}"]
    drawn = figures_of(diagnosis_parts(diagnosis))["Edges between classes"].tables["rows"]
    assert np.allclose(drawn["rate"], diagnosis.profile.compatibility.ravel())
