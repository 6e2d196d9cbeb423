"""`nlgnn train` with good input: what it prints, what it keeps, and how it goes on."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from cli_samples import Command
from nlgnn.cli import main as cli
from nlgnn.cli import train as train_command
from nlgnn.cli.options import PANELS
from nlgnn.models.registry import PRESETS
from nlgnn.nn.non_local import NonLocal
from nlgnn.training import progress
from nlgnn.training.progress import TrainingProgress

TRAIN = ("train", "mushroom-body", "--model", "nlgcn", "--runs", 2, "--epochs", 5)
FIGURE = r"\d+\.\d ± \d+\.\d"


def config(path: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((Path(path) / "config.json").read_text())
    return loaded


def figures(out: str) -> list[str]:
    return re.findall(FIGURE, out)


def test_table_protocol_and_folder(command: Command) -> None:
    done = command(*TRAIN, "--out", "X")
    assert done.code == 0
    assert done.err == ""
    header, row, *rest = done.out.splitlines()
    assert re.split(r" {2,}", header) == ["system", "validation accuracy %", "test accuracy %", "epochs", "ms"]
    assert re.fullmatch(rf"nlgcn +{FIGURE} +{FIGURE} +\d +\d+\.\d", row)
    words = " ".join(rest)
    for part in ("2 runs on 2 splits", "protocol random-60", "preset paper", "run folder: X", "--controls"):
        assert part in words
    runs = json.loads(Path("X/summary.json").read_text())["runs"]
    mean = sum(run["test"]["accuracy"] for run in runs) / 2
    assert f"{mean:.1f} ±" in row
    assert sorted(path.name for path in Path("X").iterdir()) == [
        "config.json",
        "curves.jsonl",
        "decision.json",
        "models",
        "predictions.parquet",
        "report.html",
        "summary.json",
    ]
    assert "report: X/report.html" in words


def test_one_run_has_no_spread(command: Command) -> None:
    row = command("train", "mushroom-body", "--runs", 1, "--epochs", 3, "--out", "X").out.splitlines()[1]
    assert re.fullmatch(r"nlgcn +\d+\.\d +\d+\.\d +\d +\d+\.\d", row)


def test_controls_stand_beside_the_result(command: Command) -> None:
    done = command(*TRAIN, "--controls", "--out", "X")
    rows = done.out.splitlines()[1:6]
    labels = ["nlgcn", "gcn", "nlgcn, kernel 1", "nlgcn, random order", "mlp"]
    assert [re.split(r" {2,}", row)[0] for row in rows] == labels
    assert all(re.search(r"[+-]\d+\.\d \[[+-]\d+\.\d, [+-]\d+\.\d\]", row) for row in rows[1:])
    assert "nlgcn minus it" in done.out
    assert "paired over runs, with 95 % t-intervals" in " ".join(done.out.split())
    folders = ["X", "X-gcn", "X-nlgcn-kernel-1", "X-nlgcn-random-order", "X-mlp"]
    assert re.findall("run folder: (.*)", done.out) == folders
    assert config("X-nlgcn-kernel-1")["model_arguments"]["kernel_size"] == 1
    assert config("X-nlgcn-random-order")["model_arguments"]["order"] == "random"
    assert "--controls" not in done.out  # already done
    assert command("train", "--resume", "X").code == 0
    assert "It stands alone" not in Path("X/report.html").read_text()  # its controls are still there


def test_local_models_have_no_controls(command: Command) -> None:
    done = command("train", "mushroom-body", "--model", "gcn", "--runs", 1, "--epochs", 2, "--controls", "--out", "X")
    assert done.code == 0
    assert re.findall("run folder: (.*)", done.out) == ["X"]


def test_default_folder_names_time_graph_and_model(command: Command) -> None:
    done = command(*TRAIN)
    assert re.search(r"run folder: runs/\d{8}-\d{6}-mushroom-body-left-nlgcn\n", done.out)
    assert len(list(Path("runs").iterdir())) == 1


@pytest.mark.parametrize("preset", PRESETS)
def test_presets(command: Command, preset: str) -> None:
    done = command(*TRAIN, "--preset", preset, "--out", "X")
    assert f"preset {preset}" in " ".join(done.out.split())
    kept = config("X")
    assert kept["preset"] == preset
    for option, value in PRESETS[preset].items():
        if option != "epochs":  # given as a flag
            assert {**kept["recipe"], **kept["model_arguments"]}[option] == value


def test_splits(command: Command) -> None:
    done = command(*TRAIN, "--splits", "random-10", "--out", "X")
    assert "protocol random-10" in done.out
    runs = json.loads(Path("X/summary.json").read_text())["runs"]
    assert [run["protocol"] for run in runs] == ["random-10"] * 2


def test_fixed_splits_of_a_real_graph(command: Command, data_root: Path) -> None:
    done = command("train", "Texas", "--model", "nlmlp", "--splits", "geom-gcn", "--epochs", 2, "--out", "X")
    assert "10 runs on 10 splits, protocol geom-gcn, preset released" in " ".join(done.out.split())


def test_config_file_equals_the_same_flags(command: Command) -> None:
    Path("c.toml").write_text(
        'graph = "mushroom-body"\nmodel = "nlgcn"\nruns = 2\nsplits = "random-10"\npreset = "robust"\nout = "X"\n'
        'epochs = 4\nlr = 0.02\nthreads = 1\nmetric = "macro-f1"\nhidden = 8\nkernel_size = 3\nzero_init = false\n'
    )
    from_file = command("train", "--config", "c.toml")
    flags = "--splits random-10 --preset robust --epochs 4 --lr 0.02 --threads 1 --metric macro-f1 --hidden 8"
    from_flags = command(*TRAIN[:-2], *flags.split(), "--kernel-size", 3, "--no-zero-init", "--epochs", 4, "--out", "Y")
    assert figures(from_file.out) == figures(from_flags.out)
    assert len(figures(from_file.out)) == 2
    assert "validation macro-f1 %" in from_file.out
    for part in ("recipe", "model_arguments", "graph", "model", "protocol", "runs", "preset"):
        assert config("X")[part] == config("Y")[part]
    assert config("X")["recipe"]["lr"] == 0.02
    assert config("X")["model_arguments"]["hidden_channels"] == 8
    assert config("X")["model_arguments"]["zero_init"] is False


def test_flags_win_over_the_config_file(command: Command) -> None:
    Path("c.toml").write_text('graph = "texas"\nmodel = "gat"\nruns = 7\nepochs = 4\nlr = 0.02\nout = "X"\n')
    command(*TRAIN, "--config", "c.toml", "--out", "Y")
    kept = config("Y")
    found = (kept["graph"], kept["model"], kept["runs"], kept["recipe"]["epochs"], kept["recipe"]["lr"])
    assert found == ("mushroom-body-left", "nlgcn", 2, 5, 0.02)
    assert not Path("X").exists()


def press_ctrl_c(monkeypatch: pytest.MonkeyPatch, run: int, epoch: int) -> None:
    """Once, in the middle of a run."""
    update = TrainingProgress.update

    def press(self: TrainingProgress, at: list[int], *figures: float) -> None:
        update(self, at, *figures)
        if (self.finished, at) == (run, [epoch]):
            monkeypatch.setattr(TrainingProgress, "update", update)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(TrainingProgress, "update", press)


def test_resumed_training_ends_with_the_same_figures(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    train = (*TRAIN[:-1], 12, "--dropout", 0.5, "--replicas", 1)
    whole = command(*train, "--out", "whole")
    press_ctrl_c(monkeypatch, run=1, epoch=7)
    cut = command(*train, "--out", "cut here")
    assert cut.code == 130
    assert cut.out == ""
    assert cut.err == "\ninterrupted. Continue with: nlgnn train --resume 'cut here'\n"
    assert [run["index"] for run in json.loads(Path("cut here/summary.json").read_text())["runs"]] == [0]
    resumed = command("train", "--resume", "cut here")
    assert resumed.code == 0
    assert figures(resumed.out) == figures(whole.out)
    for name in ("models/00.safetensors", "models/01.safetensors", "predictions.parquet", "curves.jsonl"):
        assert (Path("cut here") / name).read_bytes() == (Path("whole") / name).read_bytes()
    assert not Path("cut here/checkpoint.safetensors").exists()


def test_resuming_a_finished_folder_shows_it_again(command: Command) -> None:
    first = command(*TRAIN, "--out", "X")
    again = command("train", "mushroom-body", "--model", "NLGCN", "--resume", "X")
    assert again.code == 0
    assert again.out.splitlines() == first.out.splitlines()[: len(again.out.splitlines())]
    assert "run folder: X" in again.out


def test_a_run_that_fails_is_left_out_and_named(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    loss = NonLocal.loss

    def undefined_in_the_first_run(self: NonLocal, *given: Any) -> torch.Tensor:
        return loss(self, *given) * (float("nan") if torch.initial_seed() == 0 else 1.0)

    monkeypatch.setattr(NonLocal, "loss", undefined_in_the_first_run)
    done = command(*TRAIN, "--controls", "--replicas", 1, "--out", "X")
    assert done.code == 0
    assert "left out of the figures: run 0: the loss became nan" in done.err
    assert "epoch 1" in done.err
    runs = json.loads(Path("X/summary.json").read_text())["runs"]
    assert [run["failure"] is None for run in runs] == [False, True]
    assert re.search(rf"^nlgcn +{runs[1]['val']['accuracy']:.1f} ", done.out, flags=re.MULTILINE)


def test_no_bar_where_there_is_no_terminal(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SECONDS_BEFORE_SHOWN", 0.0)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_UPDATES", 0.0)
    assert command(*TRAIN, "--out", "X").err == ""
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)  # but a line now and then
    lines = command(*TRAIN, "--out", "Y").err.splitlines()
    assert re.fullmatch(r"epoch 1 of runs 1 to 2 of 2, validation: loss \d\.\d+, best metric \d+\.\d", lines[0])


def test_help(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli.console, "width", 80)
    shown = command("train", "--help").out
    assert len(shown.splitlines()) <= 110
    assert re.findall("─ ([A-Z][-a-z ]+) ─", shown) == list(PANELS)
    assert "--dropout 0.5 " in shown
    assert "--hidden int " in shown  # models have several defaults
    assert "--[no-]zero-init" in shown
    for of_one_model in ("--heads", "--alpha", "--gamma"):
        assert of_one_model not in shown


def test_an_option_of_one_model_is_taken(command: Command) -> None:
    short = ("--runs", 1, "--epochs", 2)
    assert command("train", "mushroom-body", "--model", "gat", "--heads", 2, *short, "--out", "X").code == 0
    assert config("X")["model_arguments"]["heads"] == 2


def test_interrupted_controls_are_completed(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = command(*TRAIN, "--controls", "--out", "whole")
    train, begun = train_command.train, []

    def interrupted(*arguments: Any, **more: Any) -> Any:
        begun.append(arguments)
        if len(begun) == 2:
            raise KeyboardInterrupt
        return train(*arguments, **more)

    monkeypatch.setattr(train_command, "train", interrupted)
    cut = command(*TRAIN, "--controls", "--out", "cut")
    assert (cut.code, cut.out) == (130, "")
    assert "Continue with: nlgnn train --resume cut --controls" in cut.err
    done = command("train", "--resume", "cut", "--controls")
    assert figures(done.out) == figures(whole.out)
    assert len(figures(done.out)) == 10


def test_a_local_model_has_no_controls(command: Command) -> None:
    done = command("train", "mushroom-body", "--model", "gcn", "--controls", "--runs", 1, "--epochs", 2, "--out", "X")
    assert done.code == 0
    assert done.err == "gcn is a local model: it has no controls.\n"


@pytest.mark.parametrize(
    ("model", "flags"),
    [
        ("h2gcn", ("--rounds", 1, "--activation", "none")),
        ("geom-gcn-s", ("--space", "isomap")),
        ("cpgcn", ("--prior", "cheby", "--pretrain-epochs", 2)),
        ("simp-gcn", ("--gamma", 0.2)),
        ("fagcn", ("--eps", 0.5)),
        ("gcnii", ("--num-layers", 3, "--own-weights")),
    ],
)
def test_compared_systems(command: Command, model: str, flags: tuple[Any, ...]) -> None:
    done = command("train", "mushroom-body", "--model", model, "--runs", 2, "--epochs", 3, "--out", "X", *flags)
    assert done.code == 0
    words = " ".join(done.out.split())
    assert f"the training programme of {'geom-gcn-s' if 'geom' in model else model}, preset paper, given " in words
    assert "epochs=3" in words
    chosen = config("X")["model_arguments"] | config("X")["recipe"]
    for flag, value in zip(flags[::2], flags[1::2], strict=False):
        assert chosen[flag[2:].replace("-", "_")] == value


def test_a_wrapped_system_beside_its_local_part(command: Command) -> None:
    train = ("train", "mushroom-body", "--model", "nl-linkx", "--runs", 2, "--epochs", 3, "--out", "X", "--controls")
    done = command(*train)
    assert done.code == 0
    labels = [line.split("  ")[0] for line in done.out.splitlines()[1:5]]
    assert labels == ["nl-linkx", "linkx", "nl-linkx, kernel 1", "nl-linkx, random order"]
    again = command("train", "--resume", "X", "--controls")
    assert figures(again.out) == figures(done.out)


def test_estimate_trains_nothing(command: Command) -> None:
    given = ("train", "mushroom-body", "--runs", 2, "--epochs", 9, "--estimate", "--out", "R")
    shown = command(*given, "--model", "nlmlp").out
    assert re.search(r"^Memory: about [\d.]+ \wiB at the peak", shown)
    assert "for 2 runs of at most 9 epochs" in shown
    assert not Path("R").exists()
    refused = command(*given, "--model", "auto")
    assert refused.code == 2
    assert "--estimate needs a named model" in refused.err
