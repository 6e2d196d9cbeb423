"""When training stops, and which epoch is kept. Both look at validation only."""

from __future__ import annotations

from statistics import fmean

from nlgnn.training.recipe import Recipe


def is_better(recipe: Recipe, metric: float, loss: float, best_metric: float, best_loss: float) -> bool:
    """Whether an epoch takes the place of the best one so far."""
    match recipe.selection:
        case "first-best":
            return metric > best_metric
        case "last-best":
            return metric >= best_metric
        case "lowest-loss":
            return loss < best_loss


def should_stop(recipe: Recipe, val_losses: list[float], best_epoch: int) -> bool:
    """Whether to stop after the last epoch of `val_losses`; epochs count from 1."""
    epoch = len(val_losses)
    match recipe.stopping:
        case "window":
            previous = val_losses[-recipe.window - 1 : -1]
            return epoch > recipe.epochs / 2 and bool(previous) and val_losses[-1] > fmean(previous)
        case "patience":
            return epoch - best_epoch >= recipe.patience
        case "never":
            return False
