"""Dates as people write them: 31/12/2024 or 12/31/2024, 31.12.2024, ISO with time and zone, 2024-03, epoch seconds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nlgnn.tables.number_format import mostly, without_marks
from nlgnn.tables.values import Table, all_parsed, as_text, check_all_parsed, simplified

Unit = Literal["text", "seconds", "milliseconds", "yyyymmdd"]
ISO_DATE = r"^\d{4}-\d{2}-\d{2}$"
ISO_TIME = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?Z?$"
ISO_ZONE = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d{1,9})?[+-]\d{2}:?\d{2}$"
IN_UTC = "times converted to UTC"
TIME_FORMATS = ("%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%dT%H:%M")
NAMED_FORMATS = ("%d %b %y", "%d %b %Y", "%b %d %Y", "%d %B %Y", "%B %d %Y")
NAMED = r"^(\d{1,2}[ .-]+[A-Za-z]{3,9}\.?[ ,-]+\d{2,4}|[A-Za-z]{3,9}\.? \d{1,2},? \d{4})$"
DATE = r"^(?P<a>\d{1,4})(?P<mark>[-/.])(?P<b>\d{1,2})(?:(?P<mark2>[-/.])(?P<c>\d{1,4}))?"
CLOCK = r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}(?:[.,]\d{1,9})?))?(?:\s*(?P<half>[AaPp])\.?[Mm]\.?)?"
ZONE = r"(?P<zone>Z|z|UTC|GMT|[+-]\d{2}(?::?\d{2})?)"
WRITTEN = rf"{DATE}(?:(?:T|,?\s+){CLOCK}\s*{ZONE}?)?$"
MONTH_AND_YEAR = r"^(\d{1,2})/(\d{4})$"
DAY_SECONDS = 86_400
# Seconds from 1990 to 2050: numbers in this range, or a thousand times as large, can be times.
FIRST_SECOND, LAST_SECOND = 631_152_000, 2_524_608_000
TIME_NAME = re.compile(
    r"date|time|day|epoch|stamp|created|opened|closed|updated|modified|since|until|joined|seen|visit|login|start|expir|"
    r"birth|(^|[_\W])(ts|at|on|when|unix)$",
    re.IGNORECASE,
)


@dataclass(frozen=True, eq=False)
class DatesFound:
    """Dates of a column.

    Args:
        days: Days since 1970 with their fraction, null where a cell is missing or is not a date.
        present: The cells, null where missing.
        day_first: Whether 3/4/2024 is the third of April.
        remarks: Decisions that people should know.
    """

    days: pl.Series
    present: pl.Series
    day_first: bool = True
    remarks: tuple[str, ...] = ()


def find_dates(values: pl.Series, day_first: bool = True) -> DatesFound:
    """Return the dates of a column of text or of a type of dates.

    Whether days or months come first is decided by the whole column. Times with a zone are converted to UTC.

    Args:
        values: The column.
        day_first: The order if the column does not decide, as where all cells are like 3/4/2024.

    Example:
        >>> find_dates(pl.Series(["3/4/1970", "13/4/1970"])).days.to_list()
        [92.0, 102.0]
    """
    values = simplified(values)
    if values.dtype.is_temporal():
        return DatesFound(_in_days(values.cast(pl.Datetime("us"), strict=False)), values)
    if values.dtype != pl.String:
        return DatesFound(pl.repeat(None, len(values), dtype=pl.Float64, eager=True), values)
    text, remarks = without_marks(as_text(values))
    days = _iso_days(text)
    if not all_parsed(text, days) and mostly(text, ISO_ZONE):
        days = days.fill_null(_zoned_days(text))
        remarks = (*remarks, IN_UTC)
    if all_parsed(text, days) or not mostly(text, rf"{WRITTEN}|{NAMED}|{MONTH_AND_YEAR}"):
        return DatesFound(days, text, day_first, remarks)
    rest = text.filter(days.is_null()).drop_nulls().unique()
    found, decided, more = _written_days(rest, day_first)
    others = text.replace_strict(rest, found, default=None, return_dtype=pl.Float64)
    return DatesFound(days.fill_null(others), text, decided, tuple(dict.fromkeys((*remarks, *more))))


def _in_days(moments: pl.Series) -> pl.Series:
    return moments.cast(pl.Int64).cast(pl.Float64) / (DAY_SECONDS * 1e6)


def _iso_days(text: pl.Series) -> pl.Series:
    """Return the days of dates such as 2024-12-31, which are read fast, also with a time; null for other cells."""
    dates = _matching(text, ISO_DATE).str.to_date("%Y-%m-%d", strict=False).cast(pl.Datetime("us"))
    times = _matching(text, ISO_TIME)
    if times.null_count() < len(times):
        times = times.str.strip_suffix("Z").str.replace(" ", "T", literal=True)
        moments = [times.str.to_datetime(form, strict=False, time_unit="us") for form in TIME_FORMATS]
        dates = pl.select(pl.coalesce(dates, *moments)).to_series()
    return _in_days(dates)


def _zoned_days(text: pl.Series) -> pl.Series:
    """Return the days of ISO times with a zone; null for other cells."""
    times = _matching(text, ISO_ZONE).str.replace(" ", "T", literal=True)
    found = times.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f%z", strict=False, time_unit="us")
    return _in_days(found)


def _matching(text: pl.Series, pattern: str) -> pl.Series:
    return pl.select(pl.when(text.str.contains(pattern)).then(pl.lit(text))).to_series()


def _written_days(text: pl.Series, day_first: bool) -> tuple[pl.Series, bool, list[str]]:
    """Return the days of distinct cells, whether days come before months, and remarks."""
    named = _matching(text, NAMED).str.replace_all(r"[ .,-]+", " ")
    by_name = [named.str.to_date(form, strict=False).cast(pl.Datetime("us")) for form in NAMED_FORMATS]
    parts = text.str.replace(MONTH_AND_YEAR, "$2-$1").str.extract_groups(WRITTEN).struct.unnest()
    orders = {first: _by_order(parts, first) for first in (True, False)}
    day_count, month_count = (days.is_not_null().sum() for days in orders.values())
    decided = day_first if day_count == month_count else day_count > month_count
    days = orders[decided]
    differs = (orders[True] != orders[False]).fill_null(False)  # cells that are dates in both orders
    remarks = []
    if differs.any() and day_count == month_count:
        cell = str(text.filter(differs).min())
        order = "day/month" if decided else "month/day"
        remarks.append(f"{cell!r} was read as {order}, which is not sure: write 2024-12-31")
    elif orders[True].ne_missing(orders[False]).any():
        remarks.append("read as day/month/year" if decided else "read as month/day/year")
    if parts["zone"].drop_nulls().is_in(["Z", "z", "UTC", "GMT"]).not_().any():
        remarks.append(IN_UTC)
    return days.fill_null(_in_days(pl.select(pl.coalesce(*by_name)).to_series())), decided, remarks


def _by_order(parts: pl.DataFrame, day_first: bool) -> pl.Series:
    """Return the days that parts of cells are if days, or months, come first; null for other cells."""
    a, b, c = (pl.col(name).cast(pl.Int32) for name in ("a", "b", "c"))
    year_first = pl.col("a").str.len_bytes() == 4
    dotted = pl.col("mark") == "."
    short = pl.col("c").str.len_bytes() == 2
    year = pl.when(year_first).then(a).when(short).then(c + pl.when(c < 70).then(2000).otherwise(1900)).otherwise(c)
    first_is_day = dotted if not day_first else pl.lit(True)
    month = pl.when(year_first | ~first_is_day).then(pl.when(year_first).then(b).otherwise(a)).otherwise(b)
    day = pl.when(year_first).then(c.fill_null(1)).when(first_is_day).then(a).otherwise(b)
    in_years_first = (pl.col("c").str.len_bytes().fill_null(1) <= 2) & ~(dotted & c.is_null())
    in_others = (pl.col("a").str.len_bytes() <= 2) & pl.col("c").str.len_bytes().is_in([2, 4])
    is_date = pl.when(year_first).then(in_years_first).otherwise(in_others)
    is_date = is_date & (pl.col("mark") == pl.col("mark2")).fill_null(True)
    padded = [part.cast(pl.String).str.zfill(length) for part, length in ((year, 4), (month, 2), (day, 2))]
    text = pl.concat_str(padded, separator="-")
    date = pl.when(is_date).then(text).str.to_date("%Y-%m-%d", strict=False).cast(pl.Int32).cast(pl.Float64)
    hour = pl.col("hour").cast(pl.Float64)
    half = pl.col("half").str.to_lowercase()
    hour = pl.when(half.is_null()).then(hour).otherwise(hour % 12 + 12 * (half == "p").cast(pl.Float64))
    seconds = 3600 * hour + 60 * pl.col("minute").cast(pl.Float64)
    seconds += pl.col("second").str.replace(",", ".", literal=True).cast(pl.Float64).fill_null(0)
    digits = pl.col("zone").str.replace_all(r"[^0-9]", "")
    offset = 3600 * digits.str.slice(0, 2).cast(pl.Float64, strict=False).fill_null(0)
    offset += 60 * digits.str.slice(2).cast(pl.Float64, strict=False).fill_null(0)
    sign = pl.when(pl.col("zone").str.starts_with("-")).then(-1).otherwise(1)
    is_time = (hour < 24) & (pl.col("minute").cast(pl.Int32) < 60) & (seconds < DAY_SECONDS)
    time = pl.when(pl.col("hour").is_null()).then(0.0).when(is_time).then(seconds - (sign * offset).fill_null(0))
    return parts.select((date + time / DAY_SECONDS).alias("days")).to_series()


def time_unit(numbers: NDArray[np.float64]) -> Unit | None:
    """Return the unit of times that numbers, none of which is missing, can be; None if they cannot be times."""
    low, high = (numbers.min(), numbers.max()) if len(numbers) else (0, 0)
    if low >= FIRST_SECOND and high <= LAST_SECOND:
        return "seconds"
    if low >= FIRST_SECOND * 1000 and high <= LAST_SECOND * 1000:
        return "milliseconds"
    if low >= 19_000_101 and high <= 21_001_231 and not np.isnan(days_of(numbers, "yyyymmdd")).any():
        return "yyyymmdd"
    return None


def days_of(numbers: NDArray[np.float64], unit: Unit) -> NDArray[np.float64]:
    """Return days since 1970 of numbers in a unit, NaN where a number is missing or is no date."""
    if unit != "yyyymmdd":
        return numbers / (DAY_SECONDS * (1000 if unit == "milliseconds" else 1))
    text = pl.Series(numbers).fill_nan(None).cast(pl.Int64, strict=False).cast(pl.String)
    days = text.str.to_date("%Y%m%d", strict=False).cast(pl.Int32).cast(pl.Float64)
    return days.fill_null(np.nan).to_numpy()


def as_days(values: pl.Series, table: Table, day_first: bool = True) -> NDArray[np.float64]:
    """Return days since 1970, NaN where missing, and raise an error for the first cell that is not a date."""
    return checked_days([find_dates(part, day_first) for part in table.parts(values)], values.name, table)


def checked_days(found: Sequence[DatesFound], name: str, table: Table) -> NDArray[np.float64]:
    """Return the days of the parts of a column, NaN where missing, or raise an error as `as_days` does."""
    days = pl.concat([part.days for part in found])
    check_all_parsed(pl.concat([part.present for part in found]).alias(name), days, "a date such as 2024-12-31", table)
    return days.fill_null(np.nan).to_numpy()
