"""Several run folders side by side: which may be, what they are called, what stands next to one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from report_samples import trained_on

from nlgnn.datasets import load_graph
from nlgnn.errors import OptionError
from nlgnn.report.page import Command, Figure, Headline
from nlgnn.report.run_page import (
    comparison_parts,
    differing_settings,
    read_companions,
    why_not_comparable,
    with_names,
    write_comparison,
)
from nlgnn.report.table import Section
from nlgnn.training.train import Trained, read_trained

GRAPH = "mushroom-body-left"
# By the name of the folder.
TRAININGS: dict[str, dict[str, Any]] = {
    "run": {"model": "nlgcn"},
    "run-gcn": {"model": "gcn"},
    "run-nlgcn-kernel-1": {"model": "nlgcn", "kernel_size": 1},
    "run-wide": {"model": "nlgcn", "hidden": 9},
    "run-gcn-f1": {"model": "gcn", "metric": "macro-f1"},
    "run-mlp-tenth": {"model": "mlp", "protocol": "random-10"},
    "else": {"model": "gcn", "lr": 0.1},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs")
    for name, options in TRAININGS.items():
        trained_on(load_graph(GRAPH), path / name, epochs=2, **options)
    (path / "run-notes").mkdir()
    return path


def read(*paths: Path) -> list[Trained]:
    return [read_trained(path)[0] for path in paths]


def test_companions_are_what_was_trained_beside_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the same splits and metric; not the model once more, nor folders of other names."""
    (trained,) = read(folder / "run")
    found = read_companions(folder / "run", trained)
    assert {label: one.folder.path.name for label, one in found.items()} == {
        "gcn": "run-gcn",
        "nlgcn, kernel 1": "run-nlgcn-kernel-1",
    }
    monkeypatch.chdir(folder / "run")
    assert list(read_companions(Path(), trained)) == list(found)


def test_companions_of_a_name_that_looks_like_a_pattern(folder: Path, tmp_path: Path) -> None:
    for name in ("run", "run-gcn"):
        shutil.copytree(folder / name, tmp_path / name.replace("run", "[ab]*"))
    (trained,) = read(tmp_path / "[ab]*")
    assert list(read_companions(tmp_path / "[ab]*", trained)) == ["gcn"]


def test_the_first_companion_of_a_label_is_taken(folder: Path, tmp_path: Path) -> None:
    for name in ("run", "run-gcn"):
        shutil.copytree(folder / name, tmp_path / name)
    shutil.copytree(folder / "else", tmp_path / "run-gcn-again")
    found = read_companions(tmp_path / "run", read(tmp_path / "run")[0])
    assert found["gcn"].folder.path.name == "run-gcn"


@pytest.mark.parametrize(
    ("other", "why"),
    [("run-gcn-f1", "for another metric"), ("run-mlp-tenth", "under another protocol"), ("else", None)],
)
def test_only_the_same_splits_and_metric_are_compared(folder: Path, other: str, why: str | None) -> None:
    assert why_not_comparable(*read(folder / "run", folder / other)) == why
    if why is not None:
        with pytest.raises(OptionError, match=rf"{other} was trained {why} than .*run\."):
            write_comparison(folder / "report.html", [folder / "run", folder / other])
        assert not (folder / "report.html").exists()


def test_another_graph_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = read(folder / "run", folder / "else")
    monkeypatch.setitem(other.folder.config, "fingerprint", "of another")
    assert why_not_comparable(one, other) == "on another graph"


def test_a_folder_named_twice_is_refused(folder: Path) -> None:
    with pytest.raises(OptionError, match="named twice"):
        write_comparison(
            folder / "report.html", [folder / "run", folder / "run-gcn", folder / "run-gcn" / ".." / "run"]
        )


def test_names(folder: Path, tmp_path: Path) -> None:
    """Folders tell apart what has one label, also those of one name."""
    shutil.copytree(folder / "run-gcn", tmp_path / "else")
    trained = read(folder / "run", folder / "else", tmp_path / "else")
    assert with_names(trained) == {
        "nlgcn": trained[0],
        f"gcn ({folder / 'else'})": trained[1],
        f"gcn ({tmp_path / 'else'})": trained[2],
    }


def test_only_settings_that_differ_are_shown(folder: Path) -> None:
    rows = differing_settings(with_names(read(folder / "run-gcn", folder / "run-nlgcn-kernel-1")))
    found = {row["setting"]: (row["gcn"], row["nlgcn, kernel 1"]) for row in rows}
    assert found["model"] == ("gcn", "nlgcn")
    assert found["kernel_size"] == ("–", "1")
    assert "lr" not in found


def test_page(folder: Path, tmp_path: Path) -> None:
    write_comparison(tmp_path / "report.html", [folder / "run", folder / "run-gcn", folder / "else"])
    text = (tmp_path / "report.html").read_text()
    assert f"<title>3 models on {GRAPH}</title>" in text
    trained = with_names(read(folder / "run", folder / "run-gcn", folder / "else"))
    parts = comparison_parts(trained, load_graph(GRAPH))
    headline, figure, section = parts[:3]
    assert isinstance(headline, Headline)
    assert headline.what.startswith("test accuracy of nlgcn, 95 % interval")
    assert isinstance(figure, Figure)
    figure.chart.to_dict()
    assert isinstance(section, Section)
    labels = ["nlgcn", "majority class", f"gcn ({folder / 'run-gcn'})", f"gcn ({folder / 'else'})"]
    assert [row["model"] for row in section.rows] == labels
    titles = [part.title for part in parts if isinstance(part, (Section, Command))]
    assert titles[1:3] == ["Different settings", "Cost"]
    assert titles[3:] == [f"Repeat {label}" for label in trained]
