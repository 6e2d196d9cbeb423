"""The entry of the graph that is made by rule, on the machine that asks for it."""

from __future__ import annotations

from nlgnn.datasets.dataset import Dataset, Statistics

DATASETS = (
    Dataset(
        name="patents-like",
        files=(),  # made, not downloaded
        reader="made",
        statistics=Statistics(nodes=2923922, edges=13975788, features=269, classes=5, homophily=0.091),
        licence="MIT",
        citation="nlgnn.datasets.patents_like_graph, of the shape of snap-patents: Lim et al., Large Scale Learning on "
        "Non-Homophilous Graphs: New Benchmarks and Strong Simple Methods, NeurIPS 2021",
        quirks=(
            "Synthetic, to try what a machine can hold: made when first loaded, and kept in the cache (3.2 GB).",
            "Degrees follow a power law; neighbours are mostly of the two classes next to a node's own in a circle.",
            "Features stay on disk: the first layer reads them from there.",
        ),
    ),
)
