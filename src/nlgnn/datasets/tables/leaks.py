"""Columns that nearly determine the label: often the label under another name, or something known only after it."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nlgnn.datasets.tables.columns import FeatureColumn
from nlgnn.datasets.tables.table import Table
from nlgnn.datasets.tables.values import as_text, parsed_days, parsed_numbers

SUSPICIOUS = 0.98  # of labels are told by the column
SHARE_OF_DOUBT = 0.2  # it leaves at most so much of the doubt that the commonest class leaves
FEWEST_LABELS = 20  # with fewer, chance does such things
MOST_ROWS = 20_000  # looked at


def likely_leaks(table: Table, columns: tuple[FeatureColumn, ...], y: NDArray[np.int64]) -> list[str]:
    """A sentence for each column that tells the labels of nearly all nodes.

    A value tells the label that most other nodes of that value have (a value that no other node has tells the
    commonest one). A number tells the label by as many intervals as there are classes. Text is looked at as a whole.
    """
    rows = np.flatnonzero(y >= 0)
    if len(rows) < FEWEST_LABELS:
        return []
    rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), MOST_ROWS)).astype(np.int64)]
    labels = y[rows]
    doubt = 1 - np.bincount(labels).max() / len(labels)
    sentences = []
    for column in columns:
        if column.kind == "numbers":
            continue
        told = share_told(table.column(column.name), column.kind, rows, labels)
        if told >= SUSPICIOUS and 1 - told <= SHARE_OF_DOUBT * doubt:
            sentences.append(
                f"The column {column.name!r} alone tells {told:.1%} of the labels: if it is not known before the "
                "label is, take it out."
            )
    return sentences


def share_told(values: pl.Series, kind: str, rows: NDArray[np.int64], labels: NDArray[np.int64]) -> float:
    if kind in ("number", "date"):
        numbers = (parsed_numbers if kind == "number" else parsed_days)(values).to_numpy()[rows]
        _, codes = np.unique(numbers, return_inverse=True)
        return (told_by_intervals if codes.max() >= len(codes) / 4 else told_by_values)(numbers, labels)
    codes = as_text(values.gather(rows)).rank("dense").fill_null(0).to_numpy()
    return told_by_values(codes, labels)


def told_by_values(values: NDArray[Any], labels: NDArray[np.int64]) -> float:
    """The share of nodes whose label is the commonest among the other nodes of the same value."""
    num_classes = int(labels.max()) + 1
    _, codes = np.unique(values, return_inverse=True)
    counts = np.bincount(codes * num_classes + labels, minlength=(int(codes.max()) + 1) * num_classes)
    counts = counts.reshape(-1, num_classes)
    others = counts[codes]
    others[np.arange(len(labels)), labels] -= 1
    guess = np.where(others.sum(axis=1) > 0, others.argmax(axis=1), np.bincount(labels).argmax())
    return float((guess == labels).mean())


def told_by_intervals(numbers: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
    """The share of nodes whose label is that of their interval, with at most as many intervals as classes."""
    known = np.flatnonzero(~np.isnan(numbers))
    classes = len(np.unique(labels))
    in_order = labels[known[np.argsort(numbers[known])]]
    changes = int((in_order[1:] != in_order[:-1]).sum())
    # Each node outside the interval of its class makes two changes at most. Where there are more, no tree is grown.
    if classes < 2 or changes > classes - 1 + 2 * (1 - SUSPICIOUS) * len(labels):
        return 0.0
    from sklearn.tree import DecisionTreeClassifier

    tree = DecisionTreeClassifier(max_leaf_nodes=classes, random_state=0).fit(numbers[known, None], labels[known])
    return float((tree.predict(numbers[known, None]) == labels[known]).sum() / len(labels))
