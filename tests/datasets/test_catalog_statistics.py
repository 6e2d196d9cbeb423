"""What each loader yields on the real files, against figures that were computed independently of it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from nlgnn.datasets import CATALOG, load_graph
from nlgnn.graph.homophily import node_homophily
from nlgnn.graph.splits import make_splits


class Expected(NamedTuple):
    nodes: int
    lines: int  # columns of edge_index
    edges: int
    isolated: int
    features: int
    classes: int
    homophily: float
    splits: set[tuple[int, int, int]]


EXPECTED = {
    "cora": Expected(2708, 10858, 5278, 0, 1433, 7, 0.825, {(1192, 796, 497)}),
    "citeseer": Expected(3327, 9464, 4552, 48, 3703, 6, 0.706, {(1596, 1065, 666), (1017, 679, 424)}),
    "pubmed": Expected(19717, 88676, 44324, 0, 500, 3, 0.792, {(9463, 6310, 3944)}),
    "chameleon": Expected(2277, 36101, 31371, 0, 2325, 5, 0.247, {(1092, 729, 456)}),
    "squirrel": Expected(5201, 217073, 198353, 0, 2089, 5, 0.217, {(2496, 1664, 1041)}),
    "actor": Expected(7600, 33391, 26659, 0, 932, 5, 0.220, {(3648, 2432, 1520)}),
    "cornell": Expected(183, 298, 277, 0, 1703, 5, 0.111, {(87, 59, 37)}),
    "texas": Expected(183, 325, 279, 0, 1703, 5, 0.057, {(87, 59, 37)}),
    "wisconsin": Expected(251, 515, 450, 0, 1703, 5, 0.155, {(120, 80, 51)}),
    "cornell-pre2022": Expected(183, 298, 277, 0, 1703, 5, 0.301, {(87, 59, 37)}),
    "minesweeper": Expected(10000, 39402, 39402, 0, 7, 2, 0.683, {(5000, 2500, 2500)}),
    "tolokers": Expected(11758, 519000, 519000, 0, 10, 2, 0.634, {(5879, 2939, 2940)}),
    "twitch-de": Expected(9498, 153138, 153138, 0, 3170, 2, 0.596, {(4749, 2374, 2375)}),
    # H over labelled nodes, those without a labelled neighbour counted as 0.
    "cornell5": Expected(18660, 1581554, 790777, 0, 4735, 2, 0.558, set()),
    # Their splits differ in size; see below.
    "chameleon-filtered": Expected(890, 8854, 8854, 0, 2325, 5, 0.244, set()),
    "squirrel-filtered": Expected(2223, 46998, 46998, 0, 2089, 5, 0.190, set()),
}
# The splits with the fewest and the most training nodes.
SMALLEST_AND_LARGEST = {
    "chameleon-filtered": [(409, 287, 194), (440, 268, 182)],
    "squirrel-filtered": [(1047, 726, 450), (1085, 692, 446)],
}


@pytest.mark.parametrize("name", EXPECTED)
def test_statistics(name: str, data_root: Path) -> None:
    graph, dataset, expected = load_graph(name), CATALOG[name], EXPECTED[name]
    assert graph.name == name
    assert graph.directed == dataset.directed
    assert graph.num_nodes == expected.nodes
    assert graph.edge_index.shape == (2, expected.lines)
    assert graph.num_edges == expected.edges
    assert int((np.diff(graph.undirected_adjacency.indptr) == 0).sum()) == expected.isolated
    assert graph.num_features == expected.features
    assert graph.num_classes == expected.classes
    assert round(node_homophily(graph), 3) == expected.homophily
    known = dataset.statistics
    assert (known.nodes, known.edges, known.features) == (expected.nodes, expected.edges, expected.features)
    assert (known.classes, known.homophily) == (expected.classes, expected.homophily)

    assert tuple(graph.splits) == dataset.protocols
    assert make_splits(graph, dataset.default_protocol)
    splits = [split for fixed in graph.splits.values() for split in fixed]
    assert len(splits) == {"twitch-de": 5, "cornell5": 0}.get(name, 10)
    sizes = {(int(s.train.sum()), int(s.val.sum()), int(s.test.sum())) for s in splits}
    if name in SMALLEST_AND_LARGEST:
        assert [min(sizes), max(sizes)] == SMALLEST_AND_LARGEST[name]
    else:
        assert sizes == expected.splits


def test_old_cornell_has_the_features_and_labels_of_texas(data_root: Path) -> None:
    old, texas = load_graph("cornell-pre2022"), load_graph("texas")
    assert (old.x != texas.x).nnz == 0
    assert np.array_equal(old.y, texas.y)


def test_citeseers_missing_nodes_have_no_features_and_class_0(data_root: Path) -> None:
    graph = load_graph("citeseer")
    without_features = np.flatnonzero(np.diff(graph.x.indptr) == 0)
    assert len(without_features) == 15
    assert not graph.y[without_features].any()


def test_damaged_file_is_named_with_its_checksum(
    data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in CATALOG["texas"].files:
        (tmp_path / file.path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file.path).write_bytes((data_root / file.path).read_bytes())
    monkeypatch.setenv("NLGNN_DATA", str(tmp_path))
    load_graph("texas")
    damaged = CATALOG["texas"].files[0]
    (tmp_path / damaged.path).write_bytes((data_root / damaged.path).read_bytes()[:5000])
    with pytest.raises(Exception, match=f"{damaged.path}.*expected {damaged.sha256}"):
        load_graph("texas")
