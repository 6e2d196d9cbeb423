"""The published relations of Geom-GCN: what the files hold, and which of them belong to which graph."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from each_of import each_of
from nlgnn.datasets import CATALOG, load_graph
from nlgnn.datasets.formats.geom_gcn import RELATIONS_HEADER as HEADER
from nlgnn.datasets.formats.geom_gcn import SPACES, Space, read_relations
from nlgnn.datasets.load import load_relations, relation_file
from nlgnn.errors import DataError
from nlgnn.graph.graph import Graph

graph_of = cache(load_graph)


class Expected(NamedTuple):
    """Counted by another program."""

    latent: int  # pairs
    symmetric: int  # latent pairs that are there the other way round too
    overlap: int  # latent pairs that are pairs of the graph too
    seconds: int  # distinct second nodes of latent pairs


EXPECTED = {
    ("chameleon", "isomap-released"): Expected(60964, 60964, 10614, 2205),
    ("chameleon", "poincare"): Expected(254, 0, 3, 2),
    ("chameleon", "struc2vec"): Expected(56358, 56358, 1082, 2038),
    ("citeseer", "isomap-released"): Expected(4401, 3798, 466, 1715),
    ("citeseer", "poincare"): Expected(7579, 6, 8, 74),
    ("citeseer", "struc2vec"): Expected(3645, 3576, 6, 1345),
    ("cora", "isomap-released"): Expected(9681, 9496, 742, 1861),
    ("cora", "poincare"): Expected(9566, 2, 17, 60),
    ("cora", "struc2vec"): Expected(5802, 5802, 40, 1489),
    ("cornell", "isomap-released"): Expected(480, 480, 70, 153),
    ("cornell", "poincare"): Expected(241, 0, 35, 9),
    ("cornell", "struc2vec"): Expected(464, 464, 6, 106),
    ("cornell-pre2022", "isomap-released"): Expected(456, 456, 8, 148),
    ("cornell-pre2022", "poincare"): Expected(519, 0, 9, 17),
    ("cornell-pre2022", "struc2vec"): Expected(410, 410, 4, 135),
    ("actor", "isomap-released"): Expected(48254, 48254, 496, 6760),
    ("actor", "poincare"): Expected(1465, 0, 1, 64),
    ("actor", "struc2vec"): Expected(51150, 51150, 100, 6654),
    ("pubmed", "isomap-released"): Expected(74475, 71954, 302, 16476),
    ("pubmed", "poincare"): Expected(6240, 0, 0, 1117),
    ("pubmed", "struc2vec"): Expected(74454, 74454, 6, 13327),
    ("texas", "isomap-released"): Expected(496, 496, 2, 162),
    ("texas", "poincare"): Expected(540, 2, 9, 24),
    ("texas", "struc2vec"): Expected(412, 412, 6, 134),
    ("wisconsin", "isomap-released"): Expected(760, 760, 6, 214),
    ("wisconsin", "poincare"): Expected(503, 2, 13, 12),
    ("wisconsin", "struc2vec"): Expected(690, 690, 10, 188),
}
# Edges, both ways, whose two quadrants are opposite to each other; in all other files all are.
OPPOSITE = {("citeseer", "isomap-released"): 1376, ("pubmed", "isomap-released"): 12916}


def numbers_of(first: np.ndarray, second: np.ndarray, num_nodes: int) -> np.ndarray:
    """Return one number per pair."""
    return first * num_nodes + second


def test_every_file_is_counted() -> None:
    assert EXPECTED.keys() == {(name, space) for name, dataset in CATALOG.items() for space in dataset.relations}
    assert {space for _, space in EXPECTED} == set(SPACES)
    assert all(relation_file(name, space).sha256 for name, space in EXPECTED)


@pytest.mark.parametrize(("name", "space"), sorted({*list(EXPECTED)[::2], *OPPOSITE}))
def test_what_the_files_hold(name: str, space: Space, data_root: Path) -> None:
    graph, expected = graph_of(name), EXPECTED[name, space]
    first, second, latent, quadrant = load_relations(graph, space)
    n = graph.num_nodes
    pairs, turned = numbers_of(first, second, n), numbers_of(second, first, n)
    assert len(np.unique(pairs[latent])) == latent.sum() == expected.latent
    assert np.isin(turned[latent], pairs[latent]).sum() == expected.symmetric
    assert np.isin(pairs[latent], pairs[~latent]).sum() == expected.overlap
    assert len(np.unique(second[latent])) == expected.seconds
    assert (first != second).all()

    # The pairs of the graph are its edges, both ways.
    source, target = graph.edge_index[:, graph.edge_index[0] != graph.edge_index[1]]
    edges = np.unique([numbers_of(source, target, n), numbers_of(target, source, n)])
    assert np.array_equal(np.sort(pairs[~latent]), edges)

    in_order, turned_order = np.argsort(pairs[~latent]), np.argsort(turned[~latent])
    opposite = quadrant[~latent][in_order] == 3 - quadrant[~latent][turned_order]
    assert opposite.sum() == OPPOSITE.get((name, space), len(edges))


@pytest.mark.parametrize("name", ["squirrel", "trial"])
def test_a_graph_without_files(name: str) -> None:
    graph = Graph([[1.0]], np.empty((2, 0), int), [0], name=name)
    with pytest.raises(DataError, match=rf"(?s)space=poincare.*'{name}'.*space=isomap,.*files for texas, "):
        load_relations(graph, "poincare")


def test_old_and_new_cornell_have_their_own_files(data_root: Path) -> None:
    old, new = graph_of("cornell-pre2022"), graph_of("cornell")
    for graph, other in ((old, new), (new, old)):
        with pytest.raises(DataError, match="not those of this graph"):
            load_relations(replace(graph, name=other.name), "poincare")


def test_film_is_actor() -> None:
    assert relation_file("film", "struc2vec") == relation_file("actor", "struc2vec")
    assert relation_file("film", "isomap-released").path.endswith("/outf_nodes_space_relation_film_MDS.txt")


def test_another_graph_of_that_name_is_refused(data_root: Path) -> None:
    graph = graph_of("texas")
    fewer_edges = replace(graph, edge_index=graph.edge_index[:, 5:])
    turned_round = replace(graph, edge_index=graph.num_nodes - 1 - graph.edge_index)
    for other in (fewer_edges, turned_round):
        with pytest.raises(DataError, match=r"(?s)not those of this graph 'texas'.*space=isomap"):
            load_relations(other, "poincare")


def test_a_damaged_file_is_not_taken(data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, file = graph_of("texas"), relation_file("texas", "poincare")
    (tmp_path / file.path).parent.mkdir(parents=True)
    (tmp_path / file.path).write_bytes((data_root / file.path).read_bytes() + b"0,1\tgraph\t0\n")
    monkeypatch.setenv("NLGNN_DATA", str(tmp_path))
    with pytest.raises(DataError, match=f"{file.path}.*expected {file.sha256}"):
        load_relations(graph, "poincare")


def test_a_line_is_two_nodes_a_space_and_a_quadrant(tmp_path: Path) -> None:
    (tmp_path / "relations.txt").write_text(f"{HEADER}\n0,1\tgraph\t3\n0,2\tlatent_space\t1\n1,0\tgraph\t0\n")
    first, second, latent, quadrant = read_relations(tmp_path / "relations.txt")
    assert first.tolist() == [0, 0, 1]
    assert second.tolist() == [1, 2, 0]
    assert latent.tolist() == [False, True, False]
    assert quadrant.tolist() == [3, 1, 0]


@each_of(
    "text",
    [
        "",
        f"{HEADER}\n",
        "0,1\tgraph\t3\n0,1\tgraph\t3\n",
        *(f"{HEADER}\n1,0\tgraph\t0\n{line}\n" for line in ["0,1\tgraph\t4", "0,-1\tgraph\t3", "0\tgraph\t3", "0,1"]),
        *(f"{HEADER}\n{line}\n" for line in ["0,1\tplane\t3", "0,1,2,3", "0,x\tgraph\t1", "0,1\tgraph"]),
    ],
)
def test_wrong_lines_are_refused(text: str, data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "relations.txt"
    path.write_text(text)
    monkeypatch.setattr("nlgnn.datasets.load.fetch_file", lambda file: path)
    with pytest.raises(DataError, match=str(path)):
        load_relations(graph_of("texas"), "poincare")
