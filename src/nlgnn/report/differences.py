"""Paired differences with their intervals: who is ahead, who is behind, and where it cannot be told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nlgnn.experiments.interval import Interval
from nlgnn.report.columns import columns_of
from nlgnn.report.page import Figure
from nlgnn.report.palette import PALETTE

AHEAD, NOT_CLEAR, BEHIND = "ahead", "unclear", "behind"
COLOURS = {AHEAD: PALETTE[0], NOT_CLEAR: PALETTE[7], BEHIND: PALETTE[5]}


def difference_rows(differences: Mapping[str, Interval | None]) -> list[dict[str, Any]]:
    """A row for each that is known."""
    return [
        {
            "difference": label,
            "mean": interval.mean,
            "low": interval.low,
            "high": interval.high,
            "runs": interval.pairs,
            "standing": AHEAD if interval.is_above_zero else BEHIND if interval.is_below_zero else NOT_CLEAR,
        }
        for label, interval in differences.items()
        if interval is not None
    ]


def differences_figures(
    title: str, axis: str, differences: Mapping[str, Interval | None], caption: str
) -> list[Figure]:
    """One, or none where no difference is known."""
    rows = difference_rows(differences)
    if not rows:
        return []
    return [Figure(title, differences_chart(axis, len(rows)), {"rows": columns_of(rows)}, caption, half=True)]


def differences_chart(title: str, rows: int) -> Any:
    import altair

    base = altair.Chart(altair.NamedData("rows"))
    y = altair.Y("difference:N", sort=None, title=None)
    x = altair.X("low:Q", title=title, axis=altair.Axis(tickCount=6))
    colour = altair.Color(
        "standing:N", title=None, scale=altair.Scale(domain=list(COLOURS), range=list(COLOURS.values()))
    )
    tooltip = [
        altair.Tooltip("difference:N"),
        *(altair.Tooltip(f"{name}:Q", format="+.1f") for name in ("mean", "low", "high")),
        altair.Tooltip("runs:Q"),
    ]
    zero = base.mark_rule(strokeDash=[3, 3], opacity=0.6).encode(x=altair.datum(0))
    bars = base.mark_rule(strokeWidth=2).encode(y=y, x=x, x2=altair.X2("high:Q"), color=colour)
    points = base.mark_point(filled=True, size=90, opacity=1).encode(
        y=y, x=altair.X("mean:Q"), color=colour, tooltip=tooltip
    )
    text = base.mark_text(align="left", dx=7).encode(
        y=y, x=altair.X("high:Q"), text=altair.Text("mean:Q", format="+.1f")
    )
    return altair.layer(zero, bars, points, text).properties(width="container", height=34 * rows)
