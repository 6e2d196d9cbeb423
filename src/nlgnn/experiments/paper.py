"""The numbers that Liu, Wang and Ji (2021) print, for tables that stand ours beside them."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

# Our names, where they are not just the paper's in lower case. The paper trained on the faulty Cornell of before July
# 2022, so that its column says nothing of the corrected one.
PAPER_DATASETS = {"cornell-pre2022": "cornell", "cornell": None}


class Printed(NamedTuple):
    """A figure of the paper: accuracy in percent; the spread is None where the paper prints none."""

    mean: float
    std: float | None

    @property
    def low(self) -> float:
        """One standard deviation below: from here on a figure agrees, or is better."""
        return self.mean - (self.std or 0.0)

    def __str__(self) -> str:
        return f"{self.mean}" if self.std is None else f"{self.mean} ± {self.std}"


@cache
def paper_results() -> dict[str, Any]:
    text = resources.files("nlgnn.experiments").joinpath("paper_results.json").read_text()
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def printed_accuracy(system: str, dataset: str) -> Printed | None:
    """Test accuracy, from the table of all results or from that of a category; None where the paper has none."""
    tables = ("all_results", "first_category", "second_category")
    return next((figure for table in tables if (figure := _printed(table, system, dataset))), None)


def printed_validation(system: str, dataset: str) -> Printed | None:
    """The mean of the best validation accuracy: what the two categories are told apart by."""
    return _printed("best_validation_accuracy", system, dataset)


def printed_cpgcn(system: str, dataset: str) -> Printed | None:
    """Test accuracy on the splits of CPGNN, with the two datasets of the sentence put right (it swaps them)."""
    meant = paper_results()["text_results"]["cpgcn_comparison"]["as_presumably_meant"]
    figure = {name.lower(): row for name, row in meant.items()}.get(dataset, {}).get(system.upper())
    return Printed(figure["mean"], figure["std"]) if figure else None


def _printed(table: str, system: str, dataset: str) -> Printed | None:
    wanted = PAPER_DATASETS.get(dataset, dataset)
    for printed_system, cells in paper_results()["tables"][table]["rows"].items():
        for printed_dataset, cell in cells.items():
            if (printed_system.lower(), printed_dataset.lower()) == (system, wanted) and cell["reported"]:
                return Printed(cell["mean"], cell["std"])
    return None
