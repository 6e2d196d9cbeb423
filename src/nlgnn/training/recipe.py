"""Recipe: how a model is trained. The one place where a training option is declared.

Command-line flags and keys of a TOML file are made from these fields, and from the keyword arguments of the models.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from nlgnn.errors import OptionError, nearest
from nlgnn.training.sizes import parse_size

Stopping = Literal["window", "patience", "patience-either", "never"]
Selection = Literal["first-best", "last-best", "lowest-loss", "last-both"]
Metric = Literal["accuracy", "macro-f1", "roc-auc"]


# Options that say where and how to compute. They change how long training takes, not what it gives.
EXECUTION = {"threads", "replicas", "memory", "device"}


def _checked_size(text: str) -> str:
    parse_size(text)
    return text


class Recipe(BaseModel):
    """Full-batch training with Adam, an evaluation after every epoch, and the choice of one epoch by validation."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    features: Literal["none", "unit-sum", "unit-l2"] = Field(
        "unit-sum", description="Scaling of each feature row: to sum 1, to length 1, or none."
    )
    epochs: int = Field(1000, ge=1, description="Training epochs at most, beside those of pre-training.")
    lr: float = Field(0.01, gt=0, description="Learning rate of Adam.")
    weight_decay: float = Field(5e-4, ge=0, description="L2 penalty, coupled as in Adam (not AdamW).")
    lr_factor: float = Field(
        1.0, gt=0, le=1, description="What the learning rate is multiplied by when the validation loss stops falling."
    )
    lr_patience: int = Field(50, ge=1, description="Epochs without a lower validation loss that lr_factor waits for.")
    pretrain_epochs: int = Field(
        0, ge=0, description="Epochs on the model's pre-training loss before the others, for models with one."
    )
    stopping: Stopping = Field(
        "patience",
        description="When to stop early. window: past half of the epochs, once the validation loss exceeds its mean "
        "over the previous `window` epochs. patience: after `patience` epochs without a better epoch. "
        "patience-either: after `patience` epochs in which neither metric nor loss of validation was as good as ever "
        "before. never: not.",
    )
    window: int = Field(100, ge=1, description="Epochs that the window rule averages over.")
    patience: int = Field(200, ge=1, description="Epochs that the patience rule waits.")
    selection: Selection = Field(
        "first-best",
        description="Which epoch is kept: the first or last one with the best validation metric, the one with the "
        "lowest validation loss, or the last one whose metric and loss both were as good as ever before.",
    )
    metric: Metric = Field("accuracy", description="What selection compares.")
    class_weight: Literal["none", "balanced"] = Field(
        "none", description="balanced: in the training loss every class counts alike, however many nodes it has."
    )
    seed: int = Field(0, ge=0, lt=2**32, description="Run r draws its weights and dropout from seed + r.")
    threads: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        "auto", description="CPU threads; auto takes one for small graphs and all for large ones."
    )
    replicas: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        "auto", description="Models trained at once, in one program; auto takes as many as are fastest here."
    )
    memory: Annotated[str, AfterValidator(_checked_size)] | None = Field(
        None,
        description="Memory that training on a CPU may take, such as 8GiB; by default most of what is free. Where it "
        "is short, models compute in parts, and again in the backward pass.",
    )
    device: str = Field("auto", description="cpu, cuda, cuda:1, or auto: a GPU where there is one.")

    def __init__(self, **options: Any) -> None:
        """A value that an option cannot take is an `OptionError` that names it."""
        try:
            super().__init__(**options)
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(str(part) for part in first["loc"][:1])
            message = first["msg"].removeprefix("Value error, ")
            raise OptionError(f"{name}={first['input']!r}: {message[0].lower()}{message[1:]}.", help_of(name)) from None


def check_pretraining(model: object, recipe: Recipe) -> None:
    if recipe.pretrain_epochs and not hasattr(model, "pretrain_loss"):
        raise OptionError(f"{type(model).__name__} has no pre-training.", "Leave pretrain_epochs at 0.")
    if not recipe.pretrain_epochs and hasattr(model, "after_pretraining"):
        raise OptionError(
            f"{type(model).__name__} starts from what pre-training gives, but pretrain_epochs is 0.",
            "Give pretrain_epochs a number.",
        )


def help_of(field: str) -> str:
    known = Recipe.model_fields.get(field)
    return f"{field}: {known.description}" if known else nearest(field, list(Recipe.model_fields))
