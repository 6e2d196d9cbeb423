"""`nlgnn export`: write a trained model as an ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nlgnn.cli.console import console, errors
from nlgnn.cli.options import OwnModel, RunFolderPath
from nlgnn.errors import OptionError

if TYPE_CHECKING:
    from nlgnn.training.onnx import Exported


def export(
    folder: RunFolderPath,
    path: Annotated[Path, typer.Argument(metavar="FILE", help="ONNX file to write, such as model.onnx.")],
    run: Annotated[int | None, typer.Option(help="Run to export.", show_default="the first finished one")] = None,
    mean: Annotated[bool, typer.Option("--mean", help="Export the mean probabilities of all runs.")] = False,
    model: OwnModel = None,
) -> None:
    """Write a trained MLP, GCN, NLMLP or NLGCN as an ONNX file, for any number of nodes.

    The file takes features as the graph holds them, and edges if the model uses them. onnxruntime then runs it on the
    training graph, and the outputs are compared with those of the model.
    """
    from nlgnn.files import check_target
    from nlgnn.training.onnx import check_packages, export_onnx
    from nlgnn.training.train import read_trained

    if mean and run is not None:
        raise OptionError("--mean exports all runs, --run one.", "Give one of them.")
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
    """Return a sentence or two on how the outputs of the file compare with those of the model."""
    nodes = "all" if exported.checked_nodes == num_nodes else "the first"
    words = (
        f"onnxruntime compared with the model on {nodes} {exported.checked_nodes} nodes of {graph}: {exported.output} "
        f"within {exported.largest_difference:.1g} in the same order, the same class for {exported.same_class}."
    )
    if exported.moved_nodes:
        words += (
            f" The output of {exported.moved_nodes} nodes differs by more, because rounding exchanged nodes of nearly "
            "equal score near them in the sorted order."
        )
    return words
