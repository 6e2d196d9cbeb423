"""Tuned: what a search found, and the command that trains the best setting."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from nlgnn.training.options import idle_options
from nlgnn.training.recipe import Recipe
from nlgnn.training.space import Space, Values

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from nlgnn.datasets.own import OwnTables


@dataclass(frozen=True)
class Tried:
    """A setting and its figures: validation only, in percent.

    Args:
        setting: a value for each option that is searched over.
        mean: over the splits of the search; of a dropped setting, as far as it came; of a failed one None.
        std: its sample standard deviation; None for one split.
        epochs: trained, on average.
        seconds: that training took.
        dropped: whether it was dropped on the way.
        failure: why it has no figures, if so.
    """

    setting: dict[str, Any]
    mean: float | None
    std: float | None
    epochs: float
    seconds: float
    dropped: bool = False
    failure: str | None = None


@dataclass(frozen=True)
class Tuned:
    """What a search found. `rows` has every setting once, best first: those trained to their end come first.

    Each was trained in so many runs; where a protocol has fewer splits than that, splits come again, with other seeds.
    `tables`: where the graph comes from, if it is the user's own.
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
        return self.rows[0]

    @property
    def options(self) -> dict[str, Any]:
        """The options of the best setting, those that were fixed among them."""
        return {**self.space.fixed, **self.best.setting}

    @property
    def command(self) -> str:
        """Trains the best setting on all splits, with its whole schedule, and shows test figures."""
        return training_command(self.graph, self.model, self.protocol, self.preset, self.options, tables=self.tables)


def training_command(
    graph: str,
    model: str,
    protocol: str,
    preset: str,
    options: Values,
    runs: int | None = None,
    tables: OwnTables | None = None,
) -> str:
    """A command for a graph of the catalogue, else a line of Python."""
    from nlgnn.datasets.catalog import CATALOG

    idle = idle_options({name: (value,) for name, value in options.items()})  # such as those of what it is a control of
    options = {name: value for name, value in options.items() if name not in idle}

    if tables is None and graph not in CATALOG:
        given = "".join(f", {name}={value!r}" for name, value in options.items())
        configured = f'nlgnn.configure("{model}", graph, "{preset}"{given})'
        splits = f'"{protocol}"' if runs is None else f'nlgnn.make_splits(graph, "{protocol}", {runs})'
        return f"factory, recipe = {configured}; runs = nlgnn.fit(factory, graph, {splits}, recipe)"
    words = [
        "nlgnn",
        "train",
        *([graph] if tables is None else tables.flags),
        "--model",
        model,
        "--splits",
        protocol,
        "--preset",
        preset,
    ]
    for name, value in options.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        elif value is not None:
            words += [f"--{flag}", str(value)]
    words += [] if runs is None else ["--runs", str(runs)]
    return shlex.join(words)


def is_dropped(trial: FrozenTrial) -> bool:
    return trial.state.name == "PRUNED"


def tried(trial: FrozenTrial) -> Tried:
    known, values = trial.user_attrs, trial.user_attrs["val"]
    return Tried(
        setting=trial.params,
        mean=fmean(values) if values else None,
        std=stdev(values) if len(values) > 1 else None,
        epochs=known["epochs"],
        seconds=known["seconds"],
        dropped=is_dropped(trial) and known["failure"] is None,
        failure=known["failure"],
    )
