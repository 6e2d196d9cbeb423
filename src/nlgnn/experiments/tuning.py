"""What a search found, as sections: the best settings, and how much each option matters."""

from __future__ import annotations

from nlgnn.experiments.compare import Spread, selection_words
from nlgnn.experiments.section import Section
from nlgnn.training.space import Space, Values, setting_words
from nlgnn.training.tuned import Tried, Tuned

MOST_ROWS = 10
ROOM = 50  # for the columns of options, beside those of figures, where a terminal has 80


def tuned_sections(tuned: Tuned) -> list[Section]:
    metric, rows, one_column = tuned.recipe.metric, tuned.rows, _is_wide(tuned.space)
    shown = [
        {
            **({"setting": setting_words(row.setting) or "as given"} if one_column else _cells(row.setting)),
            f"validation {metric} %": "failed" if row.mean is None else str(Spread(row.mean, row.std)),
            "epochs": f"{row.epochs:.0f}" + " (dropped)" * row.dropped,
            "s": f"{row.seconds:.1f}",
        }
        for row in rows[:MOST_ROWS]
    ]
    best = Section(f"Search: {tuned.model} on {tuned.graph}", shown, _caption(tuned), text_columns=int(one_column))
    if not tuned.importances:
        return [best._replace(text=f"How much each option matters cannot be said: {tuned.importances_of}.")]
    shares = [{"option": name, "share": f"{100 * share:.0f} %"} for name, share in tuned.importances.items()]
    words = f"Share of the variance of {tuned.importances_of} that an option explains alone (functional ANOVA)."
    return [best, Section("What matters", shares, words)]


def _is_wide(space: Space) -> bool:
    """Whether a setting is shown in one column, since with one for each option words would be broken, or none is."""
    widths = [
        2 + max(len(word) for word in (*name.split("_"), *map(str, values))) for name, values in space.searched.items()
    ]
    return not widths or sum(widths) > ROOM


def _cells(setting: Values) -> dict[str, str]:
    """Under names that can be wrapped."""
    return {name.replace("_", " "): str(value) for name, value in setting.items()}


def _caption(tuned: Tuned) -> str:
    rows, recipe = tuned.rows, tuned.recipe
    dropped, failed = sum(row.dropped for row in rows), [row for row in rows if row.failure]
    over = f"the first {tuned.splits} splits" if tuned.splits > 1 else "the first split"
    if tuned.runs > tuned.splits:
        over = f"{tuned.runs} runs on {over}"
    words = (
        f"{_shown_of(rows)} of a grid of {tuned.space.size}; mean ± sample standard deviation over {over}, "
        f"protocol {tuned.protocol}, preset {tuned.preset}, at most {recipe.epochs} epochs; figures of "
        f"{selection_words(recipe.selection, recipe.metric)}; test nodes play no part. "
        f"epochs: mean trained; s: training, {sum(row.seconds for row in rows):.0f} s in all."
    )
    words += (
        f" {dropped} {'was' if dropped == 1 else 'were'} dropped on the way, being behind half of the others."
        * bool(dropped)
    )
    return words + (f" {len(failed)} failed, such as {failed[0].failure}." if failed else "")


def _shown_of(rows: tuple[Tried, ...]) -> str:
    count = f"{len(rows)} setting" + "s" * (len(rows) != 1)
    return f"The best {MOST_ROWS} of {count}" if len(rows) > MOST_ROWS else count
