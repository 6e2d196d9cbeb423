"""`nlgnn predict`: write a table of predicted labels and probabilities."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nlgnn.cli.console import console, errors
from nlgnn.cli.given_graph import tell_findings
from nlgnn.cli.options import OwnModel, RunFolderPath
from nlgnn.errors import DataError, OptionError


def predict(
    folder: RunFolderPath,
    out: Annotated[Path, typer.Option(help="Table: .csv, .parquet or .jsonl; -: standard output.")] = Path(
        "labels.csv"
    ),
    form: Annotated[
        str | None, typer.Option("--format", help="csv, parquet or jsonl; by the ending.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Also write nodes that have a label.")] = False,
    nodes: Annotated[
        Path | None,
        typer.Option(help="A table of new nodes, like the one of training.", show_default=False),
    ] = None,
    edges: Annotated[Path | None, typer.Option(help="Edges of the new nodes.", show_default=False)] = None,
    threshold: Annotated[
        str | None,
        typer.Option(help="best-f1, precision=0.9, recall=0.8 or 0.3.", show_default=False),
    ] = None,
    cost: Annotated[str | None, typer.Option(help="Costs of errors, such as fraud:10.", show_default=False)] = None,
    model: OwnModel = None,
) -> None:
    """Predict the labels of unlabelled nodes, or of new ones.

    Probabilities are the mean over runs, each calibrated by a temperature found on its validation nodes. Labels follow
    from them by the threshold or the costs of the training, or by those that are given here; nothing is trained again.
    With new nodes, the sorted sequence holds old and new nodes, so that predictions of old nodes may change slightly.
    Columns of ids and labels have the names of the training table.
    """
    from nlgnn.training.decision import check_texts
    from nlgnn.training.prediction_files import check_table_path

    check_table_path(out, form, replace=force)
    check_texts(threshold, cost)
    with_new = nodes is not None or edges is not None
    if with_new and every:
        raise OptionError("--all is for the graph of the training.", "Leave it out: all new nodes are written.")
    import numpy as np

    from nlgnn.selection.auto import best_for_new_nodes
    from nlgnn.training.decision import MOST_PROBABLE, decision_of
    from nlgnn.training.predict import (
        mean_probabilities,
        new_graph,
        prediction_columns,
        temperatures_of,
    )
    from nlgnn.training.prediction_files import STANDARD_OUTPUT, write_table
    from nlgnn.training.train import read_trained

    trained, graph = read_trained(folder)
    written, chosen = graph, np.arange(graph.num_nodes) if every else np.flatnonzero(~graph.labelled)
    if with_new:
        first, trained = trained, best_for_new_nodes(folder, trained, graph)
        if trained is not first:
            unable = first.folder.path.name if first is first.leading else "The ensemble"
            words = f"{unable} cannot predict new nodes. {trained.folder.path.name} is the best model that can."
            errors.print(words, soft_wrap=True, markup=False)
        found, chosen = new_graph(trained, graph, nodes, edges)
        tell_findings(found)
        written = found.graph
        if len(chosen) == 0:
            raise DataError(
                "these files contain no new nodes.", "Give rows with ids that are not in the training table."
            )
    elif len(chosen) == 0:
        raise DataError(f"every node of {graph.name} has a label.", "Use --all to write predictions for all nodes.")
    probabilities = trained.probabilities(graph)
    temperatures = temperatures_of(trained, graph, probabilities)
    decision = decision_of(trained, graph, probabilities, temperatures, threshold, cost)
    if with_new:
        probabilities = trained.probabilities(written)
    tables = trained.plan.tables
    own_names = () if tables is None else (tables.id_column, tables.label)
    replaced = " (replaced)" * out.exists()
    mean = mean_probabilities(probabilities, temperatures)
    write_table(out, prediction_columns(written, mean, decision.labels(mean), chosen, *own_names), form)
    where = errors if out == STANDARD_OUTPUT else console
    if decision.rule != MOST_PROBABLE:
        where.print(decision.words(), soft_wrap=True, markup=False)
    count, runs = len(chosen), len(temperatures)
    words = f"{count:,} node{'s' * (count != 1)}, mean of {runs} run{'s' * (runs != 1)} of {trained.plan.model}"
    place = "standard output" if out == STANDARD_OUTPUT else str(out)
    where.print(f"{words}, calibrated: {place}{replaced}", soft_wrap=True, markup=False)
