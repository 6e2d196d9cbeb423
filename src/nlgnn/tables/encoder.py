"""FeatureEncoder: the conversion of table columns to numbers, fitted once and saved as JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError
from scipy import sparse

from nlgnn.datasets.formats.common import SPARSE_BELOW
from nlgnn.errors import DataError
from nlgnn.graph.audit import listed
from nlgnn.tables.column_kinds import (
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
from nlgnn.tables.table_files import read_table
from nlgnn.tables.values import (
    Table,
    all_parsed,
    as_numbers,
    as_text,
    parsed_days,
    parsed_numbers,
    parsed_truths,
    simplified,
)

MOST_CATEGORIES = 100  # with their own slot
MANY_VALUES = 1000  # from this number on, text is hashed
FEW_VALUES = 20
LONG_TEXT, MANY_WORDS = 50, 4  # mean number of characters and words
MOSTLY = 0.95  # if this share of cells are numbers, the others are faults
KEY_NAME = re.compile(r"(^|[_\W])(id|ids|uid|uuid|guid|key|index|idx|rowid)$", re.IGNORECASE)
COUNTER_LENGTH = 20  # number of rows from which 1, 2, 3, … is a counter

Reason = Literal["empty", "constant", "key", "type"]
REASONS = {
    "empty": "no values",
    "constant": "one value only",
    "key": "all values different, like a key",
    "type": "neither numbers, text, dates, true or false, nor lists of numbers of one length",
}


class LeftOut(BaseModel):
    """A column that does not become a feature, with the reason."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    missing: int
    reason: Reason


class FeatureEncoder(BaseModel):
    """The features that every column becomes. They depend neither on labels nor on the order of rows.

    Args:
        format_version: The version of the JSON format. A later one is refused.
        columns: The columns that become features, in the order of their slots.
        left_out: The columns that do not, with the reasons.
        is_sparse: Whether the features are a sparse matrix.
        structural: Whether the columns are not in the table but computed from the edges.

    Example:
        >>> encoder = FeatureEncoder.fit(pl.DataFrame({"size": [1.0, 3.0], "kind": ["a", "a"]}))
        >>> encoder.transform(pl.DataFrame({"size": [2.0]})).tolist()
        [[0.0]]
        >>> [column.reason for column in encoder.left_out]
        ['constant']
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    format_version: Literal[1] = 1
    columns: tuple[FeatureColumn, ...]
    left_out: tuple[LeftOut, ...] = ()
    is_sparse: bool = False
    structural: bool = False

    @classmethod
    def fit(
        cls, table: object, columns: Sequence[str] | None = None, *, standardise: bool = True, structural: bool = False
    ) -> FeatureEncoder:
        """Fit an encoder.

        Args:
            table: The path of a table, or a data frame.
            columns: The columns that may become features; by default all of them.
            standardise: Scale numbers to mean 0 and standard deviation 1. Otherwise they are not changed, and constant
                columns and counters are kept, which suits features that are already prepared.
            structural: Whether the columns were computed from the edges.

        Returns:
            The encoder.

        Raises:
            DataError: If a cell cannot be used, such as an infinite number.
        """
        table = read_table(table)
        names = table.columns if columns is None else columns
        found = [fit_column(table.column(name), table, standardise) for name in names]
        kept = tuple(column for column in found if not isinstance(column, LeftOut))
        filled, slots = sum(column.filled for column in kept), sum(column.num_slots for column in kept)
        return cls(
            columns=kept,
            left_out=tuple(column for column in found if isinstance(column, LeftOut)),
            is_sparse=filled < SPARSE_BELOW * slots,
            structural=structural,
        )

    @property
    def num_slots(self) -> int:
        """The number of features."""
        return sum(column.num_slots for column in self.columns)

    @property
    def slots(self) -> dict[str, slice]:
        """The features of each column."""
        ends = np.cumsum([0, *(column.num_slots for column in self.columns)]).tolist()
        return {column.name: slice(*part) for column, part in zip(self.columns, pairwise(ends), strict=True)}

    def transform(self, table: object) -> NDArray[np.float32] | sparse.csr_array:
        """Return the features of a table (a path or a data frame), one row per row."""
        table = read_table(table)
        self.require(table)
        blocks = (block for column in self.columns for block in column.encode(table.column(column.name), table))
        if self.is_sparse:
            return sparse.csr_array(sparse.hstack([sparse.csr_array(block) for block in blocks], format="csr"))
        x = np.zeros((table.num_rows + table.added_rows, self.num_slots), np.float32)
        start = 0
        for block in blocks:
            if isinstance(block, sparse.csr_array):
                rows = np.repeat(np.arange(len(x)), np.diff(block.indptr))
                x[rows, start + block.indices] = block.data
            else:
                x[:, start : start + block.shape[1]] = block
            start += block.shape[1]
        return x

    def require(self, table: Table) -> None:
        """Raise an error unless a table has the columns of the features."""
        present = set(table.columns)
        absent = [column.name for column in self.columns if column.name not in present]
        if absent:
            raise DataError(
                f"{table.source} lacks {'columns' if len(absent) > 1 else 'the column'} "
                f"{listed(map(repr, absent))}, from which features were made at training.",
                "Add them, with blank cells for missing values.",
            )

    def describe(self) -> list[dict[str, str | int]]:
        """Return rows for a report: column, kind, slots and missing values."""
        kept = [(column, column.kind, column.num_slots) for column in self.columns]
        left_out = [(column, f"left out: {REASONS[column.reason]}", 0) for column in self.left_out]
        return [
            {"column": column.name, "kind": kind, "slots": slots, "missing": column.missing}
            for column, kind, slots in (*kept, *left_out)
        ]

    def to_json(self) -> str:
        """Return the encoder as JSON."""
        return self.model_dump_json(indent=1)

    @classmethod
    def from_json(cls, text: str) -> FeatureEncoder:
        """Return the encoder that `to_json` wrote."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise DataError(
                f"The feature encoder cannot be read: {first['msg']}{f' ({where})' if where else ''}.",
                "It is damaged or was written by a later version: update nlgnn, or train again.",
            ) from error


def fit_column(values: pl.Series, table: Table, standardise: bool) -> FeatureColumn | LeftOut:
    """Return the kind of a column, or why it is left out. Without `standardise` numbers are not changed."""
    values = simplified(values)
    kind = values.dtype
    if isinstance(kind, (pl.List, pl.Array)) and kind.inner.is_numeric():
        return fit_vectors(values, table, standardise)
    if kind.is_nested() or kind in (pl.Binary, pl.Object):
        return LeftOut(name=values.name, missing=values.null_count(), reason="type")
    if kind.is_numeric():
        return fit_numbers(values, table, standardise)
    if kind == pl.Boolean:
        return fit_truths(values, table)
    if kind.is_temporal():
        return fit_dates(values, table)
    if all_parsed(values, parsed_numbers(values)):
        return fit_numbers(values, table, standardise)
    return fit_text(as_text(values), table, standardise)


def fit_text(text: pl.Series, table: Table, standardise: bool) -> FeatureColumn | LeftOut:
    """Return the kind of a column of text, which may hold numbers, truth values or dates."""
    name, missing, present = text.name, text.null_count(), text.drop_nulls()
    numbers = parsed_numbers(present)
    num_numbers = len(numbers) - numbers.null_count()
    looks_numeric = num_numbers >= MOSTLY * len(present) and numbers.n_unique() > FEW_VALUES
    if num_numbers == len(present) or looks_numeric:
        return fit_numbers(text, table, standardise)
    if not parsed_truths(present).has_nulls():
        return fit_truths(text, table)
    if not parsed_days(present).has_nulls():
        return fit_dates(text, table)
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
    """Return the scale of a column of numbers."""
    numbers = as_numbers(values, table)
    present = np.sort(numbers[~np.isnan(numbers)])  # sorted, so that sums do not depend on the order of rows
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


def fit_dates(values: pl.Series, table: Table) -> Dates | LeftOut:
    """Return the scale of a column of dates, and whether months and weekdays vary."""
    days = parsed_days(values).alias(values.name)
    found = fit_numbers(days, table, standardise=True)
    if isinstance(found, LeftOut):
        return found
    months, weekdays = (len(np.unique(codes[codes >= 0])) > 1 for codes, _ in calendar(days))
    scale = found.model_dump(exclude={"kind", "filled"})
    return Dates(**scale, months=months, weekdays=weekdays, filled=1.0 + months + weekdays)


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
