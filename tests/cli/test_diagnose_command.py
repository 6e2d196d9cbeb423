"""`nlgnn diagnose`, as users run it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cli_samples import Command
from nlgnn.selection import diagnosis as experiment
from nlgnn.selection import evidence as evidence_module
from nlgnn.selection.evidence import SHORT


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
