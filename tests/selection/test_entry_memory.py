"""Memory in the leaderboard: that of one training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nlgnn.selection.race import peak_memory, reset_peak_memory


def test_memory_of_an_entry() -> None:
    """Memory that was needed before does not count."""
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("this system cannot reset the peak")
    much = np.ones(60_000_000 // 8)
    reset_peak_memory()
    first = peak_memory()
    del much
    reset_peak_memory()
    second = peak_memory()
    assert first is not None
    assert second is not None
    assert second < first - 40
