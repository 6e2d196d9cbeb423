"""Whether those that a node sees agree with it: figures stand beside chance, the graph and the beginning."""

from __future__ import annotations

import numpy as np
import pytest
from report_samples import easy_graph

from nlgnn.graph.homophily import chance_homophily, node_homophily
from nlgnn.report.figures.order import agreement_rows

GRAPH = easy_graph()


def test_homophily_of_the_order_stands_beside_chance_the_graph_and_the_beginning() -> None:
    rows = agreement_rows(GRAPH, "the order", np.array([[0.3, 0.5], [0.4, 0.9]]))
    level, chance, before, after = rows
    assert (level["mean"], chance["mean"]) == (node_homophily(GRAPH), chance_homophily(GRAPH))
    assert (before["mean"], after["mean"]) == pytest.approx((0.35, 0.7))
    std = np.std([0.5, 0.9], ddof=1)
    assert (after["low"], after["high"]) == pytest.approx((0.7 - std, 0.7 + std))
    alone = agreement_rows(GRAPH, "the order", np.array([[0.3, 0.5]]))
    assert [row["low"] for row in alone] == [row["mean"] for row in alone]
