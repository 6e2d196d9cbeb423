"""What all commands share: where they print, and flags that several of them have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from nlgnn.errors import NlgnnError

console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)

AllowUnverified = Annotated[
    bool, typer.Option("--allow-unverified", help="Also take files whose checksum is not known; their hash is printed.")
]


def comma_separated(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def write_report(path: Path, write: Callable[[Path], None], where: Console = console) -> None:
    """Write a page, its folder first, and say where it is.

    What it is about is done and shown by then: a page that cannot be written is told, and is no failure.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path)
    except (NlgnnError, OSError) as error:
        why = error.what if isinstance(error, NlgnnError) else f"{path} cannot be written: {error.strerror or error}."
        errors.print(f"no report: {why}", soft_wrap=True, markup=False)
    else:
        where.print(f"report: {path}", soft_wrap=True, markup=False)
