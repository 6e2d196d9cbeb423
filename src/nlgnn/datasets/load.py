"""Loading of named graphs and of their published relations."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy import sparse

from nlgnn.datasets.catalog import ALIASES, CATALOG, Dataset, RemoteFile, describe
from nlgnn.datasets.download import cache_folder, fetch_file
from nlgnn.datasets.synthetic import patents_like_graph
from nlgnn.errors import DataError
from nlgnn.files import write_whole_folder
from nlgnn.graph.graph import Graph

if TYPE_CHECKING:
    from nlgnn.datasets.formats.geom_gcn import Relations, Space

NEURON_TYPES = {"K": "Kenyon", "P": "Projection", "O": "Output", "I": "Input"}
MADE_FOLDER = "patents-like-1"  # raise the number whenever the generator changes


def load_graph(name: str, *, allow_unverified: bool = False) -> Graph:
    """Return a named graph with the fixed splits that come with it.

    Files are searched for in the folder that the environment variable NLGNN_DATA names, then in the cache, and are
    otherwise downloaded.

    Args:
        name: A name in `CATALOG`, in any case, with `_` or `-`.
        allow_unverified: Accept files whose checksum is not known. Their checksum is printed on standard error.

    Returns:
        The graph.

    Raises:
        DataError: If there is no such graph, or a file is missing, damaged or of another version.

    Example:
        >>> load_graph("mushroom-body")
        Graph('mushroom-body-left': 209 nodes, 5559 edges, 209 features, 4 classes)
    """
    dataset = describe(name)
    if dataset.name in BUILTIN_GRAPHS:
        return BUILTIN_GRAPHS[dataset.name]()
    from nlgnn.datasets.formats import READERS

    paths = [fetch_file(file, allow_unverified=allow_unverified) for file in dataset.files]
    graph = READERS[dataset.reader](*paths, name=dataset.name, directed=dataset.directed)
    check_sizes(graph, dataset)
    return graph


def check_sizes(graph: Graph, dataset: Dataset) -> None:
    """Raise an error unless the graph has the sizes in the catalogue: unverified files may hold another graph."""
    found = (graph.num_nodes, graph.num_features, graph.num_classes)
    known = dataset.statistics
    if found != (known.nodes, known.features, known.classes):
        raise DataError(
            f"The files of {dataset.name} hold {found[0]} nodes, {found[1]} features and {found[2]} classes, but the "
            f"catalogue says {known.nodes}, {known.features} and {known.classes}.",
            f"Compare them with the files at {', '.join(file.url for file in dataset.files)}.",
        )


def relation_file(name: str, space: Space) -> RemoteFile:
    """Return the file of the relations of a named graph in a latent space."""
    known = {dataset.name: dataset.relations for dataset in CATALOG.values() if dataset.relations}
    name = ALIASES.get(name, name)
    if name not in known:
        raise DataError(
            f"No relation file (space={space}) is known for graph {name!r}.",
            f"Use space=isomap, which is computed for any graph. There are files for {', '.join(known)}.",
        )
    return known[name][space]


def load_relations(graph: Graph, space: Space) -> Relations:
    """Return the relations that the authors of Geom-GCN published for a graph.

    Args:
        graph: The graph, whose files are found by its name.
        space: The latent space.

    Returns:
        The relations, verified and compared with the edges of the graph.

    Raises:
        DataError: If there is no file for this graph, or the file belongs to another graph.
    """
    from nlgnn.datasets.formats.common import reading
    from nlgnn.datasets.formats.geom_gcn import read_relations

    path = fetch_file(relation_file(graph.name, space))
    with reading(path):
        relations = read_relations(path)
        in_file = np.stack([relations.second, relations.first])[:, ~relations.latent]
        in_graph = np.stack(graph.undirected_adjacency.tocoo().coords)
        largest = max(relations.first.max(), relations.second.max())
        same = np.array_equal(in_file[:, np.lexsort(in_file)], in_graph[:, np.lexsort(in_graph)])
        if not same or largest >= graph.num_nodes:
            raise DataError(
                f"The relations are not those of this graph {graph.name!r}.",
                "Use the graph as it was published, or space=isomap, which is computed for any graph.",
            )
    return relations


def mushroom_body(side: Literal["left", "right"] = "left") -> Graph:
    """Return the memory centre of a fruit-fly larva, whose labels are neuron types.

    `edge_index` runs from the sending to the receiving neuron, but the graph is undirected: projection neurons receive
    from no neuron of this graph, so that the direction alone would reveal their label.

    Args:
        side: The side of the brain.

    Returns:
        The graph.

    Example:
        >>> mushroom_body("right").class_names
        ('Kenyon', 'Projection', 'Output', 'Input')
    """
    path = Path(__file__).parent / "data" / f"mushroom-body-{side}.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split(",") for line in file]
    codes = list(NEURON_TYPES)
    synapses = np.array([row[1:] for row in rows], dtype=np.int64)  # [num_neurons, num_neurons]
    return Graph(
        x=sparse.eye_array(len(rows), dtype=np.float32, format="csr"),
        edge_index=np.stack(synapses.nonzero()),
        y=np.array([codes.index(row[0]) for row in rows]),
        directed=False,
        name=f"mushroom-body-{side}",
        class_names=tuple(NEURON_TYPES.values()),
    )


def patents_like() -> Graph:
    """Return the graph patents-like, generated on first use; later calls read it from the cache."""
    from nlgnn.datasets.formats.common import reading, reading_npz

    folder = cache_folder() / "made" / MADE_FOLDER

    def generate(part: Path) -> None:
        graph = patents_like_graph(features_path=part / "features.npy")
        np.savez(part / "graph.npz", edge_index=graph.edge_index.astype(np.int32), y=graph.y.astype(np.int8))

    try:
        if not folder.is_dir():
            write_whole_folder(folder, generate)
    except OSError as error:
        if not folder.is_dir():  # another process may have been faster
            raise DataError(
                f"{folder} cannot be written: {error.strerror or error}.",
                "Free some space, or set NLGNN_CACHE to another folder.",
            ) from error
    with reading_npz(folder / "graph.npz") as arrays:
        edge_index, y = arrays["edge_index"], arrays["y"]
    with reading(folder / "features.npy"):
        x = np.load(folder / "features.npy", mmap_mode="r")
    return Graph(x, edge_index, y, name="patents-like")


BUILTIN_GRAPHS: dict[str, Callable[[], Graph]] = {
    "mushroom-body-left": partial(mushroom_body, "left"),
    "mushroom-body-right": partial(mushroom_body, "right"),
    "patents-like": patents_like,
}
