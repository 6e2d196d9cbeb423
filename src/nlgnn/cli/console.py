"""The consoles that commands print to, and the tables and fact sheets that they print."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from nlgnn.cli.outages import outage
from nlgnn.errors import NlgnnError, NlgnnWarning
from nlgnn.report.table import Section, short
from nlgnn.report.text import sections_page, table_of

if TYPE_CHECKING:
    from nlgnn.graph.graph import Graph
    from nlgnn.training.decision import Decision
    from nlgnn.training.replica import Run
    from nlgnn.training.train import Trained

MOST_COLUMNS = 30  # of a user's table that are listed
# Names of files and values in them may hold control sequences of terminals, or characters that cannot be encoded.
UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class SafeConsole(Console):
    """A console that prints control characters of its input as escapes, such as \\u001b."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            shown = UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", segment.text)
            yield segment if segment.control else Segment(shown, segment.style)


called: ContextVar[list[str]] = ContextVar("called")  # the command line
began: ContextVar[float] = ContextVar("began")  # when the command began, by time.monotonic
console = SafeConsole(highlight=False)
errors = SafeConsole(stderr=True, highlight=False)


def comma_separated(text: str) -> list[str]:
    """Return the parts of a text between commas, without blanks around them."""
    return [name.strip() for name in text.split(",") if name.strip()]


@contextmanager
def told_warnings() -> Iterator[None]:
    """Print each warning of this package once, on a line of its own; warnings of others are shown as usual."""
    with warnings.catch_warnings():
        usual, told = warnings.showwarning, set()

        def tell(message: Warning | str, category: type[Warning], *where: Any, **further: Any) -> None:
            if not issubclass(category, NlgnnWarning):
                usual(message, category, *where, **further)
            elif str(message) not in told:
                told.add(str(message))
                errors.print(f"warning: {message}", soft_wrap=True, markup=False)

        warnings.showwarning = tell
        warnings.simplefilter("always", NlgnnWarning)
        yield


@contextmanager
def telling_report(path: Path, where: Console = console) -> Iterator[None]:
    """Print the path of a page that is written in this context.

    The results are complete and shown by then, so that a page that cannot be written is printed and is not an error.

    Args:
        path: The page.
        where: The console that the path is printed to.
    """
    try:
        yield
    except (NlgnnError, OSError) as error:
        why = error.what if isinstance(error, NlgnnError) else f"{path} cannot be written: {error.strerror or error}."
        errors.print(f"no report: {why}", soft_wrap=True, markup=False)
    except BaseException as error:
        found = outage(error)
        if found is None:
            raise
        errors.print(f"no report: {found[0]} The results are complete.", soft_wrap=True, markup=False)
    else:
        where.print(f"report: {path}", soft_wrap=True, markup=False)


def tell_decision(decision: Decision | None) -> None:
    """Print how labels are chosen and the figures of it, unless they simply are the most probable ones."""
    from nlgnn.training.decision import MOST_PROBABLE

    if decision is not None and decision.rule != MOST_PROBABLE:
        words = decision.words() + " --threshold chooses another rule." * decision.is_default
        console.print(words, soft_wrap=True, markup=False)


def tell_report(trained: Trained, graph: Graph, others: Mapping[str, Trained]) -> None:
    """Write the report of a training into its folder and print where it is. A failure is printed and not raised.

    Args:
        trained: The training.
        graph: Its graph.
        others: Models trained with it, by label. Those trained earlier are read from their folders.
    """
    from nlgnn.report.companions import read_companions
    from nlgnn.report.run_page import write_run_page

    page = trained.folder.path / "report.html"
    compared = {**read_companions(trained.folder.path, trained, graph), **others}
    with telling_report(page):
        write_run_page(page, trained, graph, compared)


def column_table(columns: Sequence[Mapping[str, str | int]]) -> RenderableType:
    """Return a table of the columns of a user's table; of very many, those with remarks come first."""
    shown = list(columns)
    if len(shown) > MOST_COLUMNS:
        shown = sorted(shown, key=lambda row: not row["remark"])[:MOST_COLUMNS]  # keeps the order otherwise
    rows = [
        [
            short(str(row["column"])),
            str(row["kind"]),
            f"{row['slots']:,}" if row["slots"] else "–",
            f"{row['missing']:,}" if row["missing"] else "–",
            str(row["remark"]),
        ]
        for row in shown
    ]
    table = table_of(["column", "kind", "features", "missing", "remark"], rows, numbers_from=2)
    table.columns[-1].justify = "left"
    others = Counter(str(row["kind"]) for row in columns) - Counter(str(row["kind"]) for row in shown)
    if not others:
        return table
    words = ", ".join(f"{count:,} {kind}" for kind, count in others.items()).replace("–", "left out")
    return Group(table, Text(f"… and {len(columns) - len(shown):,} more columns: {words}", "dim"))


def dataset_table() -> RenderableType:
    """Return the table of all named graphs."""
    from nlgnn.datasets import ALIASES, CATALOG, is_present

    rows = []
    for dataset in CATALOG.values():
        known = dataset.statistics
        homophily = "" if known.homophily is None else f"{known.homophily:.3f}"
        counts = [_number(value) for value in (known.nodes, known.edges, known.features)]
        files = "here" if is_present(dataset.name) else "fetch"
        licence = dataset.licence.partition(";")[0]
        rows.append([dataset.name, *counts, str(known.classes), homophily, files, licence])
    headers = ["name", "nodes", "edges", "features", "classes", "H(G)", "files", "licence"]
    table = table_of(headers, rows, padding=(0, 1, 0, 0))
    for column in table.columns[-2:]:
        column.justify, column.no_wrap = "left", True
    aliases = ", ".join(f"{alias} is {name}" for alias, name in ALIASES.items())
    caption = (
        "fetch: downloaded on first use. Edges are distinct, undirected, without\n"
        "self-loops. H(G): mean share of a node's neighbours with its label; empty: not measured.\n"
        f"{aliases}. `nlgnn datasets NAME` shows one in full."
    )
    return Group(table, Text(caption, "dim"))


def _number(value: int | None) -> str:
    """Return a number short enough for a narrow column, or nothing if it is unknown."""
    if value is None:
        return ""
    return f"{value:,}" if value < 10_000_000 else f"{value / 1e6:.1f} M"


def dataset_page(name: str) -> RenderableType:
    """Return the fact sheet of a named graph."""
    from nlgnn.datasets import describe, is_present

    dataset = describe(name)
    known = dataset.statistics
    facts = {
        "nodes": f"{known.nodes:,}",
        "edges": "" if known.edges is None else f"{known.edges:,} undirected",
        "features": f"{known.features:,}",
        "classes": str(known.classes),
        "H(G)": "" if known.homophily is None else f"{known.homophily:.3f}",
        "direction": "directed edges" if dataset.directed else "undirected edges",
        "splits": ", ".join(["random-60", "random-10", *dataset.protocols]) + f" (default {dataset.default_protocol})",
        "metric": dataset.metric,
        "files": "here" if is_present(dataset.name) else "downloaded on first use",
        "licence": dataset.licence,
        "citation": dataset.citation,
    }
    facts |= {"notes": "\n".join(f"• {quirk}" for quirk in dataset.quirks)} if dataset.quirks else {}
    facts |= {"address": "\n".join(file.url for file in dataset.files[:2])} if dataset.files else {}
    return _page(dataset.name, facts)


def model_table() -> RenderableType:
    """Return the table of all models."""
    from nlgnn.models.registry import SYSTEMS

    rows = [[system.name, system.summary, system.source] for system in SYSTEMS.values()]
    return Group(
        table_of(["name", "summary", "source"], rows, numbers_from=3),
        Text("`nlgnn models NAME` shows a model with its options.", "dim"),
    )


def model_page(name: str) -> RenderableType:
    """Return the fact sheet of a model, with its options."""
    from nlgnn.models.options import model_options, recipe_options, setting_words
    from nlgnn.models.registry import PRESETS, PUBLISHED, get_system, trained_as
    from nlgnn.training.recipe import Recipe

    system = get_system(name)
    options = model_options(system)
    rows = [
        [
            _flag(option.name, option.type),
            _shown(system.defaults.get(option.name, option.default)),
            option.help + _choices(option.type),
        ]
        for option in options.values()
    ]
    if system.kind == "shallow":  # has few options of training; those of others are in `nlgnn train --help`
        for name in sorted(recipe_options(system)):
            field = Recipe.model_fields[name]
            default = trained_as(system).program.get(name, field.default)
            rows.append([_flag(name), _shown(default), f"{field.description}{_choices(field.annotation)}"])
    program = trained_as(system).program
    known = (options.keys() | recipe_options(system)) - program.keys() - ({"window"} if program else set())
    presets = {
        preset: setting_words({key: value for key, value in bundle.items() if key in known})
        for preset, bundle in PRESETS.items()
    }
    published = {dataset: chosen.options for dataset, chosen in PUBLISHED.items() if chosen.system == system.name}
    published |= trained_as(system).published
    facts = {
        "summary": system.summary,
        "source": system.source,
        "local part": system.local or "",
        "trained with": setting_words(program),
        "published for": "\n".join(f"{dataset}: {setting_words(chosen)}" for dataset, chosen in published.items()),
        "variants": "\n".join(map(setting_words, trained_as(system).variants)),
        "other settings": "\n".join(map(setting_words, trained_as(system).settings)),
        "search space": "\n".join(
            f"{key}: {', '.join(map(str, values))}" for key, values in system.search_space.items()
        ),
        **{f"preset {preset}": text for preset, text in presets.items() if text},
    }
    table = table_of(["option", "default", "meaning"], rows, numbers_from=3)
    return Group(_page(system.name, {key: value for key, value in facts.items() if value}), Text(), table)


def result_table(trained: list[tuple[str, Trained]], width: int) -> RenderableType:
    """Return validation and test figures of each system, and the protocol in the caption."""
    from nlgnn.models.registry import get_system
    from nlgnn.nn.neighbour_vote import VOTES_HAVE_TRIES
    from nlgnn.selection.statistics import paired_interval, spread
    from nlgnn.training.recipe import metric_heading
    from nlgnn.training.replica import choice_words

    first, main = trained[0]
    metric, words, rows = main.recipe.metric, _protocol(main), []
    epochs = any(run.epochs for _, result in trained for run in result.finished)
    for label, result in trained:
        tests = [run.test.get(metric) for run in result.runs]
        main_tests = [run.test.get(metric) for run in main.runs]
        difference = "" if result is main else str(paired_interval(main_tests, tests) or "")
        rows.append(
            {
                "system": label,
                f"validation {metric_heading(metric)}": str(spread([run.val.get(metric) for run in result.runs])),
                f"test {metric_heading(metric)}": str(spread(tests) or "–"),
                **({f"{first} minus it": difference} if len(trained) > 1 else {}),
                **_cost(result.finished, epochs),
            }
        )
    if len(trained) > 1:
        words += (
            " Differences of test figures are paired over runs, with 95 % t-intervals, which are slightly too narrow "
            "where splits overlap. An interval that contains zero shows no clear difference."
        )
    if any(get_system(result.plan.model).kind == "vote" for _, result in trained):
        words += f" For models with votes, {VOTES_HAVE_TRIES}; test figures are not affected."
    for label, result in trained:
        chosen = "; ".join(f"{name} {value}" for name, value in choice_words(result.finished).items())
        words += f" Chosen by validation{f' ({label})' if len(trained) > 1 else ''}: {chosen}." if chosen else ""
    return sections_page([Section("", rows, words)], width)


def _cost(runs: Sequence[Run], epochs: bool) -> dict[str, str]:
    """Return the means of epochs and time; seconds per run if no model of the table has epochs."""
    if not epochs:
        return {"s": f"{fmean(run.seconds for run in runs):.2f}"}
    if not any(run.epochs for run in runs):
        return {"epochs": "–", "ms": "–"}
    mean, time = fmean(run.epochs for run in runs), fmean(run.ms_per_epoch for run in runs)
    return {"epochs": f"{mean:.0f}", "ms": f"{time:.1f}"}


def _protocol(result: Trained) -> str:
    from nlgnn.models.options import setting_words
    from nlgnn.models.registry import get_system, trained_as
    from nlgnn.selection.controls import figure_words

    recipe, runs = result.recipe, result.runs
    splits = len({run.split for run in runs})
    epochs = any(run.epochs for run in runs)
    own = trained_as(get_system(result.plan.model))
    preset = f"preset {result.folder.config['preset']}"
    trained = "trained without gradients" if not epochs else preset
    if own.program and epochs:
        trained = f"the training programme of {own.name}, {preset}"
    trained += f", given {setting_words(result.plan.options)}" if result.plan.options else ""
    phases = f", {recipe.pretrain_epochs} of them pre-training" if recipe.pretrain_epochs else ""
    cost = (
        f"Epochs: mean trained{phases}, stopping rule {recipe.stopping}; ms: per epoch, training step and evaluation."
    )
    return (
        f"Graph {result.plan.graph}. Mean ± sample standard deviation over {_count(len(runs), 'run')} on "
        f"{_count(splits, 'split')}, "
        f"protocol {result.plan.protocol}, {trained}{figure_words(recipe, runs)}. "
        f"{cost if epochs else 's: training time, mean per run.'}"
    )


def _page(title: str, facts: dict[str, str]) -> RenderableType:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("name", title)
    for key, value in facts.items():
        table.add_row(key, Text(value))
    return table


def _flag(name: str, kind: Any = None) -> str:
    """Return the flag of an option, with [no-] if it can be turned off."""
    return f"--{'[no-]' if kind is bool else ''}{name.replace('_', '-')}"


def _choices(kind: Any) -> str:
    """Return the values of a type that lists them, in brackets."""
    return f" ({', '.join(map(str, get_args(kind)))})" if get_origin(kind) is Literal else ""


def _shown(value: Any) -> str:
    return "" if value is None else str(value)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
