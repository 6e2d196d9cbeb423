"""Trained: a training with its runs. Ensemble: the weighted mean of several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from nlgnn.errors import OptionError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import MOST_RUNS
from nlgnn.tables.source import OwnTables
from nlgnn.training.fit import predict
from nlgnn.training.recipe import Recipe
from nlgnn.training.replica import Run
from nlgnn.training.run_folder import RunFolder, why_no_new_nodes

ENSEMBLE: str = "ensemble"
Probabilities = NDArray[np.floating]
Weights = Sequence[Sequence[float]]  # of the members in each split


@dataclass(frozen=True)
class Plan:
    """Everything that a training can be repeated from, given the graph.

    Attributes:
        graph: The name of the graph.
        model: The name of the model.
        protocol: The name of the split protocol.
        runs: The number of runs; by default that of the protocol.
        preset: The name of the preset; by default that of the graph.
        options: Options of the model and the recipe that replace those of the preset.
        tables: The user's own tables that the graph was read from, if any.
        encoder: The `FeatureEncoder` of the tables, as JSON.
        notes: Remarks from reading the tables.
        threshold: The threshold of two classes, such as best-f1 or 0.3; see `nlgnn.training.decision`.
        cost: The costs of errors, such as `fraud:10`.
    """

    graph: str
    model: str
    protocol: str = "random-60"
    runs: Annotated[int, Field(ge=1, le=MOST_RUNS)] | None = None
    preset: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    tables: OwnTables | None = None
    encoder: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()
    threshold: str | None = None
    cost: str | None = None


@dataclass(frozen=True)
class Trained:
    """A training and its runs, with everything that is needed to show and use them.

    `reason` says why an automatic choice took the model.
    """

    plan: Plan
    recipe: Recipe
    factory: partial[Any]
    folder: RunFolder
    runs: list[Run]
    reason: str = ""

    @property
    def leading(self) -> Trained:
        """Return the training whose weights figures and explanations look into."""
        return self

    @property
    def num_models(self) -> int:
        """Return the number of models that one prediction needs."""
        return 1

    @property
    def identifies_nodes(self) -> bool:
        """Return whether the model knows nodes by their number, so that it cannot predict others."""
        return self.why_no_new_nodes is not None

    @property
    def why_no_new_nodes(self) -> tuple[str, str] | None:
        """Return why the model cannot predict other nodes and what to do, as of an error; None if it can."""
        return why_no_new_nodes(self.plan.model, self.factory, self.finished)

    def probabilities(self, graph: Graph) -> Probabilities:
        """Return uncalibrated probabilities of the successful runs, `[runs, n, c]`."""
        found: Probabilities = predict(self.factory, graph, self.runs, self.recipe).numpy()
        return found

    @property
    def finished(self) -> list[Run]:
        """Return the runs that did not fail."""
        return [run for run in self.runs if run.failure is None]

    def finished_run(self, number: int | None = None) -> Run:
        """Return the run of a number; by default the first that did not fail.

        Raises:
            OptionError: If there is no such run, or if it failed.
        """
        for run in self.finished:
            if number in (None, run.index):
                return run
        failures = [f" ({run.failure})" for run in self.runs if run.index == number]
        raise OptionError(
            f"{self.folder.path} has no finished run {number}{''.join(failures)}.",
            f"It has: {', '.join(str(run.index) for run in self.finished)}.",
        )

    def with_runs(self, runs: list[Run]) -> Trained:
        """Return the same training with some of its runs only."""
        return replace(self, runs=runs)

    def changed(self, change: Callable[[Trained], Trained]) -> Trained:
        """Return the training after a change of its factory or its runs; an ensemble with every member changed."""
        return change(self)


class Member(NamedTuple):
    """A trained model and its runs, in memory."""

    factory: partial[Any]
    recipe: Recipe
    runs: Sequence[Run]


@runtime_checkable
class HasRuns(Protocol):
    """Anything with a factory, a recipe and runs: a `Member` or a `Trained`."""

    @property
    def factory(self) -> partial[Any]: ...
    @property
    def recipe(self) -> Recipe: ...
    @property
    def runs(self) -> Sequence[Run]: ...


def mean_of_members(members: Sequence[HasRuns], weights: Weights, runs: Sequence[Run], graph: Graph) -> Probabilities:
    """Return the weighted mean of the probabilities of several models, `[runs, n, c]`.

    Args:
        members: The models.
        weights: The weight of each member in each split.
        runs: The runs of the ensemble to evaluate.
        graph: The graph.
    """
    total: Probabilities = np.zeros((len(runs), graph.num_nodes, graph.num_classes), np.float32)
    for place, member in enumerate(members):
        rows = [row for row, run in enumerate(runs) if weights[run.index][place] > 0]
        own = {run.index: run for run in member.runs}
        used = [own[runs[row].index] for row in rows]
        if used:
            found = predict(member.factory, graph, used, member.recipe).numpy()
            for row, probabilities in zip(rows, found, strict=True):
                total[row] += weights[runs[row].index][place] * probabilities
    return total


@dataclass(frozen=True, eq=False)
class Ensemble(Trained):
    """The weighted mean of several trainings on the same splits.

    Plan, recipe, factory and folder are those of the member with the largest weight, but for the name of the model.

    Attributes:
        members: The trainings.
        names: Their names.
        weights: The weight of each member in each split. A split in which every member failed has none.
    """

    members: Sequence[Trained] = ()
    names: Sequence[str] = ()
    weights: Weights = ()
    latest: list[tuple[Graph, Probabilities]] = field(default_factory=list, repr=False)  # kept for the next call

    @classmethod
    def of(
        cls, members: Sequence[Trained], names: Sequence[str], weights: Weights, runs: list[Run], reason: str = ""
    ) -> Ensemble:
        """Return the ensemble of some trainings.

        Args:
            members: The trainings.
            names: Their names.
            weights: The weight of each member in each split.
            runs: The runs of the ensemble, with their figures.
            reason: Why an automatic choice took it.
        """
        first = members[largest(weights)]
        plan = replace(first.plan, model=ENSEMBLE, options={})
        return cls(plan, first.recipe, first.factory, first.folder, runs, reason, members, names, weights)

    @property
    def leading(self) -> Trained:
        return replace(self.members[largest(self.weights)], reason=self.reason)

    @property
    def num_models(self) -> int:
        return len(self.members)

    @property
    def why_no_new_nodes(self) -> tuple[str, str] | None:
        reasons = (member.why_no_new_nodes for member in self.members)
        return next((reason for reason in reasons if reason), None)

    def probabilities(self, graph: Graph) -> Probabilities:
        if not self.latest or self.latest[0][0] is not graph:
            self.latest[:] = [(graph, mean_of_members(self.members, self.weights, self.finished, graph))]
        return self.latest[0][1]

    def with_runs(self, runs: list[Run]) -> Trained:
        return replace(self, runs=runs, latest=[])

    def changed(self, change: Callable[[Trained], Trained]) -> Trained:
        return replace(self, members=[change(member) for member in self.members], latest=[])

    @property
    def mean_weights(self) -> dict[str, float]:
        """Return the mean weight of each member over the splits, the largest first."""
        return mean_weights(self.names, self.weights)


def mean_weights(names: Sequence[str], weights: Weights) -> dict[str, float]:
    """Return the mean weight of each member over the splits, the largest first.

    Example:
        >>> mean_weights(["a", "b"], [[0.0, 1.0], [0.5, 0.5]])
        {'b': 0.75, 'a': 0.25}
    """
    means = np.mean([row for row in weights if sum(row) > 0], axis=0).tolist()
    return dict(sorted(zip(names, means, strict=True), key=lambda pair: -pair[1]))


def largest(weights: Weights) -> int:
    """Return the place of the member with the largest weight over all splits."""
    return int(np.sum(weights, axis=0).argmax())
