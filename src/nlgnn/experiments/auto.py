"""The automatic choice: a diagnosis names a local model and its non-local version, and validation takes one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple

from nlgnn.errors import NlgnnError, OptionError
from nlgnn.experiments.compare import with_controls
from nlgnn.experiments.diagnose import Diagnosis, diagnose
from nlgnn.experiments.verdict import NON_LOCAL
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import make_splits
from nlgnn.training.fit import fit_settings
from nlgnn.training.options import readouts
from nlgnn.training.run import Run
from nlgnn.training.space import VOTES_HAVE_TRIES, values_of
from nlgnn.training.systems import check_given, configure, default_protocol
from nlgnn.training.tuned import Tuned, training_command


class Gate(NamedTuple):
    """Mean validation figures of a non-local model and of its own local part, over the runs that both finished.

    None is the figure of one that failed: the other is taken.
    """

    non_local: str
    local: str
    non_local_mean: float | None
    local_mean: float | None
    metric: str

    @property
    def taken(self) -> str:
        """The non-local one only where it is ahead."""
        if self.non_local_mean is None or self.local_mean is None:
            return self.local if self.non_local_mean is None else self.non_local
        return self.non_local if self.non_local_mean > self.local_mean else self.local

    @property
    def words(self) -> str:
        if self.non_local_mean is None or self.local_mean is None:
            failed = self.non_local if self.non_local_mean is None else self.local
            return f"The gate takes {self.taken}: the training of {failed} failed."
        ahead = "ahead" if self.taken == self.non_local else "not ahead"
        return (
            f"The gate takes {self.taken}: by mean validation {self.metric}, "
            f"{self.non_local} ({self.non_local_mean:.2f} %) is {ahead} of its own local part, "
            f"{self.local} ({self.local_mean:.2f} %)."
        )


def gate(runs: Mapping[str, Sequence[Run]], metric: str) -> Gate:
    """Compare a non-local model with its local part, which comes second, by validation alone."""
    non_local, local = runs
    one, other = ({run.index: run.val[metric] for run in of_model if run.failure is None} for of_model in runs.values())
    compared = one.keys() & other.keys() if one and other else one.keys() | other.keys()
    if not compared:
        raise NlgnnError(
            f"no split was finished by both {non_local} and {local}, so that they cannot be compared.",
            "Try a lower learning rate, or look at the features.",
        )
    mean, local_mean = (fmean(figures[run] for run in compared) if figures else None for figures in (one, other))
    return Gate(non_local, local, mean, local_mean, metric)


def gate_tuned(graph: Graph, tuned: Tuned, progress: bool = True) -> tuple[Gate, str]:
    """Train the local part of the setting that a search found, as the search did, and compare the two.

    Also the command that trains the one taken.
    """
    system, options = with_controls(tuned.model, tuned.options)[1]
    setting = configure(system, graph, tuned.preset, **{**options, "epochs": tuned.recipe.epochs})
    (runs,) = fit_settings([setting], graph, make_splits(graph, tuned.protocol, tuned.runs), progress=progress)
    failed = any(run.failure for run in runs)  # one is enough, as in the search
    mean = None if failed else fmean(run.val[tuned.recipe.metric] for run in runs)
    decided = Gate(tuned.model, system, tuned.best.mean, mean, tuned.recipe.metric)
    if decided.taken == tuned.model:
        return decided, tuned.command
    return decided, training_command(graph.name, system, tuned.protocol, tuned.preset, options, tables=tuned.tables)


def check_options(
    graph_name: str, preset: str | None, options: Mapping[str, Any], check: Callable[..., None] = check_given
) -> None:
    """Raise an `OptionError` for what a model that may be chosen does not take, before anything is trained.

    Of options to search over, `check` is `check_space`.
    """
    wanted = {name: values_of("nlgcn", name, options[name]) for name in ("order", "readout") if name in options}
    if "vote" in readouts(wanted):
        raise OptionError(
            f"the gate of the model auto cannot judge votes: {VOTES_HAVE_TRIES}.",
            "Name a model, such as nlgcn, and train its controls beside it; or use readout='conv'.",
        )
    for name in NON_LOCAL.values():
        try:
            check(name, graph_name, preset, options)
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
    settings = [configure(variant.system, graph, preset, **variant.options) for variant in candidates]
    names = [variant.system for variant in candidates]
    trained = dict(zip(names, fit_settings(settings, graph, drawn, progress=progress), strict=True))
    decided = gate(trained, settings[0][1].metric)
    options = next(variant.options for variant in candidates if variant.system == decided.taken)
    return Choice(decided.taken, options, trained[decided.taken], decided, diagnosis)
