"""FeatureEncoder: the conversion of table columns to numbers, fitted once and saved as JSON."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError
from scipy import sparse

from nlgnn.datasets.formats.common import SPARSE_BELOW
from nlgnn.errors import DataError
from nlgnn.graph.audit import listed
from nlgnn.tables.column_kinds import FeatureColumn, LeftOut, Reason
from nlgnn.tables.detection import REASONS, Kind, fit_column
from nlgnn.tables.table_files import read_table
from nlgnn.tables.values import Table

Row: TypeAlias = dict[str, str | int]
FORMAT_VERSION: Literal[2] = 2


class FeatureEncoder(BaseModel):
    """The features that every column becomes. They depend neither on labels nor on the order of rows.

    Args:
        format_version: The version of the JSON format. Other versions are refused.
        columns: The columns that become features, in the order of their slots.
        left_out: The columns that do not, with the reasons.
        is_sparse: Whether the features are a sparse matrix.
        structural: Whether the columns are not in the table but computed from the edges.
        row_norm: The length that rows have on average, if numbers are standardised: `Graph.row_norm`.

    Example:
        >>> import polars as pl
        >>> from nlgnn.tables.encoder import FeatureEncoder
        >>> encoder = FeatureEncoder.fit(pl.DataFrame({"size": [1.0, 3.0], "kind": ["a", "a"]}))
        >>> encoder.transform(pl.DataFrame({"size": [2.0]})).tolist()
        [[0.0]]
        >>> [column.reason for column in encoder.left_out]
        ['constant']
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    format_version: Literal[2] = FORMAT_VERSION
    columns: tuple[FeatureColumn, ...]
    left_out: tuple[LeftOut, ...] = ()
    is_sparse: bool = False
    structural: bool = False
    row_norm: float | None = None

    @classmethod
    def fit(
        cls,
        table: object,
        columns: Sequence[str] | None = None,
        *,
        kinds: Mapping[str, Kind] | None = None,
        standardise: bool = True,
        structural: bool = False,
    ) -> FeatureEncoder:
        """Fit an encoder.

        Args:
            table: The path of a table, or a data frame.
            columns: The columns that may become features; by default all of them.
            kinds: The kinds of some columns, which are otherwise found from their values. Columns of the kind "ignore"
                are left out.
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
        found: list[FeatureColumn | LeftOut] = []
        for name in names:
            kind = (kinds or {}).get(name)
            dropped = kind == "ignore"  # such a column is not even read
            found.append(
                LeftOut(name=name, missing=0, reason="dropped")
                if dropped
                else fit_column(table.column(name), table, standardise, kind)
            )
        kept = tuple(column for column in found if not isinstance(column, LeftOut))
        left_out = tuple(column for column in found if isinstance(column, LeftOut))
        return cls(
            columns=kept,
            left_out=left_out,
            is_sparse=mostly_zeros(kept),
            structural=structural,
            row_norm=mean_length(kept) if standardise else None,
        )

    def without(self, names: Collection[str], reason: Reason) -> FeatureEncoder:
        """Return the encoder without some of its columns, which are listed as left out."""
        gone = [column for column in self.columns if column.name in names]
        left_out = [LeftOut(name=column.name, missing=column.missing, reason=reason) for column in gone]
        kept = tuple(column for column in self.columns if column.name not in names)
        row_norm = None if self.row_norm is None else mean_length(kept)
        changes = {"columns": kept, "left_out": (*self.left_out, *left_out), "is_sparse": mostly_zeros(kept)}
        return self.model_copy(update={**changes, "row_norm": row_norm})

    @property
    def num_slots(self) -> int:
        """The number of features."""
        return sum(column.num_slots for column in self.columns)

    @property
    def slots(self) -> dict[str, slice]:
        """The features of each column."""
        ends = np.cumsum([0, *(column.num_slots for column in self.columns)]).tolist()
        return {column.name: slice(*part) for column, part in zip(self.columns, pairwise(ends), strict=True)}

    @property
    def slot_names(self) -> list[str]:
        """The name of each feature, such as `kind = a` for a category."""
        return [name for column in self.columns for name in column.slot_names]

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

    def describe(self) -> list[Row]:
        """Return rows for a report: column, kind, slots, missing values and remarks."""
        rows: list[Row] = []
        for column in (*self.columns, *self.left_out):
            kind, slots, remarks = "–", 0, column.remarks
            if not isinstance(column, LeftOut):
                kind, slots = column.kind, column.num_slots
            elif column.reason == "dropped":
                kind = "dropped"
            else:
                remarks = (f"left out: {REASONS[column.reason]}", *remarks)
            remark = "; ".join(remarks)
            rows.append(
                {"column": column.name, "kind": kind, "slots": slots, "missing": column.missing, "remark": remark}
            )
        return rows

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
            if first["loc"] == ("format_version",):
                raise DataError(
                    f"The features were made by another version of nlgnn (format_version is not {FORMAT_VERSION}).",
                    "Train again, or use the version that trained.",
                ) from error
            where = ".".join(map(str, first["loc"]))
            raise DataError(
                f"The feature encoder cannot be read: {first['msg']}{f' ({where})' if where else ''}.",
                "It is damaged: train again.",
            ) from error


def mostly_zeros(columns: Sequence[FeatureColumn]) -> bool:
    """Return whether so few features are not zero that a sparse matrix is better."""
    return sum(column.filled for column in columns) < SPARSE_BELOW * sum(column.num_slots for column in columns)


def mean_length(columns: Sequence[FeatureColumn]) -> float:
    """Return the root of the mean squared length of rows, at least 1, if columns are standardised."""
    return math.sqrt(max(1.0, sum(column.squared_length for column in columns)))
