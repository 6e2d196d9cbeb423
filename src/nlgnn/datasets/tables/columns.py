"""The kinds of feature columns: what of a column is remembered when it is fitted, and the numbers that it becomes."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Literal, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat
from scipy import sparse

from nlgnn.datasets.tables.table import Table
from nlgnn.datasets.tables.values import (
    as_numbers,
    as_text,
    check_all_parsed,
    counted,
    other_type,
    parsed_days,
    parsed_truths,
)
from nlgnn.errors import DataError

Block: TypeAlias = NDArray[np.float32] | sparse.csr_array
TEXT_SLOTS = 1024
TEXT_ROWS = 50_000  # hashed at a time
MONTHS, WEEKDAYS = 12, 7


class Column(BaseModel):
    """A column of features, as it was when the encoder was fitted.

    Args:
        name: of the column.
        missing: cells without a value.
        filled: non-zero numbers a row, on average.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    missing: int = Field(ge=0)
    filled: FiniteFloat = 1.0

    @property
    @abstractmethod
    def num_slots(self) -> int: ...

    @abstractmethod
    def encode(self, values: pl.Series, table: Table) -> list[Block]:
        """Blocks of `num_slots` columns together, one row a node."""


class Numbers(Column):
    """One slot, `(value - offset) / scale`; a missing value is `fill`, and has a second slot if any was missing."""

    kind: Literal["number"] = "number"
    offset: FiniteFloat
    scale: FiniteFloat = Field(gt=0)
    fill: FiniteFloat

    @property
    def num_slots(self) -> int:
        return 2 if self.missing else 1

    def encode(self, values: pl.Series, table: Table) -> list[Block]:
        return self.blocks(as_numbers(values, table))

    def blocks(self, numbers: NDArray[np.float64]) -> list[Block]:
        is_missing = np.isnan(numbers)
        slot = (np.where(is_missing, self.fill, numbers) - self.offset) / self.scale
        # What is far from all that was seen at fit may leave single precision.
        block = np.clip(slot, -3e38, 3e38).astype(np.float32)[:, None]
        return [block, is_missing.astype(np.float32)[:, None]] if self.missing else [block]


class Truths(Column):
    """One slot of 0 and 1; missing is 0, and has a second slot if any was missing."""

    kind: Literal["boolean"] = "boolean"

    @property
    def num_slots(self) -> int:
        return 2 if self.missing else 1

    def encode(self, values: pl.Series, table: Table) -> list[Block]:
        truths = parsed_truths(values)
        check_all_parsed(values, truths, "true or false", table)
        block = truths.fill_null(False).cast(pl.Float32).to_numpy()[:, None]
        return [block, truths.is_null().cast(pl.Float32).to_numpy()[:, None]] if self.missing else [block]


class Categories(Column):
    """A slot for each category, one for all others, and one for missing if any was missing (else missing is other)."""

    kind: Literal["category"] = "category"
    categories: tuple[str, ...]

    @property
    def num_slots(self) -> int:
        return len(self.categories) + (2 if self.missing else 1)

    def encode(self, values: pl.Series, table: Table) -> list[Block]:
        if values.dtype.is_nested():
            raise other_type(table, values, "categories")
        text = as_text(values)
        numbers = {category: number for number, category in enumerate(self.categories)}
        codes = text.replace_strict(numbers, default=len(self.categories), return_dtype=pl.Int64).to_numpy(
            writable=True
        )
        if self.missing:
            codes[text.is_null().to_numpy()] = self.num_slots - 1
        return [one_hot(codes, self.num_slots)]


class Dates(Numbers):
    """Days as a number, then a slot for each month and each weekday where they vary."""

    kind: Literal["date"] = "date"  # type: ignore[assignment]
    months: bool
    weekdays: bool

    @property
    def num_slots(self) -> int:
        return super().num_slots + MONTHS * self.months + WEEKDAYS * self.weekdays

    def encode(self, values: pl.Series, table: Table) -> list[Block]:
        days = parsed_days(values)
        check_all_parsed(values, days, "a date such as 2024-12-31", table)
        blocks = self.blocks(days.fill_null(np.nan).to_numpy())
        for wanted, (codes, slots) in zip((self.months, self.weekdays), calendar(days), strict=True):
            if wanted:
                blocks.append(one_hot(codes, slots))
        return blocks


class Texts(Column):
    """A bag of words: each word is counted in one of so many slots, by its hash; rows have length 1."""

    kind: Literal["text"] = "text"
    slots: int = Field(default=TEXT_SLOTS, ge=1)

    @property
    def num_slots(self) -> int:
        return self.slots

    def encode(self, values: pl.Series, table: Table) -> list[Block]:
        from sklearn.feature_extraction.text import HashingVectorizer

        if values.dtype.is_nested():
            raise other_type(table, values, "text")
        words = HashingVectorizer(n_features=self.slots, token_pattern=r"(?u)\b\w+\b", norm="l2", dtype=np.float32)
        text = as_text(values).fill_null("")
        parts = [words.transform(text[i : i + TEXT_ROWS].to_list()) for i in range(0, len(text), TEXT_ROWS)]
        return [sparse.csr_array(sparse.vstack(parts, format="csr"))]


class Vectors(Column):
    """Lists of so many numbers, each place of the list as a column of numbers; a missing list is all means."""

    kind: Literal["numbers"] = "numbers"
    offsets: tuple[FiniteFloat, ...]
    scales: tuple[Annotated[FiniteFloat, Field(gt=0)], ...]
    fills: tuple[FiniteFloat, ...]

    @property
    def num_slots(self) -> int:
        return len(self.offsets)

    def encode(self, values: pl.Series, table: Table) -> list[Block]:
        rows = as_vectors(values, table, len(self.offsets))
        for slot in range(len(self.offsets)):
            column = rows[:, slot]
            column[np.isnan(column)] = self.fills[slot]
            column -= np.float32(self.offsets[slot])
            column /= np.float32(self.scales[slot])
        return [rows]


FeatureColumn = Annotated[Numbers | Truths | Categories | Dates | Texts | Vectors, Field(discriminator="kind")]


def one_hot(codes: NDArray[np.int64], slots: int) -> sparse.csr_array:
    """A 1 in the slot of each row's code; nothing where the code is negative."""
    has_one = codes >= 0
    ends = np.concatenate([[0], np.cumsum(has_one)])
    return sparse.csr_array((np.ones(ends[-1], np.float32), codes[has_one], ends), shape=(len(codes), slots))


def calendar(days: pl.Series) -> list[tuple[NDArray[np.int64], int]]:
    """The month and the weekday of each day, from 0, -1 where missing; and how many of them there are."""
    dates = days.floor().cast(pl.Int32).cast(pl.Date)
    parts = ((dates.dt.month(), MONTHS), (dates.dt.weekday(), WEEKDAYS))
    return [(part.cast(pl.Int64).fill_null(0).to_numpy() - 1, slots) for part, slots in parts]


def as_vectors(values: pl.Series, table: Table, length: int) -> NDArray[np.float32]:
    """Lists as rows, NaN where one is missing; an error for the first that is of another length or not all finite."""
    if isinstance(values.dtype, pl.Array):
        values = values.arr.to_list()
    if not isinstance(values.dtype, pl.List) or not values.dtype.inner.is_numeric():
        raise other_type(table, values, f"lists of {length} numbers")
    wrong = values.list.len().ne(length).fill_null(False).arg_true()
    if len(wrong):
        row = int(wrong[0])
        raise DataError(
            f"{table.place(row, values.name)} has {len(values[row])} numbers instead of {length}.",
            "Give lists of one length, or leave the cell blank for a missing value.",
        )
    present = values.is_not_null().to_numpy()
    rows = np.full((len(values), length), np.nan, np.float32)
    with np.errstate(over="ignore"):
        flat = values.drop_nulls().explode(empty_as_null=False).cast(pl.Float64).to_numpy()
        rows[present] = flat.reshape(-1, length)
    wrong_rows = np.flatnonzero(present & ~np.isfinite(rows).all(axis=1))
    if len(wrong_rows):
        raise DataError(
            f"{table.place(int(wrong_rows[0]), values.name)} holds a value that is missing or no finite number of "
            f"single precision ({counted(len(wrong_rows), 'cell')}).",
            "Mend the list, or leave the cell blank for a missing value.",
        )
    return rows
