"""How far training is: a bar on a terminal once it takes longer than two seconds, a line now and then in a log."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

SECONDS_BEFORE_SHOWN = 2.0
SECONDS_BETWEEN_UPDATES = 0.1
SECONDS_BETWEEN_LINES = 30.0


class TrainingProgress:
    """Runs finished, epochs of those in progress, validation figures, time left."""

    def __init__(self, runs: int, epochs: int, enabled: bool = True) -> None:
        self.runs, self.epochs, self.finished = runs, epochs, 0
        self.started = self.updated = time.monotonic()
        self.enabled, self.console = enabled, Console(stderr=True)
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
        )
        self.task = self.bar.add_task("", total=runs * epochs)

    def __enter__(self) -> TrainingProgress:
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar.live.is_started:
            self.bar.stop()

    def update(self, epochs: Sequence[int], val_loss: float, best_metric: float) -> None:
        """Where the runs in progress are, and the means of their validation figures."""
        now = time.monotonic()
        pause = SECONDS_BETWEEN_UPDATES if self.console.is_terminal else SECONDS_BETWEEN_LINES
        if not self.enabled or now - self.updated < pause:
            return
        self.updated = now
        first, last = self.finished + 1, self.finished + len(epochs)
        which = f"run {first}" if first == last else f"runs {first} to {last}"
        description = f"{which} of {self.runs}, validation: loss {val_loss:.3f}, best {best_metric:.1f} %"
        if not self.console.is_terminal:
            self.console.print(f"epoch {max(epochs)} of {description}", highlight=False, soft_wrap=True)
            return
        if now - self.started > SECONDS_BEFORE_SHOWN and not self.bar.live.is_started:
            self.bar.start()
        self.bar.update(self.task, completed=self.finished * self.epochs + sum(epochs), description=description)

    def finish_run(self) -> None:
        """A run that stopped early counts as whole, so that the bar only moves forward."""
        self.finished += 1
