"""Entry of the Open Graph Benchmark."""

from __future__ import annotations

from nlgnn.datasets.dataset import Dataset, RemoteFile, Statistics

DATASETS = (
    Dataset(
        name="ogbn-arxiv",
        # The address is that of OGB's own list (master.csv); no copy was at hand to take the checksum.
        files=(
            RemoteFile(
                "ogb/arxiv.zip", "https://snap.stanford.edu/ogb/data/nodeproppred/arxiv.zip", folder="ogb/arxiv"
            ),
        ),
        reader="ogb",
        statistics=Statistics(nodes=169343, edges=None, features=128, classes=40, measured=False),
        licence="ODC-BY",
        citation="Hu et al., Open Graph Benchmark: Datasets for Machine Learning on Graphs, NeurIPS 2020; original: "
        "Wang et al., Microsoft Academic Graph: When Experts Are Not Enough, Quantitative Science Studies 2020",
        quirks=(
            "One split by time: papers until 2017 train, those of 2018 validate, later ones test.",
            "The publishers count 1166243 directed citations.",
            "No copy was at hand when this was written: sizes are the authors', and there is no checksum.",
        ),
        protocols=("ogb",),
        default_protocol="ogb",
        directed=True,
    ),
)
