import torch
from hypothesis import given
from hypothesis import strategies as st

import reference
from nlgnn.nn import MLP, GlobalAttention, NonLocal
from nn_samples import assert_same, noise, seeds


@given(st.integers(1, 9), seeds)
def test_equals_the_reference(num_nodes, seed):
    z = noise(num_nodes, 3, seed=seed)
    assert_same(GlobalAttention()(z), reference.attention(z), [z])


def test_graphs_in_a_batch_stay_apart():
    z, batch = noise(7, 3), torch.tensor([2, 0, 0, 2, 0, 1, 2])
    alone = torch.zeros_like(z)
    for graph in range(3):
        nodes = (batch == graph).nonzero()[:, 0]
        alone = alone.index_put((nodes,), reference.attention(z[nodes]))
    assert_same(GlobalAttention()(z, batch=batch), alone, [z])


def test_it_is_a_mixer_of_non_local_models():
    model, x = NonLocal(MLP(3, 4, 2), 2, 2, mixer=GlobalAttention()).double(), noise(6, 3)
    z = model.local(x)
    expected = reference.concat_head(z, reference.attention(z), model.head.weight.t(), model.head.bias)
    trained = [*model.local.parameters(), *model.head.parameters()]  # the score is not
    assert_same(model(x), expected, [x, *trained])
