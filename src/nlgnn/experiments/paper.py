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


@cache
def paper_results() -> dict[str, Any]:
    text = resources.files("nlgnn.experiments").joinpath("paper_results.json").read_text()
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def printed_accuracy(system: str, dataset: str) -> Printed | None:
    """Test accuracy in the paper's table of all results; None where the paper has none."""
    wanted = PAPER_DATASETS.get(dataset, dataset)
    for printed_system, cells in paper_results()["tables"]["all_results"]["rows"].items():
        for printed_dataset, cell in cells.items():
            if (printed_system.lower(), printed_dataset.lower()) == (system, wanted) and cell["reported"]:
                return Printed(cell["mean"], cell["std"])
    return None
