"""JSON lines: one object a line, its keys the columns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import polars as pl
from polars.exceptions import PanicException, PolarsError

from nlgnn.datasets.tables.files import Content
from nlgnn.datasets.tables.held import HeldFrame
from nlgnn.errors import DataError

BOM = b"\xef\xbb\xbf"
HOW = 'Write one object a line, such as {"id": "a", "age": 3}; a missing value is null.'


@dataclass(frozen=True, eq=False)
class JsonLines(HeldFrame):
    """The rows of a file of JSON lines."""

    content: Content
    frame: pl.DataFrame
    notes: tuple[str, ...] = ()

    def line_of(self, row: int) -> int:
        numbers = (number for number, _ in object_lines(self.content))
        return next(number for i, number in enumerate(numbers) if i == row)


def read_json_lines(content: Content) -> JsonLines:
    source: Any = content.source()
    if isinstance(source, BytesIO):
        source = source.getvalue()
    if content.head(3) == BOM:
        with content.opened() as file:
            file.seek(3)
            source = file.read()
    try:
        frame = pl.read_ndjson(source, infer_schema_length=None)
    except (PolarsError, PanicException, RecursionError) as error:
        find_fault(content)
        reason = str(error).splitlines()[0].rstrip(".")
        raise DataError(f"{content.path} cannot be read as JSON lines ({reason}).", HOW) from error
    if frame.width == 0 or frame.height == 0:
        raise DataError(f"{content.path} has no values.", HOW)
    return JsonLines(content, frame)


def object_lines(content: Content) -> Iterator[tuple[int, bytes]]:
    """The number and the bytes of each line that is not blank."""
    with content.opened() as file:
        for number, line in enumerate(file, start=1):
            if number == 1:
                line = line.removeprefix(BOM)
            if line.strip():
                yield number, line


def find_fault(content: Content) -> None:
    """Why the file could not be read: an error for the first line that is no object, or is of other types."""
    kinds: dict[str, tuple[str, int]] = {}
    for number, line in object_lines(content):
        where = f"{content.path}, line {number}"
        try:
            values = json.loads(line.decode(), parse_constant=_refuse_constant)
        except UnicodeDecodeError as error:
            raise not_utf8(f"{where}, byte {error.start + 1}", content) from error
        except (ValueError, RecursionError) as error:
            reason = "too deeply nested" if isinstance(error, RecursionError) else str(error)
            raise DataError(f"{where} is not JSON ({reason}).", HOW) from error
        if not isinstance(values, dict):
            raise DataError(f"{where} is a {type(values).__name__}, not an object.", HOW)
        for name, value in values.items():
            kind = _kind(value)
            first_kind, first_line = kinds.setdefault(name, (kind, number)) if kind else (kind, number)
            if kind != first_kind and {kind, first_kind} != {"a number", "text"}:
                raise DataError(
                    f"{where}, column {name!r} is {kind}, but in line {first_line} it is {first_kind}.",
                    "Give each column values of one kind.",
                )


def not_utf8(where: str, content: Content) -> DataError:
    return DataError(
        f"{where} is not UTF-8 text.",
        f"Save the file as UTF-8; if it is Latin-1: iconv -f latin1 -t utf-8 {content.path} > utf8-{content.path.name}",
    )


def _kind(value: object) -> str:
    for types, kind in ((bool, "true or false"), ((int, float), "a number"), (str, "text"), (list, "a list")):
        if isinstance(value, types):
            return kind
    return "" if value is None else "an object"


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON value: write null")
