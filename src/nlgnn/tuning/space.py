"""Space: the settings of a search. Options with several values are searched, options with one value are fixed."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from nlgnn.errors import OptionError
from nlgnn.models.build import resolve
from nlgnn.models.options import idle_options, keyword_of, model_options, recipe_options, refuse_idle
from nlgnn.models.registry import get_system
from nlgnn.training.recipe import EXECUTION, Recipe

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

# Options that change no result, options across which validation figures are not comparable, and the search's own.
NOT_SEARCHED = EXECUTION | {"seed", "metric", "selection", "epochs"}

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Space:
    """A grid of settings.

    Attributes:
        searched: The values of each searched option.
        fixed: The value of each option that all settings share.

    Example:
        >>> space = Space({"lr": (0.01, 0.1), "hidden": (16, 48)}, {"epochs": 100})
        >>> space.size, space.setting(1)
        (4, {'lr': 0.01, 'hidden': 48})
    """

    searched: Mapping[str, tuple[Any, ...]]
    fixed: Values

    @property
    def size(self) -> int:
        """Return the number of settings in the grid."""
        return prod(len(values) for values in self.searched.values())

    def choices(self) -> dict[str, BaseDistribution]:
        """Return the searched options as distributions of Optuna."""
        from optuna.distributions import CategoricalDistribution

        return {name: CategoricalDistribution(values) for name, values in self.searched.items()}

    def setting(self, number: int) -> dict[str, Any]:
        """Return one setting of the grid, numbered in the order of nested loops."""
        chosen = {}
        for name, values in reversed(list(self.searched.items())):
            number, place = divmod(number, len(values))
            chosen[name] = values[place]
        return {name: chosen[name] for name in self.searched}

    def each_value(self) -> list[dict[str, Any]]:
        """Return settings in which every value occurs at least once, for checking each value."""
        first = {name: values[0] for name, values in self.searched.items()}
        return [first, *({**first, name: value} for name, values in self.searched.items() for value in values[1:])]

    def settings(self, number: int | None, first: Values | None = None) -> list[dict[str, Any]]:
        """Return a random sample of the grid, or all of it if `number` is None.

        The sample is the same every time, and a larger sample begins with the smaller ones.

        Args:
            number: The number of settings.
            first: The setting of the grid that comes first; by default it is drawn too.
        """
        places = {} if first is None else {self.place(first): None}
        if number is None or number >= self.size:
            return [self.setting(place) for place in places | dict.fromkeys(range(self.size))]
        draw = random.Random(0)
        while len(places) < number:
            places.setdefault(draw.randrange(self.size))
        return [self.setting(place) for place in places]

    def place(self, setting: Values) -> int:
        """Return the number of a setting in the grid, as `setting` takes it."""
        place = 0
        for name, values in self.searched.items():
            place = place * len(values) + values.index(setting[name])
        return place


def read_space(model: str, options: Values) -> Space:
    """Return the search space of a model.

    Args:
        model: The name of the model.
        options: Options that replace the model's own search values. A list, or text with commas, is searched; one value
            is fixed.

    Raises:
        OptionError: If a value is not valid, or an option cannot be searched.
    """
    system = get_system(model)
    given = {name: values_of(model, name, value) for name, value in options.items()}
    for name, values in given.items():
        if len(values) > 1 and name in NOT_SEARCHED:
            raise OptionError(f"{name} cannot be searched over: it has {len(values)} values.", "Give one value.")
    known = (model_options(system).keys() | recipe_options(system)) - idle_options(system, given).keys()
    usual = {name: values_of(model, name, values) for name, values in system.search_space.items() if name in known}
    together = {**usual, **dict(sorted(given.items()))}  # samples must not depend on the order of options
    return Space(
        {name: values for name, values in together.items() if len(values) > 1},
        {name: values[0] for name, values in together.items() if len(values) == 1},
    )


def default_setting(model: str, graph_name: str, preset: str | None, space: Space) -> dict[str, Any]:
    """Return the setting of a grid that a model has by default.

    An option whose default is not among its values has the first of them.

    Args:
        model: The name of the model.
        graph_name: The name of the graph, which decides published settings.
        preset: The name of a preset, as for `resolve`.
        space: The grid.
    """
    of_model = model_options(get_system(model))
    try:
        arguments, recipe = resolve(model, graph_name, preset, space.fixed)
    except OptionError:  # a class of the user may need an option that is searched over
        first = {name: values[0] for name, values in space.searched.items()}
        arguments, recipe = resolve(model, graph_name, preset, {**space.fixed, **first})
    defaults = {name: arguments.get(keyword_of(name), option.default) for name, option in of_model.items()}
    defaults = {**recipe.model_dump(), **defaults}
    return {name: defaults[name] if defaults[name] in values else values[0] for name, values in space.searched.items()}


def values_of(model: str, name: str, given: Any) -> tuple[Any, ...]:
    """Return the values given for an option, each checked by the type of the option, without repetitions."""
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
    try:  # values of an unknown option stay as they are; `resolve` raises the error for it
        return tuple(dict.fromkeys(values))
    except TypeError:
        raise OptionError(
            f"{name}={given!r} is neither a value nor a list of values.", "Give numbers or text."
        ) from None


def check_space(model: str, graph_name: str, preset: str | None, options: Values) -> None:
    """Check all options of a search before a graph is read.

    Raises:
        OptionError: If the model does not take a value, or if a given option has no effect.
    """
    space = read_space(model, options)
    for setting in space.each_value():
        resolve(model, graph_name, preset, {**space.fixed, **setting})
    refuse_idle(get_system(model), {name: space.searched.get(name) or (space.fixed[name],) for name in options})


MOST_DIGITS = 9


def check_numbers(settings: int | str = "all", search_splits: int = 1, search_epochs: int = 1) -> None:
    """Raise an `OptionError` for a number that is not positive, or has more than 9 digits."""
    given = {"settings": settings, "search_splits": search_splits, "search_epochs": search_epochs}
    for name, value in given.items():
        if (name, value) != ("settings", "all") and not (
            str(value).isdecimal() and len(str(value)) <= MOST_DIGITS and int(value) >= 1
        ):
            end = ", or all." if name == "settings" else "."
            how = f"Give a whole number of at least 1 and at most {MOST_DIGITS} digits{end}"
            raise OptionError(f"{name}={value!r}.", how)
