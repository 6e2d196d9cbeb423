"""Where the features of a graph come from: columns of its nodes, or, where there are none, its links."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nlgnn.datasets.tables.encoder import FeatureEncoder
from nlgnn.datasets.tables.fitting import REASONS
from nlgnn.datasets.tables.leaks import likely_leaks
from nlgnn.datasets.tables.structural import structural_table
from nlgnn.datasets.tables.table import Table
from nlgnn.graph.graph import Graph


@dataclass(frozen=True, eq=False)
class Features:
    """One row a node, what made them, and what is to be said."""

    x: NDArray[np.float32] | sparse.csr_array
    encoder: FeatureEncoder
    notes: list[str]
    warnings: list[str]


def make_features(
    graph: Graph, table: Table, columns: tuple[str, ...], encoder: FeatureEncoder | None, standardise: bool
) -> Features:
    """Features of the nodes of a graph.

    Args:
        graph: its own features are not looked at; labels only to warn of columns that tell them.
        table: of nodes.
        columns: of the table, that may become features.
        encoder: one that was fitted before; None = fit one.
        standardise: see `FeatureEncoder.fit`.
    """
    notes: list[str] = []
    leaks: list[str] = []
    if encoder is None and columns:
        fitted = FeatureEncoder.fit(table, columns, standardise=standardise)
        leaks = likely_leaks(table, fitted.columns, graph.y)
        notes += encoder_notes(fitted)
        encoder = fitted if fitted.columns else None
    elif encoder is not None:
        used = set() if encoder.structural else {column.name for column in (*encoder.columns, *encoder.left_out)}
        extra = [repr(column) for column in columns if column not in used]
        if extra:
            notes.append(f"{table.source}: not used, since the model was trained without: {_some(extra)}.")
    if encoder is not None and not encoder.structural:
        return Features(encoder.transform(table), encoder, notes, leaks)
    frame, sentence = structural_table(graph)
    notes.append(sentence)
    encoder = encoder or FeatureEncoder.fit(frame, structural=True)
    if not encoder.columns:  # every node is linked like every other: one number that says nothing
        notes.append("Every node is linked like every other: these features tell nothing.")
        return Features(np.ones((graph.num_nodes, 1), np.float32), encoder, notes, leaks)
    return Features(encoder.transform(frame), encoder, notes, leaks)


def encoder_notes(encoder: FeatureEncoder) -> list[str]:
    """What became of the columns, in a few sentences."""
    kinds: dict[str, int] = {}
    for column in encoder.columns:
        kinds[column.kind] = kinds.get(column.kind, 0) + 1
    made = ", ".join(f"{count} of kind {kind}" for kind, count in kinds.items())
    form = "sparse" if encoder.is_sparse else "dense"
    notes = [f"{len(encoder.columns)} columns became {encoder.num_slots} features ({made or 'none'}; {form})."]
    missing = [f"{column.name!r} ({column.missing})" for column in encoder.columns if column.missing]
    if missing:
        notes.append(f"Missing values, which are marked or averaged: {_some(missing)}.")
    hashed = [repr(column.name) for column in encoder.columns if column.kind == "text"]
    if hashed:
        notes.append(f"Read as text, words hashed: {_some(hashed)}.")
    for reason, words in REASONS.items():
        names = [repr(column.name) for column in encoder.left_out if column.reason == reason]
        if names:
            notes.append(f"Left out, {words}: {_some(names)}.")
    return notes


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
