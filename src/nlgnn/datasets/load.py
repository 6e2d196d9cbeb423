"""From a name to a graph."""

from __future__ import annotations

from nlgnn.datasets.builtin import BUILTIN_GRAPHS
from nlgnn.datasets.catalog import describe
from nlgnn.datasets.dataset import Dataset
from nlgnn.datasets.fetch import fetch
from nlgnn.errors import DataError
from nlgnn.graph.graph import Graph


def load_graph(name: str, *, allow_unverified: bool = False) -> Graph:
    """The named graph, with the fixed splits that come with it.

    Files are looked for in the folder that NLGNN_DATA names, then in the cache, then downloaded.

    Args:
        name: one of `CATALOG`, in any case, with `_` or `-`.
        allow_unverified: also take files whose checksum is not known; their hash goes to standard error.
    """
    dataset = describe(name)
    if dataset.name in BUILTIN_GRAPHS:
        return BUILTIN_GRAPHS[dataset.name]()
    from nlgnn.datasets.readers import READERS

    paths = fetch(dataset, allow_unverified=allow_unverified)
    graph = READERS[dataset.reader](*paths, name=dataset.name, directed=dataset.directed)
    check_sizes(graph, dataset)
    return graph


def check_sizes(graph: Graph, dataset: Dataset) -> None:
    """A file without a checksum may be of the right format and yet of another graph."""
    found = (graph.num_nodes, graph.num_features, graph.num_classes)
    known = dataset.statistics
    if found != (known.nodes, known.features, known.classes):
        raise DataError(
            f"The files of {dataset.name} hold {found[0]} nodes, {found[1]} features and {found[2]} classes, but the "
            f"catalogue says {known.nodes}, {known.features} and {known.classes}.",
            f"Compare them with what {', '.join(file.url for file in dataset.files)} gives.",
        )
