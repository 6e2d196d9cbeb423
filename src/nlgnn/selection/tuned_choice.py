"""The choice between a non-local model and its local part after a search."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import fmean
from typing import Any, NamedTuple

from nlgnn.errors import OptionError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import make_splits
from nlgnn.models.build import check_given, configure, training_command
from nlgnn.selection.controls import with_controls
from nlgnn.selection.diagnosis import NON_LOCAL
from nlgnn.training.fit import fit_settings
from nlgnn.training.recipe import metric_text
from nlgnn.tuning.result import Tuned


class Decision(NamedTuple):
    """Mean validation figures of a non-local model and of its local part, over the runs that both finished.

    A figure is None if all runs of the model failed.
    """

    non_local: str
    local: str
    non_local_mean: float | None
    local_mean: float | None
    metric: str

    @property
    def chosen(self) -> str:
        """Return the non-local model only if it is ahead of its local part."""
        if self.non_local_mean is None or self.local_mean is None:
            return self.local if self.non_local_mean is None else self.non_local
        return self.non_local if self.non_local_mean > self.local_mean else self.local

    @property
    def reason(self) -> str:
        """Return the choice and its reason in one sentence."""
        means = {self.non_local: self.non_local_mean, self.local: self.local_mean}
        own = means.pop(self.chosen)
        ((other, other_mean),) = means.items()
        if own is None or other_mean is None:
            return f"Chose {self.chosen}: the training of {other} failed."
        comparison = "above" if self.chosen == self.non_local else "not below"
        figures = [metric_text(self.metric, mean, 2) for mean in (own, other_mean)]
        return (
            f"Chose {self.chosen}: its validation {self.metric} ({figures[0]}) is {comparison} that of {other} "
            f"({figures[1]})."
        )


def decide_tuned(graph: Graph, tuned: Tuned, progress: bool = True) -> tuple[Decision, str]:
    """Train the local part of the best setting of a search, as the search did, and choose between the two.

    Returns:
        The decision, and the command that trains the chosen model.
    """
    system, options = with_controls(tuned.model, tuned.options)[1]
    setting = configure(system, graph, tuned.preset, **{**options, "epochs": tuned.recipe.epochs})
    (runs,) = fit_settings([setting], graph, make_splits(graph, tuned.protocol, tuned.runs), progress=progress)
    failed = any(run.failure for run in runs)  # One failed run is a failed setting, as in the search.
    mean = None if failed else fmean(run.val[tuned.recipe.metric] for run in runs)
    decided = Decision(tuned.model, system, tuned.best.mean, mean, tuned.recipe.metric)
    if decided.chosen == tuned.model:
        return decided, tuned.command
    return decided, training_command(graph.name, system, tuned.protocol, tuned.preset, options, tables=tuned.tables)


def check_options(
    graph_name: str, preset: str | None, options: Mapping[str, Any], check: Callable[..., None] = check_given
) -> None:
    """Raise an `OptionError` for an option that one of the possible models does not take.

    `check` is `check_space` for options that are searched over.
    """
    for name in NON_LOCAL.values():
        try:
            check(name, graph_name, preset, options)
        except OptionError as error:
            raise OptionError(f"{error.what} The model auto may choose {name}.", error.how) from None
