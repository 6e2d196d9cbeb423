"""The kind of each column, found from all its values or given by the user, and its scale."""

from __future__ import annotations

import re
from typing import Any, Literal, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nlgnn.tables.column_kinds import (
    WORD,
    Dates,
    FeatureColumn,
    LeftOut,
    Numbers,
    Truths,
    Vectors,
    as_vectors,
    calendar,
)
from nlgnn.tables.date_format import TIME_NAME, Unit, checked_days, days_of, find_dates, time_unit
from nlgnn.tables.number_format import as_numbers, checked_numbers, find_numbers
from nlgnn.tables.text_kinds import (
    ITEMS_RECUR,
    MANY_VALUES,
    MOST_CATEGORIES,
    distinct_counts,
    fit_categories,
    fit_lists,
    fit_texts,
    list_separator,
    weighted_mean,
    words_recur,
)
from nlgnn.tables.values import Table, all_parsed, as_text, parsed_numbers, parsed_truths, simplified

FEW_VALUES = 20
LONG_TEXT, MANY_WORDS = 50, 4  # mean number of characters and words
MOSTLY = 0.95  # if this share of cells are numbers, the others are faults
KEY_NAME = re.compile(r"(^|[_\W])(id|ids|uid|uuid|guid|key|index|idx|rowid)$", re.IGNORECASE)
COUNTER_LENGTH = 20  # number of rows from which 1, 2, 3, … is a counter

Kind = Literal["number", "category", "date", "text", "list", "ignore"]
KINDS: tuple[Kind, ...] = get_args(Kind)
REASONS = {
    "empty": "no values",
    "constant": "one value only",
    "key": "all values different, like an identifier",
    "type": "neither numbers, text, dates, true or false, nor lists",
    "leak": "it tells the label",
}


Fitted = FeatureColumn | LeftOut


def fit_column(values: pl.Series, table: Table, standardise: bool, kind: Kind | None = None) -> Fitted:
    """Return the kind of a column, or why it is left out.

    Args:
        values: The column.
        table: Its table.
        standardise: Scale numbers. Otherwise they are not changed, and are never times.
        kind: The kind that the user wants; None to find it.
    """
    values = simplified(values)
    dtype = values.dtype
    if isinstance(dtype, (pl.List, pl.Array)) and dtype.inner.is_numeric():
        return fit_vectors(values, table, standardise)
    if isinstance(dtype, pl.List) and dtype.inner == pl.String:
        return fit_lists(values, ";")
    if dtype.is_nested() or dtype in (pl.Binary, pl.Object):
        return LeftOut(name=values.name, missing=values.null_count(), reason="type")
    if kind is not None:
        return fit_as(kind, values, table, standardise)
    if dtype == pl.Boolean:
        return fit_truths(values, table)
    if dtype.is_temporal():
        return fit_dates(values, table)
    if dtype.is_numeric() or all_parsed(values, parsed_numbers(values)):
        return fit_plain_numbers(values, table, standardise)
    return fit_text(as_text(values), table, standardise)


def fit_as(kind: Kind, values: pl.Series, table: Table, standardise: bool) -> Fitted:
    """Return the column as the kind that the user wants."""
    if kind == "number":
        return fit_numbers(values, table, standardise, forced=True)
    if kind == "date":
        numbers = parsed_numbers(values)
        if values.dtype.is_temporal() or not all_parsed(as_text(values), numbers):
            return fit_dates(values, table)
        return fit_dates(values, table, time_unit(numbers.drop_nulls().drop_nans().to_numpy()) or "seconds")
    text = as_text(values)
    counts = distinct_counts(text)
    if counts.is_empty():
        return LeftOut(name=values.name, missing=len(text), reason="empty")
    if kind == "category":
        return fit_categories(text, counts)
    if kind == "list":
        present = text.drop_nulls()
        return fit_lists(text, max(ITEMS_RECUR, key=lambda mark: int(present.str.contains(mark, literal=True).sum())))
    return fit_texts(text, counts)


def fit_plain_numbers(values: pl.Series, table: Table, standardise: bool) -> Fitted:
    """Return a column of numbers, or of times if numbers and name say so."""
    found = fit_numbers(values, table, standardise)
    if not standardise or (isinstance(found, LeftOut) and found.reason != "key"):
        return found
    present = parsed_numbers(values).drop_nulls().drop_nans()
    unit = time_unit(present.to_numpy())
    if unit is None:
        return found
    if TIME_NAME.search(values.name):
        return fit_dates(values, table, unit)
    remark = f"can be dates ({unit}): --kind {values.name}=date"
    return found.model_copy(update={"remarks": (*found.remarks, remark)})


def fit_text(text: pl.Series, table: Table, standardise: bool) -> Fitted:
    """Return the kind of a column of text, which may hold numbers, truth values, dates or lists.

    Distinct cells are looked at once each; their order, which is arbitrary, decides nothing.
    """
    name, missing, counts = text.name, text.null_count(), distinct_counts(text)
    cells, count = counts.get_column("text"), counts.get_column("count")
    total = len(text) - missing
    numbers = find_numbers(cells)
    if fits(numbers.numbers, numbers.present, count):
        return fit_numbers(text, table, standardise)
    if not parsed_truths(cells).has_nulls():
        return fit_truths(text, table)
    dates = find_dates(cells)
    if fits(dates.days, dates.present, count):
        return fit_dates(text, table)
    distinct = len(cells)
    if distinct == 1 and not missing:
        return LeftOut(name=name, missing=0, reason="constant")
    separator = list_separator(cells)
    if separator is not None:
        return fit_lists(text, separator)
    words = weighted_mean(cells.str.count_matches(WORD), count)
    is_prose = (weighted_mean(cells.str.len_chars(), count) > LONG_TEXT or words > MANY_WORDS) and distinct > FEW_VALUES
    recurring = words >= 2 and distinct > FEW_VALUES and words_recur(cells)
    if distinct == total and distinct > 1 and not is_prose and not recurring:
        return LeftOut(name=name, missing=missing, reason="key")
    if is_prose or distinct > MANY_VALUES or (distinct > MOST_CATEGORIES and recurring):
        return fit_texts(text, counts)
    return fit_categories(text, counts)


def fits(parsed: pl.Series, present: pl.Series, count: pl.Series) -> bool:
    """Return whether nearly all cells were parsed: the others are then faults, if there are many distinct cells."""
    held = present.is_not_null()
    good = parsed.is_not_null()
    if not good.any():
        return False
    share = float(count.filter(good).sum()) / float(count.filter(held).sum())
    return share == 1 or (share >= MOSTLY and parsed.n_unique() > FEW_VALUES)


def fit_numbers(values: pl.Series, table: Table, standardise: bool, forced: bool = False) -> Numbers | LeftOut:
    """Return the scale of a column of numbers; one that the user wants is never a key."""
    found = find_numbers(values)
    numbers = checked_numbers([found], values.name, table)
    present = np.sort(numbers[~np.isnan(numbers)])  # sorted, so that sums do not depend on the order of rows
    missing = len(numbers) - len(present)
    if len(present) == 0:
        return LeftOut(name=values.name, missing=missing, reason="empty")
    mean, spread = moments(present)
    known: dict[str, Any] = {"name": values.name, "missing": missing, "remarks": found.remarks}
    if not standardise:
        filled = (missing + np.count_nonzero(present)) / len(numbers)
        return Numbers(**known, decimal=found.decimal, offset=0.0, scale=1.0, fill=mean, filled=filled)
    if spread == 0 and not missing:
        return LeftOut(**known, reason="constant")
    if not forced and is_key(values.name, present) and not values.dtype.is_float():
        return LeftOut(**known, reason="key")
    return Numbers(**known, decimal=found.decimal, offset=mean, scale=spread or 1.0, fill=mean)


def moments(ordered: NDArray[np.float64]) -> tuple[float, float]:
    """Return mean and standard deviation, 0 if it may be due to rounding."""
    largest = max(abs(ordered[0]), abs(ordered[-1])) or 1.0
    spread = float((ordered / largest).std())  # divided, because squares of very small numbers underflow
    if ordered[0] == ordered[-1] or spread <= 1e-15:
        return float(ordered[len(ordered) // 2]), 0.0
    return float(ordered.mean()), spread * float(largest)


def is_key(name: str, ordered: NDArray[np.float64]) -> bool:
    """Return whether different whole numbers count the rows, or the column has the name of an id."""
    if (ordered[1:] == ordered[:-1]).any() or (ordered != np.floor(ordered)).any() or len(ordered) < 2:
        return False
    counts_rows = len(ordered) >= COUNTER_LENGTH and ordered[-1] - ordered[0] == len(ordered) - 1
    return bool(counts_rows or KEY_NAME.search(name))


def fit_truths(values: pl.Series, table: Table) -> Truths | LeftOut:
    """Return the kind of a column of truth values."""
    truths = parsed_truths(values).cast(pl.Float64).alias(values.name)
    found = fit_numbers(truths, table, standardise=True)
    if isinstance(found, LeftOut):
        return found
    return Truths(name=found.name, missing=found.missing, filled=(truths.sum() + found.missing) / len(truths))


def fit_dates(values: pl.Series, table: Table, unit: Unit = "text") -> Dates | LeftOut:
    """Return the scale of a column of dates, and whether months, weekdays and hours vary."""
    if unit == "text":
        found = find_dates(values)
        days, remarks, day_first = checked_days([found], values.name, table), found.remarks, found.day_first
    else:
        days, remarks, day_first = days_of(as_numbers(values, table), unit), (f"read as {unit} since 1970",), True
        remarks = ("read as yyyymmdd",) if unit == "yyyymmdd" else remarks
    scale = fit_numbers(pl.Series(values.name, days), table, standardise=True)
    if isinstance(scale, LeftOut):
        return scale.model_copy(update={"remarks": remarks})
    months, weekdays, hours = (len(np.unique(codes[codes >= 0])) > 1 for codes, _ in calendar(days))
    if not hours and len(np.unique(day_of_month(days))) == 1:
        weekdays = False  # of months such as 2024-03, whose days are not known
    known = scale.model_dump(exclude={"kind", "filled", "remarks", "decimal"})
    filled = 1.0 + months + weekdays + hours
    parts = {"months": months, "weekdays": weekdays, "hours": hours}
    return Dates(**known, unit=unit, day_first=day_first, **parts, filled=filled, remarks=remarks)


def day_of_month(days: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the day of the month of each day that is not missing."""
    dates = pl.Series(days[~np.isnan(days)]).floor().cast(pl.Int32).cast(pl.Date)
    return dates.dt.day().cast(pl.Int64).to_numpy()


def fit_vectors(values: pl.Series, table: Table, standardise: bool) -> Vectors | LeftOut:
    """Return the scales of a column of lists of numbers."""
    lengths = (values.arr.to_list() if isinstance(values.dtype, pl.Array) else values).list.len().drop_nulls()
    missing = values.null_count()
    if lengths.is_empty() or lengths.max() == 0:
        return LeftOut(name=values.name, missing=missing, reason="empty")
    rows = as_vectors(values, table, int(lengths.mode().sort()[0]))
    places = [moments(np.sort(place[~np.isnan(place)].astype(np.float64))) for place in rows.T]
    means = tuple(mean for mean, _ in places)
    zeros, ones = (0.0,) * len(means), (1.0,) * len(means)
    return Vectors(
        name=values.name,
        missing=missing,
        offsets=means if standardise else zeros,
        scales=tuple(spread or 1.0 for _, spread in places) if standardise else ones,
        fills=means,
        filled=float(len(means)),
    )
