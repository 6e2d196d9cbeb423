"""Sphinx extension for the pages of classes: equations of models, bounds of types left out, and fields of `Recipe`.

The docstring of a module has the equations and the paper of the models in it, and their docstrings have the arguments.
"""

import inspect
import sys
from typing import Any

from docutils import nodes
from pydantic import BaseModel
from sphinx.application import Sphinx

MODELS = ("nlgnn.nn.", "nlgnn.shallow.")


def insert_equations(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Insert the docstring of the module, without its first line, after the summary of a class."""
    if what == "class" and obj.__module__.startswith(MODELS):
        module = getattr(obj, "wrapper", obj).__module__  # versions of a model have the equations of what wraps it
        _, _, body = inspect.cleandoc(sys.modules[module].__doc__ or "").partition("\n\n")
        if ".. math::" in body:
            lines[1:1] = ["", *body.splitlines(), ""]


def insert_fields(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Insert the arguments of a class that describes them in its fields."""
    if what == "class" and issubclass(obj, BaseModel):
        fields = [f"    {field}: {known.description}" for field, known in obj.model_fields.items()]
        place = next((number for number, line in enumerate(lines) if line in ("Raises:", "Example:")), len(lines))
        lines[place:place] = ["Args:", *fields, ""]


def leave_out_bounds(app: Sphinx, domain: str, kind: str, content: nodes.Element) -> None:
    """Replace each `Annotated[type, bounds]` by its type, before Sphinx adds types to the arguments."""
    for types in app.env.current_document.autodoc_annotations.values():
        types.update({name: plain_type(text) for name, text in types.items()})


def plain_type(text: str) -> str:
    """Return a type as text without its bounds.

    Args:
        text: The type, such as `Annotated[int, Ge(ge=1)] | None`.
    """
    before, found, rest = text.partition("Annotated[")
    if not found:
        return text
    depth, commas = 1, []
    for place, character in enumerate(rest):
        depth += (character in "[(") - (character in "])")
        if character == "," and depth == 1:
            commas.append(place)
        if depth == 0:
            return f"{before}{rest[: commas[0]]}{plain_type(rest[place + 1 :])}"
    return text


def skip_aliases(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Skip attributes that are classes, such as the type of the layers."""
    return True if what == "class" and inspect.isclass(obj) else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension; it runs before napoleon and the types of arguments, which have the priority 500."""
    app.connect("autodoc-process-docstring", insert_equations, priority=400)
    app.connect("autodoc-process-docstring", insert_fields, priority=400)
    app.connect("object-description-transform", leave_out_bounds, priority=400)
    app.connect("autodoc-skip-member", skip_aliases)
    return {"parallel_read_safe": True}
