"""The page of a search: the best setting, how every setting did by each option, and which options matter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nlgnn.experiments.compare import Spread
from nlgnn.experiments.tuning import tuned_sections
from nlgnn.report.columns import columns_of
from nlgnn.report.page import Command, Figure, Headline, Part, write_page
from nlgnn.report.palette import PALETTE
from nlgnn.training.space import setting_words
from nlgnn.training.tuned import Tried, Tuned

BEST, WHOLE, DROPPED = "best", "finished", "dropped"
COLOURS = {BEST: PALETTE[5], WHOLE: PALETTE[0], DROPPED: PALETTE[7]}


def write_tuning_page(path: Path, tuned: Tuned, command: str, gate: str = "") -> None:
    """`command` trains what was taken; `gate` is what the gate of an automatic choice says of it."""
    write_page(path, f"Search over {tuned.model} on {tuned.graph}", tuning_parts(tuned, command, gate))


def tuning_parts(tuned: Tuned, command: str, gate: str) -> list[Part]:
    return [
        headline(tuned, gate),
        Command("On all splits, with the whole schedule and test figures", command),
        *(option_figure(tuned, option) for option in tuned.space.searched),
        *importance_figures(tuned),
        *tuned_sections(tuned),
    ]


def headline(tuned: Tuned, gate: str) -> Headline:
    best, number = tuned.best, len(tuned.rows)
    assert best.mean is not None  # a search without one has raised
    what = (
        f"validation {tuned.recipe.metric} of {tuned.model} on {tuned.graph}, the best of {number} "
        f"setting{'s' * (number != 1)}, mean of {tuned.runs} run{'s' * (tuned.runs != 1)}, protocol {tuned.protocol}"
    )
    setting = setting_words(tuned.options) or "no option is set"
    caution = (
        "It was chosen by this very figure, which is therefore optimistic. No test node was looked at: the command "
        "below trains the setting anew and tells how it does on them."
    )
    spread = Spread(best.mean, best.std)
    return Headline(f"{spread} %", what, [f"The setting: {setting}.", caution, *([gate] if gate else [])])


def option_rows(tuned: Tuned, option: str) -> list[dict[str, Any]]:
    """Of every setting that has a figure: its value of an option, and how it did."""
    return [
        {
            "value": str(row.setting[option]),
            "validation": row.mean,
            "came": _came(row, row is tuned.best),
            "epochs": row.epochs,
            "setting": setting_words(row.setting),
        }
        for row in tuned.rows
        if row.mean is not None
    ]


def _came(row: Tried, is_best: bool) -> str:
    return BEST if is_best else DROPPED if row.dropped else WHOLE


def option_figure(tuned: Tuned, option: str) -> Figure:
    rows = option_rows(tuned, option)
    over = f"{tuned.runs} run{'s' * (tuned.runs != 1)}"
    caption = f"A point a setting: mean over {over}, protocol {tuned.protocol}; {_words_of_dropped(tuned.rows)}"
    chart = option_chart(option, value_order(tuned.space.searched[option]), tuned.recipe.metric)
    return Figure(f"By {option}", chart, {"rows": columns_of(rows)}, caption, half=True)


def value_order(values: Sequence[Any]) -> list[str]:
    """Numbers by size, all else as it was given."""
    are_numbers = all(isinstance(value, int | float) for value in values)
    return [str(value) for value in (sorted(values) if are_numbers else values)]


def _words_of_dropped(rows: Sequence[Tried]) -> str:
    failed = sum(row.mean is None for row in rows)
    words = "its other options differ."
    words += " Of dropped settings, as far as they came." * any(row.dropped for row in rows)
    return words + (f" {failed} failed, and {'is' if failed == 1 else 'are'} left out." if failed else "")


def option_chart(option: str, values: Sequence[str], metric: str) -> Any:
    import altair

    scale = altair.Scale(domain=list(COLOURS), range=list(COLOURS.values()))
    shape = altair.Scale(domain=list(COLOURS), range=["diamond", "circle", "circle"])
    tooltip = [
        altair.Tooltip("setting:N"),
        altair.Tooltip("validation:Q", format=".2f", title=f"validation {metric} %"),
        altair.Tooltip("epochs:Q", format=".0f"),
        altair.Tooltip("came:N", title="came"),
    ]
    base = altair.Chart(altair.NamedData("rows")).encode(
        x=altair.X("value:N", sort=list(values), title=option, axis=altair.Axis(labelAngle=0, labelLimit=90)),
        y=altair.Y("validation:Q", title=f"validation {metric} %", scale=altair.Scale(zero=False)),
        color=altair.Color("came:N", title=None, scale=scale),
        shape=altair.Shape("came:N", title=None, scale=shape),
        tooltip=tooltip,
    )
    best = base.transform_filter(f"datum.came === '{BEST}'")  # once more, above those that are level with it
    layers = [base.mark_point(filled=True, size=80, opacity=0.75), best.mark_point(filled=True, size=130, opacity=1)]
    return altair.layer(*layers).properties(width="container", height=220)


def importance_rows(tuned: Tuned) -> list[dict[str, Any]]:
    return [{"option": option, "share": 100 * share} for option, share in tuned.importances.items()]


def importance_figures(tuned: Tuned) -> list[Figure]:
    """One, or none where nothing can be said."""
    rows = importance_rows(tuned)
    if not rows:
        return []
    caption = f"The share of the variance of {tuned.importances_of} that an option explains alone (functional ANOVA)."
    title = "Which options matter"
    return [Figure(title, importance_chart(len(rows)), {"rows": columns_of(rows)}, caption, half=True)]


def importance_chart(rows: int) -> Any:
    import altair

    base = altair.Chart(altair.NamedData("rows"))
    y = altair.Y("option:N", sort=None, title=None)
    x = altair.X("share:Q", title="share of the variance, %", scale=altair.Scale(domainMin=0))
    tooltip = [altair.Tooltip("option:N"), altair.Tooltip("share:Q", format=".1f")]
    bars = base.mark_bar(color=PALETTE[4], height={"band": 0.6}).encode(y=y, x=x, tooltip=tooltip)
    text = base.mark_text(align="left", dx=5).encode(
        y=y, x=altair.X("share:Q"), text=altair.Text("share:Q", format=".0f")
    )
    return altair.layer(bars, text).properties(width="container", height=34 * rows)
