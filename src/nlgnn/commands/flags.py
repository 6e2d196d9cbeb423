"""Flags and keys of a TOML file, made from the fields of Recipe and the keyword arguments of the models."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer

from nlgnn.datasets.own import OwnTables
from nlgnn.errors import NlgnnError, OptionError, nearest
from nlgnn.training.options import all_model_options
from nlgnn.training.recipe import Recipe
from nlgnn.training.systems import PRESETS

EXAMPLES = {str: 'a text in quotes, such as "texas"', int: "a whole number, such as 10", bool: "true or false"}


GraphName = Annotated[str | None, typer.Argument(help="A named graph: see `nlgnn datasets`.", show_default=False)]
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


NodesFile = Annotated[
    Path | None,
    typer.Option(help="Your own graph: a table with a row a node (CSV, TSV, Parquet, JSON lines).", show_default=False),
]
EdgesFile = Annotated[Path | None, typer.Option(help="A table with a row an edge.", show_default=False)]
LabelColumn = Annotated[str | None, typer.Option(help="The column of labels; blank means unknown.", show_default=False)]
IdColumn = Annotated[
    str | None, typer.Option(help="The column by which edges name nodes.", show_default="found by name or position")
]
SourceColumn = Annotated[
    str | None, typer.Option(help="Where an edge comes from.", show_default="found by name or position")
]
TargetColumn = Annotated[str | None, typer.Option(help="Where it goes to.", show_default="found by name or position")]
SplitColumn = Annotated[
    str | None, typer.Option(help="A column of train, val and test.", show_default="found by name, else random splits")
]
DirectedEdges = Annotated[bool | None, typer.Option("--directed-edges", help="The direction of edges means something.")]
UnknownNodesRule = Annotated[
    str | None,
    typer.Option(help="Edges to nodes that are no rows: error, drop them, or add the nodes.", show_default="error"),
]
# The same as keys of a TOML file.
TABLE_KEYS = {
    **dict.fromkeys(("nodes", "edges", "label", "id_column", "source_column", "target_column", "split_column"), str),
    "directed_edges": bool,
    "unknown_nodes": str,
}


def own_tables(settings: dict[str, Any]) -> OwnTables | None:
    """The user's own graph, where its files are among the settings, which they are taken out of."""
    given = {name: settings.pop(name, None) for name in TABLE_KEYS}
    nodes, edges = given.pop("nodes"), given.pop("edges")
    roles = {name.removesuffix("_column"): value for name, value in given.items() if value is not None}
    if nodes is None and edges is None:
        if roles:
            raise OptionError("something is said of tables, but none is given.", "Give --nodes, --edges or both.")
        return None
    if "directed_edges" in roles:
        roles["directed"] = roles.pop("directed_edges")
    return OwnTables.at(nodes, edges, **roles)


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
