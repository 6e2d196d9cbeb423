"""FeatureEncoder: from the columns of a table to numbers, fitted once, kept as JSON, applied unchanged ever after."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError
from scipy import sparse

from nlgnn.datasets.readers.reading import SPARSE_BELOW
from nlgnn.datasets.tables.columns import FeatureColumn
from nlgnn.datasets.tables.fitting import REASONS, LeftOut, fit_column
from nlgnn.datasets.tables.table import Table, read_table
from nlgnn.errors import DataError


class FeatureEncoder(BaseModel):
    """What every column becomes. It has seen no labels, and the order of rows makes no difference to it.

    Args:
        format_version: of the JSON; a later one is refused.
        columns: those that become features, in the order of their slots.
        left_out: those that do not, and why.
        is_sparse: whether so few numbers are other than 0 that a sparse matrix is made.
        structural: the columns are not in the table but are computed from the edges.
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
        """An encoder for some columns of a table (a path or a frame), by default for all of them.

        Args:
            standardise: bring numbers to mean 0 and deviation 1. Without, they stay as they are, constant columns
                and counters too: for features that are prepared already.
            structural: only noted, for `read_graph`.
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
        return sum(column.num_slots for column in self.columns)

    @property
    def slots(self) -> dict[str, slice]:
        """Which features each column became."""
        ends = np.cumsum([0, *(column.num_slots for column in self.columns)]).tolist()
        return {column.name: slice(*part) for column, part in zip(self.columns, pairwise(ends), strict=True)}

    def transform(self, table: object) -> NDArray[np.float32] | sparse.csr_array:
        """A row of numbers for each row of a table: a path or a frame."""
        table = read_table(table)
        self.require(table)
        num_rows = table.num_rows + table.added_rows
        if self.is_sparse:
            blocks = [block for column in self.columns for block in column.encode(table.column(column.name), table)]
            return sparse.csr_array(sparse.hstack([sparse.csr_array(block) for block in blocks], format="csr"))
        x = np.zeros((num_rows, self.num_slots), np.float32)
        start = 0
        for column in self.columns:
            for block in column.encode(table.column(column.name), table):
                slots = slice(start, start + block.shape[1])
                if isinstance(block, sparse.csr_array):
                    rows = np.repeat(np.arange(num_rows), np.diff(block.indptr))
                    x[rows, start + block.indices] = block.data
                else:
                    x[:, slots] = block
                start = slots.stop
        return x

    def require(self, table: Table) -> None:
        """That a table has the columns which features are made of."""
        present = set(table.columns)
        absent = [column.name for column in self.columns if column.name not in present]
        if absent:
            raise DataError(
                f"{table.source} lacks {'columns' if len(absent) > 1 else 'the column'} "
                f"{', '.join(map(repr, absent[:5]))}{f' and {len(absent) - 5} more' if len(absent) > 5 else ''}, "
                "from which features were made at training.",
                "Add them; blank cells are missing values.",
            )

    def describe(self) -> list[dict[str, str | int]]:
        """Rows for a report: column, kind, slots, missing values."""
        rows: list[dict[str, str | int]] = [
            {"column": column.name, "kind": column.kind, "slots": column.num_slots, "missing": column.missing}
            for column in self.columns
        ]
        return rows + [
            {
                "column": column.name,
                "kind": f"left out: {REASONS[column.reason]}",
                "slots": 0,
                "missing": column.missing,
            }
            for column in self.left_out
        ]

    def to_json(self) -> str:
        return self.model_dump_json(indent=1)

    @classmethod
    def from_json(cls, text: str) -> FeatureEncoder:
        """The encoder that `to_json` wrote."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise DataError(
                f"the feature encoder cannot be read: {first['msg']}{f' ({where})' if where else ''}.",
                "It is damaged, or was written by a later version: update nlgnn, or train again.",
            ) from error
