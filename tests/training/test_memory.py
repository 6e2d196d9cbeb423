"""Estimates of memory, and what is done about them before training starts."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from each_of import each_of
from nlgnn.datasets import load_graph
from nlgnn.errors import NlgnnError, OptionError
from nlgnn.graph.graph import Graph
from nlgnn.limits import parse_size, show_size
from nlgnn.models.build import configure
from nlgnn.nn import GAT, MLP, NLGAT
from nlgnn.nn.base import as_model
from nlgnn.training import memory
from nlgnn.training.fit import fit
from nlgnn.training.memory import MemoryPlan, allowed_bytes, memory_plan, step_bytes
from nlgnn.training.recipe import Recipe
from nlgnn.training.replica import Job, Run
from training_samples import easy_graph, fit_module, quiet_train, recipe, small_plan, splits_of


@each_of(
    ("text", "size"),
    [("8GiB", 8 * 2**30), ("1.5 GiB", 3 * 2**29), ("500MB", 500 * 10**6), ("2KiB", 2048), ("3000000", 3 * 10**6)],
)
def test_sizes_as_people_write_them(text: str, size: int) -> None:
    assert parse_size(text) == size
    assert Recipe(memory=text).memory == text


@each_of("text", ["much", "8 XB", "-1GiB", "0", "", "8"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(OptionError, match=r"memory=.*: should be an amount of memory in MiB, GiB or TiB, such as 8GiB"):
        Recipe(memory=text)


def test_sizes_as_shown() -> None:
    assert show_size(3 * 2**29) == "1.5 GiB"
    assert show_size(3 * 2**20) == "3.0 MiB"


def job_of(graph: Graph, model: str = "nlmlp", **options: Any) -> Job:
    factory, own = configure(model, graph, "paper", dropout=0.0, **options)
    split = splits_of(graph)[0]
    return Job(Run(0, 0, "", 0), factory, as_model(factory()), own, split)


def test_arrays_are_counted_while_they_live() -> None:
    live = memory._LiveBytes()
    there_before = torch.ones(1000)
    with live:
        view = there_before[:10]
        one = view + there_before[:1]
        assert live.sum == live.peak == 40
        two = torch.zeros(100)
        del one
        three = two.view(10, 10)
        del two
        assert (live.sum, live.peak) == (400, 440)
        del three
    assert live.sum == 0


def test_a_step_needs_what_its_widest_moment_needs() -> None:
    """Two hidden arrays at least, of 4 bytes a number, and no more than a handful."""
    graph = easy_graph(40)
    small, wide = (step_bytes(job_of(graph, "mlp", hidden=hidden), graph, False) for hidden in (64, 256))
    assert 2 < (wide - small) / (40 * 4 * (256 - 64)) < 6


def test_more_edges_need_more_where_edges_have_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "TRIAL_NODES", 2000)
    rng = np.random.default_rng(0)
    graphs = [
        Graph(rng.random((100, 4)), rng.integers(100, size=(2, edges)), np.arange(100) % 2) for edges in (500, 5000)
    ]
    needs = [step_bytes(job_of(graph, "gat", hidden=4), graph, False) for graph in graphs]
    assert needs[1] > 2 * needs[0]


def test_too_little_is_said_before_training(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = easy_graph()
    monkeypatch.setattr(memory, "resident_bytes", lambda: 10 * 2**30)
    monkeypatch.setattr(memory, "step_bytes", lambda *_, recompute: 2**28 if recompute else 2**30)
    monkeypatch.setattr(fit_module, "train_replicas", lambda *_: pytest.fail("it began"))
    expected = r"training NLGAT on graph .* about 10\.2 GiB, but 8\.0 GiB are allowed"
    with pytest.raises(NlgnnError, match=expected) as caught:
        fit("nlgat", graph, splits_of(graph), recipe(memory="8GiB"), progress=False)
    assert "on disk" in caught.value.how
    monkeypatch.setattr(memory, "SHARE_OF_FREE_MEMORY", -1.0)
    monkeypatch.setattr(memory, "free_bytes", lambda: 2**30)
    with pytest.raises(NlgnnError, match=r"9\.0 GiB are free"):
        fit("nlgat", graph, splits_of(graph), recipe(), progress=False)


def test_nothing_is_tried_where_there_is_plenty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_trial", lambda *_: pytest.fail("a trial"))
    graph = easy_graph()
    assert memory_plan(job_of(graph), graph) == MemoryPlan()
    monkeypatch.setattr(memory, "free_bytes", lambda: None)  # a system that does not say
    assert allowed_bytes(None) is None
    assert memory_plan(job_of(graph), graph) == MemoryPlan()


@pytest.mark.slow
def test_parts_are_computed_again_where_that_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = easy_graph(40)
    job = job_of(graph, "nlgat", hidden=32)
    plain, lean = (step_bytes(job, graph, recompute) for recompute in (False, True))
    assert lean < plain / 2
    monkeypatch.setattr(memory, "resident_bytes", lambda: 0)
    between = Recipe(memory=f"{(plain + lean) / 2048}KiB")
    assert memory_plan(replace(job, recipe=between), graph) == MemoryPlan(True, 1)
    plenty = Recipe(memory=f"{3 * plain / 1024}KiB")
    assert memory_plan(replace(job, recipe=plenty), graph) == MemoryPlan(at_once=3)
    seen: list[bool] = []
    monkeypatch.setattr(GAT, "recompute", property(lambda self: seen[-1], lambda self, value: seen.append(value)))
    seen.append(False)
    factory = lambda: NLGAT(4, 32, 2)  # noqa: E731
    fit(factory, graph, splits_of(graph, 2), recipe(memory=between.memory, epochs=2), progress=False)
    assert True in seen


def test_parts_give_the_same_training() -> None:
    graph = easy_graph(40)
    runs = []
    for recompute in (False, True):

        def factory(recompute: bool = recompute) -> MLP:
            model = MLP(4, 40, 2).double()
            model.recompute = recompute
            return model

        runs.append(fit(factory, graph, splits_of(graph), recipe(epochs=5, replicas=1), progress=False)[0])
    assert runs[0].curves["train_loss"] == pytest.approx(runs[1].curves["train_loss"], abs=1e-12)


MEASURE = """
import json, sys
from pathlib import Path
from nlgnn.datasets.synthetic import patents_like_graph
from benchmarks.timing import peak_memory
from nlgnn.graph.splits import make_splits
from nlgnn.training import memory
from nlgnn.training.fit import fit
from nlgnn.models.build import configure

model, recompute, path = sys.argv[1], sys.argv[2] == "True", Path(sys.argv[3]) if sys.argv[3] else None
graph = patents_like_graph(150_000, 717_000, features_path=path)
factory, recipe = configure(model, graph, "paper", hidden=48, dropout=0.0, epochs=2, stopping="never", threads=1)

def estimating(job, graph):
    global estimate
    estimate = memory.step_bytes(job, graph, recompute)
    estimate += memory.resident_bytes()
    return memory.MemoryPlan(recompute, 1)

sys.modules["nlgnn.training.fit"].memory_plan = estimating
fit(factory, graph, make_splits(graph, "random-60", 1), recipe, progress=False)
print(json.dumps([estimate, peak_memory()]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read off Linux")
@pytest.mark.parametrize(
    ("model", "recompute", "on_disk"),
    [
        ("nlmlp", False, False),
        ("nlgcn", False, False),
        ("nlgcn", False, True),
        ("nlgcn", True, True),
        ("nlgat", False, False),
        ("nlgat", True, True),
    ],
)
def test_estimates_are_near_what_is_measured(tmp_path: Path, model: str, recompute: bool, on_disk: bool) -> None:
    path = str(tmp_path / "x.npy") if on_disk else ""
    shown = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", MEASURE, model, str(recompute), path],
        capture_output=True,
        check=True,
        cwd=Path(__file__).parents[2],  # where the benchmarks are found
    )
    estimate, measured = json.loads(shown.stdout)
    assert 0.7 < estimate / measured < 1.3


def test_what_cannot_be_trained_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "TRIAL_NODES", 2000)
    with pytest.raises(NlgnnError, match="would take about"):
        quiet_train(small_plan("nlgat", memory="1MiB"), tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("model", ["linkx", "nl-linkx"])
def test_a_model_that_knows_nodes_is_tried_with_as_many_as_the_trial_has(tmp_path: Path, model: str) -> None:
    with pytest.raises(NlgnnError, match="would take about"):
        quiet_train(small_plan(model, memory="1MiB"), tmp_path / "run")
    assert quiet_train(small_plan(model, memory="64GiB"), tmp_path / "run").runs[0].failure is None


@pytest.mark.parametrize("model", ["simp-gcn", "nl-linkx from a lambda"])
def test_what_cannot_be_tried_is_not_estimated(model: str) -> None:
    graph = easy_graph()
    factory, recipe = configure(model.split()[0], graph, epochs=2)
    factory = factory if model == "simp-gcn" else lambda made=factory: made()
    run = fit(factory, graph, splits_of(graph, 1), recipe, progress=False)[0]
    assert run.failure is None
    with pytest.raises(OptionError, match="is unknown"):
        fit(factory, graph, splits_of(graph, 1), recipe.model_copy(update={"memory": "64GiB"}), progress=False)


@pytest.mark.usefixtures("data_root")
def test_published_relations_are_of_one_graph() -> None:
    graph = load_graph("texas")
    factory, recipe = configure("geom-gcn", graph, space="poincare", epochs=1, memory="64GiB")
    with pytest.raises(OptionError, match="what GeomGCN needs is unknown"):
        fit(factory, graph, "geom-gcn", recipe, progress=False)


def test_what_is_counted_is_freed() -> None:
    """Else every training of a stack would leave its model and its activations behind."""
    model = MLP(4, 5, 3)
    left = weakref.ref(model.layers[0].weight)
    assert memory.bytes_of_one(model, (torch.ones(7, 4),)) > 0
    del model
    gc.collect()
    assert left() is None
