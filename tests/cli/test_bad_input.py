"""Bad input: what is wrong in one line, how to mend it in the next, exit code 2, and nothing written."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from cli_samples import Command, everything, refused
from each_of import each_of
from nlgnn.cli import main as cli
from nlgnn.datasets import describe
from nlgnn.errors import OptionError

TRAIN = ("train", "mushroom-body", "--runs", "1", "--epochs", "2")


BAD_OPTIONS = {
    "no graph": ("train --model nlgcn", "No graph is named", "nlgnn train texas"),
    "dataset": ("train texass", "no dataset 'texass'", "mean 'texas'"),
    "model": ("train texas --model nlgcm", "no model 'nlgcm'", "mean 'nlgcn'"),
    "page of a model": ("models nlgct", "no model 'nlgct'", "mean 'nlgat'|mean 'nlgcn'"),
    "preset": ("train texas --preset relaesed", "no preset 'relaesed'", "mean 'released'"),
    "protocol": ("train mushroom-body --splits random-61", "no splits 'random-61'", "mean 'random-60'"),
    "protocol of another": ("train mushroom-body --splits geom-gcn", "no splits 'geom-gcn'", "random-60, random-10"),
    "even kernel": ("train texas --kernel-size 4", "kernel_size=4", "odd"),
    "dropout": ("train texas --dropout 2", r"dropout=2\.0: .*less than 1", "dropout: "),
    "another's option": (
        "train texas --model gcn --kernel-size 3",
        "gcn has no option 'kernel_size'",
        "option: nlmlp, nlgcn, nlgat",
    ),
    "control of none": (
        "train texas --model mlp --order random",
        "mlp has no option 'order'",
        "option: nlmlp, vote-mlp, nlgcn",
    ),
    "no relations": (
        "train mushroom-body --model geom-gcn --space poincare",
        "relation file .* graph 'mushroom-body-left'",
        "space=isomap",
    ),
    "no first phase": (
        "train texas --model cpgcn --pretrain-epochs 0",
        "CPGCN .* pretrain_epochs is 0",
        "pretrain_epochs",
    ),
    "a phase of none": ("train texas --model h2gcn --pretrain-epochs 3", "H2GCN has no pre-training", "at 0"),
    "no trial": ("train mushroom-body --model simp-gcn --memory 8GiB", "needs is unknown", "Leave memory out"),
    "no step": ("train texas --lr 0", r"lr=0\.0", "Learning rate"),
    "no epoch": ("train texas --epochs 0", "epochs=0", "training epochs"),
    "no run": ("train mushroom-body --runs 0", "runs=0", "at least one run"),
    "threads": ("train texas --threads many", "threads='many'", "CPU threads"),
    "device": ("train mushroom-body --device abacus", "device 'abacus' is neither", "--device cpu"),
    "two classes": ("train mushroom-body --metric roc-auc", "two classes, this graph has 4", "macro-f1"),
    "no space": (
        "train texas --model nlmlp --space-dim 8",
        "space_dim=8 changes nothing: no order is learned",
        "order='learned'",
    ),
    "votes": ("train texas --model vote-gcn --kernel-size 7", "vote-gcn has no option 'kernel_size'", "option: nlmlp"),
    "no score": (
        "train texas --order learned --local-loss 1",
        "local_loss=1.0 changes nothing: a learned order",
        "order='score'",
    ),
    "auto": ("train texas --model auto --space-lr 1", r"space_lr=1.0 changes nothing", "order='learned'"),
    "search": ("tune texas --order learned --local-loss 1", "local_loss=1.0 changes nothing", "order='score'"),
    "no logits": ("train mushroom-body --preset robust --embedding 3", "embedding=3", "Leave the embedding width out"),
}


@each_of(("line", "what", "how"), BAD_OPTIONS.values(), ids=BAD_OPTIONS)
def test_options(command: Command, line: str, what: str, how: str) -> None:
    refused(command(*line.split()), what, how)
    assert everything() == {}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu(command: Command) -> None:
    refused(command(*TRAIN, "--device", "cuda"), "device 'cuda' cannot be used", "--device cpu")
    assert everything() == {}


def test_metric_of_two_classes_on_five(command: Command, data_root: Path) -> None:
    refused(command("train", "texas", "--metric", "roc-auc"), "two classes, this graph has 5", "accuracy")
    assert everything() == {}


@each_of(
    ("line", "named"),
    [
        ("train texas --lr fast", "--lr"),
        ("train texas --order sideways", "--order"),
        ("train texas --model geom-gcn-g --neighbourhood latent", "--neighbourhood"),
        ("train texas --kernal-size 3", "--kernel-size"),
        ("trian texas", "train"),
    ],
)
def test_what_the_parser_refuses(command: Command, line: str, named: str) -> None:
    outcome = command(*line.split())
    assert (outcome.code, outcome.out) == (2, "")
    assert named in outcome.err
    assert "Traceback" not in outcome.err
    assert everything() == {}


BAD_FILES = {
    "broken": ("lr = = 1", "c.toml cannot be read as TOML.*line 1", "lr = 0.05"),
    "binary": ("\udcff\udcfe", "c.toml cannot be read as TOML", "lr = 0.05"),
    "unknown key": ("kernal_size = 3", "c.toml: unknown key 'kernal_size'", "mean 'kernel_size'"),
    "section": ("[training]\nlr = 0.05", "c.toml: unknown key 'training'", "mean|Known names"),
    "text for a number": ('runs = "ten"', "c.toml: runs = 'ten'", "whole number"),
    "truth for a number": ("runs = true", "c.toml: runs = True", "whole number"),
    "number for a name": ("graph = 3", "c.toml: graph = 3", "text in quotes"),
    "text for a truth": ('controls = "no"', "c.toml: controls = 'no'", "true or false"),
    "bad value": ("epochs = 0", "epochs=0", "training epochs"),
    "bad type": ('lr = "fast"', "lr='fast'", "Learning rate"),
    "bad model value": ('hidden = "wide"', "hidden='wide'", "[Ww]idth"),
}


@each_of(("text", "what", "how"), BAD_FILES.values(), ids=BAD_FILES)
def test_config_file(command: Command, text: str, what: str, how: str) -> None:
    Path("c.toml").write_text(text, errors="surrogateescape")
    refused(command("train", *([] if "graph" in text else ["mushroom-body"]), "--config", "c.toml"), what, how)
    assert list(everything()) == [Path("c.toml")]


def test_config_file_that_cannot_be_opened(command: Command, tmp_path: Path) -> None:
    refused(command(*TRAIN, "--config", "none.toml"), "none.toml cannot be read: No such file", "--config")
    refused(command(*TRAIN, "--config", tmp_path), "cannot be read: it is not a regular file", "TOML file")


def test_folder_that_exists(command: Command) -> None:
    Path("X").mkdir()
    Path("X/precious").write_text("kept")
    refused(command(*TRAIN, "--out", "X"), "X exists already", "^Name another folder")  # there is nothing to go on with
    assert everything() == {Path("X"): b"", Path("X/precious"): b"kept"}
    Path("X/config.json").write_text("{}")
    refused(command(*TRAIN, "--out", "X"), "X exists already", "--resume X")


def test_folder_of_a_control_that_exists(command: Command) -> None:
    Path("X-nlgcn-random-order").mkdir()
    refused(command(*TRAIN, "--controls", "--out", "X"), "X-nlgcn-random-order exists already", "another folder")
    assert list(everything()) == [Path("X-nlgcn-random-order")]  # nothing was trained before it was noticed


def test_folder_below_a_file(command: Command) -> None:
    Path("file").write_text("kept")
    refused(command(*TRAIN, "--out", "file/X"), "file/X cannot be made: Not a directory", "Name a folder")
    assert everything() == {Path("file"): b"kept"}


def test_folder_that_cannot_be_written(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, *_: object, **__: object) -> None:  # an administrator may write anywhere, so permissions
        raise PermissionError(13, "Permission denied", str(self))  # would not do

    monkeypatch.setattr(Path, "mkdir", refuse)
    refused(command(*TRAIN, "--out", "closed/X"), "closed/X cannot be made: Permission denied", "Name a folder")
    assert everything() == {}


@pytest.fixture
def trained(command: Command) -> Path:
    assert command(*TRAIN, "--out", "X").code == 0
    return Path("X")


@each_of(
    ("arguments", "what", "how"),
    [
        ("--model gcn", "X holds the model 'nlgcn', not 'gcn'", "Leave it out"),
        ("mushroom-body-right", "X holds the graph 'mushroom-body-left'", "Leave it out"),
        ("--lr 0.1", "--lr cannot change", "new folder"),
        ("--no-score-bias", "--score-bias cannot change", "new folder"),
        ("--out Y", "--out cannot change", "new folder"),
        ("--config c.toml", "--config cannot change", "new folder"),
    ],
)
def test_resuming_what_it_is_not(command: Command, trained: Path, arguments: str, what: str, how: str) -> None:
    before = everything()
    refused(command("train", *arguments.split(), "--resume", trained), what, how)
    assert everything() == before


def test_a_training_is_not_resumed_as_an_automatic_choice(command: Command) -> None:
    assert command(*TRAIN, "--order", "learned", "--out", "X").code == 0
    before = everything()
    refused(command("train", "--resume", "X", "--model", "auto"), "not 'auto'", "Leave it out")
    assert everything() == before


def test_resuming_weights_of_another_model(command: Command, trained: Path) -> None:
    command("train", "mushroom-body", "--model", "gcn", "--runs", 1, "--epochs", 2, "--out", "Y")
    for name in ("00.safetensors", "00-validation.safetensors"):
        (trained / "models" / name).write_bytes((Path("Y/models") / name).read_bytes())
    summary, other = (json.loads((folder / "summary.json").read_text()) for folder in (trained, Path("Y")))
    (trained / "summary.json").write_text(json.dumps(summary | {"weights": other["weights"]}))
    before = everything()
    refused(command("train", "--resume", trained), "weights in X belong to another model", "the model and the options")
    assert everything() == before


@pytest.mark.parametrize("content", [None, "", "{}", "[1]", '{"format_version": 99}'])
def test_resuming_what_is_no_run_folder(command: Command, content: str | None) -> None:
    Path("X").mkdir()
    if content is not None:
        Path("X/config.json").write_text(content)
    before = everything()
    refused(command("train", "--resume", "X"), "^error: X ", "config.json|folder|Update")
    assert everything() == before


def test_resuming_a_folder_that_lacks_something(command: Command, trained: Path) -> None:
    kept = json.loads((trained / "config.json").read_text())
    del kept["protocol"]
    (trained / "config.json").write_text(json.dumps(kept))
    refused(command("train", "--resume", trained), "X/config.json: it lacks 'protocol'", "train again")


def test_damaged_data_file(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = describe("texas").files[0]
    place = tmp_path / "data" / first.path
    place.parent.mkdir(parents=True)
    place.write_text("node_id\tfeature\tlabel\n0\tnan\t1\n")
    monkeypatch.setenv("NLGNN_DATA", str(tmp_path / "data"))
    before = everything()
    what = rf"{re.escape(str(place))}.*its sha256 is [0-9a-f]{{64}}, expected {first.sha256}"
    refused(command("train", "texas"), what, f"save {re.escape(first.url)} as")
    assert everything() == before


def test_data_folder_that_is_none(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NLGNN_DATA", "nowhere")
    refused(command("datasets"), "NLGNN_DATA names nowhere, which is not a folder", "unset it")


def test_every_run_fails(command: Command) -> None:
    outcome = command(*TRAIN, "--lr", "1e300", "--out", "X")
    refused(outcome, "every run failed; run 0: the loss became .*nan.*, epoch 1", "lower learning rate")


@pytest.mark.parametrize("place", [0, -1])
def test_debug_shows_where_it_came_from(place: int, as_users_run_it: None) -> None:
    line = ["train", "texas", "--kernel-size", "4"]
    line.insert(place % (len(line) + 1), "--debug")
    with pytest.raises(OptionError, match="kernel_size=4") as shown:
        cli.main(line)
    assert shown.traceback[-1].name.startswith("check")


EARLY = {
    "model": "train texas --model nlgcm",
    "model behind an option": "train --hidden 3 texas --model nlgcm",
    "graph": "train texs --hidden 3",
    "preset": "train texas --preset best",
    "run folder": "train --resume nowhere",
    "value": "train texas --lr 0",
    "type of a value": "train texas --lr fast",
    "file": "train --nodes nowhere.csv --label topic",
    "label": "train --nodes pages.csv",
    "search": "tune texas --model nlgcm --hidden 3,4",
    "splits": "train texas --splits random-61",
    "number of runs": "train texas --runs 0",
    "new folder": "train texas --out pages.csv",
    "class": "train texas --model no_module:Net",
    "number of settings": "tune texas --settings many",
    "metric": "diagnose texas --metric acc",
    "table": "reproduce resluts",
    "configuration": "train --config nowhere.toml",
    "report": "report nowhere",
    "not a run folder": "predict pages.csv",
    "prediction": "predict nowhere",
    "explanation": "explain nowhere 3",
    "export": "export nowhere model.onnx",
}


@each_of("line", EARLY.values(), ids=EARLY)
def test_a_mistake_that_needs_no_torch(line: str, tmp_path: Path) -> None:
    (tmp_path / "pages.csv").write_text("id,topic\n1,a\n")
    code = f"""
import sys
from nlgnn.cli.main import main
try:
    main({line.split()})
finally:
    print("torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 2
    assert done.stdout == "False\n"
