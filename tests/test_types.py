"""One run of central tests with types and shapes checked at run time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


@pytest.mark.slow
def test_types_and_shapes_at_run_time() -> None:
    chosen = [str(TESTS / name) for name in ("nn", "graph", "test_battery.py")]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *chosen]
    environment = {**os.environ, "NLGNN_CHECK_TYPES": "1"}
    done = subprocess.run(command, cwd=TESTS.parent, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:]
