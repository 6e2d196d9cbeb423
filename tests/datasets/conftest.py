"""Where the tests of datasets find files: real ones only if the environment names them, an empty cache otherwise."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

NO_DATA = "NLGNN_DATA names no folder of real files"


@pytest.fixture
def real_data() -> Path:
    folder = Path(os.environ.get("NLGNN_DATA", "nowhere"))
    if not (folder / "geom-gcn").is_dir():
        pytest.skip(NO_DATA)
    return folder


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No data folder and an empty cache: everything would have to be downloaded."""
    monkeypatch.delenv("NLGNN_DATA", raising=False)
    monkeypatch.setenv("NLGNN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
