"""What cells mean: missing, a number, true or false, a date, an id. One place for text and for typed columns."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nlgnn.datasets.tables.table import Table
from nlgnn.errors import DataError

MISSING = ("", "na", "n/a", "nan", "null")  # in any case, blanks around them ignored
TRUTHS = {"true": True, "yes": True, "t": True, "y": True, "1": True}
TRUTHS |= {"false": False, "no": False, "f": False, "n": False, "0": False}
DATE_LIKE = r"^(\d{4}[-/]\d{2}[-/]\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?Z?)?|\d{1,2}\.\d{1,2}\.\d{4})$"
DATE_FORMATS = ("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y")
TIME_FORMATS = ("%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%dT%H:%M")
LARGEST_NUMBER = 1e38  # single precision ends at 3.4e38


def shown(value: object) -> str:
    """A cell in a message: in quotes, on one line, not too long."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}…'"


def counted(count: int, noun: str) -> str:
    """1 such row, 2 such rows."""
    return f"{count} such {noun}{'' if count == 1 else 's'}"


def simplified(values: pl.Series) -> pl.Series:
    """The same values as text, numbers, true or false, or dates; other types are returned as they are."""
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
    """Text without blanks around it; null where missing. A whole number is written without a point."""
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
    """Numbers; null or NaN where missing or none."""
    values = simplified(values)
    if values.dtype == pl.String:
        numbers = values.cast(pl.Float64, strict=False)
        # Tables of thousands of columns of clean numbers are not looked at twice.
        return numbers if all_parsed(values, numbers) else as_text(values).cast(pl.Float64, strict=False)
    if values.dtype.is_numeric() or values.dtype == pl.Boolean:
        return values.cast(pl.Float64)
    return pl.repeat(None, len(values), dtype=pl.Float64, eager=True)


def all_parsed(values: pl.Series, parsed: pl.Series) -> bool:
    return values.null_count() == parsed.null_count()


def parsed_truths(values: pl.Series) -> pl.Series:
    """True or false; null where missing or neither."""
    if values.dtype == pl.Boolean:
        return values
    if values.dtype.is_nested():
        return pl.repeat(None, len(values), dtype=pl.Boolean, eager=True)
    return as_text(values).str.to_lowercase().replace_strict(TRUTHS, default=None, return_dtype=pl.Boolean)


def parsed_days(values: pl.Series) -> pl.Series:
    """Days since 1970, with their fraction; null where missing or no date."""
    values = simplified(values)
    if values.dtype.is_temporal():
        moments = values.cast(pl.Datetime("us"), strict=False)
    elif values.dtype == pl.String:
        text = as_text(values)
        text = pl.select(pl.when(text.str.contains(DATE_LIKE)).then(text)).to_series()
        text = text.str.strip_suffix("Z").str.replace(" ", "T", literal=True)
        dates = [text.str.to_date(form, strict=False).cast(pl.Datetime("us")) for form in DATE_FORMATS]
        times = [text.str.to_datetime(form, strict=False, time_unit="us") for form in TIME_FORMATS]
        moments = pl.select(pl.coalesce(*dates, *times)).to_series()
    else:
        return pl.repeat(None, len(values), dtype=pl.Float64, eager=True)
    return moments.cast(pl.Int64).cast(pl.Float64) / 86_400e6


def check_all_parsed(values: pl.Series, parsed: pl.Series, what: str, table: Table) -> None:
    """An error for the first cell that holds something of which nothing could be made."""
    if all_parsed(values, parsed):
        return
    present = values if values.dtype.is_nested() else as_text(values)
    wrong = (present.is_not_null() & parsed.is_null()).arg_true()
    if len(wrong):
        row = int(wrong[0])
        raise DataError(
            f"{table.place(row, values.name)} is {shown(values[row])}, not {what} ({counted(len(wrong), 'cell')}).",
            "Mend the cell, or leave it blank for a missing value.",
        )


def as_numbers(values: pl.Series, table: Table) -> NDArray[np.float64]:
    """Numbers, NaN where missing; an error for the first cell that is no finite number."""
    numbers = parsed_numbers(values)
    check_all_parsed(values, numbers, "a number", table)
    array = numbers.to_numpy()
    too_large = np.flatnonzero(np.abs(array) > LARGEST_NUMBER)
    if len(too_large):
        row = int(too_large[0])
        raise DataError(
            f"{table.place(row, values.name)} is {array[row]:g}: no finite number of single precision "
            f"({counted(len(too_large), 'cell')}).",
            "Give a smaller number, or leave the cell blank for a missing value.",
        )
    return array


def other_type(table: Table, values: pl.Series, wanted: str) -> DataError:
    return DataError(
        f"{table.source}, column {values.name!r} holds values of type {values.dtype}, not {wanted}.",
        "Convert the column.",
    )


def as_ids(values: pl.Series, table: Table) -> pl.Series:
    """Integers or text without blanks around it, null where blank; `NA` and the like are names like any other."""
    values = simplified(values)
    if values.dtype.is_nested() or values.dtype in (pl.Binary, pl.Object):
        raise other_type(table, values, "ids")
    if values.dtype.is_integer():
        return values
    if values.dtype != pl.String:
        text = as_text(values)  # 1.0, which is what missing values make of 1, is 1
        return text.cast(pl.Int64) if values.dtype.is_float() and text.str.contains(r"^-?\d+$").all() else text
    text = values.str.strip_chars()
    return pl.select(pl.when(text != "").then(text)).to_series().alias(values.name)
