"""What a finished training says of its graph, and of the same graph with nodes that it has never seen."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nlgnn.datasets.tables import FeatureEncoder, TableGraph
from nlgnn.errors import OptionError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import make_splits
from nlgnn.training.execution import model_like
from nlgnn.training.fit import predict
from nlgnn.training.prediction import temperatures
from nlgnn.training.train import Trained, bad_config


def probabilities_of(trained: Trained, graph: Graph) -> NDArray[np.floating]:
    """Of every run that did not fail, `[runs, n, c]`, not calibrated."""
    found: NDArray[np.floating] = predict(trained.factory, graph, trained.runs, trained.recipe).numpy()
    return found


def heats_of(trained: Trained, graph: Graph, probabilities: NDArray[np.floating]) -> list[float]:
    """The temperature of each run, from what it says of the graph that it was trained on."""
    splits = make_splits(graph, trained.plan.protocol, trained.plan.runs)
    return temperatures(probabilities, trained.finished, graph, splits)


def new_graph(
    trained: Trained, graph: Graph, nodes: Path | None, edges: Path | None
) -> tuple[TableGraph, NDArray[np.int64]]:
    """The graph of a training with new nodes and edges, and which of its nodes are new."""
    refuse_known_nodes(trained)
    plan = trained.plan
    if plan.tables is None or plan.tables.graph_file is not None:
        what = f"the named graph {plan.graph!r}" if plan.tables is None else f"one file, {plan.tables.graph_file}"
        raise OptionError(
            f"{trained.folder.path} was trained on {what}: there are no tables to add new nodes to.",
            "Train on tables of your own: nlgnn train --nodes … --edges … --label …",
        )
    if plan.encoder is None:
        raise bad_config(trained.folder, "it lacks 'encoder', which features of tables are made by")
    encoder = FeatureEncoder.from_json(json.dumps(plan.encoder))
    found = plan.tables.read_with(nodes, edges, encoder, graph.class_names)
    if graph.edge_weight is None:  # then it was trained without, whatever the table has
        found = replace(found, graph=replace(found.graph, edge_weight=None))
    old = set(graph.node_names or ())
    return found, np.flatnonzero([name not in old for name in found.graph.node_names or ()])


def refuse_known_nodes(trained: Trained) -> None:
    model = model_like(trained.factory)
    if getattr(model, "vote", None) is not None:
        raise OptionError(
            f"this {trained.plan.model} votes with training nodes, which it knows by their number: of nodes that it "
            "has never seen it can say nothing.",
            "Train with --readout conv, or without --order metric.",
        )
    if getattr(model, "identifies_nodes", False):
        raise OptionError(
            f"{trained.plan.model} knows nodes by their number or by their row of the adjacency matrix: of nodes that "
            "it has never seen it can say nothing.",
            "Train a model that reads features, such as nlgcn or nlmlp.",
        )
