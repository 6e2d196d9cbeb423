"""Tables of predictions as CSV, Parquet or JSON lines, in a file or on standard output."""

from __future__ import annotations

import codecs
import csv
import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from nlgnn.errors import NlgnnError, OptionError
from nlgnn.files import check_target, write_whole, writing
from nlgnn.training.run_folder import parquet_table

Columns = dict[str, NDArray[Any] | list[str]]

STANDARD_OUTPUT = Path("-")
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def format_of(path: Path, given: str | None = None) -> str:
    """Return the format of a table: the given one, or that of the ending of its path, or CSV for standard output.

    Raises:
        OptionError: If the format or the ending is unknown.

    Example:
        >>> format_of(Path("labels.parquet")), format_of(Path("-"))
        ('parquet', 'csv')
    """
    if given is not None:
        if given not in WRITERS:
            raise OptionError(f"format={given!r} is unknown.", f"Use {', '.join(WRITERS)}.")
        return given
    if path == STANDARD_OUTPUT:
        return "csv"
    if path.suffix[1:] not in WRITERS:
        endings = [f".{name}" for name in WRITERS]
        raise OptionError(
            f"{path} cannot be written: its ending is unknown.", f"End it in {', '.join(endings)}, or give --format."
        )
    return path.suffix[1:]


def check_table_path(path: Path, form: str | None = None, *, replace: bool = False) -> None:
    """Raise if `write_table` could not write a file, so that long work does not end in an error.

    Args:
        path: The file, or `-` for standard output.
        form: csv, parquet or jsonl; by default that of the ending.
        replace: Whether a file that exists may be replaced.
    """
    format_of(path, form)
    if path == STANDARD_OUTPUT:
        if sys.stdout is None:
            raise NlgnnError("Standard output is closed.", "Name a file with --out.")
        return
    check_target(path)
    if path.exists() and not replace:
        raise OptionError(f"{path} exists already.", "Name another file, or replace it with --force.")


def write_table(path: Path, columns: Columns, form: str | None = None) -> None:
    """Write a table to standard output, or atomically to a file, which is replaced.

    Args:
        path: The file, or `-` for standard output.
        columns: The columns by name.
        form: csv, parquet or jsonl; by default that of the ending.

    Raises:
        NlgnnError: If the file cannot be written.
    """
    write = WRITERS[format_of(path, form)]
    check_table_path(path, form, replace=True)
    if path == STANDARD_OUTPUT:
        try:
            write(sys.stdout.buffer, columns)
            sys.stdout.buffer.flush()
        except BrokenPipeError:  # the reader, such as `head`, has seen enough; Python would flush again at its end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return

    def write_file(part: Path) -> None:
        with open(part, "wb") as file:
            write(file, columns)

    with writing(path, "The previous content is unchanged. Make room, or name another file."):
        write_whole(path, write_file)


def _write_csv(file: BinaryIO, columns: Columns) -> None:
    writer = csv.writer(codecs.getwriter("utf-8")(file), lineterminator="\n")  # leaves standard output open
    writer.writerow([_harmless(name) for name in columns])
    writer.writerows([_harmless(value) for value in row] for row in zip(*_lists(columns), strict=True))


def _write_json_lines(file: BinaryIO, columns: Columns) -> None:
    for row in zip(*_lists(columns), strict=True):
        line = json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False, allow_nan=False)
        file.write(f"{line}\n".encode("utf-8", "replace"))


def _write_parquet(file: BinaryIO, columns: Columns) -> None:
    import pyarrow.parquet as pq

    pq.write_table(parquet_table(columns), file)


WRITERS: Mapping[str, Callable[[BinaryIO, Columns], None]] = {
    "csv": _write_csv,
    "parquet": _write_parquet,
    "jsonl": _write_json_lines,
}


def _lists(columns: Columns) -> list[list[Any]]:
    return [column.tolist() if isinstance(column, np.ndarray) else column for column in columns.values()]


def _harmless(value: Any) -> Any:
    """Quote text that a spreadsheet would run as a formula; text that is a number stays as it is."""
    if not isinstance(value, str) or not value.startswith(FORMULA_STARTS):
        return value
    with suppress(ValueError):
        float(value)
        return value
    return f"'{value}"
