"""Paired differences as rows: what is known, and who is ahead."""

from __future__ import annotations

from chart_checks import check
from nlgnn.report.figures.intervals import AHEAD, BEHIND, NOT_CLEAR, difference_rows, differences_figures
from nlgnn.selection.statistics import Interval

DIFFERENCES = {
    "a − b": Interval(2.0, 0.5, 0.9, 3.1, 5),
    "c − b": Interval(0.5, 0.5, -0.6, 1.6, 5),
    "d − b": Interval(-2.0, 0.5, -3.1, -0.9, 4),
    "e − b": None,
}


def test_rows_say_who_is_ahead() -> None:
    rows = difference_rows(DIFFERENCES)
    assert [(row["difference"], row["standing"]) for row in rows] == [
        *(("a − b", AHEAD), ("c − b", NOT_CLEAR), ("d − b", BEHIND))
    ]
    assert rows[2] == {"difference": "d − b", "mean": -2, "low": -3.1, "high": -0.9, "runs": 4, "standing": BEHIND}


def test_no_figure_where_nothing_is_known() -> None:
    (figure,) = differences_figures("Title", "points", DIFFERENCES, "How.")
    check(figure)
    assert differences_figures("Title", "points", {"e − b": None}, "How.") == []
