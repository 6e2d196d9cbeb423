"""Labels as input: which are shown, and that no node's own label is both input and target."""

import pytest
import torch
from torch.nn import functional as F

from nlgnn.errors import DataError, OptionError
from nlgnn.nn import GCN, NonLocal
from nlgnn.nn.kernels.dropout import Draws, connect
from nlgnn.nn.label_input import LabelInput
from nn_samples import noise, random_edges, randomise

NODES, CLASSES = 40, 3
KNOWN = torch.where(torch.arange(NODES) < 25, torch.arange(NODES) % CLASSES, -1)
TRAIN = torch.arange(25)


def made(wrapped=False, **options):
    model = GCN(5, 6, CLASSES, norm="batch", residual=True, label_input=0.5, num_nodes=NODES, **options)
    model = randomise(NonLocal(model, CLASSES, CLASSES, local_loss=0.5) if wrapped else model)
    model.start((), KNOWN)
    return model


def shown_by(model, draws, epoch):
    """Return the nodes that a training pass of an epoch shows."""
    draws.epoch = epoch
    model.train()(noise(NODES, 5), random_edges(NODES, 90))
    return model.targets(torch.zeros(NODES, dtype=torch.long)) == -1


def test_about_half_of_the_training_labels_are_shown_and_others_in_every_epoch():
    module = LabelInput(4000, 2, 1, share=0.5)
    module.remember(torch.where(torch.arange(4000) < 3000, 1, -1))
    counts = []
    for _ in range(5):
        module(4000)
        shown = module.targets(torch.zeros(4000, dtype=torch.long)) == -1
        assert not shown[3000:].any()
        counts.append(int(shown.sum()))
    assert len(set(counts)) > 1
    assert all(1300 < count < 1700 for count in counts)


def test_draws_depend_on_seed_and_epoch_alone():
    model, draws = made(), Draws(3, torch.device("cpu"))
    connect(model, [model], [draws])
    first, second = shown_by(model, draws, 0), shown_by(model, draws, 1)
    torch.manual_seed(99)
    assert shown_by(model, draws, 0).equal(first)
    assert not first.equal(second)
    draws.seed = 4
    assert not shown_by(model, draws, 0).equal(first)


@pytest.mark.parametrize("wrapped", [False, True])
def test_the_loss_is_that_of_the_hidden_nodes(wrapped):
    model, x, edges = made(wrapped), noise(NODES, 5), random_edges(NODES, 90)
    y = torch.arange(NODES) % CLASSES
    output = model.train().training_output(x, edges)
    targets = model.targets(y)
    hidden = TRAIN[targets[TRAIN] >= 0]
    assert 0 < len(hidden) < len(TRAIN)
    loss = model.loss(output, y, TRAIN)
    if wrapped:
        expected = (
            F.cross_entropy(output.logits[hidden], y[hidden]) + F.cross_entropy(output.local[hidden], y[hidden])
        ) / 2
    else:
        expected = F.cross_entropy(output[hidden], y[hidden])
    torch.testing.assert_close(loss, expected)


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_nodes_own_label_never_enters_its_own_loss_as_input(wrapped):
    """A node whose label counts in the loss could have any other label as input: no output changes."""
    model, x, edges = made(wrapped), noise(NODES, 5), random_edges(NODES, 90)
    y, draws = torch.arange(NODES) % CLASSES, Draws(0, torch.device("cpu"))
    connect(model, [model], [draws])
    known = next(parameter for name, parameter in model.named_parameters() if name.endswith("known"))
    for epoch in range(4):
        draws.epoch = epoch
        before = model.train()(x, edges)
        hidden = TRAIN[model.targets(y)[TRAIN] >= 0]
        for node in hidden.tolist():
            known.data[node] = (KNOWN[node] + 1) % CLASSES
            assert model(x, edges).equal(before)
            known.data.copy_(KNOWN)
        shown = TRAIN[model.targets(y)[TRAIN] < 0]
        known.data[shown[0]] = (KNOWN[shown[0]] + 1) % CLASSES  # the test would notice
        assert not model(x, edges).equal(before)
        known.data.copy_(KNOWN)


def test_nodes_with_several_entries_are_hidden_in_all_of_them():
    """Balanced class weights repeat nodes."""
    model, y = made(), torch.arange(NODES) % CLASSES
    nodes = TRAIN.repeat_interleave(3)
    output = model.train().training_output(noise(NODES, 5), random_edges(NODES, 90))
    torch.testing.assert_close(model.loss(output, y, nodes), model.loss(output, y, TRAIN))


def test_evaluation_shows_all_training_labels_and_no_others():
    model, x, edges = made().eval(), noise(NODES, 5), random_edges(NODES, 90)
    before = model(x, edges)
    assert model.targets(KNOWN).equal(KNOWN)
    for node in (0, 24):
        model.deep.labels.known.data[node] = -1
        assert not model(x, edges).equal(before)
        model.deep.labels.known.data[node] = KNOWN[node]
    model.reset_parameters()
    assert (model.deep.labels.known == -1).all()


@pytest.mark.parametrize("count", [1, 2])
def test_at_least_one_label_is_hidden(count):
    module = LabelInput(5, 2, 1, share=0.9)
    module.remember(torch.where(torch.arange(5) < count, 1, -1))
    for _ in range(50):
        module(5)
        assert (module.targets(torch.zeros(5, dtype=torch.long))[:count] == 0).any()


def test_wrong_labels_and_other_graphs():
    model = made()
    with pytest.raises(DataError, match="labels"):
        model.start((), KNOWN[:5])
    with pytest.raises(OptionError, match="label_channels"):
        model.start((), KNOWN + 3)
    with pytest.raises(DataError, match="learned from 40 nodes"):
        model(noise(5, 5), random_edges(5, 9))
