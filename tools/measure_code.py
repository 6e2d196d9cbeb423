"""Print how large the package is, how far a call travels through it, and how long its help and its tables are.

    python tools/measure_code.py [--no-tables] [--details] [--without PATH ...]

The rows are: code lines and modules, modules passed and the deepest call, the time of
`nlgnn reproduce --table`, and the length of `nlgnn train --help`.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import io
import os
import pkgutil
import shutil
import sys
import tempfile
import time
import tokenize
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from types import FrameType
from typing import NamedTuple

os.environ["COLUMNS"] = "80"  # read once by the consoles of the package

import nlgnn
from nlgnn.cli.main import main

REPOSITORY = Path(__file__).parent.parent
PACKAGE = Path(nlgnn.__file__).parent
NO_CODE = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_lines(source: str) -> int:
    """Return the number of lines that hold code, without docstrings, comments and blank lines.

    Example:
        >>> code_lines("def one():\\n    \\"\\"\\"Return 1.\\"\\"\\"\\n\\n    return 1  # one\\n")
        2
    """
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            docstrings.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


class Travel(NamedTuple):
    """The modules of the package that a call passes, and the deepest stack of its functions."""

    modules: set[str]
    stack: list[str]


def travel(call: Callable[[], object]) -> Travel:
    """Run a call twice and follow the second one, which imports and caches nothing any more."""
    call()
    modules: set[str] = set()
    stack: list[str] = []
    deepest: list[str] = []

    def watch(frame: FrameType, event: str, _: object) -> None:
        nonlocal deepest
        name = frame.f_globals.get("__name__", "")
        if event not in ("call", "return") or not f"{name}.".startswith("nlgnn."):
            return
        if event == "return":
            stack.pop()
            return
        modules.add(name)
        stack.append(f"{name}:{frame.f_code.co_qualname}")
        if len(stack) > len(deepest):
            deepest = stack.copy()

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    return Travel(modules, deepest)


def run(*arguments: str) -> str:
    """Run a command in this process and return what it printed."""
    printed, said = io.StringIO(), io.StringIO()
    with redirect_stdout(printed), redirect_stderr(said):
        try:
            main(list(arguments))
        except SystemExit as ended:
            if ended.code:
                raise RuntimeError(f"nlgnn {' '.join(arguments)}\n{said.getvalue()}") from None
    return printed.getvalue()


def import_all() -> None:
    """Import every module of the package, so that no import is timed."""
    for module in pkgutil.walk_packages(nlgnn.__path__, "nlgnn."):
        if module.name != "nlgnn.__main__":
            importlib.import_module(module.name)


def train_tables() -> None:
    """Train the automatic choice on two small tables, in a new folder."""
    nodes = [f"n{i},{'ab'[i % 2]},{i % 2 + i % 5},{i % 7}" for i in range(60)]
    edges = [f"n{i},n{(i * step + 1) % 60}" for i in range(60) for step in (1, 7)]
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        Path("nodes.csv").write_text("\n".join(["id,label,size,age", *nodes]))
        Path("edges.csv").write_text("\n".join(["source,target", *edges]))
        run("train", "--nodes", "nodes.csv", "--edges", "edges.csv", "--label", "label", "--epochs", "5", "--runs", "2")


def fit_model(graph: nlgnn.Graph) -> None:
    """Train `nlgcn` from Python."""
    nlgnn.fit("nlgcn", graph, recipe=nlgnn.Recipe(epochs=5), progress=False)


def tables_seconds() -> float:
    """Return the CPU seconds of `nlgnn reproduce --table` on a copy of the results."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        shutil.copytree(REPOSITORY / "results", "results")
        started = time.process_time()
        run("reproduce", "--table")
        return time.process_time() - started


def measure(tables: bool, details: bool, without: Sequence[str]) -> None:
    """Print all rows.

    Args:
        tables: If True, time the tables too.
        details: If True, also print the modules that a call passes and its deepest stack.
        without: Folders and files of the package. A second total does not count them.
    """
    lines, modules = Counter[str](), Counter[str]()
    other_lines, other_modules = 0, 0
    for path in PACKAGE.rglob("*.py"):
        place = path.relative_to(PACKAGE)
        count = code_lines(path.read_text())
        lines[str(place.parent)] += count
        modules[str(place.parent)] += 1
        if any(place.is_relative_to(one) for one in without):
            other_lines += count
            other_modules += 1
    for folder in sorted(lines):
        print(f"{lines[folder]:7,} lines {modules[folder]:4} modules  {folder}")
    print(f"{lines.total():7,} lines {modules.total():4} modules  in all")
    if without:
        left_lines, left_modules = lines.total() - other_lines, modules.total() - other_modules
        print(f"{left_lines:7,} lines {left_modules:4} modules  without {', '.join(without)}")
    print(f"{len(run('train', '--help').splitlines()):7} lines of nlgnn train --help at 80 columns")
    import_all()
    if tables:
        print(f"{tables_seconds():7.1f} s of CPU for nlgnn reproduce --table after imports")
    fit = partial(fit_model, nlgnn.load_graph("mushroom-body"))
    for name, call in (("nlgnn train --nodes --edges --label", train_tables), ('fit("nlgcn", graph)', fit)):
        found = travel(call)
        print(f"{len(found.modules):7} modules passed, deepest call {len(found.stack)}: {name}")
        if details:
            print(" ", *sorted(found.modules), "  deepest call:", *found.stack, sep="\n  ")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--no-tables", action="store_true", help="leave out the time of the tables")
    parser.add_argument("--details", action="store_true", help="also print modules passed and the deepest stack")
    parser.add_argument("--without", nargs="+", default=[], metavar="PATH", help="files and folders to leave out")
    given = parser.parse_args()
    measure(tables=not given.no_tables, details=given.details, without=given.without)
