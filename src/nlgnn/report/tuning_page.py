"""Results of a search: the best setting, the score of every setting by option, and the importance of options."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nlgnn.models.options import setting_words
from nlgnn.report.figures import PALETTE, tooltips
from nlgnn.report.page import Command, Figure, Headline, Part, caption, columns_of, write_page
from nlgnn.report.table import Section
from nlgnn.selection.controls import selection_words
from nlgnn.selection.statistics import Spread
from nlgnn.training.recipe import metric_heading
from nlgnn.tuning.result import Tried, Tuned

MOST_ROWS = 10
BEST, WHOLE, DROPPED = "best", "finished", "dropped"
COLOURS = {BEST: PALETTE[5], WHOLE: PALETTE[0], DROPPED: PALETTE[7]}


def write_tuning_page(path: Path, tuned: Tuned, command: str, gate: str = "") -> None:
    """Write the page of a search.

    Args:
        path: The HTML file.
        tuned: The search.
        command: The command that trains the chosen setting.
        gate: The reason for an automatic choice.
    """
    write_page(path, f"Search over {tuned.model} on {tuned.graph}", tuning_parts(tuned, command, gate))


def tuning_parts(tuned: Tuned, command: str, gate: str) -> list[Part]:
    """Return the parts of the page of a search."""
    return [
        headline(tuned, gate),
        Command("Train the setting on all splits, with test figures", command),
        *(option_figure(tuned, option) for option in tuned.space.searched),
        *tuned_sections(tuned),
    ]


def headline(tuned: Tuned, gate: str) -> Headline:
    """Return the validation score of the best setting."""
    best, number = tuned.best, len(tuned.rows)
    assert best.mean is not None  # a search without one has raised
    what = (
        f"validation {tuned.recipe.metric} of {tuned.model} on {tuned.graph}, the best of {number} "
        f"setting{'s' * (number != 1)}, mean of {_runs(tuned)}, protocol {tuned.protocol}"
    )
    setting = setting_words(tuned.options) or "all options have their defaults"
    spread = Spread(best.mean, best.std)
    return Headline(f"{spread} %", what, [f"The setting: {setting}.", caption("optimistic"), *([gate] if gate else [])])


def option_rows(tuned: Tuned, option: str) -> list[dict[str, Any]]:
    """Return one row per setting that has a score: its value of an option, and the score."""
    return [
        {
            "value": str(row.setting[option]),
            "validation": row.mean,
            "state": BEST if row is tuned.best else DROPPED if row.dropped else WHOLE,
            "epochs": row.epochs,
            "setting": setting_words(row.setting),
        }
        for row in tuned.rows
        if row.mean is not None
    ]


def option_figure(tuned: Tuned, option: str) -> Figure:
    """Draw the score of every setting by the value of one option."""
    rows, failed = option_rows(tuned, option), sum(row.mean is None for row in tuned.rows)
    text = (
        f"One point per setting: mean over {_runs(tuned)}, protocol {tuned.protocol}; its other options differ."
        + " Dropped settings show the score they had reached." * any(row.dropped for row in tuned.rows)
        + (f" {failed} failed, and {'is' if failed == 1 else 'are'} left out." if failed else "")
    )
    chart = option_chart(option, value_order(tuned.space.searched[option]), tuned.recipe.metric)
    return Figure(f"Validation score by {option}", chart, {"rows": columns_of(rows)}, text, half=True)


def value_order(values: Sequence[Any]) -> list[str]:
    """Sort numbers by size, and leave all else as given."""
    are_numbers = all(isinstance(value, int | float) for value in values)
    return [str(value) for value in (sorted(values) if are_numbers else values)]


def option_chart(option: str, values: Sequence[str], metric: str) -> Any:
    """Draw one point per setting over the values of an option."""
    import altair

    scale = altair.Scale(domain=list(COLOURS), range=list(COLOURS.values()))
    shape = altair.Scale(domain=list(COLOURS), range=["diamond", "circle", "circle"])
    base = altair.Chart(altair.NamedData("rows")).encode(
        x=altair.X("value:N", sort=list(values), title=option, axis=altair.Axis(labelAngle=0, labelLimit=90)),
        y=altair.Y("validation:Q", title=f"validation {metric_heading(metric)}", scale=altair.Scale(zero=False)),
        color=altair.Color("state:N", title=None, scale=scale),
        shape=altair.Shape("state:N", title=None, scale=shape),
        tooltip=tooltips(["setting:N", "validation:Q", "epochs:Q", "state:N"], validation=".2f", epochs=".0f"),
    )
    best = base.transform_filter(f"datum.state === '{BEST}'")  # drawn again, above those of equal score
    layers = [base.mark_point(filled=True, size=80, opacity=0.75), best.mark_point(filled=True, size=130, opacity=1)]
    return altair.layer(*layers).properties(width="container", height=220)


def tuned_sections(tuned: Tuned) -> list[Section]:
    """Return the best settings and the importance of options as tables."""
    metric = tuned.recipe.metric
    shown = [
        {
            "rank": str(rank),
            **{name.replace("_", " "): str(value) for name, value in row.setting.items()},  # names that can be wrapped
            f"validation {metric_heading(metric)}": "failed" if row.mean is None else str(Spread(row.mean, row.std)),
            **({"epochs": f"{row.epochs:.0f}" + " (dropped)" * row.dropped} if _has_epochs(tuned) else {}),
            "s": f"{row.seconds:.1f}",
        }
        for rank, row in enumerate(tuned.rows[:MOST_ROWS], start=1)
    ]
    best = Section(f"Search: {tuned.model} on {tuned.graph}", shown, _caption(tuned))
    if not tuned.importances:
        return [best._replace(text=f"The importance of options is unknown: {tuned.importances_of}.")]
    rest = max(0.0, 1 - sum(tuned.importances.values()))
    shares = [
        {"option": name, "share": f"{100 * share:.0f} %"}
        for name, share in (*tuned.importances.items(), ("several together, or chance", rest))
    ]
    return [best, Section("Importance of options", shares, caption("importance", figures=tuned.importances_of))]


def _caption(tuned: Tuned) -> str:
    rows, recipe = tuned.rows, tuned.recipe
    dropped, failed = sum(row.dropped for row in rows), [row for row in rows if row.failure]
    over = f"the first {tuned.splits} splits" if tuned.splits > 1 else "the first split"
    if tuned.runs > tuned.splits:
        over = f"{tuned.runs} runs on {over}"
    by_epochs = (
        f"preset {tuned.preset}, at most {recipe.epochs} epochs; figures of "
        f"{selection_words(recipe.selection, recipe.metric)}; test nodes are not used. epochs: mean trained; "
    )
    words = (
        f"{_shown_of(rows)} of a grid of {tuned.space.size}; mean ± sample standard deviation over {over}, "
        f"protocol {tuned.protocol}, "
        f"{by_epochs if _has_epochs(tuned) else 'test nodes are not used. '}"
        f"s: training, {sum(row.seconds for row in rows):.0f} s in all."
    )
    if dropped:
        words += f" {dropped} {'was' if dropped == 1 else 'were'} dropped early, behind half of the others."
    return words + (f" {len(failed)} failed, such as {failed[0].failure}." if failed else "")


def _shown_of(rows: tuple[Tried, ...]) -> str:
    count = f"{len(rows)} setting" + "s" * (len(rows) != 1)
    return f"The best {MOST_ROWS} of {count}" if len(rows) > MOST_ROWS else count


def _has_epochs(tuned: Tuned) -> bool:
    """Return whether the model is trained by epochs."""
    return any(row.epochs for row in tuned.rows)


def _runs(tuned: Tuned) -> str:
    return f"{tuned.runs} run{'s' * (tuned.runs != 1)}"
