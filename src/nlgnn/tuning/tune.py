"""tune: search over the options of a model by validation, many settings at once and in many processes."""

from __future__ import annotations

import hashlib
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from nlgnn.errors import NlgnnError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import make_splits
from nlgnn.models.build import configure, default_preset, default_protocol, resolve
from nlgnn.models.options import setting_words
from nlgnn.models.registry import get_system, load
from nlgnn.training.fit import fit_settings
from nlgnn.training.preflight import bits_of, check
from nlgnn.training.progress import ProgressBar
from nlgnn.training.recipe import EXECUTION, Recipe, metric_text
from nlgnn.training.replica import Replica, Run, shape_of_setting
from nlgnn.tuning.result import Tried, Tuned, importances
from nlgnn.tuning.space import Space, Values, check_numbers, check_space, default_setting, read_space

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from nlgnn.tuning.study import SharedStudy, Task, Told

BATCH = 12  # settings that a process takes at once: larger batches leave less for others, and more to lose
SECONDS_BETWEEN_LOOKS = 2.0  # while other processes work on the last settings
FEWEST_COMPARED = 6  # settings at a rung before any is dropped


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
    """Search over the options of a model by its mean validation figure.

    The search is kept in a study. The same call continues an interrupted search, and several processes share it.

    Args:
        graph: The graph to train on.
        model: The name of a model; see `nlgnn models`.
        splits: The name of a split protocol. By default it is the one that belongs to the graph.
        settings: The number of settings of the grid that are tried, or "all". The default setting of the model is the
            first; the others are drawn at random.
        search_splits: The number of splits that each setting is trained on.
        search_epochs: The largest number of epochs that each setting is trained.
        halving: If True, settings that fall behind are dropped after a quarter and after half of the epochs.
        preset: The name of a preset, as for `configure`.
        study: The SQLite file of the study, by default runs/tune-<graph>-<model>.db. With `storage`, the name of the
            study in the database.
        storage: The address of a PostgreSQL database that many machines share.
        progress: If True, a progress bar is drawn on terminals.
        options: Options of `configure`. A list is searched over and replaces the model's own values; a single value
            is fixed.

    Returns:
        All settings with their figures, best first, and the command that trains the best one.

    Raises:
        OptionError: If an option or value does not exist or has no effect.
        StudyError: If the study cannot be opened or holds another search.

    Example:
        >>> import tempfile
        >>> from nlgnn import load_graph, tune
        >>> options = {"hidden": [8, 16], "settings": 2, "search_epochs": 5, "progress": False}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     tuned = tune(load_graph("mushroom-body"), "mlp", study=f"{folder}/study.db", **options)
        >>> len(tuned.rows)
        2
    """
    model = get_system(model).name
    check_numbers(settings, search_splits, search_epochs)
    check_space(model, graph.name, preset, options)
    space = read_space(model, options)
    search = _Search(graph, model, splits or default_protocol(graph), search_splits, search_epochs, preset, space)
    first = default_setting(model, graph.name, preset, space)
    chosen = search.check(space.settings(None if settings == "all" else int(settings), first))
    name = f"tune-{graph.name}-{model.replace(':', '.')}"
    path = None if storage else Path(study or Path("runs") / f"{name}.db")
    identity = search.identity(halving)
    from nlgnn.tuning.study import SharedStudy  # imports Optuna, which is slow: options are checked first

    started = time.monotonic()
    with (
        _quiet_optuna(),
        SharedStudy(path, storage, str(study or name) if storage else "tune", space, identity) as shared,
    ):
        with SearchProgress(len(chosen), search.metric, enabled=progress) as bar:
            search.work(shared, chosen, rungs_of(search_epochs) if halving else (), bar)
        return search.result(shared, time.monotonic() - started)


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
    """The work of one process on a search."""

    def __init__(
        self, graph: Graph, model: str, protocol: str, splits: int, epochs: int, preset: str | None, space: Space
    ) -> None:
        self.graph, self.model, self.protocol, self.epochs, self.space = graph, model, protocol, epochs, space
        self.preset = preset or default_preset(graph.name)
        self.splits = make_splits(graph, protocol, splits)
        self.shapes: dict[str, Hashable] = {}

    def check(self, settings: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Raise if a setting cannot be made into a model; else return the settings."""
        for setting in settings:
            arguments, recipe = self._resolved(setting)
            factory = partial(load(get_system(self.model)), **arguments)
            self.shapes[setting_words(setting)] = shape_of_setting(factory, recipe)
        self.recipe, self.metric = recipe, recipe.metric  # used only for the options that all settings share
        check(self.graph, self.splits, recipe)
        return settings

    def _resolved(self, setting: Values) -> tuple[dict[str, Any], Recipe]:
        return resolve(self.model, self.graph.name, self.preset, {**self.space.fixed, **setting})

    def identity(self, halving: bool) -> dict[str, Any]:
        """Return everything that decides the figures of a setting."""
        arguments, recipe = self._resolved(self.space.each_value()[0])
        common = arguments | recipe.model_dump(exclude=EXECUTION)
        column = hashlib.sha256(bits_of(self.splits)).hexdigest()[:16]
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
            **({"splits": column} if self.protocol == "column" else {}),  # the name decides the other protocols
        }

    def work(
        self, study: SharedStudy, settings: list[dict[str, Any]], rungs: Sequence[int], bar: SearchProgress
    ) -> None:
        """Train batches until every setting is finished, here or in another process."""
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
            except BaseException:  # also Ctrl-C
                with suppress(NlgnnError):
                    study.release(tasks)
                raise

    def _train(
        self, study: SharedStudy, tasks: Sequence[Task], rungs: Sequence[int], bar: SearchProgress
    ) -> list[tuple[Task, Told]]:
        def report(rung: int, values: Mapping[int, float]) -> list[float]:
            return study.report(rung, [(tasks[setting], value) for setting, value in values.items()])

        def watch(replicas: Sequence[Replica]) -> None:
            if replicas:  # none after a run of a model without gradient training
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
        from nlgnn.tuning.study import Told

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
        rows = [Tried.of(trial) for trial in study.outcomes()]
        rows.sort(key=lambda row: setting_words(row.setting))  # ties must not depend on the order of finishing
        return sorted(rows, key=lambda row: (row.failure is not None, row.dropped, -(row.mean or 0)))

    def result(self, study: SharedStudy, seconds: float) -> Tuned:
        """Return the result of a finished search."""
        rows = self._rows(study)
        if not rows or rows[0].failure:
            why = rows[0].failure if rows else "none was trained"
            raise NlgnnError(f"no setting could be trained; {why}.", "Try lower learning rates, or check the features.")
        shares, words = self._importances(study.outcomes())
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
        """Return importances for the last epoch that all settings reached: the first rung if any was dropped."""
        good = [trial for trial in trials if trial.user_attrs["failure"] is None]
        good.sort(key=lambda trial: setting_words(trial.params))  # a forest depends on the order of its inputs
        dropped = [trial for trial in good if trial.state.name == "PRUNED"]
        rung = min((step for trial in dropped for step in trial.intermediate_values), default=None)
        figures = [
            (trial.params, trial.intermediate_values.get(rung or 0, fmean(trial.user_attrs["val"]))) for trial in good
        ]
        shares, reason = importances(self.space, figures)
        return shares, reason or f"validation {self.metric}" + (f" at epoch {rung}" if rung else "")


def rungs_of(epochs: int) -> tuple[int, ...]:
    """Return the epochs at which settings are compared; none if there are too few epochs."""
    return tuple(epochs // share for share in (4, 2)) if epochs >= 8 else ()


def is_hopeless(value: float, known: Sequence[float]) -> bool:
    """Return True if at least half of the values known at a rung, including this one, are better."""
    return len(known) >= FEWEST_COMPARED and sum(other > value for other in known) >= (len(known) + 1) // 2


class Halving:
    """Drops settings in training that are worse than half of the others at a rung.

    Settings are compared by the mean over splits of the validation figure of the best epoch so far.

    Args:
        rungs: The epochs at which settings are compared.
        splits: The number of splits that each setting is trained on.
        report: Records the values of settings, by their position, at a rung, and returns those of all settings that
            ever reached the rung.
    """

    def __init__(
        self, rungs: Sequence[int], splits: int, report: Callable[[int, Mapping[int, float]], Sequence[float]]
    ) -> None:
        self.rungs, self.splits, self.report = rungs, splits, report
        self.dropped: set[int] = set()
        self._reached: dict[tuple[int, int], dict[int, float]] = defaultdict(dict)  # by rung and setting, per split
        self._compared: set[tuple[int, int]] = set()
        self._over: dict[int, set[int]] = defaultdict(set)  # by setting, the splits that were trained to their end

    def __call__(self, replicas: Sequence[Replica]) -> None:
        for replica in replicas:
            if replica.run.failure is not None:  # one failed split makes a setting useless
                self.dropped.add(replica.setting)
            else:
                self._note(replica)
        for rung in self.rungs:
            self._compare(rung)
        for replica in replicas:
            replica.dropped |= replica.setting in self.dropped

    def _note(self, replica: Replica) -> None:
        if replica.is_over and not replica.dropped:
            self._over[replica.setting].add(replica.run.index)
        epoch = replica.epoch - replica.recipe.pretrain_epochs
        for rung in self.rungs:
            if epoch == rung or (epoch < rung and replica.is_over):
                best = replica.curves["val_metric"][replica.course.best_epoch - 1]
                self._reached[rung, replica.setting].setdefault(replica.run.index, best)

    def _compare(self, rung: int) -> None:
        new = {
            setting: fmean(values.values())
            for (at, setting), values in self._reached.items()
            if at == rung and len(values) == self.splits and (at, setting) not in self._compared
            if setting not in self.dropped
        }
        if new:
            self._compared |= {(rung, setting) for setting in new}
            known = self.report(rung, new)
            self.dropped |= {
                setting
                for setting, value in new.items()
                if is_hopeless(value, known) and len(self._over[setting]) < self.splits
            }


class SearchProgress(ProgressBar):
    """The progress of a search: finished settings, the best figure so far and the time left."""

    def __init__(self, settings: int, metric: str, enabled: bool = True) -> None:
        super().__init__(settings, enabled)
        self.settings, self.metric = settings, metric
        self.words, self.finished = "", 0

    def begin(self, rows: Sequence[Tried], settings: int, awaited: int) -> None:
        """Show that a batch begins, or that `awaited` settings are trained by other processes."""
        self.finished = min(len(rows), settings)
        best = "search"
        if rows and rows[0].mean is not None:
            best = f"best validation {self.metric} {metric_text(self.metric, rows[0].mean)}"
        self.words = f"waiting for {awaited} in other processes, {best}" if awaited else best
        self._show()

    def update(self, replicas: Sequence[Replica]) -> None:
        """Show the epoch that a batch has reached."""
        epochs = max(replica.epoch for replica in replicas)
        settings = len({replica.setting for replica in replicas if not replica.is_over})
        self._show(f", {settings} setting{'s' * (settings != 1)} in epoch {epochs}")

    def _show(self, where: str = "") -> None:
        if self.is_due():
            of_all = f"{self.finished} of {self.settings} setting{'s' * (self.settings != 1)}"
            self.show(self.finished, f"{self.words}{where}", f"{of_all}, {self.words}{where}")
