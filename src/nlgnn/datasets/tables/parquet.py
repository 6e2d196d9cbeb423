"""Parquet, a column at a time. pyarrow reads it: of a damaged file it says so, where polars would panic."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from typing import Any

import polars as pl
from polars.exceptions import PanicException, PolarsError

from nlgnn.datasets.tables.files import Content, memory_bytes
from nlgnn.errors import DataError

BYTES_A_CELL = 16  # of a short text; numbers take half


@dataclass(frozen=True, eq=False)
class ParquetColumns:
    """An open Parquet file."""

    content: Content
    file: Any
    columns: tuple[str, ...]
    num_rows: int
    notes: tuple[str, ...] = ()
    line_of: None = None  # a binary file has no lines

    def load(self, name: str) -> pl.Series:
        import pyarrow

        try:
            table = self.file.read(columns=[name])
            table.validate(full=True)  # polars trusts what it is given
            series = pl.Series(name, table.column(0))
        except (pyarrow.ArrowException, OSError, PolarsError, PanicException, TypeError, ValueError) as error:
            raise damaged(self.content, error, f", column {name!r}") from error
        if len(series) != self.num_rows:
            raise damaged(self.content, f"{len(series)} values instead of {self.num_rows}", f", column {name!r}")
        return series


def open_parquet(content: Content) -> ParquetColumns:
    import pyarrow
    from pyarrow import parquet

    source = content.source()
    try:
        # memory_map: bytes of the file are the system's, not ours.
        file = parquet.ParquetFile(source if isinstance(source, BytesIO) else str(source), memory_map=True)
        columns = tuple(file.schema_arrow.names)
        num_rows = file.metadata.num_rows
    except (pyarrow.ArrowException, OSError, ValueError, TypeError) as error:
        raise damaged(content, error) from error
    if num_rows <= 0 or not columns:
        raise DataError(f"{content.path} has {num_rows} rows and {len(columns)} columns.", "Give one of each at least.")
    if len(set(columns)) < len(columns):
        twice = next(name for name in columns if columns.count(name) > 1)
        raise DataError(f"{content.path} has two columns {twice!r}.", "Rename one of them.")
    if num_rows * BYTES_A_CELL > memory_bytes() // 2:  # a few bytes can say "the same value, 10^12 times"
        raise DataError(
            f"{content.path} says that it has {num_rows:,} rows: a column of it takes half of this machine's memory.",
            "If that is true, choose the rows that you need first.",
        )
    return ParquetColumns(content, file, columns, num_rows)


def damaged(content: Content, error: object, where: str = "") -> DataError:
    reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
    return DataError(
        f"{content.path}{where} cannot be read as Parquet ({reason}).", "It is damaged or was cut off: copy it again."
    )
