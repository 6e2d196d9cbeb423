"""Tables of the automatic choice: its answers next to single models, published figures and the paper's categories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from nlgnn.paper.auto_cells import BUDGETS, HELD_OUT
from nlgnn.paper.benchmark import GRAPHS
from nlgnn.paper.cell import NOTHING, OPEN, Found, caption
from nlgnn.paper.numbers import printed_statistics
from nlgnn.paper.plans import SMALL
from nlgnn.paper.tables import CATEGORIES
from nlgnn.report.table import Rows, Section
from nlgnn.selection.clock import parse_budget
from nlgnn.selection.portfolio import read_portfolio
from nlgnn.selection.statistics import Figures, Spread, spread

ENSEMBLE = "ensemble"  # a row of the leaderboard that is no entry of the portfolio
OWN_COLUMNS = "trees, own columns"
LARGE = BUDGETS[-1]
AHEAD, NEAR, REGRET, SHARE = 5, 9, 0.5, 110  # goals of the large budget: at least, at least, at most, at most


class Answer(NamedTuple):
    """The result of a cell: a leaderboard with what was chosen from it."""

    result: Mapping[str, Any]

    def figures(self, name: str) -> Figures:
        """Return the test figure of each run of a row, None for a run without time; nothing if a run failed."""
        missing_row: Mapping[str, Any] = {"test runs": []}
        row = next((row for row in self.result["leaderboard"] if row["name"] == name), missing_row)
        found: Figures = row["test runs"]
        missing = found.count(None)
        return found if missing == row.get("postponed", missing) else []

    def test(self, name: str) -> Spread | None:
        """Return mean and deviation of the test figures of a row, None if it has none or if a run failed."""
        return spread(self.figures(name))

    def text(self, name: str) -> str | None:
        """Return the test figures of a row, with the number of runs if there was no time for all."""
        own, known = self.figures(name), self.test(name)
        runs = len(own) - own.count(None)
        return known and (str(known) if runs == len(own) else f"{known} ({runs} of {len(own)} runs)")

    def ahead_of(self, name: str, other: Answer) -> float | None:
        """Return by how much a row is ahead of another answer on test nodes, mean over the runs that both have."""
        pairs = zip(self.figures(name), other.figures(other.chosen), strict=False)
        differences = [a - b for a, b in pairs if a is not None and b is not None]
        return fmean(differences) if differences else None

    @property
    def chosen(self) -> str:
        """The name of the chosen row."""
        return str(self.result["chosen"])

    @property
    def has_all_runs(self) -> bool:
        """True if there was time for all runs of the answer."""
        return None not in self.figures(self.chosen)

    @property
    def mean(self) -> float | None:
        """The mean test figure of the answer."""
        own = self.test(self.chosen)
        return own and own.mean

    @property
    def entries(self) -> list[str]:
        """The finished entries of the portfolio. Controls and the ensemble are none of them."""
        rows = [row for row in self.result["leaderboard"] if row["status"] == "finished" and not row["control"]]
        return [row["name"] for row in rows if row["name"] != ENSEMBLE]

    @property
    def best(self) -> str | None:
        """The entry with the best test figures, on the runs that it and the answer have: known in hindsight only."""
        ahead = {name: by for name in self.entries if (by := self.ahead_of(name, self)) is not None}
        return max(ahead, key=ahead.__getitem__, default=None)

    @property
    def members(self) -> list[str]:
        """The entries in the ensemble if it was chosen, else the chosen entry."""
        rows = [row for row in self.result["leaderboard"] if row["name"] == self.chosen == ENSEMBLE]
        return list(rows[0]["options"].get("weights", {})) if rows else [self.chosen]

    @property
    def used(self) -> float:
        """The seconds of the whole command, in percent of the budget."""
        return float(100 * self.result["seconds"] / (parse_budget(self.result["budget"]) or 1))


class Answers:
    """The measured cells by graph and budget.

    Args:
        found: The cells.
    """

    def __init__(self, found: Found) -> None:
        self.cells = {(one.cell.dataset, one.cell.condition): one for one in found.values()}

    def get(self, graph: str, budget: str) -> Answer | None:
        """Return the answer within a budget, None while the cell is open."""
        one = self.cells.get((graph, budget))
        return Answer(one.result) if one and one.result else None

    def text(self, graph: str, budget: str, value: object) -> str:
        """Return a value of a cell with its marks, or the reason why there is none."""
        one = self.cells.get((graph, budget))
        return one.text(NOTHING if value is None else value) if one else NOTHING

    def regret(self, graph: str, budget: str) -> float | None:
        """Return the best entry of the large budget in hindsight minus the answer, in points of the test figure."""
        own, large = self.get(graph, budget), self.get(graph, LARGE)
        return large.ahead_of(large.best, own) if large and large.best and own else None


def auto_sections(found: Found) -> list[Section]:
    """Return goals, figures and choices of the benchmark's graphs, those of held-out graphs, entries and categories."""
    answers = Answers(found)
    names = {graph for graph, _ in answers.cells}
    own = [graph for graph in GRAPHS if graph in names]
    others = [graph for graph in HELD_OUT if graph in names and graph not in GRAPHS]
    sections = [_goals(answers, own)] if own else []
    for graphs, where in ((own, "graphs of the benchmark"), (others, "held-out graphs")):
        if graphs:
            sections += [_figures(answers, graphs, where), _choices(answers, graphs, where)]
    categories = [graph for graph in SMALL if graph in names]
    sections += [_entries(answers, [*own, *others])] if names else []
    return sections + ([_categories(answers, categories)] if categories else [])


def _goals(answers: Answers, graphs: Sequence[str]) -> Section:
    rows: Rows = []
    reached = dict.fromkeys(("ahead", "near", "regret", "share"), OPEN)
    for budget in BUDGETS:
        known = {graph: one for graph in graphs if (one := answers.get(graph, budget))}
        ahead = [
            (round(one.mean, 1) - GRAPHS[graph]["best"], one.has_all_runs)
            for graph, one in known.items()
            if one.mean is not None and "best" in GRAPHS[graph]
        ]
        regrets = [regret for graph in known if (regret := answers.regret(graph, budget)) is not None]
        rows.append(
            {
                "budget": budget,
                "measured": f"{len(known)} of {len(graphs)}",
                "at or above the published best": _counted(ahead, 0.0),
                "at most one point below it": _counted(ahead, -1.0),
                "mean regret": f"{fmean(regrets):.2f}" if regrets else OPEN,
                "largest share of the budget": f"{max(one.used for one in known.values()):.0f} %" if known else OPEN,
            }
        )
        if budget == LARGE and known:
            share = max(one.used for one in known.values())
            open_graphs = len(graphs) - len(known)
            reached = {
                "ahead": _reached(len(_reaching(ahead, 0.0)) >= AHEAD, may_change=open_graphs > 0),
                "near": _reached(len(_reaching(ahead, -1.0)) >= NEAR, may_change=open_graphs > 0),
                "regret": OPEN if open_graphs or not regrets else _reached(fmean(regrets) <= REGRET),
                "share": OPEN if open_graphs and share <= SHARE else _reached(share <= SHARE),
            }
    compared = sum("best" in GRAPHS[graph] for graph in graphs)
    goals = (f"{AHEAD}", f"{NEAR}", f"{REGRET:.2f}", f"{SHARE} %")
    rows.append(dict(zip(rows[0], (f"goal, {LARGE}", NOTHING, *goals), strict=True)))
    rows.append(dict(zip(rows[0], ("reached", NOTHING, *reached.values()), strict=True)))
    return Section("Goals", rows, caption("auto-goals", rows, compared=compared))


def _reaching(ahead: Sequence[tuple[float, bool]], least: float) -> list[bool]:
    """Return whether there was time for all runs, for each answer that is at least so far ahead."""
    return [has_all_runs for by, has_all_runs in ahead if by >= least - 1e-9]


def _counted(ahead: Sequence[tuple[float, bool]], least: float) -> str:
    """Return how many answers are at least so far ahead, and how many of them have all runs."""
    reaching = _reaching(ahead, least)
    partly = "" if all(reaching) else f" ({sum(reaching)} with all runs)"
    return f"{len(reaching)} of {len(ahead)}{partly}"


def _reached(reached: bool, may_change: bool = False) -> str:
    """Return whether a goal is reached; open if it is not and further graphs may change that."""
    return "yes" if reached else OPEN if may_change else "no"


def _figures(answers: Answers, graphs: Sequence[str], where: str) -> Section:
    rows: Rows = []
    for graph in graphs:
        large, known = answers.get(graph, LARGE), GRAPHS.get(graph, {})
        measured = [one for budget in BUDGETS if (one := answers.get(graph, budget))]
        row = {"graph": graph, "metric": measured[0].result["metric"] if measured else OPEN}
        for budget in reversed(BUDGETS):
            own = answers.get(graph, budget)
            row[f"auto, {budget}"] = answers.text(graph, budget, own and own.text(own.chosen))
        row["best entry in hindsight"] = answers.text(graph, LARGE, large and large.best and large.text(large.best))
        for budget in reversed(BUDGETS):
            regret = answers.regret(graph, budget)
            row[f"regret, {budget}"] = OPEN if regret is None else f"{regret:+.1f}"
        row["boosting on own columns"] = answers.text(graph, LARGE, large and large.text(OWN_COLUMNS))
        if graph in GRAPHS:
            row["published best"] = f"{known['best']:.1f}" if "best" in known else NOTHING
            row["source"] = known.get("source", known.get("note", NOTHING) if "best" in known else NOTHING)
        rows.append(row)
    protocols = list(dict.fromkeys(answers.cells[graph, LARGE].cell.protocol for graph in graphs))
    words = caption("auto-figures", rows, protocols=", ".join(protocols), own=OWN_COLUMNS, large=LARGE)
    return Section(f"Test figures: {where}", rows, words, text_columns=2)


def _choices(answers: Answers, graphs: Sequence[str], where: str) -> Section:
    rows: Rows = []
    loads: list[float] = []
    machines: dict[str, None] = {}
    for graph in graphs:
        row = {"graph": graph, "held out": "yes" if graph in HELD_OUT else "no"}
        seconds = {}
        for budget in reversed(BUDGETS):
            own = answers.get(graph, budget)
            row[f"chosen, {budget}"] = answers.text(graph, budget, own and own.chosen)
            text = own and f"{own.result['seconds']:.0f} ({own.used:.0f} %)"
            seconds[f"seconds, {budget}"] = answers.text(graph, budget, text)
            if own:
                loads += [load for load in own.result["load"] if load is not None]
                machines["{processor}, cores {cores}, threads {threads}".format_map(own.result)] = None
        large = answers.get(graph, LARGE)
        row["best entry in hindsight"] = answers.text(graph, LARGE, large and large.best)
        rows.append(row | seconds)
    load = f"; load average before and after a command {min(loads)} to {max(loads)}" if loads else ""
    machine = f"Measured on: {'; '.join(machines)}{load}." if machines else ""
    words = caption("auto-choices", rows, machine=machine, large=LARGE)
    return Section(f"Choices and seconds: {where}", rows, words)


def _entries(answers: Answers, graphs: Sequence[str]) -> Section:
    known = {budget: [one for graph in graphs if (one := answers.get(graph, budget))] for budget in BUDGETS}
    names = [entry.name for entry in read_portfolio()]
    names += sorted({name for one in known[LARGE] for name in one.entries} - set(names))
    rows: Rows = []
    for name in names:
        row = {"entry": name}
        for budget in reversed(BUDGETS):
            row[f"finished, {budget}"] = str(sum(name in one.entries for one in known[budget]))
            row[f"chosen, {budget}"] = str(sum(name == one.chosen for one in known[budget]))
            row[f"chosen or in the ensemble, {budget}"] = str(sum(name in one.members for one in known[budget]))
        rows.append(row | {"best in hindsight": str(sum(name == one.best for one in known[LARGE]))})
    counted = " and ".join(f"{len(known[budget])} graphs with {budget}" for budget in reversed(BUDGETS))
    return Section("Entries of the portfolio", rows, caption("auto-entries", rows, counted=counted))


def _categories(answers: Answers, graphs: Sequence[str]) -> Section:
    rows: Rows = []
    equal = known = 0
    for graph in graphs:
        own, printed = answers.get(graph, LARGE), printed_statistics(graph)
        paper = CATEGORIES[printed["category"]] if printed else NOTHING
        found = own and (own.result["category"] or "mlp, gcn or gat not finished")
        equal, known = equal + (found == paper), known + (own is not None)
        rows.append({"graph": graph, "paper": paper, "race": answers.text(graph, LARGE, found)})
    words = caption("auto-categories", rows, equal=equal, known=known, large=LARGE)
    return Section("Categories found by the race", rows, words, text_columns=3)
