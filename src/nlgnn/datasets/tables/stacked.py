"""Two tables as one: the nodes that a model was trained on, and below them those that it has never seen."""

from __future__ import annotations

import polars as pl

from nlgnn.datasets.tables.table import Table
from nlgnn.datasets.tables.values import as_text, simplified
from nlgnn.errors import DataError


def stack_tables(first: Table, further: Table) -> Table:
    """The rows of both, with the columns of the first; places are still those of the file in which a row stands.

    A column that the second lacks is missing there, and columns that only the second has are left out. Where types
    differ, as between CSV and Parquet, cells are compared as text.
    """
    if not set(first.columns) & set(further.columns):
        raise DataError(
            f"{further.source} has no column of {first.source}, but {', '.join(map(repr, further.columns[:5]))}.",
            "Name its columns alike.",
        )

    def load(name: str) -> pl.Series:
        upper = first.column(name)
        if name not in further.columns:
            return pl.concat([upper, pl.repeat(None, further.num_rows, dtype=upper.dtype, eager=True)])
        lower = further.column(name)
        if upper.dtype == lower.dtype:
            return pl.concat([upper, lower.alias(name)])
        if upper.dtype.is_nested() or lower.dtype.is_nested():
            raise DataError(
                f"{further.source}, column {name!r} holds values of type {lower.dtype}, but those of {first.source} "
                f"are of type {upper.dtype}.",
                "Convert the column.",
            )
        if upper.dtype.is_numeric() and lower.dtype.is_numeric():
            return pl.concat([upper, lower.alias(name)], how="vertical_relaxed")
        return pl.concat([_cells(upper), _cells(lower).alias(name)])

    def place_of(row: int) -> str:
        return first.place(row) if row < first.num_rows else further.place(row - first.num_rows)

    return Table(
        source=f"{first.source} with {further.source}",
        columns=first.columns,
        num_rows=first.num_rows + further.num_rows,
        load=load,
        place_of=place_of,
        notes=(*first.notes, *further.notes),
    )


def _cells(values: pl.Series) -> pl.Series:
    values = simplified(values)
    return values if values.dtype == pl.String else as_text(values)
