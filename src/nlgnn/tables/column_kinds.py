"""Kinds of feature columns: what is stored of a column when it is fitted, and the numbers that it becomes."""

from __future__ import annotations

from abc import abstractmethod
from calendar import day_name, month_name
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat
from scipy import sparse

from nlgnn.datasets.formats.common import binary_rows, one_hot
from nlgnn.tables.date_format import Unit, as_days, days_of
from nlgnn.tables.number_format import DecimalMark, as_numbers
from nlgnn.tables.values import (
    OR_BLANK,
    Table,
    as_text,
    by_distinct,
    check_all_parsed,
    other_type,
    parsed_truths,
    simplified,
)

Block: TypeAlias = NDArray[np.float32] | sparse.csr_array
TEXT_SLOTS = 1024
TEXT_ROWS = 50_000  # hashed at once
MONTHS, WEEKDAYS, HOURS = 12, 7, 24
Reason = Literal["empty", "constant", "key", "type", "dropped", "leak"]
WORD = r"\w+"
INVISIBLE = "[\u00ad\u200b-\u200d\u2060\ufeff]"
AROUND_ITEMS = " \t\"'[]{}"


class Column(BaseModel):
    """A column of features as it was when the encoder was fitted.

    Args:
        name: The name of the column.
        missing: The number of cells without a value.
        filled: The mean number of non-zero numbers per row.
        remarks: Decisions that people should know.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    missing: int = Field(ge=0)
    filled: FiniteFloat = 1.0
    remarks: tuple[str, ...] = ()

    @property
    def num_slots(self) -> int:
        """The number of features that the column becomes."""
        return len(self.slot_names)

    @property
    def slot_names(self) -> list[str]:
        """The name of each feature: by default the column, and "… is missing" if a value was."""
        return [self.name, *self.missing_names]

    @property
    def missing_names(self) -> list[str]:
        """The name of the slot of missing values, if there is one."""
        return [f"{self.name} is missing"] if self.missing else []

    @property
    def squared_length(self) -> float:
        """The mean of the squared length of rows, if numbers are standardised."""
        return self.filled

    @abstractmethod
    def encode(self, values: pl.Series, table: Table) -> list[Block]:
        """Return blocks with one row per node, which together have `num_slots` columns."""

    def with_missing(self, slot: NDArray[Any], is_missing: NDArray[np.bool_]) -> list[Block]:
        """Return the block of a slot, and that of missing values if there were any at fit."""
        slots = (slot, is_missing) if self.missing else (slot,)
        return [values.astype(np.float32)[:, None] for values in slots]


class Numbers(Column):
    """A column of numbers: a slot `(value - offset) / scale`, `fill` if missing, and a slot of missing if any was."""

    kind: Literal["number"] = "number"
    decimal: DecimalMark = "."
    offset: FiniteFloat
    scale: FiniteFloat = Field(gt=0)
    fill: FiniteFloat

    def encode(self, values: pl.Series, table: Table) -> list[Block]:
        return self.blocks(self.numbers(values, table))

    def numbers(self, values: pl.Series, table: Table) -> NDArray[np.float64]:
        """Return the numbers of cells, NaN where missing."""
        return as_numbers(values, table, self.decimal)

    def blocks(self, numbers: NDArray[np.float64]) -> list[Block]:
        """Return the slots of numbers, NaN where missing."""
        is_missing = np.isnan(numbers)
        slot = (np.where(is_missing, self.fill, numbers) - self.offset) / self.scale
        # Values far from those of the fit may exceed single precision.
        return self.with_missing(np.clip(slot, -3e38, 3e38), is_missing)


class Truths(Column):
    """A column of truth values: a slot of 0 and 1, 0 if missing, and a slot of missing if any was."""

    kind: Literal["boolean"] = "boolean"

    def encode(self, values: pl.Series, table: Table) -> list[Block]:
        truths = parsed_truths(values)
        check_all_parsed(values, truths, "true or false", table)
        return self.with_missing(truths.fill_null(False).to_numpy(), truths.is_null().to_numpy())


class Categories(Column):
    """A column of categories: a slot per category, one for others, and one of missing if any was (else: others).

    Categories that differ only in case and blanks are one, which has the name of the most frequent spelling.
    """

    kind: Literal["category"] = "category"
    categories: tuple[str, ...]

    @property
    def slot_names(self) -> list[str]:
        return [*(f"{self.name} = {value}" for value in self.categories), f"{self.name}: other", *self.missing_names]

    def encode(self, values: pl.Series, table: Table) -> list[Block]:
        if values.dtype.is_nested():
            raise other_type(table, values, "categories")
        codes = category_codes(as_text(values), self.categories).to_numpy(writable=True)
        codes[np.isnan(codes)] = self.num_slots - 1
        return [one_hot(codes.astype(np.int64), self.num_slots)]


class Lists(Column):
    """A column of lists, such as a;b;c: a slot per item, one for other items, and one of missing if any was."""

    kind: Literal["list"] = "list"
    separator: str
    items: tuple[str, ...]

    @property
    def slot_names(self) -> list[str]:
        return [*(f"{self.name}: {item}" for item in self.items), f"{self.name}: other item", *self.missing_names]

    def encode(self, values: pl.Series, table: Table) -> list[Block]:
        found = items_of(values, self.separator)
        codes = category_codes(found.get_column("item"), self.items).to_numpy().astype(np.int64)
        rows = found.get_column("row").to_numpy()
        if self.missing:
            missing = np.setdiff1d(np.arange(len(values)), rows)
            rows, codes = np.append(rows, missing), np.append(codes, np.full(len(missing), self.num_slots - 1))
        return [binary_rows(rows, codes, (len(values), self.num_slots))]


class Dates(Numbers):
    """A column of dates: days as a number, and a slot per month, weekday and hour if they vary."""

    kind: Literal["date"] = "date"  # type: ignore[assignment]
    unit: Unit = "text"
    day_first: bool = True
    months: bool
    weekdays: bool
    hours: bool = False

    @property
    def slot_names(self) -> list[str]:
        months = [f"{self.name} in {month}" for month in month_name[1:]] if self.months else []
        weekdays = [f"{self.name} on a {day}" for day in day_name] if self.weekdays else []
        hours = [f"{self.name} at {hour}:00" for hour in range(HOURS)] if self.hours else []
        return [*super().slot_names, *months, *weekdays, *hours]

    def numbers(self, values: pl.Series, table: Table) -> NDArray[np.float64]:
        """Return days since 1970, NaN where missing."""
        if self.unit == "text" or simplified(values).dtype.is_temporal():
            return as_days(values, table, self.day_first)
        return days_of(as_numbers(values, table), self.unit)

    def encode(self, values: pl.Series, table: Table) -> list[Block]:
        days = self.numbers(values, table)
        blocks = self.blocks(days)
        for wanted, (codes, slots) in zip((self.months, self.weekdays, self.hours), calendar(days), strict=True):
            if wanted:
                blocks.append(one_hot(codes, slots))
        return blocks


class Texts(Column):
    """A column of text: words are counted, and rows have length 1.

    Args:
        vocabulary: The words that have a slot of their own; other words are ignored. If it is empty, a word is counted
            in the slot of its hash.
        slots: The number of slots of hashed words.
    """

    kind: Literal["text"] = "text"
    vocabulary: tuple[str, ...] = ()
    slots: int = Field(default=TEXT_SLOTS, ge=1)

    @property
    def slot_names(self) -> list[str]:
        words = self.vocabulary or [f"word group {number}" for number in range(1, self.slots + 1)]
        return [f"{self.name}: {word}" for word in words]

    @property
    def squared_length(self) -> float:
        return 1.0

    def encode(self, values: pl.Series, table: Table) -> list[Block]:
        from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
        from sklearn.preprocessing import normalize

        if values.dtype.is_nested():
            raise other_type(table, values, "text")
        pattern: dict[str, Any] = {"token_pattern": rf"(?u)\b{WORD}\b", "dtype": np.float32}
        if self.vocabulary:
            words = CountVectorizer(vocabulary=self.vocabulary, **pattern)
        else:
            words = HashingVectorizer(n_features=self.slots, norm=None, **pattern)
        text = as_text(values).fill_null("")
        parts = [words.transform(text[i : i + TEXT_ROWS].to_list()) for i in range(0, len(text), TEXT_ROWS)]
        return [sparse.csr_array(normalize(sparse.vstack(parts, format="csr"), copy=False))]


class Vectors(Column):
    """A column of lists of equal length: each place is a column of numbers, and a missing list is all means."""

    kind: Literal["numbers"] = "numbers"
    offsets: tuple[FiniteFloat, ...]
    scales: tuple[Annotated[FiniteFloat, Field(gt=0)], ...]
    fills: tuple[FiniteFloat, ...]

    @property
    def slot_names(self) -> list[str]:
        return [f"{self.name}[{place}]" for place in range(len(self.offsets))]

    def encode(self, values: pl.Series, table: Table) -> list[Block]:
        rows = as_vectors(values, table, len(self.offsets))
        np.copyto(rows, np.asarray(self.fills, np.float32), where=np.isnan(rows))
        rows -= np.asarray(self.offsets, np.float32)
        rows /= np.asarray(self.scales, np.float32)
        return [rows]


class LeftOut(BaseModel):
    """A column that does not become a feature, with the reason."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    missing: int
    reason: Reason
    remarks: tuple[str, ...] = ()


FeatureColumn = Annotated[Numbers | Truths | Categories | Lists | Dates | Texts | Vectors, Field(discriminator="kind")]


def calendar(days: NDArray[np.float64]) -> list[tuple[NDArray[np.int64], int]]:
    """Return month, weekday and hour of each day, from 0, -1 where missing, and the numbers of slots."""
    moments = pl.Series(days).fill_nan(None)
    dates = moments.floor().cast(pl.Int32).cast(pl.Date)
    hours = ((moments - moments.floor()) * HOURS + 1e-6).floor().clip(0, HOURS - 1) + 1
    parts = ((dates.dt.month(), MONTHS), (dates.dt.weekday(), WEEKDAYS), (hours, HOURS))
    return [(part.cast(pl.Int64).fill_null(0).to_numpy() - 1, slots) for part, slots in parts]


def category_keys(text: pl.Series) -> pl.Series:
    """Return text without differences of case, blanks, invisible characters and forms of one character.

    Example:
        >>> category_keys(pl.Series([" Pro", "pro", "PRO "])).to_list()
        ['pro', 'pro', 'pro']
    """
    text = text.str.normalize("NFKC").str.replace_all(INVISIBLE, "")
    return text.str.replace_all(r"\s+", " ").str.strip_chars().str.to_lowercase()


def category_codes(text: pl.Series, categories: tuple[str, ...]) -> pl.Series:
    """Return the number of the category of each cell; null where missing, and the number of categories for others."""
    numbers = dict(zip(category_keys(pl.Series(categories, dtype=pl.String)), range(len(categories)), strict=True))

    def codes(cells: pl.Series) -> pl.Series:
        found = category_keys(cells).replace_strict(numbers, default=len(categories), return_dtype=pl.Float64)
        return pl.select(pl.when(cells.is_not_null()).then(found)).to_series()

    return by_distinct(text, codes)


def items_of(values: pl.Series, separator: str) -> pl.DataFrame:
    """Return the items of lists with the numbers of their rows, without blank ones."""
    values = simplified(values)
    lists = values.cast(pl.List(pl.String)) if values.dtype.is_nested() else as_text(values).str.split(separator)
    frame = pl.DataFrame({"row": pl.int_range(len(values), dtype=pl.Int64, eager=True), "item": lists})
    frame = frame.explode("item").with_columns(pl.col("item").str.strip_chars(AROUND_ITEMS))
    return frame.filter(pl.col("item").is_not_null() & (pl.col("item") != ""))


def as_vectors(values: pl.Series, table: Table, length: int) -> NDArray[np.float32]:
    """Return lists as rows, NaN where missing, and raise an error for a list of another length or with NaN inside."""
    if isinstance(values.dtype, pl.Array):
        values = values.arr.to_list()
    if not isinstance(values.dtype, pl.List) or not values.dtype.inner.is_numeric():
        raise other_type(table, values, f"lists of {length} numbers")
    wrong = values.list.len().ne(length).fill_null(False).arg_true()
    if len(wrong):
        what = f"has {len(values[int(wrong[0])])} numbers instead of {length}"
        raise table.fault(wrong, values.name, what, f"Give lists of one length, {OR_BLANK}")
    present = values.is_not_null().to_numpy()
    rows = np.full((len(values), length), np.nan, np.float32)
    with np.errstate(over="ignore"):
        flat = values.drop_nulls().explode(empty_as_null=False).cast(pl.Float64).to_numpy()
        rows[present] = flat.reshape(-1, length)
    wrong_rows = np.flatnonzero(present & ~np.isfinite(rows).all(axis=1))
    if len(wrong_rows):
        what = "holds a value that is missing or no finite number of single precision"
        raise table.fault(wrong_rows, values.name, what, f"Correct the list, {OR_BLANK}")
    return rows
