"""Count test nodes that have a training node with the same neighbours, and how often that node has the same label.

    NLGNN_DATA=… python tools/measure_duplicates.py

Mean over the ten public splits. Neighbours are those that edges lead to; for graphs without directions, all of them.
Nodes without neighbours are not counted as duplicates.
"""

from __future__ import annotations

import numpy as np

from nlgnn import Graph, load_graph, make_splits

CASES = {
    "chameleon": "geom-gcn",
    "squirrel": "geom-gcn",
    "chameleon-filtered": "heterophilous",
    "squirrel-filtered": "heterophilous",
}


def neighbour_sets(graph: Graph) -> list[bytes]:
    """Return the neighbours of each node as bytes that can be compared."""
    adjacency = graph.directed_adjacency if graph.directed else graph.undirected_adjacency
    rows = np.split(adjacency.sorted_indices().indices, adjacency.indptr[1:-1])
    return [row.tobytes() for row in rows]


def duplicates(graph: Graph, protocol: str) -> tuple[float, float]:
    """Return the share of test nodes with such a training node, and how often its label is right."""
    sets, shares, right = neighbour_sets(graph), [], []
    for split in make_splits(graph, protocol, runs=10):
        labels: dict[bytes, list[int]] = {}
        for node in np.flatnonzero(split.train):
            labels.setdefault(sets[node], []).append(int(graph.y[node]))
        tested = np.flatnonzero(split.test)
        found = [node for node in tested if sets[node] and sets[node] in labels]
        shares.append(len(found) / len(tested))
        right += [np.bincount(labels[sets[node]]).argmax() == graph.y[node] for node in found]
    return float(np.mean(shares)), float(np.mean(right))


def main() -> None:
    """Print one line per graph."""
    for name, protocol in CASES.items():
        share, right = duplicates(load_graph(name), protocol)
        print(f"{name}: {share:.1%} of test nodes have a training node with the same neighbours, {right:.0%} its label")


if __name__ == "__main__":
    main()
