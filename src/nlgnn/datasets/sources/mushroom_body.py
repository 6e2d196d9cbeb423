"""Entries of the two graphs that ship with the package."""

from __future__ import annotations

from nlgnn.datasets.dataset import Dataset, Statistics


def mushroom_body(side: str, statistics: Statistics) -> Dataset:
    return Dataset(
        name=f"mushroom-body-{side}",
        files=(),  # packaged: nothing to download
        reader="packaged",
        statistics=statistics,
        licence="MIT",
        citation="Eichler et al., The complete connectome of a learning and memory centre in an insect brain, "
        "Nature 2017; table from graspologic 3.4.4",
        quirks=(
            f"Neurons of the {side} memory centre of a fruit-fly larva; an edge is one synapse or more.",
            "There are no node features: each neuron has its own column (the identity matrix).",
            "Used without direction: incoming synapses alone would give away the projection neurons.",
        ),
    )


DATASETS = (
    mushroom_body("left", Statistics(nodes=209, edges=5559, features=209, classes=4, homophily=0.341)),
    mushroom_body("right", Statistics(nodes=213, edges=5625, features=213, classes=4, homophily=0.350)),
)
