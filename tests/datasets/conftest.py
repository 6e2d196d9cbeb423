"""For the tests of datasets: a machine on which nothing has been downloaded yet."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No data folder and an empty cache: everything would have to be downloaded."""
    monkeypatch.delenv("NLGNN_DATA", raising=False)
    monkeypatch.setenv("NLGNN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
