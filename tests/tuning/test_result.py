"""The command that trains a setting, as a user would give it."""

from __future__ import annotations

from nlgnn.models.build import training_command


def test_options_that_change_nothing_are_left_out() -> None:
    """They would be refused: a random order learns no space, and a learned order has a loss of its own."""
    control = {"order": "random", "space_dim": 8, "kernel_size": 3}
    command = training_command("texas", "nlmlp", "random-60", "paper", control)
    assert command.endswith("--preset paper --order random --kernel-size 3")
    learned = training_command("texas", "nlmlp", "random-60", "paper", {"order": "learned", "local_loss": 0.5})
    assert learned.endswith("--preset paper --order learned")
