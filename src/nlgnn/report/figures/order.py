"""Parts of a page on the order of a model: its nodes with their reasons, its agreement with labels, its votes."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from nlgnn.analysis import SortedSequence, explain_node, explain_nodes, kernel_sizes, order_before_and_after
from nlgnn.analysis.explain import vote_homophily
from nlgnn.analysis.sequence import models_before_and_after
from nlgnn.graph.graph import Graph
from nlgnn.graph.homophily import chance_homophily, node_homophily, reconnected_homophily
from nlgnn.graph.splits import Split
from nlgnn.nn.base import evaluating, prepare
from nlgnn.nn.mixing import SortedConv
from nlgnn.nn.neighbour_vote import SHARES, VOTES_HAVE_TRIES, NeighbourVote
from nlgnn.nn.non_local import NonLocal
from nlgnn.report.figures import PALETTE
from nlgnn.report.figures.intervals import bars_chart
from nlgnn.report.figures.strips import (
    BINS,
    NODES_LISTED,
    is_wrong,
    node_columns,
    number_of_bins,
    share_columns,
    strip_names,
    strips_chart,
)
from nlgnn.report.figures.votes import longest_column, vote_rows, votes_chart
from nlgnn.report.page import Column, Command, Figure, NodeList, Part, caption, columns_of, encode_array
from nlgnn.report.table import Rows, Section, short
from nlgnn.training.device import model_like
from nlgnn.training.replica import Run
from nlgnn.training.train import Trained

# Before base64, which adds a third: the most that reasons take with the nodes that they mention, and one such node.
BYTES_OF_REASONS, BYTES_OF_NODE = 1_200_000, 24
NEIGHBOURS_SHOWN = 24
REASONS = ("logits", "own", "bias", "silenced", "contributions")  # of `Explanations`
ALONE = "0: the local part alone"


def order_parts(
    trained: Trained, graph: Graph, good: Sequence[Run], run: Run, split: Split, probabilities: NDArray[Any]
) -> list[Part]:
    """Return the parts on the order of a model. The list is empty for a model that sorts no nodes.

    Args:
        trained: The training.
        graph: Its graph.
        good: The runs that finished.
        run: The run that is looked into.
        split: The split of that run.
        probabilities: The probabilities of that run, `[n, c]`.
    """
    model = model_like(trained.factory)
    if isinstance(model, NeighbourVote):
        return [*vote_parts(trained, graph, good), *votes_figures(trained, graph, run, split, probabilities)]
    if not isinstance(model, NonLocal) or not isinstance(model.mixer, SortedConv):
        return []
    kernels = kernel_sizes(model)
    scaled = graph.scale_features(trained.recipe.features)
    orders = {one.index: order_before_and_after(trained.factory, scaled, one) for one in good}
    agreement = [[reconnected_homophily(order.nodes, graph.y, kernels) for order in pair] for pair in orders.values()]
    title = "Label agreement along the order"
    return [
        node_list(trained, graph, run, split, probabilities, orders[run.index]),
        agreement_figure(title, "the order", "window-agreement", graph, np.array(agreement)),
    ]


def node_list(
    trained: Trained,
    graph: Graph,
    run: Run,
    split: Split,
    probabilities: NDArray[np.floating],
    orders: tuple[SortedSequence, SortedSequence],
) -> NodeList:
    """Return the strips of one run and the reasons of as many nodes as there is room for.

    Args:
        trained: The training of a model that sorts nodes.
        graph: Its graph.
        run: One of its runs.
        split: The split of that run.
        probabilities: The probabilities of that run, `[n, c]`.
        orders: The order before training and that of the chosen epoch.
    """
    scaled, predictions = graph.scale_features(trained.recipe.features), probabilities.argmax(1)
    model = trained.factory()
    model.load_state_dict(run.state)
    chosen = explained_nodes(graph, predictions, split, _room(model, graph))
    reasons = explain_nodes(model, scaled, chosen)
    starts, neighbours, degrees = shown_neighbours(graph, chosen)
    all_listed = graph.num_nodes <= NODES_LISTED
    mentioned = np.concatenate([chosen, reasons.window_nodes.ravel(), neighbours])
    listed = np.arange(graph.num_nodes) if all_listed else np.unique(mentioned[mentioned >= 0])

    tables: dict[str, dict[str, Column]] = {
        "nodes": node_columns(graph, *orders, probabilities, split, listed),
        "bins": share_columns(graph, *orders, predictions, split) if graph.num_nodes > BINS else {},
        "mark": columns_of([{"here": 1}]),  # the one row that the mark of a node is drawn from
    }
    if not all_listed:  # the table that is drawn comes first
        tables = {"bins": tables.pop("bins"), **tables}
    names = strip_names(run.chosen_epoch)
    chart = strips_chart(names, graph.class_names, graph.num_nodes, all_listed, not graph.labelled.all())
    text = caption("strips", run=run.index)
    text += caption("shares", bins=number_of_bins(graph.num_classes)) * (graph.num_nodes > BINS)
    strips = Figure("Sorted sequence", chart, tables, text, renderer="canvas")
    rows = np.searchsorted(listed, reasons.window_nodes)
    windows = np.where(reasons.window_nodes < 0, -1, rows)
    of_nodes = "all nodes" if len(chosen) == graph.num_nodes else f"{len(chosen):,} of {graph.num_nodes:,} nodes"
    data: dict[str, Any] = {
        "length": graph.num_nodes,
        "strips": len(names),
        "window": windows.shape[1],
        "classes": list(graph.class_names),
        "colours": list(PALETTE),
        "complete": all_listed,
        "command": f"nlgnn explain {shlex.quote(str(trained.folder.path))} --run {run.index}",
        "first": int(np.searchsorted(listed, chosen[0])),
        "parts": {
            "explained": encode_array(np.searchsorted(listed, chosen)),
            "windows": encode_array(windows),
            **{name: encode_array(getattr(reasons, name)) for name in REASONS},
            "starts": encode_array(starts),
            "neighbours": encode_array(np.searchsorted(listed, neighbours)),
            "degrees": encode_array(degrees),
        },
    }
    return NodeList(strips.title, strips, data, caption("reasons", run=run.index, of_nodes=of_nodes))


def explained_nodes(graph: Graph, predictions: NDArray[np.int64], split: Split, room: int) -> NDArray[np.int64]:
    """Choose the nodes to explain: misclassified test nodes first, then all others at random."""
    lots = np.random.default_rng(0).permutation(graph.num_nodes)
    is_first = (is_wrong(graph, predictions) & split.test)[lots]
    return np.concatenate([lots[is_first], lots[~is_first]])[:room]


def shown_neighbours(
    graph: Graph, nodes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return where each node's list begins, the first few neighbours of all nodes, and the numbers of neighbours."""
    adjacency = graph.undirected_adjacency
    degrees = np.diff(adjacency.indptr)[nodes]
    lists = [
        adjacency.indices[start : start + min(degree, NEIGHBOURS_SHOWN)]
        for start, degree in zip(adjacency.indptr[nodes], degrees, strict=True)
    ]
    starts = np.concatenate([[0], np.cumsum([len(part) for part in lists], dtype=np.int64)])
    return starts, np.concatenate([*lists, np.empty(0, np.int64)]).astype(np.int64), degrees.astype(np.int64)


def _room(model: nn.Module, graph: Graph) -> int:
    """Return the number of nodes whose reasons fit on the page, with the names that they mention."""
    window = 1 + sum(size - 1 for size in kernel_sizes(model))
    bytes_of_name = BYTES_OF_NODE + sum(len(name.encode()) for name in graph.node_names or ()) // graph.num_nodes
    bytes_of_one = 4 * graph.num_classes * (window + 4) + (window + NEIGHBOURS_SHOWN) * (4 + bytes_of_name)
    return max(1, min(graph.num_nodes, BYTES_OF_REASONS // bytes_of_one))


def agreement_rows(graph: Graph, what: str, agreement: NDArray[np.float64]) -> list[dict[str, Any]]:
    """Return the agreement of the graph, of chance, and of runs before and after training, from `[runs, 2]`."""
    stds = agreement.std(0, ddof=1) if len(agreement) > 1 else np.zeros(2)
    before, after = (
        {"mean": float(mean), "low": float(mean - std), "high": float(mean + std)}
        for mean, std in zip(agreement.mean(0), stds, strict=True)
    )
    graph_level, chance = node_homophily(graph), chance_homophily(graph)
    return [
        {"where": "neighbours in the graph, H(G)", "mean": graph_level, "low": graph_level, "high": graph_level},
        {"where": "a random order: chance", "mean": chance, "low": chance, "high": chance},
        {"where": f"{what} before training", **before},
        {"where": f"{what} at the chosen epoch", **after},
    ]


def agreement_figure(title: str, what: str, name: str, graph: Graph, agreement: NDArray[np.float64]) -> Figure:
    """Draw the agreement of labels as bars, above the caption of this name."""
    rows = agreement_rows(graph, what, agreement)
    axis = "share with the node's label"
    chart = bars_chart("where", "mean", axis, len(rows), most=1, form=".3f")
    compared = caption("agreement", runs=len(agreement), s="s" * (len(agreement) != 1))
    return Figure(title, chart, {"rows": columns_of(rows)}, caption(name, compared=compared))


def vote_parts(trained: Trained, graph: Graph, good: Sequence[Run]) -> list[Part]:
    """Return the parts on a model whose nodes vote: the weight of votes in each run, and their agreement."""
    scaled = graph.scale_features(trained.recipe.features)
    rows, agreement = [], []
    for run in good:
        pair = models_before_and_after(trained.factory, scaled, run)
        rows.append(vote_row(run, pair[1]))
        agreement.append([vote_homophily(model, scaled) for model in pair])
    explain = f"nlgnn explain {shlex.quote(str(trained.folder.path))} NODE"
    return [
        votes_section(rows),
        agreement_figure("Label agreement of votes", "votes", "vote-agreement", graph, np.array(agreement)),
        Command("Votes for one node, with weights and labels", explain),
    ]


def vote_row(run: Run, model: NeighbourVote) -> dict[str, str]:
    """Return the learned quantities of the votes in one run."""
    share = SHARES[int(model.share)]
    return {
        "run": str(run.index),
        "weight of votes": f"× {share:g}" if share else ALONE,
        "strength": f"{math.exp(model.space.log_strength.item()):.3g}",
        "temperature": f"{math.exp(model.space.log_temperature.item()):.3g}",
    }


def votes_section(rows: Rows) -> Section:
    """Return the weight of votes in each run as a table."""
    counting = sum(row["weight of votes"] != ALONE for row in rows)
    words = f"Votes count in {counting} of {len(rows)} run{'s' * (len(rows) != 1)}."
    text = caption("vote-weight", shares=", ".join(f"{share:g}" for share in SHARES), tries=VOTES_HAVE_TRIES)
    return Section("Weight of votes", rows, text, words, text_columns=2)


def votes_figures(trained: Trained, graph: Graph, run: Run, split: Split, probabilities: NDArray[Any]) -> list[Figure]:
    """Draw the votes on the first test node that they correct; nothing if there is none in this run."""
    import altair

    model, scaled = trained.factory(), graph.scale_features(trained.recipe.features)
    model.load_state_dict(run.state)
    with evaluating(model), torch.no_grad():
        local = model.embed(*prepare(model, scaled)).argmax(1).numpy()
    corrected = np.flatnonzero(split.test & graph.labelled & (probabilities.argmax(1) == graph.y) & (local != graph.y))
    if not len(corrected):
        return []
    one = explain_node(model, scaled, corrected[0])
    nodes, lines = vote_rows(one)
    chart = votes_chart(altair.NamedData("rows"), altair.NamedData("lines"), graph.class_names, longest_column(nodes))
    text = caption("votes-on-one", run=run.index, node=short(one.name), local=graph.class_names[local[one.node]])
    return [Figure("Votes on one node", chart, {"rows": columns_of(nodes), "lines": columns_of(lines)}, text)]
