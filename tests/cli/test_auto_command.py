"""`nlgnn train --model auto`, as users run it."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from own_samples import write

from cli_samples import Command, refused
from nlgnn.cli import train as train_module
from nlgnn.selection import ensemble as ensemble_module
from nlgnn.selection import portfolio

AUTO = ("train", "mushroom-body", "--model", "auto", "--runs", 2, "--epochs", 3, "--time-budget", "none", "--out", "X")
ALL = {"logistic-own-columns", "mlp", "gcn"}


@pytest.fixture(autouse=True)
def quick(short_portfolio: None) -> None:
    pass


def read(name: str, path: str = "X") -> dict[str, Any]:
    recorded: dict[str, Any] = json.loads((Path(path) / f"{name}.json").read_text())
    return recorded


def models(path: str = "X") -> set[str]:
    return {folder.name for folder in (Path(path) / "models").iterdir()}


def figures(path: str) -> list[dict[str, Any]]:
    """Return the rows of a leaderboard without times and memory."""
    rows = read("leaderboard", path)["rows"]
    return [{key: row[key] for key in row if not key.endswith(("seconds", "mib"))} for row in rows]


def test_the_folder_stands_for_the_chosen_model(command: Command) -> None:
    done = command(*AUTO)
    assert done.code == 0, done.err
    chosen = read("choice")
    assert chosen["folder"] in models()
    assert models() > ALL
    non_local = models() - ALL
    assert len(non_local) == 2
    assert any(name.endswith("kernel-1") for name in non_local)
    assert chosen["headline"] in done.out
    assert [sentence for sentence in chosen["verdict"] if sentence not in done.out] == []
    page = Path("X/report.html").read_text()
    assert "Leaderboard" in page
    for line in (("explain", "X", "0"), ("predict", "X", "--all"), ("report", "X")):
        shown = command(*line)
        assert shown.code == 0, shown.err
    assert f" of {chosen['model']}" in command("predict", "X", "--all", "--force").out
    assert Path("X/report.html").read_text() == page
    resumed = command("train", "--resume", "X", "--model", "auto")
    assert resumed.code == 0, resumed.err  # all is there already
    assert chosen["headline"] in resumed.out
    assert Path("X/report.html").read_text() == page


def test_leaderboard_files(command: Command) -> None:
    assert command(*AUTO, "--metric", "macro-f1").code == 0
    board = read("leaderboard")
    assert board["metric"] == read("choice")["metric"] == "macro-f1"
    rows = list(csv.DictReader(Path("X/leaderboard.csv").read_text().splitlines()))
    assert [row["name"] for row in rows] == [row["name"] for row in board["ranked"]]
    finished = [row for row in rows if row["status"] == "finished"]
    scores = [float(row["validation macro-f1"]) for row in finished]
    assert scores == sorted(scores, reverse=True)
    assert [row["rank"] for row in finished] == [str(rank) for rank in range(1, len(finished) + 1)]
    skipped, ensemble = [row for row in rows if row["status"] == "not started"]
    assert (skipped["name"], skipped["reason"]) == ("dirgcn", "edges have no direction")
    assert "fewer than 200" in ensemble["reason"]
    assert all(float(row["fit_seconds"]) > 0 and row["test accuracy"] for row in finished)


@pytest.mark.parametrize("stopped_at", ["mlp", "gcn", "nlgcn"])
def test_interrupted_and_resumed(stopped_at: str, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finished entries stay, and the result is that of an uninterrupted choice."""
    whole_train, trained = train_module.train, list[str]()

    def interrupted(plan: Any, *arguments: Any, **more: Any) -> Any:
        trained.append(plan.model)
        if plan.model == stopped_at:
            raise KeyboardInterrupt
        return whole_train(plan, *arguments, **more)

    monkeypatch.setattr(train_module, "train", interrupted)
    stopped = command(*AUTO)
    if stopped_at not in trained:  # another local model was the best one
        assert stopped.code == 0
        return
    assert stopped.code == 130
    assert "nlgnn train --resume X\n" in stopped.err
    assert "holds no finished run" in command("predict", "X").err
    before = len(trained) - 1
    trained.clear()
    stopped_at = ""
    resumed = command("train", "--resume", "X")
    assert resumed.code == 0, resumed.err
    assert len(trained) + before == len(models())
    assert command(*AUTO[:-1], "Y").code == 0
    assert figures("Y") == figures("X")
    assert read("choice", "Y") == read("choice", "X")


def test_resumed_with_another_model_or_graph(command: Command) -> None:
    assert command(*AUTO).code == 0
    refused(command("train", "--resume", "X", "--model", "gcn"), "holds the model 'auto', not 'gcn'")
    refused(command("train", "--resume", "X", "--time-budget", "5m"), "--time-budget cannot change")
    settings = read("config")
    Path("X/config.json").write_text(json.dumps(settings | {"fingerprint": "another"}))
    assert "another version of" in command("train", "--resume", "X").err
    Path("X/config.json").write_text(json.dumps(settings))
    Path("X/leaderboard.json").write_text("{")
    assert "X/leaderboard.json cannot be read" in command("train", "--resume", "X").err


@pytest.mark.parametrize("failing", [{"mlp"}, {"logistic", "mlp", "gcn"}])
def test_models_that_fail(failing: set[str], command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    whole_train = train_module.train

    def failing_train(plan: Any, *arguments: Any, **more: Any) -> Any:
        if plan.model in failing:
            if plan.model == "logistic":
                raise RuntimeError("out of memory")
            plan = replace(plan, options={**plan.options, "lr": 1e30})
        return whole_train(plan, *arguments, **more)

    monkeypatch.setattr(train_module, "train", failing_train)
    done = command(*AUTO)
    assert "mlp: failed: " in done.err
    if len(failing) > 1:
        assert done.code == 2
        assert "no model could be trained. logistic, own columns: RuntimeError: out of memory" in done.err
        assert not Path("X").exists()
        return
    assert done.code == 0, done.err
    assert "mlp" not in models()
    (failed,) = [row for row in read("leaderboard")["rows"] if row["status"] == "failed"]
    assert failed["entry"]["name"] == "mlp"


def test_too_little_memory_for_most_models(command: Command) -> None:
    done = command(*AUTO, "--memory", "1MiB")
    assert done.code == 0, done.err
    assert "would take about" in done.err
    assert models() == {"logistic-own-columns"}
    assert {row["reason"] for row in read("leaderboard")["rows"] if row["status"] == "failed"}


def test_without_time_the_simplest_models_are_trained(command: Command) -> None:
    done = command(*[{"none": "0.01s"}.get(str(word), word) for word in AUTO])
    assert done.code == 0, done.err
    assert models() == {"logistic-own-columns", "mlp"}
    statuses = {row["entry"]["name"]: row["status"] for row in read("leaderboard")["rows"]}
    assert statuses["gcn"] == "not started"


def test_auto_in_a_file(command: Command) -> None:
    Path("run.toml").write_text('graph = "mushroom-body"\nruns = 1\nepochs = 2\ntime-budget = "1h"\nout = "Y"\n')
    done = command("train", "--config", "run.toml")
    assert done.code == 0, done.err
    assert Path("Y", "models", read("choice", "Y")["folder"], "summary.json").exists()


def test_mistakes_speak_before_anything_is_trained(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(train_module, "train")
    monkeypatch.delattr(train_module, "choose")
    base = ("train", "mushroom-body", "--out", "X")
    refused(command(*base, "--time-budget", "0s"), "'0s' is not a time budget", "5m")
    refused(command(*base, "--time-budget", "five"), "'five' is not a time budget", "5m")
    refused(command(*base, "--time-budget", "5"), "'5' is not a time budget")
    refused(command(*base, "--time-budget", "5m", "--model", "gcn"), "does not apply to gcn", "auto")
    refused(command(*base, "--model", "auto", "--gamma", "2"), "no model of auto has the option 'gamma'")
    refused(command(*base, "--model", "auto", "--kernel-size", "2"), "kernel_size=2")
    refused(command(*base, "--model", "auto", "--metric", "f1"), "f1 needs two classes")
    assert "no splits" in command(*base, "--model", "auto", "--splits", "geom-gcn").err
    assert not Path("X").exists()


def write_accounts(rare: int = 6) -> None:
    rows = [[number, number % 5, "fraud" if number < rare else "honest"] for number in range(60)]
    write("accounts.csv", [["id", "amount", "kind"], *rows])
    write("payments.csv", [["source", "target"], *([number, (7 * number + 1) % 60] for number in range(60))])


TABLES = ("train", "--nodes", "accounts.csv", "--edges", "payments.csv", "--label", "kind", "--epochs", 3)


def test_rare_class_and_direction_of_tables(command: Command) -> None:
    """The rarer class is the positive one, average precision decides, and direction is tried."""
    write_accounts()
    done = command(*TABLES, "--time-budget", "none", "--runs", 2, "--out", "X")
    assert done.code == 0, done.err
    assert "average-precision, because the class fraud has fewer than 15%" in done.err
    assert read("leaderboard")["metric"] == "average-precision"
    assert read("config")["tables"]["directed"] is True
    assert "dirgcn" in models()
    assert "direction of edges" in done.out
    assert "No model is clearly better than a constant score" in done.out
    assert "Not clearly better than a constant answer" in Path("X/report.html").read_text()
    assert command("predict", "X", "--all").code == 0


def test_no_edges(command: Command) -> None:
    write_accounts()
    done = command(*TABLES[:3], *TABLES[5:], "--time-budget", "none", "--runs", 2, "--out", "X")
    assert done.code == 0, done.err
    assert "gcn: not started: the graph has no edges" in done.err
    assert models() >= {"logistic-own-columns", "mlp"}
    write("payments.csv", [["source", "target"]])
    done = command(*TABLES, "--time-budget", "none", "--runs", 2, "--out", "Y")
    assert done.code == 0, done.err
    assert "payments.csv has 0 rows and 2 columns, so that there are no edges: only features can help" in done.err
    assert models("Y") == models()
    assert command("predict", "Y", "--all").code == 0


def test_new_nodes(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the chosen model knows nodes by their number, the best one that does not predicts new nodes."""
    entries = [{"name": "kernel", "model": "kernel"}, {"name": "mlp", "model": "mlp", "without_edges": True}]
    monkeypatch.setitem(portfolio.DATA, "entry", entries)  # type: ignore[arg-type]
    write_accounts()
    assert command(*TABLES, "--time-budget", "none", "--runs", 2, "--out", "X").code == 0
    record = read("choice")
    Path("X/choice.json").write_text(json.dumps(record | {"model": "kernel", "folder": "kernel"}))
    write("new.csv", [["id", "amount"], [99, 3]])
    done = command("predict", "X", "--nodes", "new.csv", "--out", "labels.csv")
    assert done.code == 0, done.err
    assert "kernel cannot predict new nodes. mlp" in done.err
    assert Path("labels.csv").read_text().splitlines()[1].startswith("99,")


@pytest.fixture
def ensemble(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ensemble is always ahead, and a graph may be small."""

    def certain(members: Any, y: Any, metric: str) -> Any:
        return torch.nn.functional.one_hot(y, members[0].shape[1]).float()

    monkeypatch.setattr(ensemble_module, "FEWEST_NODES", 5)
    monkeypatch.setattr(ensemble_module, "unseen_mean", certain)


def test_ensemble(command: Command, ensemble: None) -> None:
    """The folder stands for the ensemble: predictions, explanation, page, leaderboard, resume; members are checked."""
    done = command(*AUTO)
    assert done.code == 0, done.err
    record = read("choice")
    assert record["name"] == "ensemble"
    members = record["ensemble"]["members"]
    assert {one["folder"] for one in members} <= models()
    assert all(sum(row) == pytest.approx(1) for row in record["ensemble"]["weights"])
    page = Path("X/report.html").read_text()
    assert "Members of the ensemble" in page
    assert " of ensemble, calibrated" in command("predict", "X", "--all", "--out", "all.csv").out
    shown = command("explain", "X", "0")
    assert shown.code == 0, shown.err
    assert "the member with the largest weight" in shown.out.replace("\n", " ")
    assert command("report", "X").code == 0
    assert Path("X/report.html").read_text() == page
    assert command("leaderboard", "X").out.splitlines()[2].split()[1] == "ensemble"
    refused(command("export", "X", "model.onnx"), "An ensemble cannot be exported", "models/")
    resumed = command("train", "--resume", "X")
    assert resumed.code == 0, resumed.err
    again = read("choice")
    assert again["ensemble"]["members"] == members
    assert again["ensemble"]["weights"] == record["ensemble"]["weights"]
    assert again["ensemble"]["runs"] == record["ensemble"]["runs"]
    assert again == record
    wanted = Path("all.csv").read_text()
    assert command("predict", "X", "--all", "--out", "again.csv").code == 0
    assert Path("again.csv").read_text() == wanted
    summary = Path("X/models", members[0]["folder"], "summary.json")
    content = summary.read_text()
    summary.write_text(content + " ")
    refused(command("predict", "X", "--all"), "is not what the ensemble of X was made of: .* another one", "Restore")
    summary.unlink()
    refused(command("predict", "X", "--all"), "summary.json is missing", "Restore")
    summary.write_text(content)
    Path("X/choice.json").write_text(
        json.dumps(record | {"ensemble": {"members": members, "weights": [[1]], "runs": []}})
    )
    refused(command("predict", "X", "--all"), "choice.json is damaged")


def test_no_ensemble(command: Command, ensemble: None) -> None:
    assert command(*AUTO, "--no-ensemble").code == 0
    assert read("choice")["name"] != "ensemble"
    assert "ensemble" not in [row["name"] for row in read("leaderboard")["ranked"]]
    refused(command("train", "mushroom-body", "--model", "gcn", "--no-ensemble"), "does not apply to gcn", "auto")


def test_new_nodes_of_an_ensemble(command: Command, ensemble: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a member knows nodes by their number, the best single model that does not predicts new nodes."""
    entries = [{"name": "kernel", "model": "kernel"}, {"name": "mlp", "model": "mlp", "without_edges": True}]
    monkeypatch.setitem(portfolio.DATA, "entry", entries)  # type: ignore[arg-type]
    write_accounts()
    assert command(*TABLES, "--time-budget", "none", "--runs", 2, "--metric", "log-loss", "--out", "X").code == 0
    names = [one["name"] for one in read("choice")["ensemble"]["members"]]
    write("new.csv", [["id", "amount"], [99, 3]])
    done = command("predict", "X", "--nodes", "new.csv", "--out", "labels.csv")
    assert done.code == 0, done.err
    assert ("The ensemble cannot predict new nodes. mlp" in done.err) == ("kernel" in names)
