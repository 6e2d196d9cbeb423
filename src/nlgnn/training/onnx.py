"""ONNX export: a trained model as one file that runs without this package, compared with the model itself."""

from __future__ import annotations

import contextlib
import json
import logging
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from nlgnn import __version__
from nlgnn.errors import NlgnnError, OptionError, require_packages
from nlgnn.files import write_whole, writing
from nlgnn.graph.features import FeaturesOnDisk, row_chunks
from nlgnn.graph.graph import FeatureScaling, Graph
from nlgnn.nn.base import prepare
from nlgnn.nn.kernels.sorted_conv import rounded
from nlgnn.nn.layers import FeatureLinear, GraphConvolution
from nlgnn.nn.local import GCN, MLP, LocalModel
from nlgnn.nn.mixing import SortedConv
from nlgnn.nn.non_local import NonLocal
from nlgnn.nn.orders import ScoreOrder
from nlgnn.training.device import model_like
from nlgnn.training.run_folder import load_weights
from nlgnn.training.train import Trained

OPSET = 18  # of 2022, which all current runtimes support
CHECKED_NODES, CHECKED_VALUES = 10_000, 2**25  # larger graphs are compared on their first nodes, made dense
TOLERANCE = 1e-4  # of scores, logits and probabilities, relative to the largest of a row
NO_SCORES = np.zeros((0, 1), np.float32)
INPUTS = (
    "x: unscaled features, one row per node. edge_index: node numbers from 0, two rows, one or both directions. "
    "Nodes are classified together: other nodes in x change the order into which all nodes are sorted. "
    "edge_weight, if the file takes it: a non-negative number per edge; weights of repeated edges add up, and the "
    "larger weight of the two directions of a pair counts."
)


@dataclass(frozen=True)
class Exported:
    """An exported file and its comparison with the model itself.

    Attributes:
        inputs: The names of the inputs.
        output: The name of the output, logits or probabilities.
        runs: The numbers of the exported runs.
        checked_nodes: The number of nodes that were compared.
        moved_nodes: The number of nodes whose result differs because nodes near them in the sorted order, with scores
            that are equal up to rounding, have changed places.
        same_class: The number of nodes with the same predicted class.
        largest_difference: The largest difference between the file and the model, along the order of the file.
    """

    inputs: tuple[str, ...]
    output: str
    runs: tuple[int, ...]
    checked_nodes: int
    moved_nodes: int
    same_class: int
    largest_difference: float


def export_onnx(trained: Trained, graph: Graph, path: Path, run: int | None = None, mean: bool = False) -> Exported:
    """Write a run of a training as an ONNX file.

    Args:
        trained: The training, as returned by `read_trained`.
        graph: The graph that the file is compared on.
        path: The file to write. An existing file is replaced.
        run: The number of the run; by default the first that did not fail.
        mean: If True, the file returns the mean of the probabilities of all successful runs instead.

    Raises:
        OptionError: If the model cannot be exported.
        NlgnnError: If a package is missing, or if the file and the model disagree.
    """
    check_packages()
    if trained is not trained.leading:
        raise OptionError("An ensemble cannot be exported.", f"Export a member, such as {trained.leading.folder.path}.")
    runs = trained.finished if mean else [trained.finished_run(run)]
    models = [model_like(trained.factory) for _ in runs]
    for model, one in zip(models, runs, strict=True):
        load_weights(model, one.state, f"run {one.index} of {trained.folder.path}")
    portable = Portable(models, trained.recipe.features, mean, graph.row_norm)
    output = "probabilities" if mean else "logits"
    reads_edges = isinstance(_local(models[0]), GCN)
    weighted = reads_edges and graph.edge_weight is not None
    inputs = ("x", "edge_index", "edge_weight")[: 1 + reads_edges + weighted]
    facts = {
        "nlgnn": __version__,
        "model": trained.plan.model,
        "graph": graph.name,
        "classes": json.dumps(graph.class_names, ensure_ascii=False),
        "runs": json.dumps([one.index for one in runs]),
        "features": trained.recipe.features,
        "inputs": INPUTS,
    }
    content = _onnx(portable, graph.num_features, inputs, output, facts)
    part = _first_nodes(graph)
    prepared = prepare(models[0], part.scale_features(trained.recipe.features))
    result, scores = _run_file(content, part)
    # Sums in another order change the last digits of scores, and with them the order of nodes whose scores are nearly
    # equal. So scores are compared first, then results along the order of the file.
    own, own_scores = _run_models(models, prepared, mean)
    along_order, _ = _run_models(models, prepared, mean, scores)
    differs = _differing_rows(result, along_order) | _differing_rows(scores, own_scores).any()
    if differs.any():
        raise NlgnnError(
            f"the exported file gives other {output} than {trained.plan.model} itself, for {differs.sum()} of "
            f"{part.num_nodes} nodes; nothing was written.",
            "Try other versions of torch, onnxscript and onnxruntime.",
        )
    with writing(path, "Name a file that can be written."):
        write_whole(path, lambda file: file.write_bytes(content))
    return Exported(
        inputs=inputs,
        output=output,
        runs=tuple(one.index for one in runs),
        checked_nodes=part.num_nodes,
        moved_nodes=int(_differing_rows(result, own).sum()),
        same_class=int((own.argmax(1) == result.argmax(1)).sum()),
        largest_difference=float(np.abs(result - along_order).max()),
    )


def check_packages() -> None:
    """Raise an `NlgnnError` if a package that exporting needs is not installed."""
    require_packages("onnx", "onnx", "onnxruntime", "onnxscript")


def _onnx(portable: Portable, num_features: int, inputs: Sequence[str], output: str, facts: dict[str, str]) -> bytes:
    """Return the content of the file."""
    import onnx

    # Sizes of the example must not be 0 or 1, which torch would take for fixed.
    example = (torch.rand(4, num_features), torch.tensor([[0, 1, 2], [1, 2, 3]]), torch.rand(3))[: len(inputs)]
    edges = torch.export.Dim("edges")
    sizes = ({0: torch.export.Dim("nodes")}, {1: edges}, {0: edges})
    with _quiet():
        program = torch.onnx.export(
            portable,
            example,
            dynamo=True,
            input_names=inputs,
            output_names=[output, "scores"][: 1 + portable.sorts],
            dynamic_shapes=dict(zip(inputs, sizes, strict=False)),
            opset_version=OPSET,
            verbose=False,
        )
    content = cast(Any, program).model_proto
    for node in content.graph.node:  # they hold paths of this machine
        node.ClearField("metadata_props")
        node.ClearField("doc_string")
    onnx.helper.set_model_props(content, facts)
    return bytes(content.SerializeToString())


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress warnings of torch's exporter that users cannot act on."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logging.disable(logging.NOTSET)


def _first_nodes(graph: Graph) -> Graph:
    """Return the first nodes of a graph, with dense features in memory."""
    count = min(graph.num_nodes, CHECKED_NODES, max(1, CHECKED_VALUES // max(1, graph.num_features)))
    rows: Any = graph.x
    rows = replace(rows, shape=(count, graph.num_features)) if isinstance(rows, FeaturesOnDisk) else rows[:count]
    x = rows.toarray() if sparse.issparse(rows) else np.concatenate([some.copy() for _, some in row_chunks(rows)])
    kept = (graph.edge_index < count).all(0)
    weight = None if graph.edge_weight is None else graph.edge_weight[kept]
    return Graph(
        x,
        graph.edge_index[:, kept],
        graph.y[:count],
        class_names=graph.class_names,
        edge_weight=weight,
        row_norm=graph.row_norm,
    )


def _run_models(
    models: Sequence[nn.Module], prepared: tuple[Any, ...], mean: bool, scores: NDArray[np.float32] | None = None
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return what `_run_file` returns, computed by the models, which sort by the given scores or by their own."""
    results, keys = [], []
    with torch.no_grad():
        for index, model in enumerate(models):
            if isinstance(model, NonLocal):
                z = model.embed(*prepared)
                ranking = model.order(z, prepared)
                keys.append(ranking.keys)
                if scores is not None:
                    ranking = ranking._replace(keys=torch.from_numpy(scores[index]))
                results.append(model.classify(z, model.mixer(z, ranking)))
            else:
                results.append(model(*prepared))
    result = torch.stack(results).softmax(2).mean(0) if mean else results[0]
    return result.numpy(), torch.stack(keys).numpy() if keys else NO_SCORES


def _differing_rows(found: NDArray[np.float32], wanted: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Return the rows that differ by more than rounding; NaN differs too."""
    return np.asarray(~(np.abs(found - wanted).max(1) <= TOLERANCE * (1 + np.abs(wanted).max(1))))


def _run_file(content: bytes, graph: Graph) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return logits or probabilities `[n, c]` and the scores of non-local models `[runs, n]` from onnxruntime."""
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    given = {"x": graph.x, "edge_index": graph.edge_index, "edge_weight": graph.edge_weight}
    result, *scores = session.run(None, {one.name: given[one.name] for one in session.get_inputs()})
    return result, scores[0] if scores else NO_SCORES


class Edges(NamedTuple):
    """Entries of GCN's matrix. Repeated entries stay with weight 0, because ONNX needs sizes independent of values."""

    receivers: Tensor
    senders: Tensor
    weights: Tensor


class Portable(nn.Module):
    """Trained models in operations that ONNX has, from unscaled features and edges.

    Args:
        models: Trained models of one class.
        features: The scaling of feature rows in training.
        mean: If True, `forward` returns the mean of the models' probabilities; else the logits of the one model.

    Raises:
        OptionError: If a model cannot be exported.
    """

    def __init__(
        self, models: Sequence[nn.Module], features: FeatureScaling, mean: bool, row_norm: float | None = None
    ) -> None:
        super().__init__()
        for model in models:
            _check_exportable(model)
        self.models = nn.ModuleList(models).eval()
        self.features, self.mean, self.row_norm = features, mean, row_norm
        self.sorts = isinstance(models[0], NonLocal)

    def forward(
        self, x: Tensor, edge_index: Tensor | None = None, edge_weight: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Return logits or probabilities `[n, c]` and, for non-local models, the scores `[models, n]`."""
        x = _scaled(x, self.features, self.row_norm)
        edges = None if edge_index is None else _normalised_edges(edge_index, edge_weight, x)
        logits, keys = zip(*[_logits(model, x, edges) for model in self.models], strict=True)
        result = torch.stack([of_one.softmax(1) for of_one in logits]).mean(0) if self.mean else logits[0]
        return (result, torch.stack(keys)) if self.sorts else (result,)


def _check_exportable(model: nn.Module) -> None:
    local, name = _local(model), type(model).__name__
    if type(local) not in (MLP, GCN):
        inner = "" if local is model else f" with {type(local).__name__} in it"
        raise OptionError(
            f"{name}{inner} cannot be exported: it is not written in ONNX's operations.",
            "Export mlp, gcn, nlmlp or nlgcn.",
        )
    if cast(LocalModel, local).deep is not None:
        raise OptionError(
            f"{name} cannot be exported with norm, residual, jumping, row_norm or label_input.",
            "Export a model that was trained without these options.",
        )
    if isinstance(model, NonLocal) and not (type(model.order) is ScoreOrder and isinstance(model.mixer, SortedConv)):
        raise OptionError(
            f"{name} cannot be exported with {type(model.order).__name__} and {type(model.mixer).__name__}.",
            "Export a model that was trained with order='score'.",
        )


def _local(model: nn.Module) -> nn.Module:
    return model.local if isinstance(model, NonLocal) else model


def _scaled(x: Tensor, features: FeatureScaling, row_norm: float | None = None) -> Tensor:
    """Return what `Graph.scale_features` returns, equal to the last digit."""
    if features == "none" or x.shape[1] == 1:
        return x
    if row_norm is not None:
        return (x.double() * (1 / row_norm)).float()
    power = 1 if features == "unit-sum" else 2
    wide = x.double()
    norms = (wide.abs() if power == 1 else wide.square()).sum(1, keepdim=True) ** (1 / power)
    return (wide * (1 / torch.where(norms == 0, torch.ones_like(norms), norms))).float()


def _normalised_edges(edge_index: Tensor, edge_weight: Tensor | None, x: Tensor) -> Edges:
    """Return both directions of every edge and one loop per node, whichever of them were given."""
    num_nodes = x.shape[0]
    pairs = torch.cat([edge_index, edge_index.flip(0), torch.arange(num_nodes).expand(2, -1)], dim=1)
    entries, order = (pairs[0] * num_nodes + pairs[1]).sort()
    receivers, senders = pairs.index_select(1, order)
    with_previous = torch.cat([entries.new_full((1,), -1), entries])
    is_first = (with_previous[1:] != with_previous[:-1]).float()
    values = is_first
    if edge_weight is not None:
        unlooped = edge_weight * (edge_index[0] != edge_index[1])
        values = is_first * _merged_weights(unlooped, torch.ones(num_nodes), order, is_first)
    roots = torch.zeros(num_nodes).index_put((receivers,), values, accumulate=True).rsqrt()
    weights = values * roots.index_select(0, receivers) * roots.index_select(0, senders)
    return Edges(receivers, senders, weights.unsqueeze(1))


def _merged_weights(edge_weight: Tensor, of_loops: Tensor, order: Tensor, is_first: Tensor) -> Tensor:
    """Return the weight of each sorted entry as `Graph` has it: repetitions add up, the larger direction counts."""
    nothing = torch.zeros_like(edge_weight)
    as_given, turned = torch.cat([edge_weight, nothing, of_loops]), torch.cat([nothing, edge_weight, of_loops])
    place = is_first.cumsum(0).long() - 1  # the same for all equal entries
    sums = [
        torch.zeros_like(is_first).index_put((place,), each.index_select(0, order), accumulate=True)
        for each in (as_given, turned)
    ]
    return torch.maximum(*sums).index_select(0, place)


def _logits(model: nn.Module, x: Tensor, edges: Edges | None) -> tuple[Tensor, Tensor | None]:
    """Return the logits of a model and the scores that it sorts by."""
    local = cast(LocalModel, _local(model))
    *hidden, last = (cast(FeatureLinear, layer) for layer in local.layers)
    for layer in hidden:
        x = local.activation(_layer(layer, x, edges))
    x = _layer(last, x, edges)
    if not isinstance(model, NonLocal):
        return x, None
    ranking = model.order(x, ())
    # Becomes TopK, which puts the lower node number first among equal scores.
    order = rounded(ranking.keys).sort().indices
    rows = cast(SortedConv, model.mixer).convs(ranking.scaled(x).index_select(0, order))
    return model.classify(x, torch.zeros_like(rows).index_put((order,), rows)), ranking.keys


def _layer(layer: FeatureLinear, x: Tensor, edges: Edges | None) -> Tensor:
    h = x @ layer.weight
    if isinstance(layer, GraphConvolution):
        assert edges is not None
        messages = h.index_select(0, edges.senders) * edges.weights
        h = torch.zeros_like(h).index_put((edges.receivers,), messages, accumulate=True)
    return h + layer.bias
