"""JSON lines: one object per line, whose keys are the columns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from itertools import islice
from typing import Any

import polars as pl
from polars.exceptions import PanicException, PolarsError

from nlgnn.errors import DataError
from nlgnn.tables.table_files import BOM, Content, check_table_memory, not_utf8
from nlgnn.tables.values import Table

HOW_TO_WRITE_JSON = 'Write one object per line, such as {"id": "a", "age": 3}, and null for a missing value.'
JSON_KINDS = {bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list"}
JSON_KINDS |= {dict: "an object", type(None): ""}


def read_json_lines(content: Content) -> Table:
    """Read a file of one JSON object per line, whose keys are the columns."""
    source: Any = content.source()
    if isinstance(source, BytesIO) or content.head(3) == BOM:
        with content.opened() as file:
            source = file.read().removeprefix(BOM)
    try:
        # Each line may name columns that no other line has.
        schema = pl.scan_ndjson(source, infer_schema_length=None).collect_schema()
        check_table_memory(content, sum(map(leaves, schema.values())))
        frame = pl.read_ndjson(source, infer_schema_length=None)
    except (PolarsError, PanicException, RecursionError) as error:
        check_lines(content)
        reason = str(error).splitlines()[0].rstrip(".")
        raise DataError(f"{content.path} cannot be read as JSON lines ({reason}).", HOW_TO_WRITE_JSON) from error

    def place_of(row: int) -> str:
        number, _ = next(islice(object_lines(content), row, None))
        return f"{content.path}, line {number}"

    return Table.from_frame(frame, str(content.path), place_of)


def leaves(kind: Any) -> int:
    """Return the number of plain columns in a type of polars, which may be a list or an object."""
    if isinstance(kind, pl.Struct):
        return sum(leaves(field.dtype) for field in kind.fields)
    return leaves(kind.inner) if isinstance(kind, pl.List | pl.Array) else 1


def object_lines(content: Content) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the bytes of each line that is not blank."""
    with content.opened() as file:
        for number, line in enumerate(file, start=1):
            line = line.removeprefix(BOM) if number == 1 else line
            if line.strip():
                yield number, line


def check_lines(content: Content) -> None:
    """Raise an error for the first line that is not an object, or whose values have another type than before."""
    kinds: dict[str, tuple[str, int]] = {}
    for number, line in object_lines(content):
        where = f"{content.path}, line {number}"
        try:
            values = json.loads(line.decode(), parse_constant=_refuse_constant)
        except UnicodeDecodeError as error:
            raise not_utf8(f"{where}, byte {error.start + 1}", content) from error
        except (ValueError, RecursionError) as error:
            reason = "too deeply nested" if isinstance(error, RecursionError) else str(error)
            raise DataError(f"{where} is not JSON ({reason}).", HOW_TO_WRITE_JSON) from error
        if not isinstance(values, dict):
            raise DataError(f"{where} is a {type(values).__name__}, not an object.", HOW_TO_WRITE_JSON)
        for name, value in values.items():
            kind = JSON_KINDS[type(value)]
            first_kind, first_line = kinds.setdefault(name, (kind, number)) if kind else (kind, number)
            if kind != first_kind and {kind, first_kind} != {"a number", "text"}:
                raise DataError(
                    f"{where}, column {name!r} is {kind}, but in line {first_line} it is {first_kind}.",
                    "Give each column values of one kind.",
                )


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value: write null")
