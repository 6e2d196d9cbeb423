"""Other systems, simulated: what only Linux has, other encodings, line ends, names of files, and narrow consoles."""

from __future__ import annotations

import io
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from cli_samples import Command
from nlgnn import files, limits
from nlgnn.cli import main as cli
from nlgnn.cli.console import SafeConsole
from nlgnn.cli.main import SHORT_SPIN
from nlgnn.report import page
from nlgnn.selection import race
from nlgnn.tables import table_files
from nlgnn.training import device

NODES = "id,Größe,label\n" + "".join(f"n{i},{i % 5},{('ja', 'nein', '')[i % 3]}\n" for i in range(60))
EDGES = "source,target\n" + "".join(f"n{i},n{(i + 3) % 60}\n" for i in range(60))


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system without /proc, /sys, os.sysconf, the module resource, and SIGHUP."""
    read, write = Path.read_text, Path.write_text

    def refused(function: Any) -> Any:
        def call(path: Path, *arguments: Any, **named: Any) -> Any:
            if str(path).startswith(("/proc", "/sys")):
                raise FileNotFoundError(path)
            return function(path, *arguments, **named)

        return call

    monkeypatch.setattr(Path, "read_text", refused(read))
    monkeypatch.setattr(Path, "write_text", refused(write))
    monkeypatch.delattr(os, "sysconf")
    monkeypatch.delattr(signal, "SIGHUP")
    monkeypatch.setitem(sys.modules, "resource", None)


@pytest.mark.usefixtures("elsewhere")
class TestWithoutLinux:
    def test_memory_is_unknown(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert limits.free_bytes() is None
        assert limits.resident_bytes() == 0
        assert limits.room() == (None, "")
        limits.require_memory(1 << 60, "The table", "Take fewer rows.")
        with limits.memory_limit("1GiB"):
            assert limits.room()[0] == 2**30
        assert table_files.memory_bytes() > 2**30
        race.reset_peak_memory()
        monkeypatch.setattr(sys, "platform", "win32")
        assert race.peak_memory() is None

    def test_processor_and_age(self) -> None:
        assert device.processor()
        assert cli.process_age() == 0

    def test_allocation_and_interrupts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "platform", "darwin")
        with device.allocation(frugal=True), device.Interrupt() as interrupt:
            signal.raise_signal(signal.SIGTERM)
        assert interrupt.requested

    def test_files_of_other_processes_stay(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Signal 0 ends processes on Windows."""
        monkeypatch.setattr(os, "name", "nt")
        monkeypatch.delattr(os, "kill")
        assert files._is_writing(os.getpid() + 1)

    def test_a_training(self, command: Command) -> None:
        done = command("train", "mushroom-body", "--model", "mlp", "--runs", 1, "--epochs", 2, "--out", "X")
        assert done.code == 0, done.err
        assert command("info").code == 0


def test_a_libc_without_mallopt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device.ctypes, "CDLL", lambda name: object())
    with device.allocation(frugal=False):
        pass


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_output_in_another_encoding(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding))
    with pytest.raises(SystemExit) as ended:
        cli.main(["models", "nlgcn"])
    assert not ended.value.code
    sys.stdout.flush()
    assert "--hidden" in written.getvalue().decode(encoding)


def test_names_and_line_ends_of_other_systems(command: Command) -> None:
    folder = Path("Eigene Dateien ü")
    folder.mkdir()
    for name, text in (("Knoten 1.csv", NODES), ("Kanten 1.csv", EDGES), ("Wünsche 1.toml", "epochs = 2\nruns = 1\n")):
        (folder / name).write_bytes(text.replace("\n", "\r\n").encode())
    run = folder / "Läufe 日本" / "Versuch 1"
    tables = ("--nodes", folder / "Knoten 1.csv", "--edges", folder / "Kanten 1.csv", "--label", "label")
    done = command("train", *tables, "--model", "mlp", "--config", folder / "Wünsche 1.toml", "--out", run)
    assert done.code == 0, done.err
    assert "Größe" in (run / "report.html").read_text("utf-8")
    (run / "report.html").unlink()
    assert command("report", run).code == 0
    assert (run / "report.html").exists()
    assert command("predict", run, "--out", folder / "Häufig 1.csv").code == 0
    rows = (folder / "Häufig 1.csv").read_text("utf-8").splitlines()
    assert len(rows) == 21
    assert all("\r" not in row for row in rows)
    assert command("explain", run, "n2").code == 0


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").write_text("a file, so that no folder can be made in it")
    monkeypatch.setenv("NLGNN_CACHE", str(tmp_path / "home" / "cache"))
    monkeypatch.setattr("vl_convert.javascript_bundle", lambda: "bundle")
    assert page._vega.__wrapped__() == "bundle"


@pytest.mark.parametrize(
    "arguments", [["--help"], *([name, "--help"] for name in cli.COMMANDS), ["models"], ["datasets"]]
)
def test_80_columns(arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(cli.console, "width", 80)
    with pytest.raises(SystemExit):
        cli.main(arguments)
    lines = capsys.readouterr().out.splitlines()
    assert lines
    assert [line for line in lines if len(line) > 80] == []


@pytest.mark.parametrize("wanted", [True, False])
def test_no_color(wanted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if not wanted:
        monkeypatch.setenv("NO_COLOR", "1")
    file = io.StringIO()
    SafeConsole(file=file, force_terminal=True, highlight=False).print("[red]error:[/] words")
    assert ("\x1b[31m" in file.getvalue()) == wanted


def test_open_files_that_cannot_be_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows."""

    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(13, "The process cannot access the file", str(path))

    monkeypatch.setattr(Path, "unlink", refuse)
    for _ in range(2):  # the lock is released
        with files.claim(tmp_path / "work.lock") as ours:
            assert ours
    with files.wait_for_lock(tmp_path / "work.lock"):
        pass


@pytest.mark.parametrize(
    ("given", "used"),
    [({}, SHORT_SPIN), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, None)],
)
def test_waiting_threads_spin_shortly_unless_told_otherwise(
    given: dict[str, str], used: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.setenv(name, given.get(name, ""))  # so that it is restored
        if name not in given:
            monkeypatch.delenv(name)
    monkeypatch.setattr("sys.argv", ["nlgnn", "--version"])
    with pytest.raises(SystemExit):
        cli.main()
    assert os.environ.get("GOMP_SPINCOUNT") == used
