"""ResultTable: one of the tables that `nlgnn reproduce` makes, its cells and what they show once measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nlgnn.experiments.section import Section


class ResultTable(NamedTuple):
    """Both are functions of the protocol too, which tables that have only one do not look at.

    `cells(protocol)` are those to be measured, in this order; `sections(cells, results, protocol)` is what is shown of
    them, also where some are still open.
    """

    cells: Callable[[str], Sequence[Any]]
    sections: Callable[[Sequence[Any], Path, str], list[Section]]
