"""An order that is trained beside the paper's, and their controls: on a graph with a planted order, and on real ones.

All are trained alike: preset robust, the same widths, rates and epochs, nothing searched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from torch import nn

from nlgnn.analysis import order_before_and_after
from nlgnn.datasets.synthetic import planted_order_graph
from nlgnn.experiments.cells import Settings
from nlgnn.experiments.framework import protocol_for
from nlgnn.experiments.searched import Schedule, SearchedCell
from nlgnn.experiments.sequences import labels_as_text
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split, make_splits
from nlgnn.training.recipe import Recipe
from nlgnn.training.run import Run

PRESET, SEEDS = "robust", 3
PLANTED, PLANTED_SEEDS = "planted-order", (301, 302, 303)  # seeds that nothing was tried on
NUISANCES, LABEL_SHARES = (1, 2, 4, 8), (0.5, 0.25, 0.125)
COMMON: Settings = {"hidden": 48, "dropout": 0.5, "lr": 0.01, "weight_decay": 5e-4, "epochs": 300, "patience": 100}
# The planted graph needs no dropout; every epoch is looked at.
ON_PLANTED: Settings = {"dropout": 0.0, "features": "none", "stopping": "never", "epochs": 600}
# Smaller ones first. Whose neighbours are noise have the MLP as local part, the others the GCN.
LOCAL_OF: Mapping[str, str] = {
    **dict.fromkeys(("texas", "wisconsin", "cornell", "cornell-pre2022"), "mlp"),
    **dict.fromkeys(("mushroom-body-left", "chameleon-filtered", "squirrel-filtered", "chameleon", "cora"), "gcn"),
    "citeseer": "gcn",
    "actor": "mlp",
    **dict.fromkeys(("squirrel", "minesweeper", "twitch-de", "tolokers", "pubmed"), "gcn"),
}
# Its features are the nodes' numbers, and it has no public splits.
WITHOUT_FEATURES = {"mushroom-body-left": {"metric_input": "adjacency"}}


class Condition(NamedTuple):
    """One way to order nodes and to read the order.

    `control`: no order is learned; `local`: it is the local part alone; `metric`: there is a metric, learned or not.
    """

    name: str
    options: Settings
    control: bool = True
    local: bool = False
    metric: bool = False


METRIC: Settings = {"order": "metric"}
VOTE, CONV, LOCAL, SCORE = "learned order, votes", "learned order, convolution", "local part", "order by score"
FROZEN, RANDOM = "votes, metric frozen", "votes, random orders"
CONV_FROZEN, CONV_RANDOM = "convolution, metric frozen", "convolution, random order"
KERNEL_1 = "convolution, kernel 1"
CONDITIONS = (
    Condition(VOTE, METRIC, control=False, metric=True),
    Condition("learned order, votes of labels", {**METRIC, "metric_form": "label"}, control=False, metric=True),
    Condition(CONV, {**METRIC, "readout": "conv"}, control=False, metric=True),
    Condition(SCORE, {}),
    Condition(LOCAL, {}, local=True),
    Condition(FROZEN, {**METRIC, "metric_lr": 0.0}, metric=True),
    Condition(RANDOM, {"order": "random", "readout": "vote"}, metric=True),
    Condition(CONV_FROZEN, {**METRIC, "readout": "conv", "metric_lr": 0.0}, metric=True),
    Condition(CONV_RANDOM, {"order": "random"}),
    Condition(KERNEL_1, {"kernel_size": 1}),
)
MANY = Condition(f"{VOTE}, 16 orders", {**METRIC, "metric_orders": 16}, control=False, metric=True)
# In wide inputs all are far from each other: what a node hears at first is small beside eps, and votes are quiet.
LOUD = Condition(f"{VOTE}, small eps", {**METRIC, "metric_eps": 5e-5}, control=False, metric=True)
# Of those with hundreds of columns the ones that are soon measured.
WIDE = (
    *("texas", "wisconsin", "cornell", "mushroom-body-left"),
    *("chameleon-filtered", "squirrel-filtered", "chameleon", "cora", "citeseer"),
)


@dataclass(frozen=True)
class OrderCell(SearchedCell):
    """One way to order nodes, on a named graph: every split with several seeds."""

    store: ClassVar[str] = "order"

    @property
    def label(self) -> str:
        return f"{super().label}, {self.protocol}"

    def quick(self) -> OrderCell:
        return replace(self, schedule=Schedule({"epochs": 3}, splits=2))

    def settings(self, result: Mapping[str, Any]) -> Settings:
        return {**super().settings(result), "seeds": SEEDS}

    def _splits(self, graph: Graph) -> list[Split]:
        return super()._splits(graph) * SEEDS

    def _also(self, graph: Graph, factory: partial[nn.Module], recipe: Recipe, runs: list[Run]) -> dict[str, Any]:
        return {"seeds": SEEDS}


@dataclass(frozen=True)
class PlantedCell(SearchedCell):
    """The same on a planted graph, on one split.

    Args:
        graph_seed: of the graph.
        nuisance: columns of noise.
        label_share: of the training nodes that keep their label.
    """

    store: ClassVar[str] = "order"
    graph_seed: int = 0
    nuisance: int = 0
    label_share: float = 1.0

    @property
    def label(self) -> str:
        noise = f", nuisance {self.nuisance}" if self.nuisance else ""
        share = f", labels {self.label_share:g}" if self.label_share < 1 else ""
        return f"{super().label}{noise}{share}, graph {self.graph_seed}"

    def quick(self) -> PlantedCell:
        return replace(self, schedule=Schedule({"epochs": 3}, splits=1))

    def _graph(self) -> Graph:
        return planted_order_graph(seed=self.graph_seed, nuisance=self.nuisance)

    def _splits(self, graph: Graph) -> list[Split]:
        (split,) = make_splits(graph, self.protocol, 1)
        keep = np.random.default_rng(self.graph_seed).random(graph.num_nodes) < self.label_share
        return [Split(split.train & keep, split.val, split.test, split.protocol, split.index)]

    def _also(self, graph: Graph, factory: partial[nn.Module], recipe: Recipe, runs: list[Run]) -> dict[str, Any]:
        if self.condition not in (VOTE, SCORE):
            return {}
        orders = order_before_and_after(factory, graph.scale_features(recipe.features), runs[0])
        before, after = map(labels_as_text, orders)
        return {"class names": list(graph.class_names), "labels": {"before": before, "after": after}}


def order_cells(protocol: str) -> list[SearchedCell]:
    """The planted graph, then how it gets harder, then real graphs."""
    main = [planted_cell(condition, seed) for seed in PLANTED_SEEDS for condition in CONDITIONS]
    vote = CONDITIONS[0]
    noisy = [
        planted_cell(condition, seed, nuisance=nuisance)
        for nuisance in NUISANCES
        for condition in (vote, MANY)
        for seed in PLANTED_SEEDS
    ]
    few = [planted_cell(vote, seed, label_share=share) for share in LABEL_SHARES for seed in PLANTED_SEEDS]
    real = [real_cell(dataset, condition, protocol) for dataset in LOCAL_OF for condition in CONDITIONS]
    loud = [real_cell(dataset, LOUD, protocol) for dataset in WIDE]
    return [*main, *noisy, *few, *real, *loud]


def planted_cell(condition: Condition, seed: int, **hardness: Any) -> PlantedCell:
    return PlantedCell(
        PLANTED,
        "mlp" if condition.local else "nlmlp",
        ({**COMMON, **ON_PLANTED, **condition.options},),
        protocol="random-60",
        condition=condition.name,
        preset=PRESET,
        graph_seed=seed,
        **hardness,
    )


def real_cell(dataset: str, condition: Condition, protocol: str) -> OrderCell:
    local = LOCAL_OF[dataset]
    extra = WITHOUT_FEATURES.get(dataset, {}) if condition.metric else {}
    return OrderCell(
        dataset,
        local if condition.local else f"nl{local}",
        ({**COMMON, **condition.options, **extra},),
        protocol="random-60" if dataset in WITHOUT_FEATURES else protocol_for(dataset, protocol),
        condition=condition.name,
        preset=PRESET,
    )
