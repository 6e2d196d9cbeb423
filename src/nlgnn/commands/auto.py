"""`nlgnn train --model auto`: what comes before its training and after it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from nlgnn.commands.terminal import console, errors
from nlgnn.datasets import load_graph
from nlgnn.datasets.dataset import Dataset
from nlgnn.errors import RunFolderError
from nlgnn.experiments.auto import check_options, gate
from nlgnn.experiments.compare import Variant
from nlgnn.experiments.diagnose import diagnose
from nlgnn.training.run import RunFolder
from nlgnn.training.train import Trained

AUTO = "auto"


def diagnosed_model(
    dataset: Dataset,
    protocol: str,
    preset: str | None,
    options: dict[str, Any],
    out: str | Path | None,
    allow_unverified: bool,
) -> str:
    """The non-local model that goes with a graph, whose local part is to be trained beside it."""
    check_options(dataset.name, preset, options)
    if out is not None:
        RunFolder.refuse_existing(Path(out))  # before the minutes that a diagnosis takes
    graph = load_graph(dataset.name, allow_unverified=allow_unverified)
    if errors.is_terminal:
        errors.print(f"diagnosing {graph.name}, protocol {protocol}", markup=False)
    diagnosis = diagnose(graph, protocol)
    console.print(f"Diagnosis: {diagnosis.verdict.title}. {diagnosis.verdict.words}", soft_wrap=True)
    console.print(diagnosis.verdict.confidence, soft_wrap=True)
    return diagnosis.verdict.non_local


def settle(trained: list[tuple[str, Trained]]) -> tuple[list[tuple[str, Trained]], str]:
    """Let the gate decide between the first two, and give the first folder to the one taken. Also what it says."""
    (name, main), (local_name, local), *controls = trained
    decided = gate({name: main.runs, local_name: local.runs}, main.recipe.metric)
    if decided.taken == local_name:
        first = main.folder.path
        main = _moved(main, beside(first, Variant(main.plan.model, main.plan.options)))
        local = _moved(local, first)
    return [(name, main), (local_name, local), *controls], decided.words


def beside(first: Path, variant: Variant) -> Path:
    """Where a model that is not taken is kept."""
    return first.with_name(f"{first.name}-{variant.slug}")


def _moved(trained: Trained, path: Path) -> Trained:
    try:
        trained.folder.path.rename(path)
    except OSError as error:
        raise RunFolderError(
            f"{trained.folder.path} cannot be renamed to {path}: {error.strerror}.", "Both trainings are whole."
        ) from error
    return replace(trained, folder=RunFolder.open(path))
