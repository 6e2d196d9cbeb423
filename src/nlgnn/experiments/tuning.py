"""What a search found, as sections: the best settings, and how much each option matters."""

from __future__ import annotations

from nlgnn.experiments.compare import Spread, selection_words
from nlgnn.experiments.section import Section
from nlgnn.training.tuned import Tried, Tuned

MOST_ROWS = 10


def tuned_sections(tuned: Tuned) -> list[Section]:
    metric, rows = tuned.recipe.metric, tuned.rows
    shown = [
        {
            "rank": str(rank),
            **{name.replace("_", " "): str(value) for name, value in row.setting.items()},  # names that can be wrapped
            f"validation {metric} %": "failed" if row.mean is None else str(Spread(row.mean, row.std)),
            "epochs": f"{row.epochs:.0f}" + " (dropped)" * row.dropped,
            "s": f"{row.seconds:.1f}",
        }
        for rank, row in enumerate(rows[:MOST_ROWS], start=1)
    ]
    best = Section(f"Search: {tuned.model} on {tuned.graph}", shown, _caption(tuned))
    if not tuned.importances:
        return [best._replace(text=f"How much each option matters cannot be said: {tuned.importances_of}.")]
    rest = max(0.0, 1 - sum(tuned.importances.values()))
    shares = [
        {"option": name, "share": f"{100 * share:.0f} %"}
        for name, share in (*tuned.importances.items(), ("several together, or chance", rest))
    ]
    words = (
        f"Share of the variance of {tuned.importances_of} that an option explains alone (functional ANOVA). "
        "Where settings differ by less than their standard deviation, all of it may be chance."
    )
    return [best, Section("What matters", shares, words)]


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
