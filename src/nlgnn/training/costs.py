"""Costs of wrong answers: a matrix with one row per true class and one column per predicted class."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nlgnn.errors import OptionError

HOW = "Write CLASS:COST for all errors on a class, or CLASS:PREDICTED:COST for one of them, such as fraud:10."

Costs = NDArray[np.float64]


def split_costs(text: str) -> list[tuple[str, float]]:
    """Return the parts of a text such as `fraud:10,legit:fraud:2`: what costs, and how much.

    Raises:
        OptionError: If a part does not end in a colon and a number from 0.

    Example:
        >>> split_costs("fraud:10,legit:fraud:2")
        [('fraud', 10.0), ('legit:fraud', 2.0)]
    """
    found = []
    for part in text.split(","):
        name, _, number = part.rpartition(":")
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not name.strip() or not 0 <= value < math.inf:
            raise OptionError(f"cost={text!r}: {part!r} is not a class and a cost.", HOW)
        found.append((name.strip(), value))
    return found


def cost_matrix(text: str, class_names: Sequence[str]) -> Costs:
    """Return the cost of each error; an error that the text does not name costs 1, and a right answer 0.

    Args:
        text: Costs such as `fraud:10`: to miss a node of class fraud costs 10. `legit:fraud:2` is the cost of a single
            error: a node of class legit that is called fraud. Parts are separated by commas; later ones win.
        class_names: The names of the classes.

    Returns:
        The matrix, `[c, c]`: true classes in rows, predicted classes in columns.

    Raises:
        OptionError: If the text cannot be read or names a class that does not exist.

    Example:
        >>> cost_matrix("fraud:10", ["fraud", "legit"])
        array([[ 0., 10.],
               [ 1.,  0.]])
    """
    places = {name: place for place, name in enumerate(class_names)}
    errors = {f"{one}:{other}": (i, j) for one, i in places.items() for other, j in places.items() if i != j}
    costs = 1 - np.eye(len(class_names))
    for name, value in split_costs(text):
        if name in places:
            costs[places[name]] = value
            costs[places[name], places[name]] = 0
        elif name in errors:
            costs[errors[name]] = value
        else:
            raise OptionError(f"cost={text!r}: {name!r} is neither a class nor an error.", f"{HOW} {_listed(places)}")
    if not costs.any():
        raise OptionError(f"cost={text!r}: no error costs anything.", HOW)
    return costs


def cheapest(probabilities: NDArray[np.floating], costs: Costs) -> NDArray[np.int64]:
    """Return the class with the lowest expected cost for each node, `[n]`."""
    chosen: NDArray[np.int64] = (probabilities @ costs).argmin(-1)
    return chosen


def mean_cost(labels: NDArray[np.integer], predictions: NDArray[np.integer], costs: Costs) -> float:
    """Return the mean cost per node."""
    return float(costs[labels, predictions].mean())


def _listed(names: Sequence[str] | dict[str, int]) -> str:
    return f"Classes: {', '.join(list(names)[:20])}."
