"""Weights of trained models: checking that they belong to a model, and loading them."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from nlgnn.errors import DataError, RunFolderError
from nlgnn.nn.base import as_model
from nlgnn.shallow.base import Factory, ShallowModel
from nlgnn.training.device import model_like
from nlgnn.training.run_folder import Run


def load_weights(model: nn.Module | ShallowModel, state: dict[str, Tensor], where: object) -> None:
    """Load weights into a model.

    Args:
        model: The model.
        state: What its `state_dict` returned after training.
        where: Where the weights come from, for the error.

    Raises:
        RunFolderError: If the weights belong to another model.
    """
    check_weights(model, state, where)
    if isinstance(model, nn.Module):
        model.load_state_dict(state)


def check_weights(model: nn.Module | ShallowModel, state: dict[str, Tensor], where: object) -> None:
    """Raise a `RunFolderError` if weights belong to another model."""
    if isinstance(model, ShallowModel):
        try:
            model.load_state_dict(state)  # only the model itself can tell, by loading them
        except DataError as error:
            raise RunFolderError(f"the weights in {where} cannot be used: {error.what}", error.how) from None
        return
    own = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    given = {name: tuple(value.shape) for name, value in state.items()}
    for name in sorted(own.keys() | given.keys()):
        if own.get(name) != given.get(name):
            raise RunFolderError(
                f"the weights in {where} belong to another model: {name} is {given.get(name, 'missing')} there, "
                f"{own.get(name, 'missing')} in {type(model).__name__}.",
                "Use the model and the options that they were trained with.",
            )


def identifies_nodes(factory: Factory, runs: Sequence[Run]) -> bool:
    """Return whether a trained model knows nodes by their number; a shallow model may decide so in training."""
    model = model_like(factory)
    if not isinstance(model, ShallowModel):
        return as_model(model).identifies_nodes
    for run in runs:
        if run.failure is None:
            load_weights(model, run.state, f"run {run.index}")
            if model.identifies_nodes:
                return True
    return False
