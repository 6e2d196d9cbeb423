"""tune: searches over the options of a system, by validation only, many settings at once and in many processes."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from nlgnn.errors import NlgnnError, OptionError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import make_splits
from nlgnn.training.checks import check
from nlgnn.training.fit import bits_of, fit_settings
from nlgnn.training.halving import Halving, rungs_of
from nlgnn.training.importance import importances
from nlgnn.training.jobs import shape_of_setting
from nlgnn.training.recipe import EXECUTION
from nlgnn.training.replica import Replica
from nlgnn.training.run import Run
from nlgnn.training.search_progress import SearchProgress
from nlgnn.training.space import Space, check_space, read_space, setting_words
from nlgnn.training.storage import StudyError
from nlgnn.training.study import SharedStudy, Task, Told
from nlgnn.training.systems import configure, default_preset, default_protocol, get_system, load, resolve
from nlgnn.training.tuned import Tried, Tuned, is_dropped, tried

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

BATCH = 12  # settings that one process takes at once: more leave less for others, and more to lose
SECONDS_BETWEEN_LOOKS = 2.0  # for what others left, once nothing else is to be done


def tune(
    graph: Graph,
    model: str,
    splits: str | None = None,
    *,
    settings: int | Literal["all"] = 24,
    search_splits: int = 3,
    search_epochs: int = 300,
    halving: bool = True,
    preset: str | None = None,
    study: str | Path | None = None,
    storage: str | None = None,
    progress: bool = True,
    **options: Any,
) -> Tuned:
    """Search over the options of a system by its mean validation figure.

    What was searched is kept in a study: the same call goes on with it, and several processes share it.

    Args:
        graph: what to train on.
        model: one of `nlgnn models`.
        splits: the name of a protocol; by default the one that goes with the graph.
        settings: how many of the grid are tried, drawn at random, or all.
        search_splits: how many splits each is trained on.
        search_epochs: how many epochs each is trained at most.
        halving: whether settings that are behind are dropped on the way.
        preset: as for `configure`.
        study: the SQLite file, by default runs/tune-<graph>-<model>.db; with `storage`, the study's name there.
        storage: the address of a PostgreSQL database, for work shared by many machines.
        progress: whether a bar is drawn, on terminals.
        options: any option of `configure`. A list is searched over, in place of the system's own values; one value is
            fixed.
    """
    model = get_system(model).name
    check_numbers(settings, search_splits, search_epochs)
    check_space(model, graph.name, preset, options)
    space = read_space(model, options)
    search = _Search(graph, model, splits or default_protocol(graph), search_splits, search_epochs, preset, space)
    chosen = search.check(space.settings(None if settings == "all" else settings))
    name = f"tune-{graph.name}-{model}"
    path = None if storage else Path(study or Path("runs") / f"{name}.db")
    with (
        _quiet_optuna(),
        SharedStudy(
            path, storage, str(study or name) if storage else "tune", space, search.identity(halving)
        ) as shared,
    ):
        started = time.monotonic()
        with SearchProgress(len(chosen), search.metric, enabled=progress) as bar:
            search.work(shared, chosen, rungs_of(search_epochs) if halving else (), bar)
        return search.result(shared, time.monotonic() - started)


def check_numbers(settings: int | str, search_splits: int, search_epochs: int) -> None:
    """Raise for a number that means nothing."""
    given = {"settings": settings, "search_splits": search_splits, "search_epochs": search_epochs}
    for name, value in given.items():
        if (isinstance(value, str) and (name, value) != ("settings", "all")) or (isinstance(value, int) and value < 1):
            words = (
                "Give a whole number of at least 1" + ", or all." * (name == "settings") + "." * (name != "settings")
            )
            raise OptionError(f"{name}={value!r}.", words)


@contextmanager
def _quiet_optuna() -> Iterator[None]:
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


class _Search:
    """One process's part in a search."""

    def __init__(
        self, graph: Graph, model: str, protocol: str, splits: int, epochs: int, preset: str | None, space: Space
    ) -> None:
        self.graph, self.model, self.protocol, self.epochs, self.space = graph, model, protocol, epochs, space
        self.preset = preset or default_preset(graph.name)
        self.splits = make_splits(graph, protocol, splits)
        self.shapes: dict[str, Hashable] = {}

    def check(self, settings: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The settings, each of which can be made into a model; the last one's recipe has what all have in common."""
        for setting in [*self.space.each_value(), *settings]:
            arguments, recipe = resolve(self.model, self.graph.name, self.preset, {**self.space.fixed, **setting})
            factory = partial(load(get_system(self.model)), **arguments)
            self.shapes[setting_words(setting)] = shape_of_setting(factory, recipe)
        self.recipe, self.metric = recipe, recipe.metric
        check(self.graph, self.splits, recipe)
        return settings

    def identity(self, halving: bool) -> dict[str, Any]:
        """All that decides the figures of a setting."""
        first = {name: values[0] for name, values in self.space.searched.items()}
        arguments, recipe = resolve(self.model, self.graph.name, self.preset, {**self.space.fixed, **first})
        common = arguments | recipe.model_dump(exclude=EXECUTION)
        own = hashlib.sha256(bits_of(self.splits)).hexdigest()[:16]
        return {
            "graph": self.graph.name,
            "fingerprint": self.graph.fingerprint,
            "model": self.model,
            "protocol": self.protocol,
            "search_splits": len(self.splits),
            "search_epochs": self.epochs,
            "halving": halving,
            "preset": self.preset,
            "space": self.space.searched,
            "options": {name: value for name, value in common.items() if name not in self.space.searched},
            **({"splits": own} if self.protocol == "column" else {}),  # those of others go by their name
        }

    def work(
        self, study: SharedStudy, settings: list[dict[str, Any]], rungs: Sequence[int], bar: SearchProgress
    ) -> None:
        """Take batches until every setting is finished, here or elsewhere."""
        while True:
            tasks, elsewhere = study.take(settings, lambda setting: self.shapes[setting_words(setting)], BATCH)
            if not tasks and not elsewhere:
                return
            bar.begin(self._rows(study), len(settings), elsewhere if not tasks else 0)
            if not tasks:
                time.sleep(SECONDS_BETWEEN_LOOKS)
                continue
            try:
                with study.heartbeats(tasks):
                    study.tell(self._train(study, tasks, rungs, bar))
            except BaseException:  # Ctrl-C too
                with suppress(StudyError):
                    study.release(tasks)
                raise

    def _train(
        self, study: SharedStudy, tasks: Sequence[Task], rungs: Sequence[int], bar: SearchProgress
    ) -> list[tuple[Task, Told]]:
        def report(rung: int, values: Mapping[int, float]) -> list[float]:
            return study.report(rung, [(tasks[setting], value) for setting, value in values.items()])

        def watch(replicas: Sequence[Replica]) -> None:
            halving(replicas)
            bar.update(replicas)

        halving = Halving(rungs, len(self.splits), report)
        configured = []
        for task in tasks:
            factory, recipe = configure(self.model, self.graph, self.preset, **{**self.space.fixed, **task.setting})
            configured.append((factory, recipe.model_copy(update={"epochs": min(recipe.epochs, self.epochs)})))
        runs = fit_settings(configured, self.graph, self.splits, progress=False, watch=watch)
        return [
            (task, self._told(of_setting, number in halving.dropped))
            for number, (task, of_setting) in enumerate(zip(tasks, runs, strict=True))
        ]

    def _told(self, runs: Sequence[Run], dropped: bool) -> Told:
        failures = [run.failure for run in runs if run.failure is not None]
        values = [] if failures else [run.val[self.metric] for run in runs]
        attributes = {
            "val": values,
            "epochs": fmean(run.epochs for run in runs),
            "seconds": sum(run.seconds for run in runs),
            "failure": failures[0] if failures else None,
        }
        return Told(None if dropped or failures else fmean(values), attributes)

    def _rows(self, study: SharedStudy) -> list[Tried]:
        rows = [tried(trial) for trial in study.finished()]
        rows.sort(key=lambda row: setting_words(row.setting))  # among equals, not by who was faster
        return sorted(rows, key=lambda row: (row.failure is not None, row.dropped, -(row.mean or 0)))

    def result(self, study: SharedStudy, seconds: float) -> Tuned:
        rows = self._rows(study)
        if not rows or rows[0].failure:
            why = rows[0].failure if rows else "none was trained"
            raise NlgnnError(
                f"no setting could be trained; {why}.", "Try lower learning rates, or look at the features."
            )
        shares, words = self._importances(study.finished())
        return Tuned(
            graph=self.graph.name,
            model=self.model,
            protocol=self.protocol,
            splits=len(set(self.splits)),
            runs=len(self.splits),
            preset=self.preset,
            recipe=self.recipe.model_copy(update={"epochs": min(self.recipe.epochs, self.epochs)}),
            space=self.space,
            rows=tuple(rows),
            importances=shares,
            importances_of=words,
            study=study.where,
            seconds=seconds,
        )

    def _importances(self, trials: Sequence[FrozenTrial]) -> tuple[dict[str, float], str]:
        """Of the last figures that all settings have: where some were dropped, those of the first rung."""
        good = [trial for trial in trials if trial.user_attrs["failure"] is None]
        good.sort(key=lambda trial: setting_words(trial.params))  # a forest depends on the order of what it is given
        rung = min((step for trial in good if is_dropped(trial) for step in trial.intermediate_values), default=None)
        figures = [
            (trial.params, trial.intermediate_values.get(rung or 0, fmean(trial.user_attrs["val"]))) for trial in good
        ]
        shares, reason = importances(self.space, figures)
        return shares, reason or f"validation {self.metric}" + (f" at epoch {rung}" if rung else "")
