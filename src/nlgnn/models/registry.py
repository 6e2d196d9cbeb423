"""The registry: every model by name, with its settings from `settings.toml`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.resources import files
from itertools import product
from typing import Any, Literal, NamedTuple

from nlgnn.errors import OptionError, nearest

Options = Mapping[str, Any]
SETTINGS: dict[str, Any] = tomllib.loads(files("nlgnn.models").joinpath("settings.toml").read_text("utf-8"))
PRESETS: Mapping[str, Options] = SETTINGS["presets"]  # options that a model does not have are ignored


class Published(NamedTuple):
    """Settings that the authors of the paper published for one dataset."""

    system: str
    options: Options


PUBLISHED: Mapping[str, Published] = {
    dataset: Published(options["system"], {key: value for key, value in options.items() if key != "system"})
    for dataset, options in SETTINGS["published"].items()
}


@dataclass(frozen=True)
class System:
    """A model by name, before its class is loaded.

    Args:
        name: The name.
        path: Module and class; for the non-local or voting version of another model, that of the other model.
        summary: What the model does, in a few words.
        source: Who proposed it.
        defaults: Options that apply unless a preset or a dataset sets them.
        search_space: Values to search over, by option.
        fixed: Options that the name implies, which cannot be chosen.
        local: The name of the local part of a non-local or voting model.
        kind: The kind of model: local, the non-local version of a local model, votes around one, or shallow, which is
            trained without gradients.
        program: The training options of its authors. They override presets.
        published: Options that its own authors published, by dataset.
        variants: Options of the named forms of a model whose publications report the best of several.
        settings: The settings that are tried on a dataset without published ones.
    """

    name: str
    path: str
    summary: str
    source: str
    defaults: Options = field(default_factory=lambda: SETTINGS["defaults"])
    search_space: Mapping[str, tuple[Any, ...]] = field(default_factory=lambda: _tuples(SETTINGS["search_space"]))
    fixed: Options = field(default_factory=dict)
    local: str | None = None
    kind: Literal["local", "non-local", "vote", "shallow"] = "local"
    program: Options = field(default_factory=dict)
    published: Mapping[str, Options] = field(default_factory=dict)
    variants: tuple[Options, ...] = ()
    settings: tuple[Options, ...] = ()


def _tuples(space: Mapping[str, list[Any]]) -> dict[str, tuple[Any, ...]]:
    return {name: tuple(values) for name, values in space.items()}


def _combinations(grids: list[dict[str, list[Any]]]) -> tuple[Options, ...]:
    return tuple(dict(zip(grid, values, strict=True)) for grid in grids for values in product(*grid.values()))


def _read_system(name: str) -> System:
    own = SETTINGS["systems"][name]
    inherited = SETTINGS["systems"][own["like"]] if "like" in own else {}
    stated: dict[str, Any] = {**inherited, **own}
    for key in ("like", "wrapped"):
        stated.pop(key, None)
    path = stated.pop("class")
    path = path if ":" in path else f"nlgnn.nn:{path}"
    if "search_space" in stated:
        stated["search_space"] = _tuples(stated["search_space"])
    grids: dict[str, Any] = {key: _combinations(stated.pop(key)) for key in ("variants", "settings") if key in stated}
    return System(name, path, **stated, **grids)


def _versions(local: System) -> list[System]:
    """Return the non-local version of a model, and the one whose training nodes vote."""
    ours = local.name in ("mlp", "gcn", "gat")
    shared: dict[str, Any] = {"defaults": local.defaults, "local": local.name}
    return [
        System(
            f"nl{local.name}" if ours else f"nl-{local.name}",
            local.path,
            f"{local.name.upper() if ours else local.name}, nodes sorted by a score",
            "Liu, Wang, Ji. IEEE TPAMI, 2021." if ours else "this package",
            search_space={**local.search_space, "kernel_size": (3, 5, 7)},
            kind="non-local",
            **shared,
        ),
        System(
            f"vote-{local.name}",
            local.path,
            f"{local.name} with votes of near nodes",
            "this package",
            search_space=local.search_space,
            kind="vote",
            **shared,
        ),
    ]


def _all_systems() -> dict[str, System]:
    found = {name: _read_system(name) for name in SETTINGS["systems"]}
    wrapped = [found[name] for name, stated in SETTINGS["systems"].items() if stated.get("wrapped")]
    return found | {system.name: system for local in wrapped for system in _versions(local)}


SYSTEMS: dict[str, System] = _all_systems()
_CLASSES: dict[str, type[Any]] = {}  # those of users' own models


def register(name: str, model_class: type[Any], *, summary: str = "", **settings: Any) -> System:
    """Register a model of your own, so that it can be trained, tuned and compared by its name.

    Args:
        name: The name, without a colon.
        model_class: A module class, or a `ShallowModel`, whose arguments are options with types and defaults. Those
            named `in_channels`, `out_channels` and `num_nodes` are taken from the graph; `hidden_channels` is the
            option `hidden`.
        summary: What the model does, in a few words.
        settings: Further fields of `System`, such as `defaults` and `search_space`.

    Returns:
        The registry entry.

    Raises:
        OptionError: If a model of the package has the name, or the name has a colon.

    Example:
        >>> from nlgnn.models.registry import register
        >>> from nlgnn.nn import MLP
        >>> class Wide(MLP): "An MLP by another name."
        >>> register("wide", Wide, summary="a wide MLP").name
        'wide'
    """
    if ":" in name or (name in SYSTEMS and name not in _CLASSES):
        raise OptionError(f"the name {name!r} is taken or has a colon.", "Choose another one.")
    if not isinstance(model_class, type):
        raise OptionError(f"{model_class!r} is not a class.", "Give a subclass of torch.nn.Module.")
    return _add(name, model_class, summary=summary, **settings)


def _add(name: str, model_class: type[Any], summary: str = "", **settings: Any) -> System:
    from nlgnn.shallow.base import ShallowModel

    path = f"{model_class.__module__}:{model_class.__qualname__}"
    if issubclass(model_class, ShallowModel):
        settings = {"kind": "shallow", "search_space": {}, "program": {"features": "none"}, **settings}
    settings = {"defaults": {}, "source": path, **settings}
    _CLASSES[name], SYSTEMS[name] = model_class, System(name, path, summary=summary, **settings)
    return SYSTEMS[name]


def resolve_class(path: str) -> System:
    """Import the class of a `package.module:Class` name and register it under that name.

    Only call this with a name that the user typed: a name from a run folder must never cause an import.
    """
    module_name, _, name = path.partition(":")
    try:
        module = import_module(module_name)
    except Exception as error:  # a user's module may fail in any way
        what = f"{module_name} cannot be imported: {type(error).__name__}: {error}."
        raise OptionError(what, "Name it as package.module:Class; --debug shows the whole error.") from error
    from torch import nn

    from nlgnn.shallow.base import ShallowModel

    classes = {key: one for key, one in vars(module).items() if isinstance(one, type)}
    found = {key: one for key, one in classes.items() if issubclass(one, nn.Module | ShallowModel)}
    if name not in found:
        how = nearest(name, found) if found else "Name a module that defines one, as package.module:Class."
        raise OptionError(f"{module_name} has no torch.nn.Module {name!r}.", how)
    return _add(path, found[name])


def get_system(name: str) -> System:
    """Return a model by name, in any case, with or without hyphens."""
    if ":" in name and name not in SYSTEMS:
        raise OptionError(f"model {name!r} is a class of your own, which is not imported yet.", f"Pass --model {name}.")
    if name in SYSTEMS:
        return SYSTEMS[name]
    names = {_plain(known): known for known in SYSTEMS} | SETTINGS["aliases"]
    system = SYSTEMS.get(names.get(_plain(name), ""))
    if system is None:
        raise OptionError(f"there is no model {name!r}.", nearest(name, list(SYSTEMS)))
    return system


def _plain(name: str) -> str:
    return re.sub("[-_]", "", name.lower())


def load(system: System) -> Any:
    """Return the class of a model."""
    if system.name in _CLASSES:
        return _CLASSES[system.name]
    module, _, name = system.path.partition(":")
    loaded = getattr(import_module(module), name)
    if system.kind in ("local", "shallow"):
        return loaded
    from nlgnn.nn.versions import NLGAT, NLGCN, NLMLP, NonLocalVersion, VoteVersion

    if system.kind == "vote":
        return VoteVersion.around(loaded)
    named: dict[Any, type[Any]] = {ours.local_class: ours for ours in (NLMLP, NLGCN, NLGAT)}
    return named.get(loaded) or NonLocalVersion.around(loaded)


def trained_as(system: System) -> System:
    """Return the model whose training programme applies: the local part, so that both can be compared."""
    return system if system.local is None else SYSTEMS[system.local]
