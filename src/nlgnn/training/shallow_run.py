"""Training and prediction of models without gradient training, one run after another."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from jaxtyping import Float
from threadpoolctl import threadpool_limits
from torch import Tensor

from nlgnn.graph.graph import Graph
from nlgnn.shallow.base import ShallowModel
from nlgnn.training.device import limited_threads
from nlgnn.training.metrics import log_probabilities, measure_all
from nlgnn.training.recipe import Recipe
from nlgnn.training.replica import Job, Run
from nlgnn.training.run_folder import load_weights


def fit_shallow(job: Job, model: ShallowModel, graph: Graph) -> None:
    """Train a model and fill in its run, which has no epochs and no curves.

    Args:
        job: The run to fill in, with its recipe and its split.
        model: The model, which is not fitted yet.
        graph: The graph, as `scaled` returns it.
    """
    run, recipe, split = job.run, job.recipe, job.split
    for name in model.recipe_options:
        setattr(model, name, getattr(recipe, name))
    with _limited(recipe, graph):
        started = time.perf_counter()
        model.fit(graph.past, split, recipe.metric, run.seed)
        run.seconds = time.perf_counter() - started
        logits = log_probabilities(model.predict(graph.past))
        tested = logits if graph.past is graph else log_probabilities(model.predict(graph))
    if not (logits.isfinite().all() and tested.isfinite().all()):
        run.failure = f"run {run.index}: {type(model).__name__} predicts probabilities that are not finite"
        return
    y = torch.tensor(graph.y)
    val, test = (torch.from_numpy(np.flatnonzero(part)) for part in (split.val, split.test & graph.labelled))
    run.choices = model.choices
    run.validation = logits[val].exp().float()
    run.val = measure_all(logits[val], y[val], recipe.metric)
    run.test = measure_all(tested[test], y[test], recipe.metric)
    run.state = {name: value.detach().cpu() for name, value in model.state_dict().items()}


def scaled(graph: Graph, recipe: Recipe) -> Graph:
    """Return the graph with features as the recipe scales them; not scaled unless the recipe says so."""
    return graph.scale_features(recipe.features if "features" in recipe.model_fields_set else "none")


def predict_shallow(
    model: ShallowModel, graph: Graph, runs: Sequence[Run], recipe: Recipe
) -> Float[Tensor, "runs n c"]:
    """Return class probabilities of all nodes by each successful run; `model` takes the state of one after another."""
    graph, found = scaled(graph, recipe), []
    for run in runs:
        if run.failure is None:
            load_weights(model, run.state, f"run {run.index}")
            with _limited(recipe, graph):
                found.append(torch.from_numpy(np.asarray(model.predict(graph), np.float32)))
    return torch.stack(found)


@contextmanager
def _limited(recipe: Recipe, graph: Graph) -> Iterator[None]:
    """Limit the threads of torch, and of NumPy, scikit-learn and LightGBM to as many."""
    with limited_threads(recipe.threads, graph), threadpool_limits(torch.get_num_threads()):
        yield
