"""Sphinx extension for the pages of models, with the equations of their modules.

The docstring of a module has the equations and the paper of the models in it, and their docstrings have the arguments.
"""

import inspect
import sys
from typing import Any

from sphinx.application import Sphinx


def insert_equations(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Insert the docstring of the module, without its first line, after the summary of a class."""
    if what == "class" and obj.__module__.startswith("nlgnn.nn."):
        _, _, body = inspect.cleandoc(sys.modules[obj.__module__].__doc__ or "").partition("\n\n")
        if ".. math::" in body:
            lines[1:1] = ["", *body.splitlines(), ""]


def skip_aliases(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Skip attributes that are classes, such as the type of the layers."""
    return True if what == "class" and inspect.isclass(obj) else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension; it runs before napoleon, which has the priority 500."""
    app.connect("autodoc-process-docstring", insert_equations, priority=400)
    app.connect("autodoc-skip-member", skip_aliases)
    return {"parallel_read_safe": True}
