"""The demonstration: what it hands over is what its first run did."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from nlgnn.analysis import reconnected_homophily, sorted_sequence
from nlgnn.cli.demo import run_demo
from nlgnn.selection import controls
from nlgnn.training import train


def test_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_controls = controls.with_controls
    monkeypatch.setattr(train, "Plan", partial(train.Plan, runs=1, preset="paper"))
    monkeypatch.setattr(
        controls, "with_controls", lambda model, options: with_controls(model, {**options, "epochs": 3})
    )
    said: list[str] = []
    result = run_demo(tmp_path, tell=said.append)
    labels = ["nlgcn", "gcn", "nlgcn, kernel 1", "nlgcn, random order"]
    assert [label for label, _ in result.trained] == labels
    assert said == [f"training {label} on mushroom-body-left" for label in labels]
    assert result.kernels == [5, 5]
    main = result.trained[0][1]
    run = main.runs[0]
    assert list(result.sequences) == ["before training", f"after training (epoch {run.chosen_epoch})"]
    model = main.factory()
    model.load_state_dict(run.state)
    after = sorted_sequence(model, result.graph.scale_features(main.recipe.features))
    np.testing.assert_array_equal(after.nodes, result.sequences[f"after training (epoch {run.chosen_epoch})"].nodes)
    torch.manual_seed(run.seed)
    before = sorted_sequence(main.factory(), result.graph.scale_features(main.recipe.features))
    np.testing.assert_array_equal(before.nodes, result.sequences["before training"].nodes)
    strip, agreement = result.strips()["before training"]
    np.testing.assert_array_equal(strip, result.graph.y[before.nodes])
    assert agreement == reconnected_homophily(before.nodes, result.graph.y, [5, 5])
