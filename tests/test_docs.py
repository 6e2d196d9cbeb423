"""Tests that the code in the documentation runs.

`python` and `sh` blocks of a page are executed in their order, with shortened trainings. The commands in `shell` blocks
are only parsed, which finds commands and options that do not exist.
"""

import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
import typer

from each_of import each_of
from nlgnn.cli.main import build_app, main
from nlgnn.errors import NlgnnError
from nlgnn.models.registry import get_system
from nlgnn.selection import evidence

ROOT = Path(__file__).parent.parent
PATTERNS = ("README.md", "docs/start.md", "docs/guides/*.md", "docs/concepts/*.md")
PAGES = [page for pattern in PATTERNS for page in sorted(ROOT.glob(pattern))]
SHORTER = {
    "train": ["--runs", "2", "--epochs", "20"],
    "tune": ["--settings", "2", "--search-splits", "1", "--search-epochs", "5"],
}


def blocks(page: Path) -> list[tuple[str, str]]:
    """Return the language and the code of each block of a page."""
    return re.findall(r"^```(\w+)\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def commands(code: str) -> Iterator[list[str]]:
    """Yield the arguments of each `nlgnn` command in a block."""
    for line in code.splitlines():
        words = shlex.split(line.partition(" | ")[0], comments=True)
        if words[:1] == ["nlgnn"]:
            yield words[1:]


def run_page(page: Path, epochs: int | None = 2) -> dict[str, Any]:
    """Execute the blocks of a page and return the names that they define.

    Args:
        page: A Markdown file.
        epochs: The number of epochs that replaces every other one in Python code. None keeps it.
    """
    namespace: dict[str, Any] = {}
    for language, code in blocks(page):
        if language == "python":
            shortened = code if epochs is None else re.sub(r"(epochs\w*=)\d+", rf"\g<1>{epochs}", code)
            exec(compile(shortened, page.name, "exec"), namespace)
        elif language == "sh":
            for arguments in commands(code):
                shorter = [] if "--resume" in arguments else SHORTER.get(arguments[0], [])
                with pytest.raises(SystemExit) as stopped:
                    main([*arguments, *shorter])
                assert not stopped.value.code
    return namespace


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short_portfolio: None) -> Path:
    """Change to an empty folder, and shorten diagnoses and automatic choices."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(evidence.SHORT, "epochs", 10)
    return tmp_path


@each_of("page", PAGES, ids=lambda page: page.name)
def test_commands_parse(page: Path) -> None:
    for language, code in blocks(page):
        for arguments in commands(code) if language in ("sh", "shell") else ():
            name, *rest = arguments
            model = rest[rest.index("--model") + 1] if "--model" in rest else "auto"
            assert model == "auto" or ":" in model or get_system(model)
            with suppress(NlgnnError):  # Files, run folders and modules of the example are missing here.
                group = typer.main.get_command(build_app(arguments))
                group.commands[name].make_context(name, rest)  # type: ignore[attr-defined]


# Pages whose results are checked in tests of their own.
OWN_TESTS = ("README.md", "own_graph.md", "own_model.md", "rare_classes.md")
WITH_CODE = [page for page in PAGES if any(language in ("python", "sh") for language, _ in blocks(page))]


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in WITH_CODE if page.name not in OWN_TESTS], ids=lambda page: page.name)
def test_page_runs(page: Path, workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_page(page)
    assert capsys.readouterr().out


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().split()) <= 700


@pytest.mark.slow
def test_readme_runs(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copytree(ROOT / "examples", workplace / "examples")
    run_page(ROOT / "README.md")
    assert (workplace / "runs" / "accounts" / "report.html").exists()
    assert "yes" in (workplace / "labels.csv").read_text()
    assert "no" in capsys.readouterr().out


def test_rare_classes_page_runs(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copytree(ROOT / "examples", workplace / "examples")
    run_page(ROOT / "docs" / "guides" / "rare_classes.md", epochs=20)
    assert (workplace / "runs" / "fraud" / "decision.json").exists()
    few, more = ((workplace / name).read_text().count(",yes,") for name in ("labels.csv", "more-labels.csv"))
    assert few < more
    assert "least expected cost" in capsys.readouterr().out


@pytest.mark.slow
def test_own_model_page_runs(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_page(ROOT / "docs" / "guides" / "own_model.md")
    assert re.search(r"\| kernel 1 \| [^|]+ ± [^|]+ \| [^|]+ \| [-+].* \[.*\] \|", capsys.readouterr().out)


def test_own_graph_page_runs(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    namespace = run_page(ROOT / "docs" / "guides" / "own_graph.md", epochs=None)
    assert (workplace / "runs" / "pages" / "report.html").exists()
    assert (workplace / "labels.parquet").exists()
    assert namespace["shared"].height == 100
    assert "/page/new,sport" in (workplace / "new-labels.csv").read_text()
    assert namespace["later"].graph.node_names[240:] == ("/page/new",)
    assert namespace["weighted"].graph.edge_weight.max() == 700
    assert "\n['sport']\n" in capsys.readouterr().out  # the new page, in Python
