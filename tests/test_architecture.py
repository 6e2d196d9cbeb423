"""Checks of the whole repository: import order, imports at start-up, public names, file sizes, ruff and mypy."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import nlgnn
from each_of import each_of

REPOSITORY = Path(__file__).parent.parent
PACKAGE = REPOSITORY / "src" / "nlgnn"

# A package imports only packages of earlier levels, and itself.
LEVELS = (
    {"__init__", "errors", "files", "json_files", "limits"},
    {"report.table"},  # the table type is plain data, which all packages return
    {"graph"},
    {"datasets"},
    {"tables"},
    {"training.recipe"},  # options of training are options of a model's settings
    {"training.metrics"},  # needs no model, and chooses settings of shallow models
    {"nn"},
    {"shallow"},
    {"models", "training.device"},
    {"training"},
    {"tuning"},
    {"selection"},
    {"analysis"},
    {"report"},
    {"estimator"},
    {"paper"},
    {"cli", "__main__"},
)
LEVEL_OF = {name: level for level, names in enumerate(LEVELS) for name in names}
MODULES = [path.relative_to(PACKAGE).with_suffix("").parts for path in sorted(PACKAGE.rglob("*.py"))]


def level_of(module: str) -> int:
    """Return the level of a dotted path below the package: its own, or that of the nearest package around it."""
    while module not in LEVEL_OF:
        module, _, _ = module.rpartition(".")
    return LEVEL_OF[module]


def public_names() -> dict[str, str]:
    """Return every name of the stub and the module that it comes from."""
    tree = ast.parse((PACKAGE / "__init__.pyi").read_text())
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    return {name.asname or name.name: str(node.module) for node in imports for name in node.names}


def imported(source: str, module: tuple[str, ...]) -> Iterator[str]:
    """Yield the modules of the package that a module imports anywhere; `module` is its path below the package."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            targets = [name.name.split(".") for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ["nlgnn", *module[: -node.level]] if node.level else []
            base += node.module.split(".") if node.module else []
            targets = [[*base, name.name] for name in node.names]
        else:
            continue
        for first, *rest in targets:
            if first == "nlgnn" and rest:
                name = public_names().get(rest[0])  # `from nlgnn import fit` is an import of training
                known = rest[0] in LEVEL_OF or (PACKAGE / rest[0]).exists()
                yield name or (".".join(rest) if known else "__init__")


def wrong_imports(source: str, module: tuple[str, ...]) -> list[str]:
    """Return the imports of a module from later levels."""
    return [name for name in imported(source, module) if level_of(name) > level_of(".".join(module))]


def source_of(module: tuple[str, ...]) -> str:
    """Return the source of a module."""
    return PACKAGE.joinpath(*module).with_suffix(".py").read_text()


def test_import_order() -> None:
    found = {".".join(module): wrong_imports(source_of(module), module) for module in MODULES}
    assert {module: names for module, names in found.items() if names} == {}


def test_only_its_command_imports_the_paper() -> None:
    users = {
        module
        for module in MODULES
        for name in imported(source_of(module), module)
        if name.split(".")[0] == "paper" and module[0] != "paper"
    }
    assert users == {("cli", "reproduce")}


@each_of(
    "source",
    [
        "import nlgnn.cli.main",
        "from nlgnn import fit",
        "from ..training import fit",
        "def late():\n    from nlgnn.training.replica import Replica",
        "if TYPE_CHECKING:\n    import nlgnn.report.figures",
    ],
)
def test_a_wrong_import_is_found(source: str) -> None:
    assert len(wrong_imports(source, ("nn", "local"))) == 1
    assert (
        wrong_imports("from nlgnn.errors import nearest\nfrom nlgnn import Graph, __version__", ("nn", "local")) == []
    )


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a new interpreter."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("arguments", [["--help"], ["datasets", "texas"], ["datasets", "texs"]])
def test_commands_without_torch(arguments: list[str]) -> None:
    code = f"""
import sys
from nlgnn.cli.main import main
try:
    main({arguments})
finally:
    print("torch" in sys.modules)
"""
    done = run_python(code)
    assert done.returncode == (2 if "texs" in arguments else 0), done.stderr
    assert done.stdout.splitlines()[-1] == "False"


def test_importing_the_package_needs_no_torch() -> None:
    code = "import sys, nlgnn; before = 'torch' in sys.modules; nlgnn.fit; print(before, 'torch' in sys.modules)"
    assert run_python(code).stdout.split() == ["False", "True"]


def test_public_names() -> None:
    assert set(nlgnn.__all__) == set(public_names())
    for name in public_names():
        assert getattr(nlgnn, name).__name__ == name


def test_files_are_short() -> None:
    if not (REPOSITORY / ".git").exists():
        pytest.skip("not a git checkout")
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"]
    listed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.splitlines()
    sources = [path for path in map(REPOSITORY.joinpath, listed) if path.is_file()]
    assert len(sources) > 50
    assert [path.name for path in sources if len(path.read_text().splitlines()) > 400] == []


@pytest.mark.parametrize("arguments", [["check"], ["format", "--check"]], ids=" ".join)
def test_ruff(arguments: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", "ruff", *arguments], cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_mypy() -> None:
    done = subprocess.run([sys.executable, "-m", "mypy"], cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
