"""The page of a diagnosis: the verdict, the evidence for it, then the graph."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from nlgnn.report.figures.intervals import differences_figures, means_figure
from nlgnn.report.figures.quality import compatibility_figures
from nlgnn.report.page import Command, Headline, Part, caption, write_page
from nlgnn.report.table import Section
from nlgnn.selection.diagnosis import Diagnosis
from nlgnn.selection.evidence import BOTH_WAYS, Evidence, OrderEvidence, minus
from nlgnn.selection.statistics import Figures, Interval


def write_diagnosis_page(path: Path, diagnosis: Diagnosis) -> None:
    """Write the page of a diagnosis."""
    write_page(path, f"Diagnosis of {diagnosis.profile.name}", diagnosis_parts(diagnosis))


def diagnosis_parts(diagnosis: Diagnosis) -> list[Part]:
    """Return the parts of the page of a diagnosis."""
    profile = diagnosis.profile
    return [
        headline(diagnosis),
        Command("Next step", diagnosis.next_step),
        *evidence_parts(diagnosis.evidence),
        *(order_parts(diagnosis.order) if diagnosis.order else []),
        *compatibility_figures(profile.class_names, profile.compatibility),
        *profile.sections(matrix=False),
    ]


def headline(diagnosis: Diagnosis) -> Headline:
    """Return the verdict."""
    verdict, evidence = diagnosis.verdict, diagnosis.evidence
    what = (
        f"by {evidence.runs} short trainings of each model on {evidence.splits} "
        f"split{'s' * (evidence.splits != 1)} of protocol {evidence.protocol}, by validation {evidence.metric}"
    )
    sentences = [verdict.words, verdict.confidence, diagnosis.verdict_section().caption]
    sentences += [diagnosis.order.words] if diagnosis.order else []
    return Headline(verdict.title[0].upper() + verdict.title[1:], what, sentences)


def evidence_parts(evidence: Evidence) -> list[Part]:
    """Draw the validation scores of models with and without edges, and by direction of the edges."""
    compared = [
        (evidence.validation, "mlp", "Graph models minus mlp"),
        (evidence.by_direction, BOTH_WAYS, "Directed minus undirected edges"),
    ]
    parts: list[Part] = []
    for section, (figures, base, title) in zip(evidence.sections(), compared, strict=False):  # edges may have none
        differences = {f"{name} − {base}": found for name, found in minus(figures, base).items()}
        parts += compared_parts(section, evidence.metric, figures, title, differences)
    return parts


def order_parts(order: OrderEvidence) -> list[Part]:
    """Draw the validation scores of the non-local model, its local part and its controls."""
    return compared_parts(
        order.section(),
        order.metric,
        order.validation,
        f"{order.model} minus its local part and controls",
        {f"minus {label.removeprefix(f'{order.model}, ')}": found for label, found in order.differences.items()},
    )


def compared_parts(
    section: Section,
    metric: str,
    figures: Mapping[str, Figures],
    title: str,
    differences: Mapping[str, Interval | None],
) -> list[Part]:
    """Draw validation scores next to their differences, above their table."""
    axis = f"validation {metric}"
    return [
        means_figure(section.title, f"{axis} %", figures, caption("diagnosis-means"), half=True),
        *differences_figures(title, f"points of {axis}", differences, caption("diagnosis-differences")),
        section._replace(title=""),
    ]
