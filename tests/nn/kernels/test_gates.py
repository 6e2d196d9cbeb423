import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.func import grad, vmap
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from nlgnn.nn.baselines.fagcn import GatedPropagation, GatedSum
from nn_samples import assert_same, gradients, noise, random_operator, seeds

patterns = given(st.integers(1, 8), st.integers(0, 30), st.integers(1, 9), seeds)


def gated_sum(*arguments):
    """Return the sums without the gates."""
    return GatedSum.apply(*arguments)[0]


def literal_sum(pattern, weights, h, vectors, bias):
    """One node after another, one entry after another."""
    result = []
    for node in range(pattern.shape[0]):
        total = torch.zeros_like(h[0])
        for entry in (pattern.rows == node).nonzero()[:, 0]:
            sender = h[pattern.columns[entry]]
            gate = torch.tanh(vectors.flatten() @ torch.cat([h[node], sender]) + bias)
            total = total + weights[entry] * gate * sender
        result.append(total)
    return torch.stack(result)


@patterns
def test_the_sum_and_its_gradients_equal_a_literal_version(num_nodes, entries, width, seed):
    pattern, _ = random_operator(num_nodes, num_nodes, entries, seed)  # with repeated entries and an empty row
    inputs = [noise(num_nodes, width, seed=seed), noise(2, width, seed=seed + 1)]
    bias = noise(1, seed=seed + 2)
    weights = noise(entries, seed=seed + 3).detach()
    expected = literal_sum(pattern, weights, *inputs, bias)
    if entries == 0:  # nothing in the literal version depends on anything
        assert not gated_sum(pattern, weights, *inputs, bias).any()
    else:
        inputs += [bias]
        assert_same(gated_sum(pattern, weights, *inputs), expected, inputs)


def test_gradients_equal_differences():
    pattern, _ = random_operator(6, 6, 20)
    weights = noise(20, seed=3).detach()
    inputs = (noise(6, 3), noise(2, 3), noise(1))
    # "Undefined": a gradient that torch leaves out where there is none to pass on, which no loss does.
    assert torch.autograd.gradcheck(
        lambda *inputs: gated_sum(pattern, weights, *inputs), inputs, check_undefined_grad=False
    )


@pytest.mark.parametrize("h_of_each", [False, True])
@pytest.mark.parametrize("weights_of_each", [False, True])
def test_replicas_equal_a_loop(h_of_each, weights_of_each):
    """Also in gradients taken inside, and where replicas share the embeddings or the weights."""
    pattern, _ = random_operator(6, 6, 20)
    h, weights = noise(3, 6, 4).detach(), noise(3, 20, seed=1).detach()
    vectors, bias = noise(3, 2, 4, seed=2).detach(), noise(3, 1, seed=3).detach()
    h, where_h = (h, 0) if h_of_each else (h[0], None)
    weights, where_weights = (weights, 0) if weights_of_each else (weights[0], None)
    where = (where_weights, where_h, 0, 0)

    def result(*inputs):
        return gated_sum(pattern, *inputs)

    def loss(*inputs):
        return result(*inputs).sin().sum()

    each = [
        [
            tensor if dim is None else tensor[replica]
            for tensor, dim in zip((weights, h, vectors, bias), where, strict=True)
        ]
        for replica in range(3)
    ]
    together = vmap(result, in_dims=where)(weights, h, vectors, bias)
    torch.testing.assert_close(together, torch.stack([result(*one) for one in each]), rtol=0, atol=1e-12)
    wanted = (1, 2, 3)
    together = vmap(grad(loss, wanted), in_dims=where)(weights, h, vectors, bias)
    for number, gradient in enumerate(together):
        loop = torch.stack([grad(loss, wanted)(*one)[number] for one in each])
        torch.testing.assert_close(gradient, loop, rtol=0, atol=1e-12)


class LargestArray(TorchDispatchMode):
    """Looks at every array that is made."""

    size = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        self.size = max([self.size, *(tensor.numel() for tensor in tree_leaves(result))])
        return result


def test_there_is_no_number_an_edge_and_channel():
    nodes, entries, width = 40, 400, 8
    pattern, _ = random_operator(nodes, nodes, entries)
    layer, h = GatedPropagation(width).double(), noise(nodes, width)
    pattern.transpose_order  # noqa: B018, is prepared once a graph
    with LargestArray() as largest:
        layer(h, pattern, pattern.values).sum().backward()
    assert largest.size == entries


def test_saturated_gates_are_one_and_have_no_gradient():
    pattern, dense = random_operator(6, 6, 20)
    h, vectors = noise(6, 3), torch.zeros(2, 3).double().requires_grad_()
    for sign in (1, -1):
        bias = torch.tensor([sign * 1e4]).double().requires_grad_()
        result = gated_sum(pattern, pattern.values, h, vectors, bias)
        torch.testing.assert_close(result, sign * dense @ h, rtol=0, atol=1e-12)
        assert [gradient.abs().max() for gradient in gradients(result, [vectors, bias])] == [0, 0]


def test_gates_in_single_precision_are_as_exact_as_numbers_near_one():
    pattern, _ = random_operator(2, 2, 1)
    for score in torch.linspace(-6, 6, 201).tolist():
        gate = gated_sum(pattern, torch.ones(1), torch.ones(2, 1), torch.zeros(2, 1), torch.tensor([score])).sum()
        assert abs(gate.item() - torch.tensor(score).double().tanh().item()) <= 2**-22


def test_embeddings_may_lie_in_memory_by_columns():
    pattern, _ = random_operator(6, 6, 20)
    layer, h = GatedPropagation(3).double(), noise(3, 6).detach().t()
    torch.testing.assert_close(layer(h, pattern, pattern.values), layer(h.contiguous(), pattern, pattern.values))


def test_receivers_come_first():
    """A gate that listens to the receiver only is the same for all of its senders."""
    pattern, dense = random_operator(6, 6, 20)
    layer, h = GatedPropagation(3).double(), noise(6, 3)
    layer.weight.data = torch.cat([torch.ones(1, 3), torch.zeros(1, 3)], dim=1).double()
    layer.bias.data.zero_()
    torch.testing.assert_close(layer(h, pattern, pattern.values), h.sum(1).tanh()[:, None] * (dense @ h))


def test_how_parameters_are_drawn():
    layer = GatedPropagation(2000)
    assert layer.weight.std().item() == pytest.approx(1.414 * (2 / 4001) ** 0.5, rel=0.05)
    assert layer.weight.abs().max() > 2.5 * layer.weight.std()  # normal: beyond what a uniform distribution has
    drawn = []
    for _ in range(200):
        layer.reset_parameters()
        drawn.append(abs(layer.bias.item()))
    assert 0.9 * 4000**-0.5 < max(drawn) <= 4000**-0.5
