"""The portfolio: the models that an automatic choice trains, in order, and when each of them applies."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import Any

from nlgnn.errors import OptionError, nearest
from nlgnn.graph.graph import Graph
from nlgnn.models.build import check_given
from nlgnn.models.registry import SYSTEMS, get_system
from nlgnn.selection.controls import CONTROLS, known_options
from nlgnn.training.trained import ENSEMBLE

DATA: Mapping[str, Any] = tomllib.loads(
    resources.files("nlgnn.selection").joinpath("portfolio.toml").read_text("utf-8")
)
PRESET = "paper"
TREES = ("trees", "forest")


@dataclass(frozen=True)
class Entry:
    """A model with its options.

    Args:
        name: The name in the leaderboard.
        model: The name of the model.
        options: Options of the model and its training.
        without_edges: True if the model reads no edges.
        directed: True if the entry only makes sense for directed edges.
        max_nodes: The largest number of nodes that it is trained on; None for any.
        question: The question of the verdict that it answers: direction, labels or non-local.
        compared_with: The entry that answers the question by its difference from this one.
        like: An entry whose training time is known before, in multiples of `times`.
        times: How many times as long as `like` it takes, about.
        control: True for a control, which is never chosen.
        always: True for an entry that is trained however short the time is, with as many epochs or trees as there is
            time for.
        repeats: The entry that it repeats with another seed. It is a member of ensembles and never chosen alone.
    """

    name: str
    model: str
    options: dict[str, Any] = field(default_factory=dict)
    without_edges: bool = False
    directed: bool = False
    max_nodes: int | None = None
    question: str = ""
    compared_with: str = ""
    like: str = ""
    times: float = 1.0
    control: bool = False
    always: bool = False
    repeats: str = ""

    @property
    def is_single(self) -> bool:
        """Return whether it may be chosen as a single model: it is no control, no repetition and no ensemble."""
        return not (self.control or self.repeats or self.model == ENSEMBLE)

    def with_seed(self, number: int, runs: int) -> Entry:
        """Return the entry with other seeds, which no other repetition has."""
        seed = int(self.options.get("seed", 0)) + number * runs
        changed: dict[str, Any] = {"options": {**self.options, "seed": seed}, "question": "", "always": False}
        return replace(self, name=f"{self.name}, seed {seed}", repeats=self.name, like=self.name, times=1.0, **changed)

    @property
    def folder(self) -> str:
        """Return the name for folders."""
        return self.name.replace(", ", "-").replace(" ", "-")

    def why_not(self, graph: Graph) -> str | None:
        """Say why the entry does not apply to a graph, or return None if it does."""
        if not self.without_edges and graph.num_edges == 0:
            return "the graph has no edges"
        if self.directed and not graph.directed:
            return "edges have no direction"
        if self.max_nodes is not None and graph.num_nodes > self.max_nodes:
            return f"it is meant for at most {self.max_nodes:,} nodes"
        return None

    def with_options(self, options: Mapping[str, Any]) -> Entry:
        """Return the entry with those of the given options that its model knows."""
        return replace(self, options={**self.options, **known_options(self.model, options)})


def read_portfolio(options: Mapping[str, Any] | None = None) -> list[Entry]:
    """Return all entries in order, with those of the given options that each of them knows.

    Example:
        >>> read_portfolio()[0].name
        'logistic, own columns'
    """
    return [Entry(**stated).with_options(options or {}) for stated in DATA["entry"]]


def non_local_entries(local: Entry, options: Mapping[str, Any], controls: bool = False) -> list[Entry]:
    """Return the control with kernel 1 and the non-local version of a local entry, or nothing if it has none.

    Args:
        local: The local entry.
        options: Options that the user gave.
        controls: If True, the control with a random order is returned as well.
    """
    versions = [system.name for system in SYSTEMS.values() if (system.kind, system.local) == ("non-local", local.model)]
    if not versions:
        return []
    given = {**local.options, **DATA["non_local"]}
    name = f"{local.name}, non-local"
    shared: dict[str, Any] = {"model": versions[0], "like": local.name, "times": 2.0}
    control = f"{name}, kernel 1"
    own = Entry(name, options=given, question="non-local", compared_with=control, **shared).with_options(options)
    wanted = CONTROLS if controls else {"kernel 1": CONTROLS["kernel 1"]}
    return [
        own,
        *(
            replace(
                own,
                name=f"{name}, {label}",
                options={**own.options, **changed},
                control=True,
                question="",
                like=name,
                times=1.0,
            )
            for label, changed in wanted.items()
        ),
    ]


def is_random(entry: Entry) -> bool:
    """Return whether the model of an entry depends on its seed."""
    return get_system(entry.model).kind != "shallow" or entry.model in TREES


def has_non_local_version(entry: Entry) -> bool:
    """Return whether the model of an entry is the local part of a non-local model."""
    return any((system.kind, system.local) == ("non-local", entry.model) for system in SYSTEMS.values())


def check_options(graph_name: str, preset: str | None, options: Mapping[str, Any]) -> None:
    """Raise an `OptionError` for an option that no entry has, or with a value that one of them cannot take."""
    entries = read_portfolio()
    entries += [version for entry in entries for version in non_local_entries(entry, {})]
    known = {name for entry in entries for name in known_options(entry.model, options)}
    for name in options:
        if name not in known:
            raise OptionError(f"no model of auto has the option {name!r}.", nearest(name, sorted(known)))
    for model in dict.fromkeys(entry.model for entry in entries):
        try:
            check_given(model, graph_name, preset or PRESET, known_options(model, options))
        except OptionError as error:
            raise OptionError(f"{error.what} The model auto may choose {model}.", error.how) from None
