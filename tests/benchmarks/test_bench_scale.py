"""Trainings of made graphs: what the process does, and that it is one of its own."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from benchmarks import scale
from benchmarks.scale import BOTH, BY_STRUCTURE, FEATURES, STRUCTURE, SYSTEMS, Job, measure, stamped, work
from benchmarks.timing import GIB, peak_memory
from nlgnn.errors import NlgnnError
from nlgnn.nn import GCN, NLGCN


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system_is_trained(system: str) -> None:
    result = work(Job(system, nodes=100, epochs=2))
    assert (result["system"], result["nodes"], result["rounds"]) == (system, 100, 2)
    assert 0 < result["seconds"]["ours"]["low"] <= result["seconds"]["ours"]["high"]
    assert result["peak GiB"] >= result["peak GiB once the graph was made"] > 0
    assert result["threads"] == scale.LARGE_GRAPH_THREADS


def test_models_without_gradient_training_are_fitted_once() -> None:
    result = work(Job("trees", nodes=100, epochs=1))
    assert (result["system"], result["rounds"]) == ("trees", 1)
    assert result["seconds"]["ours"]["median"] > 0


def test_features_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    train = scale.train
    monkeypatch.setattr(scale, "train", lambda job, graph: seen.append(graph) or train(job, graph))
    assert work(Job("NLGCN", 100, 1, on_disk=True))["on disk"]
    assert seen[0].x.path.name == "features.npy"
    assert seen[0].x.shape == (100, FEATURES)
    assert not seen[0].x.path.exists()  # removed in the end


def test_both_in_turn() -> None:
    result = work(Job(BOTH, 100, epochs=3))
    assert list(result["seconds"]) == list(result["means"]) == ["NLGCN", "GCN"]
    assert list(result["ratios"]) == ["GCN"]
    assert result["rounds"] == 3


def test_structure_and_nlgcn_in_turn() -> None:
    result = work(Job(BY_STRUCTURE, 100, epochs=2))
    assert list(result["seconds"]) == [STRUCTURE, "NLGCN"]
    assert list(result["ratios"]) == ["NLGCN"]


def test_ratio_is_nlgcn_to_gcn(monkeypatch: pytest.MonkeyPatch) -> None:
    times = {"NLGCN": [3.0], "GCN": [2.0]}
    monkeypatch.setattr("benchmarks.steps.side_by_side", lambda *given: times)
    assert work(Job(BOTH, 100, epochs=1))["ratios"]["GCN"]["median"] == 1.5


@pytest.mark.parametrize("model", [NLGCN(4, 5, 2, local_loss=0.5), GCN(4, 5, 2)])
def test_stamps_change_no_loss(model: nn.Module) -> None:
    x, edges = torch.randn(6, 4), torch.tensor([[0, 1], [1, 2]])
    y, nodes = torch.tensor([0, 1, 0, 1, 0, 1]), torch.arange(4)
    output = model(x, edges)
    own = getattr(model, "loss", nn.functional.cross_entropy)
    expected = own(output, y, nodes) if hasattr(model, "loss") else own(output[nodes], y[nodes])
    stamps: list[float] = []
    assert stamped(model, stamps).loss(output, y, nodes) == expected
    assert len(stamps) == 1


def test_a_process_of_its_own() -> None:
    torch.ones(2**27)  # half a GiB here is not counted there
    result = measure(Job("NLMLP", 100, 1))
    assert result["rounds"] == 1
    assert 0.05 < result["peak GiB"] < peak_memory() / GIB - 0.2


def test_policies_reach_the_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def measured(job: Job, variables: dict[str, str]) -> dict[str, object]:
        seen.append(list(variables))
        return {"seconds": {"ours": {"median": 3.0 if "OMP_WAIT_POLICY" in variables else 2.0}}}

    monkeypatch.setattr(scale, "measure", measured)
    assert scale.measure_policies(Job("NLGCN", 100, 1), 2)["ratios"]["passive"]["median"] == 1.5
    assert seen == [["GOMP_SPINCOUNT"], [], ["OMP_WAIT_POLICY"]] * 2


def test_a_process_that_fails() -> None:
    with pytest.raises(NlgnnError, match=r"NLMLP on 2 nodes ended with code 1\. .*patents_like_graph"):
        measure(Job("NLMLP", 2, 1))
