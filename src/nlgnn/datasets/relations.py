"""The relations that the authors of Geom-GCN published: pairs of neighbours, and in which quadrant one sees the other.

A file has a line a pair: `node1,node2 <tab> graph or latent_space <tab> 0 to 3`. Their latent spaces are Isomap (MDS in
the files), the Poincaré disc and struc2vec; the programs that computed them were not published.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nlgnn.datasets.catalog import ALIASES
from nlgnn.datasets.dataset import RemoteFile, remote_file
from nlgnn.datasets.fetch import fetch_file
from nlgnn.datasets.readers.reading import reading
from nlgnn.datasets.sources.geom_gcn import BEFORE_JULY_2022, HEAD
from nlgnn.errors import DataError
from nlgnn.graph.graph import Graph

Space = Literal["isomap-released", "poincare", "struc2vec"]
NAME_IN_FILES = {"isomap-released": "MDS", "poincare": "poincare", "struc2vec": "struc2vec"}
HEADER = "node1,node2\tspace\trelation_type"

# For each graph its name in the files, where they come from and where they lie here. No copy of Squirrel's was at hand.
GRAPHS = {
    name: (name, HEAD, "geom-gcn") for name in ("texas", "cornell", "wisconsin", "cora", "citeseer", "pubmed")
} | {
    "actor": ("film", HEAD, "geom-gcn"),
    "chameleon": ("chameleon", BEFORE_JULY_2022, "geom-gcn"),
    "cornell-pre2022": ("cornell", BEFORE_JULY_2022, "geom-gcn/cornell_pre2022"),
}


class Relations(NamedTuple):
    """Ordered pairs of nodes; a pair may be there twice, once for each neighbourhood."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    latent: NDArray[np.bool_]  # neighbours in the latent space; else in the graph
    quadrant: NDArray[np.int64]  # 0 to 3; 3 - q is opposite to q


def relation_file(name: str, space: Space) -> RemoteFile:
    """The file of a named graph."""
    name = ALIASES.get(name, name)
    if name not in GRAPHS:
        raise DataError(
            f"no relation file (space={space}) is known for graph {name!r}.",
            f"Take space=isomap, which is computed for any graph. There are files for {', '.join(GRAPHS)}.",
        )
    name_in_files, base, folder = GRAPHS[name]
    path = f"structural_neighborhood/outf_nodes_space_relation_{name_in_files}_{NAME_IN_FILES[space]}.txt"
    return remote_file(f"{folder}/{path}", f"{base}/{path}")


def load_relations(graph: Graph, space: Space) -> Relations:
    """The published relations of a graph, which is found by its name: the file, fetched, verified and fitting."""
    path = fetch_file(relation_file(graph.name, space))
    with reading(path):
        relations = read_relations(path)
        own = graph.undirected_adjacency.tocoo().coords
        edges = (relations.second[~relations.latent], relations.first[~relations.latent])
        if not _same_pairs(edges, own) or max(relations.first.max(), relations.second.max()) >= graph.num_nodes:
            raise DataError(
                f"its relations are not those of this graph {graph.name!r}.",
                "Take the graph as it was published, or space=isomap, which is computed for any graph.",
            )
    return relations


def read_relations(path: Path) -> Relations:
    header, *lines = path.read_text().splitlines() or [""]
    if header != HEADER or not lines:
        raise DataError(f"it does not begin with {HEADER!r} and a line a pair.", "Replace the file by a fresh copy.")
    text = "\n".join(lines).replace("\tgraph\t", ",0,").replace("\tlatent_space\t", ",1,")
    table = np.loadtxt(text.split("\n"), dtype=np.int64, delimiter=",", ndmin=2)
    if table.shape[1] != 4 or table.min() < 0 or table[:, 2].max() > 1 or table[:, 3].max() > 3:
        raise DataError("not every line is two nodes, a space and a number from 0 to 3.", "Replace it by a fresh copy.")
    first, second, latent, quadrant = table.T.copy()
    return Relations(first, second, latent.astype(bool), quadrant)


def _same_pairs(one: tuple[NDArray[np.int64], ...], other: tuple[NDArray[np.int32], ...]) -> bool:
    """Whether two lists hold the same pairs, each once."""
    ours, theirs = (np.array(pairs)[:, np.lexsort(pairs)] for pairs in (one, other))
    return np.array_equal(ours, theirs)
