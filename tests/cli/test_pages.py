"""The commands that list and show, and the demonstration."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cli_samples import Command
from nlgnn import __version__
from nlgnn.cli import demo
from nlgnn.datasets import CATALOG
from nlgnn.models.options import model_options
from nlgnn.models.registry import SYSTEMS


def words(text: str) -> str:
    return " ".join(text.split())


def test_version(command: Command) -> None:
    assert command("--version") == (0, f"nlgnn {__version__}\n", "")


def test_no_command_shows_help(command: Command) -> None:
    shown = command()
    for name in ("train", "demo", "datasets", "models", "reproduce"):
        assert re.search(rf"^\W*{name} ", shown.out + shown.err, flags=re.MULTILINE)


def test_datasets(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NLGNN_DATA", raising=False)
    monkeypatch.setenv("NLGNN_CACHE", str(tmp_path / "cache"))
    header, *lines = command("datasets").out.splitlines()
    assert header.split() == ["name", "nodes", "edges", "features", "classes", "H(G)", "files", "licence"]
    rows = {line.split()[0]: line.split() for line in lines[: len(CATALOG)]}
    assert list(rows) == list(CATALOG)
    assert rows["texas"] == ["texas", "183", "279", "1,703", "5", "0.057", "fetch", "none", "stated"]
    assert rows["mushroom-body-left"][-2:] == ["here", "MIT"]
    for file in CATALOG["texas"].files:
        (tmp_path / "cache" / file.path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "cache" / file.path).touch()
    assert re.search(r"^texas .* here ", command("datasets").out, flags=re.MULTILINE)


@pytest.mark.parametrize("name", ["texas", "chameleon", "mushroom-body-left", "snap-patents"])
def test_dataset(command: Command, name: str) -> None:
    shown = command("datasets", name)
    assert shown.code == 0
    page, dataset = words(shown.out), CATALOG[name]
    assert f"name {name} nodes {dataset.statistics.nodes:,}" in page
    for part in (dataset.citation, dataset.licence, *dataset.quirks, *dataset.protocols, dataset.default_protocol):
        assert words(part) in page


def test_models(command: Command) -> None:
    lines = command("models").out.splitlines()
    assert [line.split()[0] for line in lines[1 : 1 + len(SYSTEMS)]] == list(SYSTEMS)


@pytest.mark.parametrize("name", ["mlp", "geom-gcn-s", "h2gcn", "cpgcn", "nlgcn", "nl-linkx", "vote-gcn", "trees"])
def test_model(command: Command, name: str) -> None:
    page = words(command("models", name).out)
    assert f"name {name} summary {SYSTEMS[name].summary} source {SYSTEMS[name].source}" in page
    for option in model_options(SYSTEMS[name]).values():
        no = "[no-]" if option.type is bool else ""
        assert f" --{no}{option.name.replace('_', '-')} " in page
        assert option.help in page
    assert ("kernel_size: 3, 5, 7" in page) == (SYSTEMS[name].kind == "non-local")


@pytest.fixture
def short_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """The demonstration with fewer epochs."""
    monkeypatch.setattr(demo, "OPTIONS", {"epochs": 4})


def test_demo(command: Command, short_demo: None) -> None:
    shown = command("demo", "--picture", "order.svg")
    assert shown.code == 0
    assert shown.err.count("training ") == 4
    for label in ("Kenyon", "Projection", "Output", "Input"):
        assert f"{label[0]} {label}" in shown.out
    assert "before training" in shown.out
    assert re.search(r"after training \(epoch \d\) ", shown.out)
    strips = "".join(re.findall(r"^[KPOI]+$", shown.out, flags=re.MULTILINE))  # letters, where there are no colours
    assert len(strips) == 2 * 209
    rows = re.findall(r"^(.+?) {2,}\d+\.\d ± \d+\.\d +\d+\.\d ± \d+\.\d", shown.out, flags=re.MULTILINE)
    assert rows == ["nlgcn", "gcn", "nlgcn, kernel 1", "nlgcn, random order"]
    assert "protocol random-60" in words(shown.out)
    folders = re.findall("run folder: (.*)", shown.out)
    assert len(folders) == 4
    assert all(Path(folder, "summary.json").exists() for folder in folders)
    assert Path("order.svg").read_text().startswith("<svg")


@pytest.mark.parametrize("picture", ["order.docx", "order", "nowhere/order.svg"])
def test_demo_refuses_a_picture_before_it_trains(command: Command, short_demo: None, picture: str) -> None:
    refused = command("demo", "--picture", picture)
    assert (refused.code, refused.out) == (2, "")
    what, _ = refused.err.splitlines()
    assert what.startswith(f"error: {picture} cannot be")
    assert not list(Path().iterdir())
