"""Set by hand, the method finds labels that only the right order of the nodes reveals; its controls do not."""

import numpy as np
import pytest
import torch
from torch import Tensor

from nlgnn.datasets.synthetic import planted_order_graph
from nlgnn.graph.graph import Graph
from nlgnn.nn import NLMLP


@torch.no_grad()
def window_mean_by_key(**options: object) -> NLMLP:
    """Sorts by the key, takes the mean of the values around, and decides by its sign."""
    model = NLMLP(2, 1, 2, num_layers=1, embedding_channels=3, **options)
    for parameter in model.parameters():
        parameter.zero_()
    # z = (key + 2, value, -value). The key runs from -1 to 1: as a factor it must not change the value's sign.
    model.local.layers[0].weight.copy_(torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, -1.0]]))
    model.local.layers[0].bias.copy_(torch.tensor([2.0, 0.0, 0.0]))
    model.order.score.weight.copy_(torch.tensor([[1.0, 0.0, 0.0]]))
    for conv in (model.mixer.convs[0], model.mixer.convs[-1]):
        kernel_size = conv.kernel_size[0]
        conv.weight.copy_(torch.eye(3).unsqueeze(2).expand(3, 3, kernel_size) / kernel_size)
    # ReLU keeps the positive part of value and of -value; their difference is the value again.
    model.head.weight[:, 3:] = torch.tensor([[0.0, -1.0, 1.0], [0.0, 1.0, -1.0]])
    return model.eval()


@pytest.fixture(scope="module", params=[0, 1, 2])
def graph(request: pytest.FixtureRequest):
    return planted_order_graph(seed=request.param)


def accuracy(logits: Tensor, graph) -> float:
    return (logits.argmax(1).numpy() == graph.y).mean()


def test_a_node_alone_does_not_know_its_label(graph):
    assert 0.65 < accuracy(torch.from_numpy(graph.x[:, 1:]) * torch.tensor([-1.0, 1.0]), graph) < 0.75


def test_the_right_order_reveals_the_labels(graph):
    model = window_mean_by_key(kernel_size=5)
    assert accuracy(model(*model.prepare(graph)), graph) > 0.86


@pytest.mark.parametrize("control", [{"kernel_size": 1}, {"order": "random"}])
def test_the_controls_do_not(graph, control):
    model = window_mean_by_key(**control)
    assert accuracy(model(*model.prepare(graph)), graph) < 0.75


def test_one_percent_of_new_nodes_changes_less_than_one_percent_of_the_other_labels(graph):
    """Each stands in the windows of a few others, and seldom turns what they say together."""
    new = np.zeros(graph.num_nodes, bool)
    new[np.random.default_rng(0).choice(graph.num_nodes, graph.num_nodes // 100, replace=False)] = True
    model = window_mean_by_key(kernel_size=5)
    without = Graph(graph.x[~new], np.zeros((2, 0), int), graph.y[~new])
    before, after = model(*model.prepare(without)).argmax(1), model(*model.prepare(graph)).argmax(1)[~new]
    assert 0 < (before != after).float().mean() < 0.01
