"""Splits that a table brings along: a column says of each node whether it trains, validates or tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nlgnn.datasets.tables.roles import PARTS
from nlgnn.datasets.tables.table import Table
from nlgnn.datasets.tables.values import as_text, counted, shown
from nlgnn.errors import DataError
from nlgnn.graph.splits import Split


def read_splits(table: Table, columns: Sequence[str], y: NDArray[np.int64]) -> tuple[tuple[Split, ...], list[str]]:
    """A split for each column, and what is to be said. Blank cells, and nodes of unknown label, are in no part."""
    splits, notes = [], []
    for index, column in enumerate(columns):
        values = table.column(column)
        text = as_text(values).str.to_lowercase() if not values.dtype.is_nested() else values.cast(pl.String)
        parts = text.replace_strict(PARTS, default=None, return_dtype=pl.String)
        wrong = (text.is_not_null() & parts.is_null()).arg_true()
        if len(wrong):
            row = int(wrong[0])
            raise DataError(
                f"{table.place(row, column)} is {shown(values[row])}, not train, val or test.",
                "Leave the cell blank for a node that is in none of them.",
            )
        masks = {part: parts.eq(part).fill_null(False).to_numpy() for part in ("train", "val", "test")}
        unlabelled = int(((y < 0) & parts.is_not_null().to_numpy()).sum())
        if unlabelled:
            notes.append(
                f"{table.source}, column {column!r}: nodes without a label are in no part "
                f"({counted(unlabelled, 'node')})."
            )
        for part, mask in masks.items():
            mask = masks[part] = mask & (y >= 0)
            if not mask.any():
                raise DataError(
                    f"{table.source}, column {column!r}: no node with a label is in {part!r}.",
                    "Each of train, val and test needs one at least; or rename the column to draw splits at random.",
                )
        splits.append(Split(**masks, protocol="column", index=index))
    return tuple(splits), notes
