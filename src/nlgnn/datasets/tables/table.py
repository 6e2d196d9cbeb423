"""Table: rows and named columns, wherever they came from, and how a place in it is called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from nlgnn.datasets.tables.delimited import Delimited, read_delimited
from nlgnn.datasets.tables.files import open_content
from nlgnn.datasets.tables.json_lines import JsonLines, read_json_lines
from nlgnn.datasets.tables.parquet import ParquetColumns, open_parquet
from nlgnn.errors import DataError, OptionError, nearest

PARQUET, JSON_LINES, DELIMITED = (".parquet", ".pq"), (".jsonl", ".ndjson", ".json"), (".csv", ".tsv")
TABLE_FILES = (*PARQUET, *JSON_LINES, *DELIMITED, ".txt", ".gz")  # what is called otherwise is read too, as text


@dataclass(frozen=True, eq=False)
class Table:
    """Columns by name, loaded one at a time, so that a Parquet file of any width takes the memory of one column.

    Args:
        source: what messages call it: the path of a file, or a few words.
        columns: their names.
        num_rows: how many rows were read.
        load: a column by name. Cells of CSV files are text: what they mean is decided where they are used.
        line_of: the line of the file in which a row stands (both counted as an editor counts, rows from 0).
        notes: what reading decided, in plain sentences.
        added_rows: rows of missing values below those that were read.
        place_of: what a row is called where the rows come from more than one file.
    """

    source: str
    columns: tuple[str, ...]
    num_rows: int
    load: Callable[[str], pl.Series] = field(repr=False)
    line_of: Callable[[int], int] | None = None
    notes: tuple[str, ...] = ()
    added_rows: int = 0
    place_of: Callable[[int], str] | None = None

    def column(self, name: str) -> pl.Series:
        values = self.load(name)
        if self.added_rows == 0:
            return values
        return pl.concat([values, pl.Series(name, [None], dtype=values.dtype).new_from_index(0, self.added_rows)])

    def with_added_rows(self, count: int) -> Table:
        return replace(self, added_rows=count)

    @property
    def frame(self) -> pl.DataFrame:
        return pl.DataFrame([self.column(name).alias(name) for name in self.columns])

    def place(self, row: int, column: str | None = None) -> str:
        """Where in which file: what an error begins with."""
        if self.place_of is not None:
            where = self.place_of(row)
        else:
            where = f"{self.source}, " + (f"row {row + 1}" if self.line_of is None else f"line {self.line_of(row)}")
        return where if column is None else f"{where}, column {column!r}"

    def require(self, name: str, role: str) -> str:
        """The name itself, if there is such a column."""
        if name in self.columns:
            return name
        raise DataError(f"{self.source} has no column {name!r} for {role}.", nearest(name, list(self.columns)))


def read_table(source: object, what: str = "the table") -> Table:
    """A table from a file or a frame.

    CSV and TSV (delimiter by the ending and the header), Parquet, JSON lines, each of the text formats also packed by
    gzip; data frames of polars and pandas. Cells of CSV and TSV files stay text.

    Args:
        source: a path, or a data frame.
        what: what messages call a frame, which has no name.
    """
    if isinstance(source, (str, Path)):
        return _read_file(Path(source))
    if isinstance(source, Table):
        return source
    if isinstance(source, pl.DataFrame):
        return table_of_frame(source, what)
    if type(source).__module__.partition(".")[0] == "pandas" and hasattr(source, "columns"):
        return table_of_frame(_from_pandas(source, what), what)
    raise OptionError(f"{what} is a {type(source).__name__}.", "Give a path, or a data frame of polars or pandas.")


def table_of_frame(frame: pl.DataFrame, source: str) -> Table:
    if frame.width == 0 or frame.height == 0:
        raise DataError(f"{source} has {frame.height} rows and {frame.width} columns.", "Give at least one of each.")
    return Table(source, tuple(frame.columns), frame.height, frame.get_column)


def table_of_ids(ids: pl.Series) -> Table:
    """Nodes of which nothing is known but how they are called."""
    return table_of_frame(pl.DataFrame({"id": ids}), "the list of nodes")


def _from_pandas(frame: Any, what: str) -> pl.DataFrame:
    # Ids often stand in the index. Numbers without a name are what is left of row numbers after filtering or sorting.
    unnamed = all(name is None for name in frame.index.names)
    frame = frame.reset_index(drop=unnamed and frame.index.dtype.kind in "iu")
    frame = frame.rename(columns=str)
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice):
        raise DataError(f"{what} has two columns {twice[0]!r}.", "Rename one of them.")
    try:
        return pl.from_pandas(frame)
    except Exception as error:  # Arrow, pandas and polars each have their own
        raise DataError(
            f"{what} cannot be read ({str(error).splitlines()[0]}).", "Give each column values of one type."
        ) from error


def _read_file(path: Path) -> Table:
    content = open_content(path)
    endings = [ending.lower() for ending in path.suffixes]
    ending = next((ending for ending in reversed(endings) if ending != ".gz"), "")
    head = content.head(64).removeprefix(b"\xef\xbb\xbf").lstrip()
    read: ParquetColumns | JsonLines | Delimited
    if ending in PARQUET or head.startswith(b"PAR1"):
        read = open_parquet(content)
    elif ending in JSON_LINES or (ending not in DELIMITED and head.startswith(b"{")):
        read = read_json_lines(content)
    else:
        read = read_delimited(content, ending)
    return Table(str(path), read.columns, read.num_rows, read.load, read.line_of, read.notes)
