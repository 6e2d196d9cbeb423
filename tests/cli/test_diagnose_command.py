"""`nlgnn diagnose` and `nlgnn train --model auto`, as users run them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli_samples import Command

from nlgnn.commands import auto as auto_command
from nlgnn.commands import train as train_module
from nlgnn.experiments import diagnose as experiment
from nlgnn.experiments import evidence as evidence_module
from nlgnn.experiments import order as order_module
from nlgnn.experiments.auto import Gate
from nlgnn.experiments.evidence import SHORT

AUTO = ("train", "mushroom-body", "--model", "auto", "--runs", 2, "--epochs", 3, "--out", "X")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SHORT, "epochs", 3)
    monkeypatch.setattr(evidence_module, "HEADS", 1)
    monkeypatch.setattr(evidence_module, "FEWEST_SPLITS", 2)
    monkeypatch.setattr(experiment, "MOST_SPLITS", 2)
    monkeypatch.setattr(order_module, "SEEDS", 1)


def test_page(command: Command) -> None:
    done = command("diagnose", "mushroom-body", "--controls", "--out", "some/where")
    assert done.code == 0
    titles = ["Graph mushroom-body-left", "Do neighbours agree?", "Which classes are joined to which?"]
    titles += [
        "Agreement by number of labelled neighbours",
        "Agreement by class",
        "Do neighbours help?",
        "Verdict: ",
        "Does the order matter?",
    ]
    places = [done.out.index(title) for title in titles]
    assert places == sorted(places)
    assert re.search(r"nodes +209\n", done.out)
    assert "protocol random-60" in done.out
    assert re.search(r"Next: nlgnn train mushroom-body-left --model \w+", done.out)
    assert done.out.splitlines()[-1] == "report: some/where/report.html"
    page = Path("some/where/report.html").read_text()
    headings = ["Diagnosis of mushroom-body-left", "What to run next", *titles[:-2], titles[-1]]
    assert [title for title in headings if title not in page] == []
    assert json.loads(Path("some/where/diagnosis.json").read_text())["graph"] == "mushroom-body-left"


def test_json_is_one_document(command: Command) -> None:
    done = command("diagnose", "mushroom-body", "--json", "--splits", "random-10")
    document = json.loads(done.out)
    assert document["category"] in ("assortative", "first", "second", "undecided")
    assert document["graph"] == "mushroom-body-left"
    assert document["evidence"]["protocol"] == "random-10"
    assert document["next"].startswith("nlgnn train mushroom-body-left --model ")
    assert "--splits random-10" in document["next"]
    (folder,) = Path("runs").iterdir()
    assert re.fullmatch(r"\d{8}-\d{6}-mushroom-body-left-diagnosis", folder.name)
    assert done.err == f"report: {folder}/report.html\n"
    assert {path.name: path.read_text() for path in folder.iterdir()}["diagnosis.json"] == done.out


def test_a_report_that_cannot_be_written_is_no_failure(command: Command) -> None:
    Path("runs").write_text("no folder")
    done = command("diagnose", "mushroom-body", "--splits", "random-10")
    assert done.code == 0
    assert "Verdict: " in done.out
    assert "report" not in done.out
    assert re.fullmatch(r"no report: runs/.*/report.html cannot be written: .*\n", done.err)


def test_bad_input(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(evidence_module, "fit_settings")  # nothing is trained
    Path("there").mkdir()
    Path("file").touch()
    for arguments, message in [
        (("texs",), "texas"),
        (("mushroom-body", "--splits", "geom-gcn"), "no splits 'geom-gcn'"),
        (("mushroom-body", "--out", "there"), "there exists already."),
        (("mushroom-body", "--out", "file/new"), "file/new cannot be"),
        (("mushroom-body", "--out", "x" * 300), "cannot be used"),
    ]:
        done = command("diagnose", *arguments)
        assert done.code == 2
        assert message in done.err
        assert done.out == ""
    assert command("diagnose").code == 2


def config(path: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((Path(path) / "config.json").read_text())
    return loaded


def decide(monkeypatch: pytest.MonkeyPatch, ahead: bool) -> None:
    """A gate that decides as told, whatever was trained."""

    def fake_gate(runs: dict[str, Any], metric: str) -> Gate:
        non_local, local = runs
        return Gate(non_local, local, 70 if ahead else 60, 65, metric)

    monkeypatch.setattr(auto_command, "gate", fake_gate)


@pytest.mark.parametrize("ahead", [True, False])
def test_the_first_folder_is_the_model_taken(ahead: bool, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    decide(monkeypatch, ahead)
    done = command(*AUTO)
    assert done.code == 0, done.err
    assert done.out.startswith("Diagnosis: ")
    taken = config("X")["model"]
    assert taken.startswith("nl") is ahead
    assert f"The gate takes {taken}" in done.out
    assert f"The gate takes {taken}" in Path("X/report.html").read_text()
    folders = sorted(path.name for path in Path().iterdir())
    assert len(folders) == 2
    other = next(name for name in folders if name != "X")
    assert other == f"X-{config(other)['model']}"
    assert {taken, config(other)["model"]} in ({"mlp", "nlmlp"}, {"gcn", "nlgcn"}, {"gat", "nlgat"})
    rows = [line.split()[0] for line in done.out.splitlines() if re.match(r"(nl)?(mlp|gcn|gat) +\d", line)]
    assert rows == sorted(rows, key=lambda name: not name.startswith("nl"))
    assert len(rows) == 2
    assert set(re.findall("run folder: (.*)", done.out)) == set(folders)
    resumed = command("train", "--resume", "X", "--model", "auto")
    assert resumed.code == 0  # all is there already
    assert sorted(path.name for path in Path().iterdir()) == folders


def test_words_for_the_page_that_cannot_be_kept_are_no_failure(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    decide(monkeypatch, True)
    monkeypatch.setattr(auto_command, "write_whole", full)
    done = command(*AUTO)
    assert done.code == 0
    assert "X/config.json cannot be written: No space left on device" in done.err
    assert "The gate takes" in done.out
    assert "gate" not in config("X")


def test_real_gate_and_controls(command: Command) -> None:
    done = command(*AUTO, "--controls")
    taken = re.search(r"The gate takes (\w+)", done.out)
    assert taken is not None
    assert config("X")["model"] == taken[1]
    assert len(re.findall("run folder:", done.out)) == 4


@pytest.mark.parametrize("older", [False, True])
def test_interrupted_and_resumed(older: bool, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    whole_train = train_module.train

    def interrupted(plan: Any, *arguments: Any, **more: Any) -> Any:
        if not plan.model.startswith("nl"):
            raise KeyboardInterrupt
        return whole_train(plan, *arguments, **more)

    decide(monkeypatch, False)
    monkeypatch.setattr(train_module, "train", interrupted)
    stopped = command(*AUTO)
    assert stopped.code == 130
    assert "nlgnn train --resume X --model auto" in stopped.err
    assert "--controls" not in stopped.err
    assert config("X")["model"].startswith("nl")
    monkeypatch.setattr(train_module, "train", whole_train)
    if older:  # which do not say that the choice was automatic
        Path("X/config.json").write_text(
            json.dumps({key: config("X")[key] for key in config("X") if key != "automatic"})
        )
    resumed = command("train", "--resume", "X", *(["--model", "auto"] if older else []))
    assert resumed.code == 0, resumed.err
    assert "The gate takes" in resumed.out
    taken = config("X")["model"]
    assert not taken.startswith("nl")
    for folder in ("X", f"X-nl{taken}"):  # the choice is made
        again = command("train", "--resume", folder)
        assert again.code == 0, again.err
        assert "The gate" not in again.out
    assert {path.name for path in Path().iterdir()} == {"X", f"X-nl{taken}"}


@pytest.mark.parametrize("local_fails", [False, True])
def test_a_non_local_model_that_fails_wholly_is_not_taken(
    local_fails: bool, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole_train = train_module.train

    def failing(plan: Any, *arguments: Any, **more: Any) -> Any:
        if plan.model.startswith("nl") or local_fails:
            plan = replace(plan, options={**plan.options, "lr": 1e30})
        return whole_train(plan, *arguments, **more)

    monkeypatch.setattr(train_module, "train", failing)
    done = command(*AUTO)
    assert "every run failed" in done.err
    if local_fails:
        assert done.code == 2
        assert "The gate" not in done.out
        return
    assert done.code == 0, done.err
    taken = config("X")["model"]
    assert f"The gate takes {taken}: the training of nl{taken} failed." in done.out
    assert config(f"X-nl{taken}")["automatic"] is False
    assert "run folder: X\n" in done.out


def test_auto_in_a_file(command: Command) -> None:
    Path("run.toml").write_text('graph = "mushroom-body"\nmodel = "auto"\nruns = 1\nepochs = 2\nout = "Y"\n')
    done = command("train", "--config", "run.toml")
    assert done.code == 0, done.err
    assert "The gate takes" in done.out
    assert Path("Y/summary.json").exists()


def test_mistakes_speak_before_anything_is_trained(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(evidence_module, "fit_settings")
    done = command(*AUTO, "--heads", 2)
    assert done.code == 2
    assert "nlmlp has no option 'heads'" in done.err
    assert "no splits" in command(*AUTO, "--splits", "geom-gcn").err
    Path("X").mkdir()
    done = command(*AUTO)
    assert done.code == 2
    assert "X exists already" in done.err
    assert sorted(path.name for path in Path().iterdir()) == ["X"]


def test_a_folder_in_the_way_of_the_model_not_taken(command: Command) -> None:
    for model in ("nlmlp", "nlgcn", "nlgat"):
        Path(f"X-{model}").mkdir()
    done = command(*AUTO)
    assert done.code == 2
    assert "exists already" in done.err
    assert not Path("X").exists()
