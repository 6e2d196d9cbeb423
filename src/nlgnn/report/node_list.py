"""The nodes that a reader of a page can look into: in strips, by name, with the reasons of as many as have room."""

from __future__ import annotations

import shlex
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from nlgnn.analysis import Explanations, explain_nodes, kernel_sizes, order_before_and_after
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split
from nlgnn.report.columns import Column, encode_array
from nlgnn.report.page import Figure, NodeList
from nlgnn.report.palette import PALETTE
from nlgnn.report.strips import (
    BINS,
    NODES_LISTED,
    is_wrong,
    mark_columns,
    node_columns,
    number_of_bins,
    share_columns,
    strip_names,
    strips_chart,
)
from nlgnn.training.run import Run
from nlgnn.training.train import Trained

# Before base64, which makes a third more of them: what reasons and names may take, what reasons may take at least, and
# what a node takes that is listed because another mentions it.
BYTES_OF_REASONS, FEWEST_BYTES_OF_REASONS, BYTES_OF_NODE = 600_000, 100_000, 24
NEIGHBOURS_SHOWN = 24
STRIPS_CAPTION = (
    "All nodes in the order that the model sorts them into, coloured by label: before training, and at the epoch that "
    "run {run} chose by validation; then that order's training, validation and test nodes alone; last, misclassified "
    "nodes (of all parts), coloured by what they are taken for. Scroll to zoom, drag to move, click a node to look "
    "into it."
)
SHARES_CAPTION = " Zoomed out, a strip shows the share of each class in each of {bins} parts of the order."
REASONS_CAPTION = (
    "The logit of a class is a sum: what the node's own embedding gives, what each node in its window of the sorted "
    "order gives, and biases. Gates of the convolution and scores are held at their values: this says what went into "
    "this prediction, not what would happen to it if another node changed. Run {run}, {of_nodes}."
)


def node_list(trained: Trained, graph: Graph, run: Run, split: Split, probabilities: NDArray[np.floating]) -> NodeList:
    """What one run of a model that sorts nodes made of them; `probabilities` are that run's, `[n, c]`."""
    scaled = graph.scale_features(trained.recipe.features)
    before, after = order_before_and_after(trained.factory, scaled, run)
    predictions = probabilities.argmax(1)
    model = trained.factory()
    model.load_state_dict(run.state)
    chosen = explained_nodes(graph, predictions, split, _room(model, graph))
    reasons = explain_nodes(model, scaled, chosen)
    starts, neighbours, degrees = shown_neighbours(graph, chosen)
    all_listed = graph.num_nodes <= NODES_LISTED
    mentioned = np.concatenate([chosen, reasons.window_nodes.ravel(), neighbours])
    listed = np.arange(graph.num_nodes) if all_listed else np.unique(mentioned[mentioned >= 0])

    tables: dict[str, dict[str, Column]] = {
        "nodes": node_columns(graph, before, after, probabilities, split, listed),
        "bins": share_columns(graph, before, after, predictions, split) if graph.num_nodes > BINS else {},
        "mark": mark_columns(),
    }
    if not all_listed:  # what is drawn comes first
        tables = {"bins": tables.pop("bins"), **tables}
    chart = strips_chart(
        strip_names(run.chosen_epoch), graph.class_names, graph.num_nodes, all_listed, not graph.labelled.all()
    )
    caption = STRIPS_CAPTION.format(run=run.index)
    caption += SHARES_CAPTION.format(bins=number_of_bins(graph.num_classes)) * (graph.num_nodes > BINS)
    strips = Figure("The sorted sequence", chart, tables, caption, renderer="canvas")
    rows = np.searchsorted(listed, reasons.window_nodes)
    windows = np.where(reasons.window_nodes < 0, -1, rows)
    of_nodes = "all nodes" if len(chosen) == graph.num_nodes else f"{len(chosen):,} of {graph.num_nodes:,} nodes"
    data: dict[str, Any] = {
        "length": graph.num_nodes,
        "strips": len(strip_names(run.chosen_epoch)),
        "window": windows.shape[1],
        "classes": list(graph.class_names),
        "colours": list(PALETTE),
        "complete": all_listed,
        "command": f"nlgnn explain {shlex.quote(str(trained.folder.path))} --run {run.index}",
        "first": int(np.searchsorted(listed, chosen[0])),
        "parts": {
            "explained": encode_array(np.searchsorted(listed, chosen)),
            "windows": encode_array(windows),
            **_encoded_reasons(reasons),
            "starts": encode_array(starts),
            "neighbours": encode_array(np.searchsorted(listed, neighbours)),
            "degrees": encode_array(degrees),
        },
    }
    return NodeList(strips.title, strips, data, REASONS_CAPTION.format(run=run.index, of_nodes=of_nodes))


def explained_nodes(graph: Graph, predictions: NDArray[np.int64], split: Split, room: int) -> NDArray[np.int64]:
    """Misclassified test nodes come first, then all others by lot; as many as there is room for."""
    lots = np.random.default_rng(0).permutation(graph.num_nodes)
    is_first = (is_wrong(graph, predictions) & split.test)[lots]
    return np.concatenate([lots[is_first], lots[~is_first]])[:room]


def shown_neighbours(
    graph: Graph, nodes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Of each node the first few neighbours, one list after another; where each begins; and how many it has in all."""
    adjacency = graph.undirected_adjacency
    degrees = np.diff(adjacency.indptr)[nodes]
    lists = [
        adjacency.indices[start : start + min(degree, NEIGHBOURS_SHOWN)]
        for start, degree in zip(adjacency.indptr[nodes], degrees, strict=True)
    ]
    starts = np.concatenate([[0], np.cumsum([len(part) for part in lists], dtype=np.int64)])
    return starts, np.concatenate([*lists, np.empty(0, np.int64)]).astype(np.int64), degrees.astype(np.int64)


def _room(model: nn.Module, graph: Graph) -> int:
    """For the reasons of how many nodes."""
    window = 1 + sum(size - 1 for size in kernel_sizes(model))
    bytes_of_names = sum(len(name.encode()) for name in graph.node_names or ())
    mentioned = window + NEIGHBOURS_SHOWN
    bytes_of_one = 4 * (graph.num_classes * (window + 4) + mentioned)
    if graph.num_nodes <= NODES_LISTED:
        room = max(FEWEST_BYTES_OF_REASONS, BYTES_OF_REASONS - bytes_of_names)
    else:  # then those that it mentions are listed with it
        room = BYTES_OF_REASONS
        bytes_of_one += mentioned * (BYTES_OF_NODE + bytes_of_names // graph.num_nodes)
    return max(1, min(graph.num_nodes, room // bytes_of_one))


def _encoded_reasons(reasons: Explanations) -> dict[str, dict[str, str]]:
    names = ("logits", "own", "bias", "silenced", "contributions")
    return {name: encode_array(getattr(reasons, name)) for name in names}
