"""The answer: a model's test figure beside the majority class, its local part and its controls, on the same splits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from nlgnn.experiments.compare import spread
from nlgnn.experiments.interval import Interval, paired_interval
from nlgnn.experiments.section import Section
from nlgnn.report.columns import columns_of
from nlgnn.report.page import Figure, Headline
from nlgnn.report.palette import PALETTE
from nlgnn.training.run import Run

Figures = Sequence[float | None]  # one a run; None where it failed, or has none
MAJORITY = "majority class"
NO_TEST_LABELS = (
    "No test node has a label: these figures are of the nodes that epochs were chosen by, and rather too high."
)


class Answer(NamedTuple):
    """Figures in percent, by label, over the same splits; the model's own come first.

    `part` is "test", or "validation" where no test node has a label.
    """

    figures: Mapping[str, Figures]
    part: str
    metric: str
    protocol: str
    selection: str

    @property
    def model(self) -> str:
        return next(iter(self.figures))

    @property
    def differences(self) -> dict[str, Interval | None]:
        """The model minus each of the others."""
        own, *others = self.figures.values()
        return dict(zip(list(self.figures)[1:], (paired_interval(own, other) for other in others), strict=True))

    def headline(self, verdict: str) -> Headline:
        own = [value for value in self.figures[self.model] if value is not None]
        mean, interval = spread(own), mean_interval(own)
        what = f"{self.part} {self.metric} of {self.model}"
        if interval is not None:
            low, high = within_percent(interval)
            what += f", 95 % interval {low:.1f} to {high:.1f}"
        what += f", mean of {len(own)} run{'s' * (len(own) != 1)}, protocol {self.protocol}"
        sentences = ["" if self.part == "test" else NO_TEST_LABELS, self.words, verdict]
        return Headline("–" if mean is None else f"{mean.mean:.1f} %", what, [words for words in sentences if words])

    @property
    def words(self) -> str:
        """Where the model stands, in a sentence for each kind of standing."""
        kinds = ("Clearly ahead of", "Not clearly different from", "Clearly behind")
        standings: dict[str, list[str]] = {kind: [] for kind in kinds}
        for label, difference in self.differences.items():
            if difference is not None:
                kind = kinds[0] if difference.is_above_zero else kinds[2] if difference.is_below_zero else kinds[1]
                standings[kind].append(f"{label} ({difference.mean:+.1f})")
        return " ".join(f"{kind} {', '.join(labels)}." for kind, labels in standings.items() if labels)

    def figure(self) -> Figure:
        rows = interval_rows(self.figures)
        return Figure(
            "Beside what it should beat",
            intervals_chart(f"{self.part} {self.metric} %", len(rows)),
            {"rows": columns_of(rows)},
            self.caption,
        )

    @property
    def caption(self) -> str:
        return (
            f"Points are means over runs, bars 95 % t-intervals. Protocol {self.protocol}, one run a split; figures of "
            f"{self.selection}. The same splits and seeds for all; splits overlap, which makes "
            "intervals rather too narrow."
        )

    def section(self) -> Section:
        rows = []
        for label, figures in self.figures.items():
            good = [value for value in figures if value is not None]
            difference = self.differences.get(label)
            rows.append(
                {
                    "model": label,
                    f"{self.part} {self.metric} %": str(spread(good) or "–"),
                    f"{self.model} minus it": "" if difference is None else str(difference),
                    "runs": str(len(good)),
                }
            )
        return Section(
            "", rows, "Mean ± sample standard deviation; differences are paired over runs, with 95 % intervals."
        )


def interval_rows(compared: Mapping[str, Figures]) -> list[dict[str, Any]]:
    """A row for each of those that have figures: their mean, and its t-interval of 95 %."""
    rows = []
    for label, figures in compared.items():
        good = [value for value in figures if value is not None]
        mean, interval = spread(good), mean_interval(good)
        if mean is not None:
            low, high = (mean.mean, mean.mean) if interval is None else within_percent(interval)
            rows.append({"model": label, "mean": mean.mean, "low": low, "high": high, "runs": len(good)})
    return rows


def within_percent(interval: Interval) -> tuple[float, float]:
    """Its ends; of few runs they can lie where no share does."""
    return max(0.0, interval.low), min(100.0, interval.high)


def mean_interval(figures: Sequence[float]) -> Interval | None:
    """The t-interval of 95 % around a mean; None of equal figures, which do not tell how sure it is."""
    return paired_interval(figures, [0.0] * len(figures)) if len(set(figures)) > 1 else None


def figures_of(runs: Sequence[Run], metric: str, part: str, indices: Sequence[int]) -> list[float | None]:
    """Of the runs with these numbers."""
    by_index = {run.index: (run.test if part == "test" else run.val).get(metric) for run in runs if run.failure is None}
    return [by_index.get(index) for index in indices]


def intervals_chart(title: str, rows: int) -> Any:
    import altair

    base = altair.Chart(altair.NamedData("rows"))
    y = altair.Y("model:N", sort=None, title=None)
    bars = base.mark_rule(strokeWidth=2).encode(
        y=y, x=altair.X("low:Q", title=title, scale=altair.Scale(zero=False)), x2=altair.X2("high:Q")
    )
    tooltip = [
        altair.Tooltip("model:N"),
        *(altair.Tooltip(f"{name}:Q", format=".1f") for name in ("mean", "low", "high")),
        altair.Tooltip("runs:Q"),
    ]
    points = base.mark_point(filled=True, size=90, opacity=1, color=PALETTE[0]).encode(
        y=y, x=altair.X("mean:Q"), tooltip=tooltip
    )
    text = base.mark_text(dy=-12).encode(y=y, x=altair.X("mean:Q"), text=altair.Text("mean:Q", format=".1f"))
    return altair.layer(bars, points, text).properties(width="container", height=40 * rows)
