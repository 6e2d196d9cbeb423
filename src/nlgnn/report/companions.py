"""Models that the report of a training compares it with: those trained on the same splits, and simple baselines."""

from __future__ import annotations

import glob
import shlex
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from nlgnn.datasets.catalog import CATALOG
from nlgnn.errors import NlgnnError, NlgnnWarning
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split
from nlgnn.models.build import configure
from nlgnn.models.registry import SYSTEMS, get_system
from nlgnn.report.page import Command, Part
from nlgnn.selection.controls import Variant
from nlgnn.selection.leaderboard import Leaderboard, read_leaderboard
from nlgnn.shallow.base import watched_fits
from nlgnn.training.fit import fit
from nlgnn.training.train import AUTO, Trained, read_trained
from nlgnn.training.trained import ENSEMBLE, Ensemble, HasRuns, Member

OWN_COLUMNS = "logistic, own columns"
BASELINES: dict[str, dict[str, Any]] = {
    OWN_COLUMNS: {"neighbours": "none"},
    "logistic": {},
}  # as in the portfolio of the automatic choice
MOST_SECONDS, MOST_NODES = 10.0, 100_000  # for training these while a report is written


def label_of(trained: Trained) -> str:
    """Return the name of a model with its variant; of an automatic choice, the name in its leaderboard."""
    board = None if isinstance(trained, Ensemble) else board_of_choice(trained)
    for row in board.rows if board else ():
        if row.entry.folder == trained.folder.path.name:
            return row.entry.name
    return Variant(trained.plan.model, trained.plan.options).label


def read_companions(path: Path, trained: Trained, graph: Graph | None = None) -> dict[str, Trained]:
    """Read the models that were trained on the same splits.

    They are in folders whose names begin with that of `path`, or in `models/` of the folder of an automatic choice,
    whose leaderboard names them. A graph that is given is not read again.
    """
    companions: dict[str, Trained] = {}
    path = path.resolve()
    board = read_leaderboard(path)
    if board is not None:
        rows = board.ranked(lambda row: row.entry.model != ENSEMBLE)
        folders = {row.entry.name: path / "models" / row.entry.folder for row in rows}
        return {
            name: read_trained(folder, graph)[0]
            for name, folder in folders.items()
            if isinstance(trained, Ensemble) or folder != trained.folder.path.resolve()
        }
    for other in sorted(path.parent.glob(f"{glob.escape(path.name)}-*")):
        try:
            found, _ = read_trained(other)
        except NlgnnError:  # not a run folder, or not finished
            continue
        if label_of(found) != label_of(trained) and why_not_comparable(trained, found) is None:
            companions.setdefault(label_of(found), found)
    return companions


def why_not_comparable(one: Trained, other: Trained) -> str | None:
    """Say why the figures of two trainings cannot be paired over splits, or return None if they can."""
    facts = {
        "on another graph": [side.folder.config["fingerprint"] for side in (one, other)],
        "under another protocol": [side.plan.protocol for side in (one, other)],
        "for another metric": [side.recipe.metric for side in (one, other)],
        "from another seed": [side.recipe.seed for side in (one, other)],
        "with another split column": [side.plan.tables and side.plan.tables.split_columns for side in (one, other)],
    }
    return next((fact for fact, (mine, theirs) in facts.items() if mine != theirs), None)


def board_of_choice(trained: Trained) -> Leaderboard | None:
    """Return the leaderboard of the automatic choice that a training belongs to, if any."""
    return read_leaderboard(trained.folder.path.parent.parent) if trained.reason else None


def with_baselines(
    trained: Trained, graph: Graph, splits: Sequence[Split], others: Mapping[str, HasRuns]
) -> dict[str, HasRuns]:
    """Return the other models and, unless it is one of them, logistic regression on own and on neighbours' columns.

    Both are trained here, on the same splits, and left out where they take longer than `MOST_SECONDS` together or are
    not possible, such as with missing values.
    """
    found = dict(others)
    if trained.reason or graph.num_features == 0 or graph.num_nodes > MOST_NODES:
        return found
    recipe, end = trained.recipe, time.monotonic() + MOST_SECONDS

    def stop_late(share: float | None) -> bool:
        if time.monotonic() > end:
            raise NlgnnError("there is no time left.", "Train the model by itself.")
        return False

    for label, options in BASELINES.items():
        given = trained.plan.options.get("neighbours")
        is_itself = trained.plan.model == "logistic" and given == options.get("neighbours")
        if is_itself or label in others or (label != OWN_COLUMNS and graph.edge_index.shape[1] == 0):
            continue
        factory, own = configure("logistic", graph, metric=recipe.metric, seed=recipe.seed, **options)
        try:
            with watched_fits(stop_late), warnings.catch_warnings():
                warnings.simplefilter("ignore", NlgnnWarning)  # They are about the baseline.
                runs = fit(factory, graph, splits, own, progress=False)
        except NlgnnError:
            continue
        found[label] = Member(factory, own, runs)
    return found


def best_words(trained: Trained, baselines: Mapping[str, HasRuns]) -> str:
    """Name the best model on own columns and the best local model by validation.

    Args:
        trained: The training, which may be the best local model itself.
        baselines: The models that its report compares it with.
    """
    board = board_of_choice(trained)
    if board is not None:
        own = board.ranked(lambda row: row.entry.without_edges and row.entry.is_single)
        local = board.ranked(lambda row: row.entry.is_single and get_system(row.entry.model).local is None)
        named = {
            "own columns only": [row.entry.name for row in own],
            "any local model": [row.entry.name for row in local],
        }
    else:
        metric = trained.recipe.metric
        means, systems = {}, {}
        for label, one in {label_of(trained): trained, **baselines}.items():
            figures = [run.val[metric] for run in one.runs if run.failure is None and metric in run.val]
            name = one.plan.model if isinstance(one, Trained) else "logistic"
            if figures and name in SYSTEMS and SYSTEMS[name].local is None:
                means[label], systems[label] = fmean(figures), name
        ranked = sorted(means, key=lambda label: -means[label])
        without = [label for label in ranked if label == OWN_COLUMNS or systems[label] == "mlp"]
        named = {"own columns only": without, "any local model": ranked}
    best = [f"{what}: {names[0]}" for what, names in named.items() if names]
    return f"Best by validation, {'; '.join(best)}." if best else ""


def missing_models(trained: Trained, others: Mapping[str, Trained]) -> list[Part]:
    """Return the commands that train what a named model is not compared with: its controls, or other models."""
    if others or trained.reason:
        return []
    folder, plan = shlex.quote(str(trained.folder.path)), trained.plan
    parts: list[Part] = []
    if get_system(plan.model).local is not None:
        command = f"nlgnn train --resume {folder} --controls"
        parts.append(Command("Train its local part and its controls to compare with", command))
    if plan.tables is not None or plan.graph in CATALOG:
        words = ["nlgnn", "train", *([plan.graph] if plan.tables is None else plan.tables.flags), "--model", AUTO]
        words += ["--splits", plan.protocol, "--metric", trained.recipe.metric]
        words += [] if plan.runs is None else ["--runs", str(plan.runs)]
        out = f"{trained.folder.path}-{AUTO}"
        command = f"{shlex.join([*words, '--out', out])} && nlgnn report {folder} {shlex.quote(out)}"
        parts.append(Command("Train the best local models to compare with", command))
    return parts
