"""Model: what the models of this package have in common, for the trainer and for each other."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from nlgnn.nn.dropout import Dropout, RandomModule
from nlgnn.nn.inputs import Features


class Model(nn.Module):
    """A module that the trainer knows how to train well: see the contract in docs/architecture.md."""

    stackable: bool = True  # torch.func.vmap may train several at once
    ignores_weights: bool = True  # of edges, all of which count alike

    def reset_parameters(self) -> None:
        """Draw all parameters anew. Those that lie in the module itself are left to its own version of this."""
        for child in self.children():
            reset(child)

    @property
    def deterministic(self) -> bool:
        """Whether training and evaluation compute the same: no dropout of whatever kind, no running statistics."""
        return not any(True for _ in self.buffers()) and not any(map(_is_random, self.modules()))


def _is_random(module: nn.Module) -> bool:
    if isinstance(module, RandomModule):
        return module.is_random
    return isinstance(module, _DropoutNd) and module.p > 0


def reset(module: nn.Module) -> None:
    """Draw a module's parameters anew, and those of the modules in it where it cannot do so itself."""
    if callable(draw := getattr(module, "reset_parameters", None)):
        draw()
    else:
        for child in module.children():
            reset(child)


def drop_features(x: Features, dropout: Dropout) -> Features:
    """Dropout of input features in the form that they have."""
    if not dropout.training or not dropout.is_random:
        return x
    return dropout(x) if isinstance(x, Tensor) else x.dropout(dropout)
