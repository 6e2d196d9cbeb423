"""Means with their intervals: a model compared with baselines, and paired differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from nlgnn.report.figures import PALETTE, tooltips
from nlgnn.report.page import Figure, Headline, caption, columns_of
from nlgnn.report.table import Section
from nlgnn.selection.statistics import (
    Figures,
    Interval,
    SingleRun,
    compared_rows,
    is_clearly_better,
    paired_interval,
    spread,
)
from nlgnn.training.recipe import metric_heading, metric_text
from nlgnn.training.replica import Run

MAJORITY, CONSTANT = "majority class", "constant score"
AHEAD, NOT_CLEAR, BEHIND = "better", "unclear", "worse"
STANDING_COLOURS = {AHEAD: PALETTE[0], NOT_CLEAR: PALETTE[7], BEHIND: PALETTE[5]}


class Answer(NamedTuple):
    """Figures in percent, by label, over the same splits. The model comes first, then what it is compared with.

    `part` is "test", or "validation" if no test node has a label. `single` holds the logits of the only run and of the
    constant answer, if there is one run and its predictions are known.
    """

    figures: Mapping[str, Figures]
    part: str
    metric: str
    protocol: str
    selection: str
    single: SingleRun | None = None

    @property
    def model(self) -> str:
        """The label of the model."""
        return next(iter(self.figures))

    @property
    def differences(self) -> dict[str, Interval | None]:
        """The model minus each of the others."""
        (_, own), *others = self.figures.items()
        return {label: paired_interval(own, figures) for label, figures in others}

    def headline(self, verdict: str) -> Headline:
        """Return the mean with its interval, where the model stands, and the verdict of a diagnosis."""
        own = [value for value in self.figures[self.model] if value is not None]
        mean, interval = spread(own), mean_interval(own)
        what = f"{self.part} {self.metric} of {self.model}"
        if interval is not None:
            low, high = within_bounds(interval)
            what += f", 95 % interval {metric_text(self.metric, low)} to {metric_text(self.metric, high)}"
        what += f", mean of {len(own)} run{'s' * (len(own) != 1)}, protocol {self.protocol}"
        single = caption("single-run") if len(own) == 1 else ""
        sentences = ["" if self.part == "test" else caption("no-test-labels"), single, self.words, verdict]
        figure = "–" if mean is None else metric_text(self.metric, mean.mean)
        if mean is not None and self.is_better_than_constant is False:
            what, figure = f"{what}: {figure}", "Not clearly better than a constant answer"
        return Headline(figure, what, [words for words in sentences if words])

    @property
    def is_better_than_constant(self) -> bool | None:
        """Return whether the model is clearly better than a constant answer; None if nothing tells."""
        for label in (MAJORITY, CONSTANT):
            if spread(self.figures.get(label, [])) is not None:
                return is_clearly_better(self.figures[self.model], self.figures[label], self.single)
        return None

    @property
    def words(self) -> str:
        """The standing of the model in words: one sentence each for better, unclear and worse."""
        kinds = {
            AHEAD: "Clearly better than",
            NOT_CLEAR: "Not clearly different from",
            BEHIND: "Clearly worse than",
        }
        standings: dict[str, list[str]] = {kind: [] for kind in kinds}
        for label, difference in self.differences.items():
            if difference is not None:
                standings[standing(difference)].append(f"{label} ({difference.mean:+.1f})")
        return " ".join(f"{kinds[kind]} {', '.join(labels)}." for kind, labels in standings.items() if labels)

    def figure(self) -> Figure:
        """Return the figure of all means with their intervals."""
        text = caption("means", protocol=self.protocol, selection=self.selection)
        axis = f"{self.part} {metric_heading(self.metric)}"
        return means_figure("Compared with baselines", axis, self.figures, text)

    def section(self, words: str = "") -> Section:
        """Return the same figures as a table, with paired differences. Further words end its caption."""
        heading = f"{self.part} {metric_heading(self.metric)}"
        rows = compared_rows("model", heading, self.figures, f"{self.model} minus it", self.differences)
        for row, figures in zip(rows, self.figures.values(), strict=True):
            row["runs"] = str(sum(value is not None for value in figures))
        return Section("", rows, f"{caption('compared')} {words}".strip())


def standing(difference: Interval) -> str:
    """Say whether a difference is clearly positive, clearly negative, or neither."""
    return AHEAD if difference.is_above_zero else BEHIND if difference.is_below_zero else NOT_CLEAR


def figures_of(runs: Sequence[Run], metric: str, part: str, indices: Sequence[int]) -> list[float | None]:
    """Return the figures of the runs with these numbers."""
    by_index = {run.index: (run.test if part == "test" else run.val).get(metric) for run in runs if run.failure is None}
    return [by_index.get(index) for index in indices]


def mean_interval(figures: Sequence[float]) -> Interval | None:
    """Return the 95 % t-interval of a mean, or None if all figures are equal and say nothing about its error."""
    return paired_interval(figures, [0.0] * len(figures)) if len(set(figures)) > 1 else None


def within_bounds(interval: Interval) -> tuple[float, float]:
    """Return the ends of an interval, cut to 0 and 100, or to 0 for a negated loss, which few runs may exceed.

    Lift may be above 100.
    """
    if interval.mean < 0:
        return interval.low, min(0.0, interval.high)
    if interval.mean > 100:
        return max(0.0, interval.low), interval.high
    return max(0.0, interval.low), min(100.0, interval.high)


def interval_rows(compared: Mapping[str, Figures]) -> list[dict[str, Any]]:
    """Return the mean and its 95 % t-interval of each model that has figures."""
    rows = []
    for label, figures in compared.items():
        good = [value for value in figures if value is not None]
        mean, interval = spread(good), mean_interval(good)
        if mean is not None:
            low, high = (mean.mean, mean.mean) if interval is None else within_bounds(interval)
            rows.append({"model": label, "mean": mean.mean, "low": low, "high": high, "runs": len(good)})
    return rows


def means_figure(title: str, axis: str, compared: Mapping[str, Figures], words: str, half: bool = False) -> Figure:
    """Draw the means of several models as points."""
    rows = interval_rows(compared)
    return Figure(title, means_chart("model", axis, len(rows)), {"rows": columns_of(rows)}, words, half=half)


def difference_rows(differences: Mapping[str, Interval | None]) -> list[dict[str, Any]]:
    """Return a row for each known difference."""
    return [
        {
            "difference": label,
            "mean": interval.mean,
            "low": interval.low,
            "high": interval.high,
            "runs": interval.pairs,
            "standing": standing(interval),
        }
        for label, interval in differences.items()
        if interval is not None
    ]


def differences_figures(title: str, axis: str, differences: Mapping[str, Interval | None], words: str) -> list[Figure]:
    """Draw paired differences around a zero line. The list is empty if no difference is known."""
    rows = difference_rows(differences)
    chart = means_chart("difference", axis, len(rows), form="+.1f", colour="standing")
    return [Figure(title, chart, {"rows": columns_of(rows)}, words, half=True)] if rows else []


def means_chart(label: str, axis: str, rows: int, form: str = ".1f", colour: str = "") -> Any:
    """Draw points with horizontal intervals, one line per label; with `colour`, around a zero line."""
    import altair

    base = altair.Chart(altair.NamedData("rows")).encode(y=altair.Y(f"{label}:N", sort=None, title=None))
    tooltip = tooltips([f"{label}:N", "mean:Q", "low:Q", "high:Q", "runs:Q"], mean=form, low=form, high=form)
    x = altair.X("low:Q", title=axis, scale=altair.Scale(zero=False), axis=altair.Axis(tickCount=6))
    intervals = base.mark_rule(strokeWidth=2).encode(x=x, x2=altair.X2("high:Q"))
    points = base.mark_point(filled=True, size=90, opacity=1, color=PALETTE[0])
    points = points.encode(x=altair.X("mean:Q"), tooltip=tooltip)
    text = base.mark_text(align="left", dx=7).encode(x=altair.X("high:Q"), text=altair.Text("mean:Q", format=form))
    layers = [intervals, points]
    if colour:
        scale = altair.Scale(domain=list(STANDING_COLOURS), range=list(STANDING_COLOURS.values()))
        zero = altair.Chart(altair.NamedData("rows")).mark_rule(strokeDash=[3, 3], opacity=0.6)
        coloured = [layer.encode(color=altair.Color(f"{colour}:N", title=None, scale=scale)) for layer in layers]
        layers = [zero.encode(x=altair.XDatum(0)), *coloured]
    return altair.layer(*layers, text).properties(width="container", height=34 * rows)


def bars_chart(
    label: str,
    value: str,
    axis: str,
    rows: int,
    *,
    most: float,
    form: str = "",
    more: Sequence[str] = (),
) -> Any:
    """Draw horizontal bars, each with a line from the field `low` to the field `high`.

    Args:
        label: The field that names a bar.
        value: The field that a bar is as long as.
        axis: The title of the axis.
        rows: The number of bars.
        most: The end of the axis.
        form: How to print the value at the end of a bar. It is not printed by default.
        more: Further fields to show for the bar under the pointer.
    """
    import altair

    base = altair.Chart(altair.NamedData("rows")).encode(
        y=altair.Y(f"{label}:N", sort=None, title=None),
        tooltip=tooltips([f"{label}:N", *(f"{field}:Q" for field in (value, *more))], **{value: form or ".3~f"}),
    )
    x = altair.X(f"{value}:Q", title=axis, scale=altair.Scale(domain=[0, most]), axis=altair.Axis(tickCount=6))
    bars = base.mark_bar(color=PALETTE[4], height={"band": 0.6}).encode(x=x)
    layers = [bars, base.mark_rule(strokeWidth=2, clip=True).encode(x=altair.X("low:Q"), x2=altair.X2("high:Q"))]
    if form:
        text = base.mark_text(align="left", dx=8).encode(text=altair.Text(f"{value}:Q", format=form))
        layers.append(text.encode(x=altair.X("high:Q")))
    return altair.layer(*layers).properties(width="container", height=32 * rows)
