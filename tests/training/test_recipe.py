"""A recipe has the documented defaults, and says which option is wrong and why."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from pydantic import ValidationError

from each_of import each_of
from nlgnn.errors import OptionError
from nlgnn.training.recipe import Recipe


def test_the_defaults() -> None:
    assert Recipe().model_dump() == {
        "features": "unit-sum",
        "class_weight": "none",
        "epochs": 1000,
        "lr": 0.01,
        "weight_decay": 5e-4,
        "lr_factor": 1.0,
        "lr_patience": 50,
        "pretrain_epochs": 0,
        "stopping": "patience",
        "window": 100,
        "patience": 200,
        "selection": "first-best",
        "metric": "accuracy",
        "seed": 0,
        "threads": "auto",
        "replicas": "auto",
        "memory": None,
        "device": "auto",
    }


@each_of(
    ("name", "value"),
    [
        ("features", "unit-l3"),
        ("epochs", 0),
        ("epochs", 2.5),
        ("lr", 0.0),
        ("lr", float("nan")),
        ("lr", "fast"),
        ("weight_decay", -1e-9),
        ("pretrain_epochs", -1),
        ("stopping", "sometimes"),
        ("window", 0),
        ("patience", 0),
        ("selection", "best"),
        ("metric", "precision"),
        ("seed", -1),
        ("seed", 2**64),  # torch takes no such seed
        ("threads", 0),
        ("threads", "many"),
    ],
)
def test_a_bad_value_is_named_with_its_option(name: str, value: Any) -> None:
    with pytest.raises(OptionError) as caught:
        Recipe(**{name: value})
    assert caught.value.what.startswith(f"{name}={value!r}: ")
    assert caught.value.how.startswith(f"{name}: ")  # the help text of that option


def test_an_unknown_field_is_named_with_the_known_ones() -> None:
    with pytest.raises(OptionError, match="epoch=") as caught:
        Recipe(epoch=3)
    assert "epochs" in caught.value.how


def test_the_signature_shows_every_option() -> None:
    assert list(inspect.signature(Recipe).parameters) == list(Recipe.model_fields)


def test_edges_of_the_ranges_are_inside() -> None:
    assert Recipe(epochs=1, weight_decay=0, pretrain_epochs=0, window=1, patience=1, seed=0, threads=1).epochs == 1


def test_a_recipe_does_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Recipe().epochs = 3  # type: ignore[misc]


def test_every_field_has_a_help_text() -> None:
    for name, field in Recipe.model_fields.items():
        assert (field.description or "").endswith("."), name
