"""A non-local result is never shown alone: beside it stand its local part, kernel 1 and a random order."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any, NamedTuple

from nlgnn.nn.nonlocal_ import readout_of
from nlgnn.training.options import model_options
from nlgnn.training.recipe import Recipe
from nlgnn.training.run import Run
from nlgnn.training.systems import get_system

CONTROLS: dict[str, dict[str, Any]] = {"kernel 1": {"kernel_size": 1}, "random order": {"order": "random"}}
FROZEN = {"frozen metric": {"metric_lr": 0.0}}  # of a learned order


class Variant(NamedTuple):
    """A system with options."""

    system: str
    options: dict[str, Any]

    @property
    def control(self) -> str | None:
        """The name of the control that the options make of the system."""
        names = [name for name, changed in (CONTROLS | FROZEN).items() if changed.items() <= self.options.items()]
        return ", ".join(names) or None

    @property
    def label(self) -> str:
        """Of a learned order the name says so: its own system has another."""
        made = self.control or ("learned order" if self.options.get("order") == "metric" else None)
        return f"{self.system}, {made}" if made else self.system

    @property
    def slug(self) -> str:
        return self.label.replace(", ", "-").replace(" ", "-")


def with_controls(system: str, options: dict[str, Any]) -> list[Variant]:
    """A system, then its local part and its controls, where it is a non-local one."""
    name, local = get_system(system).name, get_system(system).local
    variants = [Variant(name, options)]
    if local is not None:
        variants.append(_part(local, options))
        if options.get("aggregation") != "attention":  # which has neither kernel nor order
            controls = [Variant(name, {**options, **changed}) for changed in controls_of(options).values()]
            variants += [control for control in controls if control not in variants]
    return variants


def controls_of(options: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What to change, by the control's name. Votes have no kernel, and a metric can be left as it was drawn."""
    order = options.get("order", "score")
    readout = readout_of(order, options.get("readout"))
    if order != "metric" and readout == "conv":
        return CONTROLS
    controls: dict[str, dict[str, Any]] = {"kernel 1": CONTROLS["kernel 1"]} if readout == "conv" else {}
    controls |= {"random order": {"order": "random", "readout": readout}}
    return controls | FROZEN if order == "metric" else controls


def with_references(system: str, options: dict[str, Any]) -> list[Variant]:
    """A system with its controls, and an MLP, which sees no edges, where none of them is one."""
    variants = with_controls(system, options)
    if len(variants) > 1 and variants[1].system != "mlp":
        variants.append(_part("mlp", options))
    return variants


def _part(system: str, options: dict[str, Any]) -> Variant:
    """A system with those of the options that it knows."""
    known = set(model_options(get_system(system))) | set(Recipe.model_fields)
    return Variant(system, {key: value for key, value in options.items() if key in known})


class Spread(NamedTuple):
    """Mean and sample standard deviation over runs; one run has no spread."""

    mean: float
    std: float | None

    def __str__(self) -> str:
        return f"{self.mean:.1f}" if self.std is None else f"{self.mean:.1f} ± {self.std:.1f}"

    @property
    def signed(self) -> str:
        """Of a paired difference, whose `std` is its standard error."""
        return f"{self.mean:+.1f} ({self.std:.1f})"


def spread(values: list[float]) -> Spread | None:
    if not values:
        return None
    return Spread(fmean(values), stdev(values) if len(values) > 1 else None)


class Row(NamedTuple):
    """A line of a result table."""

    label: str
    val: Spread | None
    test: Spread | None
    epochs: float
    ms_per_epoch: float
    runs: int
    failures: list[str]


def row(label: str, runs: list[Run], metric: str) -> Row:
    good = [run for run in runs if run.failure is None]
    return Row(
        label,
        spread([run.val[metric] for run in good]),
        spread([run.test[metric] for run in good if run.test]),
        fmean(run.epochs for run in good),
        fmean(run.ms_per_epoch for run in good),
        len(good),
        [run.failure for run in runs if run.failure is not None],
    )


def paired_difference(one: list[float | None], other: list[float | None]) -> Spread | None:
    """Mean difference over the same splits and seeds, and its standard error."""
    differences = [a - b for a, b in zip(one, other, strict=True) if a is not None and b is not None]
    if len(differences) < 2:
        return None
    return Spread(fmean(differences), stdev(differences) / len(differences) ** 0.5)


def paired_mean(one: Sequence[float | None], other: Sequence[float | None]) -> float | None:
    """The mean difference, of those trainings that failed in neither."""
    differences = [a - b for a, b in zip(one, other, strict=True) if a is not None and b is not None]
    return fmean(differences) if differences else None


def selection_words(rule: str, metric: str) -> str:
    """Which epoch a selection rule keeps."""
    return {
        "first-best": f"the first epoch with the best validation {metric}",
        "last-best": f"the last epoch with the best validation {metric}",
        "lowest-loss": "the epoch with the lowest validation loss",
        "last-both": f"the last epoch with validation {metric} and loss both as good as ever before",
    }[rule]
