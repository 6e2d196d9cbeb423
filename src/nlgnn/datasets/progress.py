"""A progress bar for what is downloaded or made: on terminals only, and only where there is something to wait for."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

WORTH_A_BAR = 1_000_000  # bytes; smaller files are here before the eye has found the bar


class DownloadBar:
    """What pooch asks of a progress bar: a `total` that it sets, then update, reset and close."""

    def __init__(self, description: str, console: Console, worth_a_bar: int = WORTH_A_BAR) -> None:
        self.total = 0
        self._columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        self._description, self._console, self._worth_a_bar = description, console, worth_a_bar
        self._progress: Progress | None = None

    def update(self, num_bytes: int) -> None:
        if self._progress is None:
            if self.total < self._worth_a_bar or not self._console.is_terminal:
                return
            self._progress = Progress(*self._columns, console=self._console, transient=True)
            self._task = self._progress.add_task(self._description, total=self.total)
            self._progress.start()
        self._progress.update(self._task, advance=num_bytes)

    def reset(self) -> None:
        """Called before the last update, which then fills the bar."""
        if self._progress is not None:
            self._progress.reset(self._task)

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
