"""One percent of new nodes changes less than one percent of what is predicted of the others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from cli_samples import Command
from nlgnn.datasets.synthetic import planted_order_graph
from nlgnn.training.predict import new_graph
from nlgnn.training.train import read_trained


def write_tables(folder: Path) -> NDArray[np.bool_]:
    """The planted graph as tables, its new nodes in others. Which are new."""
    graph = planted_order_graph()
    new = np.zeros(graph.num_nodes, bool)
    new[np.random.default_rng(0).choice(graph.num_nodes, graph.num_nodes // 100, replace=False)] = True
    columns = {"id": np.arange(graph.num_nodes), "key": graph.x[:, 0], "value": graph.x[:, 1]}
    nodes = pl.DataFrame({**columns, "label": np.array(graph.class_names)[graph.y]})
    edges = pl.DataFrame({"source": graph.edge_index[0], "target": graph.edge_index[1]})
    touches_new = new[graph.edge_index].any(axis=0)
    nodes.filter(~new).write_csv(folder / "nodes.csv")
    nodes.filter(new).drop("label").write_csv(folder / "new-nodes.csv")
    edges.filter(~touches_new).write_csv(folder / "edges.csv")
    edges.filter(touches_new).write_csv(folder / "new-edges.csv")
    return new


@pytest.mark.parametrize(
    ("model", "with_edges", "most"),
    [
        ("nlmlp", True, 0.01),
        ("nlgcn", False, 0.01),
        # Every twenty-fifth old node gets a neighbour, which any graph convolution looks at: GCN alone changes as many.
        ("nlgcn", True, 0.02),
    ],
)
def test_predictions_of_old_nodes(command: Command, tmp_path: Path, model: str, with_edges: bool, most: float) -> None:
    new = write_tables(tmp_path)
    flags = ("--nodes", "nodes.csv", "--edges", "edges.csv", "--label", "label", "--features", "none")
    flags += ("--preset", "paper", "--dropout", 0, "--runs", 1, "--epochs", 40)
    done = command("train", *flags, "--model", model, "--out", "X")
    assert done.code == 0, done.err
    of_new = ("--nodes", "new-nodes.csv", *(("--edges", "new-edges.csv") if with_edges else ()))
    done = command("predict", "X", *of_new, "--out", "labels.csv")
    assert done.code == 0, done.err
    assert pl.read_csv("labels.csv")["id"].to_list() == np.flatnonzero(new).tolist()
    trained, graph = read_trained(Path("X"))
    found, added = new_graph(trained, graph, Path("new-nodes.csv"), Path("new-edges.csv") if with_edges else None)
    old = np.setdiff1d(np.arange(found.graph.num_nodes), added)
    before, after = trained.probabilities(graph)[0], trained.probabilities(found.graph)[0][old]
    assert len(added) == new.sum()
    assert (before != after).any()  # the sorted sequence, and normalisation, hold them too
    assert (before.argmax(1) != after.argmax(1)).mean() < most
