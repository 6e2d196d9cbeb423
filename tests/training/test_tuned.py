"""The command that trains a setting, as a user would give it."""

from __future__ import annotations

from nlgnn.training.tuned import training_command


def test_options_that_change_nothing_are_left_out() -> None:
    """They would be refused. The random order of a metric has none; a setting of votes no kernel."""
    control = {"order": "random", "readout": "conv", "metric_dim": 8, "kernel_size": 3}
    command = training_command("texas", "nlmlp", "random-60", "paper", control)
    assert command.endswith("--preset paper --order random --readout conv --kernel-size 3")
    voting = training_command("texas", "nlmlp", "random-60", "paper", {"order": "metric", "kernel_size": 3})
    assert voting.endswith("--preset paper --order metric")
