"""Whether those that a node sees by way of the order agree with it, beside chance, the graph and an untrained model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nlgnn.graph.graph import Graph
from nlgnn.graph.homophily import chance_homophily, node_homophily
from nlgnn.report.columns import columns_of
from nlgnn.report.page import Figure
from nlgnn.report.palette import PALETTE

_BESIDE = (
    "mean over {runs} run{s}, bars one sample standard deviation; beside the share among neighbours in the graph, and "
    "what a random order is expected to have. An order that is no better than chance has found nothing."
)
_ALL_LABELS = "All labels are looked at, also those trained on, and nothing is decided by this."
WINDOW_CAPTION = (
    f"H(Ĝ), the share of nodes within a node's window of the order that have its label: {_BESIDE} {_ALL_LABELS}"
)
VOTES_CAPTION = (
    f"Of what a node hears, by weight, the share of its own label, if all labelled nodes spoke: {_BESIDE} Nodes count "
    f"by how much they hear. {_ALL_LABELS}"
)


def agreement_rows(graph: Graph, what: str, agreement: NDArray[np.float64]) -> list[dict[str, Any]]:
    """`agreement` is `[runs, 2]`: before training and at the chosen epoch."""
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


def agreement_figure(title: str, what: str, caption: str, graph: Graph, agreement: NDArray[np.float64]) -> Figure:
    import altair

    rows = agreement_rows(graph, what, agreement)
    base = altair.Chart(altair.NamedData("rows"))
    y = altair.Y("where:N", sort=None, title=None)
    x = altair.X(
        "mean:Q", title="share with the node's label", scale=altair.Scale(domain=[0, 1]), axis=altair.Axis(tickCount=6)
    )
    tooltip = [altair.Tooltip("where:N"), altair.Tooltip("mean:Q", format=".3f")]
    bars = base.mark_bar(color=PALETTE[4], height={"band": 0.6}).encode(x=x, y=y, tooltip=tooltip)
    errors = base.mark_rule(strokeWidth=2).encode(x=altair.X("low:Q"), x2=altair.X2("high:Q"), y=y)
    text = base.mark_text(align="left", dx=8).encode(
        x=altair.X("high:Q"), y=y, text=altair.Text("mean:Q", format=".3f")
    )
    chart = altair.layer(bars, errors, text).properties(width="container", height=34 * len(rows))
    caption = caption.format(runs=len(agreement), s="s" * (len(agreement) != 1))
    return Figure(title, chart, {"rows": columns_of(rows)}, caption)
