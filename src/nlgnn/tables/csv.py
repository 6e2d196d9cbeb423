"""CSV and related text formats: rows are read by polars, and faults are found by Python's csv module.

polars does not say in which line a fault is. `pyarrow.csv` reports rows with too many or too few cells, but neither
open nor stray quotes, and counts a cell of two lines as one line.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedIOBase, BytesIO, StringIO
from itertools import islice
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars.exceptions import PanicException, PolarsError

from nlgnn.errors import DataError
from nlgnn.graph.audit import listed
from nlgnn.tables.table_files import BOM, HOW_TO_SAVE, Content, check_table_memory, not_utf8
from nlgnn.tables.values import Table, check_distinct

DELIMITERS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "vertical bars"}
EXCEL_LINE = rb'(?i)^"?sep=.?"?\s*$'  # with which Excel names the delimiter
USUAL = {".csv": ",", ".tsv": "\t"}
NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
DECIMAL_COMMA = r"^[+-]?\d*,\d+$"
BLANK_LINES = "{}: blank lines were left out."
DECIMAL_COMMAS = "{}: decimal commas were read as points in {}."
QUOTES = 'Write "a ""b"" c" for the cell: a "b" c.'


@dataclass(frozen=True)
class Layout:
    """The columns of a file and how they are separated.

    Args:
        content: The file.
        names: The names of the columns.
        header_line: The line on which the header ends.
        delimiter: The character between cells.
        notes: Sentences about what was found.
    """

    content: Content
    names: list[str]
    header_line: int
    delimiter: str
    notes: list[str]

    def parse(self, source: Path | BytesIO, skipped_lines: int) -> pl.DataFrame:
        """Return the cells of a file or of some of its lines as text."""
        try:
            return pl.read_csv(
                source,
                has_header=False,
                skip_lines=skipped_lines,
                schema=dict.fromkeys(self.names, pl.String),
                separator=self.delimiter,
                missing_columns="insert",  # concerns the first line; short lines are found below
                glob=False,  # a * in a name is not a pattern
            )
        except (PolarsError, PanicException) as error:
            self.check(strict=True)
            reason = str(error).splitlines()[0].rstrip(".")
            path = self.content.path
            what = f"{path} cannot be read as a table separated by {DELIMITERS[self.delimiter]} ({reason})."
            raise DataError(what, f"Quote cells that hold delimiters, quotes or line ends. {QUOTES}") from error

    def check(self, strict: bool = False) -> None:
        """Raise an error for the first faulty line of the file, see `check_records`."""
        check_records(self.content, self.header_line, len(self.names), self.delimiter, strict)

    def line_of(self, record: int) -> str:
        """Return the file and line of a record, counted from 0 below the header."""
        with self.content.opened() as file:
            line, _ = next(islice(records(file, self.header_line), record, None))
        return f"{self.content.path}, line {line}"


def read_layout(content: Content, ending: str) -> Layout:
    """Return the columns of a file; the ending of its name decides about the usual delimiter."""
    head = content.head()
    if b"\0" in head:
        line = head[: head.index(b"\0")].count(b"\n") + 1
        raise DataError(f"{content.path}, line {line} contains a zero byte: this is not a text file.", HOW_TO_SAVE)
    usual = USUAL.get(ending, ",")
    header, header_line, first_record = read_header(content)
    delimiter = choose_delimiter(header, first_record, usual)
    names = column_names(content, header, header_line, delimiter)
    notes = [] if delimiter == usual else [f"{content.path} is separated by {DELIMITERS[delimiter]}."]
    return Layout(content, names, header_line, delimiter, notes)


def read_delimited(content: Content, ending: str) -> Table:
    """Read a table of text cells.

    Args:
        content: The bytes of the file.
        ending: The ending of its name, which decides about the usual delimiter.

    Returns:
        The table, in which a blank cell is null.

    Raises:
        DataError: If a line is faulty. The error names the first such line.
    """
    layout = read_layout(content, ending)
    path, names, notes = content.path, layout.names, list(layout.notes)
    check_table_memory(content, len(names))
    frame = layout.parse(content.source(), layout.header_line)
    kept = None
    if frame.get_column(names[-1]).has_nulls():  # polars fills short rows with nulls
        layout.check()
        if len(names) > 1:
            frame, kept = without_blank_rows(frame)
    if kept is not None:
        notes.append(BLANK_LINES.format(path))
    if layout.delimiter == ";":
        frame, converted = decimal_points(frame)
        if converted:
            notes.append(DECIMAL_COMMAS.format(path, listed(map(repr, converted))))

    def place_of(row: int) -> str:
        return layout.line_of(row if kept is None else int(kept[row]))

    return Table.from_frame(frame, str(path), place_of, notes)


def records(file: BufferedIOBase, skipped_lines: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield the first line number and the bytes of each record: a line, or several if quotes hold line ends."""
    lines = enumerate(islice(file, skipped_lines, None), start=skipped_lines + 1)
    for first_number, line in lines:
        record = [line]
        quotes = line.count(b'"')
        while quotes % 2:
            _, line = next(lines, (0, b""))
            if not line:
                break
            record.append(line)
            quotes += line.count(b'"')
        yield first_number, b"".join(record)


def read_header(content: Content) -> tuple[bytes, int, bytes]:
    """Return the first record that is not blank, the line on which it ends, and the line below it."""
    with content.opened() as file:
        for number, record in records(file):
            record = record.removeprefix(BOM)
            if record.strip() and not re.match(EXCEL_LINE, record):
                last_line = number + record.count(b"\n") - (1 if record.endswith(b"\n") else 0)
                return record, last_line, next(iter(file), b"")
    raise DataError(f"{content.path} has only blank lines.", "Write a line of column names and a line per row.")


def cells_of(record: str, delimiter: str, strict: bool = False, skip_blanks: bool = False) -> list[str]:
    """Return the cells of a record.

    Args:
        record: The text of the record.
        delimiter: The character between cells.
        strict: Raise `csv.Error` for faulty quotes.
        skip_blanks: Ignore blanks before a quote.
    """
    lines = StringIO(re.sub(r"\r(?!\n)", " ", record), newline="\n")
    limit = csv.field_size_limit(2**31 - 1)
    try:
        rows = list(csv.reader(lines, delimiter=delimiter, strict=strict, skipinitialspace=skip_blanks))
    finally:
        csv.field_size_limit(limit)
    if strict and len(rows) > 1:
        raise csv.Error("line end outside quotes")
    return rows[0] if rows else []


def choose_delimiter(header: bytes, first_record: bytes, usual: str) -> str:
    """Return the usual delimiter if the header has it; of several, one that the first row has equally often."""

    def count(record: bytes, delimiter: str) -> int:
        return len(cells_of(record.decode(errors="replace"), delimiter, skip_blanks=True))

    counts = {delimiter: count(header, delimiter) for delimiter in (usual, *DELIMITERS)}
    found = [delimiter for delimiter in counts if counts[delimiter] > 1]
    agreeing = [delimiter for delimiter in found if count(first_record, delimiter) == counts[delimiter]]
    return next(iter(agreeing or found), usual)


def column_names(content: Content, header: bytes, last_line: int, delimiter: str) -> list[str]:
    """Return the cells of the header; a blank one is named by its position."""
    where = f"{content.path}, line {last_line}"
    try:
        text = header.decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise not_utf8(where, content) from error
    if "\r" in text and "\n" not in text:
        raise DataError(f"{where} is the only one: lines end in CR alone.", "Save the file with line ends LF or CRLF.")
    if text.count('"') % 2:
        raise DataError(f"{where} opens a quote that is never closed.", "Close it.")
    names = [cell.strip() for cell in cells_of(text, delimiter, skip_blanks=True)]
    if all(re.match(NUMBER, name) for name in names):
        raise DataError(
            f"{where} holds only numbers ({', '.join([*names[:3], *['…'] * (len(names) > 3)])}): there is no header.",
            "Add a first line of column names, such as id,label or source,target.",
        )
    names = [name or f"column {position}" for position, name in enumerate(names, start=1)]
    check_distinct(names, where)
    return names


def check_records(content: Content, header_line: int, width: int, delimiter: str, strict: bool) -> None:
    """Raise an error for the first record that is not UTF-8, or has too many or too few cells.

    With `strict` faulty quotes are errors too; polars can read some of them.
    """
    with content.opened() as file:
        for number, record in records(file, header_line):
            where = f"{content.path}, line {number}"
            try:
                text = record.decode()
            except UnicodeDecodeError as error:
                before = record[: error.start].decode()
                line, column = number + before.count("\n"), len(cells_of(before + "x", delimiter))
                raise not_utf8(f"{content.path}, line {line}, column {column},", content) from error
            if text.count('"') % 2:
                raise DataError(f"{where} opens a quote that is never closed.", f"Close it. {QUOTES}")
            try:
                found = len(cells_of(text, delimiter, strict)) if '"' in text else text.count(delimiter) + 1
            except csv.Error as error:
                raise DataError(f"{where} has a quote inside a cell.", QUOTES) from error
            if found != width and text.strip():
                raise DataError(
                    f"{where} has {found} {'cell' if found == 1 else 'cells'} instead of {width}.",
                    f"Separate cells by {DELIMITERS[delimiter]}, one per name in the header, and quote cells that hold "
                    "a delimiter.",
                )


def without_blank_rows(frame: pl.DataFrame) -> tuple[pl.DataFrame, NDArray[np.int64] | None]:
    """Return the frame without blank rows, and the numbers of the remaining rows (None if there was no blank row)."""
    suspects = frame.get_column(frame.columns[-1]).is_null().arg_true().to_numpy()
    is_blank = pl.all_horizontal(pl.all().fill_null("").str.strip_chars() == "")
    blank = suspects[frame[suspects].select(is_blank.alias("is blank")).to_series().to_numpy()]
    if len(blank) == 0:
        return frame, None
    kept = np.delete(np.arange(frame.height), blank)
    return frame[kept], kept


def decimal_points(frame: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Return the frame with decimal points instead of the commas that Excel writes, and the changed columns."""
    commas, numbers = comma_columns(frame)
    changed = [name for name in frame.columns if name in commas & numbers]
    if not changed:
        return frame, []
    return frame.with_columns(pl.col(changed).str.replace(",", ".", literal=True)), changed


def comma_columns(frame: pl.DataFrame) -> tuple[set[str], set[str]]:
    """Return the columns of which a cell is a number with a decimal comma, and those of which all cells are numbers."""
    has_comma = pl.all().str.contains(DECIMAL_COMMA).any()
    is_number = pl.all().str.strip_chars().str.replace(",", ".", literal=True).str.contains(rf"^$|{NUMBER}").all()
    found, every = (frame.select(test).row(0, named=True) for test in (has_comma, is_number))
    return {name for name in found if found[name]}, {name for name in every if every[name]}
