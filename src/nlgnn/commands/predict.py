"""`nlgnn predict`: the labels of nodes that have none, with probabilities, as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nlgnn.commands.own_graph import tell_findings
from nlgnn.commands.terminal import console
from nlgnn.errors import DataError, OptionError


def predict(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    out: Annotated[Path, typer.Option(help="The table: .csv or .parquet.")] = Path("labels.csv"),
    every: Annotated[bool, typer.Option("--all", help="Also nodes that have a label.")] = False,
    nodes: Annotated[
        Path | None,
        typer.Option(help="Nodes that it has never seen: a table like that of training.", show_default=False),
    ] = None,
    edges: Annotated[
        Path | None, typer.Option(help="Their edges, to each other and to old nodes.", show_default=False)
    ] = None,
) -> None:
    """Write what the runs of a training say together of every unlabelled node, or of new ones.

    Probabilities are calibrated: a temperature a run, found on its validation nodes. With new nodes, the sorted
    sequence holds old and new ones, so that predictions of old nodes may change a little too. Ids and labels stand
    under the names that the table of training has for them.
    """
    import numpy as np

    from nlgnn.training.prediction import check_table_path, prediction_columns, together, write_table
    from nlgnn.training.predictor import heats_of, new_graph, probabilities_of
    from nlgnn.training.train import read_trained

    check_table_path(out)
    with_new = nodes is not None or edges is not None
    if with_new and every:
        raise OptionError("--all is of the graph that was trained on.", "Leave it out: all new nodes are written.")
    trained, graph = read_trained(folder)
    written, chosen = graph, np.arange(graph.num_nodes) if every else np.flatnonzero(~graph.labelled)
    if with_new:
        found, chosen = new_graph(trained, graph, nodes, edges)
        tell_findings(found)
        written = found.graph
        if len(chosen) == 0:
            raise DataError("there are no new nodes in these files.", "Give rows with ids that training has not seen.")
    elif len(chosen) == 0:
        raise DataError(
            f"every node of {graph.name} has a label.", "--all writes what is predicted of them all the same."
        )
    probabilities = probabilities_of(trained, graph)
    heats = heats_of(trained, graph, probabilities)
    if with_new:
        probabilities = probabilities_of(trained, written)
    tables = trained.plan.tables
    own_names = () if tables is None else (tables.id_column, tables.label)
    replaced = " (replaced)" * out.exists()
    write_table(out, prediction_columns(written, together(probabilities, heats), chosen, *own_names))
    count, runs = len(chosen), len(heats)
    words = f"{count:,} node{'s' * (count != 1)}, mean of {runs} run{'s' * (runs != 1)} of {trained.plan.model}"
    console.print(f"{words}, calibrated: {out}{replaced}", soft_wrap=True, markup=False)
