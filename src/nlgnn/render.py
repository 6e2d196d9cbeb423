"""Rows into tables for the console. Nothing is computed here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby, takewhile
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from nlgnn.report.palette import PALETTE

if TYPE_CHECKING:
    from nlgnn.experiments.demo import DemoResult
    from nlgnn.experiments.section import Section
    from nlgnn.training.train import Trained


def table_of(headers: list[str], rows: list[list[str]], numbers_from: int = 1, **options: Any) -> Table:
    """A table whose columns hold text before `numbers_from` and numbers after."""
    table = Table(box=None, pad_edge=False, header_style="bold", **options)
    for position, header in enumerate(headers):
        # folded where it is too narrow: a number that is cut would be another one
        table.add_column(header, justify="right" if position >= numbers_from else "left", overflow="fold")
    table.columns[0].no_wrap = True
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))  # as Text, since brackets would be read as markup
    return table


WIDE_TERMINAL, LONG_COLUMNS = 120, {"settings", "split", "source"}
LONG_TEXT, WIDEST = 24, 36  # text is wrapped from here on; and nothing is kept on one line beyond
UNLIMITED = 100_000


def sections_page(sections: Sequence[Section], width: int) -> RenderableType:
    """Tables with their captions. Of those too wide for the terminal, the longest columns are left to Markdown."""
    parts: list[RenderableType] = []
    for section in sections:
        parts += [Text(section.title, "bold")] if section.title else []
        parts += _section_tables(section, width) if section.rows else []
        parts += [Text(section.caption, "dim")] if section.caption else []
        parts += [*([Text(section.text)] if section.text else []), Text()]
    return Group(*parts[:-1])


def _section_tables(section: Section, width: int) -> list[RenderableType]:
    """One table, or where figures would be broken several, below each other, that begin with the same columns."""
    left_out = LONG_COLUMNS if width < WIDE_TERMINAL else set()
    names = [name for name in section.rows[0] if name not in left_out]
    text = [name for name in list(section.rows[0])[: section.text_columns] if name in names]
    long_text = [name for name in text if any(len(row[name]) >= LONG_TEXT for row in section.rows)]
    least = {
        name: _least_width(name, [row[name] for row in section.rows], name in text, name in long_text) for name in names
    }
    repeated = len(list(takewhile(lambda name: name in text and name not in long_text, names))) or 1
    tables: list[RenderableType] = []
    for group in _columns_that_fit(least, repeated, width):
        cells = [[row[name] for name in group] for row in section.rows]
        table = table_of(group, cells, numbers_from=sum(name in text for name in group))
        too_wide = Console(width=UNLIMITED).measure(table).maximum > width
        for column, name in zip(table.columns, group, strict=True):
            column.no_wrap = name in text and name not in long_text
            if too_wide and name not in long_text:  # rich would break some figures and headers, and leave others room
                column.width = least[name]
        tables += [*([Text()] if tables else []), table]
    return tables


def _least_width(name: str, cells: list[str], is_text: bool, is_long: bool) -> int:
    """Of a column that breaks long text and headers where a word ends, and no figure."""
    pieces = [piece for cell in cells for piece in ([cell[:LONG_TEXT]] if is_text else _unbroken(cell))]
    header = [name] if is_text and not is_long else name.split()
    return min(WIDEST, max(map(len, (*pieces, *header))))


def _unbroken(cell: str) -> list[str]:
    """What stays on one line: words, or of a list of figures each, with its spread or interval."""
    return re.split(r"(?<=,) (?![^\[]*\])", cell) if re.search(r"\d", cell) else cell.split()


def _columns_that_fit(least_widths: Mapping[str, int], repeated: int, width: int) -> list[list[str]]:
    """Names of columns, in as few groups as fit, of about equal width; the first names are in all of them."""
    first, others = list(least_widths)[:repeated], list(least_widths)[repeated:]

    def packed(room: int) -> list[list[str]]:
        groups = [list(first)]
        for name in others:
            if len(groups[-1]) > repeated and sum(least_widths[one] + 2 for one in (*groups[-1], name)) - 2 > room:
                groups.append(list(first))
            groups[-1].append(name)
        return groups

    fewest = len(packed(width))
    return next(groups for room in range(width + 1) if len(groups := packed(room)) == fewest)


def bench_table(rows: list[dict[str, str]], caption: str) -> RenderableType:
    """A table for all that was measured in one way, its columns below those of the one before."""
    headers = [header for header in rows[0] if header not in ("what", "threads")]
    widths = [max(len(text) for text in (header, *(row[header] for row in rows))) for header in headers]
    tables: list[RenderableType] = []
    for (what, threads), group in groupby(rows, key=lambda row: (row["what"], row["threads"])):
        table = table_of(
            headers,
            [[row[header] for header in headers] for row in group],
            show_header=not tables,
            padding=(0, 1, 0, 0),
        )
        for column, width in zip(table.columns, widths, strict=True):
            column.min_width = width
        tables += [Text(f"{what} ({_count(int(threads), 'thread')})", "bold"), table, Text()]
    return Group(*tables, Text(caption, "dim"))


def dataset_table() -> RenderableType:
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
        "fetch: would be downloaded. Edges are distinct, undirected, without\n"
        "loops. H(G): mean share of a node's neighbours with its label; empty: never measured.\n"
        f"{aliases}. `nlgnn datasets NAME` shows one in full."
    )
    return Group(table, Text(caption, "dim"))


def _number(value: int | None) -> str:
    """Short enough for a narrow column; empty where it is not known."""
    if value is None:
        return ""
    return f"{value:,}" if value < 10_000_000 else f"{value / 1e6:.1f} M"


def dataset_page(name: str) -> RenderableType:
    from nlgnn.datasets import describe, is_present

    dataset = describe(name)
    known = dataset.statistics
    facts = {
        "nodes": f"{known.nodes:,}",
        "edges": "" if known.edges is None else f"{known.edges:,} undirected",
        "features": f"{known.features:,}",
        "classes": str(known.classes),
        "H(G)": "" if known.homophily is None else f"{known.homophily:.3f}",
        "direction": "edges have one" if dataset.directed else "edges have none",
        "splits": ", ".join(["random-60", "random-10", *dataset.protocols]) + f" (default {dataset.default_protocol})",
        "metric": dataset.metric,
        "files": "here" if is_present(dataset.name) else "would be downloaded",
        "licence": dataset.licence,
        "citation": dataset.citation,
    }
    facts |= {"quirk": "\n".join(f"• {quirk}" for quirk in dataset.quirks)} if dataset.quirks else {}
    facts |= {"address": "\n".join(file.url for file in dataset.files[:2])} if dataset.files else {}
    return _page(dataset.name, facts)


def model_table() -> RenderableType:
    from nlgnn.training.systems import SYSTEMS

    rows = [[system.name, system.summary, system.source] for system in SYSTEMS.values()]
    return Group(
        table_of(["name", "what it does", "source"], rows, numbers_from=3),
        Text("`nlgnn models NAME` shows one with its options.", "dim"),
    )


def model_page(name: str) -> RenderableType:
    from nlgnn.training.options import model_options
    from nlgnn.training.recipe import Recipe
    from nlgnn.training.systems import PRESETS, PUBLISHED, get_system, trained_as

    system = get_system(name)
    options = model_options(system)
    rows = [
        [f"--{option.name.replace('_', '-')}", _shown(system.defaults.get(option.name, option.default)), option.help]
        for option in options.values()
    ]
    program = trained_as(system).program
    known = (options.keys() | Recipe.model_fields.keys()) - program.keys() - ({"window"} if program else set())
    presets = {
        preset: _settings({key: value for key, value in bundle.items() if key in known})
        for preset, bundle in PRESETS.items()
    }
    published = {dataset: chosen.options for dataset, chosen in PUBLISHED.items() if chosen.system == system.name}
    published |= trained_as(system).published
    facts = {
        "what it does": system.summary,
        "source": system.source,
        "local part": system.local or "",
        "trained with": _settings(program),
        "published for": "\n".join(f"{dataset}: {_settings(chosen)}" for dataset, chosen in published.items()),
        "variants": "\n".join(map(_settings, trained_as(system).variants)),
        "tried elsewhere": "\n".join(map(_settings, trained_as(system).settings)),
        "search space": "\n".join(
            f"{key}: {', '.join(map(str, values))}" for key, values in system.search_space.items()
        ),
        **{f"preset {preset}": text for preset, text in presets.items() if text},
    }
    table = table_of(["option", "default", "meaning"], rows, numbers_from=3)
    return Group(_page(system.name, {key: value for key, value in facts.items() if value}), Text(), table)


def _settings(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in options.items())


def result_table(trained: list[tuple[str, Trained]], width: int) -> RenderableType:
    """Validation and test figures of each system, with the protocol that they were got by."""
    from nlgnn.experiments.compare import row
    from nlgnn.experiments.interval import paired_interval
    from nlgnn.experiments.section import Section
    from nlgnn.nn.nonlocal_ import readout_of
    from nlgnn.training.space import VOTES_HAVE_TRIES

    first, main = trained[0]
    metric, words, rows = main.recipe.metric, _protocol(main), []
    for label, result in trained:
        line = row(label, result.runs, metric)
        figures = [[run.test.get(metric) for run in runs] for runs in (main.runs, result.runs)]
        difference = "" if result is main else str(paired_interval(*figures) or "")
        rows.append(
            {
                "system": label,
                f"validation {metric} %": str(line.val),
                f"test {metric} %": str(line.test or "–"),
                **({f"{first} minus it": difference} if len(trained) > 1 else {}),
                "epochs": f"{line.epochs:.0f}",
                "ms": f"{line.ms_per_epoch:.1f}",
            }
        )
    if len(trained) > 1:
        words += (
            " Differences of test figures are paired over runs, with 95 % t-intervals, rather too narrow where splits "
            "overlap: one that holds zero does not tell who is ahead."
        )
    if any(readout_of(*map(result.plan.options.get, ("order", "readout"))) == "vote" for _, result in trained):
        words += f" Where nodes vote, {VOTES_HAVE_TRIES}; test figures are not touched by that."
    return sections_page([Section("", rows, words)], width)


def _protocol(result: Trained) -> str:
    from nlgnn.experiments.compare import selection_words
    from nlgnn.training.systems import get_system, trained_as

    recipe, runs = result.recipe, result.runs
    splits = len({run.split for run in runs})
    chosen = selection_words(recipe.selection, recipe.metric)
    own = trained_as(get_system(result.plan.model))
    trained = f"the programme of {own.name}, " * bool(own.program) + f"preset {result.folder.config['preset']}"
    trained += f", given {_settings(result.plan.options)}" if result.plan.options else ""
    phases = f", {recipe.pretrain_epochs} of them pre-training" if recipe.pretrain_epochs else ""
    return (
        f"Graph {result.plan.graph}. Mean ± sample standard deviation over {_count(len(runs), 'run')} on "
        f"{_count(splits, 'split')}, "
        f"protocol {result.plan.protocol}, {trained}; figures of {chosen}. "
        f"Epochs: mean trained{phases}, stopping rule {recipe.stopping}; ms: of an epoch, training step and evaluation."
    )


def demo_page(result: DemoResult, width: int) -> RenderableType:
    from nlgnn.graph.homophily import chance_homophily, node_homophily

    graph = result.graph
    strips = [
        Group(Text(f"{title} (H of neighbours along it: {agreement:.2f})"), strip(labels.tolist(), graph.class_names))
        for title, (labels, agreement) in result.strips().items()
    ]
    legend = Text("  ").join(
        strip([label], graph.class_names) + Text(f" {name}") for label, name in enumerate(graph.class_names)
    )
    facts = (
        f"H(G) = {node_homophily(graph):.2f} along the edges, {chance_homophily(graph):.2f} for a random order. "
        "All nodes and all labels are shown, also those trained on: a picture, not a score."
    )
    folders = Text("".join(f"run folder: {trained.folder.path}\n" for _, trained in result.trained).rstrip())
    return Group(
        Text("\nThe nodes in the order that the model sorts them into, coloured by class:"),
        legend,
        *strips,
        Text(facts, "dim"),
        Text(),
        result_table(result.trained, width),
        folders,
    )


def strip(labels: list[int], names: tuple[str, ...]) -> Text:
    """A coloured letter a node, the first of its class; nodes of unknown label are blank."""
    text = Text()
    for label in labels:
        text.append(names[label][:1] if label >= 0 else " ", f"black on {PALETTE[label % len(PALETTE)]}")
    return text


def _page(title: str, facts: dict[str, str]) -> RenderableType:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("name", title)
    for key, value in facts.items():
        table.add_row(key, Text(value))
    return table


def _shown(value: Any) -> str:
    return "" if value is None else str(value)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
