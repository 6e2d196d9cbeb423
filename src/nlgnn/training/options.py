"""The options of a system, read off its class: names, types, defaults and the words of its docstring."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from nlgnn.errors import OptionError
from nlgnn.nn.nonlocal_ import NonLocal, readout_of
from nlgnn.nn.nonlocal_of import Idle, NonLocalOf, idle_beside
from nlgnn.training.system import System
from nlgnn.training.systems import SYSTEMS, load

if TYPE_CHECKING:
    from torch import nn

SHORT_NAMES = {"hidden_channels": "hidden", "embedding_channels": "embedding"}
KEYWORDS = {short: keyword for keyword, short in SHORT_NAMES.items()}
GIVEN_BY_THE_GRAPH = {"in_channels", "out_channels", "num_nodes"}
FEW_OWNERS = 4  # systems that the help of an option names
MODULES = {"local", "score", "convs", "metric"}  # Python only: a module cannot be written in a flag


@dataclass(frozen=True)
class ModelOption:
    """One option of a model: a flag, a key of a TOML file, a keyword argument."""

    name: str
    type: Any
    default: Any
    help: str

    def check(self, value: Any) -> Any:
        try:
            return TypeAdapter(self.type).validate_python(value)
        except ValidationError as error:
            message = error.errors()[0]["msg"].lower()
            raise OptionError(f"{self.name}={value!r}: {message}.", f"{self.name}: {self.help}") from None


def keyword_of(name: str) -> str:
    return KEYWORDS.get(name, name)


def classes_of(system: System) -> list[type[nn.Module]]:
    """The classes that take a system's arguments; of a non-local one those of its local part and of the wrapper."""
    model_class = load(system)
    return [model_class.local_class, NonLocalOf, NonLocal] if issubclass(model_class, NonLocalOf) else [model_class]


def given_sizes(system: System, arguments: Mapping[str, Any], **sizes: int) -> dict[str, int]:
    """Those of the sizes of a graph that a system's class asks for; with these arguments."""
    asked = {name for source in classes_of(system) for name in inspect.signature(source).parameters}
    if system.local is not None and not _asks_for_nodes(system, arguments):
        asked -= {"num_nodes"}
    return {name: size for name, size in sizes.items() if name in asked}


def _asks_for_nodes(system: System, arguments: Mapping[str, Any]) -> bool:
    """Whether the local part of a non-local system does, or votes, or a metric of adjacency rows."""
    votes = readout_of(arguments.get("order", "score"), arguments.get("readout")) == "vote"
    by_number = votes or arguments.get("metric_input") == "adjacency"
    return by_number or "num_nodes" in inspect.signature(classes_of(system)[0]).parameters


def readouts(options: Mapping[str, Sequence[Any]]) -> set[str]:
    """What reads the order, conv or vote, beside options of a non-local system with one value or several each."""
    return {readout_of(*values) for values in product(*(options.get(name, (None,)) for name in ("order", "readout")))}


def idle_options(options: Mapping[str, Sequence[Any]]) -> dict[str, Idle]:
    """What changes nothing beside these options of a non-local system, each with one value or several to search over:
    in no setting."""
    beside = product(*(options.get(name, (None,)) for name in ("order", "readout", "aggregation")))
    idle = [idle_beside(*values) for values in beside]
    return {name: why for name, why in idle[0].items() if all(name in other for other in idle)}


def refuse_idle(given: Mapping[str, Sequence[Any]]) -> None:
    """Raise for an option that changes nothing. Only of what a user gave: presets hold some for whoever uses them."""
    idle = idle_options(given)
    for name, values in given.items():
        if name in idle:
            shown = ",".join(map(str, values))
            how = f"Leave it out, or use {idle[name].instead}."
            raise OptionError(f"{name}={shown} changes nothing: {idle[name].why}.", how)


def model_options(system: System) -> dict[str, ModelOption]:
    """The options of one system."""
    options: dict[str, ModelOption] = {}
    for source in classes_of(system):
        hints, words = get_type_hints(source.__init__), _argument_words(source)
        for keyword, parameter in inspect.signature(source).parameters.items():
            name = SHORT_NAMES.get(keyword, keyword)
            wanted = parameter.kind is not inspect.Parameter.VAR_KEYWORD and keyword not in GIVEN_BY_THE_GRAPH | MODULES
            if wanted and name not in options.keys() | system.fixed.keys():
                default = None if parameter.default is inspect.Parameter.empty else parameter.default
                options[name] = ModelOption(name, hints[keyword], default, words[keyword])
    return options


def all_model_options() -> dict[str, ModelOption]:
    """The options of all systems together. Where systems share one, the words are the first's, the choices everybody's,
    and the default is None unless all have the same. Where few have one, the words name them."""
    together: dict[str, ModelOption] = {}
    owners: dict[str, list[str]] = {}
    for system in SYSTEMS.values():
        for name, option in model_options(system).items():
            option = replace(option, default=system.defaults.get(name, option.default))
            first = together.setdefault(name, option)
            default = first.default if first.default == option.default else None
            choices = _either(first.type, option.type)
            words = first.help if choices == first.type else f"{first.help} Of {system.name}: {option.help}"
            together[name] = replace(first, type=choices, default=default, help=words)
            if system.local is None:
                owners.setdefault(name, []).append(system.name)
    for name, of_option in owners.items():
        if len(of_option) <= FEW_OWNERS:
            words = f"{together[name].help} For {', '.join(of_option)}."
            together[name] = replace(together[name], help=words)
    return together


def _either(one: Any, other: Any) -> Any:
    """A type for two options of one name: the choices of both."""
    if get_origin(one) is Literal and get_origin(other) is Literal:
        return Literal[tuple(dict.fromkeys(get_args(one) + get_args(other)))]
    return one


def _argument_words(source: type[nn.Module]) -> dict[str, str]:
    """What the `Args:` section of a docstring says of each argument."""
    section = inspect.cleandoc(source.__doc__ or "").partition("Args:\n")[2]
    entries = re.findall(r"^ {4}(\w+): (.+(?:\n {8,}.+)*)", section, flags=re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}
