"""Portable: what a trained model computes, from raw features and edges, in operations that ONNX has too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from nlgnn.errors import OptionError
from nlgnn.graph.graph import FeatureScaling
from nlgnn.nn.aggregation import NonLocalAggregation
from nlgnn.nn.layers import FeatureLinear, GraphConvolution
from nlgnn.nn.local import GCN, MLP, LocalModel
from nlgnn.nn.nonlocal_ import NonLocal

EXPORTABLE = "mlp, gcn, nlmlp and nlgcn can be exported"


class Edges(NamedTuple):
    """Entries of GCN's matrix. Repetitions stay, without weight: else their number would depend on the data."""

    receivers: Tensor
    senders: Tensor
    weights: Tensor


class Portable(nn.Module):
    """One trained model, or the mean of the probabilities that several give.

    Shapes depend on the number of nodes and edges only, never on what is in the tensors: ONNX can follow that.

    Args:
        models: of one class, with their weights.
        features: how feature rows were scaled in training.
        mean: whether to give the mean of the models' probabilities; else the logits of the one model.
    """

    def __init__(self, models: Sequence[nn.Module], features: FeatureScaling, mean: bool) -> None:
        super().__init__()
        for model in models:
            check_portable(model)
        self.models = nn.ModuleList(models).eval()
        self.features, self.mean = features, mean

    @property
    def needs_edges(self) -> bool:
        return isinstance(_local(self.models[0]), GCN)

    def forward(self, x: Tensor, edge_index: Tensor | None = None, edge_weight: Tensor | None = None) -> Tensor:
        x = _scaled(x, self.features)
        edges = None if edge_index is None else _normalised_edges(edge_index, edge_weight, x)
        logits = [_logits(model, x, edges) for model in self.models]
        return torch.stack([of_one.softmax(1) for of_one in logits]).mean(0) if self.mean else logits[0]


def check_portable(model: nn.Module) -> None:
    """Raise where a model is not one of those that can leave this package, and say why."""
    local = _local(model)
    if type(local) not in (MLP, GCN):
        inner = "" if local is model else f" with {type(local).__name__} in it"
        raise OptionError(
            f"{type(model).__name__}{inner} cannot be exported: what it computes is not written in ONNX's operations.",
            f"Of the models {EXPORTABLE}.",
        )
    if isinstance(model, NonLocal):
        if model.metric is not None:
            raise OptionError(
                "a model that orders nodes by a learned metric cannot be exported.",
                "Export a model that was trained with order='score'.",
            )
        if not isinstance(model.aggregation, NonLocalAggregation):
            raise OptionError(
                "aggregation='attention' cannot be exported: it is there to compare with, and takes n² steps.",
                "Export a model that was trained with aggregation='sort'.",
            )
        if model.aggregation.order == "random":
            raise OptionError(
                "order='random' cannot be exported: it is a control, whose order is drawn anew for every number of "
                "nodes.",
                "Export a model that was trained with order='score'.",
            )


def _local(model: nn.Module) -> nn.Module:
    return model.local if isinstance(model, NonLocal) else model


def _scaled(x: Tensor, features: FeatureScaling) -> Tensor:
    """As `Graph.scale_features`, in its numbers too: the same rows, to the last digit."""
    if features == "none":
        return x
    power = 1 if features == "unit-sum" else 2
    wide = x.double()
    norms = (wide.abs() if power == 1 else wide.square()).sum(1, keepdim=True) ** (1 / power)
    return (wide * (1 / torch.where(norms == 0, torch.ones_like(norms), norms))).float()


def _normalised_edges(edge_index: Tensor, edge_weight: Tensor | None, x: Tensor) -> Edges:
    """Both directions of every edge and one loop a node, whatever was given of them."""
    num_nodes = x.shape[0]
    loops = torch.arange(num_nodes)
    receivers = torch.cat([edge_index[0], edge_index[1], loops])
    senders = torch.cat([edge_index[1], edge_index[0], loops])
    entries, order = (receivers * num_nodes + senders).sort()
    receivers, senders = receivers.index_select(0, order), senders.index_select(0, order)
    with_previous = torch.cat([entries.new_full((1,), -1), entries])
    is_first = (with_previous[1:] != with_previous[:-1]).float()
    values = is_first
    if edge_weight is not None:
        edge_weight = edge_weight * (edge_index[0] != edge_index[1])
        values = is_first * _merged_weights(edge_weight, torch.ones(num_nodes), order, is_first)
    degrees = torch.zeros(num_nodes).index_put((receivers,), values, accumulate=True)
    roots = degrees.rsqrt()
    weights = values * roots.index_select(0, receivers) * roots.index_select(0, senders)
    return Edges(receivers, senders, weights.unsqueeze(1))


def _merged_weights(edge_weight: Tensor, of_loops: Tensor, order: Tensor, is_first: Tensor) -> Tensor:
    """The weight of each sorted entry, as `Graph` has it: repetitions add up, of two directions the larger counts."""
    nothing = torch.zeros_like(edge_weight)
    as_given, turned = torch.cat([edge_weight, nothing, of_loops]), torch.cat([nothing, edge_weight, of_loops])
    place = is_first.cumsum(0).long() - 1  # of all equal entries the same
    sums = [
        torch.zeros_like(is_first).index_put((place,), each.index_select(0, order), accumulate=True)
        for each in (as_given, turned)
    ]
    return torch.maximum(*sums).index_select(0, place)


def _logits(model: nn.Module, x: Tensor, edges: Edges | None) -> Tensor:
    z = _embedded(cast(LocalModel, _local(model)), x, edges)
    if not isinstance(model, NonLocal):
        return z
    mixed = _along_order(cast(NonLocalAggregation, model.aggregation), z)
    assert model.head is not None  # as of all that pass `check_portable`
    logits: Tensor = z + model.head(mixed) if model.residual else model.head(torch.cat([z, mixed], dim=1))
    return logits


def _embedded(local: LocalModel, x: Tensor, edges: Edges | None) -> Tensor:
    *hidden, last = (cast(FeatureLinear, layer) for layer in local.layers)
    for layer in hidden:
        x = local.activation(_layer(layer, x, edges))
    return _layer(last, x, edges)


def _layer(layer: FeatureLinear, x: Tensor, edges: Edges | None) -> Tensor:
    h = x @ layer.weight
    if isinstance(layer, GraphConvolution):
        assert edges is not None  # whoever exports a GCN gives them
        messages = h.index_select(0, edges.senders) * edges.weights
        h = torch.zeros_like(h).index_put((edges.receivers,), messages, accumulate=True)
    return h + layer.bias


def _along_order(aggregation: NonLocalAggregation, z: Tensor) -> Tensor:
    assert aggregation.score is not None
    scores = aggregation.score(z).squeeze(1)
    order = scores.sort().indices  # becomes TopK: of equal scores the lower node number comes first, says ONNX
    rows: Tensor = aggregation.convs(aggregation.scaled(z, scores).index_select(0, order))
    return torch.zeros_like(rows).index_put((order,), rows)
