"""Progress of training: a bar on a terminal after two seconds, an occasional line in a log."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

SECONDS_BEFORE_SHOWN = 2.0
SECONDS_BETWEEN_UPDATES = 0.1
SECONDS_BETWEEN_LINES = 30.0

AnyBar = TypeVar("AnyBar", bound="ProgressBar")


class ProgressBar:
    """The base class of progress bars of trainings and searches."""

    def __init__(self, total: int, enabled: bool) -> None:
        self.started = self.updated = time.monotonic()
        self.enabled, self.console = enabled, Console(stderr=True, highlight=False)
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
        )
        self.task = self.bar.add_task("", total=total)

    def __enter__(self: AnyBar) -> AnyBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar.live.is_started:
            self.bar.stop()

    def is_due(self) -> bool:
        """Return True if it is time to show something again."""
        now = time.monotonic()
        pause = SECONDS_BETWEEN_UPDATES if self.console.is_terminal else SECONDS_BETWEEN_LINES
        if not self.enabled or now - self.updated < pause:
            return False
        self.updated = now
        return True

    def show(self, completed: int, description: str, line: str) -> None:
        """Show the bar with its description on a terminal, or the line in a log."""
        if not self.console.is_terminal:
            self.console.print(line, soft_wrap=True, markup=False)
            return
        if self.updated - self.started > SECONDS_BEFORE_SHOWN and not self.bar.live.is_started:
            self.bar.start()
        self.bar.update(self.task, completed=completed, description=description)


class TrainingProgress(ProgressBar):
    """The progress of a training: finished runs, current epochs, validation figures and the time left."""

    def __init__(self, runs: int, epochs: int, enabled: bool = True) -> None:
        super().__init__(runs * epochs, enabled)
        self.runs, self.epochs, self.finished = runs, epochs, 0

    def update(self, epochs: Sequence[int], val_loss: float, best_metric: float) -> None:
        """Show the epochs of the runs in progress and the means of their validation figures."""
        if not self.is_due():
            return
        first, last = self.finished + 1, self.finished + len(epochs)
        which = f"run {first}" if first == last else f"runs {first} to {last}"
        description = f"{which} of {self.runs}, validation: loss {val_loss:.3f}, best metric {best_metric:.1f}"
        self.show(self.finished * self.epochs + sum(epochs), description, f"epoch {max(epochs)} of {description}")

    def begin_run(self, last_metric: float | None) -> None:
        """Show a run without epochs, and the validation figure of the run before it."""
        if self.is_due():
            found = "" if last_metric is None else f", validation metric of the last {last_metric:.1f}"
            words = f"run {self.finished + 1} of {self.runs}{found}"
            self.show(self.finished * self.epochs, words, words)

    def finish_run(self) -> None:
        """Count a run as finished; one that stopped early counts fully, so that the bar only moves forward."""
        self.finished += 1
