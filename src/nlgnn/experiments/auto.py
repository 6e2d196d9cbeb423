"""The automatic choice: a diagnosis names a local model and its non-local version, and validation takes one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple

from nlgnn.errors import NlgnnError, OptionError
from nlgnn.experiments.compare import with_controls
from nlgnn.experiments.diagnose import Diagnosis, diagnose
from nlgnn.experiments.verdict import NON_LOCAL
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import make_splits
from nlgnn.training.fit import fit
from nlgnn.training.run import Run
from nlgnn.training.systems import configure, default_protocol, resolve


class Gate(NamedTuple):
    """Mean validation figures of a non-local model and of its own local part, over the runs that both finished."""

    non_local: str
    local: str
    non_local_mean: float
    local_mean: float
    metric: str

    @property
    def taken(self) -> str:
        """The non-local one only where it is ahead."""
        return self.non_local if self.non_local_mean > self.local_mean else self.local

    @property
    def words(self) -> str:
        ahead = "ahead" if self.taken == self.non_local else "not ahead"
        return (
            f"The gate takes {self.taken}: by mean validation {self.metric}, "
            f"{self.non_local} ({self.non_local_mean:.2f} %) is {ahead} of its own local part, "
            f"{self.local} ({self.local_mean:.2f} %)."
        )


def gate(runs: Mapping[str, Sequence[Run]], metric: str) -> Gate:
    """Compare a non-local model with its local part, which comes second, by validation alone."""
    non_local, local = runs
    pairs = [
        (run.val[metric], other.val[metric])
        for run, other in zip(runs[non_local], runs[local], strict=True)
        if run.failure is None and other.failure is None
    ]
    if not pairs:
        raise NlgnnError(
            f"no split was finished by both {non_local} and {local}, so that they cannot be compared.",
            "Try a lower learning rate, or look at the features.",
        )
    return Gate(non_local, local, fmean(one for one, _ in pairs), fmean(other for _, other in pairs), metric)


def check_options(graph_name: str, preset: str | None, options: Mapping[str, Any]) -> None:
    """Raise an `OptionError` for what a model that may be chosen does not take, before anything is trained."""
    for name in NON_LOCAL.values():
        try:
            resolve(name, graph_name, preset, options)
        except OptionError as error:
            raise OptionError(f"{error.what} The model auto may choose {name}.", error.how) from None


@dataclass(frozen=True)
class Choice:
    """What was chosen and why; the runs are those of the chosen model."""

    model: str
    options: dict[str, Any]
    runs: list[Run]
    gate: Gate
    diagnosis: Diagnosis


def choose_model(
    graph: Graph,
    splits: str | None = None,
    runs: int | None = None,
    preset: str | None = None,
    *,
    progress: bool = True,
    **options: Any,
) -> Choice:
    """Diagnose a graph, train the local model that goes with it and its non-local version, and take one by validation.

    Args:
        graph: as for `diagnose`.
        splits: the name of a protocol; by default the one that goes with the graph.
        runs: training runs, one a split; by default ten, or all fixed splits.
        preset: paper, released or robust; by default the one that suits the graph.
        progress: whether bars are drawn.
        options: as for `configure`; all of the models that may be chosen must have them.
    """
    check_options(graph.name, preset, options)
    protocol = splits or default_protocol(graph)
    drawn = make_splits(graph, protocol, runs)
    diagnosis = diagnose(graph, protocol, progress=progress)
    candidates = with_controls(diagnosis.verdict.non_local, options)[:2]
    trained = {}
    for variant in candidates:
        factory, recipe = configure(variant.system, graph, preset, **variant.options)
        trained[variant.system] = fit(factory, graph, drawn, recipe, progress=progress)
    decided = gate(trained, recipe.metric)
    options = next(variant.options for variant in candidates if variant.system == decided.taken)
    return Choice(decided.taken, options, trained[decided.taken], decided, diagnosis)
