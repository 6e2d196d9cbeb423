"""The short form of fuzzing: no input of any format ends in another error than ours, hangs or fills the memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzzing import fuzz


@pytest.mark.slow
@pytest.mark.usefixtures("as_users_run_it")
def test_every_format(tmp_path: Path) -> None:
    tallies = fuzz(220, tmp_path)
    assert [fault for one in tallies.values() for fault in (*one.faults, *one.slow, *one.large)] == []
    assert len(tallies) == 11
    accepted = sum(one.accepted for one in tallies.values())
    assert accepted >= 0.4 * sum(one.cases for one in tallies.values())
    assert all(one.accepted and one.refused for one in tallies.values())
