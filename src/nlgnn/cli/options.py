"""Options that commands share: the graph, the model, and flags generated from `Recipe` and the models' signatures."""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import typer

from nlgnn.errors import OptionError, RunFolderError, nearest
from nlgnn.files import read_regular
from nlgnn.json_files import LARGEST_FILE, parse_toml

if TYPE_CHECKING:
    pass

Flags = Mapping[str, tuple[Any, Any]]  # by name: the type, and the typer.Option or typer.Argument

PANELS = ("Graph", "Tables", "Run", "Model", "Non-local part", "Training", "Execution", "Output")
GRAPH, TABLES, RUN, MODEL, NON_LOCAL, TRAINING, EXECUTION, OUTPUT = PANELS
LONGEST_HELP = 60  # characters of the help of an option; `nlgnn models NAME` prints more
SHARED_BY = 5  # local models that share an option before `train --help` lists it


def option(words: str, panel: str, *names: str, default: str | bool = False, **more: Any) -> Any:
    """Return a `typer.Option` in a panel of the help. Files are checked when they are read."""
    return typer.Option(*names, help=words, rich_help_panel=panel, show_default=default, readable=False, **more)


def check_run_folders(paths: Path | list[Path]) -> Path | list[Path]:
    """Raise if a path is not a run folder, before anything slow is imported to read it."""
    for path in paths if isinstance(paths, list) else [paths]:
        if not path.exists():
            raise RunFolderError(f"There is no folder {path}.", "Give a folder that a training made.")
        if not (path / "config.json").is_file():
            raise RunFolderError(
                f"{path} is not a run folder: it has no config.json.", "Give a folder that a training made."
            )
    return paths


def use_own_model(name: str | None) -> str | None:
    """Import and register a user's own model class if `name` is `package.module:Class`, and return `name`.

    The module is searched for in the current folder first. See `nlgnn.models.registry.register` for the class.
    """
    if name is not None and ":" in name:
        from nlgnn.models.registry import resolve_class

        if os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())
        resolve_class(name)
    return name


# Parameters of commands on a run folder.
RunFolderPath = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.", callback=check_run_folders)]
OwnModel = Annotated[
    str | None,
    option("package.module:Class, if the run trained your own model.", RUN, "--model", callback=use_own_model),
]

# Options of commands on a graph. Those of models and of `Recipe` are generated from their signatures.
TABLE_FLAGS: Flags = {
    "nodes": (Path, option("Table with one row per node (CSV, Parquet …).", GRAPH)),
    "edges": (Path, option("Table with one row per edge.", GRAPH)),
    "graph_file": (Path, option("Both in one: .graphml, .npz or a graph store.", GRAPH)),
    "label": (str, option("Column of labels; blank cells are unknown.", GRAPH)),
    "id_column": (str, option("Column of node ids.", TABLES, default="detected")),
    "source_column": (str, option("Column of edge sources (--target-column: targets).", TABLES, default="detected")),
    "target_column": (str, option("Column of edge targets.", TABLES, hidden=True)),
    "weight_column": (str, option("Column of weights (--edge-type-column: of types).", TABLES, default="detected")),
    "split_column": (str, option("Column of train, val and test (or --group-column).", TABLES, default="detected")),
    "time_column": (str, option("Split by time (--edge-time-column: of edges).", TABLES)),
    "edge_time_column": (str, option("Column of times of edges.", TABLES, hidden=True)),
    "edge_type_column": (str, option("Column of types of edges.", TABLES, hidden=True)),
    "group_column": (str, option("Keep the nodes of a group in one part.", TABLES, hidden=True)),
    "drop": (list[str], option("Columns to leave out (--drop-leaks: leaking ones).", TABLES, metavar="name")),
    "keep": (list[str], option("The only columns that become features.", TABLES, metavar="name")),
    "kind": (list[str], option("NAME=number, category, date, text, list, ignore.", TABLES, metavar="name=kind")),
    "drop_leaks": (bool, option("Leave out columns that tell the label.", TABLES, "--drop-leaks", hidden=True)),
    "directed_edges": (bool, option("Keep the direction of edges.", TABLES, "--directed-edges")),
    "unknown_nodes": (str, option("Ids without a row: error, drop or add.", TABLES, default="error")),
}
GRAPH_FLAGS: Flags = {
    "graph": (
        str,
        typer.Argument(
            help="A named graph (`nlgnn datasets`), or a graph store.", show_default=False, rich_help_panel=GRAPH
        ),
    ),
    **TABLE_FLAGS,
    "splits": (str, option("random-60, random-10 or a protocol of the graph.", GRAPH)),
    "allow_unverified": (bool, option("Accept files whose checksum is not known.", GRAPH, "--allow-unverified")),
}
MODEL_FLAGS: Flags = {
    **GRAPH_FLAGS,
    "model": (str, option("Model, auto (default for tables) or package.module:Class.", RUN, default="nlgcn")),
    "preset": (str, option("paper, released or robust; chosen by the graph.", RUN)),
    "config": (Path, option("TOML file with any of these options.", RUN)),
}
NOT_IN_STORES = {"graph_file", "edge_time_column", "edge_type_column"}
FLAGS: Mapping[str, Flags] = {
    "train": {
        **MODEL_FLAGS,
        "runs": (int, option("Number of runs, one per split.", RUN, default="10")),
        "time_budget": (str, option("Time for auto: 90s, 5m, 1h or none.", RUN, default="10m")),
        "ensemble": (bool, option("Whether auto may average models.", RUN, "--ensemble/--no-ensemble", default="yes")),
        "controls": (bool, option("Also train the controls of a non-local model.", RUN, "--controls")),
        "estimate": (bool, option("Print the memory and time that it needs, and stop.", RUN, "--estimate")),
        "threshold": (str, option("best-f1, precision=0.9, recall=0.8 or 0.3.", RUN)),
        "cost": (str, option("Costs of errors, such as fraud:10,legit:fraud:2.", RUN)),
        "resume": (Path, option("Continue an interrupted run folder.", RUN)),
        "processes": (int, option("Processes that share the nodes (or by torchrun).", EXECUTION, default="1")),
        "process_timeout": (int, option("Seconds to wait for another process.", EXECUTION, hidden=True)),
        "out": (Path, option("New run folder.", OUTPUT, default="runs/…")),
        "tensorboard": (bool, option("Write TensorBoard files.", OUTPUT, "--tensorboard")),
        "mlflow": (str, option("MLflow: sqlite:///mlflow.db or a server.", OUTPUT)),
    },
    "tune": {
        **MODEL_FLAGS,
        "settings": (int | str, option("Number of settings to draw, or all.", RUN, default="24")),
        "search_splits": (int, option("Splits per setting.", RUN, default="3")),
        "search_epochs": (int, option("Most epochs per setting.", RUN, default="300")),
        "halving": (bool, option("Stop settings below the median early.", RUN, default="yes")),
        "study": (str, option("SQLite file, or name in --storage.", OUTPUT, default="runs/…")),
        "storage": (str, option("Shared database: postgresql://...", OUTPUT)),
        "as_json": (bool, option("Print every setting as JSON.", OUTPUT, "--json")),
    },
    "store": {
        "places": (
            list[str],
            typer.Argument(help="The new folder, after a named graph or without one.", metavar="[GRAPH] OUT"),
        ),
        **{name: flag for name, flag in TABLE_FLAGS.items() if name not in NOT_IN_STORES},
        "renumber": (bool, option("Give neighbours near numbers.", OUTPUT, "--renumber")),
        "memory": (str, option("Limit, such as 4GiB.", EXECUTION, default="half of all")),
    },
    "diagnose": {
        **GRAPH_FLAGS,
        "metric": (str, option("Metric, such as accuracy, macro-f1 or roc-auc.", RUN, default="accuracy")),
        "controls": (bool, option("Also train the non-local model and its controls.", RUN, "--controls")),
        "as_json": (bool, option("Print one JSON document.", OUTPUT, "--json")),
        "out": (Path, option("New folder for report.html and diagnosis.json.", OUTPUT, default="runs/…")),
    },
}
# Options that decide how a command runs. A TOML file does not contain them.
NOT_IN_TOML = {"config", "resume", "allow_unverified", "tensorboard", "mlflow", "as_json", "estimate"}
NOT_IN_TOML |= {"processes", "process_timeout"}
NOT_IN_GRAPHML = {"nodes", "edges", "id_column", "source_column", "target_column", "unknown_nodes"}
CHOICES = {"drop", "keep", "kind", "drop_leaks"}  # of columns
NOT_IN_NPZ = {*NOT_IN_GRAPHML, *CHOICES, "label", "split_column", "weight_column"}
NOT_IN_NPZ |= {"time_column", "group_column", "edge_time_column", "edge_type_column"}
ROLES = {name: name.removesuffix("_column") for name in TABLE_FLAGS} | {"directed_edges": "directed"}


def plan_keys(command: str) -> dict[str, Any]:
    """Return the keys of a TOML file that are neither options of a model nor of `Recipe`, with their types."""
    kinds = {name: kind for name, (kind, _) in FLAGS[command].items() if name not in NOT_IN_TOML}
    return {name: str if kind is Path else kind for name, kind in kinds.items()}


def with_flags(function: Callable[..., None], flags: Flags) -> Callable[..., None]:
    """Return a command function, which takes any flags as keywords, with these flags as its signature.

    Flags that are not given are None.
    """
    parameters = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[_flag_type(kind) | None, made]
        )
        for name, (kind, made) in flags.items()
    ]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return function


def given_flags(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flags that are given."""
    return {name: value for name, value in flags.items() if value not in (None, [])}


def all_flags(command: str, arguments: Sequence[str]) -> Flags:
    """Return the flags of `train` or `tune`: its own, those of `Recipe` and, if `arguments` have any, of the models.

    For `tune`, generated flags take text that is split at commas and checked later.
    """
    flags = {**FLAGS[command], **recipe_flags(command == "tune")}
    names = {word[2:].partition("=")[0].replace("-", "_") for word in arguments if word.startswith("--")}
    return flags if names <= {*flags, "json"} else {**flags, **model_flags(command == "tune")}


def recipe_flags(lists: bool = False) -> Flags:
    """Return a flag for each field of `Recipe`."""
    from nlgnn.training import recipe

    flags = {}
    for name, field in recipe.Recipe.model_fields.items():
        panel = EXECUTION if name in recipe.EXECUTION else TRAINING
        flags[name] = _generated(field.annotation, field.default, field.description or "", panel, lists)
    return flags


def model_flags(lists: bool = False) -> Flags:
    """Return a flag for each option of the registered models; those of few models are hidden from the help."""
    from nlgnn.models.options import all_model_options, model_options
    from nlgnn.models.registry import SYSTEMS

    local = [name for system in SYSTEMS.values() if system.local is None for name in model_options(system)]
    flags = {}
    for name, declared in all_model_options().items():
        panel, hidden = (MODEL, local.count(name) < SHARED_BY) if name in local else (NON_LOCAL, False)
        flags[name] = _generated(declared.type, declared.default, declared.help, panel, lists, hidden)
    return flags


def _generated(kind: Any, default: Any, words: str, panel: str, lists: bool, hidden: bool = False) -> tuple[Any, Any]:
    shown = False if default is None else str(default)
    return str if lists else kind, option(
        shorten(first_sentence(words), LONGEST_HELP, placeholder="…"), panel, default=shown, hidden=hidden
    )


def _flag_type(annotation: Any) -> Any:
    """Return the type that a flag parses: a plain type or a choice. Others are parsed as text and checked later."""
    members = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    members = tuple(member for member in members if member is not NoneType)
    plain = (int, float, bool, str, Path, list[str])
    simple = len(members) == 1 and (members[0] in plain or get_origin(members[0]) is Literal)
    return members[0] if simple else str


def first_sentence(words: str) -> str:
    """Return the first sentence of a text, which `--help` shows."""
    found = re.match(r".+?[.](?=\s|$)", words, re.DOTALL)
    sentence = found[0] if found else words
    return sentence[:1].upper() + sentence[1:]


def read_toml(path: Path) -> dict[str, Any]:
    """Return the keys of a TOML file, with underscores for hyphens, and their values."""
    try:
        content = parse_toml(read_regular(path, LARGEST_FILE).decode())
        return {key.replace("-", "_"): value for key, value in content.items()}
    except OSError as error:
        raise OptionError(f"{path} cannot be read: {error.strerror}.", "Name a TOML file with --config.") from None
    except ValueError as error:  # of TOML, of UTF-8, or a number of too many digits
        raise OptionError(f"{path} cannot be read as TOML: {error}.", "Give lines such as: lr = 0.05") from None


def read_config(path: Path | None, known: Mapping[str, Any]) -> dict[str, Any]:
    """Read a TOML file that may hold any option of a command.

    `known` are the types of the keys that are neither options of a model nor of `Recipe`.
    """
    if path is None:
        return {}
    given = read_toml(path)
    if isinstance(given.get("model"), str):
        use_own_model(given["model"])
    keys = config_keys(known)
    for key, value in given.items():
        if key not in keys:
            raise OptionError(f"{path}: unknown key {key!r}.", nearest(key, keys))
        if known.get(key) == list[str]:
            given[key] = as_texts(value, f"{path}: {key}")
            continue
        wanted = get_args(known.get(key)) or (known.get(key, type(value)),)
        if type(value) not in wanted:
            how = {str: 'a text in quotes, such as "texas"', int: "a whole number", bool: "true or false"}[wanted[0]]
            raise OptionError(f"{path}: {key} = {value!r} is of the wrong type.", f"Write {how}.")
    return given


def as_texts(value: Any, where: str) -> list[str]:
    """Return a list of a TOML file, a single text, or a table as a list of texts such as "size=number"."""
    texts = [f"{key}={kind}" for key, kind in value.items()] if isinstance(value, dict) else value
    texts = [texts] if isinstance(texts, str) else texts
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise OptionError(f"{where} = {value!r} is of the wrong type.", 'Write a list of texts, such as ["a", "b"].')
    return texts


def config_keys(known: Mapping[str, Any]) -> list[str]:
    """Return the keys that a TOML file may hold."""
    from nlgnn.models.options import all_model_options
    from nlgnn.training.recipe import Recipe

    return [*known, *Recipe.model_fields, *all_model_options()]
