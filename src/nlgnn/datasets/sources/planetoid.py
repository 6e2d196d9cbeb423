"""Entries of the Planetoid project: three citation graphs as Python 2 pickles."""

from __future__ import annotations

from nlgnn.datasets.dataset import Dataset, RemoteFile, Statistics, remote_file
from nlgnn.datasets.sources import geom_gcn

BASE = "https://github.com/kimiyoung/planetoid/raw/master/data"
CITATION = (
    "Sen et al., Collective Classification in Network Data, AI Magazine 2008; files: Yang, Cohen, Salakhutdinov, "
    "Revisiting Semi-Supervised Learning with Graph Embeddings, ICML 2016"
)
# The other two parts, x and y, repeat rows of allx and ally.
PARTS = ("allx", "tx", "ally", "ty", "graph", "test.index")


def citation_graph(name: str, statistics: Statistics, *quirks: str) -> Dataset:
    names = [f"ind.{name}.{part}" for part in PARTS]
    files: tuple[RemoteFile, ...] = tuple(remote_file(f"planetoid/{file}", f"{BASE}/{file}") for file in names)
    return Dataset(
        name=name,
        files=files + geom_gcn.split_files(name, geom_gcn.HEAD),
        reader="planetoid",
        statistics=statistics,
        licence="MIT",
        citation=CITATION,
        quirks=(*quirks, geom_gcn.SPLIT_SHARES),
        protocols=("geom-gcn",),
    )


DATASETS = (
    citation_graph(
        "cora",
        Statistics(nodes=2708, edges=5278, features=1433, classes=7, homophily=0.825),
        "The fixed splits use the largest component only: 223 nodes are in no part.",
    ),
    citation_graph(
        "citeseer",
        Statistics(nodes=3327, edges=4552, features=3703, classes=6, homophily=0.706),
        "Fifteen nodes have neither features nor label in the files; as in all public loaders they get a row of zeros "
        "and class 0.",
        "48 nodes are isolated, and count as 0 in H(G).",
        "Fixed splits 4 and 5 use the largest component only: 1207 nodes are in no part.",
    ),
    citation_graph(
        "pubmed",
        Statistics(nodes=19717, edges=44324, features=500, classes=3, homophily=0.792),
        "Features are TF-IDF weights, about 10 percent of them non-zero.",
    ),
)
