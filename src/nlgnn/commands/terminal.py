"""What all commands share: where they print, and flags that several of them have."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)

AllowUnverified = Annotated[
    bool, typer.Option("--allow-unverified", help="Also take files whose checksum is not known; their hash is printed.")
]


def comma_separated(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
