"""How far a search is: settings finished here and elsewhere, the best figure so far, time left."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from nlgnn.training.progress import SECONDS_BEFORE_SHOWN, SECONDS_BETWEEN_LINES, SECONDS_BETWEEN_UPDATES
from nlgnn.training.replica import Replica

if TYPE_CHECKING:
    from nlgnn.training.tuned import Tried


class SearchProgress:
    """A bar on a terminal, a line now and then in a log."""

    def __init__(self, settings: int, metric: str, enabled: bool = True) -> None:
        self.settings, self.metric, self.enabled = settings, metric, enabled
        self.console = Console(stderr=True, highlight=False)
        self.started = self.updated = time.monotonic()
        self.words, self.finished = "", 0
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
        )
        self.task = self.bar.add_task("", total=settings)

    def __enter__(self) -> SearchProgress:
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar.live.is_started:
            self.bar.stop()

    def begin(self, rows: Sequence[Tried], settings: int, awaited: int) -> None:
        """A batch begins, or `awaited` settings are in work elsewhere."""
        self.finished = min(len(rows), settings)
        best = f"best validation {self.metric} {rows[0].mean:.1f} %" if rows and rows[0].mean is not None else "search"
        self.words = f"waiting for {awaited} in work elsewhere, {best}" if awaited else best
        self._show()

    def update(self, replicas: Sequence[Replica]) -> None:
        """After an epoch of a batch."""
        epochs = max(replica.epoch for replica in replicas)
        settings = len({replica.setting for replica in replicas if not replica.is_over})
        self._show(f", {settings} settings in epoch {epochs}")

    def _show(self, where: str = "") -> None:
        now = time.monotonic()
        pause = SECONDS_BETWEEN_UPDATES if self.console.is_terminal else SECONDS_BETWEEN_LINES
        if not self.enabled or now - self.updated < pause:
            return
        self.updated = now
        if not self.console.is_terminal:
            text = f"{self.finished} of {self.settings} settings, {self.words}{where}"
            self.console.print(text, soft_wrap=True, markup=False)
            return
        if now - self.started > SECONDS_BEFORE_SHOWN and not self.bar.live.is_started:
            self.bar.start()
        self.bar.update(self.task, completed=self.finished, description=f"{self.words}{where}")
