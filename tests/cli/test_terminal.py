"""What only a process of its own shows: signals, a terminal, a reader that goes away."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NoReturn

import pytest

from cli_samples import Command
from nlgnn.cli import main as cli
from nlgnn.training.run_folder import RunFolder

NLGNN = [sys.executable, "-c", "from nlgnn.cli.main import main; main()"]
TRAIN = ["train", "mushroom-body", "--runs", "3", "--stopping", "never", "--out", "X", "--epochs"]
PATIENCE = 60  # seconds; the tests take a few


def read_until(terminal: int, wanted: str) -> str:
    """What appears on a terminal, up to the wanted text or, where that is empty, to the end."""
    seen, deadline = b"", time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                seen += os.read(terminal, 4096)
            except OSError:  # the other side has closed
                break
        if wanted and wanted in seen.decode(errors="ignore"):
            break
    return seen.decode(errors="ignore")


def test_bar_on_a_terminal_and_ctrl_c(tmp_path: Path) -> None:
    terminal, other_side = pty.openpty()
    process = subprocess.Popen(
        [*NLGNN, *TRAIN, "1000000"],
        cwd=tmp_path,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100", "OMP_NUM_THREADS": "1"},
        stdin=other_side,
        stdout=other_side,
        stderr=other_side,
        start_new_session=True,
    )
    os.close(other_side)
    try:
        shown = read_until(terminal, ", best ")
        assert "runs 1 to 3 of 3, validation: loss" in shown
        assert "  0%" in shown
        process.send_signal(signal.SIGINT)
        end = read_until(terminal, "")
        assert "interrupted. Continue with: nlgnn train --resume X" in end
        assert "Traceback" not in end
        assert process.wait(PATIENCE) == 130
    finally:
        process.kill()
        process.wait()
        os.close(terminal)
    folder = RunFolder.open(tmp_path / "X")
    assert len(folder.checkpoints()[0].curves["val_loss"]) > 0
    assert not list((tmp_path / "X").glob(".*"))  # nothing half-written


SLOW_EPOCHS = """
import time
from nlgnn.cli.main import main
from nlgnn.training.progress import TrainingProgress

def slow(*given):
    print("in an epoch", flush=True)
    time.sleep(600)

TrainingProgress.update = slow
main()
"""


def test_second_ctrl_c_does_not_wait_for_the_epoch(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW_EPOCHS, *TRAIN, "5"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "in an epoch\n"
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):  # the first one is answered at the end of the epoch
            process.wait(0.5)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130
    assert err == "\ninterrupted. Continue with: nlgnn train --resume X\n"
    assert RunFolder.open(tmp_path / "X").config["model"] == "nlgcn"


def test_ctrl_c_before_a_command_has_begun(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(arguments: list[str]) -> NoReturn:  # importing torch takes seconds
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "build_app", interrupted)
    assert command("train", "texas") == (130, "", "")


@pytest.mark.parametrize("arguments", [["datasets"], ["models"]], ids=" ".join)
def test_reader_that_goes_away(arguments: list[str], tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*NLGNN, *arguments], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    with process.stderr:
        assert process.stderr.read() == ""
    assert process.wait(PATIENCE) in (0, 1)
