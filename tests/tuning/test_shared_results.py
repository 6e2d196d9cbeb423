"""Results and locks in a PostgreSQL database, and cells that several machines share by them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nlgnn.cli import reproduce
from nlgnn.cli.reproduce import Selection
from nlgnn.errors import NlgnnError
from nlgnn.paper import measure
from nlgnn.paper.cell import Cell
from nlgnn.paper.measure import run_cell
from nlgnn.paper.plans import dataset_cells
from nlgnn.paper.shared_cells import shared_results
from nlgnn.tuning.shared_results import SharedResults

CORA, CITESEER = dataset_cells(Path())[:2]
HOLD = """
import sys, time
from nlgnn.tuning.shared_results import SharedResults
with SharedResults(sys.argv[1], sys.argv[2]).claim(sys.argv[3]) as ours:
    print(ours, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace measuring; the list holds the names of measured cells."""
    names: list[str] = []

    def measure_fake(cell: Cell, unfinished: Path, progress: bool) -> dict[str, Any]:
        names.append(cell.name)
        return {"seconds": len(names), "model": {}, "recipe": {}}

    monkeypatch.setitem(measure.MEASURES, "statistics", measure_fake)  # type: ignore[arg-type]
    return names


def test_texts_and_locks(postgres: str) -> None:
    first, second, other = (SharedResults(postgres, space) for space in ("a", "a", "b"))
    assert first.read("x") is None
    first.write("x", "one")
    first.write("x", "zwei €")
    assert second.read("x") == "zwei €"
    assert other.read("x") is None
    with first.claim("x") as ours, second.claim("x") as again, second.claim("y") as free, other.claim("x") as elsewhere:
        assert (ours, again, free, elsewhere) == (True, False, True, True)
    with second.claim("x") as ours:
        assert ours


def test_a_cell_is_measured_on_one_machine_only(tmp_path: Path, postgres: str, fake: list[str]) -> None:
    """The folders are those of two machines that share no files."""
    shared = SharedResults(postgres, "once")
    token = shared_results.set(shared)
    try:
        first = run_cell(CORA, tmp_path / "a")
        assert run_cell(CORA, tmp_path / "b") == first
        assert fake == [CORA.name]
        with shared.claim(f"{CITESEER.store}/{CITESEER.name}"):
            assert run_cell(CITESEER, tmp_path / "b") is None
        shared.write(f"{CITESEER.store}/{CITESEER.name}", "{")
        with pytest.raises(NlgnnError, match="is not JSON"):
            run_cell(CITESEER, tmp_path / "b")
    finally:
        shared_results.reset(token)
    assert fake == [CORA.name]


def test_the_cell_of_a_killed_worker_is_taken_over(
    tmp_path: Path, postgres: str, fake: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [sys.executable, "-c", HOLD, postgres, "results", f"{CORA.store}/{CORA.name}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "True\n"
        waits: list[float] = []

        def wait(seconds: float) -> None:
            waits.append(seconds)
            worker.kill()
            worker.wait()

        monkeypatch.setattr(reproduce.time, "sleep", wait)
        selection = Selection(["datasets"], [], [], [CORA.name, CITESEER.name], quick=False)
        assert reproduce.measure(selection, tmp_path, postgres) == []
    assert len(waits) >= 1
    assert sorted(fake) == sorted([CORA.name, CITESEER.name])
    assert fake[-1] == CORA.name
    assert json.loads((tmp_path / CORA.store / f"{CORA.name}.json").read_text())["seconds"] == 2


@pytest.mark.parametrize("address", ["postgresql://nobody@127.0.0.1:9/none", "sqlite:///x.db", "nothing"])
def test_addresses_that_cannot_be_used(address: str) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(NlgnnError, match=r"cannot be used|not the address"):
        SharedResults(address, "a")
