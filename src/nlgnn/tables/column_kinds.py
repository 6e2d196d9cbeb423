"""Kinds of feature columns: what is stored of a column when it is fitted, and the numbers that it becomes."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat
from scipy import sparse

from nlgnn.datasets.formats.common import one_hot
from nlgnn.tables.values import (
    OR_BLANK,
    Table,
    as_numbers,
    as_text,
    check_all_parsed,
    other_type,
    parsed_days,
    parsed_truths,
)

Block: TypeAlias = NDArray[np.float32] | sparse.csr_array
TEXT_SLOTS = 1024
TEXT_ROWS = 50_000  # hashed at once
MONTHS, WEEKDAYS = 12, 7


class Column(BaseModel):
    """A column of features as it was when the encoder was fitted.

    Args:
        name: The name of the column.
        missing: The number of cells without a value.
        filled: The mean number of non-zero numbers per row.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    missing: int = Field(ge=0)
    filled: FiniteFloat = 1.0

    @property
    def num_slots(self) -> int:
        """The number of features that the column becomes: by default a value, and a slot of missing if any was."""
        return 2 if self.missing else 1

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
    offset: FiniteFloat
    scale: FiniteFloat = Field(gt=0)
    fill: FiniteFloat

    def encode(self, values: pl.Series, table: Table) -> list[Block]:
        return self.blocks(as_numbers(values, table))

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
    """A column of categories: a slot per category, one for others, and one of missing if any was (else: others)."""

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
    """A column of dates: days as a number, and a slot per month and per weekday if they vary."""

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
    """A column of text: words are counted in the slot of their hash, and rows have length 1."""

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
    """A column of lists of equal length: each place is a column of numbers, and a missing list is all means."""

    kind: Literal["numbers"] = "numbers"
    offsets: tuple[FiniteFloat, ...]
    scales: tuple[Annotated[FiniteFloat, Field(gt=0)], ...]
    fills: tuple[FiniteFloat, ...]

    @property
    def num_slots(self) -> int:
        return len(self.offsets)

    def encode(self, values: pl.Series, table: Table) -> list[Block]:
        rows = as_vectors(values, table, len(self.offsets))
        np.copyto(rows, np.asarray(self.fills, np.float32), where=np.isnan(rows))
        rows -= np.asarray(self.offsets, np.float32)
        rows /= np.asarray(self.scales, np.float32)
        return [rows]


FeatureColumn = Annotated[Numbers | Truths | Categories | Dates | Texts | Vectors, Field(discriminator="kind")]


def calendar(days: pl.Series) -> list[tuple[NDArray[np.int64], int]]:
    """Return the month and the weekday of each day, from 0, -1 where missing, and the numbers of slots."""
    dates = days.floor().cast(pl.Int32).cast(pl.Date)
    parts = ((dates.dt.month(), MONTHS), (dates.dt.weekday(), WEEKDAYS))
    return [(part.cast(pl.Int64).fill_null(0).to_numpy() - 1, slots) for part, slots in parts]


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
