"""The words of the source: docstrings and the help of options follow the rules of the project."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import typer.main

from nlgnn.cli.main import COMMANDS, build_app
from nlgnn.cli.options import LONGEST_HELP, first_sentence
from nlgnn.models.options import model_options
from nlgnn.models.registry import SYSTEMS
from nlgnn.training.recipe import Recipe

PACKAGE = Path(__file__).parent.parent / "src" / "nlgnn"
OPENINGS = re.compile(r"\W*(Of|What|Where|Whether)\b")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
SOURCES = {str(path.relative_to(PACKAGE)): path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}


def docstrings(source: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the docstring of everything in a module that has one."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node)):
            yield getattr(node, "name", "module"), text


def badly_opened(source: str) -> list[str]:
    """Return what has a docstring that opens with a word that no sentence of ours opens with."""
    return [name for name, text in docstrings(source) if OPENINGS.match(text)]


def test_a_bad_opening_is_found() -> None:
    assert badly_opened('def one():\n    """Of every run."""\n\n\ndef two():\n    """Return the offset."""') == ["one"]
    assert badly_opened('"""`What` is a name."""\n\n\nclass A:\n    """Whetherever."""') == ["module"]


def test_every_module_has_a_docstring() -> None:
    assert [name for name, source in SOURCES.items() if not ast.get_docstring(ast.parse(source))] == []


def test_openings_of_docstrings() -> None:
    found = {name: badly_opened(source) for name, source in SOURCES.items()}
    assert {name: functions for name, functions in found.items() if functions} == {}


def too_long(words: dict[str, str]) -> dict[str, str]:
    """Return those of the texts that are longer than the help of an option, or empty."""
    return {name: text for name, text in words.items() if not 0 < len(text) <= LONGEST_HELP}


def test_help_of_commands_is_short() -> None:
    for name in COMMANDS:
        command = typer.main.get_command(build_app([name, "--help"])).commands[name]  # type: ignore[attr-defined]
        assert too_long({f"{name} {parameter.name}": parameter.help or "" for parameter in command.params}) == {}


def test_options_of_models_begin_with_a_short_sentence() -> None:
    found = {}
    for system in SYSTEMS.values():
        found |= too_long(
            {f"{system.name} {one.name}": first_sentence(one.help) for one in model_options(system).values()}
        )
    assert found == {}


def test_options_of_training_begin_with_a_short_sentence() -> None:
    fields = Recipe.model_fields.items()
    assert too_long({name: first_sentence(field.description or "") for name, field in fields}) == {}


def test_first_sentence() -> None:
    assert first_sentence("width of a layer. More words.") == "Width of a layer."
    assert first_sentence("Share 0.5 of them") == "Share 0.5 of them"
