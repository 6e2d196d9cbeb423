"""Logits and gradients of models over several processes equal those of one process."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse
from torch import Tensor

from each_of import each_of
from nlgnn.graph.graph import Graph
from nlgnn.graph.part import GraphPart
from nlgnn.models.build import configure
from nlgnn.models.registry import SYSTEMS
from nlgnn.nn import GAT, GCN, MLP, NLGAT, NLGCN, NLMLP, GraphSAGE
from nlgnn.nn.base import Model, logits_of, prepare, storing_statistics
from nlgnn.nn.baselines.bank import FeatureBank
from nlgnn.nn.baselines.dirgcn import DirGCN
from nlgnn.nn.baselines.fagcn import FAGCN
from nlgnn.nn.baselines.gcnii import GCNII
from nlgnn.nn.baselines.h2gcn import H2GCN
from nlgnn.nn.kernels import dropout, sorted_blocks
from nlgnn.nn.kernels.dropout import Draws, connect
from nlgnn.nn.kernels.ranks import Halo, Ranks, _Total, ranges_of_work, sharing
from nlgnn.nn.versions import NonLocalVersion
from rank_processes import on_ranks

WIDTHS = {"in_channels": 6, "hidden_channels": 5, "out_channels": 3}
MODELS: dict[str, Callable[..., Model]] = {
    "mlp": partial(MLP, dropout=0.4),
    "gcn": partial(GCN, dropout=0.4, input_dropout=0.3),
    "gcn-deep": partial(GCN, num_layers=3, norm="batch", residual=True, jumping="cat", dropout=0.4),
    "gcn-row-norm": partial(GCN, num_layers=3, residual=True, dropout=0.4, row_norm=True),
    "gcn-layer-norm": partial(GCN, num_layers=3, norm="layer"),
    "sage": partial(GraphSAGE, dropout=0.4),
    "sage-deep": partial(GraphSAGE, num_layers=3, norm="batch", dropout=0.4, jumping="max"),
    "gat": partial(GAT, heads=2, dropout=0.4),
    "gcnii": partial(GCNII, num_layers=3, dropout=0.4),
    "fagcn": partial(FAGCN, dropout=0.4),
    "dirgcn": partial(DirGCN, dropout=0.4),
    "h2gcn": H2GCN,  # without dropout it projects first
    "h2gcn-dropout": partial(H2GCN, dropout=0.4),
    "bank": partial(FeatureBank, operators="out+in2+all+root+loop2", dropout=0.4),
    "nlmlp": partial(NLMLP, dropout=0.4, kernel_size=9),
    "nlgcn": partial(NLGCN, dropout=0.4, standardise_score=True),
    "nlgcn-random": partial(NLGCN, order="random", head="residual", local_loss=0.3),
    "nlgat": partial(NLGAT, heads=2),
    "nl-sage": partial(NonLocalVersion.around(GraphSAGE), dropout=0.4),
    "nl-gcnii": partial(NonLocalVersion.around(GCNII), kernel_size=3),
    "nl-fagcn": NonLocalVersion.around(FAGCN),
    "nl-dirgcn": NonLocalVersion.around(DirGCN),
    "nl-h2gcn": NonLocalVersion.around(H2GCN),
    "nl-bank": NonLocalVersion.around(FeatureBank),
}


def random_graph(nodes: int, edges: int, kinds: int, seed: int = 0, weighted: bool = False) -> Graph:
    """Return a directed graph whose nodes are of few kinds: isolated nodes of one kind have equal scores."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-2, 4, size=(kinds, 6)).astype(np.float32)[rng.integers(kinds, size=nodes)]
    ends = rng.integers(nodes, size=(2, edges))
    weights = rng.random(edges) if weighted else None
    labels = np.append(rng.integers(3, size=nodes - 1), -1)
    return Graph(x, ends, labels, True, class_names=list("abc"), edge_weight=weights)


def star() -> Graph:
    return replace(random_graph(40, 0, 40), edge_index=np.stack([np.arange(1, 30), np.zeros(29, int)]))


def sparse_features(graph: Graph) -> Graph:
    return replace(graph, x=sparse.csr_array(np.where(graph.dense_features() > 0, graph.dense_features(), 0)))


FOLDER = tempfile.TemporaryDirectory()  # removed when Python ends


def on_disk(graph: Graph) -> Graph:
    """Return a graph whose features are in a file."""
    path = Path(FOLDER.name) / "x.npy"
    np.save(path, graph.dense_features())
    return replace(graph, x=np.load(path, mmap_mode="r"))


GRAPHS = {
    "features on disk": on_disk(random_graph(50, 80, 50)),
    "random": random_graph(60, 90, 60, weighted=True),
    "ties": random_graph(60, 15, 4),  # most nodes are isolated
    "equal scores": random_graph(30, 0, 1),
    "star": star(),
    "sparse features": sparse_features(random_graph(50, 80, 50)),
    "two nodes": random_graph(2, 1, 2),
}
EVERYWHERE = ("nlgcn", "sage", "bank")  # on all graphs; the others on the first only


def on(model: str, graph: str) -> bool:
    """Return whether a model is tested on a graph."""
    if graph == "features on disk":
        return model in ("nlmlp", "nlgcn", "sage")
    return graph == "random" or model in EVERYWHERE


def cases() -> list[tuple[str, str]]:
    return [(model, graph) for graph in GRAPHS for model in MODELS if on(model, graph)]


def other_cases() -> list[tuple[str, str]]:
    """Return the other models on the other graphs. A bank is held in memory."""
    every = [(model, graph) for graph in GRAPHS for model in MODELS if not on(model, graph)]
    return [case for case in every if case not in [("bank", "features on disk"), ("nl-bank", "features on disk")]]


def step(name: str, graph: Graph, y: Tensor, train: Tensor) -> tuple[Model, list[Tensor]]:
    """Return a model and its training logits, loss, gradients and evaluation logits."""
    torch.manual_seed(1)
    model = MODELS[name](**WIDTHS).double()
    for parameter in model.parameters():
        if parameter.requires_grad:  # parameters that start at 0 hide what comes before them
            parameter.data += 0.1 * torch.randn_like(parameter)
    connect(model, [model], [Draws(7, torch.device("cpu"), epoch=3)])
    inputs = prepare(model, graph)
    output = model.train().training_output(*inputs)
    loss = model.loss(output, y, train)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    gradients = torch.autograd.grad(loss, trained, allow_unused=True, materialize_grads=True)
    with torch.no_grad(), storing_statistics(model):
        evaluated = model.eval()(*inputs)
    return model, [logits_of(output).detach(), evaluated, loss.detach(), *gradients, *model.state_dict().values()]


def limits_of(graph: Graph, size: int) -> list[int]:
    """Return balanced ranges for two ranks, and ranges of which one is empty for three."""
    nodes = graph.num_nodes
    return ranges_of_work(graph.undirected_adjacency.indptr, 2) if size == 2 else [0, nodes // 3, nodes, nodes]


def even_nodes(ranks: Ranks) -> Tensor:
    """Return the own nodes with an even number among all."""
    return torch.arange(ranks.first + ranks.first % 2, ranks.stop, 2) - ranks.first


def parts_of_all(wanted: list[tuple[str, str]], size: int) -> list[list[Tensor]]:
    found = []
    for model, name in wanted:
        graph = GRAPHS[name]
        ranks = Ranks(limits_of(graph, size))
        part = GraphPart.of(graph, ranks.first, ranks.stop)
        y = torch.from_numpy(graph.y[ranks.first : ranks.stop])
        with sharing(ranks):
            made, result = step(model, part, y, even_nodes(ranks))
        end = 3 + sum(parameter.requires_grad for parameter in made.parameters())
        found.append([*result[:2], *(ranks.add(one.clone()) for one in result[2:end]), *result[end:]])
    return found


def differing(wanted: list[tuple[str, str]], size: int) -> list[str]:
    """Return the cases of which anything differs by more than 1e-9 from one process."""
    parts, wrong = on_ranks(size, parts_of_all, wanted, size), []
    for (model, name), of_ranks in zip(wanted, zip(*parts, strict=True), strict=True):
        graph = GRAPHS[name]
        _, whole = step(model, graph, torch.from_numpy(graph.y), torch.arange(0, graph.num_nodes, 2))
        logits = [torch.cat([own[place] for own in of_ranks]) for place in (0, 1)]
        for own in of_ranks:
            pairs = zip([*logits, *own[2:]], whole, strict=True)
            worst = max(float((mine - right).abs().max()) for mine, right in pairs)
            if not worst < 1e-9:
                wrong.append(f"{model} on {name}: {worst:.1e}")
    return wrong


@each_of("size", [2, 3])
def test_logits_and_gradients(size: int) -> None:
    assert differing(cases(), size) == []


@pytest.mark.slow
@each_of("size", [2, 3])
def test_every_model_on_every_graph(size: int) -> None:
    assert differing(other_cases(), size) == []


def lost(halo: Halo, rows: Tensor) -> Tensor:
    """Return the own rows, without the gradients that come back from other ranks."""
    return rows[halo.before : len(rows) - len(halo) + halo.before].clone()


def not_summed(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
    return gradient, None


def no_margins(ranks: Ranks, width: int) -> Halo:
    return MARGINS(ranks, 0)


MARGINS = sorted_blocks.margins
MUTATIONS: list[tuple[Any, str, Any, str]] = [
    (Halo, "give_back", lost, "sage"),
    (_Total, "backward", staticmethod(not_summed), "gcn-deep"),
    (dropout, "first_row", lambda: 0, "mlp"),
    (sorted_blocks, "margins", no_margins, "nlmlp"),
]


def test_mutations_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four deliberate errors in the exchange make the comparison with one process fail."""
    for place, name, wrong, model in MUTATIONS:
        with monkeypatch.context() as context:
            context.setattr(place, name, wrong)
            assert differing([(model, "random")], 2) != [], name


LOCAL_NAMES = {"mlp", "gcn", "sage", "gat", "gcnii", "h2gcn", "fagcn", "dirgcn", "bank", "fsgnn"}


def test_named_models_over_ranks() -> None:
    """Exactly those models of the registry that the guide lists can be trained over several processes."""
    graph, found = replace(GRAPHS["random"], edge_weight=None), set()
    for name, system in SYSTEMS.items():
        if system.kind != "shallow" and "pretrain_epochs" not in system.program:
            model = configure(name, graph)[0]()
            found |= {name} if model.over_ranks else set()
    ours = {"mlp", "gcn", "gat"}
    expected = LOCAL_NAMES | {f"nl{name}" if name in ours else f"nl-{name}" for name in LOCAL_NAMES}
    assert found == expected & set(SYSTEMS)
    assert not configure("gcn", graph, label_input=0.5)[0]().over_ranks
    assert not configure("nlgcn", graph, order="learned")[0]().over_ranks
