"""Every model on a device that refuses to mix its tensors with those of the CPU: prepared, trained, saved and loaded.

Each test starts a process: the device must be registered before the first backward pass.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch

from battery import Case
from battery_graphs import random_graph, split_of
from nlgnn.models.registry import SYSTEMS
from nlgnn.training import fit as fitting
from nlgnn.training import preflight
from nlgnn.training.fit import fit, predict
from nlgnn.training.run_folder import RunFolder
from other_device import MixedDevicesError, elsewhere, other_device
from training_samples import assert_close_runs, doubled

MODELS = [name for name, system in SYSTEMS.items() if system.kind != "shallow"]
FEW = ["nlgcn", "simp-gcn"]


def check_training(name: str) -> None:
    """Train a model on the CPU and on the device, and compare the runs, also those that are read again."""
    graph = random_graph()
    splits = [split_of(graph)]
    made, recipe = Case(name, "paper").configure(graph, epochs=2, stopping="never")
    factory = doubled(made.func, **made.keywords)
    expected = fit(factory, graph, splits, recipe, progress=False)
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as place:
        for module in (fitting, preflight):
            patch.setattr(module, "choose_device", lambda _: other_device())
        patch.setattr(fitting, "device_at_hand", lambda _: other_device())
        path = Path(place) / "run"
        folder = RunFolder.create(path, {})
        with elsewhere() as mode:
            runs = fit(factory, graph, splits, recipe, folder=folder, progress=False)
            probabilities = predict(factory, graph, runs, recipe)
            again = fit(factory, graph, splits, recipe, folder=RunFolder.open(path), progress=False)
    assert mode.operations > 100
    assert {value.device.type for value in runs[0].state.values()} == {probabilities.device.type} == {"cpu"}
    assert_close_runs(runs, expected)
    assert_close_runs(again, expected)


def check_refusals() -> None:
    """Check that tensors of two devices do not meet, but for single numbers."""
    with elsewhere():
        there = torch.ones(3, device=other_device())
        assert (there + 1).sum().item() == 6
        assert (there + torch.tensor(2.0)).tolist() == [3, 3, 3]
        assert there.cpu().equal(torch.ones(3))
        with pytest.raises(MixedDevicesError):
            there + torch.ones(3)
        with pytest.raises(MixedDevicesError):
            torch.zeros(3).index_add(0, torch.zeros(3, dtype=torch.long), there)


def failures(models: list[str]) -> dict[str, str]:
    """Return the models that fail in a new process, with their errors."""
    here = Path(__file__).parent
    environment = os.environ | {"PYTHONPATH": f"{here}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    command = [sys.executable, "-W", "ignore", __file__, *models]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_few_models() -> None:
    assert failures(FEW) == {}


@pytest.mark.slow
def test_all_models() -> None:
    assert len(MODELS) > 30
    assert failures(MODELS) == {}


def main() -> None:
    """Check the models of the command line, and print the failures as JSON."""
    other_device()
    check_refusals()
    found = {}
    for name in sys.argv[1:]:
        try:
            check_training(name)
        except Exception as error:
            found[name] = f"{type(error).__name__}: {str(error)[:300]}"
    print(json.dumps(found))


if __name__ == "__main__":
    main()
