"""ONNX: a trained model as one file that other programs run without this package, checked against the model itself."""

from __future__ import annotations

import contextlib
import json
import logging
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import nn

from nlgnn import __version__
from nlgnn.errors import NlgnnError
from nlgnn.graph.graph import Graph
from nlgnn.graph.on_disk import FeaturesOnDisk, row_chunks
from nlgnn.nn.inputs import prepare
from nlgnn.nn.nonlocal_ import NonLocal
from nlgnn.training.execution import model_like
from nlgnn.training.portable import Portable
from nlgnn.training.replicas import evaluate
from nlgnn.training.run import Run, load_weights, write_whole
from nlgnn.training.train import Trained

PACKAGES = ("onnx", "onnxruntime", "onnxscript")
OPSET = 18  # of 2022: what runtimes have by now
# Of larger graphs the check takes the first nodes: features are made dense, and near ties become more with the nodes.
CHECKED_NODES, CHECKED_VALUES = 10_000, 2**25
TOLERANCE = 1e-4  # of logits, and of probabilities
NEAR_TIE = 1e-5  # scores this close, as a share of the largest, are equal but for rounding
WORDS = (
    "x: features as the graph holds them, one row a node; they are scaled inside. edge_index: node numbers from 0, "
    "two rows; either direction or both, loops and repetitions change nothing. Nodes are classified together: "
    "other nodes in x change the order that all are sorted into."
)
WEIGHT_WORDS = (
    " edge_weight: a number from 0 on for each edge; those of repetitions add up, and of the two directions of a pair "
    "the larger one counts."
)


@dataclass(frozen=True)
class Exported:
    """What was written, and how it compared with the model itself.

    `moved_nodes` are those whose result differs because two nodes beside them in the sorted order, whose scores are
    equal but for rounding, have changed places. `largest_difference` is that of all others.
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
        trained: with the graph, what `read_trained` gives.
        graph: what the file is checked on.
        path: the file; one that is there is replaced.
        run: its number; by default the first that did not fail.
        mean: whether to write the mean of the probabilities of all finished runs instead.
    """
    check_packages()
    runs = trained.finished if mean else [trained.finished_run(run)]
    models = [_model(trained, one) for one in runs]
    portable = Portable(models, trained.recipe.features, mean)
    output = "probabilities" if mean else "logits"
    weighted = portable.needs_edges and graph.edge_weight is not None
    inputs = ("x", "edge_index", "edge_weight")[: 3 if weighted else 2 if portable.needs_edges else 1]
    facts = {
        "nlgnn": __version__,
        "model": trained.plan.model,
        "graph": graph.name,
        "classes": json.dumps(graph.class_names, ensure_ascii=False),
        "runs": json.dumps([one.index for one in runs]),
        "features": trained.recipe.features,
        "inputs": WORDS + WEIGHT_WORDS * weighted,
    }
    content = _onnx(portable, graph.num_features, inputs, output, facts)
    part = _first_nodes(graph)
    prepared = prepare(models[0], part.scale_features(trained.recipe.features))
    own, foreign = _own_result(models, prepared, mean), _foreign_result(content, part)
    difference = np.abs(own - foreign).max(1)
    differs = ~(difference <= TOLERANCE * (1 + np.abs(own).max(1)))  # what is no number differs too
    if (differs & ~_beside_near_ties(models, prepared)).any():
        raise NlgnnError(
            f"what was exported gives other {output} than {trained.plan.model} itself, for {differs.sum()} of "
            f"{part.num_nodes} nodes; nothing was written.",
            "Try other versions of torch, onnxscript and onnxruntime.",
        )
    try:
        write_whole(path, lambda half_written: half_written.write_bytes(content))
    except OSError as error:
        raise NlgnnError(f"{path} cannot be written: {error.strerror}.", "Name a file that can be written.") from error
    return Exported(
        inputs=inputs,
        output=output,
        runs=tuple(one.index for one in runs),
        checked_nodes=part.num_nodes,
        moved_nodes=int(differs.sum()),
        same_class=int((own.argmax(1) == foreign.argmax(1)).sum()),
        largest_difference=float(difference[~differs].max(initial=0)),
    )


def check_packages() -> None:
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise NlgnnError(
            f"exporting to ONNX needs {', '.join(missing)}, not installed here.",
            "Install them: pip install 'nlgnn[onnx]'",
        )


def _model(trained: Trained, run: Run) -> nn.Module:
    model = model_like(trained.factory)
    load_weights(model, run.state, f"run {run.index} of {trained.folder.path}")
    return model


def _onnx(portable: Portable, num_features: int, inputs: Sequence[str], output: str, facts: dict[str, str]) -> bytes:
    """The file's content."""
    import onnx

    # Any small graph will do, but for sizes of 0 and 1, which torch would take to be fixed.
    example = (torch.rand(4, num_features), torch.tensor([[0, 1, 2], [1, 2, 3]]), torch.rand(3))[: len(inputs)]
    edges = torch.export.Dim("edges")
    sizes = ({0: torch.export.Dim("nodes")}, {1: edges}, {0: edges})
    with _quiet():
        program = torch.onnx.export(
            portable,
            example,
            dynamo=True,
            input_names=inputs,
            output_names=[output],
            dynamic_shapes=dict(zip(inputs, sizes, strict=False)),
            opset_version=OPSET,
            verbose=False,
        )
    assert program is not None
    content = program.model_proto
    for node in content.graph.node:  # where in this package each came from: paths of this machine
        node.ClearField("metadata_props")
        node.ClearField("doc_string")
    onnx.helper.set_model_props(content, facts)
    return bytes(content.SerializeToString())


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """torch's exporter warns of what users can do nothing about."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _first_nodes(graph: Graph) -> Graph:
    count = min(CHECKED_NODES, max(1, CHECKED_VALUES // max(1, graph.num_features)))
    if graph.num_nodes <= count:
        return graph
    if isinstance(graph.x, FeaturesOnDisk):
        x: Any = replace(graph.x, shape=(count, graph.num_features))
    else:
        x = graph.x[:count]
    kept = (graph.edge_index < count).all(0)
    weight = None if graph.edge_weight is None else graph.edge_weight[kept]
    return Graph(
        x,
        graph.edge_index[:, kept],
        graph.y[:count],
        name=graph.name,
        class_names=graph.class_names,
        edge_weight=weight,
    )


def _own_result(models: Sequence[nn.Module], prepared: tuple[Any, ...], mean: bool) -> NDArray[np.float32]:
    results = [evaluate(model, prepared) for model in models]
    result: NDArray[np.float32] = (torch.stack(results).softmax(2).mean(0) if mean else results[0]).numpy()
    return result


def _beside_near_ties(models: Sequence[nn.Module], prepared: tuple[Any, ...]) -> NDArray[np.bool_]:
    """Nodes whose convolutions see two others that the last digit of their scores puts into an order."""
    beside = np.zeros(prepared[0].shape[0], bool)
    for model in models:
        if not isinstance(model, NonLocal):
            continue
        with torch.no_grad():
            scores, order = model.sort_order(*prepared)
        ordered = scores[order].numpy()
        ties = np.flatnonzero(np.diff(ordered) <= NEAR_TIE * np.abs(ordered).max())
        reach = sum(layer.kernel_size[0] // 2 for layer in model.modules() if isinstance(layer, nn.Conv1d))
        places = ties[:, None] + np.arange(-reach, reach + 2)
        beside[order.numpy()[places.clip(0, len(order) - 1)]] = True
    return beside


def _foreign_result(content: bytes, graph: Graph) -> NDArray[np.float32]:
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(content, settings, providers=["CPUExecutionProvider"])
    if isinstance(graph.x, sparse.csr_array):
        x = graph.x.toarray()
    else:
        x = np.concatenate([rows.copy() for _, rows in row_chunks(graph.x)])
    given = {"x": x, "edge_index": graph.edge_index, "edge_weight": graph.edge_weight}
    result: NDArray[np.float32] = session.run(None, {one.name: given[one.name] for one in session.get_inputs()})[0]
    return result
