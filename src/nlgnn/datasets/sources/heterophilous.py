"""Entries of the heterophilous-graphs project: one npz file a graph, ten splits inside."""

from __future__ import annotations

from typing import Literal

from nlgnn.datasets.dataset import Dataset, Statistics, remote_file
from nlgnn.datasets.sources.geom_gcn import WIKIPEDIA

REPOSITORY = "https://github.com/yandex-research/heterophilous-graphs/raw"
HEAD = f"{REPOSITORY}/main/data"  # PyG's address
# For the files that PyG does not know.
PINNED = f"{REPOSITORY}/a431395582e929d88271309716bea4fe24ce6318/data"
PROJECT = (
    "Platonov et al., A Critical Look at the Evaluation of GNNs under Heterophily: Are We Really Making Progress?, "
    "ICLR 2023"
)
TWO_CLASSES = "Two classes of unequal size: the authors report ROC-AUC instead of accuracy."
UNSEEN = "No copy was at hand when this was written: sizes are the authors', and there is no checksum."


def npz_graph(
    name: str,
    statistics: Statistics,
    *quirks: str,
    base: str = HEAD,
    citation: str = PROJECT,
    metric: Literal["accuracy", "roc-auc"] = "accuracy",
) -> Dataset:
    file_name = f"{name.replace('-', '_')}.npz"
    return Dataset(
        name=name,
        files=(remote_file(f"yandex-heterophilous/{file_name}", f"{base}/{file_name}"),),
        reader="heterophilous",
        statistics=statistics,
        licence="MIT",
        citation=citation,
        quirks=quirks,
        protocols=("heterophilous",),
        default_protocol="heterophilous",
        metric=metric,
    )


FILTERED = f"{PROJECT}; original: {WIKIPEDIA}"
DATASETS = (
    npz_graph(
        "chameleon-filtered",
        Statistics(nodes=890, edges=8854, features=2325, classes=5, homophily=0.244),
        "Chameleon without its duplicate nodes, made undirected; the splits are its own and differ in size.",
        base=PINNED,
        citation=FILTERED,
    ),
    npz_graph(
        "squirrel-filtered",
        Statistics(nodes=2223, edges=46998, features=2089, classes=5, homophily=0.190),
        "Squirrel without its duplicate nodes, made undirected; the splits are its own and differ in size.",
        base=PINNED,
        citation=FILTERED,
    ),
    npz_graph(
        "minesweeper",
        Statistics(nodes=10000, edges=39402, features=7, classes=2, homophily=0.683),
        "Synthetic: a 100 by 100 board, each cell joined to its eight neighbours; is there a mine?",
        TWO_CLASSES,
        metric="roc-auc",
    ),
    npz_graph(
        "tolokers",
        Statistics(nodes=11758, edges=519000, features=10, classes=2, homophily=0.634),
        "Workers joined where they worked on one task; was the worker banned?",
        TWO_CLASSES,
        metric="roc-auc",
    ),
    npz_graph(
        "roman-empire",
        Statistics(nodes=22662, edges=32927, features=300, classes=18, measured=False),
        "Words of one long article, joined where they follow or depend on each other: almost a chain.",
        UNSEEN,
    ),
    npz_graph(
        "amazon-ratings",
        Statistics(nodes=24492, edges=93050, features=300, classes=5, measured=False),
        "Products joined where they are bought together; classes are mean ratings.",
        UNSEEN,
    ),
    npz_graph(
        "questions",
        Statistics(nodes=48921, edges=153540, features=301, classes=2, measured=False),
        "Users joined where one answered the other; did the user stay active?",
        TWO_CLASSES,
        UNSEEN,
        metric="roc-auc",
    ),
)
