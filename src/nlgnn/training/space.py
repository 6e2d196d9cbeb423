"""Space: what a search tries. Options with several values are searched over, those with one are fixed."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from nlgnn.errors import OptionError
from nlgnn.training.options import idle_options, model_options, readouts, refuse_idle
from nlgnn.training.recipe import EXECUTION, Recipe
from nlgnn.training.systems import get_system, resolve

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

# What changes no result, what validation figures would not be comparable across, and what the search itself sets.
NOT_SEARCHED = EXECUTION | {"seed", "metric", "selection", "epochs"}

VOTES_HAVE_TRIES = "how much votes count is chosen by validation, which makes their validation figures too good"

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Space:
    """Values by option: those to search over, and those that all settings have."""

    searched: Mapping[str, tuple[Any, ...]]
    fixed: Values

    @property
    def size(self) -> int:
        return prod(len(values) for values in self.searched.values())

    def choices(self) -> dict[str, BaseDistribution]:
        """As Optuna has them."""
        from optuna.distributions import CategoricalDistribution

        return {name: CategoricalDistribution(values) for name, values in self.searched.items()}

    def setting(self, number: int) -> dict[str, Any]:
        """One of the whole grid, in the order of nested loops."""
        chosen = {}
        for name, values in reversed(list(self.searched.items())):
            number, place = divmod(number, len(values))
            chosen[name] = values[place]
        return {name: chosen[name] for name in self.searched}

    def each_value(self) -> list[dict[str, Any]]:
        """Settings in which every value occurs: a value that an option cannot take is in one of them."""
        first = {name: values[0] for name, values in self.searched.items()}
        return [first, *({**first, name: value} for name, values in self.searched.items() for value in values[1:])]

    def settings(self, number: int | None) -> list[dict[str, Any]]:
        """So many, drawn at random and the same ones every time, or all. More of them begin with the fewer."""
        if number is None or number >= self.size:
            return [self.setting(place) for place in range(self.size)]
        draw, places = random.Random(0), dict[int, None]()
        while len(places) < number:
            places.setdefault(draw.randrange(self.size))
        return [self.setting(place) for place in places]


def read_space(model: str, options: Values) -> Space:
    """What a system is searched over, with `options` in place of its own: a list, or a text with commas, is searched
    over; one value is fixed."""
    system = get_system(model)
    given = {name: values_of(model, name, value) for name, value in options.items()}
    for name, values in given.items():
        if len(values) > 1 and name in NOT_SEARCHED:
            raise OptionError(f"{name} cannot be searched over: it has {len(values)} values.", "Give one value.")
    if len(readouts(given)) > 1:
        raise OptionError(
            f"settings that vote and settings that do not cannot be compared: {VOTES_HAVE_TRIES}.",
            "Search over them apart, or give readout='conv'.",
        )
    usual = {name: values_of(model, name, values) for name, values in system.search_space.items()}
    idle = idle_options(given)  # such as the kernel size of nodes that vote
    usual = {name: values for name, values in usual.items() if name not in idle}
    together = {**usual, **dict(sorted(given.items()))}  # in whatever order they were given: keys and samples follow it
    return Space(
        {name: values for name, values in together.items() if len(values) > 1},
        {name: values[0] for name, values in together.items() if len(values) == 1},
    )


def values_of(model: str, name: str, given: Any) -> tuple[Any, ...]:
    """Each checked by the option's own type, none twice."""
    if isinstance(given, str):
        given = [text.strip() for text in given.split(",") if text.strip()]
    values = given if isinstance(given, list | tuple) else [given]
    if not values:
        raise OptionError(f"{name} has no values.", "Give one to fix it, or several, separated by commas.")
    of_model = model_options(get_system(model))
    if name in of_model:
        values = [of_model[name].check(value) for value in values]
    elif name in Recipe.model_fields:
        values = [getattr(Recipe(**{name: value}), name) for value in values]
    try:  # of an option that the system does not have, as they are: `resolve` speaks
        return tuple(dict.fromkeys(values))
    except TypeError:
        raise OptionError(
            f"{name}={given!r} is neither a value nor a list of values.", "Give numbers or text."
        ) from None


def check_space(model: str, graph_name: str, preset: str | None, options: Values) -> None:
    """Raise an `OptionError` for any value that the system does not take, and for an option that a user gave and that
    changes nothing, before a graph is read."""
    space = read_space(model, options)
    for setting in space.each_value():
        resolve(model, graph_name, preset, {**space.fixed, **setting})
    refuse_idle({name: space.searched.get(name) or (space.fixed[name],) for name in options})


def setting_words(setting: Values) -> str:
    """A setting by name: its key in a study, and how it is shown."""
    return ", ".join(f"{name}={value}" for name, value in setting.items())
