"""The page of a diagnosis: the verdict first, what it rests on, then the graph as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nlgnn.experiments.diagnose import Diagnosis
from nlgnn.experiments.evidence import BOTH_WAYS, Evidence
from nlgnn.experiments.interval import paired_interval
from nlgnn.experiments.order import OrderEvidence, run_means
from nlgnn.experiments.portrait import MEASURES, Portrait
from nlgnn.graph.homophily import Agreement
from nlgnn.report.answer import Figures, interval_rows, intervals_chart
from nlgnn.report.columns import columns_of
from nlgnn.report.differences import differences_figures
from nlgnn.report.page import Command, Figure, Headline, Part, write_page
from nlgnn.report.palette import PALETTE
from nlgnn.report.quality_figures import MOST_CLASSES, compatibility_figure

DIFFERENCES_CAPTION = (
    "Points are mean differences over paired runs, bars 95 % t-intervals: one that holds zero does not tell who is "
    "ahead. They are rather too narrow, since splits overlap."
)
AGREEMENT_CAPTION = (
    "The mean share of a node's neighbours that have its label; the tick is what chance gives. All labels are looked "
    "at, and nothing is decided by this."
)


def write_diagnosis_page(path: Path, diagnosis: Diagnosis) -> None:
    write_page(path, f"Diagnosis of {diagnosis.portrait.name}", diagnosis_parts(diagnosis))


def diagnosis_parts(diagnosis: Diagnosis) -> list[Part]:
    portrait = diagnosis.portrait
    return [
        headline(diagnosis),
        Command("What to run next", diagnosis.next_step),
        *evidence_parts(diagnosis.evidence),
        *(order_parts(diagnosis.order) if diagnosis.order else []),
        *portrait_figures(portrait),
        *portrait.sections(matrix=False),
    ]


def headline(diagnosis: Diagnosis) -> Headline:
    verdict, evidence = diagnosis.verdict, diagnosis.evidence
    what = (
        f"by {evidence.runs} short trainings of each model on {evidence.splits} "
        f"split{'s' * (evidence.splits != 1)} of protocol {evidence.protocol}, by validation {evidence.metric}"
    )
    sentences = [verdict.words, verdict.confidence, diagnosis.verdict_section().caption]
    sentences += [diagnosis.order.words] if diagnosis.order else []
    return Headline(verdict.title[0].upper() + verdict.title[1:], what, sentences)


def evidence_parts(evidence: Evidence) -> list[Part]:
    """Figures in pairs, what was reached and what the difference is, each over its table."""
    caption = reached_caption(evidence.metric, f"{evidence.runs} runs", evidence.splits, evidence.protocol)
    axis = f"points of validation {evidence.metric}"
    compared = [
        (evidence.validation, "mlp", "Graph models minus mlp"),
        (evidence.by_direction, BOTH_WAYS, "One direction, or both apart, minus all alike"),
    ]
    parts: list[Part] = []
    for section, (figures, base, title) in zip(evidence.sections(), compared, strict=False):  # edges may have none
        differences = {
            f"{name} − {base}": paired_interval(own, figures[base]) for name, own in figures.items() if name != base
        }
        parts += [
            reached_figure(section.title, figures, evidence.metric, caption),
            *differences_figures(title, axis, differences, DIFFERENCES_CAPTION),
            section._replace(title=""),
        ]
    return parts


def order_parts(order: OrderEvidence) -> list[Part]:
    section = order.section()
    figures = {label: run_means(by_run) for label, by_run in order.validation.items()}
    runs = f"{len(order.validation[order.model])} runs, each the mean of {order.seeds} seed{'s' * (order.seeds != 1)},"
    caption = reached_caption(order.metric, runs, order.splits, order.protocol)
    differences = {
        f"minus {label.removeprefix(f'{order.model}, ')}": interval for label, interval in order.differences.items()
    }
    axis = f"points of validation {order.metric}"
    return [
        reached_figure(section.title, figures, order.metric, caption),
        *differences_figures(
            f"{order.model} minus its local part and controls", axis, differences, DIFFERENCES_CAPTION
        ),
        section._replace(title=""),
    ]


def reached_caption(metric: str, runs: str, splits: int, protocol: str) -> str:
    return (
        f"Best validation {metric} over the epochs of a run: points are means, bars 95 % t-intervals over {runs} on "
        f"{splits} split{'s' * (splits != 1)} of protocol {protocol}."
    )


def reached_figure(title: str, figures: Mapping[str, Figures], metric: str, caption: str) -> Figure:
    rows = interval_rows(figures)
    chart = intervals_chart(f"validation {metric} %", len(rows))
    return Figure(title, chart, {"rows": columns_of(rows)}, caption, half=True)


def portrait_figures(portrait: Portrait) -> list[Figure]:
    """Those of classes only where there are not too many to be told apart."""
    few = len(portrait.class_names) <= MOST_CLASSES
    measures_caption = (
        "Each measure over all labelled nodes, and what it gives with labels shuffled, mean of 10 shuffles: the tick. "
        "All labels are looked at, and nothing is decided by this."
    )
    kinds = [
        ("Homophily beside chance", measure_rows(portrait), measures_caption),
        ("Agreement beside chance, by number of neighbours", agreement_rows(portrait.by_degree), AGREEMENT_CAPTION),
        ("Agreement beside chance, by class", agreement_rows(portrait.by_class) if few else [], AGREEMENT_CAPTION),
    ]
    return [
        *([compatibility_figure(portrait.class_names, portrait.compatibility)] if few else []),
        *(
            Figure(title, chance_chart(len(rows)), {"rows": columns_of(rows)}, caption, half=True)
            for title, rows, caption in kinds
            if rows
        ),
    ]


def measure_rows(portrait: Portrait) -> list[dict[str, Any]]:
    return [
        {"what": words, "value": portrait.homophily[name], "chance": portrait.chance[name]}
        for name, words in MEASURES.items()
    ]


def agreement_rows(groups: Sequence[Agreement]) -> list[dict[str, Any]]:
    return [{"what": one.group, "value": one.homophily, "chance": one.chance, "nodes": one.nodes} for one in groups]


def chance_chart(rows: int) -> Any:
    """Bars, each beside the tick of what chance gives."""
    import altair

    base = altair.Chart(altair.NamedData("rows"))
    y = altair.Y("what:N", sort=None, title=None)
    tooltip = [altair.Tooltip("what:N"), *(altair.Tooltip(f"{one}:Q", format=".3f") for one in ("value", "chance"))]
    bars = base.mark_bar(color=PALETTE[4], height={"band": 0.55}).encode(
        y=y, x=altair.X("value:Q", title="value; tick: chance", axis=altair.Axis(tickCount=6)), tooltip=tooltip
    )
    ticks = base.mark_tick(thickness=3, opacity=1, height={"band": 0.8}, color=PALETTE[5]).encode(
        y=y, x=altair.X("chance:Q"), tooltip=tooltip
    )
    return altair.layer(bars, ticks).properties(width="container", height=32 * rows)
