"""Flags made from the fields of Recipe and the keyword arguments of the models."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer

from nlgnn.training.options import all_model_options
from nlgnn.training.recipe import Recipe


def with_option_flags(function: Callable[..., None], lists: bool = False) -> Callable[..., None]:
    """`function` with a flag for every option in place of its `**options`.

    Args:
        lists: whether flags take text, to be split at commas and checked later, instead of one value.
    """
    parameters = dict(inspect.signature(function, eval_str=True).parameters)
    del parameters["options"]
    flags = {
        name: (field.annotation, field.default, field.description or "", "Training")
        for name, field in Recipe.model_fields.items()
    }
    flags |= {name: (option.type, option.default, option.help, "Model") for name, option in all_model_options().items()}
    for name, (annotation, default, words, panel) in flags.items():
        shown = False if default is None else str(default)
        option = typer.Option(help=words, show_default=shown, rich_help_panel=panel)
        parsed = str | None if lists else _flag_type(annotation)
        parameters[name] = inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[parsed, option]
        )

    def command(**given: Any) -> None:
        function(**given)

    command.__doc__ = function.__doc__
    command.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
    command.__annotations__ = {name: parameter.annotation for name, parameter in parameters.items()}
    return command


def _flag_type(annotation: Any) -> Any:
    """What a flag parses: one plain type or choice, or None when it is not given. Mixtures are checked later."""
    members = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    members = tuple(member for member in members if member is not NoneType)
    simple = len(members) == 1 and (members[0] in (int, float, bool, str) or get_origin(members[0]) is Literal)
    return (members[0] if simple else str) | None
