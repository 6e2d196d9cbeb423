"""Recipes, the registry of systems, the training loop, and the folders that keep its runs."""

from nlgnn.training.fit import fit, fit_settings, predict
from nlgnn.training.recipe import Recipe
from nlgnn.training.run import Run, RunFolder
from nlgnn.training.search import tune
from nlgnn.training.systems import configure

__all__ = ["Recipe", "Run", "RunFolder", "configure", "fit", "fit_settings", "predict", "tune"]
