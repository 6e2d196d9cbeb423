"""`nlgnn diagnose` and `nlgnn train --model auto`, as users run them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cli_samples import Command
from nlgnn.cli import train as train_module
from nlgnn.selection import auto
from nlgnn.selection import diagnosis as experiment
from nlgnn.selection import evidence as evidence_module
from nlgnn.selection.auto import Decision
from nlgnn.selection.evidence import SHORT

AUTO = ("train", "mushroom-body", "--model", "auto", "--runs", 2, "--epochs", 3, "--out", "X")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SHORT, "epochs", 3)
    monkeypatch.setattr(evidence_module, "HEADS", 1)
    monkeypatch.setattr(evidence_module, "FEWEST_SPLITS", 2)
    monkeypatch.setattr(experiment, "MOST_SPLITS", 2)
    monkeypatch.setattr(evidence_module, "SEEDS", 1)


def test_page(command: Command) -> None:
    done = command("diagnose", "mushroom-body", "--controls", "--out", "some/where")
    assert done.code == 0
    titles = ["Graph mushroom-body-left", "Homophily", "Edges between classes"]
    titles += [
        "Homophily by number of labelled neighbours",
        "Homophily by class",
        "Short trainings",
        "Verdict: ",
        "Order and its controls",
    ]
    places = [done.out.index(title) for title in titles]
    assert places == sorted(places)
    assert re.search(r"nodes +209\n", done.out)
    assert "protocol random-60" in done.out
    assert re.search(r"Next: nlgnn train mushroom-body-left --model \w+", done.out)
    assert done.out.splitlines()[-1] == "report: some/where/report.html"
    page = Path("some/where/report.html").read_text()
    drawn = ["Edges between classes", *titles[3:6]]  # in place of the table of the matrix
    headings = ["Diagnosis of mushroom-body-left", "Next step", *titles[:2], *drawn, titles[-1]]
    assert [title for title in headings if title not in page] == []
    assert json.loads(Path("some/where/diagnosis.json").read_text())["graph"] == "mushroom-body-left"


def test_json_is_one_document(command: Command) -> None:
    done = command("diagnose", "mushroom-body", "--json", "--splits", "random-10", "--metric", "macro-f1")
    document = json.loads(done.out)
    assert document["category"] in ("assortative", "first", "second", "undecided")
    assert document["graph"] == "mushroom-body-left"
    assert document["evidence"]["protocol"] == "random-10"
    assert document["evidence"]["metric"] == "macro-f1"
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
        (("mushroom-body", "--metric", "acuracy"), "metric"),
        (("mushroom-body", "--metric", "roc-auc"), "roc-auc needs two classes"),
        (("mushroom-body", "--out", "there"), "there exists already."),
        (("mushroom-body", "--out", "file/new"), "file/new cannot be"),
        (("mushroom-body", "--out", "x" * 300), "cannot be used"),
    ]:
        done = command("diagnose", *arguments)
        assert done.code == 2
        assert message in done.err
        assert done.out == ""
    assert command("diagnose").code == 2


def config(path: str | Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((Path(path) / "config.json").read_text())
    return loaded


def choice(path: str = "X") -> dict[str, Any]:
    recorded: dict[str, Any] = json.loads((Path(path) / "choice.json").read_text())
    return recorded


def models(path: str = "X") -> set[str]:
    return {folder.name for folder in (Path(path) / "models").iterdir()}


def force(monkeypatch: pytest.MonkeyPatch, ahead: bool) -> None:
    """Decide as told, whatever was trained."""

    def fake(runs: dict[str, Any], metric: str) -> Decision:
        non_local, local = runs
        return Decision(non_local, local, 70 if ahead else 60, 65, metric)

    monkeypatch.setattr(auto, "decide", fake)


@pytest.mark.parametrize("ahead", [True, False])
def test_the_folder_stands_for_the_chosen_model(ahead: bool, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    force(monkeypatch, ahead)
    done = command(*AUTO)
    assert done.code == 0, done.err
    assert done.out.startswith("Diagnosis: ")
    chosen = choice()["model"]
    assert chosen.startswith("nl") is ahead
    assert f"Chose {chosen}: " in done.out
    assert choice()["reason"] in done.out
    assert choice()["reason"] in Path("X/report.html").read_text()
    assert config("X")["model"] == "auto"
    assert [path.name for path in Path().iterdir()] == ["X"]
    assert models() in ({"mlp", "nlmlp"}, {"gcn", "nlgcn"}, {"gat", "nlgat"})
    rows = [line.split()[0] for line in done.out.splitlines() if re.match(r"(nl)?(mlp|gcn|gat) +\d", line)]
    assert rows == sorted(rows, key=lambda name: not name.startswith("nl"))
    assert set(rows) == models()
    assert set(re.findall("run folder: (.*)", done.out)) == {f"X/models/{name}" for name in models()}
    page = Path("X/report.html").read_text()
    resumed = command("train", "--resume", "X", "--model", "auto")
    assert resumed.code == 0, resumed.err  # all is there already
    assert choice()["reason"] in resumed.out
    for line in (("explain", "X", "0"), ("predict", "X", "--all"), ("report", "X")):
        shown = command(*line)
        assert shown.code == 0, shown.err
    assert f" of {chosen}, calibrated" in command("predict", "X", "--all").out
    assert Path("X/report.html").read_text() == page  # the other candidate stands in it too


def test_a_decision_that_cannot_be_kept_is_told(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = auto.write_whole

    def full(path: Path, *arguments: Any) -> None:
        if path.exists():  # the verdict is in it already
            raise OSError(28, "No space left on device")
        whole(path, *arguments)

    monkeypatch.setattr(auto, "write_whole", full)
    done = command(*AUTO)
    assert done.code == 2
    assert "X/choice.json cannot be written: No space left on device" in done.err
    assert "nlgnn train --resume X" in done.err
    monkeypatch.setattr(auto, "write_whole", whole)
    assert command("train", "--resume", "X").code == 0
    assert choice()["model"] in models()


def test_real_choice_and_controls(command: Command) -> None:
    done = command(*AUTO, "--controls")
    chosen = re.search(r"Chose (\w+)", done.out)
    assert chosen is not None
    assert choice()["model"] == chosen[1]
    assert len(re.findall("run folder:", done.out)) == len(models()) >= 4
    non_local = choice()["decision"]["non_local"]
    assert {f"{non_local}-kernel-1", f"{non_local}-random-order"} < models()


@pytest.mark.parametrize("stopped_at", ["diagnosis", "non-local", "local"])
def test_interrupted_and_resumed(stopped_at: str, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """At any step, under its final name."""
    whole_train, whole_diagnosis = train_module.train, auto.diagnose

    def interrupted(plan: Any, *arguments: Any, **more: Any) -> Any:
        if plan.model.startswith("nl") is (stopped_at == "non-local"):
            raise KeyboardInterrupt
        return whole_train(plan, *arguments, **more)

    def interrupted_diagnosis(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    if stopped_at == "diagnosis":
        monkeypatch.setattr(auto, "diagnose", interrupted_diagnosis)
    else:
        monkeypatch.setattr(train_module, "train", interrupted)
    stopped = command(*AUTO)
    assert stopped.code == 130
    assert "nlgnn train --resume X\n" in stopped.err
    assert [path.name for path in Path().iterdir()] == ["X"]
    assert "holds no finished run" in command("predict", "X").err
    monkeypatch.setattr(train_module, "train", whole_train)
    if stopped_at == "diagnosis":
        monkeypatch.setattr(auto, "diagnose", whole_diagnosis)
    else:
        monkeypatch.delattr(auto, "diagnose")  # its verdict is in the folder
    resumed = command("train", "--resume", "X")
    assert resumed.code == 0, resumed.err
    assert choice()["reason"] in resumed.out
    monkeypatch.setattr(auto, "diagnose", whole_diagnosis, raising=False)
    assert command(*AUTO[:-1], "Y").code == 0
    assert choice("Y") == choice("X")  # as an uninterrupted one
    for name in models():
        again = command("train", "--resume", f"X/models/{name}")
        assert again.code == 0, again.err
        assert "Chose" not in again.out


def test_resumed_with_another_model_or_graph(command: Command) -> None:
    assert command(*AUTO).code == 0
    refused = command("train", "--resume", "X", "--model", "gcn")
    assert refused.code == 2
    assert "holds the model 'auto', not 'gcn'" in refused.err
    settings = config("X")
    Path("X/config.json").write_text(json.dumps(settings | {"fingerprint": "another"}))
    assert "another version of" in command("train", "--resume", "X").err


@pytest.mark.parametrize("local_fails", [False, True])
def test_a_non_local_model_that_fails_wholly_is_not_chosen(
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
        assert "Chose" not in done.out
        return
    assert done.code == 0, done.err
    chosen = choice()["model"]
    assert f"Chose {chosen}: the training of nl{chosen} failed." in done.out
    assert f"run folder: X/models/{chosen}\n" in done.out


def test_the_metric_decides_from_the_diagnosis_on(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    whole = auto.diagnose
    monkeypatch.setattr(auto, "diagnose", lambda *given, **more: seen.append(more["metric"]) or whole(*given, **more))
    done = command(*AUTO, "--metric", "macro-f1")
    assert done.code == 0, done.err
    assert seen == ["macro-f1"]
    assert choice()["decision"]["metric"] == "macro-f1"
    assert "validation macro-f1" in choice()["reason"]


def test_auto_in_a_file(command: Command) -> None:
    Path("run.toml").write_text('graph = "mushroom-body"\nmodel = "auto"\nruns = 1\nepochs = 2\nout = "Y"\n')
    done = command("train", "--config", "run.toml")
    assert done.code == 0, done.err
    assert "Chose " in done.out
    assert Path("Y", "models", choice("Y")["folder"], "summary.json").exists()


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
