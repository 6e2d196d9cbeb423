"""CSV and its relatives: delimiter and header are ours, rows are read by polars, faults are found line by line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedIOBase
from itertools import islice

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars.exceptions import PanicException, PolarsError

from nlgnn.datasets.tables.files import Content
from nlgnn.datasets.tables.held import HeldFrame
from nlgnn.datasets.tables.json_lines import BOM, not_utf8
from nlgnn.errors import DataError

DELIMITERS = {",": "commas", "\t": "tabs", ";": "semicolons"}
USUAL = {".csv": ",", ".tsv": "\t"}
LONGEST_LINE = 1 << 26
QUOTED = re.compile(rb'"[^"]*"')
NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
DECIMAL_COMMA = r"^[+-]?\d*,\d+$"


@dataclass(frozen=True, eq=False)
class Delimited(HeldFrame):
    """The rows of a delimited text file, all cells text.

    Args:
        frame: the rows; a blank cell is null.
        header_line: the line on which the header ends.
        kept: the record of each row, where blank lines were left out; None = all of them.
    """

    content: Content
    frame: pl.DataFrame
    header_line: int
    kept: NDArray[np.int64] | None
    notes: tuple[str, ...]

    def line_of(self, row: int) -> int:
        wanted = row if self.kept is None else int(self.kept[row])
        with self.content.opened() as file:
            return next(islice(records(file, self.header_line), wanted, None))[0]


def read_delimited(content: Content, ending: str) -> Delimited:
    """Every row of the table, or an error that names the first line at fault."""
    reject_binary(content)
    header, header_line, first_record = read_header(content)
    delimiter = choose_delimiter(header, first_record, USUAL.get(ending, ","))
    names = column_names(content, header, header_line, delimiter)
    notes = []
    if delimiter != USUAL.get(ending, ","):
        notes.append(f"{content.path} is separated by {DELIMITERS[delimiter]}.")
    try:
        frame = pl.read_csv(
            content.source(),
            has_header=False,
            skip_lines=header_line,
            schema=dict.fromkeys(names, pl.String),
            separator=delimiter,
            missing_columns="insert",  # of the first line: short ones are looked for below
            glob=False,  # a name with a * in it is a name
        )
    except (PolarsError, PanicException) as error:
        find_fault(content, header_line, len(names), delimiter, stray_quotes=True)
        reason = str(error).splitlines()[0].rstrip(".")
        raise DataError(
            f"{content.path} cannot be read as a table separated by {DELIMITERS[delimiter]} ({reason}).",
            'Put cells that hold delimiters, quotes or line ends in "quotes", and double quotes inside them.',
        ) from error
    kept = None
    if frame.get_column(names[-1]).has_nulls():  # polars fills up rows that are too short
        find_fault(content, header_line, len(names), delimiter)
        if len(names) > 1:
            frame, kept = without_blank_rows(frame)
    if frame.height == 0:
        raise DataError(f"{content.path} has a header but no rows.", "Add a line for each row.")
    if kept is not None:
        notes.append(f"{content.path}: blank lines were left out.")
    if delimiter == ";":
        frame, mended = decimal_points(frame)
        if mended:
            notes.append(f"{content.path}: decimal commas were read as points in {', '.join(map(repr, mended[:5]))}.")
    return Delimited(content, frame, header_line, kept, tuple(notes))


def reject_binary(content: Content) -> None:
    head = content.head()
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{content.path}, line 1 is UTF-16 text, not UTF-8.", "Save it as UTF-8 (in Excel: CSV UTF-8).")
    if b"\0" in head:
        line = head[: head.index(b"\0")].count(b"\n") + 1
        raise DataError(
            f"{content.path}, line {line} holds a zero byte: this is no text.",
            "Save the table as CSV, TSV, Parquet or JSON lines.",
        )


def records(file: BufferedIOBase, skipped_lines: int = 0) -> Iterator[tuple[int, bytes]]:
    """The number of its first line and the bytes of each record: a line, or several where quotes hold line ends."""
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
    """The first record that is not blank, the line on which it ends, and the record below it (b"" if there is none)."""
    with content.opened() as file:
        if len(file.readline(LONGEST_LINE)) == LONGEST_LINE:
            raise DataError(f"{content.path}, line 1 is longer than 64 MB.", "A table has a line for each row.")
        file.seek(0)
        for number, record in records(file):
            record = record.removeprefix(BOM)
            if record.strip():
                last_line = number + record.count(b"\n") - (1 if record.endswith(b"\n") else 0)
                following = next((line for line in islice(file, 1)), b"")
                return record, last_line, following
    raise DataError(f"{content.path} has only blank lines.", "A table has a line of column names and a line a row.")


def count_outside_quotes(record: bytes, delimiter: str) -> int:
    return (QUOTED.sub(b"", record) if b'"' in record else record).count(delimiter.encode())


def choose_delimiter(header: bytes, first_record: bytes, usual: str) -> str:
    """The usual one if the header has it; where it has several, one that the first row has as often."""
    counts = {delimiter: count_outside_quotes(header, delimiter) for delimiter in (usual, *DELIMITERS)}
    found = [delimiter for delimiter in dict.fromkeys(counts) if counts[delimiter]]
    agreeing = [d for d in found if count_outside_quotes(first_record, d) == counts[d]]
    return next(iter(agreeing or found), usual)


def column_names(content: Content, header: bytes, last_line: int, delimiter: str) -> list[str]:
    """The cells of the header; one without a name is called by its position."""
    where = f"{content.path}, line {last_line}"
    try:
        text = header.decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise not_utf8(where, content) from error
    if "\r" in text and "\n" not in text:
        raise DataError(f"{where} is the only one: lines end in CR alone.", "Save the file with line ends LF or CRLF.")
    if text.count('"') % 2:
        raise DataError(f"{where} opens a quote that is never closed.", "Close it.")
    cells = re.findall(rf'(?:^|{delimiter})( *"(?:[^"]|"")*" *|[^{delimiter}]*)', text)
    names = [cell.strip() for cell in cells]
    names = [
        name[1:-1].replace('""', '"').strip() if re.fullmatch(r'"[^"]*(""[^"]*)*"', name) else name for name in names
    ]
    if all(re.match(NUMBER, name) for name in names):
        raise DataError(
            f"{where} holds only numbers ({', '.join([*names[:3], *['…'] * (len(names) > 3)])}): there is no header.",
            "Add a first line of column names, such as id,label or source,target.",
        )
    names = [name or f"column {position}" for position, name in enumerate(names, start=1)]
    first_position: dict[str, int] = {}
    for position, name in enumerate(names, start=1):
        if first_position.setdefault(name, position) < position:
            raise DataError(
                f"{where} has two columns {name!r}, numbers {first_position[name]} and {position}.",
                "Rename one of them.",
            )
    return names


def find_fault(content: Content, header_line: int, width: int, delimiter: str, stray_quotes: bool = False) -> None:
    """An error for the first record that is not UTF-8, or has too many or too few cells.

    `stray_quotes` looks for quotes inside cells too, of which polars can read some.
    """
    quoted_cell = re.compile(rf'(?:^|(?<={delimiter})) *"[^"]*(?:""[^"]*)*" *(?={delimiter}|$)'.encode())
    with content.opened() as file:
        for number, record in records(file, header_line):
            where = f"{content.path}, line {number}"
            try:
                record.decode()
            except UnicodeDecodeError as error:
                before = record[: error.start]
                line, column = number + before.count(b"\n"), count_outside_quotes(before, delimiter) + 1
                raise not_utf8(f"{content.path}, line {line}, column {column},", content) from error
            if record.count(b'"') % 2:
                raise DataError(
                    f"{where} opens a quote that is never closed.", "Close it, or write a quote inside a cell twice."
                )
            if stray_quotes and b'"' in record and b'"' in quoted_cell.sub(b"", record.strip()):
                raise DataError(f"{where} has a quote inside a cell.", 'Write "a ""b"" c" for the cell: a "b" c.')
            found = count_outside_quotes(record, delimiter) + 1
            if found != width and record.strip():
                raise DataError(
                    f"{where} has {found} {'cell' if found == 1 else 'cells'} instead of {width}.",
                    f"Cells are separated by {DELIMITERS[delimiter]}, one for each name in the header; put cells that "
                    'hold one in "quotes".',
                )


def without_blank_rows(frame: pl.DataFrame) -> tuple[pl.DataFrame, NDArray[np.int64] | None]:
    """The frame without rows that have no cell, and the numbers of the rows that are left (None: all)."""
    last = frame.columns[-1]
    suspects = frame.get_column(last).is_null().arg_true().to_numpy()
    is_blank = pl.all_horizontal(pl.all().fill_null("").str.strip_chars() == "")
    blank = suspects[frame[suspects].select(is_blank.alias("is blank")).to_series().to_numpy()]
    if len(blank) == 0:
        return frame, None
    kept = np.delete(np.arange(frame.height), blank)
    return frame[kept], kept


def decimal_points(frame: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Columns of numbers with a decimal comma, as Excel writes them beside semicolons, with a point instead."""
    has_comma = pl.all().str.contains(DECIMAL_COMMA).any()
    candidates = [name for name, found in frame.select(has_comma).row(0, named=True).items() if found]
    if not candidates:
        return frame, []
    is_number = pl.col(candidates).str.strip_chars().str.replace(",", ".", literal=True).str.contains(rf"^$|{NUMBER}")
    mended = [name for name, every in frame.select(is_number.all()).row(0, named=True).items() if every]
    return frame.with_columns(pl.col(mended).str.replace(",", ".", literal=True)), mended
