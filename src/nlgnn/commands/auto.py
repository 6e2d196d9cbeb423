"""`nlgnn train --model auto`: what comes before its training and after it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from nlgnn.commands.terminal import console, errors
from nlgnn.errors import RunFolderError
from nlgnn.experiments.auto import check_options, gate
from nlgnn.experiments.compare import Variant
from nlgnn.experiments.diagnose import diagnose
from nlgnn.experiments.verdict import Verdict
from nlgnn.graph.graph import Graph
from nlgnn.training.run import RunFolder, write_whole
from nlgnn.training.train import Trained

AUTO = "auto"


def diagnosed_model(
    graph_name: str,
    load: Callable[[], Graph],
    protocol: str,
    preset: str | None,
    options: dict[str, Any],
    out: str | Path | None,
    where: Console = console,
) -> Verdict:
    """The verdict on a graph, which it also tells: its non-local model is to be trained beside its local part."""
    check_options(graph_name, preset, options)
    if out is not None:
        RunFolder.refuse_existing(Path(out))  # before the minutes that a diagnosis takes
    graph = load()
    if errors.is_terminal:
        errors.print(f"diagnosing {graph.name}, protocol {protocol}", markup=False)
    diagnosis = diagnose(graph, protocol)
    where.print(f"Diagnosis: {diagnosis.verdict.title}. {diagnosis.verdict.words}", soft_wrap=True)
    where.print(f"{diagnosis.verdict.confidence} Protocol {protocol}.", soft_wrap=True)
    return diagnosis.verdict


def settle(first: Path, variants: list[Variant], trained: dict[str, Trained]) -> str:
    """Let the gate decide between the first two variants, and give the first folder to the one taken. What it says.

    `trained` is by label; one of the two may be missing, having failed.
    """
    main, local = variants[0].label, variants[1].label
    runs = {label: trained[label].runs if label in trained else [] for label in (main, local)}
    decided = gate(runs, next(iter(trained.values())).recipe.metric)
    if decided.taken == local:
        other = beside(first, variants[0])
        try:
            first.rename(other)
            trained[local].folder.path.rename(first)
            _amend(other, automatic=False)  # else resuming it would choose again
        except OSError as error:
            raise RunFolderError(
                f"{first} cannot change places with {other}: {error.strerror}.", "Both trainings are whole."
            ) from error
        for label, path in ((main, other), (local, first)):
            if label in trained:
                trained[label] = replace(trained[label], folder=RunFolder.open(path))
    try:
        _amend(first, gate=decided.words)
    except OSError as error:  # its report alone goes without it
        errors.print(f"{first}/config.json cannot be written: {error.strerror}", soft_wrap=True, markup=False)
    trained[decided.taken] = replace(trained[decided.taken], folder=RunFolder.open(first))
    return decided.words


def _amend(folder: Path, **settings: Any) -> None:
    config = RunFolder.open(folder).config | settings
    write_whole(folder / "config.json", partial(Path.write_text, data=json.dumps(config, indent=2)))


def beside(first: Path, variant: Variant) -> Path:
    """Where a control is kept, or a model that is not taken."""
    return first.with_name(f"{first.name}-{variant.slug}")
