"""The options of a model, read off its class: names, types, defaults and the words of its docstring."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import Field, TypeAdapter

from nlgnn.errors import OptionError
from nlgnn.models.registry import SYSTEMS, System, load
from nlgnn.training.recipe import Recipe

SHORT_NAMES = {"hidden_channels": "hidden", "embedding_channels": "embedding"}
KEYWORDS = {short: keyword for keyword, short in SHORT_NAMES.items()}
GIVEN_BY_THE_GRAPH = {"in_channels", "out_channels", "label_channels", "num_nodes", "num_edge_types"}
FEW_OWNERS = 4  # models that the help of an option names
DIFFERENT_MEANINGS = {"alpha"}  # options that models use for different things, as their authors do
SCORE = ("score_bias", "multiply_score", "standardise_score")
SPACE = (
    "dim",
    "projections",
    "radius",
    "perplexity",
    "shrinkage",
    "signs",
    "input",
    "descriptions",
    "votes",
    "lr",
    "trained",
)
# Options of a recipe that hold for every model, also for one that is trained without gradients.
FOR_EVERY_MODEL = frozenset({"features", "metric", "seed", "threads"})
# The type of an argument that has neither an annotation nor a default, as a user's own class may have.
UNDECLARED = Annotated[int | float | str, Field(union_mode="left_to_right")]


@dataclass(frozen=True)
class ModelOption:
    """An option of a model: a flag, a key of a TOML file, a keyword argument.

    `bounded` is the type with the bounds of its values.
    """

    name: str
    type: Any
    default: Any
    help: str
    bounded: Any
    required: bool = False

    def check(self, value: Any) -> Any:
        """Return a value in the type of the option; raise an `OptionError` if it does not fit."""
        from nlgnn.nn.base import check_value

        return check_value(self.name, value, TypeAdapter(self.bounded), f"{self.name}: {self.help}")


def keyword_of(name: str) -> str:
    """Return the keyword argument of an option."""
    return KEYWORDS.get(name, name)


def given_sizes(system: System, arguments: Mapping[str, Any], **sizes: int) -> dict[str, int]:
    """Return the sizes of a graph that the class of a model takes; the number of nodes only if it is needed."""
    parameters = inspect.signature(load(system)).parameters
    asked = {name for name in sizes if name in parameters and (sizes[name] or name != "num_edge_types")}
    knows_nodes = (
        arguments.get("space_input") in ("adjacency", "structure")
        or arguments.get("label_input", 0) > 0
        or arguments.get("structure", False)
        or "links" in arguments.get("operators", "")
    )
    if "num_nodes" in asked and not knows_nodes:
        asked -= {"num_nodes"} if parameters["num_nodes"].default is not inspect.Parameter.empty else set()
    return {name: size for name, size in sizes.items() if name in asked}


def setting_words(setting: Mapping[str, Any]) -> str:
    """Return a setting as text: its key in a study, and the way it is shown."""
    return ", ".join(f"{name}={value}" for name, value in setting.items())


class Idle(NamedTuple):
    """The reason why an option has no effect, and the option with which it would have one."""

    why: str
    instead: str


def idle_options(system: System, options: Mapping[str, Sequence[Any]]) -> dict[str, Idle]:
    """Return options of a non-local or voting model that change nothing in any of the settings.

    Args:
        system: The model.
        options: The given options, each with one value or several to search over.
    """
    if system.kind not in ("non-local", "vote"):
        return {}
    orders = set(options.get("order", ("score",)))
    found: dict[str, Idle] = {}
    if "structure" not in options.get("space_input", ("features",)):
        idle = Idle("the space does not read structure", "space_input='structure'")
        found |= {"space_descriptions": idle, "space_trained": idle}
    if system.kind == "vote":
        return found
    if orders == {"learned"}:
        learned = Idle("a learned order has no score, and its own loss", "order='score'")
        return found | dict.fromkeys((*SCORE, "local_loss"), learned)
    space = ("frozen", *(f"space_{name}" for name in SPACE))
    return found if "learned" in orders else dict.fromkeys(space, Idle("no order is learned", "order='learned'"))


def refuse_idle(system: System, given: Mapping[str, Sequence[Any]]) -> None:
    """Raise for a given option that has no effect; presets may contain some."""
    idle = idle_options(system, given)
    for name, values in given.items():
        if name in idle:
            shown = ",".join(map(str, values))
            how = f"Leave it out, or use {idle[name].instead}."
            raise OptionError(f"{name}={shown} changes nothing: {idle[name].why}.", how)


def model_options(system: System) -> dict[str, ModelOption]:
    """Return the options of one model."""
    from nlgnn.nn.versions import argument_words

    model_class = load(system)
    words, options = argument_words(model_class), dict[str, ModelOption]()
    for keyword, parameter in inspect.signature(model_class, eval_str=True).parameters.items():
        name = SHORT_NAMES.get(keyword, keyword)
        variadic = parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        if not variadic and keyword not in GIVEN_BY_THE_GRAPH and name not in system.fixed:
            default = None if parameter.default is parameter.empty else parameter.default
            kind = parameter.annotation
            if kind is parameter.empty:
                kind = UNDECLARED if default is None else type(default)
            words_of = words.get(keyword, f"Argument {keyword}.")
            required = parameter.default is parameter.empty
            options[name] = ModelOption(name, _without_bounds(kind), default, words_of, kind, required)
    return options


def recipe_options(system: System) -> set[str]:
    """Return the options of a recipe that hold for a model; few of them do where no gradients are used."""
    if system.kind != "shallow":
        return set(Recipe.model_fields)
    return {*FOR_EVERY_MODEL, *load(system).recipe_options}


def all_model_options() -> dict[str, ModelOption]:
    """Return the options of all models together.

    Where models share an option, the words are those of the first, the choices those of all, and the default is None
    unless all have the same. Where few local models have an option, the words name them; where it means different
    things to them, it is described for each.
    """
    together: dict[str, ModelOption] = {}
    owners: dict[str, dict[str, str]] = {}  # words by model
    for system in SYSTEMS.values():
        for name, option in model_options(system).items():
            option = replace(option, default=system.defaults.get(name, option.default))
            first = together.setdefault(name, option)
            default = first.default if first.default == option.default else None
            choices = _either(first.type, option.type)
            words = first.help if choices == first.type else f"{first.help} For {system.name}: {option.help}"
            together[name] = replace(first, type=choices, default=default, help=words, bounded=choices)
            if system.local is None:
                owners.setdefault(name, {})[system.name] = option.help
    for name, of_option in owners.items():
        if len(of_option) <= FEW_OWNERS:
            words = f"{together[name].help} For {', '.join(of_option)}."
            if name in DIFFERENT_MEANINGS:
                words = " ".join(f"For {owner}: {text}" for owner, text in of_option.items())
            together[name] = replace(together[name], help=words)
    return together


def _without_bounds(annotation: Any) -> Any:
    """Return a type without the bounds of its values."""
    if get_origin(annotation) is Annotated:
        return get_args(annotation)[0]
    if get_origin(annotation) in (Union, UnionType):
        return Union[tuple(map(_without_bounds, get_args(annotation)))]  # noqa: UP007, made at run time
    return annotation


def _either(one: Any, other: Any) -> Any:
    """Return a type for two options of one name: the choices of both."""
    if get_origin(one) is Literal and get_origin(other) is Literal:
        return Literal[tuple(dict.fromkeys(get_args(one) + get_args(other)))]
    return one
