"""`nlgnn predict`: write a table of predicted labels and probabilities."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nlgnn.cli.console import console, errors
from nlgnn.cli.options import OwnModel, RunFolderPath, tell_findings
from nlgnn.errors import DataError, OptionError


def predict(
    folder: RunFolderPath,
    out: Annotated[Path, typer.Option(help="The table to write: .csv or .parquet.")] = Path("labels.csv"),
    every: Annotated[bool, typer.Option("--all", help="Also write nodes that have a label.")] = False,
    nodes: Annotated[
        Path | None,
        typer.Option(help="A table of new nodes, like the one of training.", show_default=False),
    ] = None,
    edges: Annotated[Path | None, typer.Option(help="Edges of the new nodes.", show_default=False)] = None,
    model: OwnModel = None,
) -> None:
    """Predict the labels of unlabelled nodes, or of new ones.

    Probabilities are the mean over runs, each calibrated by a temperature found on its validation nodes. With new
    nodes, the sorted sequence holds old and new nodes, so that predictions of old nodes may change slightly. Columns of
    ids and labels have the names of the training table.
    """
    import numpy as np

    from nlgnn.selection.auto import best_for_new_nodes
    from nlgnn.training.predict import (
        check_table_path,
        mean_probabilities,
        new_graph,
        prediction_columns,
        probabilities_of,
        temperatures_of,
        write_table,
    )
    from nlgnn.training.train import read_trained

    check_table_path(out)
    with_new = nodes is not None or edges is not None
    if with_new and every:
        raise OptionError("--all is for the graph of the training.", "Leave it out: all new nodes are written.")
    trained, graph = read_trained(folder)
    written, chosen = graph, np.arange(graph.num_nodes) if every else np.flatnonzero(~graph.labelled)
    if with_new:
        chosen_folder, trained = trained.folder.path, best_for_new_nodes(folder, trained, graph)
        if trained.folder.path != chosen_folder:
            words = (
                f"{chosen_folder.name} cannot predict new nodes. {trained.folder.path.name} is the best model that can."
            )
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
    probabilities = probabilities_of(trained, graph)
    temperatures = temperatures_of(trained, graph, probabilities)
    if with_new:
        probabilities = probabilities_of(trained, written)
    tables = trained.plan.tables
    own_names = () if tables is None else (tables.id_column, tables.label)
    replaced = " (replaced)" * out.exists()
    write_table(out, prediction_columns(written, mean_probabilities(probabilities, temperatures), chosen, *own_names))
    count, runs = len(chosen), len(temperatures)
    words = f"{count:,} node{'s' * (count != 1)}, mean of {runs} run{'s' * (runs != 1)} of {trained.plan.model}"
    console.print(f"{words}, calibrated: {out}{replaced}", soft_wrap=True, markup=False)
