"""Tests of the documentation site: its reference is complete, and it is built without warnings."""

import inspect
import os
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest

import nlgnn
from nlgnn.cli.main import COMMANDS

ROOT = Path(__file__).parent.parent


def test_reference_lists_every_public_name() -> None:
    listed = re.findall(r"^   (\w+)$", (ROOT / "docs" / "reference" / "api.md").read_text(), flags=re.MULTILINE)
    assert sorted(listed) == sorted(name for name in nlgnn.__all__ if not name.startswith("_"))


@pytest.mark.parametrize("name", [name for name in nlgnn.__all__ if not name.startswith("_")])
def test_public_names_are_documented(name: str) -> None:
    """Doctests run the examples."""
    item = getattr(nlgnn, name)
    text = inspect.getdoc(item) or ""
    assert ">>> " in text
    if inspect.isfunction(item):
        assert "Args:" in text
        assert "Returns:" in text


OWN = {"Model", "ShallowModel", "NeighbourVote", "MLP", "Logistic", "KernelClassifier"}  # no paper, or a textbook's
MODELS = [
    name
    for name, one in ((name, getattr(nlgnn, name)) for name in nlgnn.__all__)
    if inspect.isclass(one) and issubclass(one, nlgnn.Model | nlgnn.ShallowModel) and name not in OWN
]


@pytest.mark.parametrize("name", MODELS)
def test_models_have_equations_and_a_paper(name: str) -> None:
    model = getattr(nlgnn, name)
    text = sys.modules[getattr(model, "wrapper", model).__module__].__doc__ or ""
    assert ".. math::" in text
    assert re.search(r'`"[^"]+"\s+<https://[^>]+>`_', text)


@pytest.mark.slow
def test_site_is_built_with_its_notebooks(tmp_path: Path) -> None:
    """Sphinx runs the notebooks and ends with an error at the first warning, such as a link that leads nowhere."""
    site = tmp_path / "site"
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-d", str(tmp_path / "trees")]
    done = subprocess.run(
        [*command, str(ROOT / "docs"), str(site)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    page = (site / "notebooks" / "fraud.html").read_text()
    assert all(text in page for text in ("Neighbours help", "probability of yes", "Contributions to the probability"))
    train = (site / "reference" / "commands" / "train.html").read_text()
    assert "--time-budget" in train
    assert all((site / "reference" / "commands" / f"{name}.html").exists() for name in COMMANDS)
    assert "<math" in (site / "concepts" / "non_local.html").read_text()
    api = {path.stem: path.read_text() for path in (site / "reference" / "api").glob("*.html")}
    assert [name for name, text in api.items() if "FieldInfo" in text] == []
    assert "Float[Tensor, 'n f']" in unescape(re.sub("<[^>]+>", "", api["nlgnn.GCN"]))  # shapes
    assert "<strong>weight_decay</strong>" in api["nlgnn.Recipe"]
    assert "<math" in api["nlgnn.NLGCN"]
    assert (site / "searchindex.js").stat().st_size > 10_000


EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.html"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_reports_are_small_and_hold_no_paths_of_a_machine(path: Path) -> None:
    text = path.read_text("utf-8")
    assert len(text.encode()) < 3_000_000
    assert f"docs/examples/{path.name}" in (ROOT / "README.md").read_text("utf-8")
    assert re.findall(r"(?:/tmp|/home|/root|/Users|/work)/[\w./-]*", text) == []


def test_there_are_example_reports() -> None:
    assert {path.stem for path in EXAMPLES} == {"rare-class", "chameleon"}
