"""What tables that are read as a whole have in common: columns of a frame in memory."""

from __future__ import annotations

import polars as pl


class HeldFrame:
    frame: pl.DataFrame

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.frame.columns)

    @property
    def num_rows(self) -> int:
        return self.frame.height

    def load(self, name: str) -> pl.Series:
        return self.frame.get_column(name)
