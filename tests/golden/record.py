"""Golden files: the figures of every model, and the public names.

`python tests/golden/record.py` writes all of them, `python tests/golden/record.py names` only those that are named.
`test_golden.py` compares them. Pages that are kept in `docs/` have tests of their own and are not kept here again.
"""

from __future__ import annotations

import json
import pkgutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from torch import nn

import nlgnn
from nlgnn import Graph, configure, errors, fit, load_graph, make_splits
from nlgnn.models.options import model_options, recipe_options
from nlgnn.models.registry import SYSTEMS

GOLDEN = Path(__file__).parent
FIGURES, NAMES = GOLDEN / "figures.json", GOLDEN / "public_names.txt"

# Every model is trained with these options; where nothing else is said, dropout is 0.5.
OPTIONS: dict[str, Any] = {"hidden": 16, "epochs": 12, "lr": 0.05, "threads": 1, "replicas": 2, "device": "cpu"}
# Options of one model or of one entry, which win over those above.
OWN_OPTIONS: dict[str, dict[str, Any]] = {
    "cpgcn": {"pretrain_epochs": 5},
    # Rounding decides the sign of a gradient: rows of the estimated compatibility sum to 0, where |sum| has its kink.
    "cpgcn/mushroom-body": {"lr": 1e-12},
}
# Further entries of the two models below. Without options, the order is that of the score.
VARIED_MODELS = ("nlgcn", "nlmlp")
RECORDED_METRICS = ("accuracy", "macro-f1", "roc-auc")
VARIANTS: dict[str, dict[str, Any]] = {
    "random": {"order": "random"},
    "learned": {"order": "learned"},
    "learned-adjacency": {"order": "learned", "space_input": "adjacency"},
    "frozen": {"order": "learned", "frozen": True},
    "released": {"preset": "released"},
}
VOTING_MODELS = ("vote-gcn", "vote-mlp")
VOTE_VARIANTS: dict[str, dict[str, Any]] = {
    "random": {"order": "random"},
    "adjacency": {"space_input": "adjacency"},
    "frozen": {"frozen": True},
}


def entry_names() -> list[str]:
    """Return the keys of all entries, such as `nlgcn/mushroom-body` and `nlgcn:random/mushroom-body`."""
    varied = [f"{model}:{variant}" for model in VARIED_MODELS for variant in VARIANTS]
    varied += [f"{model}:{variant}" for model in VOTING_MODELS for variant in VOTE_VARIANTS]
    return [f"{model}/{graph}" for model in [*SYSTEMS, *varied] for graph in GRAPHS]


def directed_graph() -> Graph:
    """Make a small directed graph with weights of edges and sparse features, both of which depend on the class."""
    rng = np.random.default_rng(0)
    nodes, classes, features = 90, 3, 24
    y = rng.permutation(np.arange(nodes) % classes)
    x = rng.random((nodes, features)) < np.where(np.arange(features) % classes == y[:, None], 0.35, 0.15)
    adjacency = rng.random((nodes, nodes)) < np.where((y[:, None] + 1) % classes == y, 0.08, 0.02)
    edge_index = np.stack(adjacency.nonzero())
    weights = rng.integers(1, 9, edge_index.shape[1]) / 4
    values = x * rng.integers(1, 5, x.shape)
    return Graph(sparse.csr_array(values), edge_index, y, directed=True, name="directed", edge_weight=weights)


GRAPHS = {"mushroom-body": cache(lambda: load_graph("mushroom-body")), "directed": cache(directed_graph)}


@contextmanager
def double_precision() -> Iterator[None]:
    """Make new tensors float64, so that figures do not depend on rounding."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def with_errors(model: nn.Module, size: float) -> nn.Module:
    """Multiply every weight of a model by 1 - size, 1 or 1 + size."""
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        if parameter.is_floating_point():
            parameter.data *= 1 + size * torch.randint(-1, 2, parameter.shape, generator=generator)
    return model


def measure(entry: str, rounding: float = 0.0) -> list[dict[str, float]]:
    """Train the model of an entry on two splits and return the figures of each run.

    Args:
        entry: One of `entry_names()`.
        rounding: The relative size of errors that are added to the initial weights.
    """
    name, graph_name = entry.split("/")
    model, _, variant = name.partition(":")
    graph = GRAPHS[graph_name]()
    options = (
        OPTIONS
        | OWN_OPTIONS.get(model, {})
        | OWN_OPTIONS.get(entry, {})
        | (VOTE_VARIANTS if model in VOTING_MODELS else VARIANTS).get(variant, {})
    )
    with double_precision(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some models say that they do not use the weights of edges
        system = SYSTEMS[model]
        by_gradients = system.kind != "shallow"
        known = model_options(system).keys() | recipe_options(system)
        factory, recipe = configure(model, graph, **{k: v for k, v in options.items() if by_gradients or k in known})
        make = (lambda: with_errors(factory(), rounding)) if rounding and by_gradients else factory
        runs = fit(make, graph, make_splits(graph, "random-60")[:2], recipe, progress=False)
    return [
        {
            "chosen_epoch": run.chosen_epoch,
            "epochs": run.epochs,
            **{f"val {metric}": run.val[metric] for metric in RECORDED_METRICS if metric in run.val},
            **{f"test {metric}": run.test[metric] for metric in RECORDED_METRICS if metric in run.test},
            **{f"last {curve}": values[-1] for curve, values in run.curves.items() if values},
        }
        for run in runs
    ]


def public_names() -> list[str]:
    """Return the names that the package and its subpackages list as public, and the classes of errors."""
    packages = [info.name for info in pkgutil.walk_packages(nlgnn.__path__, "nlgnn.") if info.ispkg]
    modules = [nlgnn, *map(import_module, packages)]
    names = [f"{module.__name__}.{name}" for module in modules for name in getattr(module, "__all__", [])]
    names += [
        f"nlgnn.errors.{name}"
        for name, value in vars(errors).items()
        if getattr(value, "__module__", "") == errors.__name__ and isinstance(value, type)
    ]
    return sorted(names)


def close_to(runs: list[dict[str, float]]) -> list[Any]:
    """Return what equals the figures of all runs up to rounding."""
    return [pytest.approx(run, rel=1e-7, abs=1e-9) for run in runs]


def record_figures() -> None:
    """Write the figures of all entries, one run per line, and print new entries whose figures rounding decides.

    Recorded figures stay; to measure an entry again, remove it from the file first.
    """
    recorded = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    lines = []
    for entry in entry_names():
        runs = recorded.get(entry) or measure(entry)
        if entry not in recorded and any(measure(entry, error) != close_to(runs) for error in (1e-15, 1e-12)):
            print(f"rounding decides the figures of {entry}")
        lines.append(f"  {json.dumps(entry)}: [\n" + ",\n".join(f"    {json.dumps(run)}" for run in runs) + "\n  ]")
    FIGURES.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def record_names() -> None:
    """Write the public names, one per line."""
    NAMES.write_text("\n".join(public_names()) + "\n")


RECORDERS = {"figures": record_figures, "names": record_names}

if __name__ == "__main__":
    for part in sys.argv[1:] or RECORDERS:
        RECORDERS[part]()
