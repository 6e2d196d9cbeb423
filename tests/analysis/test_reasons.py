"""Reasons for predictions by taking parts of the input away, against predictions on graphs changed by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nlgnn.analysis.reasons import LABELS, NEIGHBOURS, NON_LOCAL, OWN, STRUCTURE, average_row, reasons_of, without_edges
from nlgnn.graph.graph import Graph
from nlgnn.training.train import Plan, Trained, train
from nlgnn.training.trained import Ensemble

N = 30


def small_graph() -> Graph:
    rng = np.random.default_rng(0)
    y = np.arange(N) % 2
    x = np.c_[rng.normal(size=(N, 2)) + y[:, None], rng.random(N)]
    edges = rng.integers(N - 1, size=(2, 60))  # the last node has no neighbours
    return Graph(x, edges, y, name="small", directed=True, class_names=["no", "yes"])


GRAPH = small_graph()
HUB = int(np.argmax(np.diff(GRAPH.undirected_adjacency.indptr)))


def trained(path: Path, model: str, **options: object) -> Trained:
    return train(Plan("small", model, runs=2, preset="paper", options=options), GRAPH, path, progress=False)


def changed_by_hand(node: int) -> dict[str | int, Graph]:
    """Build the graphs of all trials with plain loops."""
    edges = list(zip(*GRAPH.edge_index.tolist(), strict=True))
    neighbours = sorted({b for a, b in edges if a == node} | {a for a, b in edges if b == node} - {node})
    neighbours = [other for other in neighbours if other != node]
    mean = np.asarray(GRAPH.x).mean(0)
    own, around = np.array(GRAPH.x), np.array(GRAPH.x)
    own[node], around[neighbours] = mean, mean
    alone = [edge for edge in edges if node not in edge or edge == (node, node)]
    graphs: dict[str | int, Graph] = {
        OWN: replace(GRAPH, x=own),
        NEIGHBOURS: replace(GRAPH, x=around),
        STRUCTURE: replace(GRAPH, x=around, edge_index=np.array(alone).T),
    }
    for other in neighbours:
        kept = [edge for edge in edges if set(edge) != {node, other}]
        graphs[other] = replace(GRAPH, edge_index=np.array(kept).T)
    return graphs


MODELS = [("gcn", {"epochs": 5}), ("nlgcn", {"epochs": 5}), ("trees", {}), ("logistic", {}), ("kernel", {})]


@pytest.mark.parametrize(("model", "options"), MODELS, ids=[model for model, _ in MODELS])
def test_contributions_equal_predictions_on_changed_graphs(tmp_path: Path, model: str, options: dict) -> None:
    one = trained(tmp_path / "run", model, **options)
    (found,) = reasons_of(one, GRAPH, [HUB], run=1)
    before = one.probabilities(GRAPH)[1, HUB]
    label = int(before.argmax())
    lost = {
        what: float(before[label] - one.probabilities(graph)[1, HUB, label])
        for what, graph in changed_by_hand(HUB).items()
    }
    lost[STRUCTURE] -= lost[NEIGHBOURS]
    assert found.probability == pytest.approx(float(before[label]))
    assert {name: found.parts[name] for name in (OWN, NEIGHBOURS, STRUCTURE)} == pytest.approx(
        {name: lost[name] for name in (OWN, NEIGHBOURS, STRUCTURE)}, abs=1e-5
    )
    neighbours = {what: value for what, value in lost.items() if isinstance(what, int)}
    assert {other.node: other.contribution for other in found.neighbours} == pytest.approx(neighbours, abs=1e-5)
    sizes = [abs(other.contribution) for other in found.neighbours]
    assert sizes == sorted(sizes, reverse=True)
    assert (NON_LOCAL in found.parts) == (model == "nlgcn")


def test_ensembles_predict_with_all_members(tmp_path: Path) -> None:
    members = [trained(tmp_path / "a", "logistic"), trained(tmp_path / "b", "nlgcn", epochs=5)]
    both = Ensemble.of(members, ["a", "b"], [[0.5, 0.5], [0.25, 0.75]], members[0].runs)
    (whole,) = reasons_of(both, GRAPH, [HUB])
    parts = [reasons_of(member, GRAPH, [HUB])[0] for member in members]
    if len({one.prediction for one in (whole, *parts)}) == 1:
        means = {name: np.mean([part.parts[name] for part in parts]) for name in (OWN, NEIGHBOURS, STRUCTURE)}
        assert {name: whole.parts[name] for name in means} == pytest.approx(means, abs=1e-5)
        assert whole.parts[NON_LOCAL] == pytest.approx(parts[1].parts[NON_LOCAL] / 2, abs=1e-5)
    assert both.probabilities(GRAPH).shape[0] == 2  # nothing of one run is kept for all


@pytest.mark.parametrize(
    ("model", "options"),
    [("trees", {"labels": True}), ("gcn", {"label_input": 0.5, "epochs": 5}), ("vote-gcn", {"epochs": 5})],
)
def test_labels_as_input_are_a_part(tmp_path: Path, model: str, options: dict) -> None:
    one = trained(tmp_path / "run", model, **options)
    found = reasons_of(one, GRAPH, range(N), most_neighbours=0)
    assert all(LABELS in reasons.parts for reasons in found)
    assert all(reasons.neighbours == () for reasons in found)
    if model == "gcn":
        assert any(reasons.parts[LABELS] != 0 for reasons in found)
    known = [state for run in one.runs for name, state in run.state.items() if name.split(".")[-1] == "known"]
    assert all((state >= 0).any() for state in known)  # the training itself is unchanged


def test_models_without_edges_try_no_neighbour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = trained(tmp_path / "run", "mlp", epochs=5)
    calls = []
    probabilities = Trained.probabilities
    monkeypatch.setattr(Trained, "probabilities", lambda self, graph: calls.append(graph) or probabilities(self, graph))
    (found,) = reasons_of(one, GRAPH, [HUB])
    assert len(calls) == 3
    assert (found.neighbours, found.parts[NEIGHBOURS], found.parts[STRUCTURE]) == ((), 0.0, 0.0)
    assert found.parts[OWN] != 0


def test_a_node_without_neighbours(tmp_path: Path) -> None:
    (found,) = reasons_of(trained(tmp_path / "run", "trees"), GRAPH, [N - 1])
    assert (found.num_neighbours, found.neighbours) == (0, ())
    assert (found.parts[NEIGHBOURS], found.parts[STRUCTURE]) == (0.0, 0.0)


def test_averages_pass_over_missing_values() -> None:
    x = np.array([[1.0, np.nan], [3.0, np.nan]])
    np.testing.assert_array_equal(average_row(Graph(x, [[0], [1]], [0, 1])), [2.0, np.nan])


def test_edges_are_removed_with_their_weights_in_both_directions() -> None:
    graph = Graph(np.eye(3), [[0, 1, 1, 2, 0], [1, 0, 2, 0, 0]], [0, 1, 1], edge_weight=[1, 2, 3, 4, 5])
    changed = without_edges(graph, 0, np.array([1]))
    assert changed.edge_index.T.tolist() == [[1, 2], [2, 0], [0, 0]]
    assert changed.edge_weight.tolist() == [3, 4, 5]
