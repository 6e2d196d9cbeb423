"""Numbers printed by Liu, Wang and Ji (2021) and by others, and the one rule by which ours agree with them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from nlgnn.selection.statistics import Spread

# The paper trained on the faulty Cornell file used before July 2022. Its column does not describe the corrected file.
PAPER_DATASETS = {"cornell-pre2022": "cornell", "cornell": None}
AGREES, ABOVE, BELOW = "✓", "▲", "▼"


class Printed(NamedTuple):
    """An accuracy in percent as printed, with its standard deviation or None."""

    mean: float
    std: float | None

    def __str__(self) -> str:
        return f"{self.mean}" if self.std is None else f"{self.mean} ± {self.std}"


class Figure(NamedTuple):
    """A test accuracy printed for a compared system, with its origin.

    Args:
        system: The name of the system.
        variant: The options of a named variant, "best" for the best of all variants, or None if there is one form.
        dataset: The name of the graph.
        mean: The accuracy in percent.
        std: The printed standard deviation, or None.
        split: The key of the splits in `split_names()`.
        kind: "authors" if the authors of the system printed it, otherwise "third-party".
        source: The key of the publication in `sources()`.
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
        variant = f" ({option_text(self.variant)})" if isinstance(self.variant, dict) else ""
        return f"{Printed(self.mean, self.std)}{variant}"


def agreement(ours: Spread, printed: Printed | Figure) -> str:
    """Compare a measured mean with a printed one.

    Args:
        ours: The measured mean and sample standard deviation.
        printed: The printed mean and standard deviation.

    Returns:
        ✓ if the difference is at most one standard deviation, ▲ or ▼ if ours is above or below, and an empty string if
        neither side has a standard deviation. The printed deviation is used where there is one.

    Example:
        >>> agreement(Spread(80.3, 5.7), Printed(85.4, 3.8))
        '▼'
    """
    deviation = ours.std if printed.std is None else printed.std
    if deviation is None:
        return ""
    return AGREES if abs(ours.mean - printed.mean) <= deviation else ABOVE if ours.mean > printed.mean else BELOW


def shortfall(ours: Spread, printed: Printed) -> float:
    """Return the distance in points from one standard deviation below the printed mean, 0 if ours reaches it."""
    return max(0.0, printed.mean - (printed.std or ours.std or 0.0) - ours.mean)


def agreement_with_any(ours: Spread, figures: Sequence[Figure]) -> str:
    """Compare a measured mean with several printed ones: it agrees with one of them, or lies between them."""
    if not figures:
        return ""
    low, high = min(figures, key=lambda one: one.mean), max(figures, key=lambda one: one.mean)
    if low.mean <= ours.mean <= high.mean:
        return AGREES
    return agreement(ours, low if ours.mean < low.mean else high)


@cache
def _file() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(resources.files("nlgnn.paper").joinpath("numbers.json").read_text("utf-8"))
    return loaded


def paper_results() -> dict[str, Any]:
    """Return all numbers of the paper, as nested dictionaries."""
    found: dict[str, Any] = _file()["paper"]
    return found


def printed_accuracy(system: str, dataset: str) -> Printed | None:
    """Return the test accuracy in the paper's tables 3 to 5, or None if the paper prints none."""
    return next((found for table in ("all_results", "first_category", "second_category")
                 if (found := _table(table).get((system, dataset)))), None)  # fmt: skip


def printed_validation(system: str, dataset: str) -> Printed | None:
    """Return the mean best validation accuracy in the paper's table 2, or None."""
    return _table("best_validation_accuracy").get((system, dataset))


def printed_cpgcn(system: str, dataset: str) -> Printed | None:
    """Return the test accuracy on CPGNN's splits, with the two datasets corrected that the paper's sentence swaps."""
    meant = paper_results()["text_results"]["cpgcn_comparison"]["as_presumably_meant"]
    figure = {name.lower(): row for name, row in meant.items()}.get(dataset, {}).get(system.upper())
    return Printed(figure["mean"], figure["std"]) if figure else None


@cache
def _table(name: str) -> dict[tuple[str, str], Printed]:
    """Return the reported cells of a table by our names of system and dataset."""
    ours = {theirs: name for name, theirs in PAPER_DATASETS.items() if theirs}
    return {
        (system.lower(), ours.get(dataset.lower(), dataset.lower())): Printed(cell["mean"], cell["std"])
        for system, cells in paper_results()["tables"][name]["rows"].items()
        for dataset, cell in cells.items()
        if cell["reported"]
    }


def program_accuracies() -> dict[str, Printed]:
    """Return the test accuracies of NLMLP with the authors' released program, run once with one seed, by dataset."""
    return {dataset: Printed(**figure) for dataset, figure in _file()["program"].items()}


def printed_speed(system: str, dataset: str) -> Mapping[str, Any]:
    """Return the entry of the paper's table 6, whose status is "not_reported" if the system was not timed."""
    rows = paper_results()["tables"]["speed"]["rows"].items()
    cells: dict[tuple[str, str], Mapping[str, Any]]
    cells = {(theirs.lower(), name.lower()): cell for theirs, row in rows for name, cell in row.items()}
    return cells.get((system, dataset), {"status": "not_reported"})


def printed_statistics(dataset: str) -> Mapping[str, Any]:
    """Return the row of a dataset in the paper's table 1, empty for a graph that the paper does not use."""
    wanted = PAPER_DATASETS.get(dataset) or dataset  # both Cornell files are compared with the one that is printed
    rows = paper_results()["datasets"]
    return next((row for name, row in rows.items() if name.lower() == wanted), {})


def sources() -> dict[str, str]:
    """Return the publications of other figures by key."""
    found: dict[str, str] = _file()["others"]["sources"]
    return found


def split_names() -> dict[str, str]:
    """Return descriptions of the splits of other figures by key."""
    return {name: split["words"] for name, split in _file()["others"]["splits"].items()}


@cache
def printed_figures(system: str, dataset: str) -> list[Figure]:
    """Return all figures that were printed for a compared system on a dataset."""
    figures = [Figure(**figure) for figure in _file()["others"]["figures"]]
    return [figure for figure in figures if (figure.system, figure.dataset) == (system, dataset)]


def comparable_figures(system: str, dataset: str, protocol: str, options: Mapping[str, Any]) -> list[Figure]:
    """Return the printed figures that a result can be compared with.

    Args:
        system: The name of the system.
        dataset: The name of the graph.
        protocol: The protocol of our splits; only figures on similar splits are comparable.
        options: The options of the result; figures of the same variant are preferred.

    Returns:
        Figures of the system's authors, or those of third parties if the authors printed none.
    """
    splits = _file()["others"]["splits"]
    figures = [one for one in printed_figures(system, dataset) if protocol in splits[one.split]["protocols"]]
    figures = [one for one in figures if one.kind == "authors"] or figures
    own = [one for one in figures if isinstance(one.variant, dict) and one.variant.items() <= options.items()]
    return own or [one for one in figures if not isinstance(one.variant, dict)] or figures


def option_text(options: Mapping[str, Any]) -> str:
    """Return options as text, such as "rounds=2, dropout=0.5"."""
    return ", ".join(f"{name}={value}" for name, value in options.items())
