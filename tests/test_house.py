"""The house: who may import whom, what must not be imported, and that names, flags and files are in order."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer.main

import nlgnn
from nlgnn.commands import train, tune
from nlgnn.commands.flags import config_keys
from nlgnn.nn.nonlocal_ import NonLocal
from nlgnn.nn.nonlocal_of import NonLocalOf
from nlgnn.training.options import SHORT_NAMES
from nlgnn.training.recipe import Recipe
from nlgnn.training.systems import SYSTEMS, load

REPOSITORY = Path(__file__).parent.parent
PACKAGE = REPOSITORY / "src" / "nlgnn"

# From the ground up. A room may import those below it and itself.
FLOORS = (
    {"__init__", "errors"},
    {"graph"},
    {"datasets"},
    {"nn"},
    {"training"},
    {"analysis"},
    {"experiments"},
    {"report"},
    {"estimator", "cli", "render", "commands"},
)
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}


def public_names() -> dict[str, str]:
    """Every name that the stub promises, and the room that it comes from."""
    tree = ast.parse((PACKAGE / "__init__.pyi").read_text())
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    return {name.asname or name.name: str(node.module).partition(".")[0] for node in imports for name in node.names}


def imported_rooms(source: str, module: tuple[str, ...]) -> Iterator[str]:
    """The rooms that a module imports anywhere in it; `module` is its path below the package."""
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
                name = public_names().get(rest[0], rest[0])  # `from nlgnn import fit` is an import of training
                yield name if name in FLOOR_OF or (PACKAGE / name).exists() else "__init__"


def climbs(source: str, module: tuple[str, ...]) -> list[str]:
    """The imports of a module that go up."""
    return [room for room in imported_rooms(source, module) if FLOOR_OF[room] > FLOOR_OF[module[0]]]


MODULES = [path.relative_to(PACKAGE).with_suffix("").parts for path in sorted(PACKAGE.rglob("*.py"))]


@pytest.mark.parametrize("module", MODULES, ids=".".join)
def test_no_module_imports_from_above(module: tuple[str, ...]) -> None:
    assert climbs(PACKAGE.joinpath(*module).with_suffix(".py").read_text(), module) == []


@pytest.mark.parametrize(
    "source",
    [
        "import nlgnn.cli",
        "from nlgnn.training.fit import fit",
        "from nlgnn import training",
        "from nlgnn import fit",
        "from ..training import fit",
        "def late():\n    from nlgnn.training.recipe import Recipe",
        "if TYPE_CHECKING:\n    import nlgnn.report.figures",
    ],
)
def test_an_import_from_above_is_found(source: str) -> None:
    assert len(climbs(source, ("nn", "local"))) == 1
    assert climbs("from nlgnn.errors import nearest\nfrom nlgnn import Graph, __version__", ("nn", "local")) == []


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("arguments", [["--help"], ["datasets"], ["datasets", "texas"], ["datasets", "texs"]])
def test_commands_that_do_without_torch(arguments: list[str]) -> None:
    code = f"""
import sys
from nlgnn.cli import main
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


def model_keywords() -> set[str]:
    """What the models' classes take, found without the code that makes flags of it."""
    classes = {load(system) for system in SYSTEMS.values()}
    local = {c.local_class if issubclass(c, NonLocalOf) else c for c in classes}
    names = {name for c in (*local, NonLocal, NonLocalOf) for name in inspect.signature(c).parameters}
    names -= {"in_channels", "out_channels", "num_nodes", "options", "local", "score", "convs"}
    fixed = {name for system in SYSTEMS.values() for name in system.fixed}
    return {SHORT_NAMES.get(name, name) for name in names - fixed}


@pytest.mark.parametrize(
    ("plan_keys", "command", "flags_alone"),
    [
        (train.PLAN_KEYS, train.train_command(), {"resume", "config", "allow_unverified", "tensorboard", "mlflow"}),
        (tune.PLAN_KEYS, tune.tune_command(), {"config", "allow_unverified", "as_json"}),
    ],
    ids=["train", "tune"],
)
def test_flags_and_toml_keys_are_the_fields_and_arguments(
    plan_keys: dict[str, object], command: Callable[..., None], flags_alone: set[str]
) -> None:
    options = set(Recipe.model_fields) | model_keywords()
    assert sorted(config_keys(plan_keys)) == sorted({*plan_keys, *options})  # sorted lists: none twice
    app = typer.Typer(add_completion=False)
    app.command()(command)
    flags = {flag.name: flag for flag in typer.main.get_command(app).params}
    assert set(flags) - flags_alone == set(plan_keys) | options
    for name, flag in flags.items():
        assert f"--{name.removeprefix('as_').replace('_', '-')}" in flag.opts or name == "graph"
        assert flag.help  # type: ignore[attr-defined]


def files_of_the_repository() -> list[Path]:
    """Those in version control, and those that would be added to it next."""
    if not (REPOSITORY / ".git").exists():
        pytest.skip("not a git checkout")
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    return [path for path in map(REPOSITORY.joinpath, listed.splitlines()) if path.is_file()]


def test_no_file_is_two_concepts() -> None:
    sources = [path for path in files_of_the_repository() if path.suffix == ".py"]
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
