"""What all commands share: where they print, and flags that several of them have."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from nlgnn.errors import NlgnnError, NlgnnWarning

# Names in files and of files may hold what a terminal takes for commands, or what cannot be encoded: shown as \u001b.
UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class SafeConsole(Console):
    """Shows text and its own colours, and no others."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            shown = UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", segment.text)
            yield segment if segment.control else Segment(shown, segment.style)


console = SafeConsole(highlight=False)
errors = SafeConsole(stderr=True, highlight=False)

AllowUnverified = Annotated[
    bool, typer.Option("--allow-unverified", help="Also take files whose checksum is not known; their hash is printed.")
]


def comma_separated(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


@contextmanager
def told_warnings() -> Iterator[None]:
    """Each warning of this package is told once, as a line of its own; those of others as ever."""
    with warnings.catch_warnings():
        usual, told = warnings.showwarning, set()

        def tell(message: Warning | str, category: type[Warning], *where: Any, **further: Any) -> None:
            if not issubclass(category, NlgnnWarning):
                usual(message, category, *where, **further)
            elif str(message) not in told:
                told.add(str(message))
                errors.print(f"warning: {message}", soft_wrap=True, markup=False)

        warnings.showwarning = tell
        warnings.simplefilter("always", NlgnnWarning)
        yield


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
