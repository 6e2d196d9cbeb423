"""How far a search is: settings finished here and elsewhere, the best figure so far, time left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nlgnn.training.progress import ProgressBar
from nlgnn.training.replica import Replica

if TYPE_CHECKING:
    from nlgnn.training.tuned import Tried


class SearchProgress(ProgressBar):
    """A bar on a terminal, a line now and then in a log."""

    def __init__(self, settings: int, metric: str, enabled: bool = True) -> None:
        super().__init__(settings, enabled)
        self.settings, self.metric = settings, metric
        self.words, self.finished = "", 0

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
        self._show(f", {settings} setting{'s' * (settings != 1)} in epoch {epochs}")

    def _show(self, where: str = "") -> None:
        if self.is_due():
            description = f"{self.words}{where}"
            of_all = f"{self.finished} of {self.settings} setting{'s' * (self.settings != 1)}"
            self.show(self.finished, description, f"{of_all}, {description}")
