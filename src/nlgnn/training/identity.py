"""Identity of a training: a hash of everything that decides its figures."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from torch import nn

from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split
from nlgnn.nn.base import Model
from nlgnn.shallow.base import Factory, ShallowModel
from nlgnn.training.preflight import class_name, hooks_of
from nlgnn.training.recipe import EXECUTION, Recipe


def identity(
    graph: Graph, splits: Sequence[Split], recipe: Recipe, factory: Factory, model: nn.Module | ShallowModel
) -> str:
    """Return a hash of all that decides the figures: runs with another one are not of the same training.

    A factory that cannot be compared, such as a lambda, gets another hash on every call.
    """
    hooks = hooks_of(model)
    state = hooks.unwrapped.state_dict() if isinstance(hooks, Model) else {}  # a shallow model has none before `fit`
    shapes = [(name, tuple(value.shape)) for name, value in state.items()]
    settings = recipe.model_dump(exclude=EXECUTION)
    made_by = description_of(factory) or os.urandom(16).hex()
    digest = hashlib.sha256(repr((graph.fingerprint, settings, class_name(hooks), made_by, shapes)).encode())
    digest.update(bits_of(splits))
    return digest.hexdigest()[:16]


def description_of(factory: Factory) -> str | None:
    """Return a description of a factory as text, or None if it cannot be compared with others.

    Classes and functions of a module can be compared, and partials of them whose arguments are numbers, texts, classes
    or such functions; a lambda, a function inside a function and an object with state cannot.
    """
    made, arguments = (
        (factory.func, (factory.args, factory.keywords)) if isinstance(factory, partial) else (factory, ())
    )
    try:
        return json.dumps([_named(made), arguments], sort_keys=True, default=_named)
    except TypeError:
        return None


def _named(value: Any) -> str:
    name = getattr(value, "__qualname__", "")
    inside = "<lambda>" in name or ("<locals>" in name and not isinstance(value, type))
    if not name or inside or not (isinstance(value, type) or inspect.isroutine(value)):
        raise TypeError(f"{value!r} cannot be compared")
    return f"{value.__module__}.{name}"


def bits_of(splits: Sequence[Split]) -> bytes:
    """Return the masks of splits as bytes, for hashes."""
    return b"".join(np.packbits([split.train, split.val, split.test]).tobytes() for split in splits)
