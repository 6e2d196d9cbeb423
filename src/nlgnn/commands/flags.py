"""Flags and keys of a TOML file, made from the fields of Recipe and the keyword arguments of the models."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer

from nlgnn.commands.own_graph import TABLE_FLAGS, with_flags
from nlgnn.errors import NlgnnError, OptionError, nearest
from nlgnn.training.options import all_model_options
from nlgnn.training.recipe import Recipe
from nlgnn.training.systems import PRESETS

EXAMPLES = {str: 'a text in quotes, such as "texas"', int: "a whole number, such as 10", bool: "true or false"}


SplitsName = Annotated[
    str | None, typer.Option(help="random-60, random-10, or a protocol of the graph.", show_default="the graph's own")
]
PresetName = Annotated[
    str | None,
    typer.Option(
        help=f"{', '.join(PRESETS)}.",
        show_default="released where settings are published, paper on other named graphs, else robust",
    ),
]
ConfigFile = Annotated[
    Path | None, typer.Option(help="A TOML file with any of these options; flags win over it.", show_default=False)
]


def with_option_flags(function: Callable[..., None], lists: bool = False) -> Callable[..., None]:
    """`function` with a flag for every option, and those of the user's own tables, in place of its `**options`.

    Args:
        lists: whether flags take text, to be split at commas and checked later, instead of one value.
    """
    declared = {
        name: (field.annotation, field.default, field.description or "") for name, field in Recipe.model_fields.items()
    }
    declared |= {name: (option.type, option.default, option.help) for name, option in all_model_options().items()}
    flags = {}
    for name, (annotation, default, words) in declared.items():
        shown = False if default is None else str(default)
        flags[name] = (str if lists else _flag_type(annotation), typer.Option(help=words, show_default=shown))
    return with_flags(function, TABLE_FLAGS, flags)


def _flag_type(annotation: Any) -> Any:
    """What a flag parses: one plain type or choice. Mixtures are checked later."""
    members = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    members = tuple(member for member in members if member is not NoneType)
    simple = len(members) == 1 and (members[0] in (int, float, bool, str) or get_origin(members[0]) is Literal)
    return members[0] if simple else str


def read_config(path: Path | None, plan_keys: Mapping[str, Any]) -> dict[str, Any]:
    """What a TOML file says: any option, and `plan_keys`, each of its type."""
    if path is None:
        return {}
    try:
        given = {key.replace("-", "_"): value for key, value in tomllib.loads(path.read_text()).items()}
    except OSError as error:
        raise NlgnnError(f"{path} cannot be read: {error.strerror}.", "Name a TOML file with --config.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise NlgnnError(f"{path} cannot be read as TOML: {error}.", "Give lines such as: lr = 0.05") from None
    known = config_keys(plan_keys)
    for key, value in given.items():
        if key not in known:
            raise OptionError(f"{path}: unknown key {key!r}.", nearest(key, known))
        wanted = get_args(plan_keys.get(key)) or (plan_keys.get(key),)
        if key in plan_keys and type(value) not in wanted:
            raise OptionError(f"{path}: {key} = {value!r} is of the wrong type.", f"Write {EXAMPLES[wanted[0]]}.")
    return given


def config_keys(plan_keys: Mapping[str, Any]) -> list[str]:
    return [*plan_keys, *Recipe.model_fields, *all_model_options()]
