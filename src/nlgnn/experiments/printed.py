"""The figures that others printed for the compared systems, and how far ours are from them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from nlgnn.experiments.compare import Spread


class Figure(NamedTuple):
    """Test accuracy in percent; no spread where none is printed.

    `variant` is the options that make a named form of the system, "best" for the best of all of them, None where there
    is one form only. `kind` is "authors" for those who proposed the system, else "third-party".
    """

    system: str
    variant: dict[str, Any] | str | None
    dataset: str
    mean: float
    std: float | None
    split: str
    kind: str
    source: str

    def __str__(self) -> str:
        variant = f" ({words(self.variant)})" if isinstance(self.variant, dict) else ""
        return f"{self.mean}{'' if self.std is None else f' ± {self.std}'}{variant}"


@cache
def _file() -> dict[str, Any]:
    text = resources.files("nlgnn.experiments").joinpath("printed_figures.json").read_text()
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def sources() -> dict[str, str]:
    found: dict[str, str] = _file()["sources"]
    return found


def split_words() -> dict[str, str]:
    return {name: split["words"] for name, split in _file()["splits"].items()}


def printed_figures(system: str, dataset: str) -> list[Figure]:
    figures = [Figure(**figure) for figure in _file()["figures"]]
    return [figure for figure in figures if (figure.system, figure.dataset) == (system, dataset)]


def comparable_figures(system: str, dataset: str, protocol: str, options: Mapping[str, Any]) -> list[Figure]:
    """What a result stands beside: the authors' figure, else those of others, by splits like those of `protocol`.

    Where there are figures for the variant that `options` make, only those.
    """
    splits = _file()["splits"]
    figures = [one for one in printed_figures(system, dataset) if protocol in splits[one.split]["protocols"]]
    figures = [one for one in figures if one.kind == "authors"] or figures
    own = [one for one in figures if isinstance(one.variant, dict) and one.variant.items() <= options.items()]
    return own or [one for one in figures if not isinstance(one.variant, dict)] or figures


def distance(ours: Spread, figures: list[Figure]) -> float | None:
    """From the nearest end of the printed range, in standard deviations: ours, combined with theirs where printed."""
    low, high = min(figures, key=lambda one: one.mean), max(figures, key=lambda one: one.mean)
    if low.mean <= ours.mean <= high.mean and low != high:
        return 0.0
    nearest = low if ours.mean < low.mean else high
    deviation = ((ours.std or 0.0) ** 2 + (nearest.std or 0.0) ** 2) ** 0.5
    return (ours.mean - nearest.mean) / deviation if ours.std is not None and deviation else None


def words(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items())
