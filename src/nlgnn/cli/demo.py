"""`nlgnn demo`: NLGCN and its controls on the graph that ships with the package."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from nlgnn.cli.console import console, errors, result_table
from nlgnn.report.figures import PALETTE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nlgnn.analysis import SortedSequence
    from nlgnn.graph.graph import Graph
    from nlgnn.training.train import Trained

GRAPH, MODEL, OPTIONS = "mushroom-body", "nlgcn", {"epochs": 500}


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the run folders.")] = Path("runs"),
    picture: Annotated[Path | None, typer.Option(help="Also draw the sequence into this .svg or .png file.")] = None,
) -> None:
    """Train on the graph that ships with the package, alongside the controls, and show the results."""
    from nlgnn.cli.report import tell_report

    if picture is not None:
        from nlgnn.report.figures import check_picture, save_chart
        from nlgnn.report.figures.strips import sequence_chart

        check_picture(picture)
    try:
        result = run_demo(out, tell=errors.print)
    except KeyboardInterrupt:
        errors.print(f"\ninterrupted. Continue with a folder in {out}: nlgnn train --resume FOLDER", markup=False)
        raise
    console.print(demo_page(result, console.width))
    tell_report(result.trained[0][1], result.graph, dict(result.trained[1:]))
    if picture is not None:
        save_chart(sequence_chart(result.graph, result.sequences), picture)
        console.print(f"picture: {picture}", soft_wrap=True)


class DemoResult(NamedTuple):
    """The results of the demonstration.

    Attributes:
        graph: The graph.
        trained: The model and its controls, with their labels.
        sequences: The sorted sequences of the first run, before and after training.
        kernels: The kernel sizes of the convolutions along the sequence.
    """

    graph: Graph
    trained: list[tuple[str, Trained]]
    sequences: dict[str, SortedSequence]
    kernels: list[int]

    def strips(self) -> dict[str, tuple[NDArray[np.int64], float]]:
        """Return the labels along each sequence, and its homophily: the share of equal labels within a kernel."""
        from nlgnn.analysis import reconnected_homophily

        return {
            title: (sequence.labels, reconnected_homophily(sequence.nodes, self.graph.y, self.kernels))
            for title, sequence in self.sequences.items()
        }


def run_demo(out: Path, tell: Callable[[str], None] = lambda _: None) -> DemoResult:
    """Train the model of the demonstration and its controls.

    Args:
        out: The folder for the run folders.
        tell: Called with a line before each training.
    """
    from nlgnn.analysis import kernel_sizes, order_before_and_after
    from nlgnn.datasets import load_graph
    from nlgnn.selection.controls import with_controls
    from nlgnn.training.train import Plan, train

    graph = load_graph(GRAPH)
    first_folder = out / f"{datetime.now():%Y%m%d-%H%M%S}-{graph.name}-{MODEL}"
    trained = []
    for number, variant in enumerate(with_controls(MODEL, OPTIONS)):
        tell(f"training {variant.label} on {graph.name}")
        plan = Plan(graph.name, variant.system, options=variant.options)
        # A report finds the controls by names that begin with that of the first folder.
        folder = first_folder.with_name(f"{first_folder.name}-{variant.slug}") if number else first_folder
        trained.append((variant.label, train(plan, graph, folder)))
    main = trained[0][1]
    first = next(run for run in main.runs if run.failure is None)
    scaled = graph.scale_features(main.recipe.features)
    before, after = order_before_and_after(main.factory, scaled, first)
    sequences = {"before training": before, f"after training (epoch {first.chosen_epoch})": after}
    return DemoResult(graph, trained, sequences, kernel_sizes(main.factory()))


def demo_page(result: DemoResult, width: int) -> RenderableType:
    """Return the orders and the results of the demonstration."""
    from nlgnn.graph.homophily import chance_homophily, node_homophily

    graph = result.graph
    strips = [
        Group(
            Text(f"{title} (share of neighbours with the same label: {agreement:.2f})"),
            strip(labels.tolist(), graph.class_names),
        )
        for title, (labels, agreement) in result.strips().items()
    ]
    legend = Text("  ").join(
        strip([label], graph.class_names) + Text(f" {name}") for label, name in enumerate(graph.class_names)
    )
    facts = (
        f"Along the edges the share is H(G) = {node_homophily(graph):.2f}, in a random order "
        f"{chance_homophily(graph):.2f}. All nodes are shown, also training nodes: this is a picture, not a score."
    )
    folders = Text("".join(f"run folder: {trained.folder.path}\n" for _, trained in result.trained).rstrip())
    return Group(
        Text("\nThe nodes in the order of the model, coloured by class:"),
        legend,
        *strips,
        Text(facts, "dim"),
        Text(),
        result_table(result.trained, width),
        folders,
    )


def strip(labels: list[int], names: tuple[str, ...]) -> Text:
    """Return one coloured letter per node, the first of its class. Nodes without a label are blank."""
    text = Text()
    for label in labels:
        text.append(names[label][:1] if label >= 0 else " ", f"black on {PALETTE[label % len(PALETTE)]}")
    return text
