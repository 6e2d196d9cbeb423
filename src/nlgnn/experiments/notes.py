"""Notes on a table: words by hand, figures from the measured cells.

The file has a heading a system, `## h2gcn`. In it `{texas-h2gcn}` is the figure of that cell, `{texas-h2gcn printed}`
what was printed for it, and `{texas-h2gcn - texas-gcn}` their paired difference with its standard error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from nlgnn.errors import DataError, nearest
from nlgnn.experiments.measured import Measured


def read_notes(path: Path, cells: Mapping[str, Measured]) -> dict[str, str]:
    """The text by heading, filled in."""
    text = path.read_text() if path.exists() else ""
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    systems = list(dict.fromkeys(measured.cell.system for measured in cells.values()))
    for heading in parts[1::2]:
        if heading not in systems:
            raise DataError(f"{path}: there is no system {heading!r}.", nearest(heading, systems))
    return {
        heading: re.sub(r"\{([^{}]+)\}", lambda found: _figure(found[1], path, cells), body).strip()
        for heading, body in zip(parts[1::2], parts[2::2], strict=True)
    }


def _figure(wanted: str, path: Path, cells: Mapping[str, Measured]) -> str:
    names = [name.removesuffix(" printed") for name in wanted.split(" - ")]
    for name in names:
        if name not in cells:
            raise DataError(f"{path}: there is no cell {name!r}.", nearest(name, list(cells)))
    cell, *others = (cells[name] for name in names)
    if others:
        return cell.minus(others[0])
    return cell.printed_text if wanted.endswith(" printed") else cell.figure
