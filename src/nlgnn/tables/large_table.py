"""LargeTable: a table of any size on disk, read one column or a number of rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from io import BufferedIOBase, BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nlgnn.errors import DataError
from nlgnn.graph.audit import listed
from nlgnn.tables.csv import (
    BLANK_LINES,
    DECIMAL_COMMAS,
    QUOTES,
    Layout,
    check_records,
    comma_columns,
    read_layout,
    without_blank_rows,
)
from nlgnn.tables.json_lines import read_json_lines
from nlgnn.tables.table_files import Content, damaged, form_of, open_content, open_parquet
from nlgnn.tables.values import NoRowsError, Table

SMALLEST_BLOCK, LARGEST_BLOCK = 1 << 16, 1 << 25  # bytes of a text file that are parsed at once
LONGEST_RECORD = 1 << 26
IN_MEMORY_SHARE = 1 / 16  # of the limit, for a block; parsed cells take several times as much


@dataclass(frozen=True, eq=False)
class LargeTable:
    """A table on disk.

    Args:
        table: The table, whose columns are loaded one at a time.
        largest_column: The name of the largest column, and its number of bytes in memory; 0 if it is unknown.
        load_rows: A function that yields frames of some columns with at least a number of rows, but for the last one.
    """

    table: Table
    largest_column: tuple[str, int]
    load_rows: Callable[[Sequence[str], int], Iterator[pl.DataFrame]]

    def chunks(self, columns: Sequence[str], rows: int) -> Iterator[Table]:
        """Yield tables of about a number of rows with some of the columns. Errors name the rows of the whole table."""
        start = 0
        for frame in self.load_rows(columns, rows):
            first = start

            def place_of(row: int, first: int = first) -> str:
                return self.table.place(first + row)

            yield Table.from_frame(frame, self.table.source, place_of)
            start += frame.height


def open_large_table(path: str | Path, folder: Path, memory: int) -> LargeTable:
    """Open a table without reading it into memory.

    Text formats are written to a Parquet file first, a block at a time; JSON lines alone are read into memory.

    Args:
        path: The file.
        folder: A folder for temporary files.
        memory: The number of bytes to use.

    Raises:
        DataError: If the file is missing, damaged or empty. The error names the first faulty line.
    """
    path = Path(path)
    content = open_content(path, unpack_to=folder / "unpacked")
    form, ending = form_of(content)
    if form == "json":
        return _in_memory(read_json_lines(content))
    if form == "parquet":
        return _of_parquet(open_parquet(content, whole=False), content)
    target = folder / "table.parquet"
    size = int(np.clip(memory * IN_MEMORY_SHARE, SMALLEST_BLOCK, LARGEST_BLOCK))
    return _delimited(read_layout(content, ending), target, size)


def _in_memory(table: Table) -> LargeTable:
    def load_rows(columns: Sequence[str], rows: int) -> Iterator[pl.DataFrame]:
        yield from pl.DataFrame([table.column(name).alias(name) for name in columns]).iter_slices(rows)

    return LargeTable(table, ("", 0), load_rows)


def _of_parquet(table: Table, content: Content) -> LargeTable:
    from pyarrow import parquet

    def load_rows(columns: Sequence[str], rows: int) -> Iterator[pl.DataFrame]:
        import pyarrow

        source = content.source()
        waiting: list[Any] = []
        try:
            with parquet.ParquetFile(source if isinstance(source, BytesIO) else str(source)) as file:
                for batch in file.iter_batches(rows, columns=list(columns)):
                    batch.validate(full=True)  # polars does not check what it is given
                    waiting.append(batch)
                    if sum(map(len, waiting)) >= rows:
                        yield _frame(waiting, columns)
                        waiting = []
        except (pyarrow.ArrowException, OSError) as error:
            raise damaged(content, error) from error
        if waiting:
            yield _frame(waiting, columns)

    source = content.source()
    sizes: dict[str, int] = {}
    with parquet.ParquetFile(source if isinstance(source, BytesIO) else str(source)) as file:
        for group in range(file.metadata.num_row_groups):
            meta = file.metadata.row_group(group)
            for place in range(meta.num_columns):
                column = meta.column(place)
                name = column.path_in_schema.partition(".")[0]
                sizes[name] = sizes.get(name, 0) + max(0, column.total_uncompressed_size)
    largest = max(sizes.items(), key=lambda item: item[1], default=("", 0))
    return LargeTable(table, largest, load_rows)


def _frame(batches: list[Any], columns: Sequence[str]) -> pl.DataFrame:
    import pyarrow

    found = pyarrow.Table.from_batches(batches)
    return pl.DataFrame([pl.Series(name, found.column(name)) for name in columns])


def _delimited(layout: Layout, target: Path, size: int) -> LargeTable:
    """Return a text file as a table, whose cells are written to a Parquet file."""
    commas, numbers, blanks = _write_cells(layout, target, size)
    changed = [name for name in layout.names if name in commas & numbers] if layout.delimiter == ";" else []
    content, path = Content(target), layout.content.path
    notes = [*layout.notes]
    if len(blanks):
        notes.append(BLANK_LINES.format(path))
    if changed:
        notes.append(DECIMAL_COMMAS.format(path, listed(map(repr, changed))))
    try:
        stored = _of_parquet(open_parquet(content, whole=False), content)
    except NoRowsError as error:
        raise NoRowsError(error.what.replace(str(target), str(path)), error.how) from None

    def points(values: pl.Series) -> pl.Series:
        return values.str.replace(",", ".", literal=True) if values.name in changed else values

    def place_of(row: int) -> str:
        return layout.line_of(row + int(np.searchsorted(blanks - np.arange(len(blanks)), row, side="right")))

    def load_rows(columns: Sequence[str], rows: int) -> Iterator[pl.DataFrame]:
        for frame in stored.load_rows(columns, rows):
            yield pl.DataFrame([points(values) for values in frame])

    table = replace(
        stored.table,
        source=str(path),
        load=lambda name: points(stored.table.load(name)),
        place_of=place_of,
        notes=tuple(notes),
    )
    return LargeTable(table, stored.largest_column, load_rows)


def _write_cells(layout: Layout, target: Path, size: int) -> tuple[set[str], set[str], NDArray[np.int64]]:
    """Write the cells of a text file as Parquet.

    Returns:
        The columns with decimal commas, the columns of numbers, and the records that are blank.
    """
    import pyarrow
    from pyarrow import parquet

    names = layout.names
    schema = pyarrow.schema([(name, pyarrow.large_string()) for name in names])
    commas, numbers, blanks, records = set[str](), set(names), [np.zeros(0, np.int64)], 0
    with layout.content.opened() as file, parquet.ParquetWriter(target, schema, compression="zstd") as writer:
        for _ in range(layout.header_line):
            file.readline()
        for block in record_blocks(file, size, layout):
            frame = layout.parse(BytesIO(block), 0)
            height = frame.height
            if frame.get_column(names[-1]).has_nulls():  # polars fills short rows with nulls
                _check_block(block, layout)
                if len(names) > 1:
                    frame, kept = without_blank_rows(frame)
                    if kept is not None:
                        blanks.append(records + np.setdiff1d(np.arange(height), kept))
            records += height
            if layout.delimiter == ";":
                found, every = comma_columns(frame)
                commas, numbers = commas | found, numbers & every
            if frame.height:
                writer.write_table(frame.to_arrow().cast(schema))
    return commas, numbers, np.concatenate(blanks)


def _check_block(block: bytes, layout: Layout) -> None:
    """Raise an error for the first faulty line of the file if it is in a block."""
    try:
        check_records(Content(layout.content.path, block), 0, len(layout.names), layout.delimiter, strict=False)
    except DataError:
        layout.check()  # with the number of the line in the file
        raise


def record_blocks(file: BufferedIOBase, size: int, layout: Layout) -> Iterator[bytes]:
    """Yield blocks of about a number of bytes that end where a record does."""
    rest = b""
    while chunk := file.read(size):
        rest += chunk
        end = end_of_records(rest)
        if end:
            yield rest[:end]
            rest = rest[end:]
        elif len(rest) > LONGEST_RECORD:
            layout.check(strict=True)
            raise DataError(f"{layout.content.path} has a line of more than {LONGEST_RECORD >> 20} MiB.", QUOTES)
    if rest:
        yield rest


def end_of_records(block: bytes) -> int:
    """Return the number of bytes up to the last line end outside quotes; 0 if there is none.

    Example:
        >>> end_of_records(b'a,"b' + bytes([10]) + b'c"' + bytes([10]) + b"d"), end_of_records(b'a,"b' + bytes([10]))
        (8, 0)
    """
    if b'"' not in block:
        return block.rfind(b"\n") + 1
    content = np.frombuffer(block, np.uint8)
    inside = np.cumsum(content == ord('"'), dtype=np.uint8) & 1  # modulo 256, which does not change the last bit
    ends = np.flatnonzero((content == ord("\n")) & (inside == 0))
    return int(ends[-1]) + 1 if len(ends) else 0
