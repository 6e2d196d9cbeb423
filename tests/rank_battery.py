"""The check of the battery that a model over several processes gives what one process gives."""

from __future__ import annotations

import pytest
from torch import Tensor

from battery import Case, assert_close, logits
from battery_graphs import random_graph, split_of
from nlgnn.nn.kernels.ranks import sharing
from nlgnn.training.processes import part_of_graph
from nlgnn.training.replica import Run
from rank_processes import on_ranks


def check_over_ranks(case: Case) -> None:
    """Two processes that share the nodes give the logits of one, and train like one in single precision."""
    graph = random_graph()
    model, split = case.model(graph), split_of(graph)
    if not getattr(model, "over_ranks", False):
        pytest.skip(f"{case.system} is trained in one process")

    def in_rank() -> tuple[Tensor, Run]:
        part, ranks = part_of_graph(lambda: graph)
        with sharing(ranks):
            return logits(case.model(part), part), case.fit(part, split)

    whole = case.fit(graph, split)
    for found, run in on_ranks(2, in_rank):
        assert_close(found, logits(model, graph))
        for curve, values in whole.curves.items():
            assert run.curves[curve] == pytest.approx(values, rel=1e-3), curve
