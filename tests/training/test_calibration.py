"""Temperatures: they make the labels of validation nodes as likely as one number can, and change no prediction."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from nlgnn.training.predict import calibrated, temperature


def sample(sharpness: float, seed: int = 0, count: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities that are `sharpness` times too sure, and labels drawn from the honest ones."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(count, 3))
    honest = softmax(logits, axis=1)
    labels = (honest.cumsum(1) < rng.random((count, 1))).sum(1)
    return softmax(sharpness * logits, axis=1), labels


@pytest.mark.parametrize("sharpness", [0.5, 1.0, 3.0])
def test_it_undoes_false_confidence(sharpness: float) -> None:
    probabilities, labels = sample(sharpness)
    assert temperature(probabilities, labels) == pytest.approx(sharpness, rel=0.1)


def test_no_other_temperature_is_better() -> None:
    probabilities, labels = sample(2.0, count=100)
    best = temperature(probabilities, labels)
    surprise = [
        -np.log(calibrated(probabilities, heat)[np.arange(100), labels]).mean()
        for heat in (best, 0.9 * best, 1.1 * best)
    ]
    assert surprise[0] == min(surprise)


@given(st.integers(0, 1000), st.floats(0.05, 20))
def test_predictions_stay(seed: int, heat: float) -> None:
    probabilities, _ = sample(1.0, seed, count=20)
    warmer = calibrated(probabilities, heat)
    np.testing.assert_allclose(warmer.sum(1), 1)
    assert (warmer.argmax(1) == probabilities.argmax(1)).all()
    np.testing.assert_allclose(calibrated(probabilities, 1.0), probabilities, rtol=1e-6)


def test_without_labels_nothing_changes() -> None:
    assert temperature(np.empty((0, 3)), np.empty(0, int)) == 1.0


def test_labels_of_one_class_make_no_model_certain() -> None:
    assert temperature(np.array([[0.6, 0.4], [0.7, 0.3]]), np.zeros(2, int)) == 1.0


def test_certainty_is_no_error() -> None:
    probabilities = np.array([[1.0, 0.0], [0.0, 1.0]], np.float32)
    assert np.isfinite(calibrated(probabilities, temperature(probabilities, np.array([0, 1])))).all()
    assert np.isfinite(calibrated(probabilities, temperature(probabilities, np.array([1, 0])))).all()
