"""`nlgnn export`: a trained model as an ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nlgnn.commands.terminal import console, errors
from nlgnn.errors import OptionError

if TYPE_CHECKING:
    from nlgnn.training.onnx import Exported


def export(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder that a training made.")],
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The ONNX file to write, such as model.onnx.")],
    run: Annotated[
        int | None, typer.Option(help="The run whose weights are used.", show_default="the first finished one")
    ] = None,
    mean: Annotated[
        bool, typer.Option("--mean", help="The mean of the probabilities of all finished runs instead of one run.")
    ] = False,
) -> None:
    """Write a trained MLP, GCN, NLMLP or NLGCN as an ONNX file, for any number of nodes.

    It takes features as the graph holds them, and edges if the model looks at them. onnxruntime then tries it on the
    graph of the training, beside the model itself.
    """
    from nlgnn.training.onnx import check_packages, export_onnx
    from nlgnn.training.run import check_target
    from nlgnn.training.train import read_trained

    if mean and run is not None:
        raise OptionError("--mean is of all runs, --run of one.", "Give one of them.")
    check_target(path)
    check_packages()
    trained, graph = read_trained(folder)
    with errors.status(f"exporting {trained.plan.model}"):
        exported = export_onnx(trained, graph, path, run, mean)
    console.print(f"exported: {path}", soft_wrap=True, markup=False)
    runs = "run" if len(exported.runs) == 1 else "mean of the runs"
    which = f"{trained.plan.model} trained on {graph.name}, {runs} {', '.join(map(str, exported.runs))}"
    console.print(f"{', '.join(exported.inputs)} -> {exported.output}: {which}", soft_wrap=True, markup=False)
    console.print(check_words(exported, graph.name, graph.num_nodes), soft_wrap=True, markup=False)


def check_words(exported: Exported, graph: str, num_nodes: int) -> str:
    """How the file compared with the model, in a sentence or two."""
    one = exported
    which = "all" if one.checked_nodes == num_nodes else "the first"
    words = (
        f"onnxruntime beside the model itself on {which} {one.checked_nodes} nodes of {graph}: {one.output} within "
        f"{one.largest_difference:.1g}, the same class for {one.same_class}."
    )
    if one.moved_nodes:
        words += (
            f" {one.moved_nodes} nodes are left out of the former: beside them in the sorted order, rounding has put "
            "nodes of equal score the other way round."
        )
    return words
