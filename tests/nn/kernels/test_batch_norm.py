import pytest
import torch
from torch import nn

import reference
from nlgnn.nn.kernels import batch_norm
from nlgnn.nn.kernels.batch_norm import normalised
from nlgnn.nn.kernels.dropout import Dropout, connect
from nlgnn.nn.norm import BatchNorm
from nn_samples import assert_replicas_draw_as_alone, assert_same, noise, randomise, seeded_draws


class Hidden(nn.Module):
    """Batch normalisation, ReLU and dropout, twice, as one operation each or as separate ones."""

    def __init__(self, rate, fused=True):
        super().__init__()
        self.norms, self.dropout, self.fused = nn.ModuleList([BatchNorm(4), BatchNorm(4)]), Dropout(rate), fused

    def forward(self, h):
        for place, norm in enumerate(self.norms):
            h = norm.hidden(h, self.dropout, place) if self.fused else self.dropout(norm(h).relu(), place)
        return h


@pytest.fixture(params=["together", "one by one"])
def either_way(request, monkeypatch):
    """Normalise replicas together, as small ones are, or one by one."""
    monkeypatch.setattr(batch_norm, "SMALL", 2**16 if request.param == "together" else 0)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 7])
def test_it_equals_the_equation(rows, relu):
    h, weight, bias = noise(rows, 3), noise(3, seed=1), noise(3, seed=2)
    expected = reference.batch_norm(h, weight, bias)
    inputs = [h, weight, bias]
    assert_same(normalised(h, weight, bias, relu), expected.relu() if relu else expected, inputs, tolerance=1e-12)


@pytest.mark.parametrize("relu", [False, True])
def test_gradients_are_those_of_differences(relu):
    inputs = (noise(6, 3), noise(3, seed=1), noise(3, seed=2))
    assert torch.autograd.gradcheck(lambda *tensors: normalised(*tensors, relu), inputs, check_undefined_grad=False)


@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_it_equals_separate_operations(rate):
    """With the same masks, also over several blocks of rows that are drawn from one seed each."""
    fused, separate = randomise(Hidden(rate)), randomise(Hidden(rate, fused=False))
    h = noise(70_000, 4)
    for model in (fused, separate):
        connect(model, [model], seeded_draws(1))
    parameters = [parameter for parameter in fused.parameters() if parameter.requires_grad]
    theirs = [parameter for parameter in separate.parameters() if parameter.requires_grad]
    ours, expected = fused(h), separate(h)
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-12)
    weights = noise(*ours.shape, seed=3).detach() / len(h)
    gradients = torch.autograd.grad((ours * weights).sum(), [h, *parameters])
    for one, other in zip(gradients, torch.autograd.grad((expected * weights).sum(), [h, *theirs]), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("rates", [[0.5, 0.5, 0.5], [0.5, 0.2, 0.0]])
def test_replicas_draw_as_alone(rates):
    models = [randomise(Hidden(rate), seed) for seed, rate in enumerate(rates)]
    h = noise(30, 4).detach()
    assert_replicas_draw_as_alone(models, lambda model: model(h))


def test_single_precision_keeps_the_digits_of_the_mean():
    """A sum of one row after another loses two digits, and entries near zero would pass ReLU or not by chance."""
    h = torch.randn(20_000, 4, generator=torch.Generator().manual_seed(0)) + torch.tensor([0.0, 3.0, -3.0, 30.0])
    ones, zeros = torch.ones(4), torch.zeros(4)
    exact = normalised(h.double(), ones.double(), zeros.double())
    torch.testing.assert_close(normalised(h, ones, zeros).double(), exact, rtol=0, atol=2e-5)
