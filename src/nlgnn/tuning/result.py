"""Tuned: the result of a search, and the importance of its options."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from nlgnn.models.build import training_command
from nlgnn.training.recipe import Recipe
from nlgnn.tuning.space import Space

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from nlgnn.tables.source import OwnTables

FEWEST_RANKED = 8  # settings that importances need; a forest fitted to fewer is meaningless


@dataclass(frozen=True)
class Tried:
    """A setting and its validation figures, in percent.

    Attributes:
        setting: A value for each searched option.
        mean: The mean over the splits of the search. For a dropped setting, the figures when it was dropped; None for a
            failed one.
        std: The sample standard deviation over the splits; None for a single split.
        epochs: The mean number of trained epochs.
        seconds: The training time.
        dropped: True if the setting was dropped before its last epoch.
        failure: The reason why it has no figures, if it failed.
    """

    setting: dict[str, Any]
    mean: float | None
    std: float | None
    epochs: float
    seconds: float
    dropped: bool = False
    failure: str | None = None

    @classmethod
    def of(cls, trial: FrozenTrial) -> Tried:
        """Read a finished trial of a study."""
        known, values = trial.user_attrs, trial.user_attrs["val"]
        return cls(
            setting=trial.params,
            mean=fmean(values) if values else None,
            std=stdev(values) if len(values) > 1 else None,
            epochs=known["epochs"],
            seconds=known["seconds"],
            dropped=trial.state.name == "PRUNED" and known["failure"] is None,
            failure=known["failure"],
        )


@dataclass(frozen=True)
class Tuned:
    """The result of a search.

    Attributes:
        graph: The name of the graph.
        model: The name of the model.
        protocol: The name of the split protocol.
        splits: The number of different splits that each setting was trained on.
        runs: The number of trainings per setting. If a protocol has fewer splits, splits are repeated with other seeds.
        preset: The name of the preset.
        recipe: The training options that all settings share.
        space: The search space.
        rows: Every setting once, best first. Settings that were trained to their end come before dropped ones.
        importances: The share of the variance that each option explains, largest first.
        importances_of: The figure that the importances explain, or the reason why there are none.
        study: The place of the study.
        seconds: The time that this process took.
        tables: The user's own tables that the graph was read from, if any.
    """

    graph: str
    model: str
    protocol: str
    splits: int
    runs: int
    preset: str
    recipe: Recipe
    space: Space
    rows: tuple[Tried, ...]
    importances: dict[str, float]
    importances_of: str
    study: str
    seconds: float
    tables: OwnTables | None = None

    @property
    def best(self) -> Tried:
        """Return the best setting."""
        return self.rows[0]

    @property
    def options(self) -> dict[str, Any]:
        """Return the options of the best setting, fixed ones included."""
        return {**self.space.fixed, **self.best.setting}

    @property
    def command(self) -> str:
        """Return the command that trains the best setting on all splits with all epochs, and shows test figures."""
        return training_command(self.graph, self.model, self.protocol, self.preset, self.options, tables=self.tables)


def importances(space: Space, figures: Sequence[tuple[Mapping[str, Any], float]]) -> tuple[dict[str, float], str]:
    """Return how much each searched option matters, by functional ANOVA.

    Args:
        space: The search space.
        figures: Settings and their figures.

    Returns:
        The share of the variance of the figures that each option explains alone, largest first, and an empty text; or
        no shares and the reason.
    """
    import optuna
    from optuna.importance import FanovaImportanceEvaluator, get_param_importances

    if len(space.searched) < 2:
        return {}, "a single option is searched" if space.searched else "no option is searched"
    if len(figures) < FEWEST_RANKED:
        return {}, f"{len(figures)} settings are too few" if len(figures) != 1 else "one setting is too few"
    if len({value for _, value in figures}) == 1:
        return {}, "all settings have the same figure"
    choices = space.choices()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its experimental notices
        study = optuna.create_study(direction="maximize")  # in memory, because dropped settings count too
        for setting, value in figures:
            study.add_trial(optuna.trial.create_trial(params=dict(setting), distributions=choices, value=value))
        try:
            found = get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=0), normalize=False)
        except (RuntimeError, ValueError) as error:
            return {}, str(error).rstrip(".")
    return {name: float(share) for name, share in found.items()}, ""
