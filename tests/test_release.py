"""Tests of what is released: wheel and sdist, and the workflows that test and publish them."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

from nlgnn import __version__

ROOT = Path(__file__).parent.parent


def build(kind: str, folder: Path) -> bytes:
    """Return the content of a built wheel or sdist."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return next(folder.iterdir()).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_archives_are_reproducible(kind: str, tmp_path: Path) -> None:
    assert build(kind, tmp_path / "one") == build(kind, tmp_path / "two")


@pytest.mark.slow
def test_content_of_archives(tmp_path: Path) -> None:
    build("wheel", tmp_path / "wheel")
    names = set(zipfile.ZipFile(next((tmp_path / "wheel").iterdir())).namelist())
    info = f"nlgnn-{__version__}.dist-info"
    assert {"nlgnn/py.typed", "nlgnn/__init__.pyi", "nlgnn/selection/portfolio.toml", f"{info}/METADATA"} <= names
    assert any(name.startswith("nlgnn/datasets/data/") for name in names)
    assert any(name.startswith("nlgnn/report/assets/") for name in names)
    assert {name.split("/")[0] for name in names} == {"nlgnn", info}
    build("sdist", tmp_path / "sdist")
    with tarfile.open(next((tmp_path / "sdist").iterdir())) as archive:
        tops = {name.split("/")[1] for name in archive.getnames()}
    assert {"src", "pyproject.toml", "README.md", "LICENSE"} <= tops
    assert not tops & {"tests", "results", "docs", "benchmarks", "runs"}


def test_workflows_have_no_finding() -> None:
    command = [str(Path(sys.executable).with_name("zizmor")), "--offline", "--no-progress", "--quiet", str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_problem_reports_ask_for_versions() -> None:
    forms = [yaml.safe_load(path.read_text()) for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")]
    required = {field["id"] for form in forms for field in form["body"] if field.get("validations", {}).get("required")}
    assert "info" in required
