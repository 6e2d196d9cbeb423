"""What every figure of a page must keep to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from nlgnn.report.page import Figure, Part


def figures_of(parts: Sequence[Part]) -> dict[str, Figure]:
    """By title, each of which there is once."""
    figures = [part for part in parts if isinstance(part, Figure)]
    found = {figure.title: figure for figure in figures}
    assert len(found) == len(figures)
    return found


def check(figure: Figure) -> None:
    """Its specification is one, what it draws is in its table, and it is told what it shows."""
    spec = figure.chart.to_dict()  # which validates it
    used, made = set(_values(spec, "field")), set(_values(spec, "as"))
    columns = {name for table in figure.tables.values() for name in table}
    assert used
    assert used <= columns | made, used - columns - made
    assert set(_values(spec.get("data", {}), "name")) <= set(figure.tables)
    assert figure.caption
    lengths = {len(column) for column in figure.tables["rows"].values()}
    assert len(lengths) == 1
    assert lengths != {0}


def _values(spec: Any, key: str) -> Iterator[str]:
    if isinstance(spec, dict):
        for name, value in spec.items():
            if name == key and isinstance(value, str):
                yield value
            yield from _values(value, key)
    elif isinstance(spec, list):
        for value in spec:
            yield from _values(value, key)
