"""The learned order: its cells, which order.toml lists as data."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from nlgnn.datasets import describe
from nlgnn.paper.cell import Cell, Planted, Schedule, Settings

DATA: Mapping[str, Any] = tomllib.loads(resources.files("nlgnn.paper").joinpath("order.toml").read_text("utf-8"))
RANDOM_60 = "random-60"
ROLES, PLANTED_ORDER = "planted-roles", "planted-order"  # in place of the name of a dataset
ROLE_SEEDS: Sequence[int] = DATA["planted_seeds"]
USUAL_NOISE: int = DATA["noise_links"][0]
NOISE_LINKS: Sequence[int] = sorted(DATA["noise_links"])
ORDER_SEED = 301
TRIED = "tried"  # the first part of the names of cells that only show why a setting was chosen
GRAPHS: Mapping[str, Mapping[str, Any]] = DATA["graphs"]
VOTES, CONVOLUTION, LOCAL_PART = "learned order, votes", "learned order, convolution", "local part"
SCORE, ALL_PAIRS = "order by score", "kernel ridge, all pairs"
CONTROLS = {  # conditions without a learned order that have to be worse if the order matters
    VOTES: (LOCAL_PART, "votes, frozen space", "votes, random orders", "convolution, kernel 1"),
    CONVOLUTION: (LOCAL_PART, SCORE, "convolution, kernel 1", "convolution, random order"),
}


class Condition(NamedTuple):
    """A model in a table of the learned order.

    Args:
        name: The name in tables and file names.
        model: The name of the model.
        options: Its options.
        short: Whether it is measured where only some conditions are.
        seeds: The number of seeds, if not that of the graph.
    """

    name: str
    model: str
    options: Settings
    short: bool
    seeds: int | None = None


@cache
def conditions(group: str) -> tuple[Condition, ...]:
    """Return the conditions on real graphs ("real"), on planted roles ("roles") or on the planted order."""
    return tuple(
        Condition(
            one["name"],
            one["model"],
            {key: value for part in one["whose"] for key, value in DATA[part].items()} | one.get("options", {}),
            one.get("short", False),
            one.get("seeds"),
        )
        for one in DATA[group]
    )


def order_cells() -> list[Cell]:
    """Return all cells in the order of measuring: main graphs, planted roles, other graphs, the planted order."""
    complete = [cell for name, graph in GRAPHS.items() if graph.get("complete") for cell in _on_graph(name)]
    others = [cell for name, graph in GRAPHS.items() if not graph.get("complete") for cell in _on_graph(name)]
    roles = [
        _planted(ROLES, condition, Planted(seed, noise))
        for noise in DATA["noise_links"]
        for condition in conditions("roles")
        if condition.short or noise == USUAL_NOISE
        for seed in ROLE_SEEDS
    ]
    order = [_planted(PLANTED_ORDER, condition, Planted(ORDER_SEED)) for condition in conditions("planted_order")]
    tried = [_tried(dataset, change) for dataset in DATA["tried"]["graphs"] for change in DATA["tried"]["changes"]]
    return [*complete, *roles, *tried, *others, *order]


def _on_graph(dataset: str) -> list[Cell]:
    graph = GRAPHS[dataset]
    return [
        Cell(
            "order",
            dataset,
            (condition.name,),
            condition.model,
            protocol=describe(dataset).protocols[0],
            candidates=(condition.options,),
            schedule=Schedule(splits=graph["splits"]),
            condition=condition.name,
            seeds=condition.seeds or graph["seeds"],
            records=("twins",) if graph.get("twins") else (),
        )
        for condition in conditions("real")
        if condition.short or graph.get("complete")
    ]


def _tried(dataset: str, change: str) -> Cell:
    options = {**DATA["space"], **DATA["local"], **DATA["tried"]["changes"][change]}
    return Cell(
        "order",
        dataset,
        (TRIED, change.replace(".", "")),
        "vote-bank",
        protocol=(*describe(dataset).protocols, RANDOM_60)[0],
        candidates=(options,),
        schedule=Schedule(splits=DATA["tried"]["splits"]),
        condition=change,
    )


def _planted(graph: str, condition: Condition, planted: Planted) -> Cell:
    drawn = graph == PLANTED_ORDER and condition.name in (VOTES, SCORE)
    noise = [f"noise {planted.noise}"] if graph == ROLES else []
    return Cell(
        "order",
        graph,
        (condition.name, *noise, f"graph {planted.seed}"),
        condition.model,
        protocol=RANDOM_60,
        preset="robust",
        candidates=(condition.options,),
        condition=condition.name,
        records=("labels",) if drawn else (),
        planted=planted,
    )
