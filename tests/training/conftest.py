"""Fixtures of the tests of run folders."""

from __future__ import annotations

import pytest

from nlgnn.training.train import Trained
from training_samples import fit_module, quiet_train, small_plan


@pytest.fixture
def checkpoint_every_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_module, "CHECKPOINT_SECONDS", -1.0)


@pytest.fixture(scope="package")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """What an uninterrupted training of the small plan gives."""
    return quiet_train(small_plan(), tmp_path_factory.mktemp("whole") / "run")
