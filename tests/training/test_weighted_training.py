"""Trainings on graphs whose edges have weights: they count where a model uses them, else it is said; also exported."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

from nlgnn.errors import NlgnnWarning, RunFolderError
from nlgnn.estimator import NodeClassifier
from nlgnn.graph.graph import Graph
from nlgnn.models.build import configure
from nlgnn.tables.source import OwnTables
from nlgnn.training import onnx as exporting
from nlgnn.training.device import model_like
from nlgnn.training.fit import fit, fit_settings, predict
from nlgnn.training.onnx import Portable, export_onnx
from nlgnn.training.predict import new_graph
from nlgnn.training.run_folder import RunFolder
from nlgnn.training.train import Plan, Trained, read_trained, train
from training_samples import Linear, assert_same_runs, easy_graph, own_logits, recipe, splits_of


def weighted_graph(num_nodes: int = 30, seed: int = 0) -> Graph:
    """With loops, repetitions, other weights on the way back, and weights of 0."""
    graph, rng = easy_graph(num_nodes), np.random.default_rng(seed)
    edges = rng.integers(num_nodes - 1, size=(2, 3 * num_nodes))
    weight = rng.integers(0, 9, 7 * num_nodes) / 4
    return replace(graph, edge_index=np.hstack([edges, edges, edges[::-1, :num_nodes]]), edge_weight=weight)


def test_weights_can_tell_the_class() -> None:
    """Features are noise but for hints, and as many edges join classes as not: only their weights say which ones."""
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    x = rng.normal(size=(120, 4)) + 0.5 * y[:, None]
    edges = rng.integers(120, size=(2, 1200))
    agree = y[edges[0]] == y[edges[1]]
    weighted = Graph(x, edges, y, edge_weight=np.where(agree, 1, 0.05))
    figures = [
        np.mean(
            [run.test["accuracy"] for run in fit("gcn", graph, splits_of(graph, 3), recipe(epochs=40), progress=False)]
        )
        for graph in (weighted, replace(weighted, edge_weight=None))
    ]
    assert figures[0] > figures[1] + 15


def test_models_that_do_not_look_at_weights_are_named_once() -> None:
    graph = weighted_graph()
    settings = [configure(name, graph, epochs=1) for name in ("gat", "nlgcn", "gat", "nl-h2gcn", "mlp")]
    settings.append((Linear, recipe(epochs=1)))
    with pytest.warns(NlgnnWarning) as found:
        fit_settings(settings, graph, splits_of(graph), progress=False)
    words = "does not look at the weights of edges: all edges of graph 'easy' count alike."
    assert [str(one.message) for one in found] == [f"{name} {words}" for name in ("GAT", "Linear", "NonLocalH2GCN")]
    with pytest.warns(NlgnnWarning, match="^GAT does not look") as found:
        ours = fit("gat", graph, splits_of(graph), recipe(), progress=False)
    assert len(found) == 1
    plain = Graph(graph.x, graph.undirected_adjacency.nonzero(), graph.y, name="easy", class_names=graph.class_names)
    assert_same_runs(ours, fit("gat", plain, splits_of(graph), recipe(), progress=False))


def test_run_folders_keep_weighted_trainings(tmp_path: Path) -> None:
    graph = weighted_graph()
    options = {"epochs": 3, "hidden": 4}
    trained = train(Plan("easy", "nlgcn", runs=2, options=options), graph, tmp_path / "run", progress=False)
    folder = RunFolder.open(tmp_path / "run")
    assert folder.config["fingerprint"] == graph.fingerprint != replace(graph, edge_weight=None).fingerprint
    again = predict(trained.factory, graph, folder.finished_runs(), trained.recipe)
    plain = predict(trained.factory, replace(graph, edge_weight=None), trained.runs, trained.recipe)
    torch.testing.assert_close(again, predict(trained.factory, graph, trained.runs, trained.recipe))
    assert not torch.allclose(again, plain)


def drawn(folder: Path, model: str, graph: Graph, **options: Any) -> Trained:
    """As if trained: one epoch, then weights of usual size."""
    plan = Plan("easy", model, runs=1, options={"epochs": 1, "hidden": 8, **options})
    trained = train(plan, graph, folder / model, progress=False)
    generator = torch.Generator().manual_seed(0)
    for value in trained.runs[0].state.values():
        value.copy_(0.4 * torch.randn(value.shape, generator=generator))
    return trained


@pytest.mark.parametrize("model", ["gcn", "nlgcn"])
@pytest.mark.parametrize("seed", range(4))
def test_portable_form_has_the_weights(tmp_path: Path, model: str, seed: int) -> None:
    graph = weighted_graph(seed=seed)
    trained = drawn(tmp_path, model, graph)
    made = model_like(trained.factory)
    made.load_state_dict(trained.runs[0].state)
    given = (torch.tensor(one) for one in (graph.x, graph.edge_index, graph.edge_weight))
    with torch.no_grad():
        logits, *_ = Portable([made], trained.recipe.features, mean=False)(*given)
    np.testing.assert_allclose(logits, own_logits(trained, graph), rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_exported_with_weights(tmp_path: Path) -> None:
    trained, path = drawn(tmp_path, "gcn", weighted_graph()), tmp_path / "x.onnx"
    result = export_onnx(trained, weighted_graph(), path)
    assert (result.inputs, result.same_class) == (("x", "edge_index", "edge_weight"), 30)
    session, other = onnxruntime.InferenceSession(path), weighted_graph(50, seed=3)
    given = {"x": other.x, "edge_index": other.edge_index, "edge_weight": other.edge_weight}
    np.testing.assert_allclose(session.run(None, given)[0], own_logits(trained, other), rtol=1e-4, atol=1e-4)
    assert "edge_weight" in session.get_modelmeta().custom_metadata_map["inputs"]
    assert [one.shape for one in session.get_inputs()] == [["nodes", 4], [2, "edges"], ["edges"]]


def test_the_part_that_an_export_is_checked_on_keeps_its_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "CHECKED_NODES", 10)
    graph = weighted_graph()
    part = exporting._first_nodes(graph)
    assert (part.undirected_weights != graph.undirected_weights[:10, :10]).nnz == 0
    assert part.undirected_weights.nnz > 0


IGNORED = "gcn was trained without edge weights"


@pytest.fixture
def tables(tmp_path: Path) -> OwnTables:
    graph = weighted_graph()
    rows = [
        f"{node},{row[0]:.3f},{row[1]:.3f},{'ab'[label]}"
        for node, (row, label) in enumerate(zip(graph.x, graph.y, strict=True))
    ]
    links = [
        f"{source},{target},{weight}"
        for (source, target), weight in zip(graph.edge_index.T, graph.edge_weight, strict=True)
    ]
    (tmp_path / "nodes.csv").write_text("\n".join(["id,one,two,topic", *rows]))
    (tmp_path / "edges.csv").write_text("\n".join(["source,target,weight", *links]))
    (tmp_path / "new.csv").write_text("id,one,two\nnew,0.5,0.5\n")
    (tmp_path / "new-edges.csv").write_text("source,target,weight\nnew,1,0.001\nnew,2,5\n")
    return OwnTables.at(tmp_path / "nodes.csv", tmp_path / "edges.csv", label="topic")


def test_weights_of_new_edges(tables: OwnTables, tmp_path: Path) -> None:
    found = tables.read()
    assert found.graph.edge_weight is not None
    assert found.encoder is not None
    encoder = json.loads(found.encoder.to_json())
    plan = Plan("nodes", "gcn", runs=2, options={"epochs": 3, "hidden": 4}, tables=tables, encoder=encoder)
    weighted = train(plan, found.graph, tmp_path / "weighted", progress=False)
    trained, graph = read_trained(tmp_path / "weighted")
    assert_same_runs(trained.runs, weighted.runs)
    larger, new = new_graph(trained, graph, tmp_path / "new.csv", tmp_path / "new-edges.csv")
    assert larger.graph.edge_weight is not None
    assert (larger.graph.num_nodes, new.tolist()) == (31, [30])
    (tmp_path / "edges.csv").write_text("source,target,weight\n1,2,3\n")
    with pytest.raises(RunFolderError, match="its features, edges or labels differ"):
        read_trained(tmp_path / "weighted")


def test_new_edges_of_a_training_without_weights(tables: OwnTables, tmp_path: Path) -> None:
    links = (tmp_path / "edges.csv").read_text().splitlines()
    (tmp_path / "edges.csv").write_text("\n".join(line.rpartition(",")[0] for line in links))
    found = tables.read()
    assert found.encoder is not None
    encoder = json.loads(found.encoder.to_json())
    plan = Plan("nodes", "gcn", runs=1, options={"epochs": 1}, tables=tables, encoder=encoder)
    train(plan, found.graph, tmp_path / "run", progress=False)
    larger, _ = new_graph(*read_trained(tmp_path / "run"), tmp_path / "new.csv", tmp_path / "new-edges.csv")
    assert larger.graph.edge_weight is None


def test_a_folder_that_lost_its_encoder(tables: OwnTables, tmp_path: Path) -> None:
    graph = tables.read().graph
    train(Plan("nodes", "mlp", runs=1, options={"epochs": 1}, tables=tables), graph, tmp_path / "run", progress=False)
    with pytest.raises(RunFolderError, match=r"config\.json: it lacks 'encoder'"):
        new_graph(*read_trained(tmp_path / "run"), tmp_path / "new.csv", None)


def test_weights_are_ignored_by_a_model_that_was_fitted_without(tmp_path: Path) -> None:
    graph = weighted_graph()
    fitted = NodeClassifier("gcn", n_runs=1, options={"epochs": 3}).fit(replace(graph, edge_weight=None))
    fitted.save(tmp_path / "model")
    with pytest.warns(NlgnnWarning, match=IGNORED):
        loaded = NodeClassifier.load(tmp_path / "model", graph)
    np.testing.assert_array_equal(loaded.predict_proba(), fitted.predict_proba())
    for one in (loaded, fitted):
        with pytest.warns(NlgnnWarning, match=IGNORED):
            np.testing.assert_array_equal(one.predict_proba(graph), fitted.predict_proba())


def test_model_folders_of_weighted_graphs_use_them(tmp_path: Path) -> None:
    graph = weighted_graph()
    fitted = NodeClassifier("gcn", n_runs=1, options={"epochs": 3}).fit(graph)
    fitted.save(tmp_path / "model")
    loaded = NodeClassifier.load(tmp_path / "model", graph)  # of which nothing is told
    np.testing.assert_array_equal(loaded.predict_proba(graph), fitted.predict_proba())
    assert not np.allclose(loaded.predict_proba(replace(graph, edge_weight=None)), fitted.predict_proba())
