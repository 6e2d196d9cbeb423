"""The demonstration: NLGCN and its controls on the graph that ships with the package."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nlgnn.analysis import SortedSequence, kernel_sizes, order_before_and_after, reconnected_homophily
from nlgnn.datasets import load_graph
from nlgnn.experiments.compare import with_controls
from nlgnn.graph.graph import Graph
from nlgnn.training.train import Plan, Trained, train

GRAPH, MODEL, OPTIONS = "mushroom-body", "nlgcn", {"epochs": 500}


class DemoResult(NamedTuple):
    """What the demonstration shows; the sequences are those of the first run."""

    graph: Graph
    trained: list[tuple[str, Trained]]
    sequences: dict[str, SortedSequence]
    kernels: list[int]

    def strips(self) -> dict[str, tuple[NDArray[np.int64], float]]:
        """Labels along each order, and the share of its neighbours there that a node agrees with."""
        return {
            title: (sequence.labels, reconnected_homophily(sequence.nodes, self.graph.y, self.kernels))
            for title, sequence in self.sequences.items()
        }


def run_demo(out: Path, tell: Callable[[str], None] = lambda _: None) -> DemoResult:
    graph = load_graph(GRAPH)
    first_folder = out / f"{datetime.now():%Y%m%d-%H%M%S}-{graph.name}-{MODEL}"
    trained = []
    for number, variant in enumerate(with_controls(MODEL, OPTIONS)):
        tell(f"training {variant.label} on {graph.name}")
        plan = Plan(graph.name, variant.system, options=variant.options)
        # Names that go on from the first one, by which a report finds what was trained beside it.
        folder = first_folder.with_name(f"{first_folder.name}-{variant.slug}") if number else first_folder
        trained.append((variant.label, train(plan, graph, folder)))
    main = trained[0][1]
    first = next(run for run in main.runs if run.failure is None)
    scaled = graph.scale_features(main.recipe.features)
    before, after = order_before_and_after(main.factory, scaled, first)
    sequences = {"before training": before, f"after training (epoch {first.chosen_epoch})": after}
    return DemoResult(graph, trained, sequences, kernel_sizes(main.factory()))
