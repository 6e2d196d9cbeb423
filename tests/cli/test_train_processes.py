"""`nlgnn train` over several processes: what is refused, and whole trainings by the launcher and by torchrun."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from each_of import each_of
from nlgnn.cli.main import main
from nlgnn.datasets.synthetic import planted_order_graph
from nlgnn.graph.store import GraphStore
from nlgnn.training.train import read_trained

NLGNN = [sys.executable, "-m", "nlgnn"]
OPTIONS = ["--model", "nlgcn", "--runs", "2", "--epochs", "6", "--stopping", "never"]


@each_of(
    ("arguments", "words"),
    [
        (["--processes", "0"], "processes=0 is out of bounds"),
        (["--processes", "100000"], "processes=100000 is out of bounds"),
        (["--processes", "2", "--process-timeout", "0"], "process_timeout=0 is out of bounds"),
        (["--processes", "2", "--process-timeout", "9" * 30], "from 1 to 2,592,000"),
        (["--processes", "2", "--model", "auto"], "Name a model"),
        (["--processes", "2", "--model", "linkx"], "Train it in one process"),
        (["--processes", "2", "--model", "vote-gcn"], "Train it in one process"),
        (["--processes", "2", "--model", "trees"], "Train it in one process"),
        (["--processes", "2", "--controls"], "--controls does not apply"),
        (["--processes", "2", "--model", "gcn", "--kernel-size", "5"], "no option 'kernel_size'"),
    ],
)
def test_what_is_refused(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["train", "mushroom-body", *arguments])
    assert ended.value.code == 2
    assert words in " ".join(capsys.readouterr().err.split())


def test_a_process_that_finds_no_others(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        main(["train", "mushroom-body", "--model", "gcn", "--process-timeout", "1"])
    assert ended.value.code == 2
    assert "did not reach the others at 127.0.0.1:1 within 1 seconds" in capsys.readouterr().err
    monkeypatch.delenv("MASTER_ADDR")
    with pytest.raises(SystemExit):
        main(["train", "mushroom-body", "--model", "gcn"])
    assert "MASTER_ADDR" in capsys.readouterr().err


def small_store(folder: Path) -> Path:
    return GraphStore.write(planted_order_graph(6, seed=2), folder / "small-store").folder


def run(*command: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    words = [str(word) for word in command]
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


def figures(folder: Path) -> list[dict[str, float]]:
    return [run["test"] for run in json.loads((folder / "summary.json").read_text())["runs"]]


def test_two_processes_train_a_store(tmp_path: Path) -> None:
    """Rank 0 alone prints; the folder is that of one process, which can use it."""
    store = small_store(tmp_path)
    done = run(*NLGNN, "train", store, *OPTIONS, "--out", "parts", "--processes", "2", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("run folder: parts") == 1
    trained, graph = read_trained(tmp_path / "parts")
    assert len(trained.finished) == 2
    probabilities = trained.probabilities(graph)
    assert probabilities.shape == (2, graph.num_nodes, graph.num_classes)


@pytest.mark.slow
def test_more_processes_than_nodes(tmp_path: Path) -> None:
    store = GraphStore.write(planted_order_graph(2, 1), tmp_path / "store")
    done = run(*NLGNN, "train", store.folder, "--processes", str(store.nodes + 1), folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count(f"but {store.nodes} nodes") == 1


def processes_of(group: int) -> list[int]:
    """Return the processes below a process that are ranks."""
    listed = subprocess.run(["pgrep", "-P", str(group)], capture_output=True, text=True).stdout.split()
    return [int(number) for number in listed]


def wait_for(condition: object, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.1)


@pytest.mark.slow
def test_killed_ranks_and_ctrl_c(tmp_path: Path) -> None:
    """torchrun starts killed ranks again; a launcher ends with its ranks; Ctrl-C leaves a folder that is continued."""
    store = small_store(tmp_path)
    long = [*OPTIONS[:4], "--epochs", "120", "--stopping", "never"]
    whole = run(*NLGNN, "train", store, *long, "--out", "whole", "--processes", "2", folder=tmp_path)
    assert whole.returncode == 0, whole.stderr
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    commands = {
        "restarted": [*torchrun, "--max-restarts", "3", "-m", "nlgnn", "train"],
        "killed": [*NLGNN, "train", "--processes", "2"],
        "interrupted": [*NLGNN, "train", "--processes", "2"],
    }
    for name, command in commands.items():
        words = [*command, str(store), *long, "--out", name]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        parent = subprocess.Popen(
            words,
            cwd=tmp_path,
            env=environment,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(
                signal.SIGINT, signal.default_int_handler
            ),  # a shell may let it be ignored
        )
        wait_for((tmp_path / name / "models" / "00.safetensors").exists)  # the first run is finished
        if name == "interrupted":
            os.killpg(parent.pid, signal.SIGINT)
        else:
            os.kill(processes_of(parent.pid)[1], signal.SIGKILL)
        _, told = parent.communicate(timeout=300)
        assert parent.returncode == {"restarted": 0, "killed": 2, "interrupted": 130}[name], told.decode()
        if name != "restarted":
            assert {"killed": "ended by SIGKILL", "interrupted": "--resume"}[name] in told.decode()
            done = run(*NLGNN, "train", "--resume", name, "--processes", "2", folder=tmp_path)
            assert done.returncode == 0, done.stderr
        assert figures(tmp_path / name) == figures(tmp_path / "whole")
