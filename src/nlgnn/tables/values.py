"""Table, and the values of its cells: text, plain numbers, truth values and ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nlgnn.errors import DataError, nearest
from nlgnn.graph.audit import listed

MISSING = ("", "na", "n/a", "nan", "null")  # in any case, without the blanks around them
TRUTHS = {"true": True, "yes": True, "t": True, "y": True, "1": True}
TRUTHS |= {"false": False, "no": False, "f": False, "n": False, "0": False}
FEW_DISTINCT = 0.5  # share of distinct cells up to which each of them is looked at once
DAYS = (-719_162 + 1, 2_932_896 - 1)  # from 1970, of the years 1 to 9999, in every time zone
DAY_SECONDS, UNITS_PER_SECOND = 86_400, {"ms": 10**3, "us": 10**6, "ns": 10**9}
OR_BLANK = "or leave the cell blank for a missing value."


class NoRowsError(DataError):
    """A table that has columns and no rows."""


@dataclass(frozen=True, eq=False)
class Table:
    """Named columns, loaded one at a time, so that a wide Parquet file takes the memory of one column.

    Args:
        source: The name of the table in messages: the path of a file, or a few words.
        columns: The names of the columns.
        num_rows: The number of rows that were read.
        load: A function that returns a column by name. Cells of CSV files are text; the code that uses a column
            decides what they mean.
        place_of: A function that returns the file and line of a row, counted from 0. By default rows are numbered.
        notes: Sentences about decisions that were made while reading.
        added_rows: The number of rows of missing values below those that were read.
        parts_from: The rows from which tables that were stacked below the first one begin.
    """

    source: str
    columns: tuple[str, ...]
    num_rows: int
    load: Callable[[str], pl.Series] = field(repr=False)
    place_of: Callable[[int], str] | None = None
    notes: tuple[str, ...] = ()
    added_rows: int = 0
    parts_from: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.columns or self.num_rows <= 0:
            what = f"{self.source} has {self.num_rows} rows and {len(self.columns)} columns."
            raise (NoRowsError if self.columns else DataError)(what, "Give at least one of each.")
        check_distinct(self.columns, self.source)

    @classmethod
    def from_frame(
        cls,
        frame: pl.DataFrame,
        source: str,
        place_of: Callable[[int], str] | None = None,
        notes: Iterable[str] = (),
    ) -> Table:
        """Return the table of a frame in memory."""
        return cls(source, tuple(frame.columns), frame.height, frame.get_column, place_of, tuple(notes))

    def column(self, name: str) -> pl.Series:
        """Return a column, with missing values in the added rows."""
        values = self.load(name)
        self._check_dates(values, name)
        if self.added_rows == 0:
            return values
        return values.extend_constant(None, self.added_rows)

    def _check_dates(self, values: pl.Series, name: str) -> None:
        """Raise an error for dates that Python and most programs cannot have; Parquet stores any."""
        if values.dtype not in (pl.Date, pl.Datetime):
            return
        days = values.to_physical()
        if isinstance(values.dtype, pl.Datetime):
            days = days // (DAY_SECONDS * UNITS_PER_SECOND[values.dtype.time_unit])
        outside = days.is_between(*DAYS).not_().fill_null(False).arg_true()
        if len(outside):
            raise self.fault(
                outside, name, "is a date outside the years 1 to 9999", "Correct it, or leave the column out."
            )

    def parts(self, values: pl.Series) -> list[pl.Series]:
        """Return the cells of a column by the table that they came from."""
        ends = (*self.parts_from, len(values))
        return [values[start:end] for start, end in pairwise((0, *ends))]

    @property
    def frame(self) -> pl.DataFrame:
        """All columns in memory."""
        return pl.DataFrame([self.column(name).alias(name) for name in self.columns])

    def place(self, row: int, column: str | None = None) -> str:
        """Return the file, line and column of a cell, with which an error starts."""
        where = f"{self.source}, row {row + 1}" if self.place_of is None else self.place_of(row)
        return where if column is None else f"{where}, column {column!r}"

    def fault(
        self, rows: Sequence[int] | NDArray[np.int64] | pl.Series, column: str, what: str, how: str, noun: str = "cell"
    ) -> DataError:
        """Return the error about some rows of a column, which names the first of them."""
        return DataError(f"{self.place(int(rows[0]), column)} {what} ({counted(len(rows), noun)}).", how)

    def require(self, name: str, role: str) -> str:
        """Return the name of a column if the table has it, and raise an error otherwise."""
        if name in self.columns:
            return name
        raise DataError(f"{self.source} has no column {name!r} for {role}.", nearest(name, list(self.columns)))


def check_distinct(columns: Sequence[str], where: str) -> None:
    """Raise an error if two columns have one name."""
    if len(set(columns)) < len(columns):
        twice = next(name for name in columns if columns.count(name) > 1)
        raise DataError(f"{where} has two columns {twice!r}.", "Rename one of them.")


def stack_tables(first: Table, further: Table) -> Table:
    """Return a table with the rows of both tables and the columns of the first.

    A column that the second table lacks is missing in its rows. Where types differ, as between CSV and Parquet, cells
    are compared as text. Errors still name the file in which a row stands.

    Args:
        first: The table that decides about the columns.
        further: The table whose rows follow.

    Returns:
        The stacked table.

    Raises:
        DataError: If the tables share no column.

    Example:
        >>> one = Table.from_frame(pl.DataFrame({"id": ["a"]}), "one")
        >>> stack_tables(one, Table.from_frame(pl.DataFrame({"id": ["b"]}), "two")).column("id").to_list()
        ['a', 'b']
    """
    if not set(first.columns) & set(further.columns):
        raise DataError(
            f"{further.source} has no column of {first.source}, but {listed(map(repr, further.columns))}.",
            "Give its columns the same names.",
        )

    def load(name: str) -> pl.Series:
        upper = first.column(name)
        if name not in further.columns:
            return pl.concat([upper, pl.repeat(None, further.num_rows, dtype=upper.dtype, eager=True)])
        lower = further.column(name).alias(name)
        if upper.dtype == lower.dtype or (upper.dtype.is_numeric() and lower.dtype.is_numeric()):
            return pl.concat([upper.to_frame(), lower.to_frame()], how="vertical_relaxed").to_series()
        if upper.dtype.is_nested() or lower.dtype.is_nested():
            raise other_type(further, lower, f"{upper.dtype} as in {first.source}")
        simple = (simplified(values) for values in (upper, lower))
        return pl.concat([values if values.dtype == pl.String else as_text(values) for values in simple])

    return Table(
        source=f"{first.source} with {further.source}",
        columns=first.columns,
        num_rows=first.num_rows + further.num_rows,
        load=load,
        place_of=lambda row: first.place(row) if row < first.num_rows else further.place(row - first.num_rows),
        notes=(*first.notes, *further.notes),
        parts_from=(*first.parts_from, first.num_rows),
    )


def shown(value: object) -> str:
    """Return a cell for a message: in quotes, on one line, at most 40 characters long."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}…'"


def counted(count: int, noun: str) -> str:
    """Return "1 such row", "2 such rows"."""
    return f"{count} such {noun}{'' if count == 1 else 's'}"


def simplified(values: pl.Series) -> pl.Series:
    """Return the values as text, numbers, truth values or dates; other types are not changed."""
    kind = values.dtype
    if isinstance(kind, (pl.Categorical, pl.Enum, pl.Null)):
        return values.cast(pl.String)
    if isinstance(kind, pl.Duration):
        return values.dt.total_microseconds().cast(pl.Float64) / 1e6
    if isinstance(kind, pl.Time):
        return values.cast(pl.Int64).cast(pl.Float64) / 1e9
    if isinstance(kind, pl.Decimal):
        return values.cast(pl.Float64)
    if isinstance(kind, pl.Datetime):
        return values.dt.convert_time_zone("UTC").dt.replace_time_zone(None) if kind.time_zone else values
    return values


def as_text(values: pl.Series) -> pl.Series:
    """Return stripped text, null where missing. Whole numbers are written without a decimal point."""
    values = simplified(values)
    if values.dtype.is_float():
        values = values.fill_nan(None)
        present = values.drop_nulls()
        if ((present.floor() == present) & (present.abs() < 2**53)).all():
            values = values.cast(pl.Int64)
    if values.dtype != pl.String:
        return values.cast(pl.String)
    text = pl.lit(values).str.strip_chars()
    is_missing = text.str.len_bytes().le(4) & text.str.to_lowercase().is_in(MISSING)
    return pl.select(pl.when(~is_missing).then(text)).to_series().alias(values.name)


def parsed_numbers(values: pl.Series) -> pl.Series:
    """Return numbers; null or NaN where a cell is missing or is not a number."""
    values = simplified(values)
    if values.dtype == pl.String:
        numbers = values.cast(pl.Float64, strict=False)
        # A fast path for tables with thousands of columns of clean numbers.
        return numbers if all_parsed(values, numbers) else as_text(values).cast(pl.Float64, strict=False)
    if values.dtype.is_numeric() or values.dtype == pl.Boolean:
        return values.cast(pl.Float64)
    return pl.repeat(None, len(values), dtype=pl.Float64, eager=True)


def all_parsed(values: pl.Series, parsed: pl.Series) -> bool:
    """Return whether parsing made no further cell null."""
    return values.null_count() == parsed.null_count()


def parsed_truths(values: pl.Series) -> pl.Series:
    """Return truth values; null where a cell is missing or is neither true nor false."""
    if values.dtype == pl.Boolean:
        return values
    if values.dtype.is_nested():
        return pl.repeat(None, len(values), dtype=pl.Boolean, eager=True)
    return as_text(values).str.to_lowercase().replace_strict(TRUTHS, default=None, return_dtype=pl.Boolean)


def by_distinct(text: pl.Series, change: Callable[[pl.Series], pl.Series]) -> pl.Series:
    """Return the number that a function makes of each cell; if many cells are equal, it is called with one of each."""
    distinct = text.drop_nulls().unique()
    if len(distinct) > FEW_DISTINCT * len(text):
        return change(text)
    return text.replace_strict(distinct, change(distinct), default=None, return_dtype=pl.Float64)


def check_all_parsed(values: pl.Series, parsed: pl.Series, wanted: str, table: Table) -> None:
    """Raise an error for the first cell that holds a value which could not be parsed."""
    if all_parsed(values, parsed):
        return
    present = values if values.dtype.is_nested() else as_text(values)
    wrong = (present.is_not_null() & parsed.is_null()).arg_true()
    if len(wrong):
        what = f"is {shown(values[int(wrong[0])])}, not {wanted}"
        raise table.fault(wrong, values.name, what, f"Correct the cell, {OR_BLANK}")


def other_type(table: Table, values: pl.Series, wanted: str) -> DataError:
    """Return the error about a column of a type that cannot be used."""
    return DataError(
        f"{table.source}, column {values.name!r} holds values of type {values.dtype}, not {wanted}.",
        "Convert the column.",
    )


def as_ids(values: pl.Series, table: Table) -> pl.Series:
    """Return integers or stripped text, null where blank. `NA` and the like are ids like any other."""
    values = simplified(values)
    if values.dtype.is_nested() or values.dtype in (pl.Binary, pl.Object):
        raise other_type(table, values, "ids")
    if values.dtype.is_integer():
        return values
    if values.dtype != pl.String:
        text = as_text(values)  # a column of integers with missing values is often stored as 1.0
        return text.cast(pl.Int64) if values.dtype.is_float() and text.str.contains(r"^-?\d+$").all() else text
    text = values.str.strip_chars()
    return pl.select(pl.when(text != "").then(text)).to_series().alias(values.name)
