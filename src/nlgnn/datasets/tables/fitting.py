"""Of what kind a column is, and what of it is kept: decided on the nodes at hand, without a look at labels."""

from __future__ import annotations

import re
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from nlgnn.datasets.tables.columns import (
    Categories,
    Dates,
    FeatureColumn,
    Numbers,
    Texts,
    Truths,
    Vectors,
    as_vectors,
    calendar,
)
from nlgnn.datasets.tables.table import Table
from nlgnn.datasets.tables.values import (
    all_parsed,
    as_numbers,
    as_text,
    parsed_days,
    parsed_numbers,
    parsed_truths,
    simplified,
)

MOST_CATEGORIES = 100  # with a slot of their own
MANY_VALUES = 1000  # from here on text is hashed instead
FEW_VALUES = 20
LONG_TEXT, MANY_WORDS = 50, 4  # characters and words, on average
MOSTLY = 0.95  # of the cells are numbers: the others are taken for mistakes
KEY_NAME = re.compile(r"(^|[_\W])(id|ids|uid|uuid|guid|key|index|idx|rowid)$", re.IGNORECASE)
COUNTER_LENGTH = 20  # rows from which 1, 2, 3, … is taken for a counter

Reason = Literal["empty", "constant", "key", "type"]
REASONS = {
    "empty": "no values",
    "constant": "one value only",
    "key": "all values different, like a key",
    "type": "neither numbers, text, dates, true or false, nor lists of numbers of one length",
}


class LeftOut(BaseModel):
    """A column that does not become a feature, and why."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    missing: int
    reason: Reason


def fit_column(values: pl.Series, table: Table, standardise: bool) -> FeatureColumn | LeftOut:
    """What the column is. With `standardise=False` numbers stay as they are, and constant ones are kept too."""
    values = simplified(values)
    kind = values.dtype
    if isinstance(kind, (pl.List, pl.Array)) and kind.inner.is_numeric():
        return fit_vectors(values, table, standardise)
    if kind.is_nested() or kind in (pl.Binary, pl.Object):
        return LeftOut(name=values.name, missing=values.null_count(), reason="type")
    if kind.is_numeric():
        return fit_numbers(values, table, standardise)
    if kind == pl.Boolean:
        return fit_truths(values)
    if kind.is_temporal():
        return fit_dates(values, parsed_days(values))
    numbers = parsed_numbers(values)
    if all_parsed(values, numbers) and numbers.null_count() < len(numbers):
        return fit_numbers(values, table, standardise)
    return fit_text(as_text(values), table, standardise)


def fit_text(text: pl.Series, table: Table, standardise: bool) -> FeatureColumn | LeftOut:
    """Text may be numbers, truths or dates that a text file could not mark as such."""
    name, missing, present = text.name, text.null_count(), text.drop_nulls()
    if present.is_empty():
        return LeftOut(name=name, missing=missing, reason="empty")
    numbers = parsed_numbers(present)
    num_numbers = len(numbers) - numbers.null_count()
    looks_numeric = num_numbers >= MOSTLY * len(present) and numbers.n_unique() > FEW_VALUES
    if num_numbers == len(present) or looks_numeric:
        return fit_numbers(text, table, standardise)
    if not parsed_truths(present).has_nulls():
        return fit_truths(text)
    if not parsed_days(present).has_nulls():
        return fit_dates(text, parsed_days(text))
    distinct = present.n_unique()
    if distinct == 1 and not missing:
        return LeftOut(name=name, missing=0, reason="constant")
    words = float(present.str.count_matches(r"\w+").mean())  # type: ignore[arg-type]
    length = float(present.str.len_chars().mean())  # type: ignore[arg-type]
    is_prose = (length > LONG_TEXT or words > MANY_WORDS) and distinct > FEW_VALUES
    if distinct == len(present) and distinct > 1 and not is_prose:
        return LeftOut(name=name, missing=missing, reason="key")
    if is_prose or distinct > MANY_VALUES:
        return Texts(name=name, missing=missing, filled=words * len(present) / len(text))
    counts = present.value_counts(name="count").sort("count", name, descending=[True, False])
    return Categories(name=name, missing=missing, categories=tuple(counts[name].head(MOST_CATEGORIES)))


def fit_numbers(values: pl.Series, table: Table, standardise: bool) -> Numbers | LeftOut:
    numbers = as_numbers(values, table)
    present = np.sort(numbers[~np.isnan(numbers)])  # sorted: sums are then the same for every order of the rows
    missing = len(numbers) - len(present)
    if len(present) == 0:
        return LeftOut(name=values.name, missing=missing, reason="empty")
    mean, spread = moments(present)
    if not standardise:
        filled = float(np.count_nonzero(present)) / len(numbers)
        return Numbers(name=values.name, missing=missing, offset=0.0, scale=1.0, fill=mean, filled=filled)
    if spread == 0 and not missing:
        return LeftOut(name=values.name, missing=0, reason="constant")
    if is_key(values.name, present) and not values.dtype.is_float():
        return LeftOut(name=values.name, missing=missing, reason="key")
    return Numbers(name=values.name, missing=missing, offset=mean, scale=spread or 1.0, fill=mean)


def moments(ordered: NDArray[np.float64]) -> tuple[float, float]:
    """Mean and standard deviation; a spread that rounding could have made is none."""
    largest = max(abs(ordered[0]), abs(ordered[-1])) or 1.0
    spread = float((ordered / largest).std())  # divided, since squares of very small numbers are 0
    if ordered[0] == ordered[-1] or spread <= 1e-15:
        return float(ordered[len(ordered) // 2]), 0.0
    return float(ordered.mean()), spread * float(largest)


def is_key(name: str, ordered: NDArray[np.float64]) -> bool:
    """Whole numbers, all different, that either count the rows or are called an id."""
    if (ordered[1:] == ordered[:-1]).any() or (ordered != np.floor(ordered)).any() or len(ordered) < 2:
        return False
    counts_rows = len(ordered) >= COUNTER_LENGTH and ordered[-1] - ordered[0] == len(ordered) - 1
    return bool(counts_rows or KEY_NAME.search(name))


def fit_truths(values: pl.Series) -> Truths | LeftOut:
    truths = parsed_truths(values)
    missing, true = truths.null_count(), int(truths.sum())
    if missing == len(truths):
        return LeftOut(name=values.name, missing=missing, reason="empty")
    if not missing and true in (0, len(truths)):
        return LeftOut(name=values.name, missing=0, reason="constant")
    return Truths(name=values.name, missing=missing, filled=(true + missing) / len(truths))


def fit_dates(values: pl.Series, days: pl.Series) -> Dates | LeftOut:
    present = np.sort(days.drop_nulls().to_numpy())
    missing = len(days) - len(present)
    if len(present) == 0:
        return LeftOut(name=values.name, missing=missing, reason="empty")
    mean, spread = moments(present)
    if spread == 0 and not missing:
        return LeftOut(name=values.name, missing=0, reason="constant")
    varying = [len(np.unique(codes[codes >= 0])) > 1 for codes, _ in calendar(days)]
    return Dates(
        name=values.name,
        missing=missing,
        offset=mean,
        scale=spread or 1.0,
        fill=mean,
        months=varying[0],
        weekdays=varying[1],
        filled=1.0 + sum(varying),
    )


def fit_vectors(values: pl.Series, table: Table, standardise: bool) -> Vectors | LeftOut:
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
