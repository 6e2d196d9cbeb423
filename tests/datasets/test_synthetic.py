"""The planted graph: what its order reveals, whichever model looks at it. And the one like snap-patents."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from each_of import each_of
from nlgnn.datasets import load, load_graph, patents_like_graph, planted_order_graph, planted_roles_graph, synthetic
from nlgnn.errors import DataError, OptionError
from nlgnn.graph import features
from nlgnn.graph.descriptions import unit_rows
from nlgnn.graph.graph import Graph
from nlgnn.graph.homophily import compatibility_matrix, edge_homophily, node_homophily


def window_accuracy(graph: Graph, score: np.ndarray, width: int = 9) -> float:
    """Sort by the score, average the values in a window, take the sign."""
    order = np.argsort(score, kind="stable")
    means = np.convolve(graph.x[order, 1], np.ones(width) / width, mode="same")
    return float(((means > 0) == graph.y[order]).mean())


@pytest.mark.parametrize("seed", range(3))
def test_only_the_order_of_the_keys_helps(seed: int) -> None:
    graph = planted_order_graph(seed=seed)
    key = graph.x[:, 0]
    assert graph.num_nodes == 3008
    assert np.bincount(graph.y).tolist() == [1504, 1504]
    assert window_accuracy(graph, key, width=1) == pytest.approx(0.70, abs=0.025)
    assert window_accuracy(graph, key) > 0.87
    random_order = np.random.default_rng(seed).random(graph.num_nodes)
    assert window_accuracy(graph, random_order) == pytest.approx(0.55, abs=0.05)
    assert window_accuracy(graph, np.arange(graph.num_nodes)) < 0.6  # the numbering tells nothing
    assert node_homophily(graph) == pytest.approx(0.5, abs=0.03)  # nor do the edges
    assert abs(np.corrcoef(key, graph.y)[0, 1]) < 0.25  # nor does the key itself, in a straight line


@pytest.mark.parametrize("seed", range(3))
def test_a_role_is_known_by_its_links_and_by_nothing_else(seed: int) -> None:
    graph = planted_roles_graph(seed=seed)
    rows = graph.directed_adjacency.toarray()
    assert graph.num_nodes == 3008
    assert np.bincount(graph.y).tolist() == [1504, 1504]
    assert len(np.unique(rows, axis=0)) == graph.num_nodes  # no duplicates
    cosines = unit_rows(rows) @ unit_rows(rows).T
    np.fill_diagonal(cosines, -1)
    nearest = cosines.argmax(1)
    assert (graph.y[nearest] == graph.y).mean() > 0.95
    assert (rows[np.arange(3008), nearest] > 0).mean() < 0.02  # nodes of a role are not linked
    assert node_homophily(graph) == pytest.approx(0.5, abs=0.03)
    assert ((graph.x.mean(1) > 0) == graph.y).mean() == pytest.approx(0.69, abs=0.03)
    around = rows @ graph.x.mean(1)
    assert ((around > np.median(around)) == graph.y).mean() == pytest.approx(0.5, abs=0.05)


def test_more_random_links_hide_the_role() -> None:
    def found(noise_links: int) -> float:
        graph = planted_roles_graph(num_roles=16, noise_links=noise_links)
        rows = graph.directed_adjacency.toarray()
        cosines = unit_rows(rows) @ unit_rows(rows).T
        np.fill_diagonal(cosines, -1)
        return float((graph.y[cosines.argmax(1)] == graph.y).mean())

    assert found(0) == 1
    assert found(0) > found(40) > found(160)
    assert planted_roles_graph(seed=1).fingerprint == planted_roles_graph(seed=1).fingerprint


@pytest.mark.parametrize(
    "sizes", [{"num_roles": 1}, {"links": 0}, {"links": 13}, {"num_hubs": 48}, {"noise_links": -1}, {"signal": -0.1}]
)
def test_impossible_roles_are_refused(sizes: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="cannot exist"):
        planted_roles_graph(**sizes)


def test_without_noise_the_value_is_the_label() -> None:
    graph = planted_order_graph(num_groups=6, group_size=4, noise=0)
    assert window_accuracy(graph, graph.x[:, 0], width=1) == 1
    assert {len(np.unique(graph.y[graph.x[:, 0] == key])) for key in graph.x[:, 0]} == {1}


def test_seed_decides() -> None:
    assert planted_order_graph(seed=1).fingerprint == planted_order_graph(seed=1).fingerprint
    assert planted_order_graph(seed=1).fingerprint != planted_order_graph(seed=2).fingerprint


def test_impossible_sizes() -> None:
    with pytest.raises(OptionError, match="num_groups=1"):
        planted_order_graph(num_groups=1)


@each_of(("num_nodes", "num_edges", "num_classes"), [(4000, 19000, 5), (4001, 7, 3), (60, 442, 2), (300, 0, 5)])
def test_patents_like_sizes_are_exact(num_nodes: int, num_edges: int, num_classes: int) -> None:
    graph = patents_like_graph(num_nodes, num_edges, 6, num_classes)
    assert (graph.num_nodes, graph.num_edges, graph.num_features) == (num_nodes, num_edges, 6)
    assert graph.edge_index.shape == (2, num_edges)  # none of them twice, in either direction, and no loops
    assert graph.num_classes == num_classes
    assert np.ptp(np.bincount(graph.y)) <= 1


def test_patents_like_neighbours_are_informative_and_of_other_classes() -> None:
    graph = patents_like_graph(20_000, 95_000, 2)
    circle = np.array([1, 4, 1, 1, 4]) / 11
    expected = np.stack([np.roll(circle, shift) for shift in range(5)])
    np.testing.assert_allclose(compatibility_matrix(graph), expected, atol=0.015)
    assert edge_homophily(graph) < 0.11
    assert abs(np.corrcoef(np.arange(20_000), graph.y)[0, 1]) < 0.03  # the numbering tells nothing


def test_patents_like_degrees_follow_a_power_law() -> None:
    graph = patents_like_graph(50_000, 240_000, 1)
    degree = np.diff(graph.undirected_adjacency.indptr)
    assert 40 < degree.max() / degree.mean() < 110
    # The share of nodes above a degree falls as its square.
    shares = [(degree > bound).mean() for bound in (20, 40, 80, 160)]
    assert [3.2 < more / fewer < 5.5 for more, fewer in pairwise(shares)] == [True] * 3
    assert abs(np.corrcoef(np.arange(50_000), degree)[0, 1]) < 0.03


def test_patents_like_features_tell_about_half_of_the_classes() -> None:
    graph = patents_like_graph(6000, 10)
    x, half = graph.x, 3000
    means = np.stack([x[:half][graph.y[:half] == label].mean(0) for label in range(5)])
    distance = ((x[half:, None] - means) ** 2).sum(2)
    assert 0.38 < (distance.argmin(1) == graph.y[half:]).mean() < 0.6
    assert x.std() == pytest.approx(1, abs=0.01)


def test_patents_like_seed_decides_and_chunks_do_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def make(**options: Any) -> Graph:
        return patents_like_graph(500, 1200, 7, **options)

    first = make()
    assert make(seed=1).fingerprint != first.fingerprint
    monkeypatch.setattr(features, "CHUNK_BYTES", 4 * 7 * 33)
    assert make().fingerprint == first.fingerprint
    stays = make(features_path=tmp_path / "x.npy")
    assert isinstance(stays.x, features.FeaturesOnDisk)
    assert stays.fingerprint == first.fingerprint
    assert np.array_equal(np.load(tmp_path / "x.npy"), first.x)
    assert [path.name for path in tmp_path.iterdir()] == ["x.npy"]


def stop_in_the_middle(*arguments: Any) -> Any:
    yield 0, np.zeros((1, 3), np.float32)
    raise OSError(28, "No space left on device")


def test_half_of_the_features_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.npy").write_text("before")
    monkeypatch.setattr(synthetic, "_noisy_means", stop_in_the_middle)
    with pytest.raises(OSError, match="No space"):
        patents_like_graph(50, 60, 3, features_path=tmp_path / "x.npy")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("x.npy", "before")]


@each_of("wrong", [{"num_classes": 1}, {"num_nodes": 4}, {"num_edges": 613}, {"num_features": 0}], ids=str)
def test_patents_like_impossible_sizes(wrong: dict[str, int]) -> None:
    sizes = {"num_nodes": 70, "num_edges": 600, "num_features": 1} | wrong
    with pytest.raises(OptionError, match="=".join(map(str, *wrong.items()))):
        patents_like_graph(**sizes)


@pytest.fixture
def small_patents(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The named graph, but small; the list says where features were written."""
    written: list[Path] = []

    def make(features_path: Path) -> Graph:
        written.append(features_path)
        return patents_like_graph(50, 60, 3, features_path=features_path)

    monkeypatch.setattr(load, "patents_like_graph", make)
    return written


def test_the_named_graph_is_made_once_and_its_features_stay_on_disk(small_patents: list[Path]) -> None:
    first, second = load_graph("patents-like"), load_graph("patents_like")
    assert len(small_patents) == 1
    assert isinstance(second.x, features.FeaturesOnDisk)
    assert second.name == "patents-like"
    assert first.fingerprint == second.fingerprint == patents_like_graph(50, 60, 3).fingerprint


def test_half_of_the_named_graph_is_no_graph(
    small_patents: list[Path], empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", lambda *_, **__: list(stop_in_the_middle()))
        with pytest.raises(DataError, match=r"patents-like-1 cannot be written: No space left on device"):
            load_graph("patents-like")
    assert list(empty_cache.rglob("*")) == []
    assert load_graph("patents-like").num_nodes == 50


def test_a_damaged_named_graph_is_named(small_patents: list[Path], empty_cache: Path) -> None:
    load_graph("patents-like")
    for file in ("features.npy", "graph.npz"):
        path = empty_cache / "made" / "patents-like-1" / file
        path.write_bytes(path.read_bytes()[:100])
        with pytest.raises(DataError, match=rf"{file} cannot be read"):
            load_graph("patents-like")
