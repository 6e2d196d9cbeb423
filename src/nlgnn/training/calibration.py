"""Calibration: probabilities that mean what they say, by a temperature a run, found on its validation nodes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Probabilities = NDArray[np.floating]
LARGEST_LOG_TEMPERATURE = 3.0


def temperature(probabilities: Probabilities, labels: NDArray[np.int64]) -> float:
    """What logits are to be divided by for the labels to be as likely as can be; 1 where there are none.

    Args:
        probabilities: of validation nodes, `[k, classes]`.
        labels: theirs, `[k]`.
    """
    from scipy.optimize import minimize_scalar

    if len(labels) == 0:
        return 1.0
    logits, rows = _logits(probabilities), np.arange(len(labels))

    def surprise(log_temperature: float) -> float:
        scaled = logits / np.exp(log_temperature)
        return float((np.logaddexp.reduce(scaled, axis=1) - scaled[rows, labels]).mean())

    bounds = (-LARGEST_LOG_TEMPERATURE, LARGEST_LOG_TEMPERATURE)
    return float(np.exp(minimize_scalar(surprise, bounds=bounds, method="bounded").x))


def calibrated(probabilities: Probabilities, temperature: float) -> Probabilities:
    """The same predictions with another confidence: softmax of logits over a temperature."""
    scaled = _logits(probabilities) / temperature
    shifted: Probabilities = np.exp(scaled - np.logaddexp.reduce(scaled, axis=-1, keepdims=True))
    return shifted


def _logits(probabilities: Probabilities) -> NDArray[np.float64]:
    """Up to a constant a row, which changes nothing."""
    return np.log(np.maximum(probabilities.astype(np.float64), 1e-30))
