"""Requirements of a training: memory and time, estimated from epochs on small graphs of the same kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from nlgnn.errors import OptionError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split
from nlgnn.limits import resident_bytes, show_size
from nlgnn.nn.base import Model, prepare
from nlgnn.training.device import choose_device, limited_threads
from nlgnn.training.memory import allowed_bytes, can_be_tried, epoch_seconds, step_bytes
from nlgnn.training.preflight import example_of
from nlgnn.training.recipe import Recipe
from nlgnn.training.replica import Job, Run


class Requirements(NamedTuple):
    """Memory and time of a training.

    Attributes:
        resident: Bytes that the process holds now, with the graph and the inputs of the model.
        step: Further bytes at the peak of an epoch.
        allowed: Bytes that the process may take, None if unknown.
        recompute: Whether hidden layers are computed in parts and again in the backward pass, because memory is short.
        epoch: Seconds of an epoch, with its evaluation.
        epochs: The largest number of epochs of a run.
        runs: The number of runs.
    """

    resident: int
    step: int
    allowed: int | None
    recompute: bool
    epoch: float
    epochs: int
    runs: int

    @property
    def fits(self) -> bool:
        """Return whether the peak is within the memory that is allowed."""
        return self.allowed is None or self.resident + self.step <= self.allowed

    def __str__(self) -> str:
        parts = " with hidden layers computed in parts" * self.recompute
        allowed = "" if self.allowed is None else f"; {show_size(self.allowed)} are allowed"
        hours = self.epoch * self.epochs * self.runs / 3600
        fits = "" if self.fits else ": it does not fit"
        peak, held = show_size(self.resident + self.step), show_size(self.resident)
        return (
            f"Memory: about {peak} at the peak{parts}, {held} of it held now by graph and inputs{allowed}{fits}.\n"
            f"Time: about {self.epoch:.3g} s per epoch, for {self.runs} runs of at most {self.epochs} epochs "
            f"{hours:.3g} hours. Early stopping may end runs sooner; small models are trained several at once."
        )


def estimate_requirements(
    factory: Callable[[], Any], graph: Graph, splits: Sequence[Split], recipe: Recipe
) -> Requirements:
    """Estimate the memory and time of a training, without training the model on the graph.

    Args:
        factory: Returns a new model.
        graph: The graph.
        splits: The splits, one for each run.
        recipe: The options of training.

    Returns:
        The estimate. Memory is usually within 30 % of the measured peak. Time is a rough guide: it was only compared on
            small graphs, and changes with the load of the machine.

    Example:
        >>> from nlgnn import configure, load_graph, make_splits
        >>> graph = load_graph("mushroom-body")
        >>> factory, recipe = configure("nlgcn", graph, epochs=200)
        >>> needed = estimate_requirements(factory, graph, make_splits(graph, "random-60", 2), recipe)
        >>> needed.fits, needed.runs, needed.epochs
        (True, 2, 200)
    """
    model = example_of(factory)
    if not isinstance(model, Model) or not can_be_tried(factory, model):
        raise OptionError(
            f"what {type(model).__name__} needs cannot be estimated from smaller graphs.", "Train it on a part first."
        )
    job = Job(Run(0, recipe.seed, splits[0].protocol, 0), factory, model, recipe, splits[0])
    with limited_threads(recipe.threads, graph):
        inputs = prepare(model, graph.past.scale_features(recipe.features), choose_device(recipe.device))
        allowed, step, recompute = allowed_bytes(recipe.memory), step_bytes(job, graph, recompute=False), False
        if allowed is not None and resident_bytes() + step > allowed and model.can_recompute:
            step, recompute = step_bytes(job, graph, recompute=True), True
        seconds = epoch_seconds(job, graph, recompute)
        resident = resident_bytes()
        del inputs
    return Requirements(
        resident, step, allowed, recompute, seconds, recipe.pretrain_epochs + recipe.epochs, len(splits)
    )
