"""Features on disk: whatever the chunks, the same as in memory."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.func import vmap

from nlgnn.errors import DataError
from nlgnn.graph import Graph
from nlgnn.graph import features as on_disk
from nlgnn.graph.splits import make_splits
from nlgnn.models.build import configure
from nlgnn.nn.inputs import features, prepare_plain
from nlgnn.nn.kernels.dropout import Dropout
from nlgnn.nn.kernels.streamed import StreamedFeatures
from nlgnn.training.fit import fit
from nlgnn.training.recipe import Recipe
from nn_samples import assert_same, gradients, noise, seeded_streams, seeds, with_seeds


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("features")


def both(folder: Path, rows: int, columns: int, seed: int = 0, factors: bool = True) -> tuple[StreamedFeatures, Tensor]:
    """The same features streamed and, in float64, in memory."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, columns), np.float32)
    np.save(folder / "x.npy", x)
    source = on_disk.FeaturesOnDisk.from_memmap(np.load(folder / "x.npy", mmap_mode="r"), "x")
    if not factors:
        return StreamedFeatures(source), torch.from_numpy(x).double()
    row_factors = rng.random(rows)
    return StreamedFeatures(source.multiplied(row_factors)), torch.from_numpy(x * row_factors[:, None])


def chunks_of(rows: int, columns: int):
    return mock.patch.object(on_disk, "CHUNK_BYTES", 4 * columns * rows)


@given(st.integers(1, 9), st.integers(1, 5), st.integers(1, 4), st.integers(1, 10), st.booleans(), seeds)
def test_the_product_equals_that_in_memory(folder, rows, columns, width, chunk, factors, seed):
    streamed, dense = both(folder, rows, columns, seed, factors)
    weight = noise(columns, width, seed=seed)
    with chunks_of(chunk, columns):
        assert_same(streamed @ weight, dense @ weight, [weight], tolerance=1e-12)


def test_the_file_may_be_larger_than_a_chunk(folder):
    streamed, dense = both(folder, 5000, 300)
    assert sum(1 for _ in streamed.source.stored_chunks()) == 2
    weight = noise(300, 3)
    assert_same(streamed @ weight, dense @ weight, [weight])


def test_the_result_has_the_type_of_the_weight(folder):
    streamed, dense = both(folder, 7, 3)
    weight = noise(3, 2).float()
    assert (streamed @ weight).dtype == torch.float32
    torch.testing.assert_close(streamed @ weight, dense.float() @ weight)


def test_gradients_of_gradients(folder):
    streamed, _ = both(folder, 5, 3)
    with chunks_of(2, 3):
        assert torch.autograd.gradcheck(lambda weight: streamed @ weight, (noise(3, 2),))
        assert torch.autograd.gradgradcheck(lambda weight: streamed @ weight, (noise(3, 2),))


def test_what_they_say_of_themselves(folder):
    streamed, _ = both(folder, 7, 3)
    assert (streamed.shape, streamed.dtype, streamed.device.type) == ((7, 3), torch.float32, "cpu")
    moved = streamed.to(device="meta", dtype=torch.float64)
    assert (moved.shape, moved.dtype, moved.device.type) == ((7, 3), torch.float64, "meta")


def test_dropout_drops_the_same_entries_forward_and_backward(folder):
    streamed, dense = both(folder, 200, 30)
    with chunks_of(64, 30):
        dropped = streamed.dropout(Dropout(0.25))
        kept = dropped @ torch.eye(30).double()
        assert 0.72 < (kept != 0).double().mean() < 0.78
        torch.testing.assert_close(kept[kept != 0], dense[kept != 0] / 0.75)
        assert (kept / dense).mean() == pytest.approx(1, abs=0.03)  # the expectation stays
        weight = noise(30, 2)
        assert_same(dropped @ weight, kept @ weight, [weight])
        again = streamed.dropout(Dropout(0.25)) @ torch.eye(30).double()
        assert 0.3 < ((kept != 0) != (again != 0)).double().mean() < 0.45  # 2 × 0.25 × 0.75
        first, second = (kept[start : start + 64] != 0 for start in (0, 64))
        assert (first != second).any()  # chunks are not dropped alike


def test_dropout_follows_torchs_seed(folder):
    streamed, _ = both(folder, 50, 4)
    weight = noise(4, 2).detach()
    results = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        results.append(streamed.dropout(Dropout(0.5)) @ weight)
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


@pytest.mark.parametrize("where", [0, 1, 2])
def test_replicas_equal_a_loop_and_read_the_file_once(folder, where):
    streamed, dense = both(folder, 7, 4)
    weights = noise(3, 4, 2)
    passes = mock.Mock(side_effect=streamed.source.stored_chunks)
    with chunks_of(2, 4), mock.patch.object(on_disk.FeaturesOnDisk, "stored_chunks", passes):
        together = vmap(lambda weight: streamed @ weight, in_dims=where)(weights.movedim(0, where))
        assert passes.call_count == 1
        gradients(together, [weights])
        assert passes.call_count == 2
    assert_same(together, torch.stack([dense @ weight for weight in weights]), [weights])


@pytest.mark.parametrize("rates", [(0.5, 0.5), (0.0, 0.8)])
def test_a_replica_drops_what_it_would_drop_alone(folder, rates):
    streamed, _ = both(folder, 40, 6)
    weights = noise(2, 6, 3)
    passes = mock.Mock(side_effect=streamed.source.stored_chunks)
    stacked = Dropout(0.5)
    stacked.streams = seeded_streams(list(rates))
    with chunks_of(16, 6), mock.patch.object(on_disk.FeaturesOnDisk, "stored_chunks", passes):
        together = vmap(lambda weight: streamed.dropout(stacked) @ weight, randomness="same")(weights)
        assert passes.call_count == 1
        dropouts = [Dropout(rate) for rate in rates]
        alone = with_seeds(dropouts, lambda replica, dropout: streamed.dropout(dropout) @ weights[replica])
        assert_same(together, alone, [weights])


def test_gradients_taken_inside_vmap_equal_a_loop(folder):
    streamed, dense = both(folder, 7, 4)
    weights = noise(3, 4, 2).detach()

    def gradient(x):
        return torch.func.grad(lambda weight: (x @ weight).sin().sum())

    torch.testing.assert_close(vmap(gradient(streamed))(weights), torch.stack([gradient(dense)(w) for w in weights]))


def test_a_file_that_is_gone_or_cut_is_named(folder):
    streamed, _ = both(folder, 7, 4)
    path = folder / "x.npy"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"x\.npy is shorter than it was"):
        streamed @ noise(4, 2)
    path.unlink()
    with pytest.raises(DataError, match=r"x\.npy cannot be read: No such file"):
        streamed @ noise(4, 2)


def easy_graph(x: object, num_nodes: int = 60) -> Graph:
    rng = np.random.default_rng(0)
    return Graph(x, rng.integers(num_nodes, size=(2, 150)), np.arange(num_nodes) % 3)


@pytest.fixture
def graphs(tmp_path: Path) -> tuple[Graph, Graph]:
    """The same graph in memory and on disk."""
    x = np.random.default_rng(1).random((60, 8), np.float32)
    x[np.arange(60), np.arange(60) % 3] += 1
    np.save(tmp_path / "x.npy", x)
    return easy_graph(x), easy_graph(np.load(tmp_path / "x.npy", mmap_mode="r"))


@pytest.mark.parametrize(
    ("system", "scaling"), [("nlmlp", "none"), ("nlgcn", "none"), ("nlmlp", "unit-sum"), ("nlgcn", "unit-l2")]
)
def test_training_is_the_same_as_in_memory(graphs, system, scaling):
    curves = []
    for graph in graphs:
        factory, recipe = configure(
            system, graph, "paper", hidden=6, dropout=0.0, features=scaling, epochs=8, stopping="never", lr=0.02
        )
        with chunks_of(16, 8):
            curves.append([run.curves for run in fit(factory, graph, make_splits(graph, "random-60", 2), recipe)])
    for in_memory, streamed in zip(*curves, strict=True):
        for name, values in in_memory.items():
            np.testing.assert_allclose(streamed[name], values, rtol=1e-4)
        assert in_memory["train_loss"][-1] != in_memory["train_loss"][0]


def test_training_with_dropout_repeats_and_learns(graphs):
    graph = graphs[1]
    factory, recipe = configure(
        "nlmlp", graph, "paper", hidden=16, dropout=0.2, features="none", epochs=30, stopping="never", lr=0.05
    )
    one, other = (fit(factory, graph, make_splits(graph, "random-60", 1), recipe)[0] for _ in range(2))
    assert one.curves == other.curves
    assert one.curves["train_loss"][-1] < 0.7 * one.curves["train_loss"][0]


def test_models_that_know_nothing_of_streams_are_not_given_a_copy(graphs):
    assert isinstance(features(graphs[1]), StreamedFeatures)
    with pytest.raises(DataError, match=r"on disk \(.*x\.npy\), but are needed in memory"):
        prepare_plain(graphs[1])
    with pytest.raises(DataError, match="on disk"):
        fit(lambda: torch.nn.Module(), graphs[1], "random-60", Recipe(epochs=1))
