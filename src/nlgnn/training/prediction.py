"""What the runs of a training say of every node together, and the table that it is written to."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nlgnn.errors import NlgnnError, NlgnnWarning, OptionError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split
from nlgnn.training.calibration import calibrated, temperature
from nlgnn.training.run import Run, check_target, write_whole

ENDINGS = (".csv", ".parquet")
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def without_weights(graph: Graph, trained: object) -> Graph:
    """For what was trained on edges without weights, or by a version that did not look at them; told as a warning."""
    what = f"{trained} was trained without weights of edges: those of graph {graph.name!r} are left out here too."
    warnings.warn(what, NlgnnWarning, stacklevel=3)
    return replace(graph, edge_weight=None)


def temperatures(
    probabilities: NDArray[np.floating], runs: Sequence[Run], graph: Graph, splits: Sequence[Split]
) -> list[float]:
    """Of each run, found on the validation nodes of its own split; `probabilities` are `[runs, n, c]`."""
    parts = [splits[run.index].val for run in runs]
    return [temperature(one[val], graph.y[val]) for one, val in zip(probabilities, parts, strict=True)]


def together(probabilities: NDArray[np.floating], heats: Sequence[float]) -> NDArray[np.floating]:
    """The mean of the runs' calibrated probabilities, `[n, c]`, one run after another: of millions of nodes a sum."""
    total = np.zeros(probabilities.shape[1:])
    for one, heat in zip(probabilities, heats, strict=True):
        total += calibrated(one, heat)
    return total / len(probabilities)


def prediction_columns(
    graph: Graph,
    probabilities: NDArray[np.floating],
    nodes: NDArray[np.int64],
    id_name: str | None = None,
    label_name: str | None = None,
) -> dict[str, NDArray[Any] | list[str]]:
    """A row for each of some nodes: its id, what it is taken for, how likely each class is, whether it had a label.

    The first two go by the names given, else, or where another column is called so, by id and label.
    """
    chosen = probabilities[nodes]
    names = np.array(graph.class_names, dtype=object)
    figures = {
        "confidence": chosen.max(1),
        "was labelled": graph.labelled[nodes],
        **{f"probability of {name}": chosen[:, label] for label, name in enumerate(graph.class_names)},
    }
    own = (id_name or "id", label_name or "label")
    first, second = own if len({*own, *figures}) == len(figures) + 2 else ("id", "label")
    return {
        first: [graph.node_names[node] for node in nodes] if graph.node_names else nodes,
        second: names[chosen.argmax(1)].tolist(),
        **figures,
    }


def check_table_path(path: Path) -> None:
    """Raise what would make `write_table` fail, before the work that it is to hold."""
    if path.suffix not in ENDINGS:
        raise OptionError(f"{path} cannot be written: its ending is unknown.", f"End it in {' or '.join(ENDINGS)}.")
    check_target(path)


def write_table(path: Path, columns: dict[str, NDArray[Any] | list[str]]) -> None:
    """As CSV or Parquet, by the ending; whole or not at all."""
    check_table_path(path)
    try:
        write_whole(
            path, lambda file: _write_csv(file, columns) if path.suffix == ".csv" else _write_parquet(file, columns)
        )
    except OSError as error:
        raise NlgnnError(
            f"{path} cannot be written: {error.strerror or error}. What was there before is untouched.",
            "Make room, or name another file.",
        ) from error


def _write_parquet(path: Path, columns: dict[str, NDArray[Any] | list[str]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), path)


def _write_csv(path: Path, columns: dict[str, NDArray[Any] | list[str]]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([_harmless(name) for name in columns])
        lists = [column if isinstance(column, list) else column.tolist() for column in columns.values()]
        writer.writerows([_harmless(value) for value in row] for row in zip(*lists, strict=True))


def _harmless(value: Any) -> Any:
    """A quote in front of text that a spreadsheet would take for a formula; a number is none."""
    if not isinstance(value, str) or not value.startswith(FORMULA_STARTS):
        return value
    with suppress(ValueError):
        float(value)
        return value
    return f"'{value}"
